"""Fit y = 3x + 1 by gradient descent, with a learning rate that is far too large."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Sequence

LEARNING_RATE = 1.9


def batches(count: int, size: int, seed: int = 0) -> Iterator[tuple[list[float], list[float]]]:
    """Yield batches of points on the line, with some noise."""
    source = random.Random(seed)
    for _ in range(count):
        xs = [source.uniform(-2.0, 2.0) for _ in range(size)]
        yield xs, [3.0 * x + 1.0 + source.gauss(0.0, 0.1) for x in xs]


def train_step(slope: float, offset: float, xs: Sequence[float], ys: Sequence[float]) -> tuple[float, float, float]:
    """Return slope and offset after one step, and the loss before it."""
    errors = [slope * x + offset - y for x, y in zip(xs, ys, strict=True)]
    loss = sum(error**2 for error in errors) / len(xs)
    if loss != loss or loss in (float("inf"), float("-inf")):
        raise FloatingPointError(f"loss is {loss}: the run has diverged")
    slope -= LEARNING_RATE * 2.0 * sum(error * x for error, x in zip(errors, xs, strict=True)) / len(xs)
    offset -= LEARNING_RATE * 2.0 * sum(errors) / len(xs)
    return slope, offset, loss


def main() -> int:
    """Train until the loss is small, or no number any more."""
    slope = offset = 0.0
    for step, (xs, ys) in enumerate(batches(2000, 512), start=1):
        slope, offset, loss = train_step(slope, offset, xs, ys)
        if step == 1 or step % 50 == 0:
            print(f"step {step}  loss {loss:.4g}", flush=True)
        if loss < 0.02:
            print(f"done: y = {slope:.2f} x + {offset:.2f}")
            return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
