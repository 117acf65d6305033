"""A snapshot of the machine: memory and disks.  Source: proc(5), statvfs(3)."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from gpualert.bounded import within

_DISK_LIMIT_S = 2.0
_MIB = 1 << 20


@dataclass(frozen=True)
class Disk:
    """How full one file system is; `free_inodes` is None where it does not count them."""

    path: str
    total_mib: int
    free_mib: int
    free_inodes: int | None


@dataclass(frozen=True)
class HostSnapshot:
    """
    The machine at one instant; None where it could not be read.

    Attributes:
        disks: One a folder that was asked for.
        not_read: What could not be looked at, each with its reason.
    """

    host: str
    kernel: str
    cpu_count: int | None
    load_1m: float | None
    memory_total_mib: int | None
    memory_available_mib: int | None
    swap_free_mib: int | None
    disks: tuple[Disk, ...] = ()
    not_read: tuple[str, ...] = ()


def snapshot_host(folders: Iterable[str]) -> HostSnapshot:
    """Look at the machine and at the file systems of `folders`."""
    memory, not_read = _memory(), []
    disks = []
    for folder in dict.fromkeys(folders):
        try:
            disks.append(within(_DISK_LIMIT_S, lambda path=folder: _disk(path)))  # type: ignore[misc]
        except OSError as error:  # TimeoutError too: a dead network file system
            not_read.append(f"disk of {folder}: {error.strerror or error}")
    if not memory:
        not_read.append("memory: no /proc/meminfo here")
    system = os.uname()
    return HostSnapshot(
        host=system.nodename,
        kernel=f"{system.sysname} {system.release}",
        cpu_count=os.cpu_count(),
        load_1m=_load(),
        memory_total_mib=memory.get("MemTotal"),
        memory_available_mib=memory.get("MemAvailable"),
        swap_free_mib=memory.get("SwapFree"),
        disks=tuple(disks),
        not_read=tuple(not_read),
    )


def _load() -> float | None:
    try:
        return round(os.getloadavg()[0], 2)
    except OSError:
        return None


def _memory() -> dict[str, int]:
    """Return the fields of /proc/meminfo in MiB; empty where there is none."""
    try:
        lines = Path("/proc/meminfo").read_text("ascii").splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    fields = (line.replace(":", " ").split() for line in lines)
    return {name: int(kib) // 1024 for name, kib, *_ in fields if kib.isdigit()}


def _disk(path: str) -> Disk:
    found = os.statvfs(path)
    return Disk(
        path=path,
        total_mib=found.f_blocks * found.f_frsize // _MIB,
        free_mib=found.f_bavail * found.f_frsize // _MIB,
        free_inodes=found.f_favail if found.f_files else None,
    )
