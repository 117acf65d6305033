"""Regular expressions made safe and searchable: bounded repeats, and the literals each one cannot match without."""

from __future__ import annotations

import re
import sys
from typing import Any

if sys.version_info >= (3, 11):
    from re import _constants as constants
    from re import _parser as parser
else:
    import sre_constants as constants
    import sre_parse as parser

# `.*`, `\S+` and their like in a rule reach this far. Unbounded, two of them in one expression make a long line of
# repeated text cost its length squared.
REACH = 300
_SHORTEST = 2
_MOST = 40

_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|[*+]|.", re.DOTALL)


def bounded(regex: str) -> str:
    """Return `regex` with `*` and `+` replaced by repeats of at most `REACH`; classes and escapes stay."""
    limits = {"*": f"{{0,{REACH}}}", "+": f"{{1,{REACH}}}"}
    return "".join(limits.get(token, token) for token in _TOKEN.findall(regex))


def required(regex: str) -> tuple[str, ...]:
    """
    Return lower-case ASCII texts of which every match of `regex` holds at least one.

    Empty when no such set of texts with two or more characters is found: the pattern would have to look at every line.
    """
    best = _of_sequence(parser.parse(regex))
    return tuple(sorted(best)) if best else ()


def _of_sequence(items: Any) -> frozenset[str] | None:
    """Return the best set of texts of a concatenation: the longest shortest text, then the fewest."""
    candidates: list[frozenset[str]] = []
    run = ""
    for op, value in items:
        if op is constants.LITERAL and 32 <= value < 127:
            run += chr(value).lower()
            continue
        candidates.append(frozenset((run,)))
        run = ""
        inner = _of_item(op, value)
        if inner:
            candidates.append(inner)
    candidates.append(frozenset((run,)))
    usable = [c for c in candidates if len(c) <= _MOST and all(len(text) >= _SHORTEST for text in c)]
    return max(usable, key=lambda c: (min(min(map(len, c)), 12), -len(c)), default=None)


def _of_item(op: Any, value: Any) -> frozenset[str] | None:
    if op is constants.SUBPATTERN:
        return _of_sequence(value[3])
    if op in (constants.MAX_REPEAT, constants.MIN_REPEAT):
        return _of_sequence(value[2]) if value[0] >= 1 else None
    if op is constants.BRANCH:
        parts = [_of_sequence(branch) for branch in value[1]]
        return frozenset(text for part in parts for text in part or ()) if all(parts) else None
    return None
