"""Ask the kernel about processes.  Source: proc(5)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")


@dataclass(frozen=True)
class Machine:
    """
    Where this process runs; empty fields could not be read.

    Attributes:
        host: The kernel's host name.
        boot_id: Differs after each boot.
        pid_ns: The inode of the pid namespace: process ids mean nothing outside it.
    """

    host: str
    boot_id: str
    pid_ns: str


def this_machine() -> Machine:
    """Say where we are."""
    try:
        boot_id = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        boot_id = ""
    try:
        pid_ns = str((_PROC / "self/ns/pid").stat().st_ino)
    except OSError:
        pid_ns = ""
    return Machine(os.uname().nodename, boot_id, pid_ns)


def is_alive(pid: int, starttime: int | None = None) -> bool | None:
    """
    Say whether a process lives; one that has ended and waits for its parent does not.

    Args:
        pid: Its number in our own pid namespace.
        starttime: Its start in clock ticks since boot; None takes any process of that number.

    Returns:
        None where the kernel does not tell (no /proc).
    """
    try:
        fields = _stat(pid)
    except (FileNotFoundError, ProcessLookupError):
        return False if (_PROC / "self/stat").exists() else None
    except OSError:
        return None
    return fields[0] not in (b"Z", b"X") and starttime in (None, int(fields[19]))


def starttime_of(pid: int) -> int | None:
    """Return when a process was started, in clock ticks since boot; None where it is gone or the kernel is silent."""
    try:
        return int(_stat(pid)[19])
    except OSError:
        return None


def _stat(pid: int) -> list[bytes]:
    """Return the fields of a process from its state on."""
    stat = (_PROC / str(pid) / "stat").read_bytes()
    # The name, in parentheses, may hold anything: count from its end.
    return stat[stat.rindex(b")") + 2 :].split()


def processes_of(run_id: str) -> list[int]:
    """Return our user's living processes that were started inside a run, this one and its parent not among them."""
    mark = b"GPUALERT_RUN_ID=" + run_id.encode()
    ours = {os.getpid(), os.getppid()}
    return [pid for pid in _own_processes() if pid not in ours and mark in _environment(pid) and is_alive(pid)]


def has_open(pid: int, files: Iterable[Path]) -> bool:
    """Say whether a process has one of the files open."""
    wanted = {found for found in map(_identity, files) if found}
    try:
        return any(_identity(link) in wanted for link in (_PROC / str(pid) / "fd").iterdir())
    except OSError:
        return False


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _own_processes() -> Iterator[int]:
    user = os.geteuid()
    try:
        with os.scandir(_PROC) as entries:
            for entry in entries:
                if entry.name.isdigit() and _owner(entry) == user:
                    yield int(entry.name)
    except OSError:
        return


def _owner(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_uid
    except OSError:
        return -1


def _environment(pid: int) -> list[bytes]:
    try:
        return (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return []
