"""How values are spread: quartiles, the share of the largest, the Gini coefficient."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

QUARTILE_METHOD = "linear interpolation between order statistics (R-7)"


@dataclass(frozen=True)
class Quartiles:
    """The quartiles of `count` values, by `QUARTILE_METHOD`."""

    lower: float
    median: float
    upper: float
    count: int


def quartiles(values: Sequence[float]) -> Quartiles | None:
    """
    Return the quartiles of some values; None for none.

    Source: Hyndman and Fan, "Sample Quantiles in Statistical Packages" (1996), definition 7.
    """
    if not values:
        return None
    ordered = sorted(values)

    def at(share: float) -> float:
        place = share * (len(ordered) - 1)
        below = math.floor(place)
        above = min(below + 1, len(ordered) - 1)
        return ordered[below] + (place - below) * (ordered[above] - ordered[below])

    return Quartiles(at(0.25), at(0.5), at(0.75), len(ordered))


def top_share(counts: Sequence[int], top: int) -> float | None:
    """Return which share of all counts the `top` largest have; None where nothing was counted."""
    whole = sum(counts)
    return sum(sorted(counts, reverse=True)[:top]) / whole if whole else None


def gini(counts: Sequence[int]) -> float | None:
    """Return the Gini coefficient of some counts, from 0 (all alike); None where nothing was counted."""
    whole = sum(counts)
    if not whole:
        return None
    ranked = sum(rank * count for rank, count in enumerate(sorted(counts), start=1))
    return 2 * ranked / (len(counts) * whole) - (len(counts) + 1) / len(counts)
