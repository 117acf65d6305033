"""
A small language for secrets that are made up afresh from a seed, so that no file here holds one.

A form is the text that a log, a command or a file would hold.  `{alnum:36}` stands for 36 drawn letters and digits,
and what stands between `«` and `»` is the secret: nothing of it may be left.
"""

from __future__ import annotations

import random
import re
import string
from collections.abc import Callable
from dataclasses import dataclass

LEFT_AT_MOST = 7
"""So many characters of a secret in a row may be left; one more counts as a leak."""

_ALPHABETS = {
    "alnum": string.ascii_letters + string.digits,
    "lower": string.ascii_lowercase + string.digits,
    "upper": string.ascii_uppercase + string.digits,
    "letters": string.ascii_letters,
    "digits": string.digits,
    "hex": string.digits + "abcdef",
    "HEX": string.digits + "ABCDEF",
    "base32": string.ascii_uppercase + "234567",
    "bech32": "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L",
    "base58": "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz",
    "b64": string.ascii_letters + string.digits + "+/",
    "b64url": string.ascii_letters + string.digits + "-_",
    "print": string.ascii_letters + string.digits + "!#%*+-.?@^~",
}
_BLANK = re.compile(r"\{(\w+):(\d+)\}")
_SECRET = re.compile(r"«(.*?)»", re.DOTALL)


@dataclass(frozen=True)
class Sample:
    """
    A text with secrets in it.

    Attributes:
        form: What it is a sample of.
        text: What a file would hold.
        leaks: The parts that must not survive.
    """

    form: str
    text: str
    leaks: tuple[str, ...]

    def leaked(self, shown: str) -> bool:
        """Say whether more than `LEFT_AT_MOST` characters in a row of one of them stand in `shown`."""
        return any(part in shown for leak in self.leaks for part in _parts(leak))


def filled(form: str, draw: random.Random) -> str:
    """Return `form` with every blank drawn."""
    return _BLANK.sub(lambda blank: "".join(draw.choices(_ALPHABETS[blank[1]], k=int(blank[2]))), form)


def sample(name: str, form: str, draw: random.Random) -> Sample:
    """Return a sample of `form`."""
    text = filled(form, draw)
    return Sample(name, _SECRET.sub(r"\1", text), tuple(_SECRET.findall(text)))


def samples(
    forms: dict[str, str], seed: int, in_line: Callable[[str, random.Random], str] | None = None
) -> list[Sample]:
    """Return a sample of each form, put into a line by `in_line` where it is given; the same ones for the same seed."""
    draw = random.Random(seed)
    return [sample(name, in_line(form, draw) if in_line else form, draw) for name, form in forms.items()]


def _parts(leak: str) -> set[str]:
    """Return the pieces of a secret none of which may be left; a short one is one piece."""
    size = min(len(leak), LEFT_AT_MOST + 1)
    return {leak[at : at + size] for at in range(len(leak) - size + 1)}
