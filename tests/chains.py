"""A world for tests of chains: jobs that fail in a chosen way at each attempt, and ticks as cron starts them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from outcomes import messages
from shim.waiting import eventually

from gpualert.chains.read import read_story
from gpualert.chains.record import Started, Story
from gpualert.chains.store import started_facts, started_path
from gpualert.places import python_command

# What a job of that class says before it fails.
LAST_WORDS = {
    "network": "requests.exceptions.ConnectionError: HTTPSConnectionPool(host='hub', port=443): Max retries exceeded",
    "file_not_found": "FileNotFoundError: [Errno 2] No such file or directory: 'train.json'",
    "walltime": "slurmstepd: error: *** JOB 4711 ON n1 CANCELLED AT 2026-11-29T10:00:00 DUE TO TIME LIMIT ***",
    "gpu_hardware": "RuntimeError: CUDA error: uncorrectable ECC error encountered",
    "cuda_oom": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB.",
    "segfault": "Fatal Python error: Segmentation fault",
}
# cron gives a job no more; GPUALERT_HOME because tests must not touch the user's own.
CRON_ENVIRON = {"PATH": "/usr/bin:/bin", "SHELL": "/bin/sh", "LOGNAME": "me"}


def job(*ends: str, more: str = "") -> list[str]:
    """
    Return a command whose attempts end so, one after the other: a class, or `success`; the last again and again.

    Args:
        more: Lines of shell that run before.
    """
    cases = [f'{number}) say="{LAST_WORDS.get(end, "")}" ;;' for number, end in enumerate(ends[:-1], start=1)]
    cases.append(f'*) say="{LAST_WORDS.get(ends[-1], "")}" ;;')
    script = [more, "case $GPUALERT_ATTEMPT in", *cases, "esac", '[ -z "$say" ] || { echo "$say" >&2; exit 1; }']
    return ["/bin/sh", "-c", "\n".join([*script, "echo all done"])]


def write_started(folder: Path, started: Started) -> None:
    """Write down that an attempt is started, as the shim does."""
    with started_path(folder, started.number).open("xb") as file:
        file.write(started_facts(started))
        file.write(f' "pid": {started.pid}, "pid_starttime": {started.pid_starttime}}}\n'.encode())


class Chains:
    """The chains of one state folder."""

    def __init__(self, state: Path) -> None:
        self.state = state

    def start(self, name: str, command: Sequence[str], *options: str, environ: Mapping[str, str] | None = None) -> None:
        """Start a chain whose waits are of no length, with the environment of a person."""
        words = ["chain", "start", "--name", name, "--interval", "0", *options, "--", *command]
        self.run(*words, environ={**os.environ, **(environ or {})})

    def run(self, *words: str, environ: Mapping[str, str] | None = None) -> str:
        """Run a command of gpualert; return what it printed."""
        done = self.attempt(*words, environ=environ)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def attempt(self, *words: str, environ: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command of gpualert that may fail."""
        return subprocess.run(
            python_command(*words), env=environ, capture_output=True, text=True, timeout=60, check=False
        )

    def tick(self) -> str:
        """Run a tick as cron does, from `/` and with almost no environment; return its complaints."""
        environ = {**CRON_ENVIRON, "HOME": os.environ["HOME"], "GPUALERT_HOME": str(self.state)}
        command = python_command("tick")
        done = subprocess.run(command, env=environ, cwd="/", capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == (1 if done.stderr else 0)
        return done.stderr

    def path(self, name: str) -> Path:
        """Return the folder of a chain."""
        return self.state / "chains" / name

    def story(self, name: str) -> Story:
        """Return what has come of a chain."""
        return read_story(self.path(name))

    def ended(self, name: str, number: int) -> Story:
        """Wait for the end of an attempt; return the story."""
        eventually(lambda: number in self.story(name).ended, f"the end of attempt {number} of chain {name}", 60)
        return self.story(name)

    def carry_on(self, name: str, limit: int = 12) -> Story:
        """Tick until a chain has ended; return its story."""
        for _ in range(limit):
            story = self.ended(name, self.story(name).last)
            if story.end:
                return story
            assert self.tick() == ""
        raise AssertionError(f"chain {name} does not end: {self.story(name)}")

    def subjects(self, count: int) -> list[str]:
        """Wait for that many messages; return their subjects."""
        eventually(lambda: len(messages(self.state)) >= count, f"{count} messages", 60)
        return [str(mail["Subject"]) for mail in messages(self.state)]


def detached_environ() -> dict[str, str]:
    """Return the variables with which a run is reported at once, by this Python."""
    return {"GPUALERT_POST": "detach", "GPUALERT_PYTHON": sys.executable}
