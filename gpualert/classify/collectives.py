"""Who is missing in a collective that timed out: the rank that lags or is silent, not the one that shouts."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpualert.classify.events import Event
from gpualert.scan import Log

_NAMED = re.compile(
    r"(?i)\bRanks? (\d{1,6})(?:, ?\d+)* failed to pass monitoredBarrier|\bmissing ranks?:? \[?(\d{1,6})"
)
# Horovod's stall inspector: the ranks it waits for, each with its tensors.
_STALLED = re.compile(rb"\bMissing ranks:[^\n]{0,20}\n[^\n]{0,40}?\b(\d{1,6}): \[")
_ENQUEUED = re.compile(r"(?i)\blast enqueued(?: NCCL)? work: (-?\d{1,12})")
_SEQUENCE = re.compile(r"\bSeqNum=(\d{1,12})")
_WORLD = re.compile(
    rb"\bnranks (\d{1,6})\b|\b(?:dist_)?world[_ ]size\W{1,3}(\d{1,6})\b|\bMEMBER: \d{1,6}/(\d{1,6})\b|\bnum_processes\W{1,3}(\d{1,6})\b"  # noqa: E501
)
_HEAD_BYTES = 2 << 20


def missing_rank(events: Sequence[Event], log: Log) -> int | None:
    """
    Return the rank that a time-out of a collective points at; None when the log does not tell.

    In this order: a rank the message names; the only rank whose last work is behind that of the others; the only rank
    of the job that reported nothing.
    """
    named = next((found for event in events if (found := _NAMED.search(event.line.content))), None)
    if named:
        return int(named[1] or named[2])
    answers = (_behind(events, _ENQUEUED), _behind(events, _SEQUENCE), _silent(events, log))
    return next((rank for rank in answers if rank is not None), None)


def stalled_rank(log: Log) -> int | None:
    """Return the only rank that Horovod missed when it last looked; None where it missed none, or several."""
    missed = _STALLED.findall(log.data[max(log.start, log.end - _HEAD_BYTES) : log.end])
    return int(missed[-1]) if missed else None


def _behind(events: Sequence[Event], pattern: re.Pattern[str]) -> int | None:
    last: dict[int, int] = {}
    for event in events:
        found = pattern.search(event.line.content)
        if found and event.line.rank is not None:
            last.setdefault(event.line.rank, int(found[1]))
    if len(last) < 2:
        return None
    lowest = min(last.values())
    slow = [rank for rank, number in last.items() if number == lowest]
    return slow[0] if len(slow) == 1 and len(last) > 2 else None


def _silent(events: Sequence[Event], log: Log) -> int | None:
    reported = {event.line.rank for event in events if event.line.rank is not None}
    worlds = _WORLD.findall(log.data[log.start : min(log.end, log.start + _HEAD_BYTES)])
    world = max((int(number) for match in worlds for number in match if number), default=0)
    silent = set(range(world)) - reported
    return silent.pop() if len(silent) == 1 and len(reported) > 1 else None
