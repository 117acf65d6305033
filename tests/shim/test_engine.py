"""A workflow engine's job: judged before the engine hears of it, collapsed when it went well, stopped at a gate."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from .waiting import eventually
from .world import World

JOB = {
    "GPUALERT_ENGINE": "snakemake",
    "GPUALERT_ENGINE_WORKFLOW": "w-1",
    "GPUALERT_ENGINE_KEY": "0123456789abcdef",
    "GPUALERT_ENGINE_RULE": "train",
    "GPUALERT_ENGINE_WILDCARDS": "sample=A,fold=1",
    "GPUALERT_ENGINE_JOBID": "7",
    "GPUALERT_ENGINE_ATTEMPT": "2",
    "GPUALERT_ENGINE_LOG": "logs/a.log logs/b.log",
}
WITH_PYTHON = JOB | {"GPUALERT_POST": "detach", "GPUALERT_PYTHON": sys.executable}


def history(world: World) -> list[dict[str, Any]]:
    """Return the lines of the state folder's history."""
    path = world.state / "history.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def put_gate(world: World, content: str) -> None:
    """Leave what the post-processor leaves of a job that only a person can mend."""
    gate = world.state / "gates" / JOB["GPUALERT_ENGINE_WORKFLOW"] / JOB["GPUALERT_ENGINE_KEY"]
    gate.parent.mkdir(parents=True)
    gate.write_text(content)


def test_a_job_that_succeeded_leaves_one_line_of_history_and_no_directory(world: World) -> None:
    result = world.run("sh", "-c", "echo out; echo err >&2", env=JOB)
    assert (result.status, result.stdout, result.stderr, result.complaints) == (0, b"out\n", b"err\n", ())
    assert world.runs() == []
    (line,) = history(world)
    assert line["status"] == "succeeded"
    assert line["exit_status"] == 0
    assert line["ended_at"] >= line["started_at"] > 0
    told = ("engine", "workflow", "key", "rule", "wildcards", "jobid", "attempt")
    assert [line[key] for key in told] == ["snakemake", "w-1", "0123456789abcdef", "train", "sample=A,fold=1", "7", "2"]


def test_a_job_whose_output_is_a_file_collapses_too(world: World, tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as out:
        assert world.run("echo", "hello", env=JOB, stdout=out).status == 0
    assert (tmp_path / "out").read_bytes() == b"hello\n"
    assert world.runs() == []
    assert len(history(world)) == 1


def test_names_that_json_does_not_take_leave_a_history_that_can_be_read(world: World) -> None:
    world.run("true", env=JOB | {"GPUALERT_ENGINE_RULE": 'a"b\\\n', "GPUALERT_ENGINE_WILDCARDS": b"\xff" * 9})
    (line,) = history(world)
    assert (line["rule"], line["wildcards"], line["jobid"]) == ("", "", "7")


def test_two_hundred_jobs_leave_a_line_each(world: World) -> None:
    loop = 'i=0; while [ $i -lt 25 ]; do "$@" || exit; i=$((i + 1)); done'
    started = [world.start(*world.shim, "run", "--", "true", env=JOB, via=loop) for _ in range(8)]
    assert [process.wait(60) for process in started] == [0] * 8
    assert len({line["run_id"] for line in history(world)}) == 200
    assert world.runs() == []


def test_a_failed_job_keeps_its_record(world: World) -> None:
    result = world.run("sh", "-c", "exit 3", env=JOB)
    assert result.status == 3
    engine = dict(item.decode().split("=", 1) for item in result.recorded.items("engine"))
    assert engine == {
        "name": "snakemake",
        "workflow": "w-1",
        "key": "0123456789abcdef",
        "rule": "train",
        "wildcards": "sample=A,fold=1",
        "jobid": "7",
        "attempt": "2",
        "log": "logs/a.log logs/b.log",
    }
    assert result.recorded.start["engine"] == "snakemake"
    assert history(world) == []


def test_a_failed_job_is_judged_before_the_engine_hears_of_its_end(world: World) -> None:
    result = world.run("sh", "-c", "echo 'MemoryError' >&2; exit 1", env=WITH_PYTHON)
    verdict = json.loads((result.recorded.path / "verdict.json").read_text())
    assert verdict["class"] == "ram_oom"
    eventually(lambda: (result.recorded.path / "claims" / "ended-done").exists(), "the report to be done")


def test_a_run_inside_a_job_is_the_jobs_and_not_the_engines(world: World) -> None:
    result = world.run(*world.shim, "run", "--", "sh", "-c", "exit 3", env=JOB)
    assert result.status == 3
    outer, inner = world.runs()
    assert (outer.has("engine"), inner.has("engine")) == (True, False)
    assert inner.start["parent_run_id"] == outer.path.name
    assert inner.start["engine"] == "snakemake"


def test_a_gate_ends_the_next_attempt_at_once_with_the_old_status(world: World) -> None:
    put_gate(world, "42\n")
    result = world.run("touch", world.cwd / "ran", env=JOB | {"GPUALERT_GATE": "stop"})
    assert result.status == 42
    assert not (world.cwd / "ran").exists()
    assert len(result.complaints) == 1
    assert "42" in result.complaints[0]


@pytest.mark.parametrize(
    ("content", "changes"),
    [
        ("42\n", {}),
        ("42\n", {"GPUALERT_GATE": "advise"}),
        ("42\n", {"GPUALERT_GATE": "stop", "GPUALERT_ENGINE_KEY": "another"}),
        ("42\n", {"GPUALERT_GATE": "stop", "GPUALERT_ENGINE_KEY": "../w-1/0123456789abcdef"}),
        ("42\n", {"GPUALERT_GATE": "stop", "GPUALERT_ENGINE": None}),
        ("0\n", {"GPUALERT_GATE": "stop"}),
        ("256\n", {"GPUALERT_GATE": "stop"}),
        ("", {"GPUALERT_GATE": "stop"}),
        ("x\n", {"GPUALERT_GATE": "stop"}),
    ],
    ids=["unasked", "advise", "another-key", "a-path", "no-engine", "zero", "too-large", "empty", "no-number"],
)
def test_nothing_else_stops_at_a_gate(world: World, content: str, changes: dict[str, str | None]) -> None:
    put_gate(world, content)
    result = world.run("touch", world.cwd / "ran", env=JOB | changes)
    assert (result.status, result.complaints) == (0, ())
    assert (world.cwd / "ran").exists()
