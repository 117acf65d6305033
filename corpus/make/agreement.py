"""
Print how far the second labels agree with the first.

    python -m corpus.make.agreement

`corpus/second_labels.yaml` holds eighty cases that were labelled again by somebody who saw the run directories and the
list of classes, neither the labels nor the rules: one case of each class, and others drawn at random.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from gpualert.evaluate.intervals import wilson
from gpualert.evaluate.scoring import same_line

SECOND_LABELS = Path(__file__).resolve().parents[1] / "second_labels.yaml"
Labels = Mapping[str, Any]


def read() -> dict[str, Labels]:
    """Return by case what the second labeller said, and under `first` what the first label was then."""
    return dict(yaml.safe_load(SECOND_LABELS.read_text("utf-8")))


def same_class(second: Labels) -> bool:
    """Say whether both named the same class."""
    return bool(second["class"] == second["first"]["class"])


def as_good(second: Labels) -> bool:
    """Say whether one named a class that the other holds for as good."""
    first = second["first"]
    return second["class"] in _classes(first) or first["class"] in _classes(second)


def same_evidence(second: Labels) -> bool:
    """Say whether the line that the second labeller shows is one that the first did."""
    shown = [second["first"].get("evidence", ""), *second["first"].get("evidence_alt", ())]
    return any(same_line(second.get("evidence", ""), line) for line in shown if line) or not any(
        (second.get("evidence", ""), *shown)
    )


def kappa(labels: Mapping[str, Labels]) -> float:
    """Return Cohen's kappa of the classes: the agreement beyond that of two who draw from the same shares at random."""
    firsts, seconds = (Counter(item["class"] for item in side) for side in zip(*_pairs(labels), strict=True))
    chance = sum(firsts[name] * seconds[name] for name in firsts) / len(labels) ** 2
    return (sum(map(same_class, labels.values())) / len(labels) - chance) / (1 - chance)


def _pairs(labels: Mapping[str, Labels]) -> list[tuple[Labels, Labels]]:
    return [(second["first"], second) for second in labels.values()]


def _classes(label: Labels) -> list[str]:
    return [label["class"], *label.get("class_alt", ())]


def _row(name: str, labels: Mapping[str, Labels], agree: Callable[[Labels], bool]) -> str:
    hits = sum(map(agree, labels.values()))
    low, high = wilson(hits, len(labels))
    return f"| {name} | {hits} of {len(labels)} | {hits / len(labels):.1%} | {low:.1%} to {high:.1%} |"


def main() -> None:
    """Print the table."""
    labels = read()
    ranked = {name: item for name, item in labels.items() if item["first"].get("first_rank") is not None}
    print("| | agree | | 95 % interval |\n|---|---|---|---|")
    print(_row("class", labels, same_class))
    print(_row("class, or one that is as good", labels, as_good))
    print(_row("retry decision", labels, lambda item: bool(item["action"] == item["first"]["action"])))
    print(_row("line that shows it", labels, same_evidence))
    print(_row("rank that failed first", ranked, lambda item: item["first_rank"] == item["first"]["first_rank"]))
    print(f"\nCohen's kappa of the classes: {kappa(labels):.3f}")


if __name__ == "__main__":
    main()
