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
from gpualert.secret_names import Strength, could_be_secret, looks_drawn, name_strength

PLACEHOLDER = "[redacted]"
_MARK = "@redacted@"  # stands for the placeholder where the shell's quoting would disturb it
_PEM_BYTES = 20_000
_LOOK_BYTES = 256  # enough of a value to judge it
_NAME_LIMIT = 80
_LINE_BYTES = 200  # enough of what stands before a name

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
    yield from _private_keys(data)
    yield from _shapes(data)
    for announced in forms.ANNOUNCED:
        yield from _announced(data, low, announced)
    for anchor in forms.NAME_ANCHORS:
        yield from _assignments(data, low, anchor)


def _announced(data: bytes, low: bytes, announced: forms.Announced) -> Iterator[Span]:
    pattern, done = _compiled(announced.pattern), 0
    for at in _occurrences(low, announced.anchor):
        match = pattern.match(data, at) if at >= done else None
        if match and not match[1].startswith(PLACEHOLDER.encode()):
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


# --- private keys over several lines ---

_PEM_LABEL = rb" (?:[A-Z0-9]{1,12} ){0,4}PRIVATE KEY(?: BLOCK)?-----"
_PEM_BEGIN, _PEM_END = re.compile(b"-----BEGIN" + _PEM_LABEL), re.compile(b"-----END" + _PEM_LABEL)
_PEM_BODY = re.compile(rb"(?:(?:\s|\\[nr]){0,4}[A-Za-z0-9+/=]{16,})+")
_PEM_LINE = re.compile(rb"[ \t]*[A-Za-z0-9+/=]{4,76}[ \t\r]*")
_PEM_RUN = re.compile(rb"[A-Za-z0-9+/=]{16,}")
_PEM_OTHER_LINES = 6  # headers, blank lines and a short last line


def _private_keys(data: bytes) -> Iterator[Span]:
    closed = set()
    for at in _occurrences(data, b"-----BEGIN "):
        if begin := _PEM_BEGIN.match(data, at):
            end = _key_end(data, begin.end())
            closed.add(end)
            if end > begin.end() and not data.startswith(PLACEHOLDER.encode(), begin.end()):
                yield begin.end(), end
    for at in _occurrences(data, b"-----END "):
        if at not in closed and _PEM_END.match(data, at):
            yield from _headless_key(data, at)


def _key_end(data: bytes, start: int) -> int:
    """Return where the key that begins at `start` ends: at its END line, or where base64 does if that was cut off."""
    end = data.find(b"-----", start, start + _PEM_BYTES)
    if end >= 0 and data.startswith(b"-----END ", end):
        others = sum(not _PEM_RUN.search(line) for line in data[start:end].split(b"\n"))
        if others <= _PEM_OTHER_LINES:
            return end
    body = _PEM_BODY.match(data, start)
    return body.end() if body else start


def _headless_key(data: bytes, end: int) -> Iterator[Span]:
    """Find a key whose beginning was cut off: the lines of base64 above its END line."""
    start = end
    while start > 0 and end - start < _PEM_BYTES:
        above = data.rfind(b"\n", max(0, start - 80), start - 1) + 1
        if not _PEM_LINE.fullmatch(data, above, start - 1):
            break
        start = above
    if start < end:
        yield start, end - 1


# --- name and value ---

_NAME_BYTES = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
_HEAD = re.compile(
    rb"""(?P<tail>[A-Za-z0-9_\-]{0,40})(?![A-Za-z0-9_\-])
    (?: (?P<quote>\\{0,4}["'`])?\]?(?:\x1b\[[0-9;]{0,16}m)?[ \t]{0,3}(?P<sep>=>|:=|[:=]|%3[Dd])(?!=)
        [ \t]{0,3}(?:\x1b\[[0-9;]{0,16}m[ ]?){0,2}
      | ["']?,?\s{1,40}["']?value["']?(?P<value>[ ]?:)[ ]?         # name: X, value: Y of a container's environment
      | \\{0,4}["'],[ ]?(?=\\{0,4}["'])      # a pair in a list: '--token', 'value'
      | [ \t]{1,3}(?![-\s])                  # --token value
    )""",
    re.VERBOSE,
)
_VALUE = re.compile(
    rb"""(?: b?\\{1,4}["'](?P<inner>[^\\"'\r\n]*)
      | b?"(?P<double>[^"\\\r\n]*(?:\\.[^"\\\r\n]*)*)
      | b?'(?P<single>[^'\\\r\n]*(?:\\.[^'\\\r\n]*)*)
      | (?P<bare>(?:[^\s"'\\&;<>\x1b]+|\\(?!["'nrt])|[&;](?![\w.%\-\ ]{1,64}=|\s|$))+)
    )""",
    re.VERBOSE,
)
_SPOKEN = re.compile(
    rb"""[ \t]{1,3}(?:(?:is|was|provided|given|used)\b:?[ ]{1,2})?["'`]?
    (?P<drawn>[A-Za-z0-9_+/=]{12,})(?![\w\-]|\.\w)""",
    re.VERBOSE,
)
_COLOUR = re.compile(rb"(?<=\x1b\[)[0-9;]{0,16}m")
_METAVARIABLE = re.compile(rb"[A-Z][A-Z_]*")  # `--token TOKEN` in a usage text


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
    """Return where the secret lies that `head`, the rest of a name and what separates it, is followed by."""
    line = data[max(0, at - _LINE_BYTES) : at]
    line = line[line.rfind(b"\n") + 1 :]
    before = line.rstrip(_NAME_BYTES)
    if colour := _COLOUR.match(line, len(before)):
        before = line[: colour.end()]
    name = line[len(before) :] + data[at : head.end("tail")]
    strength = name_strength(name.decode("latin-1").lstrip("-")) if len(name) <= _NAME_LIMIT else Strength.NONE
    if not strength:
        return None
    if not (head["sep"] or head["value"] or _is_option(name, head)):
        spoken = _SPOKEN.match(data, head.end("tail"))
        return spoken.span("drawn") if spoken and looks_drawn(spoken["drawn"]) else None
    value = _VALUE.match(data, head.end(), head.end() + _LOOK_BYTES)
    if value is None or value.lastgroup is None or _closes_text(before, head, value):
        return None
    bare = value.lastgroup == "bare"
    shown = _trimmed(value["bare"]) if bare else value[value.lastgroup]
    if bare and _names_itself(name, shown):
        return None
    if not head["sep"] and not head["value"] and _METAVARIABLE.fullmatch(shown):
        return None
    written = head["sep"] != b":" or not bare or _stands_alone(before, data[value.end() : value.end() + 1])
    if not could_be_secret(shown, strength, written=written, bare=bare):
        return None
    whole = _VALUE.match(data, head.end())  # beyond what was looked at
    if whole is None or whole.lastgroup is None:
        return None
    start, end = whole.span(whole.lastgroup)
    return (start, start + len(_trimmed(data[start:end]))) if bare else (start, end)


def _is_option(name: bytes, head: re.Match[bytes]) -> bool:
    """Say whether a name without `=` or `:` takes what follows: an option does, a variable in a list of pairs too."""
    return name.startswith(b"-") or (name.isupper() and b"," in head.group())


def _closes_text(before: bytes, head: re.Match[bytes], value: re.Match[bytes]) -> bool:
    """Say whether the quote after a name ends a text, as in `expect("Password:")`, rather than begins a value."""
    quote = value.group()[:1]
    return quote in b"\"'" and bool(head["sep"]) and not head["quote"] and before.count(quote) % 2 == 1


def _names_itself(name: bytes, value: bytes) -> bool:
    """Say whether a value is the variable of the same name, as in the source line `connect(authkey=self.authkey)`."""
    name, value = name.strip(b"-_").lower(), value.rsplit(b".", 1)[-1].strip(b"_").lower()
    return value == name or name.endswith(b"_" + value) or value.endswith(b"_" + name)


def _trimmed(value: bytes) -> bytes:
    """Drop the punctuation that closes the sentence or the call, not the value."""
    return value.rstrip(b",.)}]:`")


def _stands_alone(before: bytes, after: bytes) -> bool:
    """Say whether `name: value` has its line for itself, as in YAML, rather than standing in a sentence."""
    return before.strip(b" \t-{[\"'") == b"" and after in (b"", b"\n", b"\r", b",", b"}")
