"""Judges whether a name may hold a secret, and whether a value could be one."""

from __future__ import annotations

import re
from enum import IntEnum
from functools import lru_cache

from gpualert.redact import words


class Strength(IntEnum):
    """How sure a name makes us that its value is secret."""

    NONE = 0
    WEAK = 1  # `token`: the value must look random
    FIRM = 2  # `HF_TOKEN`, `api_key`: anything but numbers, code and prose
    PASSWORD = 3  # people choose them: anything


_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+[0-9]?(?![0-9])|[0-9]+|[A-Z]")


@lru_cache(4096)
def name_strength(name: str) -> Strength:
    """
    Judge a name such as `HF_TOKEN`, `max_tokens`, `clientSecret` or `api-key`.

    Its last word decides, beside numbers and endings such as `_prod`; the words before say whose it is.
    """
    parts = [part.lower() for part in _WORDS.findall(name)]
    while len(parts) > 1 and (parts[-1].isdigit() or parts[-1] in words.NAME_ENDINGS):
        parts.pop()
    if not parts:
        return Strength.NONE
    last, owners = parts[-1], set(parts[:-1])
    if last.endswith(words.PASSWORD_WORDS):
        return Strength.PASSWORD
    if last == "pass":
        return Strength.FIRM if owners & words.PASS_OWNERS else Strength.NONE
    if last == "pat":
        return Strength.FIRM if owners & words.PAT_OWNERS else Strength.NONE
    if last in words.SECRET_WORDS or (last == "key" and parts[-2:-1] and parts[-2] in words.KEY_OWNERS):
        return Strength.FIRM
    if last.endswith("token"):
        return _token_strength(last, owners, upper=name.isupper())
    return (
        Strength.WEAK
        if last in ("credential", "credentials", "creds", "auth") or (last == "key" and name.isupper())
        else Strength.NONE
    )


def _token_strength(last: str, owners: set[str], *, upper: bool) -> Strength:
    if last != "token":  # `authtoken`, `HFTOKEN`
        owners = owners | {last[: -len("token")]}
    if owners & words.TOKEN_ORDINARY:
        return Strength.NONE
    return Strength.FIRM if owners & words.TOKEN_OWNERS or (upper and owners) else Strength.WEAK


_BORING = re.compile(rb"(?:" + words.BORING + rb")[.!?]?", re.IGNORECASE)
_MASKED = re.compile(rb"[*xX.\-_#?]*|[<\[({].*[>\])}]|<[|/]?\w*|%[sdr]|%?\{.*", re.DOTALL)
_REFERENCE = re.compile(rb"\$\{?[A-Z_][A-Z0-9_]*\}?|\$[({].*|[0-9$@]", re.DOTALL)
_CODE = re.compile(
    rb"(?:self|cls|args?|cfg|config|os|sys|settings|request|kwargs|opts?|options|env|environ|conf|params|secrets|ctx"
    rb"|input|getpass|flags?|hparams|parser)\b[.\[(].*|[A-Za-z_][\w.]*[\[(].*|(?:[A-Za-z_]+\.)+[A-Za-z_]+",
    re.DOTALL,
)
_NUMBER = re.compile(rb"[+-]?(?:0x[0-9a-fA-F]+|[0-9][0-9.,_]*(?:e[+-]?[0-9]+)?[a-zA-Z%/]{0,8})")
_PATH = re.compile(rb"[~.]{0,2}(?:/(?:[A-Z]?[a-z0-9_.\-]+|\*))+/?|https?://\S*")
_PROSE = re.compile(
    rb"(?i)\b(?:required|must|field|invalid|incorrect|enter|should|cannot|please|is not|not found)\b|\.$"
)


def could_be_secret(value: bytes, strength: Strength, *, written: bool, bare: bool = False) -> bool:
    """
    Judge a value by itself.

    Args:
        value: Without its quotes.
        strength: What the name promised.
        written: It was given as a value (`=`, quotes, a line of its own), rather than in a sentence (`token: value`).
        bare: Without quotes it may be code.
    """
    if _BORING.fullmatch(value) or _MASKED.fullmatch(value) or _REFERENCE.fullmatch(value):
        return False
    if _PATH.fullmatch(value) or (bare and _CODE.fullmatch(value)):
        return False
    if strength == Strength.PASSWORD:
        return len(value) >= 3 and (written or _looks_random(value)) and not (b" " in value and _PROSE.search(value))
    if b" " in value or _NUMBER.fullmatch(value):
        return False
    if strength == Strength.FIRM and written:
        return len(value) >= 4
    return _looks_random(value)


def _looks_random(value: bytes) -> bool:
    """Say whether it is rather drawn than chosen: letters and digits mixed, or long."""
    if len(value) < 8:
        return len(value) >= 6 and bool(re.search(rb"[0-9]", value) and re.search(rb"[A-Za-z]", value))
    mixed = bool(re.search(rb"[0-9]", value) and re.search(rb"[A-Za-z]", value))
    return mixed or (len(value) >= 16 and bool(re.fullmatch(rb"[A-Za-z0-9+/=_~.\-]+", value)))


def looks_drawn(value: bytes) -> bool:
    """Say whether nobody would write this as a word: what a sentence about a token must hold to be one."""
    if re.fullmatch(rb"[0-9a-f]{32,}", value):
        return True
    digits = len(re.findall(rb"[0-9]", value))
    return digits >= 2 and bool(re.search(rb"[a-z]", value) and re.search(rb"[A-Z]", value))
