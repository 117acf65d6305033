"""The labelled logs beside the checkout: each class right, the root line among the first three, both scans agree."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpualert.classify import classify
from gpualert.evaluate.cases import read_cases
from gpualert.evaluate.scoring import macro_f1, outcome
from gpualert.rules import load_rules
from gpualert.ruleset import RuleSet

SHARED = Path(__file__).parent.parent.parent / "shared"
WILD, REFERENCE = SHARED / "wild-dev", SHARED / "data" / "reference-corpus"

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not WILD.is_dir(), reason="the labelled logs are not beside this checkout"),
]


@pytest.mark.parametrize("folder", [WILD, REFERENCE], ids=["realistic", "reference"])
def test_both_scans_give_equal_verdicts(folder: Path) -> None:
    fast = load_rules()
    plain = RuleSet(fast.rules)
    for case in read_cases(folder):
        assert classify(case.logs, case.facts, plain) == classify(case.logs, case.facts, fast), case.id


def test_the_realistic_logs_are_judged_right() -> None:
    rules = load_rules()
    outcomes = [outcome(case, classify(case.logs, case.facts, rules)) for case in read_cases(WILD)]
    assert [item.case.id for item in outcomes if not item.right or not (item.shown and item.shown[1])] == []


def test_the_reference_corpus_scores_at_least_0_998() -> None:
    rules = load_rules()
    outcomes = [outcome(case, classify(case.logs, case.facts, rules)) for case in read_cases(REFERENCE)]
    assert macro_f1(outcomes) >= 0.998
