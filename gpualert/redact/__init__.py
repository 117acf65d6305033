"""
Takes secrets out of text that leaves the machine.

Pure; bytes in, bytes out; linear in the size of the text; the number of lines stays as it was.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from gpualert.redact.assignments import assignments
from gpualert.redact.names import Strength, could_be_secret, name_strength
from gpualert.redact.places import announced
from gpualert.redact.private_keys import private_keys
from gpualert.redact.shapes import drawn_runs, keys
from gpualert.redact.spans import PLACED, PLACEHOLDER, Span

__all__ = ["PLACEHOLDER", "Redacted", "redact", "redact_argv", "redact_text"]

_OPTION = re.compile(rb"--?[A-Za-z][\w.-]{2,60}")
_ASSIGNED = re.compile(rb"[-+~]{0,2}[\w./@-]{1,100}")
_MARK = "@redacted@"  # stands for the placeholder where the shell's quoting would disturb it


@dataclass(frozen=True)
class Redacted:
    """
    Text without its secrets.

    Attributes:
        data: The text; each secret is now `[redacted]`, its name and everything around it stay.
        count: How many were taken out.
    """

    data: bytes
    count: int


def redact(data: bytes) -> Redacted:
    """Return `data` without its secrets; the very same object where there are none."""
    spans = _merged(_spans(data))
    return Redacted(_without(data, spans), len(spans)) if spans else Redacted(data, 0)


def redact_text(text: str) -> tuple[str, int]:
    """Return `text` without its secrets, and how many were taken out."""
    found = redact(text.encode("utf-8", "surrogatepass"))
    return found.data.decode("utf-8", "surrogatepass"), found.count


def redact_argv(argv: Sequence[str]) -> tuple[str, int]:
    """Return a command as one would type it, without its secrets, and how many were taken out."""
    words = [word.encode("utf-8", "surrogatepass") for word in argv]
    spans = _merged(chain(_spans(b" ".join(words)), _word_spans(words)))  # the former finds what spans words
    shown, at = [], 0
    for word in words:
        end = at + len(word)
        inside = [(max(a, at) - at, min(b, end) - at) for a, b in spans if a < end and b > at]
        cut = _without(word, inside).decode("utf-8", "surrogatepass")
        shown.append(shlex.quote(cut.replace(PLACEHOLDER, _MARK)).replace(_MARK, PLACEHOLDER))
        at = end + 1
    return " ".join(shown), len(spans)


def _word_spans(words: Sequence[bytes]) -> Iterator[Span]:
    """Yield where secrets lie that only the limits of words tell: `--token X`, and `--password=a b` to its end."""
    at, previous = 0, b""
    for word in words:
        if word and _announces(previous):
            yield at, at + len(word)
        elif previous != b"-c" and (start := _value_start(word)):  # after -c stands a script, not one value
            yield at + start, at + len(word)
        at += len(word) + 1
        previous = word


def _announces(word: bytes) -> bool:
    """Say whether a word is an option whose value, the next word, is a secret."""
    return bool(_OPTION.fullmatch(word)) and name_strength(word.decode().lstrip("-")) > Strength.NONE


def _value_start(word: bytes) -> int:
    """Return where in `NAME=value` the secret begins; 0 where there is none."""
    name, _, value = word.partition(b"=")
    if not value or not _ASSIGNED.fullmatch(name):
        return 0
    strength = name_strength(name.decode().lstrip("-+~").rsplit(".", 1)[-1])
    return len(name) + 1 if strength and could_be_secret(value.replace(b" ", b""), strength, written=True) else 0


def _spans(data: bytes) -> Iterator[Span]:
    low = data.lower()
    yield from private_keys(data)
    yield from keys(data)
    yield from drawn_runs(data)
    yield from announced(data, low)
    yield from assignments(data, low)


def _without(data: bytes, spans: Sequence[Span]) -> bytes:
    kept, at = [], 0
    for start, end in spans:
        # Line numbers in the message must still be those of the log on disk.
        kept += [data[at:start], PLACED, b"\n" * data.count(b"\n", start, end)]
        at = end
    return b"".join([*kept, data[at:]])


def _merged(spans: Iterable[Span]) -> list[Span]:
    """Return the spans in order, overlapping ones joined."""
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
