"""The corpus: labelled rightly, read by production's own reader, and nothing in it that tells whose machine it was."""

from __future__ import annotations

import gzip
import importlib
import os
import pwd
import re
import socket
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from rundirs import RunBuilder

from gpualert.evaluate.cases import Case, read_cases
from gpualert.evaluate.scoring import same_line
from gpualert.model import Action, Capture
from gpualert.rules import load_rules
from gpualert.rundir import read_run

CORPUS = Path(__file__).parents[1] / "corpus"
_KEYS = {"id", "class", "action", "origin", "how", "licence"}
_MORE_KEYS = {"class_alt", "evidence", "evidence_alt", "first_rank", "framework", "versions", "settled"}
_KEPT = re.compile(
    r"(?:format|argv|cwd|name|options|start|exit|evidence\.json|label\.yaml|(?:output|stdout|stderr)\.log)"
)
_CLASSES = {rule.id: rule for rule in load_rules().rules}

# No fewer than there are: whoever adds cases raises the number.
FEWEST = {"cases": 730, "produced": 563, "success": 58, "over 1,000 lines": 190, "multi-rank": 119}


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
    users = {user.pw_name for user in pwd.getpwall() if user.pw_dir.startswith("/home/")}
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


def test_every_class_has_its_number_of_cases() -> None:
    found = Counter(label["class"] for label in labels().values())
    least = {name: 12 if rule.paper == name else 6 for name, rule in _CLASSES.items()} | {"success": 40}
    assert {name: found[name] for name in least if found[name] < least[name]} == {}


@pytest.mark.parametrize("folder", sorted({path.name for path in CORPUS.iterdir() if path.is_dir()} - {"make"}))
def test_a_class_of_the_corpus_is_one_of_the_rules(folder: str) -> None:
    assert folder in _CLASSES


def workshop(*words: str) -> subprocess.CompletedProcess[str]:
    """Run `python -m corpus.make`, as a person would in the checkout."""
    command = [sys.executable, "-m", "corpus.make", *words]
    return subprocess.run(command, cwd=CORPUS.parent, capture_output=True, text=True, check=False)


def test_every_case_can_be_made_again() -> None:
    assert set(cases()) - set(workshop("--list").stdout.split()) == set()


def test_a_name_that_no_recipe_has_is_refused() -> None:
    told = workshop("no_such_case")
    assert (told.returncode, told.stderr.strip()) == (2, "no case is called no_such_case")


@pytest.mark.engines
@pytest.mark.parametrize("name", ["segfault/null_pointer_in_c", "port_in_use/http_server", "oom_killer/exit_zero"])
def test_a_case_made_twice_is_the_same_failure_twice(name: str) -> None:
    if os.geteuid() != 0 or sys.prefix == sys.base_prefix:
        pytest.skip("a box for a job takes root, and a virtual environment")
    if str(Path(__file__).resolve()).startswith("/tmp/"):
        pytest.skip("a box has a /tmp of its own, and this checkout lies in /tmp")
    told = workshop("--twice", name)
    if why := re.search(r"not made: ((?:not installed|it left no run directory): .*)", told.stderr):
        pytest.skip(why[1])  # a compiler is missing, or a container allows no mounts
    assert told.stdout.splitlines()[0] == f"{name}: reached twice", told.stderr


@pytest.fixture
def recipe(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the workshop's module of that name."""
    monkeypatch.syspath_prepend(CORPUS.parent)
    return importlib.import_module("corpus.make.recipe")


def test_a_case_names_neither_the_machine_nor_the_run_it_was_made_of(
    recipe: ModuleType, make_run: RunBuilder, tmp_path: Path
) -> None:
    cleaning = importlib.import_module("corpus.make.cleaning")
    log = b"ERROR on buildhost42 in /srv/me/project/train.py (buildhost42-old, run 20261129T145138Z-node03-3f9a1c2e)\n"
    run = make_run(log=log, start={"host": "buildhost42", "boot_id": "1b2c"}, cwd="/srv/me/project")
    one = recipe.Recipe("traceback/one", recipe.Job("python train.py"), "by a test")
    cleaning.keep(run.parent, tmp_path / "case", one, {"/srv/me": "/home/user", "buildhost42": "node01"})
    found = {path.name: path.read_bytes() for path in (tmp_path / "case").iterdir()}
    said = re.sub(rb"node01-[0-9a-f]{8}", b"node01-x", found["output.log"])
    assert said == b"ERROR on node01 in /home/user/project/train.py (buildhost42-old, run 20260101T000000Z-node01-x)\n"
    assert b"host=node01\n" in found["start"] and b"1b2c" not in found["start"]
    assert (found["cwd"], set(found)) == (
        b"/home/user/project\0",
        {"format", "argv", "cwd", "start", "exit", "output.log"},
    )


def test_an_adopted_stream_becomes_a_log_of_the_case(recipe: ModuleType, make_run: RunBuilder, tmp_path: Path) -> None:
    cleaning = importlib.import_module("corpus.make.cleaning")
    (tmp_path / "slurm-7.out").write_bytes(b"of another run\nKeyError: 'a'\nof a later one\n")
    run = make_run(log=None, start={"stdout": "adopt", "stderr": "adopt", "stdout_start": 15}, exit={"stdout_end": 29})
    (run / "stdout.path").write_bytes(os.fsencode(tmp_path / "slurm-7.out") + b"\0")
    cleaning.keep(
        run.parent, tmp_path / "case", recipe.Recipe("traceback/one", recipe.Job(), "by a test"), {"/x/y": "/z"}
    )
    kept = read_run(tmp_path / "case")
    assert [(stream.name, stream.capture) for stream in kept.streams] == [("output", Capture.TEE)]
    assert (tmp_path / "case" / "output.log").read_bytes() == b"KeyError: 'a'\n"


def test_texts_of_two_ranks_are_read_as_one_case(recipe: ModuleType, tmp_path: Path) -> None:
    make_case = importlib.import_module("corpus.make.case")
    cleaning = importlib.import_module("corpus.make.cleaning")
    texts = tuple(
        recipe.Text(log, status=status, rank=rank, facts={"scheduler_state": "FAILED"})
        for rank, log, status in ((0, "waiting\n" * 9000, 143), (1, "KeyError: 'bias'\n", 1))
    )
    one = recipe.Recipe("traceback/one", texts, "by a test", "KeyError", first_rank=1)
    cleaning.write_texts(tmp_path / "traceback" / "one", one, texts)
    make_case.write_label(tmp_path / "traceback" / "one", one)
    (case,) = read_cases(tmp_path)
    assert [log.name for log in case.logs] == ["rank1/output.log", "rank0/output.log"]  # the one at fault first
    assert (case.evidence, case.first_rank, case.facts.scheduler_state) == (("KeyError: 'bias'",), 1, "FAILED")
    assert case.logs[1].path.stat().st_size < 1000


def test_a_label_whose_line_is_in_no_log_is_refused(recipe: ModuleType, tmp_path: Path) -> None:
    make_case = importlib.import_module("corpus.make.case")
    cleaning = importlib.import_module("corpus.make.cleaning")
    one = recipe.Recipe("traceback/one", recipe.Text("all is well\n"), "by a test", "KeyError: 'a'")
    cleaning.write_texts(tmp_path / "one", one, [one.job])
    with pytest.raises(make_case.LabelError, match="no line contains \"KeyError: 'a'\""):
        make_case.write_label(tmp_path / "one", one)


def test_what_two_labellers_disagree_about_is_settled_in_the_label(recipe: ModuleType) -> None:
    second = yaml.safe_load((CORPUS / "second_labels.yaml").read_text("utf-8"))
    now = {label["id"]: label for label in labels().values()}
    assert len(second) == 80 and {now[name]["class"] for name in second} == set(_CLASSES)
    differ = {
        name for name, item in second.items() if any(item[key] != item["first"][key] for key in ("class", "action"))
    }
    assert differ and all(now[name].get("settled") for name in differ)


def test_the_agreement_that_is_quoted_is_the_one_that_is_printed(recipe: ModuleType) -> None:
    printed = subprocess.run(
        [sys.executable, "-m", "corpus.make.agreement"], cwd=CORPUS.parent, capture_output=True, text=True, check=True
    ).stdout
    quoted = (CORPUS / "README.md").read_text("utf-8")
    assert "| class |" in printed and all(line in quoted for line in printed.splitlines())
