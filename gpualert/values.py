"""What people write for a setting or a flag, turned into values: durations, sizes, choices."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
Parser = Callable[[object], T]

_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw]?)\s*")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?b)?", re.IGNORECASE)
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


def text(raw: object) -> str:
    """Return one line of text; raises ValueError for a list, a mapping or several lines."""
    if isinstance(raw, (list, tuple, dict)):
        raise ValueError("must be one text, not a " + ("mapping" if isinstance(raw, dict) else "list"))
    written = str(raw).strip()
    if "\n" in written or "\r" in written or "\0" in written:
        raise ValueError("must be one line")
    return written


def path(raw: object) -> str:
    """Return a path as text with `~` expanded."""
    written = text(raw)
    return str(Path(written).expanduser()) if written.startswith("~") else written


def words(raw: object) -> tuple[str, ...]:
    """Return the texts of a list, or of a text with commas between them; empty ones are dropped."""
    items = raw if isinstance(raw, (list, tuple)) else text(raw).split(",")
    return tuple(word for item in items if (word := text(item)))


def flag(raw: object) -> bool:
    """Return a yes or no."""
    written = text(raw).lower()
    if written not in _TRUE + _FALSE:
        raise ValueError(f"'{written}' is neither yes nor no")
    return written in _TRUE


def integer(least: int, most: int | None = None) -> Parser[int]:
    """Return a parser of whole numbers from `least` to `most`."""

    def parse(raw: object) -> int:
        written = text(raw)
        if not re.fullmatch(r"-?[0-9]{1,18}", written):
            raise ValueError(f"'{written}' is no whole number")
        if int(written) < least or (most is not None and int(written) > most):
            raise ValueError(
                f"{written} is not {f'between {least} and {most}' if most is not None else f'at least {least}'}"
            )
        return int(written)

    return parse


def choice(*allowed: str) -> Parser[str]:
    """Return a parser that accepts the `allowed` words only."""

    def parse(raw: object) -> str:
        written = text(raw)
        if written not in allowed:
            raise ValueError(f"'{written}' is none of {', '.join(allowed)}")
        return written

    return parse


def duration(raw: object) -> float:
    """
    Return a span of time in seconds.

    Accepts a bare number of seconds, or numbers with `s`, `m`, `h`, `d`, `w`: `60`, `11m`, `1h30m`.

    Raises:
        ValueError: It is none, negative or infinite.
    """
    written = text(raw)
    parts = list(_DURATION_PART.finditer(written.lower()))
    whole = "".join(part.group() for part in parts) == written.lower()
    bare = [part for part in parts if not part.group(2)]
    if not parts or not whole or (bare and len(parts) > 1):
        raise ValueError(f"'{written}' is no duration such as 60, 11m or 1h30m")
    seconds = sum(float(part.group(1)) * _SECONDS[part.group(2)] for part in parts)
    if not math.isfinite(seconds):
        raise ValueError(f"'{written}' is too long")
    return seconds


def size(raw: object) -> int:
    """
    Return a size in bytes: `4096`, `10MB` (powers of 1000), `1GiB` or `1G` (powers of 1024).

    Source: GNU coreutils manual, "Block size", gives these suffixes the same meaning.
    """
    written = text(raw)
    match = _SIZE.fullmatch(written)
    if not match:
        raise ValueError(f"'{written}' is no size such as 4096, 10MB or 1GiB")
    base = 1000 if (match.group(3) or "").lower() == "b" else 1024
    number = float(match.group(1)) * base ** " kmgt".index(match.group(2).lower() or " ")
    if number >= 2**63:
        raise ValueError(f"'{written}' is too large")
    return int(number)


@dataclass(frozen=True)
class MessageRule:
    """
    Which ends of runs with such a name are worth a message.

    Attributes:
        name: A pattern as a shell's: `sweep-*`.
        on: One of `WORTH`.
    """

    name: str
    on: str

    def __str__(self) -> str:
        """Return it as it may be written."""
        return f"{self.name}={self.on}"


WORTH = ("failure", "always", "recovery", "never")


def message_rules(raw: object) -> tuple[MessageRule, ...]:
    """
    Return rules written as `[{name: 'sweep-*', on: failure}, ...]` or `sweep-*=failure, debug=never`.

    Raises:
        ValueError: One lacks its name or what it is on, or holds anything else.
    """
    items = raw if isinstance(raw, (list, tuple)) else text(raw).split(",")
    return tuple(_message_rule(item) for item in items if item not in ("", " "))


def _message_rule(item: object) -> MessageRule:
    if not isinstance(item, dict):
        name, equals, on = text(item).rpartition("=")
        item = {"name": name, "on": on} if equals else {}
    if set(item) != {"name", "on"} or not text(item["name"]):
        raise ValueError("each rule needs a name and what it is on, such as {name: 'sweep-*', on: failure}")
    return MessageRule(text(item["name"]), choice(*WORTH)(item["on"]))
