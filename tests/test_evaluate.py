"""Labelled logs are read, held against verdicts, and counted; intervals are those of the textbooks."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rundirs import RunBuilder

from gpualert.cli import main
from gpualert.errors import UsageError
from gpualert.evaluate.baselines import BASELINES
from gpualert.evaluate.cases import Case, read_cases
from gpualert.evaluate.intervals import bootstrap, mcnemar, proven, wilson
from gpualert.evaluate.scoring import Outcome, confusion, macro_f1, per_class, rates, same_line
from gpualert.model import Facts, LogFile

OOM = b"step 1\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB.\n"
MISSING = b"FileNotFoundError: [Errno 2] No such file or directory: 'train.csv'\n"


def put(folder: Path, *rows: dict[str, Any]) -> Path:
    """Make a corpus of the form with `labels.jsonl`; `log` of a row is the log's content."""
    folder.mkdir(exist_ok=True)
    for row in rows:
        (folder / f"{row['id']}.log").write_bytes(row.pop("log", OOM))
    (folder / "labels.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def said(truth: str, answer: str, alternatives: tuple[str, ...] = ()) -> Outcome:
    """Return the outcome of a case."""
    return Outcome(Case("x", "c", (), Facts(), (truth, *alternatives)), answer)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Return a function that runs a command of gpualert in this process and returns what it prints."""

    def call(*words: object) -> str:
        assert main([str(word) for word in words]) == 0
        return capsys.readouterr().out

    return call


def test_a_list_of_labels_is_read(tmp_path: Path) -> None:
    label = {"class": "cuda_oom", "class_alt": "ram_oom", "evidence": "OutOfMemoryError", "action": ["bigger"]}
    (case,) = read_cases(put(tmp_path / "logs", {"id": "a", **label, "first_rank": "rank3", "exit_code": -9}))
    assert case.classes == ("cuda_oom", "ram_oom")
    assert (case.evidence, case.actions, case.first_rank) == (("OutOfMemoryError",), frozenset(["bigger"]), 3)
    assert case.facts.status == 137
    assert not case.by_paper


def test_run_directories_are_read_as_production_reads_them(
    tmp_path: Path, make_run: Callable[..., Path], state: Path
) -> None:
    path = make_run(log=MISSING, exit={"status": 3})
    path.chmod(0o775)  # a checkout made under umask 002
    evidence = {"source": "slurm", "file": "", "line": 0, "text": "State=FAILED", "host": "n1", "parameters": {}}
    facts = {"oom_kills": 1, "scheduler_state": "FAILED", "evidence": [evidence]}
    (path / "evidence.json").write_text(json.dumps({"schema": 1, "facts": facts}))
    (path / "label.yaml").write_text("class: file_not_found\norigin: produced\nframework: python\n")
    (case,) = read_cases(state)
    assert [log.path for log in case.logs] == [path / "output.log"]
    assert (case.facts.status, case.facts.oom_kills, case.facts.scheduler_state) == (3, 1, "FAILED")
    assert case.facts.evidence[0].text == "State=FAILED"
    assert (case.origin, case.framework) == ("produced", "python")


def test_the_ranks_of_one_job_are_one_case(tmp_path: Path) -> None:
    case_path = tmp_path / "corpus" / "cuda_oom" / "case-1"
    for rank, status in enumerate((143, 1)):
        builder = RunBuilder(tmp_path / f"state{rank}")
        run_path = builder(
            f"20261129T145138Z-n{rank}-0000000{rank}", start={"group_rank": rank}, exit={"status": status}
        )
        (case_path / f"rank{rank}").parent.mkdir(parents=True, exist_ok=True)
        run_path.rename(case_path / f"rank{rank}")
    (case_path / "label.yaml").write_text("class: cuda_oom\n")
    (case,) = read_cases(tmp_path / "corpus")
    assert [log.name for log in case.logs] == ["rank0/output.log", "rank1/output.log"]
    assert case.facts.status == 143


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        ("labels.jsonl", '{"id": "a"}\n', "labels.jsonl', line 1: key 'class' is missing"),
        ("labels.jsonl", '{"id": "a", "class"\n', "labels.jsonl', line 1"),
        ("labels.jsonl", "[]\n", "labels.jsonl', line 1"),
        ("a/label.yaml", "class: x\n", "label.yaml': there is no run directory"),
        ("a/label.yaml", "class: [\n", "label.yaml': while parsing"),
        ("other", "", "no labels.jsonl, and no label.yaml"),
    ],
    ids=["no-class", "cut-off", "no-row", "no-run", "no-yaml", "nothing"],
)
def test_a_wrong_label_is_named_with_file_and_reason(tmp_path: Path, name: str, text: str, wanted: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text)
    with pytest.raises(UsageError, match=wanted.replace("'", ".").replace(".jsonl", r"\.jsonl")):
        read_cases(tmp_path)


def test_counts_of_a_class_are_those_done_by_hand() -> None:
    outcomes = [said("a", "a"), said("a", "b"), said("b", "b"), said("b", "b"), said("c", "a", ("a",))]
    rows = per_class(outcomes)
    assert (rows["a"].labelled, rows["a"].said, rows["a"].hits) == (3, 2, 2)
    assert rows["b"].precision == pytest.approx(2 / 3)
    assert rows["b"].recall == 1.0
    assert macro_f1(outcomes) == pytest.approx((2 * 2 / 5 + 2 * 2 / 5) / 2)
    assert confusion(outcomes) == {("a", "b"): 1}
    assert rates(outcomes)["class"] == (3, 5)
    assert rates(outcomes)["class or alternative"] == (4, 5)


def test_a_class_that_is_never_labelled_does_not_count_in_the_mean() -> None:
    assert macro_f1([said("a", "a"), said("a", "z")]) == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("hits", "total", "low", "high"),
    # Source: A. Agresti and B. A. Coull, 1998, and any calculator.
    [(0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (5, 10, 0.2366, 0.7634), (81, 263, 0.2553, 0.3662)],
)
def test_the_interval_of_a_rate_is_wilsons(hits: int, total: int, low: float, high: float) -> None:
    assert wilson(hits, total) == pytest.approx((low, high), abs=5e-5)


def test_no_cases_prove_nothing() -> None:
    assert wilson(0, 0) == (0.0, 1.0)
    assert proven(0, 0) == 0.0
    assert mcnemar(0, 0) == 1.0
    assert bootstrap([], lambda _: 0.5) == (0.0, 1.0)


def test_all_of_n_right_prove_the_nth_root_of_a_twentieth() -> None:
    for total in (1, 10, 45, 59, 474):
        assert proven(total, total) == pytest.approx(0.05 ** (1 / total), abs=1e-9)


def test_the_proven_rate_is_where_so_many_hits_become_unlikely() -> None:
    rate = proven(85, 90)
    chance = math.fsum(math.comb(90, k) * rate**k * (1 - rate) ** (90 - k) for k in range(85, 91))
    assert chance == pytest.approx(0.05, abs=1e-6)


def test_mcnemar_is_the_exact_binomial() -> None:
    assert mcnemar(10, 2) == pytest.approx(2 * sum(math.comb(12, k) for k in range(3)) / 2**12)
    assert mcnemar(2, 10) == mcnemar(10, 2)
    assert mcnemar(5, 5) == 1.0
    assert 0.0 < mcnemar(400, 0) < 1e-100


def test_resampling_gives_the_same_interval_each_time_and_holds_the_mean() -> None:
    cases = [1.0] * 80 + [0.0] * 20

    def mean(part: Any) -> float:
        return float(sum(part) / len(part))

    low, high = bootstrap(cases, mean)
    assert (low, high) == bootstrap(cases, mean)
    assert low < 0.8 < high
    assert high - low == pytest.approx(2 * 1.96 * 0.04, rel=0.15)


@pytest.mark.parametrize(
    ("shown", "wanted", "same"),
    [
        ("[rank3]: ValueError: bad 17", "ValueError: bad 18", True),
        ("2026-11-29 10:00:00 ERROR ValueError: bad value", "ValueError: bad value", True),
        ("ValueError: bad", "KeyError: 'bad'", False),
        ("", "", False),
    ],
)
def test_lines_are_compared_without_numbers_and_prefixes(shown: str, wanted: str, same: bool) -> None:
    assert same_line(shown, wanted) is same


@pytest.mark.parametrize(
    ("log", "status", "classes"),
    [
        (OOM, 1, ("cuda_oom", "cuda_oom", "traceback")),
        (MISSING, 1, ("file_not_found", "file_not_found", "traceback")),
        (b"all is well\n", 0, ("success", "success", "success")),
        (b"Traceback (most recent call last):\nCustomError: x\n", 139, ("traceback", "traceback", "segfault")),
        (b"\xff\xfe", None, ("unknown", "unknown", "unknown")),
    ],
    ids=["oom", "missing", "well", "custom", "bytes"],
)
def test_the_baselines_say_what_their_names_promise(
    tmp_path: Path, log: bytes, status: int | None, classes: tuple[str, ...]
) -> None:
    path = tmp_path / "x.log"
    path.write_bytes(log)
    case = Case("x", "c", (LogFile("x.log", path),), Facts(status=status), ("a",))
    assert tuple(baseline(case) for baseline in BASELINES.values()) == classes


def test_eval_prints_rates_baselines_and_confusion(tmp_path: Path, run: Callable[..., str]) -> None:
    corpus = put(
        tmp_path / "logs",
        {"id": "a", "class": "cuda_oom", "evidence": "CUDA out of memory. Tried to allocate", "action": ["bigger"]},
        {"id": "b", "class": "hang", "log": MISSING, "action": ["retry"], "exit_code": 1},
    )
    text = run("eval", corpus, "--classes", "--misses")
    assert "logs: 2 cases" in text
    assert "false stops           1 of 1" in text
    assert "class                 1 of 2" in text
    assert "keyword search" in text
    assert "hang      file_not_found  1" in text
    assert "b: file_not_found instead of hang" in text


def test_eval_as_json_holds_splits_and_holdouts_of_each_corpus(tmp_path: Path, run: Callable[..., str]) -> None:
    one = put(tmp_path / "one", {"id": "a", "class": "cuda_oom", "framework": "pytorch", "exit_code": 1})
    two = put(tmp_path / "two", {"id": "a", "mode": "file_not_found", "log": MISSING, "true_exit_code": 1})
    first, second = json.loads(run("eval", one, two, "--json", "--by", "length", "--holdout", "framework"))
    assert (first["corpus"], second["corpus"]) == ("one", "two")
    assert first["by"]["under 100 lines"]["cases"] == 1
    assert first["holdout"]["pytorch"]["held out"]["class"]["hits"] == 1
    assert second["figures"]["exit status"]["class"]["hits"] == 0
    assert second["mcnemar"]["exit status"]["only gpualert"] == 1


def test_eval_draws_the_confusion(tmp_path: Path, run: Callable[..., str]) -> None:
    corpus = put(tmp_path / "logs", {"id": "a", "class": "cuda_oom"}, {"id": "b", "class": "hang", "log": MISSING})
    run("eval", corpus, "--confusion", tmp_path / "confusion.png")
    assert (tmp_path / "confusion.png").read_bytes().startswith(b"\x89PNG")
