"""Every rule's examples are its tests: each is won by its rule among all rules, and no counterexample is."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpualert.classify import classify
from gpualert.model import Facts, LogFile
from gpualert.rules import read_rules, rule_files
from gpualert.ruleset import RuleSet

RULES = RuleSet(read_rules(rule_files()))
EXAMPLES = [(rule.id, log, f"{rule.id}-{i}") for rule in RULES.rules for i, (log, _) in enumerate(rule.examples)]
OTHERS = [(rule.id, log, f"{rule.id}-{i}") for rule in RULES.rules for i, (log, _) in enumerate(rule.counterexamples)]


def named(tmp_path: Path, log: str, status: int) -> str:
    path = tmp_path / "output.log"
    path.write_text(log if log.endswith("\n") else log + "\n")
    return classify([LogFile("output.log", path)], Facts(status=status), RULES).failure_class


@pytest.mark.parametrize(("rule", "log"), [row[:2] for row in EXAMPLES], ids=[row[2] for row in EXAMPLES])
def test_an_example_is_won_by_its_rule(tmp_path: Path, rule: str, log: str) -> None:
    assert named(tmp_path, log, 0 if rule == "success" else 1) == rule


@pytest.mark.parametrize(("rule", "log"), [row[:2] for row in OTHERS], ids=[row[2] for row in OTHERS])
def test_a_counterexample_is_not_won(tmp_path: Path, rule: str, log: str) -> None:
    status = 1 if rule == "success" else 0 if rule == "unknown" else 1
    assert named(tmp_path, log, status) != rule


@pytest.mark.parametrize("rule", RULES.rules, ids=lambda rule: rule.id)
def test_a_rule_has_three_examples_two_counterexamples_and_a_source(rule) -> None:  # type: ignore[no-untyped-def]
    assert len(rule.examples) >= 3
    assert len(rule.counterexamples) >= 2
    assert rule.sources


def test_all_forty_five_classes_have_a_rule() -> None:
    assert len(RULES.rules) == 45
