"""One message a line, in many frameworks' words: `class[|class...]<TAB>text`; `\\n` starts a new line of the log."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from gpualert.classify import classify
from gpualert.model import Facts, LogFile
from gpualert.rules import load_rules

WRAPPINGS = ("", "[rank3]: ", "2026-05-01 10:00:00,123 ERROR trainer: ", "node07: ")
WORDS: dict[str, list[tuple[str, str]]] = defaultdict(list)
for row in (Path(__file__).parent / "samples" / "words.tsv").read_text().splitlines():
    classes, text = row.split("\t", 1)
    WORDS[classes.partition("|")[0]].append((classes, text.replace("\\n", "\n")))


@pytest.mark.parametrize("failure_class", WORDS)
def test_a_message_names_its_class_however_it_is_wrapped(tmp_path: Path, failure_class: str) -> None:
    rules, path, wrong = load_rules(), tmp_path / "output.log", []
    for number, (classes, text) in enumerate(WORDS[failure_class]):
        wrapping = WRAPPINGS[number % len(WRAPPINGS)]
        path.write_text(
            "step 1 loss 2.1\nstep 2 loss 2.0\n" + "".join(f"{wrapping}{line}\n" for line in text.split("\n"))
        )
        named = classify([LogFile("output.log", path)], Facts(status=1), rules).failure_class
        if named not in classes.split("|"):
            wrong.append((named, wrapping + text))
    assert not wrong
