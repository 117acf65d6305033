"""How a run stands: *unknown* is never read as *gone*, and a free lock proves nothing."""

from __future__ import annotations

import fcntl
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from rundirs import RunBuilder

from gpualert.rundir import read_run
from gpualert.signals.process import is_alive, this_machine
from gpualert.standing import Observation, Standing, judge, observe, standing


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """Yield a process that lives."""
    process = subprocess.Popen(["sleep", "600"])
    yield process
    process.kill()
    process.wait()


def starttime(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


def test_a_run_with_an_exit_record_has_ended(make_run: RunBuilder) -> None:
    assert standing(read_run(make_run())) is Standing.ENDED


def test_a_run_whose_lock_is_held_is_running(make_run: RunBuilder) -> None:
    path = make_run(ended=False)
    with (path / "lock").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert standing(read_run(path)) is Standing.RUNNING


def test_a_run_whose_recorder_was_killed_is_running_while_the_job_lives(
    make_run: RunBuilder, sleeper: subprocess.Popen[bytes]
) -> None:
    start = {"pid": sleeper.pid, "pid_starttime": starttime(sleeper.pid)}
    assert standing(read_run(make_run(start=start, ended=False))) is Standing.RUNNING


def test_another_process_with_the_jobs_number_is_not_the_job(
    make_run: RunBuilder, sleeper: subprocess.Popen[bytes]
) -> None:
    start = {"pid": sleeper.pid, "pid_starttime": starttime(sleeper.pid) - 1}
    assert standing(read_run(make_run(start=start, ended=False))) is Standing.LOST


def test_a_job_that_is_a_zombie_does_not_live() -> None:
    process = subprocess.Popen(["true"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert is_alive(process.pid) is False
    process.wait()


def test_a_run_whose_job_is_gone_from_this_host_is_lost(make_run: RunBuilder) -> None:
    assert standing(read_run(make_run(ended=False))) is Standing.LOST


def test_a_run_whose_host_was_rebooted_is_lost(make_run: RunBuilder) -> None:
    assert standing(read_run(make_run(start={"boot_id": "another"}, ended=False))) is Standing.LOST


@pytest.mark.parametrize(
    "start",
    [
        {"host": "elsewhere", "boot_id": "another"},
        {"boot_id": ""},
        {"pid_ns": "1"},
        {"host": "localhost", "boot_id": "another"},
        {"host": "", "boot_id": "another"},
    ],
    ids=["another host", "no boot id", "another pid namespace", "a name many hosts have", "no host"],
)
def test_a_run_without_end_that_cannot_be_seen_from_here_is_unknown(
    make_run: RunBuilder, start: dict[str, object]
) -> None:
    assert standing(read_run(make_run(start=start, ended=False))) is Standing.UNKNOWN


def test_a_kernel_that_does_not_tell_the_namespace_is_trusted_by_boot(make_run: RunBuilder) -> None:
    assert standing(read_run(make_run(start={"pid_ns": ""}, ended=False))) is Standing.LOST


def test_a_launch_without_start_is_abandoned_after_a_minute(make_run: RunBuilder) -> None:
    path = make_run(started=False, ended=False)
    assert standing(read_run(path)) is Standing.LAUNCHING
    os.utime(path, (time.time() - 61, time.time() - 61))
    assert standing(read_run(path)) is Standing.ABANDONED


def test_a_record_written_while_we_look_counts(make_run: RunBuilder) -> None:
    before = read_run(make_run(ended=False))
    (before.path / "exit").write_text("status=0\nend=1\n")
    assert standing(before) is Standing.ENDED


def test_what_the_kernel_does_not_tell_is_unknown(make_run: RunBuilder) -> None:
    run = read_run(make_run(ended=False))
    unseen = Observation(lock_held=None, rebooted=None, child_alive=None, age_s=1e6)
    assert judge(run, unseen) is Standing.UNKNOWN


def test_a_lock_that_is_no_file_is_not_opened(make_run: RunBuilder) -> None:
    path = make_run(ended=False)
    (path / "lock").unlink()
    os.mkfifo(path / "lock")
    assert observe(read_run(path), this_machine()).lock_held is None
