"""Ray: tasks and actors that fail."""

from __future__ import annotations

from typing import Any

from corpus.make.recipe import Recipe
from corpus.make.recipes.frameworks_base import program

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


RECIPES = [
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
        "unknown/ray_actor_gone",
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
        class_alt=("traceback", "dataloader_worker"),
        settled="traceback, fix became unknown, once: nothing in the log says why the process went.",
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
