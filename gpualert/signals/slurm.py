"""
Ask Slurm about jobs: `sacct` for its accounting, `scontrol` for what is under way or ended some minutes ago.

Both ask servers that may be down: they get some seconds, and whatever goes wrong is said in one sentence.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from gpualert.bounded import Answer, answer_of
from gpualert.display import shorten, visible
from gpualert.errors import GpualertError
from gpualert.model import Start
from gpualert.signals.slurm_records import FIELDS, GarbledError, Job, JobRecord, jobs_of
from gpualert.signals.slurm_shown import shown_records

LIMIT_S = 5.0
_SHOW_LIMIT_S = 2.0  # a controller answers at once; together they fit into the end of a job
_GRACE_S = 60.0
_MAY_RUN_AGAIN = ("PREEMPTED", "NODE_FAIL")
_LIMIT_BYTES = 64 << 20
_MOST_IDS = 500  # in one call: a command line and a query have their limits
_JOB_ID = re.compile(r"[1-9]\d{0,11}\Z")
# Where sites install it beside PATH.  A hook that Slurm starts has almost none.
_PLACES = ("/usr/bin", "/usr/local/bin", "/opt/slurm/bin", "/usr/local/slurm/bin", "/cm/shared/apps/slurm/current/bin")


class SlurmError(GpualertError):
    """
    Slurm could not be asked.

    Attributes:
        program: `sacct` or `scontrol`.
        reason: Why, in one sentence.
    """

    def __init__(self, program: str, reason: str) -> None:
        self.program, self.reason = program, reason
        super().__init__(f"{program}: {reason}")


@dataclass(frozen=True)
class Asked:
    """
    What Slurm knows of some jobs.

    Attributes:
        jobs: By their number; a job that nobody knows is missing.
        not_read: Who could not be asked, and why.
    """

    jobs: Mapping[str, Job]
    not_read: tuple[str, ...] = ()


def ask(job_ids: Iterable[str], limit_s: float = LIMIT_S, fields: Sequence[str] = FIELDS) -> Asked:
    """
    Return what Slurm knows of jobs: its accounting, and where that is silent on a single one its controller.

    Args:
        job_ids: Numbers; what is none is left out.
        limit_s: For the accounting; the controller gets less.
        fields: What the accounting is asked for; it may not know all of them.
    """
    wanted = [job_id for job_id in dict.fromkeys(job_ids) if _JOB_ID.match(job_id)]
    jobs: dict[str, Job] = {}
    not_read: list[str] = []
    until = time.monotonic() + limit_s
    for at in range(0, len(wanted), _MOST_IDS):
        try:
            found = account_of(wanted[at : at + _MOST_IDS], until - time.monotonic(), fields)
            jobs |= {job.last.job_id: job for job in found}
        except SlurmError as error:
            not_read.append(str(error))
            break
    missing = [job_id for job_id in wanted if not any(_is_of(job.last, job_id) for job in jobs.values())]
    if len(missing) == 1:  # a controller has one answer for one job
        try:
            jobs |= {record.job_id: Job((record,)) for record in show(missing[0], min(limit_s, _SHOW_LIMIT_S))}
        except SlurmError as error:
            not_read.append(str(error))
    return Asked(jobs, tuple(not_read))


def ask_one(job_id: str) -> Asked:
    """Return what Slurm knows of one job; whether it goes back into the queue is asked of the controller, at once."""
    asked = ask([job_id])
    job = asked.jobs.get(job_id)
    if job is None or job.last.word not in _MAY_RUN_AGAIN:
        return asked
    try:
        again = [record for record in show(job_id, _SHOW_LIMIT_S) if record.job_id == job_id and not record.has_ended]
    except SlurmError:
        return asked
    return replace(asked, jobs={job_id: Job((*job.attempts, *again))})


def ended_runs(starts: Iterable[Start], now: float, limit_s: float = LIMIT_S) -> frozenset[str]:
    """Return the run ids of those whose job Slurm says has ended, long enough ago for their record to have appeared."""
    starts = [start for start in starts if start.slurm_job_id]
    jobs = ask([start.slurm_job_id for start in starts], limit_s).jobs if starts else {}
    return frozenset(start.run_id for start in starts if _is_over(start, jobs.get(start.slurm_job_id), now))


def _is_over(start: Start, job: Job | None, now: float) -> bool:
    attempt = job.attempt(start.slurm_restart_count) if job else None
    if attempt is None or not attempt.has_ended:
        return False
    return attempt.ended_at is not None and now - attempt.ended_at > _GRACE_S


def has_ended(start: Start) -> bool:
    """Say whether Slurm says that the job of a run has ended; see `ended_runs`."""
    return start.run_id in ended_runs([start], time.time())


def _is_of(record: JobRecord, job_id: str) -> bool:
    return job_id in (record.job_id, record.array_job_id) or record.label.startswith(f"{job_id}+")


def account_of(job_ids: Sequence[str], limit_s: float = LIMIT_S, fields: Sequence[str] = FIELDS) -> list[Job]:
    """
    Return what the accounting holds of jobs, all their attempts and steps; nothing of those that it does not know.

    Raises:
        SlurmError: It could not be asked, is switched off, or answered with something else.
    """
    answer, delimiter = _sacct(job_ids, fields, limit_s)
    if b"nvalid field requested" in answer.complained:  # an older Slurm
        known = _answer("sacct", ["--helpformat"], limit_s).printed.decode("ascii", "replace").lower().split()
        fields = [field for field in fields if field.lower() in known]
        if not {"JobIDRaw", "JobID", "State"} <= set(fields):
            raise SlurmError("sacct", "it does not know the fields JobIDRaw, JobID and State")
        answer, delimiter = _sacct(job_ids, fields, limit_s)
    _check("sacct", answer)
    try:
        return jobs_of(answer.printed.decode("utf-8", "replace"), fields, delimiter)
    except GarbledError as error:
        raise SlurmError("sacct", str(error)) from error


def _sacct(job_ids: Sequence[str], fields: Sequence[str], limit_s: float) -> tuple[Answer, str]:
    delimiter = f"|{os.urandom(6).hex()}|"  # a job's name may hold any other
    options = ["--duplicates", "--noheader", "--parsable", f"--delimiter={delimiter}", f"--format={','.join(fields)}"]
    return _answer("sacct", [*options, f"--jobs={','.join(job_ids)}"], limit_s), delimiter


def show(job_id: str, limit_s: float = LIMIT_S) -> list[JobRecord]:
    """
    Return what the controller holds of a job: one record, one for each task of an array, none of one it does not know.

    It forgets a job some minutes after its end.

    Raises:
        SlurmError: It could not be asked, or answered with something else.
    """
    answer = _answer("scontrol", ["show", "job", job_id], limit_s)
    if b"Invalid job id" in answer.complained:
        return []
    _check("scontrol", answer)
    try:
        return shown_records(answer.printed.decode("utf-8", "replace"))
    except GarbledError as error:
        raise SlurmError("scontrol", str(error)) from error


def failed_nodes(nodes: str, limit_s: float = _SHOW_LIMIT_S) -> tuple[str, ...]:
    """Return those of some nodes that are down or do not answer just now; none where nobody can be asked."""
    try:
        answer = _answer("sinfo", ["--noheader", "--Node", f"--nodes={nodes}", "--format=%N %t"], limit_s)
    except SlurmError:
        return ()
    rows = [line.split() for line in answer.printed.decode("utf-8", "replace").splitlines()]
    # Source: sinfo(1), "NODE STATE CODES": an asterisk marks a node that does not answer.
    bad = [row[0] for row in rows if len(row) == 2 and (row[1].endswith("*") or row[1].startswith(("down", "fail")))]
    return tuple(dict.fromkeys(bad))


def script_of(job_id: str, limit_s: float = LIMIT_S) -> str:
    """Return a job's batch script, where the accounting keeps it; "" elsewhere."""
    try:
        answer = _answer("sacct", ["--batch-script", f"--jobs={job_id}"], limit_s)
    except SlurmError:
        return ""
    return "" if answer.status else answer.printed.decode("utf-8", "replace")


def _answer(program: str, words: Sequence[str], limit_s: float) -> Answer:
    path = shutil.which(program, path=os.pathsep.join([os.environ.get("PATH", os.defpath), *_PLACES]))
    if path is None:
        raise SlurmError(program, "no such program here")
    # Source: sacct(1) and scontrol(1), "ENVIRONMENT VARIABLES": times as seconds since 1970.
    environ = {**os.environ, "LC_ALL": "C", "SLURM_TIME_FORMAT": "%s"}
    try:
        return answer_of([path, *words], limit_s, _LIMIT_BYTES, environ)
    except OverflowError as error:
        raise SlurmError(program, str(error)) from error
    except OSError as error:  # TimeoutError too
        raise SlurmError(program, error.strerror or str(error)) from error


def _check(program: str, answer: Answer) -> None:
    """
    Refuse the answer of a program that failed.

    Raises:
        SlurmError: With what it said.
    """
    if answer.status or (not answer.printed and answer.complained):
        said = answer.complained.decode("utf-8", "replace").strip().splitlines()
        first = re.sub(r"^\w+: (?:error: |fatal: )?", "", said[0]) if said else f"it ended with status {answer.status}"
        raise SlurmError(program, shorten(visible(first), 200))
