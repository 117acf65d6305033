"""The whole chain with real processes: the shim runs a job, and a message arrives."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from outcomes import body, messages, tick_once

from gpualert.places import shim
from gpualert.rundir import read_run
from gpualert.standing import Standing, standing

RUN = ["/bin/sh", str(shim()), "run"]


@pytest.fixture(autouse=True)
def detached(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hand over at once, with this Python."""
    monkeypatch.setenv("GPUALERT_POST", "detach")
    monkeypatch.setenv("GPUALERT_PYTHON", sys.executable)


def eventually(condition: Callable[[], Any], limit_s: float = 60.0) -> Any:
    """Wait until `condition` gives something true, and return it."""
    ends = time.monotonic() + limit_s
    while not (found := condition()):
        assert time.monotonic() < ends, "it never came true"
        time.sleep(0.02)
    return found


def done(state: Path) -> list[Path]:
    """Return the runs whose report is finished."""
    return sorted(path.parent.parent for path in (state / "runs").glob("*/claims/*-done"))


def python(script: str) -> list[str]:
    return [sys.executable, "-c", script]


def test_a_job_that_dies_is_reported_with_its_cause(state: Path) -> None:
    script = "print('step 1'); {}['missing']"
    job = subprocess.run([*RUN, "--name", "trial", "--", *python(script)], capture_output=True, check=False)
    assert job.returncode == 1
    eventually(lambda: done(state))
    (mail,) = messages(state)
    assert str(mail["Subject"]).startswith("FAILED traceback: trial on ")
    assert "KeyError: 'missing'" in body(mail)


def test_a_job_whose_output_is_a_file_is_judged_by_its_own_part_of_it(state: Path, tmp_path: Path) -> None:
    log = tmp_path / "job.out"
    log.write_text("ZeroDivisionError: division by zero\n")
    with log.open("ab") as out:
        subprocess.run([*RUN, "--", *python("import torch_of_tomorrow")], stdout=out, stderr=out, check=False)
    (path,) = eventually(lambda: done(state))
    verdict = json.loads((path / "verdict.json").read_text())
    assert verdict["class"] == "missing_module"
    assert verdict["evidence"][0]["file"] == "job.out"


def test_where_the_job_waits_for_its_report_it_is_there_on_return(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUALERT_POST", "wait")
    assert subprocess.run([*RUN, "--", "false"], check=False).returncode == 1
    assert len(done(state)) == len(messages(state)) == 1


def test_a_run_inside_a_run_is_told_by_the_outer_one(state: Path) -> None:
    inner = " ".join(f"'{word}'" for word in [*RUN, "--name", "inside", "--", "false"])
    outer = subprocess.run([*RUN, "--name", "outside", "--", "sh", "-c", f"{inner}; true"], check=False)
    assert outer.returncode == 0
    eventually(lambda: len(done(state)) == 2)
    (mail,) = messages(state)
    assert str(mail["Subject"]).startswith("OK: outside on ") and str(mail["Subject"]).endswith(", 1 inside it failed")
    assert "FAILED " in body(mail) and ": inside on " in body(mail)


def job_started(state: Path) -> tuple[Path, int]:
    """Return the run directory and the process of the job that has just been started."""
    start = eventually(lambda: [path for path in (state / "runs").glob("*/start") if b"\nend=1" in path.read_bytes()])
    run = read_run(start[0].parent)
    assert run.start
    return run.path, run.start.pid


def test_a_run_whose_wrapper_is_killed_is_reported_with_its_status(state: Path) -> None:
    wrapper = subprocess.Popen(
        [*RUN, "--", *python("import sys; sys.stdin.read(); sys.exit(3)")], stdin=subprocess.PIPE
    )
    path, _ = job_started(state)
    wrapper.kill()
    assert wrapper.wait() == -signal.SIGKILL and wrapper.stdin
    assert standing(read_run(path)) is Standing.RUNNING
    wrapper.stdin.close()
    eventually(lambda: done(state))
    assert json.loads((path / "evidence.json").read_text())["facts"]["status"] == 3


def test_a_run_that_is_killed_with_its_recorder_is_reported_as_lost_by_a_tick(state: Path) -> None:
    wrapper = subprocess.Popen([*RUN, "--", "sleep", "600"], start_new_session=True)
    path, job = job_started(state)
    recorder = int(Path(f"/proc/{job}/stat").read_text().rpartition(")")[2].split()[1])
    for pid in (wrapper.pid, recorder, job):
        os.kill(pid, signal.SIGKILL)
    wrapper.wait()
    eventually(lambda: standing(read_run(path)) is Standing.LOST)
    assert tick_once(state) == []
    (mail,) = messages(state)
    assert str(mail["Subject"]).startswith("LOST")


def test_without_any_python_the_job_runs_and_a_tick_reports_it_later(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUALERT_POST", "tick")
    assert subprocess.run([*RUN, "--", "false"], check=False).returncode == 1
    assert tick_once(state) == [] and len(messages(state)) == 1
