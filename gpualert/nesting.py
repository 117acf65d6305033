"""Runs inside a run: only the outermost sends a message, and it lists those inside that failed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gpualert.errors import RunDirError
from gpualert.model import Run
from gpualert.rundir import read_run
from gpualert.state import run_paths, state_of

_STAMP_LENGTH = len("20261129T145138Z")


def is_inner(run: Run) -> bool:
    """Say whether a run was started inside another that was still under way."""
    return bool(run.start and run.start.parent_run_id)


def inner_runs(run: Run) -> list[Run]:
    """Return the runs that were started inside `run`, and inside those, in the order of their start."""
    # A run's name begins with its time: none inside is older.  All are on one host, so its clock decides.
    stamp = run.run_id[:_STAMP_LENGTH]
    paths = [path for path in run_paths([state_of(run.path)]) if path.name[:_STAMP_LENGTH] >= stamp]
    return _descendants(run.run_id, [found for path in paths if (found := _read(path))])


def _read(path: Path) -> Run | None:
    try:
        return read_run(path)
    except RunDirError:
        return None  # its own report says so


def _descendants(run_id: str, runs: Sequence[Run]) -> list[Run]:
    """Return the runs below `run_id`; the records of a cycle, which a copied folder may hold, are followed once."""
    below, found = {run_id}, []
    for run in sorted(runs, key=lambda run: run.start.started_at if run.start else 0.0):
        if run.start and run.start.parent_run_id in below and run.run_id not in below:
            below.add(run.run_id)
            found.append(run)
    return found
