"""Run directories of a workflow engine's jobs, for tests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rundirs import RunBuilder, items

from gpualert.engine_attempts import job_key

WORKFLOW = "20261129T145000Z-0a1b2c3d"
WILDCARDS = {"sample": "A"}
KEY = job_key("train", WILDCARDS)

# Logs, each won by one class beyond doubt.
LOGS = {
    "cuda_oom": b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of"
    b" 79.15 GiB of which 1.12 GiB is free.\n",
    "ram_oom": b'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\nMemoryError\n',
    "file_not_found": b'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n'
    b"FileNotFoundError: [Errno 2] No such file or directory: 'data/a.csv'\n",
    "gpu_hardware": b"RuntimeError: CUDA error: uncorrectable ECC error encountered\n",
}


def engine_run(make_run: RunBuilder, number: int, failure_class: str, **changes: Any) -> Path:
    """
    Make the run of one attempt of a job; `changes` may give `engine`, and what the builder takes.

    Args:
        number: The attempt, and a part of the run's name.
        failure_class: Whose log it has; "" where `changes` gives one.
    """
    engine = {"name": "snakemake", "workflow": WORKFLOW, "key": KEY, "rule": "train", "wildcards": "sample=A"}
    engine |= {"jobid": "3", "attempt": str(number), "log": "", **changes.pop("engine", {})}
    changes = {"log": LOGS.get(failure_class), **changes}
    path = make_run(f"20261129T14513{number}Z-node03-3f9a1c2e", **changes)
    (path / "engine").write_bytes(items(f"{key}={value}" for key, value in engine.items()))
    return path


def lines(state: Path, key: str = KEY) -> list[Mapping[str, Any]]:
    """Return what stands in the records of a job."""
    text = (state / "workflows" / WORKFLOW / f"{key}.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def gate(state: Path, key: str = KEY) -> Path:
    """Return where the gate of a job is, or would be."""
    return state / "gates" / WORKFLOW / key
