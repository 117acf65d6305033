"""What spools remember of runs: whose messages still wait, and what may be forgotten."""

from __future__ import annotations

from collections.abc import Set
from contextlib import suppress
from pathlib import Path


def runs_told_later(outbox: Path) -> set[str]:
    """Return the names of the runs whose messages wait, by themselves or for a digest."""
    paths = [*outbox.glob("*.json"), *outbox.glob("digests/*/new/*.json"), *outbox.glob("digests/*/telling/*.json")]
    return {_run_of(path) for path in paths}


def forget(outbox: Path, runs: Set[str], before: float) -> None:
    """
    Drop what is remembered of messages that went or were refused.

    Args:
        runs: The runs that are gone; what is remembered of them goes.
        before: What belongs to no run goes when it is older than that; in seconds since 1970 UTC.
    """
    for path in (*outbox.glob("sent/*"), *outbox.glob("dead/*"), *outbox.glob("threads/*")):
        with suppress(OSError):
            if _run_of(path) in runs or path.stat().st_mtime < before:
                path.unlink()


def _run_of(path: Path) -> str:
    return path.name.partition(".")[0]
