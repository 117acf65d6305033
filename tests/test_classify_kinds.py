"""Kinds of endings, each in a few lines: what an operator would say of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpualert.classify import classify
from gpualert.model import Facts, LogFile
from gpualert.rules import load_rules

SAMPLES = re.findall(
    r"^=== (\S+) \| (\S+) \| (\S+)\n(.*?)(?=^=== |\Z)",
    (Path(__file__).parent / "samples" / "kinds.txt").read_text(),
    re.MULTILINE | re.DOTALL,
)


@pytest.mark.parametrize(("classes", "status", "log"), [row[1:] for row in SAMPLES], ids=[row[0] for row in SAMPLES])
def test_the_ending_is_named_as_an_operator_would(tmp_path: Path, classes: str, status: str, log: str) -> None:
    path = tmp_path / "output.log"
    path.write_text(log)
    facts = Facts(status=None if status == "none" else int(status))
    verdict = classify([LogFile("output.log", path)], facts, load_rules())
    assert verdict.failure_class in classes.split("|"), [item.text for item in verdict.evidence]
