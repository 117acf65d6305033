"""Finds private keys: many lines, or one with escaped line ends; whole, cut off, or amid what others wrote."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpualert.redact.spans import PLACED, Span, occurrences

_KEY_BYTES = 40_000  # the longest key that we follow, with what others wrote between its lines

_LABEL = rb" (?:[A-Z0-9]{1,12} ){0,4}PRIVATE KEY(?: BLOCK)?-----"
_BEGIN, _END = re.compile(b"-----BEGIN" + _LABEL), re.compile(b"-----END" + _LABEL)
_WHOLE = re.compile(rb"[\sA-Za-z0-9+/=\\]*")
_RUN = re.compile(rb"[A-Za-z0-9+/=]{16,}")
_CLOSING = rb"[\"'\\nr,)| \t\r]{0,12}"
# A line of a key: whatever a launcher or a logger put before it, base64 up to its end.
_LINE = re.compile(rb"(?:.{0,200}?(?<![A-Za-z0-9+/=]))?(?P<run>[A-Za-z0-9+/=]{40,76})" + _CLOSING)
_SHORT_LINE = re.compile(rb"(?P<run>=?[A-Za-z0-9+/]{1,75}={0,2})" + _CLOSING)
_REST = re.compile(rb"[A-Za-z0-9+/]{1,75}={0,2}[ \t\r]{0,3}\Z")
_OTHERS = 8  # lines of others in a row after which a key that has no end is over


def private_keys(data: bytes) -> Iterator[Span]:
    """Yield where the bodies of private keys lie; their BEGIN and END lines, and what others wrote between, stay."""
    closed = set()
    for at in occurrences(data, b"-----BEGIN "):
        if begin := _BEGIN.match(data, at):
            mark = data.find(b"-----", begin.end(), begin.end() + _KEY_BYTES)
            limit = mark if mark >= 0 else min(len(data), begin.end() + _KEY_BYTES)
            closed.add(mark)
            yield from _body(data, begin.end(), limit, ended=data.startswith(b"-----END ", limit))
    for at in occurrences(data, b"-----END "):
        if at not in closed and _END.match(data, at):
            yield from _headless(data, at)


def _body(data: bytes, start: int, limit: int, *, ended: bool) -> Iterator[Span]:
    """Yield the parts of a key between its BEGIN line and its END, or what may hold it where there is no END."""
    if data.startswith(PLACED, start) or start == limit:
        return
    if ended and _WHOLE.fullmatch(data, start, limit):
        yield start, limit
        return
    prefix, others, at = b"", 0, start
    while at < limit and others < _OTHERS:
        stop = data.find(b"\n", at, limit)
        end = stop if stop >= 0 else limit
        runs = [run.span() for run in _RUN.finditer(data, at, end)]
        yield from runs
        if runs:
            prefix, others = data[at : runs[0][0]], 0
        elif ended and data.startswith(prefix, at) and (short := _SHORT_LINE.fullmatch(data, at + len(prefix), end)):
            yield short.span("run")
        else:
            others += not ended
        at = end + 1


def _headless(data: bytes, end: int) -> Iterator[Span]:
    """Yield the lines of a key whose beginning was cut off: above its END line, the last of them may be short."""
    start = data.rfind(b"\n", max(0, end - 300), end) + 1
    short: Span | None = None
    while start > 0 and end - start < _KEY_BYTES:
        above = data.rfind(b"\n", max(0, start - 400), start - 1) + 1
        if data.find(b"-----", above, start) >= 0:
            return
        if line := _LINE.fullmatch(data, above, start - 1):
            yield line.span("run")
            if short:  # only now is it known to be a key's
                yield short
        elif above < start - 1 and short is None and (rest := _REST.search(data, max(above, start - 80), start - 1)):
            short = rest.span()
        else:
            return
        start = above
