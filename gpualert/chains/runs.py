"""The run directory of an attempt, among all others."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from gpualert.chains.record import Started
from gpualert.errors import RunDirError, UnsafeFileError
from gpualert.files import read_regular
from gpualert.model import Run
from gpualert.rundir import read_run
from gpualert.state import STAMP_LENGTH, run_paths

# The shim makes its run directory within a second; a machine under load gets some minutes.
_BEFORE_S, _AFTER_S = 120.0, 900.0
_START_BYTES = 64 << 10


def find_run(folders: Iterable[Path], chain: str, started: Started) -> Run | None:
    """
    Return the run that an attempt became: the first that calls itself so; None where there is none that can be read.

    Runs inside it call themselves so too, and are younger.
    """
    paths = run_paths(folders)
    first, last = _stamp(started.started_at - _BEFORE_S), _stamp(started.started_at + _AFTER_S)
    near = [path for path in paths if first <= path.name[:STAMP_LENGTH] <= last]
    rest = [path for path in paths if path not in set(near)]
    return next(_of_attempt([*near, *rest], chain, started.number), None)


def runs_of(folders: Iterable[Path], chain: str, number: int) -> list[Run]:
    """Return all runs that call themselves part of an attempt, oldest first."""
    return list(_of_attempt(run_paths(folders), chain, number))


def _of_attempt(paths: Iterable[Path], chain: str, number: int) -> Iterator[Run]:
    """Yield the runs of an attempt; only those whose record looks like it are read as a whole."""
    marks = (f"chain={chain}\n".encode(), f"attempt={number}\n".encode())
    for path in paths:
        try:
            if not all(mark in read_regular(path / "start", _START_BYTES) for mark in marks):
                continue
            run = read_run(path)
        except (OSError, UnsafeFileError, RunDirError):
            continue
        if run.start and run.start.chain == chain and run.start.attempt == number:
            yield run


def _stamp(at: float) -> str:
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(max(at, 0.0)))
