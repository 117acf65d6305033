"""
Slurm's records of a job as data: what `sacct` and `scontrol show job` print, parsed.

Job names, comments and paths are the job's own words.  They can spoil nobody else's record: `sacct` is given a
delimiter that nobody can guess, and what `scontrol` prints is refused where a key stands twice.
Source: https://slurm.schedmd.com/sacct.html, https://slurm.schedmd.com/scontrol.html (20.11 to 24.05).
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

FIELDS: tuple[str, ...] = (
    *("JobIDRaw", "JobID", "State", "ExitCode", "Reason", "NodeList", "Timelimit", "ElapsedRaw", "MaxRSS", "ReqMem"),
    *("Submit", "Start", "End", "UID", "User", "JobName", "Comment", "WorkDir", "SubmitLine"),
)
PATHS = ("StdOut", "StdErr")  # since 24.05
# Source: sacct(1), "JOB STATE CODES".
ENDED = frozenset(
    [
        *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "LAUNCH_FAILED", "NODE_FAIL", "OUT_OF_MEMORY"),
        *("PREEMPTED", "RECONFIG_FAIL", "REVOKED", "TIMEOUT"),
    ]
)
_STEP = re.compile(r"(?P<job>\d+)(?:\.(?P<step>\w+))?\Z")
_LABEL = re.compile(r"(?P<array>\d+)_(?P<task>\d+|\[[^\]]*\])|(?P<first>\d+)\+(?P<part>\d+)")
_MOST_SIGNAL = 64  # a larger one in an exit code is a mark of Slurm's own: 125 is for OUT_OF_MEMORY


class GarbledError(ValueError):
    """What Slurm's program printed is no record."""


@dataclass(frozen=True)
class Step:
    """One step of a job: `batch`, `extern`, or a number for each `srun`."""

    step_id: str
    state: str
    exit_status: int | None = None
    signal: int | None = None
    max_rss: str = ""


@dataclass(frozen=True)
class JobRecord:
    """
    One attempt of a job, as Slurm tells it; "" or None for what it does not say.

    Attributes:
        job_id: Its number.
        label: What users call it: `4711`, `4711_3` for an array's task, `4711+1` for a part of a heterogeneous job.
        array_job_id, array_task_id: Of an array's task; the latter is `[5-9]` for tasks that wait.
        state: In Slurm's own words: `TIMEOUT`, `CANCELLED by 1000`.
        exit_status, signal: None where its state says that they mean nothing (`TIMEOUT` has 0:0).
        code: The exit code as printed, `0:125`.
        nodes: Such as `n[1-3]`.
        time_limit, requested_memory: As printed: `01:00:00`, `4G`.
        elapsed_s: How long it ran.
        submitted_at, started_at, ended_at: Seconds since 1970 UTC.
        uid: Its owner.
        folder: Its working directory.
        stdout, stderr: Where its output goes, perhaps with patterns such as `%j`.
        submit_line: The command it was submitted with.
    """

    job_id: str
    label: str
    state: str
    exit_status: int | None = None
    signal: int | None = None
    code: str = ""
    array_job_id: str = ""
    array_task_id: str = ""
    reason: str = ""
    nodes: str = ""
    time_limit: str = ""
    elapsed_s: int | None = None
    requested_memory: str = ""
    submitted_at: float | None = None
    started_at: float | None = None
    ended_at: float | None = None
    uid: int | None = None
    user: str = ""
    name: str = ""
    comment: str = ""
    folder: str = ""
    submit_line: str = ""
    stdout: str = ""
    stderr: str = ""
    restarts: int | None = None
    steps: tuple[Step, ...] = ()

    @property
    def word(self) -> str:
        """The state without what follows it: `CANCELLED`."""
        return (self.state.split() or [""])[0].rstrip("+").upper()

    @property
    def has_ended(self) -> bool:
        """Whether this attempt is over; a state that we do not know is not."""
        return self.word in ENDED or self.word == "REQUEUED"

    @property
    def was_started(self) -> bool:
        """Whether it ever had nodes; one that was cancelled in the queue has a start too, the instant of its end."""
        return self.started_at is not None and not (self.word in ("CANCELLED", "PENDING") and not self.nodes)

    @property
    def max_rss(self) -> str:
        """The most memory that one task of a step used, as printed: `812K`."""
        return max((step.max_rss for step in self.steps), key=_kib, default="")


@dataclass(frozen=True)
class Job:
    """A job's attempts, the oldest first; each but the last was put back into the queue."""

    attempts: tuple[JobRecord, ...]

    @property
    def last(self) -> JobRecord:
        """The newest attempt."""
        return self.attempts[-1]

    @property
    def restarts(self) -> int:
        """How often it was put back into the queue: what the controller says, else as the attempts tell."""
        return len(self.attempts) - 1 if self.last.restarts is None else self.last.restarts

    def attempt(self, restart_count: int) -> JobRecord | None:
        """Return the attempt after so many restarts; None where Slurm does not tell of it (yet)."""
        at = restart_count - self.restarts + len(self.attempts) - 1
        return self.attempts[at] if 0 <= at < len(self.attempts) else None

    def runs_again(self, restart_count: int) -> bool:
        """Say whether Slurm has put the job back into the queue after that attempt."""
        attempt = self.attempt(restart_count)
        return restart_count < self.restarts or (attempt is not None and attempt.word == "REQUEUED")


def jobs_of(printed: str, fields: Sequence[str], delimiter: str) -> list[Job]:
    """
    Return the jobs that `sacct --parsable` printed, in its order.

    Raises:
        GarbledError: It is something else.
    """
    attempts: dict[str, list[JobRecord]] = {}
    for row in _rows(printed, fields, delimiter):
        found = _STEP.match(row["JobIDRaw"])
        if not found:
            raise GarbledError(f"'{row['JobIDRaw'][:40]}' is no job id")
        if not found["step"]:
            attempts.setdefault(found["job"], []).append(_job(row))
        elif known := attempts.get(found["job"]):
            known[-1] = replace(known[-1], steps=(*known[-1].steps, _step(row, found["step"])))
    return [Job(tuple(sorted(records, key=lambda record: record.submitted_at or 0.0))) for records in attempts.values()]


def _rows(printed: str, fields: Sequence[str], delimiter: str) -> list[dict[str, str]]:
    """Split at the delimiter, which ends every field: line ends within one are its own."""
    cells = printed.split(delimiter)
    if len(cells) % len(fields) != 1 or cells[-1].strip():
        raise GarbledError("it printed something that is no record of a job")
    rows = [cells[at : at + len(fields)] for at in range(0, len(cells) - 1, len(fields))]
    return [dict(zip(fields, [row[0].lstrip("\n"), *row[1:]], strict=True)) for row in rows]


def _job(row: Mapping[str, str]) -> JobRecord:
    label = _LABEL.match(row["JobID"])
    status, signal = exit_of(row.get("State", ""), row.get("ExitCode", ""))
    return JobRecord(
        job_id=row["JobIDRaw"],
        label=row["JobID"],
        state=row.get("State", ""),
        exit_status=status,
        signal=signal,
        code=row.get("ExitCode", ""),
        array_job_id=(label["array"] or "") if label else "",
        array_task_id=(label["task"] or "") if label else "",
        reason=_told(row.get("Reason", "")),
        nodes=_told(row.get("NodeList", "")),
        time_limit=_told(row.get("Timelimit", "")),
        elapsed_s=_number(row.get("ElapsedRaw", "")),
        requested_memory=_memory(row.get("ReqMem", "")),
        submitted_at=instant(row.get("Submit", "")),
        started_at=instant(row.get("Start", "")),
        ended_at=instant(row.get("End", "")),
        uid=_number(row.get("UID", "")),
        user=row.get("User", ""),
        name=row.get("JobName", ""),
        comment=row.get("Comment", ""),
        folder=row.get("WorkDir", ""),
        submit_line=row.get("SubmitLine", ""),
        stdout=row.get("StdOut", ""),
        stderr=row.get("StdErr", ""),
    )


def _step(row: Mapping[str, str], step_id: str) -> Step:
    state = row.get("State", "")
    return Step(step_id, state, *exit_of(state, row.get("ExitCode", "")), max_rss=row.get("MaxRSS", ""))


def exit_of(state: str, code: str) -> tuple[int | None, int | None]:
    """
    Return exit status and signal of `7:0` or `0:11`; the status of a signal is the shell's, 128 and more.

    0:0 means success only where the state says so: a job that was cancelled or lost its node has it too.
    """
    found = re.fullmatch(r"(\d{1,3}):(\d{1,3})", code)
    if not found:
        return None, None
    status, signal = int(found[1]), int(found[2])
    if 0 < signal <= _MOST_SIGNAL and not (status == 0 and signal == LAUNCH_SIGNAL):
        return 128 + signal, signal
    if signal or (status == 0 and not state.startswith(("COMPLETED", "RUNNING"))):
        return None, None
    return status & 0xFF, None


# What a batch script is said to have died of that could not be started: its output file could not be opened.
LAUNCH_SIGNAL = 53


def instant(text: str) -> float | None:
    """Return an instant in seconds since 1970 UTC: what `SLURM_TIME_FORMAT=%s` gives, or local time; None for none."""
    if re.fullmatch(r"\d{9,11}", text):
        return float(text)
    try:
        return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))
    except (ValueError, OverflowError):
        return None


def _told(text: str) -> str:
    """Return a value, "" for the words that stand for none."""
    return "" if text in ("None", "None assigned", "Unknown", "(null)", "N/A", "Partition_Limit") else text


def _memory(text: str) -> str:
    """Return `4G` of `4G`, `4Gn` (a node, before Slurm 21.08) or `4Gc` (a CPU); "" for what is none."""
    found = re.fullmatch(r"([0-9.]{1,20}[KMGTP])[nc]?", text)
    return found[1] if found else ""


def _number(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else None


def _kib(text: str) -> float:
    """Return a size such as `812K` or `1.50G` for comparing; 0 for none."""
    found = re.fullmatch(r"([0-9.]{1,20})([KMGTP]?)", text)
    return float(found[1].strip(".") or 0) * 1024.0 ** " KMGTP".index(found[2] or " ") if found else 0.0


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
    found = {name: _told(values[key]) for key, name in _KEYS.items() if key in values}
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
        uid=_number(found.get("uid", "").rpartition("(")[2].rstrip(")")),
        user=found.get("uid", "").rpartition("(")[0],
        name=values.get("JobName", ""),
        restarts=_number(found.get("restarts", "")),
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
