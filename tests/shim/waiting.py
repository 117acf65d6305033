"""Waiting for conditions, never for time to pass."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

DEADLINE_S = 20.0
STEP_S = 0.004

T = TypeVar("T")


def eventually(condition: Callable[[], T], what: str, deadline_s: float = DEADLINE_S) -> T:
    """Return the condition's first true value; fails, saying what was waited for, at the deadline."""
    end = time.monotonic() + deadline_s
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, f"waited {deadline_s:g} s in vain for {what}"
        time.sleep(STEP_S)


def settled(look: Callable[[], object], quiet_s: float = 0.1) -> None:
    """Return once what `look` sees has not changed for `quiet_s`: for promises that something does not happen."""
    seen, since = look(), time.monotonic()
    end = since + DEADLINE_S
    while time.monotonic() - since < quiet_s:
        time.sleep(STEP_S)
        now = look()
        if now != seen:
            seen, since = now, time.monotonic()
        assert since < end, "it never settles"


def stat_fields(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat from the state (field 3) on; empty when the process is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def is_alive(pid: int) -> bool:
    """Say whether the process exists and is no zombie."""
    fields = stat_fields(pid)
    return bool(fields) and fields[0] not in "ZX"
