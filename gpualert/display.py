"""Text from strangers, sizes, lengths of time and instants, made fit to be shown to a person."""

from __future__ import annotations

import re
import unicodedata
from datetime import datetime, timezone, tzinfo

# Source: ECMA-48, section 8.3.117, "select graphic rendition".
_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
# Control, format (direction marks, zero width), surrogate, private, unassigned; line and paragraph separators.
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_NAMED = {"\n": r"\n", "\r": r"\r"}
_UNITS_S = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))


def visible(text: str) -> str:
    """
    Return `text` as one line in which nothing hides, moves or reorders; it always encodes as UTF-8.

    Colours are dropped and tabs become spaces, as on a terminal; whatever else cannot be seen is spelled out:
    `\\x1b`, `\\u202e`, and `\\xff` for a byte of a file name that is no UTF-8.
    """
    if text.isascii() and text.isprintable():
        return text
    return _COLOUR.sub("", text).expandtabs(4).translate(_SPELLED)


class _Spelled(dict[int, str]):
    """How each character is shown; characters are looked up as they come."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        hidden = unicodedata.category(character) in _HIDDEN
        self[code] = _NAMED.get(character) or (_escape(code) if hidden else character)
        return self[code]


_SPELLED = _Spelled()


def _escape(code: int) -> str:
    if 0xDC80 <= code <= 0xDCFF:  # a byte that os.fsdecode could not decode
        return f"\\x{code - 0xDC00:02x}"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def shorten(text: str, limit: int) -> str:
    """
    Return `text` in at most `limit` characters, its middle replaced by an ellipsis.

    From a limit of 120 on, the ellipsis says how many characters went, give or take the width of that number.
    """
    if len(text) <= limit:
        return text
    gap = "…"
    if limit >= 120:
        gap = " [... 1,234 characters left out ...] "
        gap = f" [... {len(text) - limit + len(gap):,} characters left out ...] "
    tail = (limit - len(gap)) // 3
    return text[: limit - len(gap) - tail] + gap + text[len(text) - tail :]


def size(n_bytes: float) -> str:
    """Return a size as people read it: `812 B`, `1.5 MB`; powers of ten, as the settings count."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(n_bytes) < 999.5:
            return f"{n_bytes:.0f} {unit}" if unit == "B" or n_bytes >= 99.95 else f"{n_bytes:.1f} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.1f} TB"


def duration(seconds: float) -> str:
    """Return a length of time in its two largest units: `2d 4h`, `3h 12m`, `45s`, `0.4s`."""
    if seconds < 9.95:
        return f"{max(seconds, 0.0):.1f}s"
    rest_s = round(seconds)
    parts = []
    for unit, unit_s in _UNITS_S:
        count, rest_s = divmod(rest_s, unit_s)
        parts.append((count, unit))
    first = next(i for i, (count, _) in enumerate(parts) if count)
    return " ".join(f"{count}{unit}" for count, unit in parts[first : first + 2] if count)


def instant(at_s: float, zone: tzinfo | None = None) -> str:
    """
    Return an instant in UTC and on the local clock: `2026-11-29 14:51:38 UTC (15:51:38 CET)`.

    Args:
        at_s: Seconds since 1970 UTC.
        zone: The local time zone; None asks the system.
    """
    utc = datetime.fromtimestamp(at_s, timezone.utc)
    local = utc.astimezone(zone)
    shown = utc.strftime("%Y-%m-%d %H:%M:%S UTC")
    if not local.utcoffset():
        return shown
    day = "" if local.date() == utc.date() else "%Y-%m-%d "
    return f"{shown} ({local.strftime(day + '%H:%M:%S')} {local.tzname()})"
