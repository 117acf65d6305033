"""Which rank failed first, where the line that shows the failure does not say so: what launchers and others tell."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpualert.scan import Log

_END_BYTES = 256 << 10
_MOST_LINES = 40
_LINES_ABOVE = 4

# A line about one rank, in its own words.
_SAID = re.compile(
    r"(?i)(?<![\w.-])(?:global[ _])?rank\W{0,3}(\d{1,6})\b(?!\W{0,3}(?:of|/)\W{0,3}\d)"
    r"|--local[-_]rank[= ](\d{1,6})\b|::abort::(\d{1,6})::|\bon proc (\d{1,6})\b|\bon GPU ([1-9]\d{0,2})\b"
)
# What launchers say at the end, the most reliable first.  Source: torch.distributed.elastic, ChildFailedError; Open
# MPI's and MPICH's mpirun; srun(1); Lightning; Paddle; torch.multiprocessing.spawn; others that count their ranks.
_LAUNCHERS = tuple(
    re.compile(text)
    for text in (
        rb"Root Cause \(first observed failure\):[^\n]*\n(?:[^\n]*\n){0,4}?[^\n]*?\brank\s{0,9}: (\d{1,6})",
        rb"\bprocess rank (\d{1,6}) with PID \d{1,9} on node\b",
        rb"\bProcess name: \[\[\d{1,9},\d{1,6}\],(\d{1,6})\]",
        rb"=\s{1,9}RANK (\d{1,6}) PID \d{1,9} RUNNING AT\b",
        rb"\[rank: (\d{1,6})\] Child process with PID \d{1,9} terminated\b",
        rb"\bprocess with rank=\[?(\d{1,6})\]? was aborted",
        rb"\bfailed \(exitcode: -?\d{1,4}\) local_rank: (\d{1,6})\b",
        rb"(?i)\brank (\d{1,6})\b[^\n]{0,20}?\b(?:crashed|died|failed|looks stuck|was killed)",
        rb"(?:-- P|\bp)rocess (\d{1,6}) terminated with\b",
        rb"srun: error: \S{1,80}: tasks? (\d{1,6})[:,-]",
    )
)
_PID = re.compile(
    r"(?i)\bpid\W{0,3}(\d{2,9})\b|\bprocess (\d{2,9}) \("
    r"|^\[[\w.-]{1,64}:(\d{2,9})(?::\d{1,9}:\d{1,9})?\]"  # Open MPI, UCX
    r"|(?:^|\s)[\w.-]{1,64}:(\d{2,9}):\d{2,9} \[\d{1,3}\]"  # NCCL
    r"|^[EWIF]\d{4} [\d:.]{8,20} {1,4}(\d{2,9}) "  # glog
)
_RANK_OF_PID = re.compile(r"(?i)(?<![\w.-])(?:(?:global|world)_)?rank\W{0,9}(\d{1,6})\b|\blocal_rank\W{0,9}(\d{1,6})\b")
_POD = re.compile(r"\[[a-z][\w.-]{1,80}-\d{1,6}\] ")
# NCCL puts the index of the card before its words.
_DEVICE = re.compile(r"(?:^|\s)[\w.-]{1,64}:\d{2,9}:\d{2,9} \[(\d{1,3})\]")


def rank_of(text: str, log: Log | None) -> int | None:
    """
    Return the rank of a failure; None where nothing tells.

    In this order: what its line says, what other lines say of the line's process, what the launcher says at the end,
    and the card that the line names.

    Args:
        text: The line that shows it, with the launcher's prefixes.
        log: The log it stands in; None for one that a signal contributes.
    """
    said = _SAID.search(text)
    if said:
        return int(next(filter(None, said.groups())))
    rank = None
    if log is not None:
        rank = _of_pod(text, log)
        rank = _of_process(text, log) if rank is None else rank
        rank = _of_launcher(log) if rank is None else rank
    device = _DEVICE.search(text)
    return int(device[1]) if rank is None and device else rank


def _of_pod(text: str, log: Log) -> int | None:
    """Return the rank that another line with the same mark of a pod or host before it gives."""
    pod = _POD.match(text)
    if not pod:
        return None
    pattern = re.compile(
        rb"(?m)^%s[^\n]{0,200}?\bprocess(?:_index|_id)?[=: ]{1,2}(\d{1,6})\b" % re.escape(pod[0].encode())
    )
    found = pattern.search(log.data, log.start, log.end)
    return int(found[1]) if found else None


def _of_process(text: str, log: Log) -> int | None:
    """Return the rank that another line gives to a process that the line names."""
    for found in _PID.finditer(text):
        pid = next(filter(None, found.groups()))
        for line in _lines_with(pid, log):
            said = _RANK_OF_PID.search(line)
            if said:
                return int(next(filter(None, said.groups())))
    return None


def _lines_with(pid: str, log: Log) -> Iterator[str]:
    """Yield the first lines that name a process, each after the lines above it where it stands in a list of facts."""
    pattern = re.compile(rb"(?<![\d.])%s(?![\d.])" % pid.encode())
    for count, found in enumerate(pattern.finditer(log.data, log.start, log.end)):
        if count >= _MOST_LINES:
            return
        span = log.line_at(found.start())
        line = log.text(span)
        yield line
        if re.match(r"\s*exitcode\s*:", line):
            for _ in range(_LINES_ABOVE):
                above = log.previous_line(span[0])
                if not above:
                    break
                span = above
                yield log.text(span)


def _of_launcher(log: Log) -> int | None:
    end = bytes(log.data[max(log.start, log.end - _END_BYTES) : log.end])
    return next((int(found[1]) for pattern in _LAUNCHERS if (found := pattern.search(end))), None)
