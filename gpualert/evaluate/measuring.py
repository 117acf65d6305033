"""Everything that is measured on one corpus, ours and the baselines' alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from gpualert.classify import classify
from gpualert.evaluate.baselines import BASELINES
from gpualert.evaluate.cases import Case
from gpualert.evaluate.intervals import bootstrap, mcnemar, proven, wilson
from gpualert.evaluate.scoring import Outcome, confusion, guess, macro_f1, outcome, per_class, rates, split
from gpualert.ruleset import RuleSet

OURS = "gpualert"
Progress = Callable[[Sequence[Case]], AbstractContextManager[Iterable[Case]]]
_SHORT_LINES, _LONG_LINES = 100, 1000
SPLITS: Mapping[str, Callable[[Case], str]] = {
    "origin": lambda case: case.origin,
    "framework": lambda case: case.framework,
    "length": lambda case: _length(case),
}


@dataclass(frozen=True)
class Measured:
    """
    One corpus, classified.

    Attributes:
        outcomes: For `gpualert` and each baseline, an outcome a case, in the order of the cases.
    """

    corpus: str
    outcomes: Mapping[str, Sequence[Outcome]]

    @property
    def ours(self) -> Sequence[Outcome]:
        """What gpualert said."""
        return self.outcomes[OURS]


def measure(corpus: str, cases: Sequence[Case], rules: RuleSet, progress: Progress) -> Measured:
    """
    Classify every case, ours and each baseline.

    Args:
        progress: Wraps the cases in a context that yields them, and may show how far it is.
    """
    paper = {rule.id: rule.paper for rule in rules.rules}
    outcomes: dict[str, list[Outcome]] = {name: [] for name in (OURS, *BASELINES)}
    with progress(cases) as shown:
        for case in shown:
            outcomes[OURS].append(outcome(case, classify(case.logs, case.facts, rules)))
            for name, baseline in BASELINES.items():
                outcomes[name].append(guess(case, baseline(case), paper))
    return Measured(corpus, outcomes)


def figures(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return rates with their 95 % intervals and what they prove, and macro-F1 with its own."""
    found: dict[str, Any] = {"cases": len(outcomes)}
    for name, (hits, total) in rates(outcomes).items():
        row = {"hits": hits, "of": total}
        if total:
            low, high = wilson(hits, total)
            # Of false stops and abstentions fewer is better: what is proven is that they are no more than so many.
            bound = 1.0 - proven(total - hits, total) if name in ("false stops", "abstentions") else proven(hits, total)
            row |= {"rate": hits / total, "low": low, "high": high, "proven": bound}  # type: ignore[dict-item]
        found[name] = row
    low, high = bootstrap(outcomes, macro_f1)
    found["macro-F1"] = {"rate": macro_f1(outcomes), "low": low, "high": high}
    return found


def report(measured: Measured, by: str = "", holdout: str = "") -> dict[str, Any]:
    """Return everything measured, ready for JSON."""
    ours = measured.ours
    found: dict[str, Any] = {
        "corpus": measured.corpus,
        "figures": {name: figures(outcomes) for name, outcomes in measured.outcomes.items()},
        "mcnemar": {name: _against(ours, outcomes) for name, outcomes in measured.outcomes.items() if name != OURS},
        "classes": {
            name: {"cases": row.labelled, "precision": row.precision, "recall": row.recall, "f1": row.f1}
            for name, row in per_class(ours).items()
        },
        "confusion": [{"label": pair[0], "said": pair[1], "cases": n} for pair, n in confusion(ours).items()],
        "misses": [_miss(item) for item in ours if not item.right],
    }
    if by:
        found["by"] = {name: figures(part) for name, part in split(ours, SPLITS[by]).items()}
    if holdout:
        found["holdout"] = {
            name: {"held out": figures(part), "the others": figures([item for item in ours if item not in part])}
            for name, part in split(ours, SPLITS[holdout]).items()
        }
    return found


def _against(ours: Sequence[Outcome], theirs: Sequence[Outcome]) -> dict[str, float]:
    only_ours = sum(mine.right and not other.right for mine, other in zip(ours, theirs, strict=True))
    only_theirs = sum(other.right and not mine.right for mine, other in zip(ours, theirs, strict=True))
    return {"only gpualert": only_ours, "only baseline": only_theirs, "p": mcnemar(only_ours, only_theirs)}


def _miss(item: Outcome) -> dict[str, str]:
    return {"case": item.case.id, "label": "|".join(item.case.classes), "said": item.said}


def _length(case: Case) -> str:
    lines = 0
    for log in case.logs:
        with log.path.open("rb") as file:
            lines += sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(1 << 20), b""))
    if lines < _SHORT_LINES:
        return f"under {_SHORT_LINES} lines"
    return f"{_SHORT_LINES} to {_LONG_LINES} lines" if lines <= _LONG_LINES else f"over {_LONG_LINES} lines"
