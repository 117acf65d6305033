"""The confusion of classes as a picture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from gpualert.evaluate.scoring import Outcome


def draw_confusion(outcomes: Sequence[Outcome], path: Path) -> None:
    """
    Draw how often each labelled class was taken for each, shares of a row as shades, and write a PNG.

    Raises:
        OSError: It cannot be written.
    """
    truths = [item.said if item.right else item.case.classes[0] for item in outcomes]
    names = sorted({*truths, *(item.said for item in outcomes)})
    counts = Counter(zip(truths, (item.said for item in outcomes), strict=True))
    rows = [[counts[truth, said] for said in names] for truth in names]
    shades = [[count / (sum(row) or 1) for count in row] for row in rows]
    size_inches = max(5.0, 0.26 * len(names) + 2.5)
    figure, axes = plt.subplots(figsize=(size_inches, size_inches), layout="constrained")
    axes.imshow(shades, cmap="Blues", vmin=0, vmax=1)
    axes.set_xticks(range(len(names)), names, rotation=90, fontsize=7)
    axes.set_yticks(range(len(names)), names, fontsize=7)
    axes.set_xlabel("said")
    axes.set_ylabel("labelled")
    for y, row in enumerate(rows):
        for x, count in enumerate(row):
            if count:
                colour = "white" if shades[y][x] > 0.5 else "black"
                axes.text(x, y, str(count), ha="center", va="center", fontsize=6, color=colour)
    figure.savefig(path, dpi=130)
    plt.close(figure)
