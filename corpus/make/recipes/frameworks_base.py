"""What the recipes of JAX, TensorFlow and Ray share."""

from __future__ import annotations

from typing import Any

from corpus.make.recipe import Recipe, produced

_QUIET = {"JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "1"}


def program(name: str, how: str, evidence: str, text: str, **more: Any) -> Recipe:
    """Return the recipe of a program, `train.py`, of a framework."""
    env = {**_QUIET, **more.pop("env", {})}
    command = more.pop("command", "python -u train.py")
    return produced(name, how, evidence, command, files={"train.py": text}, env=env, **more)
