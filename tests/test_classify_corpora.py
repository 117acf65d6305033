"""The labelled logs beside the checkout: each class right, the root line among the first three, both scans agree."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from gpualert.classify import classify
from gpualert.model import Facts, LogFile
from gpualert.rules import load_rules
from gpualert.ruleset import RuleSet

sys.path.insert(0, str(Path(__file__).parent))
from score import same_line, score_paper

SHARED = Path(__file__).parent.parent.parent / "shared"
WILD, REFERENCE = SHARED / "wild-dev", SHARED / "data" / "reference-corpus"

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not WILD.is_dir(), reason="the labelled logs are not beside this checkout"),
]


def labels(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "labels.jsonl").read_text().splitlines() if line.strip()]


def test_the_realistic_logs_are_judged_right_with_and_without_hyperscan() -> None:
    fast = load_rules()
    plain = RuleSet(fast.rules)
    wrong = []
    for row in labels(WILD):
        path, facts = WILD / f"{row['id']}.log", Facts(status=row["exit_code"])
        verdict = classify([LogFile(path.name, path)], facts, fast)
        wanted = [text for text in (row["evidence"], row.get("evidence_alt")) if text]
        shown = any(same_line(item.text, text) for item in verdict.evidence[:3] for text in wanted)
        if verdict.failure_class not in (row["class"], row.get("class_alt")) or not shown:
            wrong.append((row["id"], verdict.failure_class, shown))
        assert classify([LogFile(path.name, path)], facts, plain) == verdict
    assert not wrong


def test_the_reference_corpus_scores_at_least_0_998() -> None:
    assert score_paper(REFERENCE, labels(REFERENCE), misses=False) >= 0.998
