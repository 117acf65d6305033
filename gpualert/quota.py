"""The size budget of a message: what fits once it is encoded for mail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_LINE_BYTES = 57  # Source: RFC 2045, section 6.8: at most 76 characters a line, that is 57 bytes.
_LINE_ENCODED = 78  # 76 characters and CRLF
_PART_HEADERS = 512  # boundary, type, disposition and an encoded file name


@dataclass(frozen=True)
class Budget:
    """
    What attachments may weigh, both counted after encoding.

    Attributes:
        per_file_bytes: The most that one attachment may take.
        total_bytes: The most that all attachments of a message may take.
    """

    per_file_bytes: int
    total_bytes: int

    def room_for_one(self, used_bytes: int = 0) -> int:
        """Return how many raw bytes one more attachment may have; 0 when there is no room."""
        return raw_limit(min(self.per_file_bytes, self.total_bytes - used_bytes))


def encoded_size(raw_bytes: int) -> int:
    """Return what an attachment of `raw_bytes` takes in a message: base64, line ends and its part's headers."""
    full, rest = divmod(raw_bytes, _LINE_BYTES)
    last = 4 * -(-rest // 3) + 2 if rest else 0
    return full * _LINE_ENCODED + last + _PART_HEADERS


def raw_limit(encoded_bytes: int) -> int:
    """Return the largest raw size whose `encoded_size` is at most `encoded_bytes`; 0 when not even headers fit."""
    body = encoded_bytes - _PART_HEADERS
    if body <= 0:
        return 0
    full, rest = divmod(body, _LINE_ENCODED)
    return full * _LINE_BYTES + max(0, rest - 2) // 4 * 3


def packing_order(sizes_bytes: Sequence[int]) -> list[int]:
    """Return the order of packing, as indexes: the small before the large, so that most go along."""
    return sorted(range(len(sizes_bytes)), key=lambda index: sizes_bytes[index])
