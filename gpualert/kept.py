"""
Our own copy of output that is not ours to keep: Slurm empties a job's file when it runs the job again.

Source: sbatch(1), --open-mode: a requeued job truncates its output unless that is `append`.
"""

from __future__ import annotations

import os
from pathlib import Path

from gpualert.errors import UnsafeFileError
from gpualert.files import open_regular, write_atomically
from gpualert.model import Capture, Run, Stream

# Of the beginning and of the end.
KEPT_BYTES = 4 << 20
_COMPARED_BYTES = 4096
_GAP = b"\n[gpualert left out what stood here"


def keep(run: Run) -> list[str]:
    """
    Copy beginning and end of what a Slurm job that failed wrote into files of its own, once.

    Returns:
        What could not be copied, a sentence each.
    """
    if not run.start or not run.start.slurm_job_id or (run.exit and run.exit.status == 0):
        return []
    troubles = []
    for stream in run.streams:
        if stream.capture is not Capture.ADOPT or not stream.path or kept_path(run, stream).exists():
            continue
        try:
            data = head_and_tail(stream.path, stream.start, stream.end)
            if data:
                write_atomically(kept_path(run, stream), data)
        except (OSError, UnsafeFileError) as error:
            reason = getattr(error, "strerror", None) or getattr(error, "reason", None) or error
            troubles.append(f"{stream.path.name}: no copy could be kept: {reason}")
    return troubles


def kept_path(run: Run, stream: Stream) -> Path:
    """Return where our copy of a stream lies, if there is one."""
    return run.path / f"{stream.name}.kept"


def is_overwritten(run: Run, stream: Stream) -> bool:
    """Say whether we have a copy of a stream whose own file holds something else by now."""
    try:
        fd = open_regular(kept_path(run, stream))
    except (OSError, UnsafeFileError):
        return False
    with os.fdopen(fd, "rb") as file:
        copy = file.read()
    end = stream.start + len(copy) if stream.end is None and _GAP not in copy else stream.end
    if end is None or not stream.path:
        return True  # how much of the file is the run's was never known
    try:
        fd = open_regular(stream.path)
    except (OSError, UnsafeFileError):
        return True
    with os.fdopen(fd, "rb") as file:
        size_bytes = min(_COMPARED_BYTES, KEPT_BYTES, end - stream.start)
        file.seek(stream.start)
        head = file.read(size_bytes)
        file.seek(end - size_bytes)
        tail = file.read(size_bytes)
    return not (copy.startswith(head) and copy.endswith(tail) and len(head) == len(tail) == size_bytes)


def head_and_tail(path: Path, start: int = 0, end: int | None = None, owner: int | None = None) -> bytes:
    """
    Return a range of a file, without its middle where it is large; empty where it is gone already.

    Raises:
        UnsafeFileError, OSError: As `open_regular`.
    """
    with os.fdopen(open_regular(path, owner=owner), "rb") as file:
        size_bytes = os.fstat(file.fileno()).st_size
        end = size_bytes if end is None else end
        if end <= start or size_bytes < end:
            return b""
        file.seek(start)
        if end - start <= 2 * KEPT_BYTES:
            return file.read(end - start)
        head = file.read(KEPT_BYTES)
        file.seek(end - KEPT_BYTES)
        left_out = end - start - 2 * KEPT_BYTES
        return head + b"%s: %d bytes]\n" % (_GAP, left_out) + file.read(KEPT_BYTES)
