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

from gpualert import secret_forms as forms
from gpualert.secret_names import Strength, could_be_secret, name_strength

PLACEHOLDER = "[redacted]"
_MARK = "@redacted@"  # stands for the placeholder where the shell's quoting would disturb it
_PEM_BYTES = 20_000
_LOOK_BYTES = 256  # enough of a value to judge it

Span = tuple[int, int]


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
        kept += [data[at:start], PLACEHOLDER.encode(), b"\n" * data.count(b"\n", start, end)]
        at = end
    return Redacted(b"".join([*kept, data[at:]]), len(spans))


def redact_text(text: str) -> tuple[str, int]:
    """Return `text` without its secrets, and how many were taken out."""
    found = redact(text.encode("utf-8", "surrogatepass"))
    return found.data.decode("utf-8", "surrogatepass"), found.count


def redact_argv(argv: Sequence[str]) -> tuple[str, int]:
    """Return a command as one would type it, without its secrets, and how many were taken out."""
    words, total, secret_follows = [], 0, False
    for word in argv:
        shown, count = (PLACEHOLDER, 1) if secret_follows and word else _redact_word(word)
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
    yield from _private_keys(data)
    yield from _shapes(data)
    for announced in forms.ANNOUNCED:
        pattern = _compiled(announced.pattern)
        for at in _occurrences(low, announced.anchor):
            if (match := pattern.match(data, at)) and not _is_placeholder(match[1]):
                yield match.span(1)
    for anchor in forms.NAME_ANCHORS:
        yield from _assignments(data, low, anchor)


def _merged(spans: Iterator[Span]) -> list[Span]:
    """Return the spans in order, overlapping ones joined."""
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _occurrences(data: bytes, text: bytes) -> Iterator[int]:
    at = data.find(text)
    while at >= 0:
        yield at
        at = data.find(text, at + len(text))


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


def _is_placeholder(value: bytes) -> bool:
    return value.startswith(PLACEHOLDER.encode())


# --- private keys over several lines ---

_PEM_BEGIN = rb"-----BEGIN (?:[A-Z0-9]{1,12} ){0,4}PRIVATE KEY(?: BLOCK)?-----"
_PEM_BODY = rb"(?:(?:\s|\\[nr]){0,4}[A-Za-z0-9+/=]{16,})+"
_PEM_LINE = rb"[ \t]*[A-Za-z0-9+/=]{4,76}[ \t\r]*"


def _private_keys(data: bytes) -> Iterator[Span]:
    begun = 0
    for at in _occurrences(data, b"-----BEGIN "):
        if at >= begun and (begin := re.compile(_PEM_BEGIN).match(data, at)):
            end = data.find(b"-----END ", begin.end(), begin.end() + _PEM_BYTES)
            body = re.compile(_PEM_BODY).match(data, begin.end())
            begun = end if end >= 0 else body.end() if body else begin.end()
            if begun > begin.end() and not _is_placeholder(data[begin.end() : begun].lstrip()):
                yield begin.end(), begun
    for at in _occurrences(data, b"-----END "):
        if at > begun and re.compile(_PEM_BEGIN.replace(b"BEGIN", b"END")).match(data, at):
            yield from _headless_key(data, at)


def _headless_key(data: bytes, end: int) -> Iterator[Span]:
    """Find a key whose beginning was cut off: the lines of base64 above its END line."""
    start = end
    while start > 0 and end - start < _PEM_BYTES:
        above = data.rfind(b"\n", max(0, start - 80), start - 1) + 1
        if not re.compile(_PEM_LINE).fullmatch(data, above, start - 1):
            break
        start = above
    if start < end:
        yield start, end - 1


# --- name and value ---

_NAME_BYTES = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
_HEAD = re.compile(
    rb"""(?P<tail>[A-Za-z0-9_\-]{0,40})
    (?: \\{0,4}["'`]?\]?[ \t]{0,3}(?P<sep>=>|:=|[:=]|%3[Dd])(?!=)[ \t]{0,3}
      | \\{0,4}["'],[ ]?(?=\\{0,4}["'])      # a pair in a list: '--token', 'value'
      | [ \t]{1,3}(?![-\s])                  # --token value
    )""",
    re.VERBOSE,
)
_VALUE = re.compile(
    rb"""b?(?: \\{1,4}["'](?P<inner>[^\\"'\r\n]*)
      | "(?P<double>[^"\\\r\n]*(?:\\.[^"\\\r\n]*)*)
      | '(?P<single>[^'\\\r\n]*(?:\\.[^'\\\r\n]*)*)
      | (?P<bare>(?:[^\s"'\\&;<>]|\\(?!["'nrt])|[&;](?![\w.%\-\ ]{1,64}=|\s|$))+)
    )""",
    re.VERBOSE,
)


def _assignments(data: bytes, low: bytes, anchor: bytes) -> Iterator[Span]:
    done = 0
    for at in _occurrences(low, anchor):
        head = _HEAD.match(data, at + len(anchor)) if at >= done else None
        if head:
            span = _assigned(data, at, head)
            if span:
                yield span
                done = span[1]


def _assigned(data: bytes, at: int, head: re.Match[bytes]) -> Span | None:
    """Return where the secret lies that `head`, the rest of a name and a separator, is followed by."""
    before = data[max(0, at - 48) : at]
    name = before[len(before.rstrip(_NAME_BYTES)) :] + data[at : head.end("tail")]
    strength = name_strength(name.decode("latin-1").lstrip("-"))
    is_option = name.startswith(b"-")
    if head["sep"] is None and not (is_option or (name.isupper() and data[head.end() - 1 : head.end()] in b", ")):
        return None
    if head["sep"] is None and not is_option and b"," not in head.group():
        return None
    value = _VALUE.match(data, head.end(), head.end() + _LOOK_BYTES) if strength else None
    if value is None or value.lastgroup is None:
        return None
    shown = value[value.lastgroup]
    bare = value.lastgroup == "bare"
    written = (
        head["sep"] != b":"
        or not bare
        or _stands_alone(data, at - len(before) + len(before.rstrip(_NAME_BYTES)), value.end())
    )
    if not could_be_secret(_trimmed(shown) if bare else shown, strength, written=written, bare=bare):
        return None
    whole = _VALUE.match(data, head.end())
    if whole is None or whole.lastgroup is None:
        return None
    start, end = whole.span(whole.lastgroup)
    return (start, start + len(_trimmed(data[start:end]))) if bare else (start, end)


def _trimmed(value: bytes) -> bytes:
    """Drop the punctuation that closes the sentence or the call, not the value."""
    return value.rstrip(b",.)}]:`")


def _stands_alone(data: bytes, start: int, end: int) -> bool:
    """Say whether `name: value` has its line for itself, as in YAML, rather than standing in a sentence."""
    line = data[max(0, start - 64) : start]
    opening = line[line.rfind(b"\n") + 1 :].strip(b" \t-{[\"'")
    closing = data[end : end + 1]
    return opening == b"" and closing in (b"", b"\n", b"\r", b",", b"}")
