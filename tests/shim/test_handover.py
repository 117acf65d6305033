"""After the record the post-processor takes over, and the caller has its shell back at once."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
from typing import Any

import pytest

from .namespaces import UNSHARE, require_namespaces
from .waiting import eventually, is_alive, settled
from .world import World, opened

# Stands in for Python: writes down what it is and what it sees, then stays until it is told to end.
FAKE = """#!{python} -IS
import json, os, sys, time
run = sys.argv[-1]
seen = {{"argv": sys.argv[1:], "pid": os.getpid(), "sid": os.getsid(0), "pgid": os.getpgid(0), "cwd": os.getcwd()}}
seen["fds"] = {{fd: os.readlink("/proc/self/fd/" + fd) for fd in os.listdir("/proc/self/fd")
               if os.path.lexists("/proc/self/fd/" + fd)}}
seen["files"] = sorted(os.listdir(run)) if os.path.isdir(run) else []
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
seen["ignored"], seen["blocked"] = status["SigIgn"], status["SigBlk"]
seen["environ"] = open("/proc/self/environ").read().split("\\0")
print("noise", flush=True); print("noise", file=sys.stderr, flush=True)
with open("{report}.new", "w") as file:
    json.dump(seen, file)
os.rename("{report}.new", "{report}")
while not os.path.exists("{end}"):
    time.sleep(0.01)
open("{done}", "w").close()
sys.exit(9)
"""


class FakePython:
    """An interpreter that reports how it was started and ends when it is told to."""

    def __init__(self, world: World) -> None:
        self.path = world.root / "python"
        self.report, self.end, self.done = (world.root / name for name in ("report", "end", "done"))
        text = FAKE.format(python=sys.executable, report=self.report, end=self.end, done=self.done)
        self.path.write_text(text)
        self.path.chmod(0o755)

    def env(self, post: str, **more: str | None) -> dict[str, str | None]:
        """Return the changes to the environment that make the shim use it."""
        return {"GPUALERT_POST": post, "GPUALERT_PYTHON": str(self.path), **more}

    def seen(self) -> dict[str, Any]:
        """Return its report once it is there."""
        eventually(self.report.exists, "the post-processor to start")
        return dict(json.loads(self.report.read_text()))


@pytest.fixture
def python(world: World) -> FakePython:
    """A fake interpreter of this world."""
    return FakePython(world)


def test_the_caller_does_not_wait_for_a_detached_post_processor(world: World, python: FakePython) -> None:
    """Both pipes end and the wrapper returns while the post-processor still runs."""
    result = world.run("/bin/sh", "-c", "echo out; exit 3", env=python.env("detach"))
    assert (result.returncode, result.stdout, result.stderr, result.complaints) == (3, b"out\n", b"", ())
    seen = python.seen()
    assert not python.done.exists() and is_alive(seen["pid"])
    assert seen["argv"][-2:] == ["post", str(result.recorded.path)]
    assert {"exit", "start", "argv"} <= set(seen["files"]) and ".exit" not in seen["files"]
    python.end.touch()
    eventually(python.done.exists, "the post-processor to end")


def test_a_detached_post_processor_is_cut_off_from_its_caller(world: World, python: FakePython) -> None:
    with opened(world.root, os.O_RDONLY) as folder:
        extra = fcntl.fcntl(folder, fcntl.F_DUPFD, 50)
    stage = f'exec /bin/bash -c \'exec 3<&{extra} 9<&{extra} 20<&{extra} 200<&{extra}; exec "$@"\' bash "$@"'
    result = world.run("/bin/true", env=python.env("detach"), via=stage, pass_fds=[extra])
    os.close(extra)
    assert result.complaints == ()
    seen = python.seen()
    assert seen["sid"] == seen["pid"] and seen["sid"] != result.pid
    # sh cannot close what has two digits; of those the post-processor closes its own copies.
    assert {fd for fd in seen["fds"] if len(fd) == 1} == {"0", "1", "2"}
    assert seen["fds"]["0"] == "/dev/null"
    assert not any("pipe:" in target or "/lock" in target for target in seen["fds"].values())
    python.end.touch()
    eventually(python.done.exists, "the post-processor to end")


def test_a_detached_post_processor_outlives_the_death_of_its_callers_group(world: World, python: FakePython) -> None:
    script = '"$@"; echo returned; sleep 73'
    caller = world.start(*world.shim, "run", "--", "/bin/true", via=script, env=python.env("detach"))
    assert caller.stdout and caller.stdout.readline() == b"returned\n"
    pid = python.seen()["pid"]
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        os.killpg(caller.pid, number)
    caller.wait(30)
    settled(lambda: is_alive(pid))
    assert is_alive(pid)
    python.end.touch()
    eventually(python.done.exists, "the post-processor to end")


def test_command_substitution_and_pipelines_do_not_wait_for_it(world: World, python: FakePython) -> None:
    script = 'x=$("$@"); echo "got $x"; "$@" | cat; "$@" 2>&1 | cat'
    process = world.start(*world.shim, "run", "--", "/bin/echo", "hi", via=script, env=python.env("detach"))
    assert process.communicate(timeout=60) == (b"got hi\nhi\nhi\n", b"")
    assert not python.done.exists()


@pytest.mark.parametrize("post", ["wait", "auto"])
def test_waiting_comes_back_after_the_post_processor(world: World, python: FakePython, post: str) -> None:
    python.end.touch()
    scheduler: dict[str, str | None] = {} if post == "wait" else {"SLURM_JOB_ID": "4711"}
    result = world.run("/bin/sh", "-c", "echo out; exit 3", env=python.env(post, **scheduler))
    assert python.done.exists()
    assert (result.returncode, result.stdout, result.stderr) == (3, b"out\n", b"")


@pytest.mark.parametrize("name", ["SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID"])
def test_by_default_a_batch_job_waits(world: World, python: FakePython, name: str) -> None:
    python.end.touch()
    result = world.run("/bin/true", env=python.env("auto", **{name: "17"}) | {"GPUALERT_POST": None})
    assert (result.returncode, python.done.exists()) == (0, True)


def test_as_the_first_process_of_a_container_it_waits(world: World, python: FakePython) -> None:
    require_namespaces()
    python.end.touch()
    inside = f'exec {" ".join(UNSHARE)} --pid --fork --mount-proc "$@"'
    result = world.run("/bin/sh", "-c", "exit 3", env=python.env("auto"), via=inside)
    assert (result.returncode, python.done.exists()) == (3, True)


def test_with_tick_nothing_is_started(world: World, python: FakePython) -> None:
    result = world.run("/bin/true", env=python.env("tick"))
    settled(world.processes)
    assert (result.returncode, python.report.exists(), world.processes()) == (0, False, set())


@pytest.mark.shells("dash")  # the clock is the same in all
def test_waiting_for_a_post_processor_that_never_ends_is_bounded(world: World, python: FakePython) -> None:
    result = world.run("/bin/sh", "-c", "exit 3", env=python.env("wait", GPUALERT_POST_WAIT_S="1"))
    assert result.returncode == 3
    assert not python.done.exists()


def test_a_signal_while_the_post_processor_is_awaited_does_not_change_the_status(
    world: World, python: FakePython
) -> None:
    process = world.start_run("/bin/sh", "-c", "exit 3", env=python.env("wait"))
    python.seen()
    process.send_signal(signal.SIGTERM)
    python.end.touch()
    assert process.wait(60) in (3, -15, 143)
    assert world.only_run().status == 3
