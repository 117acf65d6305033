"""The history: what is left of runs, and of an engine's jobs that went well; it may grow large."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from gpualert.cli import main
from gpualert.history import end_of_history, read_engine_history, read_history, remember, tidy_history

NOW = 1_795_964_000.0
DAY_S = 86400.0


@pytest.fixture(autouse=True)
def small(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the state folder, and a history of 100 bytes a large one."""
    state.mkdir(mode=0o700)
    monkeypatch.setattr("gpualert.history._PUT_ASIDE_BYTES", 100)


def add(state: Path, number: int, workflow: str = "", **more: Any) -> None:
    what = {"engine": "snakemake", "workflow": workflow, "rule": "train"} if workflow else {"command": ["x"]}
    remember(state, f"run-{number}", {"status": "succeeded", **what, **more})


def names(found: Any) -> list[str]:
    return [line["run_id"] for line in found]


def test_a_large_history_is_put_aside_and_read_first(state: Path) -> None:
    add(state, 1)
    add(state, 2)
    tidy_history(state, DAY_S, NOW)
    assert [path.name for path in state.iterdir()] == ["history-20261129T145320Z.jsonl"]
    add(state, 3)
    tidy_history(state, DAY_S, NOW + 1)
    assert names(read_history(state)) == ["run-1", "run-2", "run-3"]


def test_a_workflows_jobs_are_read_from_where_it_began_though_the_history_was_put_aside(state: Path) -> None:
    add(state, 1, "w")
    begin = end_of_history(state)
    add(state, 2, "w")
    add(state, 3, "other")
    tidy_history(state, DAY_S, NOW)
    add(state, 4, "w")
    assert names(read_engine_history(state, "w", begin)) == ["run-2", "run-4"]
    assert names(read_engine_history(state, "w")) == ["run-1", "run-2", "run-4"]


def test_a_workflow_that_began_without_a_history_reads_all_of_it(state: Path) -> None:
    begin = end_of_history(state)
    add(state, 1, "w")
    assert names(read_engine_history(state, "w", begin)) == ["run-1"]


def test_damaged_lines_and_text_that_only_looks_like_it_are_skipped(state: Path) -> None:
    add(state, 1, "w")
    with (state / "history.jsonl").open("a") as file:
        file.write('{"workflow":"w"\n[1,"workflow":"w"]\n"\\"workflow\\":\\"w\\""\n')
        file.write(json.dumps({"run_id": "x", "rule": '"workflow":"w"'}) + "\n")
    add(state, 2, "w")
    assert names(read_engine_history(state, "w")) == ["run-1", "run-2"]


@pytest.mark.parametrize(("age_s", "left"), [(DAY_S - 60, ["run-1", "run-2", "run-3"]), (DAY_S + 60, ["run-2"])])
def test_old_lines_of_engines_go_and_those_of_runs_stay(state: Path, age_s: float, left: list[str]) -> None:
    for number, workflow in ((1, "w"), (2, ""), (3, "w")):
        add(state, number, workflow)
    tidy_history(state, DAY_S, NOW)
    (aside,) = state.glob("history-*")
    os.utime(aside, (NOW, NOW))
    tidy_history(state, DAY_S, NOW + age_s)
    assert names(read_history(state)) == left


def test_an_old_history_of_nothing_but_engines_jobs_goes(state: Path) -> None:
    add(state, 1, "w")
    add(state, 2, "w")
    tidy_history(state, DAY_S, NOW)
    (aside,) = state.glob("history-*")
    os.utime(aside, (NOW, NOW))
    tidy_history(state, DAY_S, NOW + 2 * DAY_S)
    assert list(state.iterdir()) == []
    tidy_history(state, DAY_S, NOW + 2 * DAY_S)


def test_an_engines_job_is_listed_by_its_rule(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    add(state, 1, "w", wildcards="sample=A")
    assert main(["runs", "--pruned"]) == 0
    assert "train sample=A" in capsys.readouterr().out
