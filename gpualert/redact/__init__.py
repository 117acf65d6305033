"""
Takes secrets out of text that leaves the machine.

Pure; bytes in, bytes out; linear in the size of the text; the number of lines stays as it was.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from gpualert.redact import forms
from gpualert.redact.assignments import assignments
from gpualert.redact.names import Strength, could_be_secret, name_strength
from gpualert.redact.private_keys import private_keys
from gpualert.redact.spans import PLACED, PLACEHOLDER, Span, occurrences

__all__ = ["PLACEHOLDER", "Redacted", "redact", "redact_argv", "redact_text"]

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
    if not spans:
        return Redacted(data, 0)
    kept, at = [], 0
    for start, end in spans:
        # Line numbers in the message must still be those of the log on disk.
        kept += [data[at:start], PLACED, b"\n" * data.count(b"\n", start, end)]
        at = end
    return Redacted(b"".join([*kept, data[at:]]), len(spans))


def redact_text(text: str) -> tuple[str, int]:
    """Return `text` without its secrets, and how many were taken out."""
    found = redact(text.encode("utf-8", "surrogatepass"))
    return found.data.decode("utf-8", "surrogatepass"), found.count


def redact_argv(argv: Sequence[str]) -> tuple[str, int]:
    """Return a command as one would type it, without its secrets, and how many were taken out."""
    words, total, secret_follows = [], 0, False
    for previous, word in zip(["", *argv], argv, strict=False):
        if secret_follows and word:
            shown, count = PLACEHOLDER, 1
        else:  # after -c stands a script of many words, not one value
            shown, count = redact_text(word) if previous == "-c" else _redact_word(word)
        words.append(shlex.quote(shown.replace(PLACEHOLDER, _MARK)).replace(_MARK, PLACEHOLDER))
        total += count
        secret_follows = _announces(word)
    line, count = redact_text(" ".join(words))  # what spans words: `curl -u name:password`
    return line, total + count


def _redact_word(word: str) -> tuple[str, int]:
    """Redact one word of a command: after `NAME=` all of it is the value, blanks too."""
    name, equals, value = word.partition("=")
    bare = name.lstrip("-+~")
    if equals and value and re.fullmatch(r"[\w./@-]{1,100}", bare):
        strength = name_strength(bare.rsplit(".", 1)[-1])
        if strength and could_be_secret(
            value.encode("utf-8", "surrogatepass").replace(b" ", b""), strength, written=True
        ):
            return f"{name}={PLACEHOLDER}", 1
    return redact_text(word)


def _announces(word: str) -> bool:
    """Say whether a word is an option whose value, the next word, is a secret."""
    return bool(re.fullmatch(r"--?[A-Za-z][\w.-]{2,60}", word)) and name_strength(word.lstrip("-")) > Strength.NONE


def _spans(data: bytes) -> Iterator[Span]:
    low = data.lower()
    yield from private_keys(data)
    yield from _shapes(data)
    for announced in forms.ANNOUNCED:
        yield from _announced(data, low, announced)
    yield from assignments(data, low)


def _announced(data: bytes, low: bytes, announced: forms.Announced) -> Iterator[Span]:
    pattern, done = _compiled(announced.pattern), 0
    for at in occurrences(low, announced.anchor):
        match = pattern.match(data, at) if at >= done else None
        if match and not match[1].startswith(PLACED):
            yield match.span(1)
        done = match.end(1) if match else done


def _merged(spans: Iterator[Span]) -> list[Span]:
    """Return the spans in order, overlapping ones joined."""
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


@cache
def _compiled(pattern: str) -> re.Pattern[bytes]:
    return re.compile(pattern.encode(), re.IGNORECASE)


@cache
def _shape_patterns() -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    run = re.compile(rb"[A-Za-z0-9_.~\-]{%d,}" % forms.SHORTEST_SHAPE)
    return run, re.compile(forms.SHAPES.encode())


def _shapes(data: bytes) -> Iterator[Span]:
    run, shape = _shape_patterns()
    for candidate in run.finditer(data):
        for match in shape.finditer(data, *candidate.span()):
            yield match.span()
