"""Runs inside a run: only the outermost sends a message, and it lists those inside that failed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from gpualert.errors import RunDirError
from gpualert.model import Run
from gpualert.rundir import read_run
from gpualert.state import STAMP_LENGTH, run_paths, state_of


def is_inner(run: Run) -> bool:
    """Say whether a run was started inside another whose report tells of it; one that outlived those tells itself."""
    return any(_tells_of(outer, run) for outer in outer_runs(run))


def outer_runs(run: Run) -> Iterator[Run]:
    """Yield the runs that `run` was started in, the innermost first; nothing after one that cannot be read."""
    seen = {run.path.name}
    found: Run | None = run
    while found and found.start and (name := found.start.parent_run_id) not in seen and _is_name(name):
        seen.add(name)
        if found := _read(run.path.with_name(name)):
            yield found


def _is_name(text: str) -> bool:
    return text not in ("", ".", "..") and "/" not in text and "\0" not in text


def _tells_of(outer: Run, run: Run) -> bool:
    """Say whether the report on `outer` comes after the end of `run`, by the clock of their file system."""
    # One that was reported as lost is not reported again.
    told_at = _written_at(outer.path, "exit", ".exit") if outer.exit else _written_at(outer.path, "claims/lost-done")
    if told_at is None:
        return True
    if not run.exit:
        return not outer.exit
    ended_at = _written_at(run.path, "exit", ".exit")
    return ended_at is None or ended_at <= told_at


def _written_at(run_path: Path, *names: str) -> int | None:
    """Return when the first of these files that exists was written, in ns; None where there is none."""
    for name in names:
        with suppress(OSError):
            return (run_path / name).lstat().st_mtime_ns
    return None


def inner_runs(run: Run) -> list[Run]:
    """Return the runs that were started inside `run`, and inside those, in the order of their start."""
    # A run's name begins with its time: none inside is older.  All are on one host, so its clock decides.
    stamp = run.run_id[:STAMP_LENGTH]
    paths = [path for path in run_paths([state_of(run.path)]) if path.name[:STAMP_LENGTH] >= stamp]
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
