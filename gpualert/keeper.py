"""Where no tick runs, one process stays until what was collected for a digest has been told."""

from __future__ import annotations

import os
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from gpualert.claims import is_locked, locked
from gpualert.config import Settings
from gpualert.errors import LockTimeoutError
from gpualert.notify.closing import next_close
from gpualert.notify.outbox import send_due
from gpualert.places import python_command
from gpualert.ticking import is_ticking

_LONGEST_SLEEP_S = 30.0  # a tick may have begun to run, or the state folder may be gone
_SEND_S = 60.0


def start_keeper(state: Path) -> None:
    """Start the keeper of a state folder where it has something to do; failing that, a later report does its work."""
    if next_close(state / "outbox") is None or is_locked(state / "locks" / "keeper"):
        return
    nothing = subprocess.DEVNULL
    with suppress(OSError):
        subprocess.Popen(
            python_command("outbox", "wait", str(state)),
            stdin=nothing,
            stdout=nothing,
            stderr=nothing,
            cwd="/",
            start_new_session=True,
        )


def keep(state: Path, settings: Settings) -> None:
    """Stay until nothing is collected any more, a tick runs, or another keeper is there already."""
    if next_close(state / "outbox") is None:
        return
    with suppress(LockTimeoutError, OSError), locked(state / "locks" / "keeper", 0):
        os.nice(10)
        while (closes_at := next_close(state / "outbox")) is not None and not is_ticking(state):
            time.sleep(min(max(closes_at - time.time(), 0.1), _LONGEST_SLEEP_S))
            if closes_at <= time.time():
                send_due(state, settings, time.time(), _SEND_S)
