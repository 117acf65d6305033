"""Typed values read from a line of evidence; they stay beside it, whatever is masked for grouping."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from gpualert.model import Parameter, frozen

_UNITS = {"": 1, "K": 10, "M": 20, "G": 30, "T": 40, "P": 50, "E": 60}


def _integer(text: str) -> int:
    return int(text.replace(",", ""), 0) if text.lower().startswith("0x") else int(text.replace(",", ""))


def _bytes(text: str) -> int:
    number, unit = re.match(r"([\d.,]+)\s*([KMGTPE]?)", text).groups()  # type: ignore[union-attr]
    value = float(number.rstrip(".,").replace(",", ""))
    return int(value * (1 << _UNITS[unit])) if unit else int(value)


_SIZE = r"[\d.,]{1,24}\s?[KMGTPE]?i?[Bb](?:ytes)?\b|\d{1,24}(?= bytes)"

# name, what to look for (its first group), how to read it. The first that fits wins for its name.
_READERS: tuple[tuple[str, re.Pattern[str], Callable[[str], Parameter]], ...] = tuple(
    (name, re.compile(text), read)
    for name, text, read in (
        ("xid", r"\bS?Xid\b[^:]{0,40}(?:\([^)]{0,40}\))?: (\d{1,6})", _integer),
        ("pci", r"\b((?:[0-9a-fA-F]{4,8}:)[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.\d)?)\b", str.lower),
        ("gpu", r"(?i)\b(?:GPU|device|cuda)[ :#]?(\d{1,3})\b", _integer),
        ("errno", r"\[Errno (-?\d{1,4})\]|\(?errno:? ?(\d{1,4})\b", _integer),
        ("signal", r"(?i)\bsignal:? (\d{1,2})\b|\bexitcode\s*: -(\d{1,2})\b|return code = -(\d{1,2})\b", _integer),
        ("exit_status", r"(?i)\bexit(?:ed)?(?: with)?[ _]?(?:code|status)\s?[:=(]{0,2}\s?(-?\d{1,3})\b", _integer),
        (
            "bytes",
            r"(?i)(?:tried to allocate|trying to allocate|unable to allocate|requested|allocating) (?:memory: )?("
            + _SIZE
            + ")",
            _bytes,
        ),
        ("bytes_free", r"(" + _SIZE + r") (?:is |are )?free|(?i:free memory:? )(" + _SIZE + r"|\d{1,20})", _bytes),
        ("port", r"(?i)\bport\W{1,3}(\d{2,5})\b|\]:(\d{2,5})\b|\d\.\d{1,3}[:,] ?(\d{4,5})\b", _integer),
        ("module", r"No module named '?([\w.]{1,120})'?", str),
        ("library", r"\b(lib[\w+.-]{1,80}\.so(?:\.[\d.]{1,20})?)\b", str),
        (
            "path",
            r"'(/[^'\n]{1,400})'|\"(/[^\"\n]{1,400})\"|(?:directory|denied|handle|space left on device):? '?(\S{2,400}?)'?$",  # noqa: E501
            str,
        ),
        ("collective", r"\bOpType=(\w{1,40})", str),
        ("sequence", r"\bSeqNum=(\d{1,12})", _integer),
        ("step", r"(?i)\b(?:step|iteration|iter)[ =:]{1,3}(\d{1,12})\b", _integer),
        ("epoch", r"(?i)\bepoch[ =:]{1,3}(\d{1,8})\b", _integer),
        ("loss", r"(?i)\bloss[ =:]{1,3}(nan|-?inf|-?\d[\d.e+-]{0,20})", str),
        ("url", r"\b(https?://[^\s'\")>]{1,300})", str),
        (
            "http_status",
            r"\b([45]\d\d) (?:Client|Server) Error|\bHTTP(?:/[\d.]{1,3})?[ :](?:Error )?([45]\d\d)\b|status[ _]code[ :=]{1,3}([45]\d\d)\b",  # noqa: E501
            _integer,
        ),
        ("pid", r"(?i)\bpid[ :=]{0,2}(\d{1,9})\b|\bKilled process (\d{1,9})\b", _integer),
    )
)


def read_parameters(content: str) -> Mapping[str, Parameter]:
    """Return the typed values of a line's text; empty when it holds none."""
    values: dict[str, Parameter] = {}
    for name, pattern, read in _READERS:
        found = pattern.search(content)
        text = next((group for group in found.groups() if group), None) if found else None
        if text:
            try:
                values[name] = read(text)
            except (ValueError, AttributeError, OverflowError):
                continue
    return frozen(values)


_MASKS = (
    (re.compile(r"0x[0-9a-fA-F]{2,20}"), "<hex>"),
    (re.compile(r"(?:/[\w.@%+=-]{1,120}){2,40}/?"), "<path>"),
    (re.compile(r"\d{1,3}(?:\.\d{1,3}){3}(?:[:<]\d{1,6}>?)?"), "<address>"),
    (re.compile(r"[0-9a-f]{8}-[0-9a-f-]{16,40}|\b(?=[0-9a-f]{0,40}\d)[0-9a-f]{12,64}\b"), "<id>"),
    (re.compile(r"\d[\d.,:]{0,40}"), "<n>"),
    (re.compile(r"\s+"), " "),
)


def masked(text: str) -> str:
    """Return `text` with what differs between two occurrences of one fault replaced; for grouping only."""
    for pattern, name in _MASKS:
        text = pattern.sub(name, text)
    return text.strip()[:300]
