"""Many runs at once share nothing."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from .world import World

RUNS = 200


@pytest.mark.shells("dash", "bash")  # names and directories come from the same lines in every shell
def test_200_concurrent_runs_are_distinct_and_unmixed(world: World) -> None:
    job = "for n in 1 2 3; do echo out $1 $n; echo err $1 $n >&2; done; exit $(($1 % 100))"
    started = [world.start_run("/bin/sh", "-c", job, "sh", number) for number in map(str, range(RUNS))]
    for number, process in enumerate(started):
        stdout, stderr = process.communicate(timeout=100)
        assert process.returncode == number % 100
        assert stdout == b"".join(b"out %d %d\n" % (number, line) for line in (1, 2, 3))
        assert stderr == b"".join(b"err %d %d\n" % (number, line) for line in (1, 2, 3))
    runs = [run.finish() for run in world.runs()]
    assert len(runs) == RUNS
    seen = set()
    for run in runs:
        number = int(run.items("argv")[-1])
        seen.add(number)
        assert run.status == number % 100
        assert run.log("stdout") == b"".join(b"out %d %d\n" % (number, line) for line in (1, 2, 3))
        assert run.log("stderr") == b"".join(b"err %d %d\n" % (number, line) for line in (1, 2, 3))
    assert seen == set(range(RUNS))


@pytest.mark.shells("dash", "bash")
def test_concurrent_runs_that_append_to_one_file_say_it_is_shared(world: World) -> None:
    target = world.cwd / "shared"
    with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_APPEND), "wb") as file:
        started = [
            world.start_run("/bin/echo", f"line {number}", stdout=file.fileno(), stderr=subprocess.PIPE)
            for number in range(20)
        ]
        for process in started:
            assert process.communicate(timeout=60)[1] == b""
    assert sorted(target.read_bytes().splitlines()) == sorted(b"line %d" % number for number in range(20))
    for run in world.runs():
        run.finish()
        word = run.items("argv")[-1]
        assert run.start["stdout_shared"] == "1"
        assert word in run.adopted("stdout")


@pytest.mark.shells("dash")
def test_first_runs_on_a_fresh_state_folder_may_race(world: World) -> None:
    for attempt in range(5):
        state = world.root / f"fresh{attempt}"
        env = {"GPUALERT_HOME": str(state)}
        started = [world.start_run("/bin/true", env=env) for _ in range(8)]
        for process in started:
            assert process.communicate(timeout=60) == (b"", b"")
            assert process.returncode == 0
        assert len(list(Path(state / "runs").iterdir())) == 8
