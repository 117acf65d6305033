"""What somebody who mistyped a name may have meant."""

from __future__ import annotations

from collections.abc import Iterable


def near(word: str, known: Iterable[str], most: int = 1, cutoff: float = 0.6) -> list[str]:
    """Return the names that come close to `word`, the nearest first; none where none does."""
    import difflib  # only on the way to an error

    return difflib.get_close_matches(word, list(known), most, cutoff)
