"""Finds the values of names that announce a secret: `HF_TOKEN=...`, `"api_key": "..."`, `--password ...`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpualert.redact import words
from gpualert.redact.names import Strength, could_be_secret, looks_drawn, name_strength
from gpualert.redact.spans import Span, occurrences

_LOOK_BYTES = 256  # enough of a value to judge it
_NAME_LIMIT = 80
_LINE_BYTES = 200  # enough of what stands before a name

_NAME_BYTES = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
_HEAD = re.compile(
    rb"""(?P<tail>[A-Za-z0-9_\-]{0,40})(?![A-Za-z0-9_\-])
    (?: (?P<quote>\\{0,4}["'`])?\]?(?:\x1b\[[0-9;]{0,16}m)?[ \t]{0,3}(?P<sep>=>|:=|[:=]|%3[Dd])(?!=)
        [ \t]{0,3}(?:\x1b\[[0-9;]{0,16}m[ ]?){0,2}(?:[|>][+-]?[ ]{0,3}\r?\n[ ]{1,20})?   # a YAML block: key: |
      | [ ]{0,60}(?P<table>\.{3,80}|\||\xe2\x94\x82)[ ]{1,60}       # name ..... value, name | value
      | ["']?,?\s{1,40}["']?value["']?(?P<value>[ ]?[:=])[ ]?          # name: X, value: Y of a container's environment
      | (?P<pair>\\{0,4}["'],[ ]?(?=b?\\{0,4}["']))   # a pair in a list: '--token', 'value'
      | [ \t]{1,3}(?![-\s])                      # --token value
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
    rb"""[ \t]{1,3}(?:(?:(?:is|was|provided|given|used|set[ ]to)\b:?|for[ ]\S{1,64}:)[ ]{1,2})?["'`]?
    (?P<drawn>[A-Za-z0-9_+/=]{12,})(?![\w\-]|\.\w)""",
    re.VERBOSE,
)
_CHOSEN = re.compile(
    rb"""[ \t](?:(?:is|was|set[ ]to)\b:?|for[ ]\S{1,64}:)[ ]["'`]?
    (?P<chosen>(?=[^\s"'`]{0,40}[0-9])(?=[^\s"'`]{0,40}[A-Za-z])[^\s"'`]{8,64})["'`]?(?=[.,;]?\s|[.,;]?\Z)""",
    re.VERBOSE,
)  # "your password is X"
_COLOUR = re.compile(rb"(?<=\x1b\[)[0-9;]{0,16}m")
_METAVARIABLE = re.compile(rb"[A-Z][A-Z_]*")  # `--token TOKEN` in a usage text


def assignments(data: bytes, low: bytes) -> Iterator[Span]:
    """Yield where the values of names such as `password` or `HF_TOKEN` lie; `low` is `data` in lower case."""
    for anchor in words.NAME_ANCHORS:
        done = 0
        for at in occurrences(low, anchor):
            head = _HEAD.match(data, at + len(anchor)) if at >= done else None
            if head and (span := _assigned(data, at, head)):
                yield span
                done = span[1]


def _assigned(data: bytes, at: int, head: re.Match[bytes]) -> Span | None:
    """Return where the secret lies that `head`, the rest of a name and what separates it, is followed by."""
    before, name = _name(data, at, head)
    strength = name_strength(name.decode("latin-1").lstrip("-")) if len(name) <= _NAME_LIMIT else Strength.NONE
    if not strength:
        return None
    if not (_separated(head) or _takes_what_follows(name, head)):
        return _spoken(data, head, strength)
    value = _VALUE.match(data, head.end(), head.end() + _LOOK_BYTES)
    if value is None or _closes_text(before, head, value) or not _is_secret(data, before, name, strength, head, value):
        return None
    whole = _VALUE.match(data, head.end())  # beyond what was looked at
    return _inner(whole) if whole else None


def _spoken(data: bytes, head: re.Match[bytes], strength: Strength) -> Span | None:
    """Return where the secret lies in `token X`, `'api_key', 'X'` or `your password is X`; it must look like one."""
    if head["pair"]:
        value = _VALUE.match(data, head.end(), head.end() + _LOOK_BYTES)
        return _inner(value) if value and looks_drawn(value[value.lastgroup or 0]) else None
    spoken = _SPOKEN.match(data, head.end("tail"))
    if spoken and looks_drawn(spoken["drawn"]):
        return spoken.span("drawn")
    chosen = _CHOSEN.match(data, head.end("tail")) if strength == Strength.PASSWORD else None
    return chosen.span("chosen") if chosen else None


def _name(data: bytes, at: int, head: re.Match[bytes]) -> tuple[bytes, bytes]:
    """Return what stands before a name in its line, and the name."""
    line = data[max(0, at - _LINE_BYTES) : at]
    line = line[line.rfind(b"\n") + 1 :]
    before = line.rstrip(_NAME_BYTES)
    if colour := _COLOUR.match(line, len(before)):
        before = line[: colour.end()]
    return before, line[len(before) :] + data[at : head.end("tail")]


def _inner(value: re.Match[bytes]) -> Span:
    """Return where a value lies, without its quotes or the punctuation that closes the sentence or the call."""
    kind = value.lastgroup or "bare"
    start, end = value.span(kind)
    return (start, start + len(value[kind].rstrip(b",.)}]:`"))) if kind == "bare" else (start, end)


def _is_secret(
    data: bytes, before: bytes, name: bytes, strength: Strength, head: re.Match[bytes], value: re.Match[bytes]
) -> bool:
    start, end = _inner(value)
    shown, bare = data[start:end], value.lastgroup == "bare"
    if bare and _names_itself(name, shown):
        return False
    if not _separated(head) and _METAVARIABLE.fullmatch(shown):
        return False
    written = head["sep"] != b":" or not bare or _stands_alone(before, data[value.end() : value.end() + 1])
    return could_be_secret(shown, strength, written=written, bare=bare)


def _separated(head: re.Match[bytes]) -> bool:
    return bool(head["sep"] or head["value"] or head["table"])


def _takes_what_follows(name: bytes, head: re.Match[bytes]) -> bool:
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


def _stands_alone(before: bytes, after: bytes) -> bool:
    """Say whether `name: value` has its line for itself, as in YAML, rather than standing in a sentence."""
    return before.strip(b" \t-{[\"'") == b"" and after in (b"", b"\n", b"\r", b",", b"}")
