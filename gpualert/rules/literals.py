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
_MOST = 64
# Texts that are spelt out together: `oom[-_ ]kill` is three.
_SPELT = 10

# Words of every log: a pattern that needs one of them would be tried on every line, so a shorter, rarer text is better.
_COMMON = frozenset(
    """
    loss time code with match step weight weights tensor model models error errors run data size train training
    batch epoch scale checkpoint process device memory module output input rank worker node job file path value
    values iteration total detected setting log logs progress gpu cuda not the for and from has have does did was
    were will should must but is are in on of to at by key type expected got only cannot failed available number
    shape layer parameters warning read write connect server version support supports name task host port grad
    norm accuracy saving saved best done complete completed finished success result results scheduler package
    library
    """.split()  # noqa: SIM905 - a paragraph of words reads better than a column of them
)

_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|[*+]|\{\d+,\}|.", re.DOTALL)


def bounded(regex: str) -> str:
    """Return `regex` with `*` and `+` replaced by repeats of at most `REACH`; classes and escapes stay."""
    limits = {"*": f"{{0,{REACH}}}", "+": f"{{1,{REACH}}}"}
    tokens = _TOKEN.findall(regex)
    return "".join(f"{token[:-1]}{REACH}}}" if token[-2:] == ",}" else limits.get(token, token) for token in tokens)


def required(regex: str) -> tuple[str, ...]:
    """
    Return lower-case ASCII texts of which every match of `regex` holds at least one.

    Empty when no such set of texts with two or more characters is found: the pattern would have to look at every line.
    """
    best = _of_sequence(parser.parse(regex))
    return tuple(sorted(best)) if best else ()


def _of_sequence(items: Any) -> frozenset[str] | None:
    """Return the best set of texts of a concatenation: the rarest, then the fewest."""
    candidates: list[frozenset[str]] = []
    run = frozenset(("",))
    for op, value in items:
        exact = _exactly(op, value)
        if exact is not None and len(run) * len(exact) <= _SPELT:
            run = frozenset(head + tail for head in run for tail in exact)
            continue
        candidates.append(run)
        run = frozenset(("",)) if exact is None else exact
        inner = _of_item(op, value)
        if inner:
            candidates.append(inner)
    candidates.append(run)
    usable = [c for c in candidates if len(c) <= _MOST and all(len(text.strip()) >= _SHORTEST for text in c)]
    return max(usable, key=lambda c: (min(map(_rarity, c)), -len(c)), default=None)


def _exactly(op: Any, value: Any) -> frozenset[str] | None:
    """Return the few texts an item matches; None when they are many, unknown, or not ASCII."""
    if op is constants.LITERAL:
        return frozenset((chr(value).lower(),)) if 32 <= value < 127 else None
    if op is constants.IN:
        parts = [_exactly(*item) for item in value]
    elif op is constants.BRANCH:
        parts = [_exact_sequence(branch) for branch in value[1]]
    elif op is constants.SUBPATTERN:
        return _exact_sequence(value[3])
    elif op in (constants.MAX_REPEAT, constants.MIN_REPEAT) and (value[0], value[1]) == (0, 1):
        parts = [frozenset(("",)), _exact_sequence(value[2])]
    elif op is constants.AT:
        return frozenset(("",))
    else:
        return None
    texts = frozenset(text for part in parts for text in part or ())
    return texts if all(part is not None for part in parts) and len(texts) <= _SPELT else None


def _exact_sequence(items: Any) -> frozenset[str] | None:
    texts = frozenset(("",))
    for op, value in items:
        part = _exactly(op, value)
        if part is None or len(texts) * len(part) > _SPELT:
            return None
        texts = frozenset(head + tail for head in texts for tail in part)
    return texts


def _of_item(op: Any, value: Any) -> frozenset[str] | None:
    if op is constants.SUBPATTERN:
        return _of_sequence(value[3])
    if op in (constants.MAX_REPEAT, constants.MIN_REPEAT):
        return _of_sequence(value[2]) if value[0] >= 1 else None
    if op is constants.BRANCH:
        parts = [_of_sequence(branch) for branch in value[1]]
        return frozenset(text for part in parts for text in part or ()) if all(parts) else None
    return None


def _rarity(text: str) -> float:
    """Return how seldom a text is met in logs, as a length; beyond twelve it makes no difference."""
    word = text.strip(" :=,.'\"()[]")
    return 1.5 if word in _COMMON else min(len(text.strip()), 12)
