"""Remove old runs: which may go is judged by pure functions, and what goes leaves one line of history."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpualert.config import Prune
from gpualert.errors import GpualertError, UnsafeFileError
from gpualert.files import read_regular
from gpualert.history import remember
from gpualert.jsonfiles import read_json

_REMOVED = ".removed-"


@dataclass(frozen=True)
class Kept:
    """
    A finished run on disk.

    Attributes:
        ended_at: Seconds since 1970 UTC.
        succeeded: Whether it is one of those that go early.
        size_bytes, inodes: What it takes on disk; an adopted log is not ours and not counted.
    """

    path: Path
    ended_at: float
    succeeded: bool
    size_bytes: int
    inodes: int


def to_remove(runs: Sequence[Kept], policy: Prune, now: float) -> list[Kept]:
    """
    Return the finished runs that may go, oldest first: those past their age, then as many as the caps demand.

    Where the caps demand it, successful runs go before failed ones.
    """
    runs = sorted(runs, key=lambda run: run.ended_at)
    past: list[Kept] = []
    rest: list[Kept] = []
    for run in runs:
        age_s = now - run.ended_at
        (past if age_s > (policy.succeeded_s if run.succeeded else policy.failed_s) else rest).append(run)
    size_bytes, inodes = sum(run.size_bytes for run in rest), sum(run.inodes for run in rest)
    for run in sorted(rest, key=lambda run: (not run.succeeded, run.ended_at)):
        if size_bytes <= policy.max_bytes and inodes <= policy.max_inodes:
            break
        past.append(run)
        size_bytes, inodes = size_bytes - run.size_bytes, inodes - run.inodes
    return past


def measure(path: Path) -> Kept | None:
    """Measure a finished run; None where it is gone or cannot be read."""
    try:
        found = [entry.lstat() for entry in (path, *path.rglob("*"))]
    except OSError:
        return None
    verdict = _json(path / "verdict.json")
    records = [path / name for name in ("exit", "verdict.json", "format") if (path / name).exists()]
    return Kept(
        path=path,
        ended_at=max((record.stat().st_mtime for record in records), default=0.0),
        succeeded=verdict.get("status") == "succeeded",
        size_bytes=sum(entry.st_blocks * 512 for entry in found),
        inodes=len(found),
    )


def remove(run: Kept, state: Path) -> None:
    """
    Remove a run; a line of history is on disk before anything of it goes.

    Raises:
        OSError: The history cannot be written, or the run not moved; it is still there.
    """
    verdict, evidence = _json(run.path / "verdict.json"), _json(run.path / "evidence.json")
    facts = evidence.get("facts")
    facts = facts if isinstance(facts, dict) else {}
    remember(
        state,
        run.path.name,
        {
            "ended_at": run.ended_at,
            "command": _command(run.path),
            "host": facts.get("host", ""),
            "exit_status": facts.get("status"),
            "duration_s": facts.get("duration_s"),
            **{key: verdict.get(key) for key in ("status", "class", "fingerprint", "exited_zero")},
        },
    )
    # Renamed first: nobody meets half a run.
    hidden = run.path.with_name(_REMOVED + run.path.name)
    run.path.rename(hidden)
    shutil.rmtree(hidden, ignore_errors=True)


def sweep(state: Path) -> None:
    """Remove what is left of runs whose removal was interrupted."""
    for path in (state / "runs").glob(f"{_REMOVED}*"):
        shutil.rmtree(path, ignore_errors=True)


def prune(state: Path, paths: Iterable[Path], policy: Prune, may_go: Callable[[Path], bool], now: float) -> list[Path]:
    """
    Remove what may go of the runs `paths` of a state folder.

    Args:
        may_go: Whether a run is finished and its message delivered; no other is touched.

    Returns:
        The removed runs, oldest first.
    """
    sweep(state)
    measured = [kept for path in paths if may_go(path) and (kept := measure(path))]
    removed = []
    for run in to_remove(measured, policy, now):
        remove(run, state)
        removed.append(run.path)
    return removed


def _json(path: Path) -> dict[str, Any]:
    try:
        return read_json(path)
    except (OSError, ValueError, GpualertError):
        return {}


def _command(path: Path) -> list[str]:
    """Return the first words of the command; no more than tell runs apart."""
    try:
        words = read_regular(path / "argv", 2000).split(b"\0")
    except (OSError, UnsafeFileError):
        return []
    return [os.fsdecode(word) for word in words[:8] if word]
