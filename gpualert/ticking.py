"""Whether ticks come by: what waits for one may wait for ever otherwise."""

from __future__ import annotations

import time
from pathlib import Path

from gpualert.claims import is_locked

TICK_AGE_S = 600.0


def ticked_at(state: Path) -> float | None:
    """Return when the last tick ended, in seconds since 1970 UTC; None where none ever did."""
    try:
        return (state / "locks" / "ticked").stat().st_mtime
    except OSError:
        return None


def is_ticking(state: Path) -> bool:
    """Say whether a tick has come by lately, or is at it."""
    last = ticked_at(state)
    lately = last is not None and time.time() - last < TICK_AGE_S
    return lately or is_locked(state / "locks" / "tick")
