"""Ticks killed at any moment, many at once, or without locks: no attempt is started twice, and none is forgotten."""

from __future__ import annotations

import errno
import os
import random
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest
from chains import LAST_WORDS, Chains, detached_environ
from shim.waiting import eventually

from gpualert.config import load_settings
from gpualert.model import ChainEnd
from gpualert.places import python_command
from gpualert.tick import tick

# Says that it runs, whether it is alone, and fails for another reason each time until the last attempt.
JOB = """
mkdir "$1/running-$GPUALERT_CHAIN" || echo "$GPUALERT_CHAIN $GPUALERT_ATTEMPT" >>"$1/doubled"
echo "$GPUALERT_CHAIN $GPUALERT_ATTEMPT" >>"$1/started"
rmdir "$1/running-$GPUALERT_CHAIN"
[ "$GPUALERT_ATTEMPT" -lt "$2" ] || exit 0
if [ $((GPUALERT_ATTEMPT % 2)) = 1 ]; then echo "$3" >&2; else echo "OSError: [Errno 116] Stale file handle" >&2; fi
exit 1
"""


@pytest.fixture
def chains(state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Chains:
    """Return a world of chains whose runs are reported by ticks alone: what is killed is all there is."""
    for name, value in {**detached_environ(), "GPUALERT_POST": "tick", "GPUALERT_MAIL": "none"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    return Chains(state)


def start_all(chains: Chains, count: int, attempts: int) -> list[str]:
    """Start chains that are saved at attempt `attempts`; return their names."""
    names = [f"chain-{number}" for number in range(count)]
    for name in names:
        command = ["/bin/sh", "-c", JOB, "sh", str(Path.cwd()), str(attempts), LAST_WORDS["network"]]
        chains.start(name, command, "--max-attempts", str(attempts))
    return names


def check(chains: Chains, names: list[str], attempts: int) -> None:
    """Check that every attempt of every chain was started once, alone, and that all are saved."""
    assert not Path("doubled").exists()
    started = Counter(Path("started").read_text().splitlines())
    assert started == Counter(f"{name} {number}" for name in names for number in range(1, attempts + 1))
    assert {chains.story(name).end for name in names} == {ChainEnd.SAVED}


def kill_ticks(kills: int, longest_s: float) -> int:
    """Start ticks and kill each at a random moment; return how many did not end before."""
    dice, killed = random.Random(7), 0
    for _ in range(kills):
        with subprocess.Popen(python_command("tick"), stderr=subprocess.PIPE, start_new_session=True) as process:
            try:
                process.wait(dice.uniform(0, longest_s))
            except subprocess.TimeoutExpired:
                process.kill()
                killed += 1
    return killed


def all_ended(chains: Chains, names: list[str]) -> bool:
    done = subprocess.run(python_command("tick"), capture_output=True, check=False)
    assert done.stderr == b""
    return all(chains.story(name).end for name in names)


@pytest.mark.parametrize(
    ("count", "attempts", "kills"),
    [(3, 4, 20), pytest.param(6, 30, 200, marks=[pytest.mark.long, pytest.mark.timeout(1200)])],
)
def test_ticks_killed_at_random_moments_start_each_attempt_once_and_forget_none(
    chains: Chains, count: int, attempts: int, kills: int
) -> None:
    names = start_all(chains, count, attempts)
    began = time.monotonic()
    subprocess.run(python_command("tick"), check=True)
    assert kill_ticks(kills, 2 * (time.monotonic() - began)) > 0
    eventually(lambda: all_ended(chains, names), "the end of all chains", 600)
    check(chains, names, attempts)


def test_many_ticks_at_once_without_locks_start_each_attempt_once(chains: Chains, no_locks: Path) -> None:
    names = start_all(chains, 3, 3)
    environ = {**os.environ, "LD_PRELOAD": str(no_locks), "NO_LOCKS": str(errno.ENOLCK)}
    for _ in range(3):
        ticks = [subprocess.Popen(python_command("tick"), env=environ, stderr=subprocess.PIPE) for _ in "1234"]
        assert [process.communicate()[1] for process in ticks] == [b""] * 4
    eventually(lambda: all_ended(chains, names), "the end of all chains")
    check(chains, names, 3)


def test_two_hundred_due_chains_are_started_by_one_tick_once_each(chains: Chains, state: Path) -> None:
    os.mkfifo("gate")
    gate = os.open("gate", os.O_RDWR)
    command = ["/bin/sh", "-c", 'echo "$GPUALERT_CHAIN" >>started; read line <gate', "sh"]
    chains.start("model", ["true"])
    names = [f"copy-{number}" for number in range(200)]
    for name in names:
        subprocess.run(["cp", "-a", chains.path("model"), chains.path(name)], check=True)
        (chains.path(name) / "command").write_bytes(b"".join(word.encode() + b"\0" for word in command))
        for file in (chains.path(name) / "attempts").iterdir():
            file.unlink()
    try:
        began = time.monotonic()
        tick([state], load_settings(), pytest.fail)
        print(f"one tick started 200 chains in {time.monotonic() - began:.2f} s on {os.cpu_count()} cores")
        assert all(chains.story(name).last == 1 for name in names)
        tick([state], load_settings(), pytest.fail)
        started = eventually(lambda: lines if len(lines := Path("started").read_text().split()) >= 200 else [], "all")
        assert sorted(started) == sorted(names)
    finally:
        Path("gate").unlink()
        os.close(gate)  # now all end
