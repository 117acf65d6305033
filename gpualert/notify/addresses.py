"""What is a mail address: nothing else may reach a mail server, a mail program or a header."""

from __future__ import annotations

import re
from collections.abc import Iterable

# Plain ASCII and no leading dash: nothing that a server or a mail program could take for something else.
_WORD = r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]"
_ADDRESS = re.compile(rf"(?!-){_WORD}{{1,64}}(@[A-Za-z0-9.\-_\[\]:]{{1,255}})?")


def is_address(text: str) -> bool:
    """Say whether this is one bare address, or the name of a user of this machine."""
    return bool(_ADDRESS.fullmatch(text))


def addresses_in(texts: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the bare addresses in texts as people write them, `Ann <ann@x.org>, bob@y.org`; and what is none."""
    good: list[str] = []
    bad: list[str] = []
    for text in texts:
        for item in [text] if '"' in text else text.split(","):
            found = _found(item.strip())
            good += found
            if not found and item.strip():
                bad.append(item.strip())
    return tuple(dict.fromkeys(good)), tuple(bad)


def _found(item: str) -> list[str]:
    """Return the addresses in one item; none where any is doubtful, for the parser makes one of nearly everything."""
    if is_address(item):
        return [item]
    if not item.isprintable():
        return []
    from email.utils import getaddresses  # costs 10 ms, and most addresses are bare

    try:
        found = [address for _, address in getaddresses([item])]
    except (IndexError, ValueError):
        return []
    return found if all("@" in address and address in item and is_address(address) for address in found) else []
