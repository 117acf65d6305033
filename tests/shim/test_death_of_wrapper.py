"""kill -9 of the wrapper: the job lives on, and so do its output, its log and its exit record."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess

import pytest

from .records import RunDir
from .waiting import eventually, is_alive, settled
from .world import World, parent_of

WAITING_JOB = 'echo before; while ! [ -e "$1" ]; do sleep 0.02; done; echo after; echo err >&2; exit 9'


def start_waiting(world: World, **how: object) -> tuple[subprocess.Popen[bytes], int]:
    """Start a job that waits for the file `go`; returns the wrapper and the job's pid."""
    words = ("/bin/sh", "-c", WAITING_JOB, "sh", world.cwd / "go")
    process = world.start_run(*words, **how)  # type: ignore[arg-type]
    assert process.stdout and process.stdout.readline() == b"before\n"
    return process, int(world.only_run().start["pid"])


def is_locked(run: RunDir) -> bool:
    """Say whether somebody holds the run's lock."""
    with (run.path / "lock").open("rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def test_the_job_its_output_and_its_record_survive_the_wrapper(world: World) -> None:
    process, job = start_waiting(world)
    process.kill()
    process.wait(30)
    assert is_alive(job)
    (world.cwd / "go").touch()
    assert process.stdout and process.stderr
    assert (process.stdout.read(), process.stderr.read()) == (b"after\n", b"err\n")
    run = world.only_run()
    assert (run.log("stdout"), run.log("stderr")) == (b"before\nafter\n", b"err\n")
    assert run.status == 9
    eventually(lambda: not world.processes(), "all helpers to end")


def test_a_job_killed_after_the_wrapper_is_recorded_as_killed(world: World) -> None:
    process, job = start_waiting(world)
    process.kill()
    process.wait(30)
    os.kill(job, signal.SIGKILL)
    run = world.only_run().finish()
    assert (run.status, run.signal in (signal.SIGKILL, None)) == (137, True)


def test_an_adopted_stream_survives_the_wrapper_too(world: World) -> None:
    target = world.cwd / "out"
    with target.open("wb") as out:
        process = world.start_run("/bin/sh", "-c", WAITING_JOB, "sh", world.cwd / "go", stdout=out)
    run = world.only_run()
    eventually(lambda: target.read_bytes() == b"before\n", "the first line")
    process.kill()
    process.wait(30)
    (world.cwd / "go").touch()
    run.finish()
    assert (run.adopted("stdout"), run.log("stderr"), run.status) == (b"before\nafter\n", b"err\n", 9)


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT, signal.SIGQUIT])
def test_the_group_may_be_signalled_after_the_wrapper_died(world: World, number: signal.Signals) -> None:
    process, job = start_waiting(world, via='ulimit -c 0; exec "$@"')
    process.kill()
    process.wait(30)
    os.killpg(process.pid, number)
    run = world.only_run().finish()
    assert (run.status, run.signal in (number, None)) == (128 + number, True)
    assert not is_alive(job)


def test_a_held_lock_proves_that_the_recorder_lives(world: World) -> None:
    process, _ = start_waiting(world)
    run = world.only_run()
    eventually(lambda: is_locked(run), "the lock to be held")  # the job does not wait for that
    process.kill()
    process.wait(30)
    assert is_locked(run)
    (world.cwd / "go").touch()
    run.finish()
    eventually(lambda: not is_locked(run), "the lock to be free after the end")


def test_neither_job_nor_tee_keeps_the_lock(world: World) -> None:
    process, job = start_waiting(world)
    run = world.only_run()
    recorder = parent_of(job)
    tees = {int(run.start[key]) for key in ("stdout_tee_pid", "stderr_tee_pid")}
    process.kill()
    process.wait(30)
    if recorder != process.pid and is_alive(recorder):
        os.kill(recorder, signal.SIGKILL)
    eventually(lambda: not is_locked(run), "the lock to be free without its recorder")
    assert is_alive(job) and all(is_alive(pid) for pid in tees)
    (world.cwd / "go").touch()
    assert process.stdout and process.stdout.read() == b"after\n"


def test_a_background_process_of_the_job_does_not_keep_the_lock(world: World) -> None:
    result = world.run("/bin/sh", "-c", "sleep 72 >/dev/null 2>&1 & echo $!")
    run = result.recorded
    eventually(lambda: not is_locked(run), "the lock to be free")
    assert is_alive(int(result.stdout))


def test_an_ended_run_leaves_an_exit_record_before_anything_else_sees_the_end(world: World) -> None:
    """The tee may live on for a left-behind writer; the record may not wait for it."""
    leave = '(while ! [ -e "$1" ]; do sleep 0.02; done) & exit 4'
    process = world.start_run("/bin/sh", "-c", leave, "sh", world.cwd / "go")
    run = world.only_run()
    eventually(lambda: run.has("exit"), "the exit record")
    assert is_alive(int(run.start["stdout_tee_pid"]))
    assert process.wait(30) == 4
    (world.cwd / "go").touch()
    settled(world.processes)
