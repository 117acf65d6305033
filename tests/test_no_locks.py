"""File systems without locks: nothing is lost and nothing is done twice."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from outcomes import messages
from ranks import Ranks
from rundirs import RunBuilder

from gpualert.claims import locked
from gpualert.errors import LockTimeoutError
from gpualert.places import python_command


@pytest.fixture(params=[errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP], ids=["ENOLCK", "ENOSYS", "EOPNOTSUPP"])
def world(request: pytest.FixtureRequest, no_locks: Path) -> dict[str, str]:
    """Return the environment of a process that finds no locks."""
    return {**os.environ, "LD_PRELOAD": str(no_locks), "NO_LOCKS": str(request.param)}


def test_a_message_is_sent_once_all_the_same(make_run: RunBuilder, state: Path, world: dict[str, str]) -> None:
    path = make_run()
    started = [subprocess.Popen(python_command("post", str(path)), env=world) for _ in range(3)]
    assert [process.wait() for process in started] == [0, 0, 0]
    assert len(messages(state)) == 1
    done = subprocess.run(python_command("tick"), env=world, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert len(messages(state)) == 1 and not list(state.rglob("*.held"))


HOLD = """
import sys
from pathlib import Path
from gpualert.claims import locked
with locked(Path(sys.argv[1]), 0.5):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_one_keeps_another_out_and_what_a_killed_one_left_counts_no_more_after_a_while(
    tmp_path: Path, world: dict[str, str]
) -> None:
    lock = tmp_path / "lock"
    command = [sys.executable, "-c", HOLD, str(lock)]
    with subprocess.Popen(command, env=world, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout and holder.stdout.readline() == b"held\n"
        second = subprocess.run(command, env=world, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
        assert b"LockTimeoutError" in second.stderr and b"still held by another process after 0.5 s" in second.stderr
        holder.kill()
    left = tmp_path / "lock.held"
    then = time.time() - 901
    os.utime(left, (then, then))
    third = subprocess.run(command, env=world, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    assert third.stdout == b"held\n" and not left.exists()


QUICK = "import gpualert.claims; gpualert.claims._TOUCH_S = 0.05\n" + HOLD


def test_a_holder_that_takes_long_does_not_look_like_one_that_was_killed(tmp_path: Path, world: dict[str, str]) -> None:
    lock, held = tmp_path / "lock", tmp_path / "lock.held"
    with subprocess.Popen(
        [sys.executable, "-c", QUICK, str(lock)], env=world, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout and holder.stdout.readline() == b"held\n"
        os.utime(held, (1, 1))
        ends = time.monotonic() + 60
        while held.stat().st_mtime < 2:
            assert time.monotonic() < ends
            time.sleep(0.01)
        held.unlink()
        held.write_text("another's")  # who thought us dead
        holder.communicate(b"")
    assert held.read_text() == "another's"


def test_where_there_are_locks_no_such_file_is_made(tmp_path: Path) -> None:
    with locked(tmp_path / "lock", 0), pytest.raises(LockTimeoutError), locked(tmp_path / "lock", 0):
        pytest.fail("two hold it")
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("lock")] == ["lock"]


def test_a_group_of_runs_is_told_once_all_the_same(make_run: RunBuilder, state: Path, world: dict[str, str]) -> None:
    paths = Ranks(make_run, size=3).with_one_cause(2)
    started = [subprocess.Popen(python_command("post", str(path)), env=world) for path in paths]
    assert [process.wait() for process in started] == [0, 0, 0]
    assert len(messages(state)) == 1 and not list(state.rglob("*.held"))
