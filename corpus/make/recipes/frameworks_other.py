"""JAX, TensorFlow and Ray."""

from __future__ import annotations

from typing import Any

from corpus.make.recipe import Recipe, produced

_QUIET = {"JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "1"}


def program(name: str, how: str, evidence: str, text: str, **more: Any) -> Recipe:
    """Return the recipe of a program, `train.py`, of a framework."""
    env = {**_QUIET, **more.pop("env", {})}
    command = more.pop("command", "python -u train.py")
    return produced(name, how, evidence, command, files={"train.py": text}, env=env, **more)


def jax(name: str, how: str, evidence: str, text: str, **more: Any) -> Recipe:
    """Return the recipe of a program in JAX."""
    return program(name, how, evidence, text, **{"framework": "jax", "uses": ("jax",), **more})


def tensorflow(name: str, how: str, evidence: str, text: str, **more: Any) -> Recipe:
    """Return the recipe of a program in TensorFlow."""
    more = {"framework": "tensorflow", "uses": ("tensorflow-cpu", "keras"), **more}
    return program(name, how, evidence, "import numpy as np\nimport tensorflow as tf\n\n" + text, **more)


_RAY = """\
import os
import time

import ray

ray.init(num_cpus=2, include_dashboard=False, object_store_memory=80 << 20, _temp_dir="/tmp/ray",
         _node_ip_address="127.0.0.1")
"""


def ray(name: str, how: str, evidence: str, text: str, **more: Any) -> Recipe:
    """Return the recipe of a program in Ray."""
    env = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0"}
    more = {"framework": "ray", "uses": ("ray",), "env": env, "limit_s": 240, "pids": 4000, **more}
    return program(name, how, evidence, _RAY + text, **more)


_JAX = [
    jax(
        "shape_mismatch/jax_contraction",
        "A matrix product under jit of shapes that do not fit.",
        "dot_general requires contracting dimensions to have the same shape, got (4,) and (5,).",
        """\
import jax
import jax.numpy as jnp


@jax.jit
def predict(params, x):
    return jnp.tanh(x @ params["w"]) + params["b"]


params = {"w": jnp.ones((5, 2)), "b": jnp.zeros(2)}
print("devices:", jax.devices())
predict(params, jnp.ones((3, 4)))
""",
    ),
    jax(
        "shape_mismatch/flax_parameters",
        "Flax finds that saved parameters do not fit the input.",
        'For parameter "kernel" in "/", the given initializer is expected to generate shape (5, 3)',
        """\
import flax.linen as nn
import jax
import jax.numpy as jnp

model = nn.Dense(3)
params = model.init(jax.random.key(0), jnp.ones((1, 4)))
print("evaluating")
model.apply(params, jnp.ones((1, 5)))
""",
        uses=("jax", "flax"),
        class_alt=("checkpoint_mismatch",),
    ),
    jax(
        "traceback/jax_traced_condition",
        "A Python condition on a traced value; real steps before it, 1,100 lines.",
        "TracerBoolConversionError: Attempted boolean conversion of traced array",
        """\
import jax
import jax.numpy as jnp


@jax.jit
def step(w, x):
    return w - 0.01 * jax.grad(lambda w: jnp.mean((x @ w - 1) ** 2))(w)


w = jnp.zeros(4)
for number in range(1100):
    w = step(w, jnp.ones((2, 4)) * (number % 3))
    print(f"I step={number} w={float(w[0]):.5f}")


@jax.jit
def clip(w):
    return w if w[0] > 0 else -w


clip(w)
""",
    ),
    jax(
        "nan_loss/jax_debug_nans",
        "jax_debug_nans stops at the operation that makes NaN.",
        "FloatingPointError: invalid value (nan) encountered in",
        """\
import jax
import jax.numpy as jnp

jax.config.update("jax_debug_nans", True)
for step in range(10):
    x = jnp.linspace(0.1, 1, 8) - 0.02 * step
    print("step", step, "entropy", float(-(x * jnp.log(x)).sum()))
""",
    ),
    jax(
        "ram_oom/xla_on_a_cpu",
        "XLA cannot have 4 TB of host memory: the platform is a CPU.",
        "RESOURCE_EXHAUSTED: Out of memory allocating 4000000000000 bytes.",
        """\
import jax
import jax.numpy as jnp

print("devices:", jax.devices())
kernel = jnp.ones((10**6, 10**6)).block_until_ready()
""",
        class_alt=("cuda_oom",),
    ),
    jax(
        "dtype_mismatch/lax_add",
        "lax does not promote types.",
        "lax.add requires arguments to have the same dtypes, got float32, int32.",
        """\
import jax.numpy as jnp
from jax import lax

print("accumulating counts")
lax.add(jnp.ones(3), jnp.ones(3, dtype=int))
""",
        class_alt=("traceback",),
    ),
    jax(
        "dtype_mismatch/carry_of_a_scan",
        "The carry of lax.scan changes its type.",
        "scan body function carry input and carry output must have equal types",
        """\
import jax
import jax.numpy as jnp


def body(carry, x):
    return (carry + x).astype(jnp.bfloat16), x


jax.lax.scan(body, jnp.zeros(()), jnp.ones(16))
""",
        class_alt=("traceback",),
        evidence_alt=("so the dtypes do not match",),
    ),
    jax(
        "cuda_driver/jax_asked_for_a_gpu",
        "A program asks for the platform gpu on a machine that has none.",
        "Unknown backend: 'gpu' requested",
        "import jax\n\nprint(jax.devices('gpu'))\n",
        class_alt=("config_error", "runtime_error"),
        action="fix",
    ),
    jax(
        "checkpoint_mismatch/flax_state_dict",
        "A state of fewer parameters than the target has.",
        "The target dict keys and state dict keys do not match",
        """\
from flax import serialization

serialization.from_state_dict({"dense": 1, "head": 2}, {"dense": 1})
""",
        uses=("jax", "flax"),
    ),
]
_TENSORFLOW = [
    tensorflow(
        "shape_mismatch/tensorflow_matmul",
        "Two matrices that do not fit, eagerly.",
        "Matrix size-incompatible: In[0]: [2,3], In[1]: [4,5]",
        'print("TF", tf.__version__)\ntf.matmul(tf.ones((2, 3)), tf.ones((4, 5)))\n',
    ),
    tensorflow(
        "shape_mismatch/keras_input",
        "A Keras model is fitted to data of another width.",
        "Matrix size-incompatible: In[0]: [32,5], In[1]: [4,3]",
        """\
model = tf.keras.Sequential([tf.keras.layers.Input((4,)), tf.keras.layers.Dense(3)])
model.compile("sgd", "mse")
model.fit(np.ones((64, 4)), np.zeros((64, 3)), epochs=3)
model.fit(np.ones((64, 5)), np.zeros((64, 3)))
""",
    ),
    tensorflow(
        "dtype_mismatch/tensorflow_float_and_double",
        "A float32 and a float64 tensor are multiplied.",
        "was expected to be a float tensor but is a double tensor",
        "weights = tf.ones((3, 5), tf.float64)\ntf.matmul(tf.ones((2, 3)), weights)\n",
    ),
    tensorflow(
        "nan_loss/tensorflow_check_numerics",
        "check_numerics in a training step, after 1,200 lines of a training.",
        "loss : Tensor had NaN values",
        """\
import chatter

for line in chatter.training(1200, seed=91):
    print(line)
w = tf.Variable([-1.0])
loss = tf.math.log(w)
tf.debugging.check_numerics(loss, "loss")
""",
    ),
    tensorflow(
        "nan_loss/keras_terminates",
        "TerminateOnNaN ends the training with a word, and the status is 0.",
        "Invalid loss, terminating training",
        """\
model = tf.keras.Sequential([tf.keras.layers.Input((4,)), tf.keras.layers.Dense(3)])
model.compile(tf.keras.optimizers.SGD(1e20), "mse")
model.fit(np.random.rand(320, 4), np.zeros((320, 3)), epochs=5, verbose=2,
          callbacks=[tf.keras.callbacks.TerminateOnNaN()])
""",
    ),
    tensorflow(
        "ram_oom/tensorflow_on_a_cpu",
        "TensorFlow's CPU allocator cannot have 4 TB.",
        "OOM when allocating tensor with shape[1000000,1000000]",
        "print('building the kernel matrix')\ntf.ones((10**6, 10**6))\n",
        evidence_alt=("Allocator (mklcpu) ran out of memory",),
    ),
    tensorflow(
        "file_not_found/tensorflow_records",
        "A TFRecord file that is not there, in the middle of a data set.",
        "train-00001.tfrecord; No such file or directory",
        """\
with tf.io.TFRecordWriter("train-00000.tfrecord") as writer:
    for number in range(50):
        writer.write(b"x" * number)
for number, record in enumerate(tf.data.TFRecordDataset(["train-00000.tfrecord", "train-00001.tfrecord"])):
    print("record", number, len(record.numpy()))
""",
    ),
    tensorflow(
        "checkpoint_corrupt/tensorflow_table",
        "A checkpoint whose index is no table.",
        "RuntimeError: Unable to open table file",
        'open("ckpt-12.index", "w").write("garbage")\nprint("restoring ckpt-12")\n'
        'tf.train.load_checkpoint("ckpt-12.index")\n',
        evidence_alt=("DATA_LOSS: file is too short",),
    ),
    tensorflow(
        "checkpoint_corrupt/keras_weights",
        "A file of weights that is no HDF5 file.",
        "Unable to synchronously open file (file signature not found)",
        """\
model = tf.keras.Sequential([tf.keras.layers.Input((4,)), tf.keras.layers.Dense(3)])
open("best.weights.h5", "w").write("version https://git-lfs.github.com/spec/v1")
model.load_weights("best.weights.h5")
""",
    ),
    tensorflow(
        "checkpoint_mismatch/keras_weights",
        "Weights of a layer of another size.",
        "objects could not be loaded",
        """\
def build(units):
    return tf.keras.Sequential([tf.keras.layers.Input((4,)), tf.keras.layers.Dense(units)])


build(3).save_weights("best.weights.h5")
build(5).load_weights("best.weights.h5")
""",
        evidence_alt=("The shape of the target variable and the shape of the target value",),
    ),
    tensorflow(
        "assertion/tensorflow_debugging",
        "tf.debugging.assert_equal.",
        "InvalidArgumentError: batch sizes differ between towers",
        'tf.debugging.assert_equal(tf.constant(32), tf.constant(31), message="batch sizes differ between towers")\n',
        class_alt=("traceback",),
        evidence_alt=("Condition x == y did not hold",),
    ),
]
_WORKERS = [
    ray(
        "div_zero/ray_task",
        "A remote task divides by zero: the driver raises RayTaskError(ZeroDivisionError).",
        "ZeroDivisionError: ",
        """

@ray.remote
def mean(values):
    return sum(values) / len(values)


print(ray.get([mean.remote([1, 2]), mean.remote([])]))
""",
    ),
    ray(
        "segfault/ray_worker",
        "A worker dies by SIGSEGV while it executes a task.",
        "WorkerCrashedError: The worker died unexpectedly while executing this task.",
        """

@ray.remote(max_retries=0)
def decode(index):
    import ctypes

    return ctypes.string_at(8)


print(ray.get(decode.remote(7)))
""",
        class_alt=("traceback",),
    ),
    ray(
        "traceback/ray_actor_gone",
        "An actor's process exits; the next call finds that it is dead.",
        "ActorDiedError: The actor died unexpectedly before finishing this task.",
        """

@ray.remote
class Learner:
    def step(self, number):
        if number == 3:
            os._exit(1)
        return number


learner = Learner.remote()
for number in range(5):
    print("step", ray.get(learner.step.remote(number)), flush=True)
""",
        class_alt=("unknown", "dataloader_worker"),
    ),
    ray(
        "hang/ray_get_times_out",
        "ray.get with a time-out on a task that never ends.",
        "GetTimeoutError: Get timed out: some object(s) not ready.",
        """

@ray.remote
def rollout():
    time.sleep(600)


ray.get(rollout.remote(), timeout=5)
""",
        class_alt=("traceback",),
    ),
    ray(
        "shape_mismatch/ray_task_with_numpy",
        "A remote task multiplies matrices that do not fit, behind 1,100 lines of progress.",
        "ValueError: matmul: Input operand 1 has a mismatch in its core dimension 0",
        """

@ray.remote
def layer(number):
    import numpy as np

    width = 5 if number == 1100 else 4
    return float((np.ones((2, 4)) @ np.ones((width, 2))).sum())


for number in range(1200):
    print(f"iteration {number}: reward {ray.get(layer.remote(number)):.2f}", flush=True)
""",
        class_alt=("traceback",),
        uses=("ray", "numpy"),
    ),
    ray(
        "missing_module/ray_worker",
        "A module that the workers do not have.",
        "ModuleNotFoundError: No module named 'gymnasium_robotics'",
        """

@ray.remote
def simulate(seed):
    import gymnasium_robotics

    return gymnasium_robotics.__version__


ray.get([simulate.remote(seed) for seed in range(4)])
""",
    ),
]

RECIPES = [*_JAX, *_TENSORFLOW, *_WORKERS]
