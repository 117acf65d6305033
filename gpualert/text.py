"""Strangers' text made safe to show: in a terminal, in a mail header, in a list."""

from __future__ import annotations

import unicodedata

# Control, format (bidi overrides, zero width), surrogate, private, unassigned; line and paragraph separators.
_UNPRINTABLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


def printable(text: str, limit: int | None = None) -> str:
    """
    Return `text` with everything that is not plainly visible written as an escape.

    The result is one line without control characters, bidi overrides or lone surrogates, and encodes as UTF-8.

    Args:
        text: Any text; bytes of a file name that are no UTF-8 arrive as lone surrogates and become `\\xff`.
        limit: The longest result in characters; the middle is cut out.  None never cuts.
    """
    shown = text if text.isascii() and text.isprintable() else "".join(map(_escape, text))
    return shown if limit is None else shorten(shown, limit)


def shorten(text: str, limit: int) -> str:
    """Return `text` in at most `limit` characters, its middle replaced by an ellipsis."""
    if len(text) <= limit:
        return text
    head = (limit - 1) // 2
    tail = limit - 1 - head
    return text[:head] + "…" + (text[-tail:] if tail > 0 else "")


def _escape(character: str) -> str:
    if character in _SHORT:
        return _SHORT[character]
    if unicodedata.category(character) not in _UNPRINTABLE:
        return character
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that os.fsdecode could not decode
        return f"\\x{code - 0xDC00:02x}"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
