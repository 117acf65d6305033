"""TensorFlow and Keras."""

from __future__ import annotations

from typing import Any

from corpus.make.recipe import Recipe
from corpus.make.recipes.frameworks_base import program


def tensorflow(name: str, how: str, evidence: str, text: str, **more: Any) -> Recipe:
    """Return the recipe of a program in TensorFlow."""
    more = {"framework": "tensorflow", "uses": ("tensorflow-cpu", "keras"), **more}
    return program(name, how, evidence, "import numpy as np\nimport tensorflow as tf\n\n" + text, **more)


RECIPES = [
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
        evidence_alt=("DATA_LOSS: file is too short", "DataLossError: Unable to open table file"),
        settled="A second line shows it as well.",
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
