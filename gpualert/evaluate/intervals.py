"""What so many cases can prove: intervals for rates and for macro-F1, and whether two classifiers differ."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import TypeVar

_Z_95 = 1.959964  # the normal distribution's 97.5 % quantile
_T = TypeVar("_T")


def wilson(hits: int, total: int) -> tuple[float, float]:
    """
    Return the 95 % interval of a rate; (0, 1) for no cases.

    Source: E. B. Wilson, "Probable inference, the law of succession, and statistical inference", 1927.
    """
    if not total:
        return 0.0, 1.0
    rate, z2 = hits / total, _Z_95**2
    centre = (rate + z2 / (2 * total)) / (1 + z2 / total)
    half = _Z_95 / (1 + z2 / total) * math.sqrt(rate * (1 - rate) / total + z2 / (4 * total**2))
    return max(0.0, centre - half), min(1.0, centre + half)


def proven(hits: int, total: int) -> float:
    """
    Return the rate that `hits` of `total` prove at the 95 % level: with a lower one, so many were less than 5 % likely.

    Source: C. J. Clopper and E. S. Pearson, 1934, the one-sided bound.
    """
    if not hits:
        return 0.0
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if _at_least(hits, total, middle) < 0.05 else (low, middle)
    return low


def _at_least(hits: int, total: int, rate: float) -> float:
    """Return the probability of `hits` or more of `total`."""
    if rate <= 0.0 or rate >= 1.0:
        return float(rate >= 1.0)
    logs = math.log(rate), math.log1p(-rate)
    return math.fsum(
        math.exp(_log_choose(total, count) + count * logs[0] + (total - count) * logs[1])
        for count in range(hits, total + 1)
    )


def _log_choose(total: int, count: int) -> float:
    return math.lgamma(total + 1) - math.lgamma(count + 1) - math.lgamma(total - count + 1)


def bootstrap(cases: Sequence[_T], measure: Callable[[Sequence[_T]], float], rounds: int = 1000) -> tuple[float, float]:
    """
    Return the 95 % percentile interval of a measure over resampled cases; the same cases give the same interval.

    Source: B. Efron and R. J. Tibshirani, "An introduction to the bootstrap", chapter 13.
    """
    if not cases:
        return 0.0, 1.0
    draw = random.Random(0)
    values = sorted(measure(draw.choices(cases, k=len(cases))) for _ in range(rounds))
    return values[int(0.025 * rounds)], values[int(0.975 * rounds) - 1]


def mcnemar(only_first: int, only_second: int) -> float:
    """
    Return the two-sided exact probability that two classifiers differ so much by chance; 1 where they never differ.

    Args:
        only_first, only_second: Cases that only one of them got right.

    Source: Q. McNemar, 1947; exact, by the binomial distribution.
    """
    total, fewer = only_first + only_second, min(only_first, only_second)
    # At even odds `fewer` or less is as likely as `total - fewer` or more.
    return min(1.0, 2.0 * _at_least(total - fewer, total, 0.5)) if total else 1.0
