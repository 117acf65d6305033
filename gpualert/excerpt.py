"""Reads the lines of a log that a message shows: those around the cause, and the last ones."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from gpualert.cleaning import Window
from gpualert.errors import GpualertError
from gpualert.files import open_regular
from gpualert.model import Evidence, LogFile

BEFORE_LINES, AFTER_LINES = 20, 8
# So much is read to either side: lines of any length, and secrets that began long before the first line shown.
_REACH_BYTES = 64 * 1024
_STEP_BYTES = 1 << 20

_Bytes = bytes | mmap.mmap


def read_windows(
    logs: Sequence[LogFile], root: Evidence | None, tail_lines: int
) -> tuple[tuple[Window, ...], tuple[str, ...]]:
    """
    Read what a message shows of each log: the lines around `root`, then the last `tail_lines`.

    Args:
        logs: The run's logs.
        root: The line that names the cause; None, or a line of none of `logs`, for the ends only.
        tail_lines: How many of the last lines; 0 for none.

    Returns:
        The windows, that of the root first, and a sentence for each log that could not be read.
    """
    windows: list[Window] = []
    problems: list[str] = []
    is_root = [root is not None and root.line > 0 and log.name == root.file for log in logs]
    for log, has_root in sorted(zip(logs, is_root, strict=True), key=lambda pair: not pair[1]):
        try:
            with _opened(log) as (data, end):
                windows += _windows(data, log, end, root if has_root else None, tail_lines)
        except (OSError, GpualertError) as error:
            problems.append(f"{log.name}: {error}")
    return tuple(windows), tuple(problems)


@contextmanager
def _opened(log: LogFile) -> Iterator[tuple[_Bytes, int]]:
    """Map a log; yield its bytes and the end of the run's own, its last line end not counted."""
    fd = open_regular(log.path)
    try:
        size = os.fstat(fd).st_size
        data: _Bytes = mmap.mmap(fd, size, access=mmap.ACCESS_READ) if size else b""
    finally:
        os.close(fd)
    end = max(log.start, size if log.end is None else min(log.end, size))
    try:
        yield data, end - (end > log.start and data[end - 1 : end] == b"\n")
    finally:
        if isinstance(data, mmap.mmap):
            data.close()


def _windows(data: _Bytes, log: LogFile, end: int, root: Evidence | None, tail_lines: int) -> list[Window]:
    tail = _tail(data, log, end, tail_lines)
    if root is None or root.line > tail.shown[1]:
        return [tail] if tail_lines else []
    at = _offset_of(data, root.line, end)
    low, high = max(log.start, at - _REACH_BYTES), min(end, at + _REACH_BYTES)
    first, cut = 1 + _newlines(data, 0, low), low > log.start
    from_line = max(root.line - BEFORE_LINES, first + cut)
    if root.line >= tail.first_line + tail.cut and root.line + AFTER_LINES + 1 >= tail.shown[0]:
        title, shown = f"{log.name} from line {from_line} to its end", (from_line, tail.shown[1])
        return [Window(title, data[low:end], first, shown, cut, root.line, root.text)]
    last_whole = first + _newlines(data, low, high) - (high < end)
    shown = (from_line, max(root.line, min(root.line + AFTER_LINES, last_whole)))
    around = Window(f"Around line {root.line} of {log.name}", data[low:high], first, shown, cut, root.line, root.text)
    return [around, tail] if tail_lines else [around]


def _tail(data: _Bytes, log: LogFile, end: int, tail_lines: int) -> Window:
    low = max(log.start, end - 2 * _REACH_BYTES)
    first, cut = 1 + _newlines(data, 0, low), low > log.start
    last = first + _newlines(data, low, end) if end > log.start else first - 1
    from_line = max(last - tail_lines + 1, min(first + cut, last))
    return Window(f"End of {log.name}", data[low:end], first, (max(from_line, first), last), cut)


def _offset_of(data: _Bytes, line: int, end: int) -> int:
    """Return where the line with that number begins, `end` where there are not so many."""
    missing, low = line - 1, 0
    while missing and low < end:
        high = min(low + _STEP_BYTES, end)
        step = data[low:high]
        found = step.count(b"\n")
        if found >= missing:
            for _ in range(missing):
                low = data.find(b"\n", low, high) + 1
            return low
        missing, low = missing - found, high
    return low


def _newlines(data: _Bytes, low: int, high: int) -> int:
    return sum(data[at : min(at + _STEP_BYTES, high)].count(b"\n") for at in range(low, high, _STEP_BYTES))
