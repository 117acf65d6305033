"""The folder of a workflow: what one process writes down, others read with suspicion."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from gpualert.signals.process import starttime_of
from gpualert.workflow_folder import (
    FailedJob,
    WorkflowError,
    WorkflowFolder,
    begin,
    find_workflow,
    has_ended,
    untold,
    workflows,
)

ID = "20261129T145138Z-3f9a1c2e"


def begun(state: Path, name: str = ID, *, pid: int | None = None, is_counted: bool = True) -> WorkflowFolder:
    return begin(state, name, engine="snakemake", name="Snakefile", started_at=1.0, pid=pid, is_counted=is_counted)


def a_failure(log: Path | str = "", **changes: object) -> FailedJob:
    values = {"at": 2.0, "key": "0" * 16, "rule": "train", "wildcards": "s=A", "jobid": "3", "attempt": 1}
    values |= {"exit_status": 1, "external_job": "", "said": "it failed", "logs": (str(log),) if log else ()}
    return FailedJob(**{**values, **changes})  # type: ignore[arg-type]


def gone_pid() -> int:
    done = subprocess.Popen(["true"])
    done.wait()
    return done.pid


def test_what_is_written_is_read(state: Path) -> None:
    folder = begun(state)
    folder.add_failed(a_failure(exit_status=None, external_job="4711"))
    folder.add_passed("0" * 16, 3.0)
    folder.end(4.0, 5, 6)
    workflow = folder.read()
    assert (workflow.workflow, workflow.name, workflow.ended_at, workflow.done, workflow.total) == (
        ID,
        "Snakefile",
        4,
        5,
        6,
    )
    (failed,), passed, troubles = folder.failures()
    assert failed == a_failure(exit_status=None, external_job="4711", copies={})
    assert (passed, troubles) == ({"0" * 16: 3.0}, [])


def test_a_copy_of_a_log_outlives_the_next_attempt(state: Path, tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("the first attempt")
    folder = begun(state)
    folder.add_failed(folder.keep_logs(a_failure(log)))
    log.write_text("")
    (failed,), _, _ = folder.failures()
    assert failed.copies is not None and failed.copies[str(log)].read_text() == "the first attempt"


@pytest.mark.parametrize("kind", ["missing", "link", "fifo", "folder", "large"])
def test_a_log_that_cannot_be_copied_is_left_out(state: Path, tmp_path: Path, kind: str) -> None:
    log = tmp_path / "train.log"
    if kind == "link":
        log.symlink_to("/etc/passwd")
    elif kind == "fifo":
        os.mkfifo(log)
    elif kind == "folder":
        log.mkdir()
    elif kind == "large":
        with log.open("wb") as file:
            file.truncate(1 << 30)
    assert begun(state).keep_logs(a_failure(log)).copies == {}


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        "{}",
        '{"event": "failed"}',
        '{"event": "passed", "key": "x"}',
        '{"event": "passed", "key": "x", "at": "soon"}',
        '{"event": "failed", "at": 1, "key": "", "rule": "", "wildcards": "", "jobid": "", "attempt": "x"}',
    ],
)
def test_a_damaged_line_is_named_and_the_others_are_read(state: Path, line: str) -> None:
    folder = begun(state)
    (folder.path / "jobs.jsonl").write_text(line + "\n")
    folder.add_failed(a_failure())
    failed, _, (trouble,) = folder.failures()
    assert len(failed) == 1 and trouble.startswith(f"line 1 of '{folder.path / 'jobs.jsonl'}': ")


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "{}", '{"pid": 1}', '{"pid": "x", "started_at": 1}', '{"pid": 1, "started_at": []}']
)
def test_a_damaged_folder_is_refused_and_named(state: Path, content: str) -> None:
    folder = begun(state)
    (folder.path / "workflow.json").write_text(content)
    with pytest.raises(WorkflowError, match=r"workflow\.json"):
        folder.read()


def test_a_workflow_has_ended_when_it_says_so_or_its_process_is_gone(state: Path) -> None:
    folder = begun(state)
    assert has_ended(folder.read()) is False
    folder.end(2.0, 1, 1)
    assert has_ended(folder.read()) is True
    assert has_ended(begun(state, "gone", pid=gone_pid()).read()) is True


def test_nobody_can_say_from_another_host(state: Path) -> None:
    folder = begun(state)
    known = json.loads((folder.path / "workflow.json").read_text())
    (folder.path / "workflow.json").write_text(json.dumps({**known, "host": "elsewhere"}))
    assert has_ended(folder.read()) is None


def test_a_workflow_driven_from_elsewhere_has_ended_when_its_folder_is_unlocked(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = begun(state, pid=0, is_counted=False)
    assert has_ended(folder.read()) is None
    lock = tmp_path / ".snakemake" / "locks" / "0.input.lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    assert has_ended(folder.read()) is False
    lock.unlink()
    assert has_ended(folder.read()) is True


def test_the_workflows_nobody_has_told_of_are_found_once_they_are_quiet(state: Path) -> None:
    killed, told = begun(state, "1-killed", pid=gone_pid()), begun(state, "2-told", pid=gone_pid())
    begun(state, "3-running")
    told.mark_told()
    assert list(untold(state, time.time())) == []
    assert list(untold(state, time.time() + 1000)) == [killed]


def test_a_workflow_is_found_by_its_id_the_beginning_of_it_or_as_the_last(state: Path) -> None:
    first, second = begun(state, "20261129T1-a"), begun(state, "20261129T2-b")
    assert find_workflow("last", [state]) == find_workflow("20261129T2", [state]) == second
    assert find_workflow("20261129T1-a", [state]) == first
    with pytest.raises(WorkflowError, match=r"more than one has that name; there are 20261129T1-a, 20261129T2-b"):
        find_workflow("2026", [state])
    with pytest.raises(WorkflowError, match="none has that name"):
        find_workflow("x", [state])
    assert [folder.path.name for folder in workflows([state])] == ["20261129T1-a", "20261129T2-b"]


def test_the_process_is_known_by_its_start_too(state: Path) -> None:
    assert begun(state).read().pid_starttime == starttime_of(os.getpid())
