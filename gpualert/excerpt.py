"""Reads the lines of a log that a message shows: those around the cause, and the last ones."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from gpualert.cleaning import Window
from gpualert.errors import GpualertError
from gpualert.files import open_regular
from gpualert.model import Evidence, LogFile

BEFORE_LINES, AFTER_LINES = 20, 8
# So much is read to either side: lines of any length, and secrets that began long before the first line shown.
_REACH_BYTES = 64 * 1024
_STEP_BYTES = 1 << 20


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
            with _opened(log) as opened:
                windows += _windows(opened, root if has_root else None, tail_lines)
        except (OSError, GpualertError) as error:
            problems.append(f"{log.name}: {error}")
    return tuple(windows), tuple(problems)


@dataclass
class _Log:
    """
    An open log.

    Attributes:
        start, end: The run's own bytes; the last line end is not counted.
    """

    name: str
    fd: int
    start: int
    end: int

    def read(self, low: int, high: int) -> bytes:
        """Return the bytes from `low` to `high`, fewer where the file has become shorter."""
        return os.pread(self.fd, high - low, low)

    def number(self, offset: int) -> int:
        """Return the number of the line at `offset`, counted from the file's first byte as an editor does."""
        step = offset // _STEP_BYTES
        before = self._counts[step] if step else 0
        return 1 + before + self.read(step * _STEP_BYTES, offset).count(b"\n")

    def offset(self, number: int) -> int:
        """Return where the line with that number begins; there must be so many."""
        step = max((i for i, count in enumerate(self._counts) if count < number - 1), default=0)
        missing = number - 1 - self._counts[step]
        data, at = self.read(step * _STEP_BYTES, (step + 1) * _STEP_BYTES), 0
        for _ in range(missing):
            at = data.find(b"\n", at) + 1
        return step * _STEP_BYTES + at

    @cached_property
    def _counts(self) -> list[int]:
        """Count the line ends before each step of the file; it is read only once."""
        steps = range(0, self.end, _STEP_BYTES)
        return list(accumulate((self.read(at, at + _STEP_BYTES).count(b"\n") for at in steps), initial=0))


@contextmanager
def _opened(log: LogFile) -> Iterator[_Log]:
    fd = open_regular(log.path)
    try:
        size = os.fstat(fd).st_size
        end = max(log.start, size if log.end is None else min(log.end, size))
        ended = end > log.start and os.pread(fd, 1, end - 1) == b"\n"
        yield _Log(log.name, fd, log.start, end - ended)
    finally:
        os.close(fd)


def _windows(log: _Log, root: Evidence | None, tail_lines: int) -> list[Window]:
    tail = _tail(log, tail_lines)
    if root is None or root.line > tail.shown[1]:
        return [tail] if tail_lines else []
    at = log.offset(root.line)
    low, high = max(log.start, at - _REACH_BYTES), min(log.end, at + _REACH_BYTES)
    first, cut = log.number(low), low > log.start
    from_line = max(root.line - BEFORE_LINES, first + cut)
    if root.line >= tail.first_line + tail.cut and root.line + AFTER_LINES + 1 >= tail.shown[0]:
        title, shown = f"{log.name} from line {from_line} to its end", (from_line, tail.shown[1])
        return [Window(title, log.read(low, log.end), first, shown, cut, root.line, root.text)]
    data = log.read(low, high)
    last_whole = first + data.count(b"\n") - (high < log.end)
    shown = (from_line, max(root.line, min(root.line + AFTER_LINES, last_whole)))
    around = Window(f"Around line {root.line} of {log.name}", data, first, shown, cut, root.line, root.text)
    return [around, tail] if tail_lines else [around]


def _tail(log: _Log, tail_lines: int) -> Window:
    low = max(log.start, log.end - 2 * _REACH_BYTES)
    data = log.read(low, log.end)
    first, cut = log.number(low), low > log.start
    last = first + data.count(b"\n") if log.end > log.start else first - 1
    from_line = max(last - tail_lines + 1, min(first + cut, last))
    return Window(f"End of {log.name}", data, first, (max(from_line, first), last), cut)
