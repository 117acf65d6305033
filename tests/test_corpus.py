"""The corpus: labelled rightly, read by production's own reader, and nothing in it that tells whose machine it was."""

from __future__ import annotations

import gzip
import os
import pwd
import re
import socket
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpualert.evaluate.cases import Case, read_cases
from gpualert.evaluate.scoring import same_line
from gpualert.model import Action
from gpualert.rules import load_rules

CORPUS = Path(__file__).parents[1] / "corpus"
_KEYS = {"id", "class", "action", "origin", "how", "licence"}
_MORE_KEYS = {"class_alt", "evidence", "evidence_alt", "first_rank", "framework", "versions"}
_KEPT = re.compile(
    r"(?:format|argv|cwd|name|options|start|exit|evidence\.json|label\.yaml|(?:output|stdout|stderr)\.log)"
)
_CLASSES = {rule.id: rule for rule in load_rules().rules}

# No fewer than there are: whoever adds cases raises the number.
FEWEST = {"cases": 230, "produced": 230, "success": 40, "over 1,000 lines": 55, "multi-rank": 15}


@cache
def labels() -> dict[Path, dict[str, Any]]:
    return {path.parent: yaml.safe_load(path.read_text("utf-8")) for path in sorted(CORPUS.glob("*/*/label.yaml"))}


@cache
def cases() -> dict[str, Case]:
    return {case.id: case for case in read_cases(CORPUS)}


@cache
def text_of(path: Path) -> bytes:
    data = path.read_bytes()
    return gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data


def logs_of(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.log"))


def test_every_folder_of_a_class_holds_labelled_cases_only() -> None:
    folders = [path for path in CORPUS.glob("*/*") if path.is_dir() and path.parts[-2] != "make"]
    assert [path for path in folders if path not in labels()] == []


def test_every_label_has_the_keys_that_are_documented() -> None:
    for folder, label in labels().items():
        assert set(label) >= _KEYS, folder
        assert set(label) <= _KEYS | _MORE_KEYS, folder
        assert label["id"] == f"{folder.parent.name}/{folder.name}"
        assert label["origin"] in ("produced", "reconstructed"), folder
        assert label["licence"] == "CC0-1.0", folder


def test_every_label_names_classes_and_actions_that_exist() -> None:
    actions = {action.value for action in Action}
    for folder, label in labels().items():
        assert label["class"] == folder.parent.name
        assert {label["class"], *label.get("class_alt", ())} <= set(_CLASSES), folder
        assert label["action"] in actions, folder


def test_every_line_of_evidence_stands_in_a_log_or_in_the_facts() -> None:
    for folder, label in labels().items():
        texts = [text_of(path).decode("utf-8", "replace") for path in logs_of(folder)]
        wanted = [line for line in (label.get("evidence"), *label.get("evidence_alt", ())) if line]
        facts = [item.text for item in cases()[label["id"]].facts.evidence]
        for line in wanted:
            assert any(line in text for text in texts) or any(same_line(fact, line) for fact in facts), (folder, line)


def test_every_case_is_read_with_its_logs_and_its_status() -> None:
    assert set(cases()) == {label["id"] for label in labels().values()}
    for name, case in cases().items():
        assert case.logs, name


def test_a_case_that_must_come_out_as_success_ended_with_status_zero() -> None:
    assert {name for name, case in cases().items() if case.classes[0] == "success" and case.facts.status != 0} == set()


def test_a_first_rank_is_one_of_the_ranks() -> None:
    for folder, label in labels().items():
        if label.get("first_rank") is not None:
            assert 0 <= label["first_rank"] < 100_000, folder


def names_of_this_machine() -> list[str]:
    """Return the paths, users and names that would tell that a case was made here."""
    home = Path(pwd.getpwuid(os.getuid()).pw_dir)
    paths = {CORPUS.parent, home, Path(sys.prefix), Path(sys.base_prefix).resolve()} - {Path("/"), Path("/usr")}
    users = {user.pw_name for user in pwd.getpwall() if 1000 <= user.pw_uid < 65534}
    # A short name such as `vm` stands in other words' company too.
    return [*map(str, paths), *(name for name in (*users, socket.gethostname()) if len(name) > 3 and name != "user")]


def test_nothing_tells_whose_machine_it_was() -> None:
    here = [name.encode() for name in names_of_this_machine()]
    somebodys = re.compile(rb"(?<![\w-])/root/|/home/(?!user\b)\w+|/Users/|/var/tmp/corpus-")
    found = []
    for folder, label in labels().items():
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            text = text_of(path)
            told = [name for name in here if name in text and re.search(rb"(?<![\w/-])" + name + rb"(?![\w-])", text)]
            if label["origin"] == "produced" and b"/" in text:
                told += somebodys.findall(text)
            found += [(str(path.relative_to(CORPUS)), name) for name in told[:1]]
    assert found == []


def test_only_what_a_reader_needs_is_kept() -> None:
    for folder in labels():
        names = [path.name for path in folder.rglob("*") if path.is_file()]
        assert [name for name in names if not _KEPT.fullmatch(name)] == [], folder


def test_the_corpus_is_smaller_than_20_megabytes() -> None:
    sizes = [path.stat().st_size for path in CORPUS.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert sum(sizes) < 20_000_000


def test_there_are_as_many_cases_as_are_promised() -> None:
    lines = {folder: sum(text_of(path).count(b"\n") for path in logs_of(folder)) for folder in labels()}
    found = Counter(cases=len(labels()))
    for folder, label in labels().items():
        found["produced"] += label["origin"] == "produced"
        found["success"] += label["class"] == "success"
        found["over 1,000 lines"] += lines[folder] > 1000
        found["multi-rank"] += label.get("first_rank") is not None
    assert {name: (found[name], least) for name, least in FEWEST.items() if found[name] < least} == {}


@pytest.mark.parametrize("folder", sorted({path.name for path in CORPUS.iterdir() if path.is_dir()} - {"make"}))
def test_a_class_of_the_corpus_is_one_of_the_rules(folder: str) -> None:
    assert folder in _CLASSES
