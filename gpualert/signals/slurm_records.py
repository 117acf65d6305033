"""
Slurm's records of a job as data, and what `sacct` prints, parsed.

Job names, comments and paths are the job's own words.  They can spoil nobody else's record: `sacct` is given a
delimiter that nobody can guess.
Source: https://slurm.schedmd.com/sacct.html (20.11 to 24.05).
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
        reason=told(row.get("Reason", "")),
        nodes=told(row.get("NodeList", "")),
        time_limit=told(row.get("Timelimit", "")),
        elapsed_s=number(row.get("ElapsedRaw", "")),
        requested_memory=_memory(row.get("ReqMem", "")),
        submitted_at=instant(row.get("Submit", "")),
        started_at=instant(row.get("Start", "")),
        ended_at=instant(row.get("End", "")),
        uid=number(row.get("UID", "")),
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


def told(text: str) -> str:
    """Return a value, "" for the words that stand for none."""
    return "" if text in ("None", "None assigned", "Unknown", "(null)", "N/A", "Partition_Limit") else text


def _memory(text: str) -> str:
    """Return `4G` of `4G`, `4Gn` (a node, before Slurm 21.08) or `4Gc` (a CPU); "" for what is none."""
    found = re.fullmatch(r"([0-9.]{1,20}[KMGTP])[nc]?", text)
    return found[1] if found else ""


def number(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else None


def _kib(text: str) -> float:
    """Return a size such as `812K` or `1.50G` for comparing; 0 for none."""
    found = re.fullmatch(r"([0-9.]{1,20})([KMGTP]?)", text)
    return float(found[1].strip(".") or 0) * 1024.0 ** " KMGTP".index(found[2] or " ") if found else 0.0
