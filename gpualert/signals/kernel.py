"""
What the kernel's log says of a run: kills for want of memory, and the troubles that a GPU's driver reports.

Source: Linux, ABI/testing/dev-kmsg; mm/oom_kill.c, dump_oom_summary; NVIDIA, "Xid errors".
"""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpualert.model import Evidence, Start, frozen

_DEVICE = "/dev/kmsg"
_RECORD_BYTES = 8192
_MAX_RECORDS = 200_000
_SLACK_S = 5.0
# The first pid namespace has this inode always, and the kernel's log means its process ids.
# Source: Linux, include/linux/proc_ns.h, PROC_PID_INIT_INO.
_FIRST_PID_NS = ("", "4026531836")

_KILLED = re.compile(
    r"Killed process (?P<pid>\d+) |oom-kill:.*?,task_memcg=(?P<group>[^,]*),task=[^,]*,pid=(?P<task_pid>\d+)"
)
_XID = re.compile(r"NVRM: Xid \(PCI:(?P<pci>[0-9a-fA-F:.]+)\): (?P<code>\d+)")


@dataclass(frozen=True)
class KernelLine:
    """
    One record of the kernel's log.

    Attributes:
        at: In seconds since 1970 UTC, give or take the clock's corrections.
        node: The scheduler's name of the host that told it; "" where it is the run's own.
    """

    at: float
    text: str
    node: str = ""


def read_kernel_log(since: float, until: float) -> tuple[list[KernelLine], str]:
    """
    Read the kernel's log between two instants.

    Returns:
        The records, and why they could not be read or "".
    """
    try:
        fd = os.open(_DEVICE, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        return [], f"the kernel's log: {error.strerror}"
    try:
        booted_at = time.time() - time.monotonic()
        found = (parse_record(record, booted_at) for record in _records(fd))
        return [line for line in found if line and since - _SLACK_S <= line.at <= until + _SLACK_S], ""
    except OSError as error:
        return [], f"the kernel's log: {error.strerror}"
    finally:
        os.close(fd)


def _records(fd: int) -> Iterable[bytes]:
    for _ in range(_MAX_RECORDS):
        try:
            yield os.read(fd, _RECORD_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno != errno.EPIPE:  # a record was overwritten while we read
                raise


def parse_record(record: bytes, booted_at: float) -> KernelLine | None:
    """Return a record `priority,sequence,microseconds,flags;text`; None where it is none."""
    head, _, text = record.partition(b";")
    fields = head.split(b",")
    if len(fields) < 3 or not fields[2].isdigit():
        return None
    return KernelLine(booted_at + int(fields[2]) / 1e6, text.split(b"\n", 1)[0].decode("utf-8", "replace"))


def about(lines: Iterable[KernelLine], start: Start, cards: Sequence[str] | None) -> tuple[Evidence, ...]:
    """
    Return the lines that speak of a run.

    A kill counts where the job itself or one of its control group was killed; another's does not.

    Args:
        cards: PCI addresses of the run's GPUs; None where they are not known, and then every card's troubles count.
    """
    ours = (line for line in lines if _is_kill_in(line.text, start) or _is_trouble_of(line.text, cards))
    return tuple(evidence_of(line, start.node or start.host) for line in ours)


def evidence_of(line: KernelLine, host: str = "") -> Evidence:
    """Return a line that speaks of a run on `host`, with the numbers in it."""
    xid = _XID.search(line.text)
    found = frozen({"xid": int(xid["code"]), "pci": xid["pci"]}) if xid else frozen()
    return Evidence("kernel", "", 0, line.text[:2000], host=line.node or host, parameters=found)


def _is_kill_in(text: str, start: Start) -> bool:
    found = _KILLED.search(text)
    if not found:
        return False
    pid, group = int(found["pid"] or found["task_pid"]), found["group"] or ""
    within = start.cgroup not in ("", "/") and (group == start.cgroup or group.startswith(f"{start.cgroup}/"))
    return within or (pid == start.pid and start.pid_ns in _FIRST_PID_NS)


def _is_trouble_of(text: str, cards: Sequence[str] | None) -> bool:
    found = _XID.search(text)
    return found is not None and (cards is None or _slot(found["pci"]) in map(_slot, cards))


def _slot(pci: str) -> str:
    """Return a PCI address as domain:bus:device without leading zeros: `00000000:65:00.0` and `0000:65:00` are one."""
    parts = pci.lower().split(".")[0].split(":")
    return ":".join(part.lstrip("0") or "0" for part in parts)
