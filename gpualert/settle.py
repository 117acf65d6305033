"""Wait until a run's logs are complete, and say which bytes of which files are its own."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from gpualert.bounded import within
from gpualert.errors import UnsafeFileError
from gpualert.files import open_regular
from gpualert.kept import is_overwritten, keep, kept_path
from gpualert.model import Capture, LogFile, Run, Stream
from gpualert.signals.process import has_open, is_alive, processes_of, this_machine
from gpualert.standing import same_pids

QUIET_S = 2.0
LIMIT_S = 20.0
_PAUSE_S = 0.01
_STUCK_S = 10.0


@dataclass(frozen=True)
class Logs:
    """
    The logs of a run.

    Attributes:
        files: Those that can be read, with the run's own range of bytes.
        not_read: What cannot, each with its reason.
    """

    files: tuple[LogFile, ...]
    not_read: tuple[str, ...] = ()


def settle(run: Run, limit_s: float = LIMIT_S, quiet_s: float = QUIET_S) -> Logs:
    """
    Return the logs of an ended run once nobody writes to them any more.

    A captured log is complete when its copying process is gone, an adopted one when no process of the run is left.
    Where some are left, we wait until they have been quiet for `quiet_s`, and never longer than `limit_s`.
    """
    try:
        return within(limit_s + _STUCK_S, lambda: _settled(run, limit_s, quiet_s))
    except TimeoutError:
        return Logs((), ("the logs: their file system does not answer",))


def _settled(run: Run, limit_s: float, quiet_s: float) -> Logs:
    left = _wait(run, limit_s, quiet_s)
    streams = [_extended(stream) if left else stream for stream in run.streams]
    not_kept = keep(run)
    logs = _logs(run, streams)
    return replace(logs, not_read=(*logs.not_read, *not_kept))


def readable_logs(run: Run) -> Logs:
    """Return the logs of a run as they are now, waiting for nobody."""
    return _logs(run, run.streams)


def _logs(run: Run, streams: Iterable[Stream]) -> Logs:
    overwritten = {stream.name for stream in run.streams if is_overwritten(run, stream)}
    found = [_kept(run, item) if item.name in overwritten else _own(item) for item in streams if item.path]
    found += [_log_file(str(path), path, 0, None) for path in _engine_logs(run)]
    remarks = [_uncaptured(stream) for stream in streams if not stream.path]
    remarks += [f"{name}: its file holds something else by now; our copy was read" for name in sorted(overwritten)]
    return Logs(
        tuple(log for log in found if isinstance(log, LogFile)),
        tuple(text for text in (*remarks, *found, *_capped(run)) if isinstance(text, str) and text),
    )


def _own(stream: Stream) -> LogFile | str:
    assert stream.path
    return _log_file(stream.path.name, stream.path, stream.start, stream.end)


def _kept(run: Run, stream: Stream) -> LogFile | str:
    """Return our copy of a stream's beginning and end, by the name of the file that it was copied from."""
    assert stream.path
    return _log_file(stream.path.name, kept_path(run, stream), 0, None)


def _wait(run: Run, limit_s: float, quiet_s: float) -> bool:
    """Wait; return whether somebody may still write."""
    began = changed = time.monotonic()
    sizes = _sizes(run.streams)
    while _has_writer(run):
        now = time.monotonic()
        if (found := _sizes(run.streams)) != sizes:
            sizes, changed = found, now
        if now - changed >= quiet_s or now - began >= limit_s:
            return True
        time.sleep(min(_PAUSE_S * (1 + int(now - began) * 10), 0.2))
    return False


def _sizes(streams: Iterable[Stream]) -> list[int]:
    return [_size(stream.path) if stream.path else 0 for stream in streams]


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _has_writer(run: Run) -> bool:
    """Say whether a process that we can see may still write to a log of the run."""
    if not run.start or not same_pids(run.start, this_machine()):
        return False
    if any(stream.tee_pid and is_alive(stream.tee_pid) for stream in run.streams):
        return True
    adopted = [stream.path for stream in run.streams if stream.capture is Capture.ADOPT and stream.path]
    return bool(adopted) and any(has_open(pid, adopted) for pid in processes_of(run.run_id))


def _extended(stream: Stream) -> Stream:
    """Take what was written after the job's death by those it left behind, unless strangers may have written it."""
    if stream.capture is not Capture.ADOPT or stream.shared:
        return stream
    return Stream(stream.name, stream.capture, stream.path, stream.start, None)


def _log_file(name: str, path: Path, start: int, end: int | None) -> LogFile | str:
    """Return a log that can be read, its end fixed; or why it cannot."""
    try:
        fd = open_regular(path)
    except UnsafeFileError as error:
        return f"{name}: {error.reason}"
    except OSError as error:
        return f"{name}: {error.strerror}"
    size_bytes = os.fstat(fd).st_size
    os.close(fd)
    if size_bytes < start:
        return f"{name}: it was cut off after the run: {size_bytes} bytes, and the run's begin at {start}"
    return LogFile(name, path, start, size_bytes if end is None else min(end, size_bytes))


def _uncaptured(stream: Stream) -> str:
    if stream.capture is Capture.ADOPT:
        return f"{stream.name}: the file it goes to was not recorded"
    if stream.capture is Capture.CLOSED:
        return ""
    return f"{stream.name}: it was not captured"


def _capped(run: Run) -> list[str]:
    """Say which of our copies have reached their cap."""
    limit = run.start.max_log_bytes if run.start else None
    if not limit:
        return []
    full = [stream for stream, size in zip(run.streams, _sizes(run.streams), strict=True) if size >= limit]
    reason = f"the middle of our copy was left out: it holds {limit} bytes (--max-log)"
    return [f"{stream.name}: {reason}" for stream in full if stream.tee_pid]


def _engine_logs(run: Run) -> list[Path]:
    """Return the log files that a workflow engine's job names, those of them that the run has changed."""
    paths = [Path(run.cwd, word) for word in run.engine.get("log", "").split()]
    return [path for path in paths if _changed_by(run, path)]


def _changed_by(run: Run, path: Path) -> bool:
    try:
        return run.start is not None and path.stat().st_mtime >= run.start.started_at - 1.0
    except (OSError, ValueError):
        return False
