"""Signals sent to the wrapper alone or to its whole group reach the job exactly once."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pexpect
import pytest

from .waiting import eventually, settled, stat_fields
from .world import World, group_of, shell_argv

COUNTER = Path(__file__).with_name("counter.py")
SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
ROUNDS = 5


@dataclass
class CountingJob:
    """A job that counts its signals, and the shim that runs it."""

    world: World
    process: subprocess.Popen[bytes]
    tally: Path
    end: Path

    @classmethod
    def start(cls, world: World, name: str = "job", **how: object) -> CountingJob:
        """Start one; returns at once."""
        tally, end = world.root / f"{name}.tally", world.root / f"{name}.end"
        words = (sys.executable, "-I", "-S", COUNTER, tally, end)
        return cls(world, world.start_run(*words, **how), tally, end)  # type: ignore[arg-type]

    @property
    def lines(self) -> list[str]:
        """What it has written so far."""
        return self.tally.read_text().splitlines() if self.tally.exists() else []

    @property
    def pid(self) -> int:
        """Its process id, once it is ready to count."""
        return int(eventually(lambda: self.lines, f"{self.tally} to be ready")[0].split()[1])

    def count(self, number: signal.Signals) -> int:
        """Return how often a signal has arrived."""
        return self.lines.count(number.name)

    def received(self) -> Counter[str]:
        """End the job and return what it has received in all."""
        self.end.touch()
        stdout, _ = self.process.communicate(timeout=60)
        assert (self.process.returncode, stdout) == (7, b"last words\n")
        return Counter(self.lines[1:])


def to_wrapper(job: CountingJob, number: signal.Signals) -> None:
    """Signal the wrapper alone, as a batch system does with `--signal=B:`."""
    os.kill(job.process.pid, number)


def to_group(job: CountingJob, number: signal.Signals) -> None:
    """Signal the process group, as a terminal does."""
    os.killpg(job.process.pid, number)


def to_each(job: CountingJob, number: signal.Signals) -> None:
    """Signal every process of the group in turn, as a scheduler does with a step."""
    for pid in group_of(job.process.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


TARGETS: dict[str, Callable[[CountingJob, signal.Signals], None]] = {
    "wrapper": to_wrapper,
    "group": to_group,
    "each": to_each,
}


@pytest.mark.parametrize("target", TARGETS)
def test_each_signal_reaches_the_job_exactly_once(world: World, target: str) -> None:
    jobs = {number: CountingJob.start(world, number.name) for number in SIGNALS}
    for job in jobs.values():
        assert job.pid
    settled(world.processes)
    for sent in range(1, ROUNDS + 1):
        for number, job in jobs.items():
            TARGETS[target](job, number)
        for number, job in jobs.items():
            eventually(lambda job=job, number=number, sent=sent: job.count(number) >= sent, f"{number.name} {sent}")
        settled(lambda: [job.lines for job in jobs.values()])
    assert {number.name: job.received() for number, job in jobs.items()} == {
        number.name: {number.name: ROUNDS} for number in SIGNALS
    }


def test_one_kind_of_delivery_does_not_spoil_the_next(world: World) -> None:
    job = CountingJob.start(world)
    assert job.pid
    settled(world.processes)
    deliveries = [to_group, to_wrapper, to_each, to_wrapper, to_wrapper, to_group, to_group, to_each, to_wrapper]
    for sent, deliver in enumerate(deliveries, 1):
        deliver(job, signal.SIGUSR1)
        eventually(lambda sent=sent: job.count(signal.SIGUSR1) >= sent, f"number {sent}, {deliver.__name__}")
        settled(lambda: (job.lines, world.processes()))
        assert job.count(signal.SIGUSR1) == sent, f"number {sent}, {deliver.__name__}"
    assert job.received() == {"SIGUSR1": len(deliveries)}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_batch_script_replaced_by_the_shim_forwards_its_schedulers_signal(
    world: World, number: signal.Signals
) -> None:
    job = CountingJob.start(world, env={"SLURM_JOB_ID": "4711"}, via='exec "$@"')
    assert job.pid
    settled(world.processes)
    to_wrapper(job, number)
    eventually(lambda: job.count(number), "the signal")
    settled(lambda: job.lines)
    assert job.received() == {number.name: 1}


def test_forwarding_can_be_turned_off(world: World) -> None:
    job = CountingJob.start(world, env={"GPUALERT_FORWARD": "0"})
    assert job.pid
    settled(world.processes)
    to_wrapper(job, signal.SIGUSR1)
    settled(lambda: job.lines)
    to_group(job, signal.SIGTERM)
    eventually(lambda: job.count(signal.SIGTERM), "the group's signal")
    settled(lambda: job.lines)
    assert job.received() == {"SIGTERM": 1}


def test_a_forwarded_signal_that_kills_the_job_is_the_callers_status(world: World) -> None:
    for number in SIGNALS:
        process = world.start_run("/bin/sh", "-c", "ulimit -c 0; echo up; exec sleep 60")
        assert process.stdout and process.stdout.readline() == b"up\n"
        os.kill(process.pid, number)
        assert process.wait(30) in (-number, 128 + number)
        run = world.runs()[-1].finish()
        assert (run.status, run.signal in (number, None)) == (128 + number, True)


def test_the_last_words_of_a_job_that_is_ended_by_its_group_are_kept(world: World) -> None:
    words = "import os,signal,time\ndef end(*_):\n os.write(1, b'saved\\n'); os._exit(3)\n"
    words += "for n in (1, 2, 3, 15):\n signal.signal(n, end)\nos.write(1, b'up\\n')\nwhile True: time.sleep(60)"
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        process = world.start_run(sys.executable, "-I", "-S", "-c", words)
        assert process.stdout and process.stdout.readline() == b"up\n"
        os.killpg(process.pid, number)
        assert process.stdout.read() == b"saved\n"
        assert process.wait(30) == 3
        assert world.runs()[-1].log("stdout") == b"up\nsaved\n"


def test_nohup_outlives_a_hang_up_of_the_group(world: World) -> None:
    end = world.cwd / "end"
    wait = f'echo up; while ! [ -e "{end}" ]; do sleep 0.02; done; echo done; exit 4'
    process = world.start("/usr/bin/nohup", *world.shim, "run", "--", "/bin/sh", "-c", wait)
    assert process.stdout and process.stdout.readline() == b"up\n"
    os.killpg(process.pid, signal.SIGHUP)
    os.kill(process.pid, signal.SIGHUP)
    end.touch()
    assert process.stdout.read() == b"done\n"
    assert process.wait(30) == 4
    assert world.only_run().finish().status == 4


def test_a_signal_the_caller_ignores_is_not_forwarded(world: World) -> None:
    ignore = "trap '' TERM USR1; exec \"$@\""
    job = CountingJob.start(world, via=ignore)
    assert job.pid
    settled(world.processes)
    to_wrapper(job, signal.SIGTERM)
    to_wrapper(job, signal.SIGUSR1)
    settled(lambda: job.lines)
    assert job.received() == {}


def test_term_at_any_moment_leaves_neither_job_nor_wrapper(world: World) -> None:
    moments = Random(1)
    for attempt in range(25):
        process = world.start_run("/usr/bin/sleep", "61")
        delay_s = moments.uniform(0, 0.015)
        subprocess.run(["/usr/bin/sleep", f"{delay_s:.4f}"], check=True)  # any moment will do: this is the test's dice
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(30) in (-15, 143), f"attempt {attempt} after {delay_s:.4f} s"
        eventually(lambda: not world.processes(), f"attempt {attempt}, after {delay_s:.4f} s, to leave nothing", 10)


def test_a_stopped_and_continued_job_goes_on(world: World) -> None:
    end = world.cwd / "end"
    wait = f'echo up; while ! [ -e "{end}" ]; do sleep 0.02; done; exit 6'
    process = world.start_run("/bin/sh", "-c", wait)
    assert process.stdout and process.stdout.readline() == b"up\n"
    os.killpg(process.pid, signal.SIGSTOP)
    eventually(lambda: stat_fields(process.pid)[0] == "T", "the stop")
    end.touch()
    os.killpg(process.pid, signal.SIGCONT)
    assert process.wait(30) == 6
    assert world.only_run().finish().status == 6


def test_ctrl_z_and_fg_work_at_a_terminal(world: World) -> None:
    program, *words = [*shell_argv("bash"), "--norc", "--noprofile", "-i"]
    environment = world.environment({"PS1": "ready> ", "TERM": "dumb"})
    terminal = pexpect.spawn(program, words, env=environment, cwd=str(world.cwd), timeout=30)
    terminal.setecho(False)
    terminal.expect_exact(b"ready> ")
    shim = " ".join(f"'{word}'" for word in world.shim)
    terminal.sendline(f"{shim} run -- /bin/sh -c 'echo up; sleep 61; exit 5'")
    terminal.expect_exact(b"up\r\n")
    terminal.sendcontrol("z")
    terminal.expect_exact(b"Stopped")
    terminal.expect_exact(b"ready> ")
    run = world.only_run()
    assert not run.has("exit")
    terminal.sendline("fg")
    sleeper = eventually(lambda: [pid for pid in world.processes() if b"61" in arguments(pid)], "the sleeper")[0]
    eventually(lambda: stat_fields(sleeper)[0] == "S", "the job to go on")
    os.kill(sleeper, signal.SIGTERM)
    terminal.expect_exact(b"ready> ")
    terminal.sendline("echo status $?")
    terminal.expect_exact(b"status 5\r\n")
    terminal.close(force=True)
    assert run.finish().status == 5


def arguments(pid: int) -> list[bytes]:
    """Return a process's words; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


def test_a_terminal_that_closes_leaves_an_exit_record(world: World) -> None:
    program, *words = [*world.shim, "run", "--", "/bin/sh", "-c", "echo up; exec sleep 61"]
    terminal = pexpect.spawn(program, words, env=world.environment(), cwd=str(world.cwd), timeout=30)
    terminal.expect_exact(b"up")
    terminal.close(force=False)
    run = world.only_run().finish()
    assert (run.status, run.signal in (signal.SIGHUP, None)) == (129, True)
    eventually(lambda: not world.processes(), "everything to end")
