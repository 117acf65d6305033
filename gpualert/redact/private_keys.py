"""Finds private keys: many lines, or one with escaped line ends; whole, or with an end cut off."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpualert.redact.spans import PLACED, Span, occurrences

_KEY_BYTES = 20_000  # the longest key we follow

_LABEL = rb" (?:[A-Z0-9]{1,12} ){0,4}PRIVATE KEY(?: BLOCK)?-----"
_BEGIN, _END = re.compile(b"-----BEGIN" + _LABEL), re.compile(b"-----END" + _LABEL)
_BODY = re.compile(rb"(?:(?:\s|\\[nr]){0,4}[A-Za-z0-9+/=]{16,})+")
_LINE = re.compile(rb"[ \t]*[A-Za-z0-9+/=]{4,76}[ \t\r]*")
_RUN = re.compile(rb"[A-Za-z0-9+/=]{16,}")
_OTHER_LINES = 6  # headers, blank lines and a short last line


def private_keys(data: bytes) -> Iterator[Span]:
    """Yield where the bodies of private keys lie; their BEGIN and END lines stay."""
    closed = set()
    for at in occurrences(data, b"-----BEGIN "):
        if begin := _BEGIN.match(data, at):
            end = _key_end(data, begin.end())
            closed.add(end)
            if end > begin.end() and not data.startswith(PLACED, begin.end()):
                yield begin.end(), end
    for at in occurrences(data, b"-----END "):
        if at not in closed and _END.match(data, at):
            yield from _headless_key(data, at)


def _key_end(data: bytes, start: int) -> int:
    """Return where the key that begins at `start` ends: at its END line, or where base64 does if that was cut off."""
    end = data.find(b"-----", start, start + _KEY_BYTES)
    if end >= 0 and data.startswith(b"-----END ", end):
        others = sum(not _RUN.search(line) for line in data[start:end].split(b"\n"))
        if others <= _OTHER_LINES:
            return end
    body = _BODY.match(data, start)
    return body.end() if body else start


def _headless_key(data: bytes, end: int) -> Iterator[Span]:
    """Find a key whose beginning was cut off: the lines of base64 above its END line."""
    start = end
    while start > 0 and end - start < _KEY_BYTES:
        above = data.rfind(b"\n", max(0, start - 80), start - 1) + 1
        if not _LINE.fullmatch(data, above, start - 1):
            break
        start = above
    if start < end:
        yield start, end - 1
