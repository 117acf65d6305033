"""What may be broken around a job - mail, Python, disk - and a job for each failure class."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from smtp_server import MailServer, answering, closed_port, scripted

from gpualert.rules import read_rules, rule_files

# How a job of that class ends, where that is not with 1.
_STATUSES = {
    "command_not_found": 127,
    "config_error": 2,
    "hang": 124,
    "interrupted": 130,
    "node_failure": 143,
    "oom_killer": 137,
    "preempted": 143,
    "runtime_error": 3,
    "segfault": 139,
    "success": 0,
    "walltime": 143,
}
CONDITIONS = ("healthy", "refused", "hanging", "dropped", "unresolvable", "no_python", "broken_python", "disk_full")


@cache
def jobs(*, published: bool = False) -> dict[str, tuple[int, str]]:
    """Return for each class, or each of the published fifteen, how its job ends and what it says before: an example."""
    rules = [rule for rule in read_rules(rule_files()) if rule.paper == rule.id or not published]
    return {rule.id: (_STATUSES.get(rule.id, 1), rule.examples[0][0].rstrip("\n")) for rule in rules}


def job(name: str, lasts_s: float = 0) -> list[str]:
    """Return a command that ends as a job of that class does: by its signal above 128."""
    status, words = jobs()[name]
    end = f"kill -{status - 128} $$" if status > 128 else f"exit {status}"
    return ["/bin/sh", "-c", f'sleep {lasts_s}; echo "$1" >&2; ulimit -c 0; {end}', "sh", words]


def mail(port: int) -> dict[str, str]:
    """Return the variables that have messages sent to a server on loopback."""
    return {**MailServer(port=port).environ, "GPUALERT_SMTP_TIMEOUT_S": "5"}


@contextmanager
def broken(condition: str, folder: Path) -> Iterator[dict[str, str]]:
    """Yield the variables under which runs meet that condition; their state is in `folder`."""
    state = folder / condition
    state.mkdir(parents=True)
    environ = {"GPUALERT_HOME": str(state), "GPUALERT_POST": "detach", "GPUALERT_PYTHON": sys.executable}
    if condition == "refused":
        yield {**environ, **mail(closed_port())}
    elif condition == "unresolvable":
        yield {**environ, **mail(25), "GPUALERT_SMTP_HOST": "mail.invalid"}
    elif condition == "hanging":
        with scripted(lambda connection: bool(connection.recv(1)) or None) as port:  # says nothing
            yield {**environ, **mail(port)}
    elif condition == "dropped":
        ready = (b"250 hello", b"250 from", b"250 to", b"354 go on")  # and hangs up amid the data
        with scripted(answering(*ready)) as port:
            yield {**environ, **mail(port)}
    elif condition == "no_python":
        yield {**environ, "GPUALERT_PYTHON": str(folder / "nowhere"), "PATH": "/bin:/usr/bin"}
    elif condition == "broken_python":
        yield {**environ, "GPUALERT_PYTHON": "/bin/false"}
    elif condition == "disk_full":
        with tiny_disk(state):
            (state / "runs").mkdir(mode=0o700)
            fill(state)
            yield {**environ, "TMPDIR": str(folder)}  # where the run is kept then
    else:
        yield environ


@contextmanager
def tiny_disk(folder: Path, size: str = "64k") -> Iterator[None]:
    """Mount a file system of that size on `folder`; needs root."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Leave no room on a file system; return the file that takes it."""
    ballast = folder / "ballast"
    with suppress(OSError), ballast.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    return ballast
