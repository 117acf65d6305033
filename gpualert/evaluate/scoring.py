"""What is counted: each case against its label, and rates, F1 and confusion over many."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpualert.classify.lines import read_line
from gpualert.evaluate.cases import Case
from gpualert.model import Action, Evidence, Verdict

# What an action means for the next attempt: a person first, something changed, the same again, nothing.
_DECISIONS: Mapping[str, str] = {
    Action.FIX.value: "stop",
    Action.BIGGER.value: "changed",
    Action.ELSEWHERE.value: "changed",
    Action.RETRY.value: "again",
    Action.RESUME.value: "again",
    Action.ONCE.value: "again",
    Action.NONE.value: "none",
}
# A chain that is stopped for one of these was stopped wrongly, unless the label itself says so.
_RECOVERABLE = frozenset(
    (
        *("nccl", "gpu_hardware", "cuda_driver", "storage_io", "network", "port_in_use", "rendezvous"),
        *("walltime", "preempted", "node_failure", "launch_failed", "hang"),
    )
)


@dataclass(frozen=True)
class Outcome:
    """
    One case and what was said of it.

    Attributes:
        said: The class, by the published fifteen where the case is labelled so.
        shown: Whether the first, and whether one of the first three lines of evidence is a labelled one; None
            where no line is labelled, or a baseline shows none.
        decision: Whether the retry decision is one of the labelled; None where none is labelled.
        false_stop: The decision stops what could have been retried; None where the case is none that could.
        rank: Whether the first rank is the labelled one; None where none is labelled.
    """

    case: Case
    said: str
    shown: tuple[bool, bool] | None = None
    decision: bool | None = None
    false_stop: bool | None = None
    rank: bool | None = None

    @property
    def strict(self) -> bool:
        """The class is the labelled one."""
        return self.said == self.case.classes[0]

    @property
    def right(self) -> bool:
        """The class is one of those that are as good an answer."""
        return self.said in self.case.classes


def outcome(case: Case, verdict: Verdict) -> Outcome:
    """Hold a verdict against the label of its case."""
    wanted = {_DECISIONS[action] for action in case.actions if action in _DECISIONS}
    decision = _DECISIONS[verdict.action.value]
    rank = case.suspect if verdict.first_rank is None else verdict.first_rank
    retryable = bool(wanted) and case.classes[0] in _RECOVERABLE and "stop" not in wanted
    return Outcome(
        case,
        said=(verdict.paper_class or verdict.failure_class) if case.by_paper else verdict.failure_class,
        shown=_shown(case, verdict.evidence) if case.evidence else None,
        decision=decision in wanted if wanted else None,
        false_stop=decision in ("stop", "none") if retryable else None,
        rank=rank == case.first_rank if case.first_rank is not None else None,
    )


def guess(case: Case, failure_class: str, paper: Mapping[str, str]) -> Outcome:
    """Hold a bare class, such as a baseline gives, against the label; `paper` names the published class of each."""
    return Outcome(case, (paper.get(failure_class) or failure_class) if case.by_paper else failure_class)


def _shown(case: Case, evidence: Sequence[Evidence]) -> tuple[bool, bool]:
    hits = [any(same_line(item.text, text) for text in case.evidence) for item in evidence[:3]]
    return hits[:1] == [True], any(hits)


def same_line(shown: str, wanted: str) -> bool:
    """Say whether two lines carry one message: numbers, punctuation and launchers' prefixes aside."""
    a, b = _plain(shown), _plain(wanted)
    return bool(a and b) and (a == b or (len(b) > 8 and b in a) or (len(a) > 15 and a in b))


def _plain(text: str) -> str:
    content = re.sub(r"\brank\W{0,2}\d+|\d+", "#", read_line(text).content)
    return re.sub(r"\W+", " ", content).strip().lower()


@dataclass(frozen=True)
class PerClass:
    """How one class fares: cases labelled so, answers that name it, and both."""

    labelled: int
    said: int
    hits: int

    @property
    def precision(self) -> float:
        """The part of the answers that is right; 0 for none."""
        return self.hits / self.said if self.said else 0.0

    @property
    def recall(self) -> float:
        """The part of the cases that is found; 0 for none."""
        return self.hits / self.labelled if self.labelled else 0.0

    @property
    def f1(self) -> float:
        """The harmonic mean of both; 0 where one is 0."""
        return 2 * self.hits / (self.labelled + self.said) if self.labelled + self.said else 0.0


def per_class(outcomes: Iterable[Outcome]) -> dict[str, PerClass]:
    """Return how each class that is labelled or said fares; an accepted alternative counts as the label."""
    labelled: Counter[str] = Counter()
    said: Counter[str] = Counter()
    hits: Counter[str] = Counter()
    for item in outcomes:
        truth = item.said if item.right else item.case.classes[0]
        labelled[truth] += 1
        said[item.said] += 1
        hits[truth] += item.right
    return {name: PerClass(labelled[name], said[name], hits[name]) for name in sorted({*labelled, *said})}


def macro_f1(outcomes: Iterable[Outcome]) -> float:
    """Return the mean F1 of the classes that are labelled; 0 for no cases."""
    scores = [row.f1 for row in per_class(outcomes).values() if row.labelled]
    return sum(scores) / len(scores) if scores else 0.0


def confusion(outcomes: Iterable[Outcome]) -> dict[tuple[str, str], int]:
    """Return how often a class was taken for another, the most frequent first; what is right is left out."""
    counts = Counter((item.case.classes[0], item.said) for item in outcomes if not item.right)
    return dict(counts.most_common())


def rates(outcomes: Sequence[Outcome]) -> dict[str, tuple[int, int]]:
    """Return each rate as hits and cases; the false stops come first, and of these fewer is better."""
    return {
        "false stops": _rate(item.false_stop for item in outcomes),
        "retry decision": _rate(item.decision for item in outcomes),
        "class": _rate(item.strict for item in outcomes),
        "class or alternative": _rate(item.right for item in outcomes),
        "evidence first": _rate(item.shown and item.shown[0] for item in outcomes),
        "evidence in three": _rate(item.shown and item.shown[1] for item in outcomes),
        "first rank": _rate(item.rank for item in outcomes),
        "abstentions": _rate(item.said == "unknown" for item in outcomes),
    }


def _rate(answers: Iterable[bool | None]) -> tuple[int, int]:
    known = [answer for answer in answers if answer is not None]
    return sum(known), len(known)


def split(outcomes: Iterable[Outcome], key: Callable[[Case], str]) -> dict[str, list[Outcome]]:
    """Return the outcomes by what `key` says of their case, sorted."""
    groups: dict[str, list[Outcome]] = defaultdict(list)
    for item in outcomes:
        groups[key(item.case) or "(not labelled)"].append(item)
    return dict(sorted(groups.items()))
