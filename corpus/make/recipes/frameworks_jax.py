"""JAX and Flax."""

from __future__ import annotations

from typing import Any

from corpus.make.recipe import Recipe
from corpus.make.recipes.frameworks_base import program


def jax(name: str, how: str, evidence: str, text: str, **more: Any) -> Recipe:
    """Return the recipe of a program in JAX."""
    return program(name, how, evidence, text, **{"framework": "jax", "uses": ("jax",), **more})


RECIPES = [
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
