"""
What `scontrol show job` prints, parsed into records.

A job's name, comment and paths are its own words: what says one thing twice is refused, since one of them is forged.
Source: https://slurm.schedmd.com/scontrol.html (20.11 to 24.05).
"""

from __future__ import annotations

import re

from gpualert.signals.slurm_records import GarbledError, JobRecord, exit_of, instant, number, told

# A line of `scontrol show job`: keys that we use, at its begin, or a second and third of the same line.
_KEYS = {
    "JobId": "job_id",
    "ArrayJobId": "array_job_id",
    "ArrayTaskId": "array_task_id",
    "UserId": "uid",
    "JobState": "state",
    "Reason": "reason",
    "ExitCode": "code",
    "Restarts": "restarts",
    "TimeLimit": "time_limit",
    "SubmitTime": "submitted_at",
    "StartTime": "started_at",
    "EndTime": "ended_at",
    "NodeList": "nodes",
    "Comment": "comment",
    "WorkDir": "folder",
    "StdOut": "stdout",
    "StdErr": "stderr",
}
# What may hold spaces stands alone on its line; of the other lines only those count that begin with these.
_WHOLE_LINE = frozenset(("Comment", "WorkDir", "StdOut", "StdErr"))
_LINES = frozenset(("JobId", "UserId", "JobState", "Requeue", "RunTime", "SubmitTime", "StartTime", "NodeList"))
_PAIR = re.compile(r"(?:^|\s)([A-Z]\w*)=(\S*)")


def shown_records(printed: str) -> list[JobRecord]:
    """
    Return the jobs that `scontrol show job` printed.

    Raises:
        GarbledError: It is something else, or says one thing twice.
    """
    records = [_shown(block) for block in re.split(r"\n\n+(?=JobId=)", printed.strip()) if block]
    if len({record.job_id for record in records}) != len(records):
        raise GarbledError("it printed one job twice")
    return records


def _shown(block: str) -> JobRecord:
    values: dict[str, str] = {}
    for line in block.split("\n"):
        for key, value in _pairs(line.strip()):
            if key in values:
                raise GarbledError(f"it printed '{key}' twice")
            values[key] = value
    if not re.fullmatch(r"\d{1,12}", values.get("JobId", "")) or "JobState" not in values:
        raise GarbledError("it printed something that is no job")
    found = {name: told(values[key]) for key, name in _KEYS.items() if key in values}
    array, task = found.get("array_job_id", ""), found.get("array_task_id", "")
    status, signal = exit_of(found["state"], found.get("code", ""))
    started, ended = instant(found.get("started_at", "")), instant(found.get("ended_at", ""))
    waits, live = found["state"] == "PENDING", found["state"] in ("PENDING", "RUNNING")
    return JobRecord(
        job_id=found["job_id"],
        state=found["state"],
        code=found.get("code", ""),
        reason=found.get("reason", ""),
        nodes=found.get("nodes", ""),
        time_limit=found.get("time_limit", ""),
        comment=found.get("comment", ""),
        folder=found.get("folder", ""),
        stdout=found.get("stdout", ""),
        stderr=found.get("stderr", ""),
        label=f"{array}_{task}" if array and task else found["job_id"],
        array_job_id=array,
        array_task_id=task,
        exit_status=status,
        signal=signal,
        submitted_at=instant(found.get("submitted_at", "")),
        started_at=None if waits else started,  # else they are when it is expected to start and end
        ended_at=None if live else ended,
        elapsed_s=None if live or started is None or ended is None else max(0, round(ended - started)),
        uid=number(found.get("uid", "").rpartition("(")[2].rstrip(")")),
        user=found.get("uid", "").rpartition("(")[0],
        name=values.get("JobName", ""),
        restarts=number(found.get("restarts", "")),
    )


def _pairs(line: str) -> list[tuple[str, str]]:
    """Return keys and values of one line; a name, and what may hold spaces, go to the line's end."""
    first, _, rest = line.partition("=")
    if first in _WHOLE_LINE:
        return [(first, rest)]
    if first not in _LINES:
        return []
    head, name_key, name = line.partition(" JobName=")
    pairs = [(key, value) for key, value in _PAIR.findall(head) if key in _KEYS]
    return [*pairs, ("JobName", name)] if name_key and first == "JobId" else pairs
