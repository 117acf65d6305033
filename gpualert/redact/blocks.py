"""Cuts a long text into pieces that may be searched for secrets one by one: where lines end, and outside of keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

BLOCK_BYTES = 1 << 18
_LONG_LINE_BYTES = 4 << 20
_KEY_BYTES = 40_000


def whole_lines(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """
    Yield the same bytes in pieces that end where a line ends and no private key is open, so that no secret is torn.

    A line of more than 4 MiB is cut; a private key of more than 40 kB too.
    """
    kept = b""
    for block in blocks:
        piece = kept + block
        cut = _cut(piece)
        if not cut and len(piece) < _LONG_LINE_BYTES:
            kept = piece
            continue
        cut = cut or len(piece)
        kept = piece[cut:]
        yield piece[:cut]
    if kept:
        yield kept


def _cut(piece: bytes) -> int:
    """Return where to cut: after the last line, or before a private key that has no end yet; 0 for nowhere."""
    end = piece.rfind(b"\n") + 1
    begin = piece.rfind(b"-----BEGIN ", max(0, end - _KEY_BYTES))
    if begin >= 0 and piece.find(b"-----END ", begin, end) < 0:
        return piece.rfind(b"\n", 0, begin) + 1 or end
    return end
