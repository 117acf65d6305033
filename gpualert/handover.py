"""
What the shim starts when a run has ended.

Hundreds of runs may end at once on one node: here, before anything large is imported, all but a few wait their turn.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

_FLAGS = {"--wait", "--unknown", "--until", "verdict"}
# A post takes a third of a second; whoever waited that long goes on beside the others: crowded is better than silent.
_PATIENCE_S = 300.0
_WAITING_PATIENCE_S = 3.0
_PAUSE_S = 0.05
_MOST_PLACES = 8


def main(words: Sequence[str]) -> int | None:
    """
    Report a run as the shim asks for it: `[--wait] [--until verdict] [--unknown] /RUN/DIRECTORY`.

    Returns:
        The exit status; None for other words, which are for the command line's `post`.
    """
    *flags, path = words or [""]
    if not path.startswith("/") or not set(flags) <= _FLAGS:
        return None
    _leave_the_job()
    with turn(path, _WAITING_PATIENCE_S if "--wait" in flags else _PATIENCE_S):
        return _post(path, flags)


def _post(path: str, flags: Sequence[str]) -> int:
    from pathlib import Path

    from gpualert.errors import GpualertError
    from gpualert.post import note, post

    # The shim, and nobody else, starts us in the run directory; what it hands down is the job's environment.
    environ = os.environ if os.path.realpath(path) == os.getcwd() else None  # noqa: PTH109
    until_verdict, unknown = "--until" in flags, "--unknown" in flags
    try:
        post(Path(path), wait="--wait" in flags, until_verdict=until_verdict, unknown=unknown, environ=environ)
    except GpualertError as error:
        note(Path(path), str(error))
        return 1
    except Exception as error:
        note(Path(path), f"{type(error).__name__}: {error}")
        raise  # the traceback goes to stderr, which the shim has pointed at post.log
    return 0


def _leave_the_job() -> None:
    """Let go of what a process inherits from its job: descriptors that would keep a pipe open, and its umask."""
    os.umask(0o077)
    try:
        inherited = [int(name) for name in os.listdir("/proc/self/fd") if int(name) > 2]  # noqa: PTH208
    except OSError:
        return
    for fd in inherited:
        try:
            os.close(fd)
        except OSError:
            continue  # the one that listed them


@contextmanager
def turn(run_path: str, patience_s: float) -> Iterator[None]:
    """
    Wait for one of a few places among the posts of this host and state folder.

    Args:
        run_path: The run directory; the places are files in its state folder's `locks/`.
        patience_s: The longest wait; after it, or where there can be no places, one goes on without.
    """
    state = os.path.dirname(os.path.dirname(run_path.rstrip("/")))  # noqa: PTH120
    ends = time.monotonic() + patience_s
    fd = None
    while (fd := _take_place(state)) is None and time.monotonic() < ends:
        time.sleep(_PAUSE_S)
    try:
        yield
    finally:
        if fd is not None and fd >= 0:
            os.close(fd)


def _take_place(state: str) -> int | None:
    """Return the descriptor of a place that is held now; None where all are taken, -1 where there can be none."""
    for number in range(min(os.cpu_count() or 1, _MOST_PLACES)):
        name = f"{state}/locks/post-{os.uname().nodename}-{number}"
        try:
            os.makedirs(f"{state}/locks", 0o700, exist_ok=True)  # noqa: PTH103
            fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError:
            return -1
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return fd
        except BlockingIOError:
            os.close(fd)
        except OSError:
            os.close(fd)
            return -1
    return None
