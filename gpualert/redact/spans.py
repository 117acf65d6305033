"""What the detectors of secrets share."""

from __future__ import annotations

from collections.abc import Iterator

PLACEHOLDER = "[redacted]"
PLACED = PLACEHOLDER.encode()

Span = tuple[int, int]


def occurrences(data: bytes, text: bytes) -> Iterator[int]:
    """Yield where `text` stands in `data`; occurrences do not overlap."""
    at = data.find(text)
    while at >= 0:
        yield at
        at = data.find(text, at + len(text))
