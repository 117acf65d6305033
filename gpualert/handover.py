"""
What the shim starts when a run has ended.

Hundreds of runs may end at once on one node: here, before anything large is imported, all but a few wait their turn.
"""

from __future__ import annotations

import fcntl
import os
import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

_FLAGS = {"--wait", "--unknown", "--until", "verdict", "--alone"}
# A post takes a third of a second; whoever waited that long goes on beside the others: crowded is better than silent.
_PATIENCE_S = 300.0
_WAITING_PATIENCE_S = 3.0
_PAUSE_S = 0.05
_MOST_PLACES = 8


def main(words: Sequence[str]) -> int | None:
    """
    Report a run as the shim or a tick asks for it: `[--wait] [--until verdict] [--unknown] [--alone] /RUN/DIRECTORY`.

    With `--alone` the group that the run belongs to is left to another time.

    Returns:
        The exit status; None for other words, which are for the command line's `post`.
    """
    *flags, path = words or [""]
    if not path.startswith("/") or not set(flags) <= _FLAGS:
        return None
    _leave_the_job()
    return _post(Path(path), flags)


def _post(path: Path, flags: Sequence[str]) -> int:
    from gpualert.errors import GpualertError

    try:
        _report(path, flags)
    except GpualertError as error:
        _note(path, str(error))
        return 1
    except Exception as error:
        _note(path, f"{type(error).__name__}: {error}")
        raise  # the traceback goes to stderr, which the shim has pointed at post.log
    return 0


def _report(path: Path, flags: Sequence[str]) -> None:
    """Report a run in its turn; then its group, whose members are waited for in no place: they may need it."""
    began, wait = time.monotonic(), "--wait" in flags
    group: Path | None = path
    if path.parent.name != "groups":
        with turn(path, _WAITING_PATIENCE_S if wait else _PATIENCE_S):
            from gpualert.post import report_run

            environ = os.environ if _started_in(path) else None
            until_verdict, unknown = "--until" in flags, "--unknown" in flags
            group = report_run(path, wait=wait, until_verdict=until_verdict, unknown=unknown, environ=environ)
    if group and "--alone" not in flags:
        from gpualert.group.post import report_group

        member = None if group == path else path
        report_group(group, member=member, wait=wait, began=began if wait else None)


def _note(path: Path, trouble: str) -> None:
    from gpualert.mailing import note

    note(path, trouble)


def _started_in(run_path: Path) -> bool:
    """Say whether we run in the run directory: only the shim does that, and hands down the job's environment."""
    try:
        return run_path.samefile(".")
    except OSError:
        return False


def _leave_the_job() -> None:
    """Let go of what a process inherits from its job: descriptors that would keep a pipe open, and its umask."""
    os.umask(0o077)
    # The shells start us with these ignored; our session is our own by now, and what we start should be ordinary.
    for number in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    try:
        inherited = [int(entry.name) for entry in Path("/proc/self/fd").iterdir() if int(entry.name) > 2]
    except OSError:
        return
    for fd in inherited:
        with suppress(OSError):  # the one that listed them is gone already
            os.close(fd)


@contextmanager
def turn(run_path: Path, patience_s: float) -> Iterator[None]:
    """
    Wait for one of a few places among the posts of this host and state folder.

    Args:
        run_path: The run directory; the places are files in its state folder's `locks/`.
        patience_s: The longest wait; after it, or where there can be no places, one goes on without.
    """
    ends = time.monotonic() + patience_s
    fd = None
    with suppress(OSError):  # no folder for them, or no locks: nobody can wait for a place
        places = _places(run_path.parent.parent)
        while places and (fd := _take_one(places)) is None and time.monotonic() < ends:
            time.sleep(_PAUSE_S)
    try:
        yield
    finally:
        if fd is not None:
            os.close(fd)


def _places(state: Path) -> list[Path]:
    """Return the places of this host; none outside a state folder."""
    if not (state / "runs").is_dir():
        return []
    (state / "locks").mkdir(mode=0o700, exist_ok=True)
    count = min(os.cpu_count() or 1, _MOST_PLACES)
    return [state / "locks" / f"post-{os.uname().nodename}-{number}" for number in range(count)]


def _take_one(places: Iterable[Path]) -> int | None:
    """Return the descriptor of a place that is ours now; None where all are taken."""
    for place in places:
        fd = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
        except OSError:
            os.close(fd)
            raise
        else:
            return fd
    return None
