"""What the failed attempts of an engine's job leave for the next one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from engine_runs import KEY, LOGS, WORKFLOW, engine_run, gate, lines
from rundirs import NOW, RunBuilder

from gpualert.config import load_settings
from gpualert.engine_attempts import FailedAttempt, attempts_before, blamed_nodes, job_key, read_attempts, remove_old
from gpualert.history import read_history
from gpualert.jsonfiles import append_line
from gpualert.post import post
from gpualert.tick import prune_state


def attempt(number: int, failure_class: str = "cuda_oom", blamed: str = "", run_id: str = "") -> FailedAttempt:
    run_id = run_id or f"run-{number}-{failure_class}"
    return FailedAttempt(run_id, number, "failed", failure_class, "bigger", "high", "n1", "", blamed, "f", 1)


def records(state: Path) -> Path:
    return state / "workflows" / WORKFLOW / f"{KEY}.jsonl"


@pytest.mark.parametrize("until_verdict", [True, False], ids=["until the verdict", "to the end"])
def test_a_failed_job_leaves_its_cause_where_the_next_attempt_finds_it(
    make_run: RunBuilder, state: Path, until_verdict: bool
) -> None:
    path = engine_run(make_run, 1, "cuda_oom", start={"node": "n7"}, exit={"status": 3})
    post(path, until_verdict=until_verdict)
    (found,), troubles = read_attempts([state], WORKFLOW, KEY)
    assert (found.run_id, found.attempt, found.failure_class, found.action) == (path.name, 1, "cuda_oom", "bigger")
    assert (found.node, found.blamed, found.exit_status, troubles) == ("n7", "", 3, ())
    (line,) = lines(state)
    assert (line["rule"], line["wildcards"], line["schema"]) == ("train", "sample=A", 1)
    assert records(state).stat().st_mode & 0o077 == 0


def test_a_node_at_fault_is_named_by_the_name_its_scheduler_knows(make_run: RunBuilder, state: Path) -> None:
    post(engine_run(make_run, 1, "gpu_hardware", start={"node": "n7"}))
    (found,), _ = read_attempts([state], WORKFLOW, KEY)
    assert (found.failure_class, found.action, found.blamed) == ("gpu_hardware", "elsewhere", "n7")


def test_a_success_and_a_run_of_no_engine_leave_nothing(make_run: RunBuilder, state: Path) -> None:
    post(engine_run(make_run, 1, "", log=b"done\n", exit={"status": 0}))
    post(make_run())
    assert not (state / "workflows").exists() and not (state / "gates").exists()


def test_a_gate_holds_the_status_of_a_job_that_only_a_person_can_mend(make_run: RunBuilder, state: Path) -> None:
    post(engine_run(make_run, 1, "file_not_found", exit={"status": 42}))
    assert gate(state).read_text() == "42\n"
    assert gate(state).stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("failure_class", "changes"),
    [
        pytest.param("cuda_oom", {}, id="more of something helps"),
        pytest.param("gpu_hardware", {}, id="another node helps"),
        pytest.param("", {"log": b"it is over\n"}, id="nobody knows"),
    ],
)
def test_there_is_no_gate_where_another_attempt_could_help(
    make_run: RunBuilder, state: Path, failure_class: str, changes: dict[str, Any]
) -> None:
    post(engine_run(make_run, 1, failure_class, **changes))
    assert len(lines(state)) == 1 and not gate(state).exists()


@pytest.mark.parametrize("name", ["", ".", "..", "../../escape", "a/b", "a b", "x" * 200, ".hidden", "a\nb"])
@pytest.mark.parametrize("item", ["workflow", "key"])
def test_a_name_that_is_none_writes_nothing_anywhere(
    make_run: RunBuilder, state: Path, tmp_path: Path, item: str, name: str
) -> None:
    path = engine_run(make_run, 1, "file_not_found", engine={item: name})
    post(path, until_verdict=True)
    assert (path / "verdict.json").exists()
    assert not (state / "workflows").exists() and not (state / "gates").exists()
    assert not list(tmp_path.rglob("*.jsonl"))


def test_a_verdict_comes_even_if_the_record_cannot_be_written(make_run: RunBuilder, state: Path) -> None:
    state.mkdir(mode=0o700)
    (state / "workflows").write_text("in the way\n")
    path = engine_run(make_run, 1, "cuda_oom")
    post(path)
    assert (path / "verdict.json").exists()
    assert "the job's next attempt will not know of this one" in (path / "post.log").read_text()


def test_a_run_that_is_judged_twice_counts_once(make_run: RunBuilder, state: Path) -> None:
    path = engine_run(make_run, 1, "cuda_oom")
    post(path)
    append_line(records(state), {**lines(state)[0], "class": "ram_oom"})
    (found,), _ = read_attempts([state], WORKFLOW, KEY)
    assert found.failure_class == "ram_oom"


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(b'{"run_id":"r2","cla', id="cut off"),
        pytest.param(b"\xff\xfe\x00\n", id="bytes"),
        pytest.param(b"[1]\n", id="no object"),
        pytest.param(b'{"run_id":"r2"}\n', id="keys are missing"),
        pytest.param(b"ATTEMPT_TEXT", id="the attempt is text"),
        pytest.param(b"EVIL_NODE", id="a node that is an option"),
    ],
)
def test_a_damaged_line_is_said_and_the_others_count(make_run: RunBuilder, state: Path, damage: bytes) -> None:
    post(engine_run(make_run, 1, "cuda_oom"))
    good = records(state).read_bytes()
    damage = good.replace(b'"attempt":1', b'"attempt":"1"') if damage == b"ATTEMPT_TEXT" else damage
    damage = good.replace(b'"blamed":""', b'"blamed":"n1 --uid=0"') if damage == b"EVIL_NODE" else damage
    records(state).write_bytes(good + damage)
    found, troubles = read_attempts([state], WORKFLOW, KEY)
    assert len(found) == 1
    assert troubles == (f"line 2 of '{records(state)}' is no record",)


def test_what_is_no_file_of_ours_is_said_and_not_read(make_run: RunBuilder, state: Path, tmp_path: Path) -> None:
    post(engine_run(make_run, 1, "cuda_oom"))
    elsewhere = tmp_path / "elsewhere"
    records(state).rename(elsewhere)
    records(state).symlink_to(elsewhere)
    found, (trouble,) = read_attempts([state], WORKFLOW, KEY)
    assert found == () and str(records(state)) in trouble and "symbolic link" in trouble
    records(state).unlink()
    os.mkfifo(records(state))
    found, (trouble,) = read_attempts([state], WORKFLOW, KEY)
    assert found == () and "not a regular file" in trouble


def test_where_there_is_nothing_nothing_is_known_and_that_is_no_trouble(state: Path) -> None:
    assert read_attempts([state], WORKFLOW, KEY) == ((), ())
    assert read_attempts([state], "../..", KEY) == ((), ())


def test_of_several_runs_within_one_attempt_the_last_counts() -> None:
    found = attempts_before([attempt(1, "cuda_oom"), attempt(2, "ram_oom"), attempt(1, "segfault")], 3)
    assert [(number, one.failure_class) for number, one in found.items()] == [(1, "segfault"), (2, "ram_oom")]


def test_attempts_that_are_not_before_this_one_do_not_count() -> None:
    assert list(attempts_before([attempt(1), attempt(2), attempt(3)], 3)) == [1, 2]
    assert attempts_before([attempt(1)], 1) == {}


def test_attempts_whose_number_is_not_known_are_counted_as_they_came() -> None:
    unknown = [attempt(0, "cuda_oom"), attempt(0, "ram_oom"), attempt(0, "segfault")]
    found = attempts_before([*unknown, attempt(2, "traceback")], 4)
    assert {number: one.failure_class for number, one in found.items()} == {1: "cuda_oom", 2: "traceback", 3: "ram_oom"}


def test_the_last_nodes_at_fault_are_kept_each_once() -> None:
    attempts = [attempt(number, blamed=node) for number, node in enumerate(["n1", "n2", "", "n1", "n3"], start=1)]
    assert blamed_nodes(attempts, 9) == ["n1", "n2", "n3"]
    assert blamed_nodes(attempts, 2) == ["n2", "n3"]


def test_a_key_tells_rules_and_wildcards_apart_whatever_their_order() -> None:
    assert job_key("train", {"a": "1", "b": "2"}) == job_key("train", {"b": "2", "a": "1"})
    keys = [
        job_key("train", {}),
        job_key("train", {"a": "1"}),
        job_key("train", {"a": "1", "b": ""}),
        job_key("traina=1", {}),
        job_key("train", {"a": "1,b="}),
        job_key("trän\udcff", {"a": "\n"}),
    ]
    assert len(set(keys)) == len(keys)
    assert all(len(key) == 16 and key.isalnum() for key in keys)


def test_workflows_in_which_nothing_has_failed_for_long_are_forgotten(make_run: RunBuilder, state: Path) -> None:
    post(engine_run(make_run, 1, "file_not_found"))
    day_s, written_at = 86400.0, records(state).stat().st_mtime
    remove_old(state, 60 * day_s, written_at + 59 * day_s)
    assert records(state).exists() and gate(state).exists()
    os.utime(records(state).parent, (NOW - 90 * day_s,) * 2)  # a folder is as young as what is in it
    remove_old(state, 60 * day_s, written_at + 59 * day_s)
    remove_old(state, 1 * day_s, written_at + 29 * day_s)  # its workflow may still be under way
    assert records(state).exists()
    remove_old(state, 60 * day_s, written_at + 61 * day_s)
    assert not list((state / "workflows").iterdir()) and not list((state / "gates").iterdir())


def test_a_tick_forgets_them_and_keeps_what_is_no_folder(make_run: RunBuilder, state: Path, tmp_path: Path) -> None:
    path = engine_run(make_run, 1, "file_not_found")
    post(path)
    (state / "gates" / "elsewhere").symlink_to(tmp_path)
    prune_state(state, load_settings().prune, records(state).stat().st_mtime + 400 * 86400)
    assert not records(state).exists() and not gate(state).exists()
    assert [entry["run_id"] for entry in read_history(state)] == [path.name]
    assert tmp_path.exists()


def test_every_log_here_is_of_its_class(make_run: RunBuilder, state: Path) -> None:
    for number, failure_class in enumerate(LOGS, start=1):
        post(engine_run(make_run, number, failure_class))
    found, _ = read_attempts([state], WORKFLOW, KEY)
    assert [one.failure_class for one in found] == list(LOGS)
