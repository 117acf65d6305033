"""`--timeout S` ends the job and its descendants, and nothing else."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from .waiting import eventually, is_alive, settled
from .world import World

ONE_SECOND = ("--timeout", "1")
SOON = {"GPUALERT_KILL_AFTER_S": "1"}


def test_a_job_over_its_time_ends_with_124(world: World) -> None:
    result = world.run("/bin/sh", "-c", "echo up; exec sleep 61", options=ONE_SECOND)
    run = result.recorded.finish()
    assert (result.returncode, result.stdout) == (124, b"up\n")
    assert (run.status, run.exit["timed_out"]) == (124, "1")
    assert b"timeout_s=1" in run.items("options")
    eventually(lambda: not world.processes(), "everything to end")


def test_a_job_within_its_time_keeps_its_status_and_nobody_waits_on(world: World) -> None:
    result = world.run("/bin/sh", "-c", "exit 3", options=("--timeout", "1000"))
    run = result.recorded.finish()
    assert (result.returncode, run.status, run.exit.get("timed_out") or "0") == (3, 3, "0")
    eventually(lambda: not world.processes(), "the timer to end with the job")


def test_a_job_that_tidies_up_on_term_still_timed_out_and_its_last_words_are_kept(world: World) -> None:
    tidy = "trap 'echo saved; exit 0' TERM; echo up; while :; do sleep 0.05; done"
    result = world.run("/bin/sh", "-c", tidy, options=ONE_SECOND)
    assert (result.returncode, result.stdout) == (124, b"up\nsaved\n")
    assert result.recorded.log("stdout") == b"up\nsaved\n"


def test_a_job_that_ignores_term_is_killed(world: World) -> None:
    stubborn = "trap '' TERM; echo up; while :; do sleep 0.05; done"
    result = world.run("/bin/sh", "-c", stubborn, options=ONE_SECOND, env=SOON)
    assert (result.returncode, result.stdout, result.stderr) == (124, b"up\n", b"")
    assert result.recorded.finish().exit["timed_out"] == "1"
    eventually(lambda: not world.processes(), "all descendants to end")


@pytest.mark.long
def test_kill_comes_ten_seconds_after_term(world: World) -> None:
    stubborn = "trap '' TERM; date +%s; while :; do date +%s; sleep 0.05; done"
    seconds = world.run("/bin/sh", "-c", stubborn, options=ONE_SECOND).stdout.split()
    assert 10 <= int(seconds[-1]) - int(seconds[0]) <= 14


def test_descendants_in_sessions_of_their_own_end_too(world: World) -> None:
    family = "setsid sleep 62 & (sleep 63 & exec sleep 64) & setsid sh -c 'sleep 65 & wait' & echo up; wait"
    result = world.run("/bin/sh", "-c", family, options=ONE_SECOND, env=SOON)
    assert (result.returncode, result.stdout) == (124, b"up\n")
    eventually(lambda: not world.processes(), "all descendants to end")


def test_processes_outside_the_job_are_left_alone(world: World) -> None:
    caller = """
        sleep 66 & neighbour=$!
        trap 'echo caller was hit' TERM HUP INT
        "$@"; echo "status $?"
        kill -0 $neighbour && echo neighbour lives
        kill $neighbour
    """
    words = [*world.shim, "run", *ONE_SECOND, "--", "/usr/bin/sleep", "67"]
    stdout, _ = world.start(*words, via=f"sh -c '{caller.replace(chr(39), chr(34))}' sh \"$@\"").communicate(timeout=60)
    assert stdout == b"status 124\nneighbour lives\n"


def test_a_job_that_ended_before_its_time_leaves_its_background_process_alone(world: World) -> None:
    leave = "sleep 68 >/dev/null 2>&1 & echo $!"
    result = world.run("/bin/sh", "-c", leave, options=ONE_SECOND)
    left_behind = int(result.stdout)
    eventually(lambda: world.processes() == {left_behind}, "the timer to go")
    settled(lambda: is_alive(left_behind))
    assert is_alive(left_behind)


def test_term_to_the_wrapper_still_ends_a_job_with_a_time_limit(world: World) -> None:
    process = world.start_run("/bin/sh", "-c", "echo up; exec sleep 69", options=("--timeout", "600"))
    assert process.stdout and process.stdout.readline() == b"up\n"
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) in (-15, 143)
    assert world.only_run().finish().exit.get("timed_out") in (None, "", "0")
    eventually(lambda: not world.processes(), "the timer to end with the job")


def test_the_time_limit_outlives_the_wrapper(world: World) -> None:
    process = world.start_run("/bin/sh", "-c", "echo up; exec sleep 70", options=("--timeout", "2"))
    assert process.stdout and process.stdout.readline() == b"up\n"
    process.kill()
    run = world.only_run().finish()
    assert (run.status, run.exit["timed_out"]) == (124, "1")


@pytest.mark.parametrize("value", ["", "x", "-1", "1x", "1 2"])
def test_a_time_limit_that_is_no_number_is_a_usage_error(world: World, value: str) -> None:
    made = world.cwd / "made"
    result = world.run("/usr/bin/touch", made, options=("--timeout", value))
    assert (result.returncode, len(result.complaints)) == (2, 1)
    assert not made.exists()


def test_the_job_sees_no_helper_of_the_time_limit(world: World) -> None:
    children = "import os,subprocess\nprint(open(f'/proc/self/task/{os.getpid()}/children').read())"
    result = world.run(sys.executable, "-I", "-S", "-c", children, options=("--timeout", "100"))
    assert result.stdout.strip() == b""


def test_a_stopped_job_is_ended_all_the_same(world: World) -> None:
    result = world.run("/bin/sh", "-c", "echo up; kill -STOP $$; echo on", options=ONE_SECOND, env=SOON)
    assert (result.returncode, result.recorded.finish().exit["timed_out"]) == (124, "1")


def test_the_shims_own_files_of_a_timed_out_run_are_complete(world: World) -> None:
    run = world.run("/usr/bin/sleep", "71", options=ONE_SECOND, stderr=subprocess.STDOUT).recorded.finish()
    assert run.has(".timed_out")
    assert Path(run.path / "output.log").read_bytes() == b""
