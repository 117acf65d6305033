"""Which jobs a user means by `4711` or `4711_[1-4]`, and what Slurm knows of them."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from gpualert.errors import GpualertError, UsageError
from gpualert.signals import slurm
from gpualert.signals.slurm_records import FIELDS, PATHS, Job, JobRecord

_WORD = re.compile(
    r"(?P<job>[1-9]\d{0,11})(?:_(?:(?P<task>\d{1,9})|\[(?P<tasks>[\d,:%-]{1,200})\]))?(?:\+\d+)?(?:\.\w+)?\Z"
)
_MOST_TASKS = 4_000_000  # Source: slurm.conf(5), MaxArraySize


class NoSuchJobError(GpualertError):
    """
    Slurm knows no such job, or could not be asked.

    Attributes:
        word: What was asked for.
        reasons: Who could not be asked, and why.
    """

    def __init__(self, word: str, reasons: Sequence[str] = ()) -> None:
        self.word, self.reasons = word, tuple(reasons)
        why = "; ".join(reasons) or "neither its accounting nor its controller knows it"
        super().__init__(f"cannot find Slurm job '{word}': {why}")


@dataclass(frozen=True)
class Wanted:
    """
    What a user asked for: a job, or some tasks of an array.

    Attributes:
        tasks: None for all of it.
        word: How the user wrote it.
    """

    job_id: str
    tasks: frozenset[int] | None = None
    word: str = ""

    def means(self, record: JobRecord) -> bool:
        """Say whether a record is meant."""
        if self.tasks is not None:
            ours, task = record.array_job_id == self.job_id, record.array_task_id
            return ours and task.isdigit() and int(task) in self.tasks
        return self.job_id in (record.job_id, record.array_job_id) or record.label.startswith(f"{self.job_id}+")


def parse(word: str) -> Wanted:
    """
    Return what `4711`, `4711_3`, `4711_[1-4,7]`, `4711+1` or `4711.batch` means.

    Raises:
        UsageError: It is no job id.
    """
    found = _WORD.match(word)
    if not found:
        raise UsageError(f"'{word}' is no Slurm job id; such as 4711, 4711_3 or 4711_[1-4]")
    tasks = found["task"] or found["tasks"]
    return Wanted(found["job"], _numbers(word, tasks) if tasks else None, word)


def _numbers(word: str, text: str) -> frozenset[int]:
    """Return the numbers of `1-4,7` or `0-20:5%2`."""
    numbers: set[int] = set()
    for part in text.partition("%")[0].split(","):
        found = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?", part)
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
        if not first <= last < _MOST_TASKS:
            raise UsageError(f"'{word}' is no Slurm job id: '{part}' is no range of tasks")
        numbers.update(range(first, last + 1, max(1, int((found and found[3]) or 1))))
    return frozenset(numbers)


def find(wanted: Sequence[Wanted], limit_s: float = slurm.LIMIT_S) -> list[Job]:
    """
    Return the jobs that are meant, in the order in which they were asked for.

    The accounting lags some seconds behind the controller, which has forgotten by then what the accounting keeps: both
    are asked.

    Raises:
        NoSuchJobError: One of them is not known.
    """
    asked = slurm.ask([item.job_id for item in wanted], limit_s, (*FIELDS, *PATHS))
    shown = _shown([item.job_id for item in wanted], limit_s)
    jobs = {job_id: _merged(job, shown.pop(job_id, None)) for job_id, job in asked.jobs.items()}
    jobs |= {job_id: Job((record,)) for job_id, record in shown.items()}
    found: dict[str, Job] = {}
    for item in wanted:
        meant = [job for job in jobs.values() if item.means(job.last)]
        if not meant:
            raise NoSuchJobError(item.word or item.job_id, asked.not_read)
        found |= {job.last.label: job for job in sorted(meant, key=_order)}
    return list(found.values())


def _shown(job_ids: Sequence[str], limit_s: float) -> dict[str, JobRecord]:
    """Return what the controller still knows, by the jobs' numbers."""
    shown: dict[str, JobRecord] = {}
    until = time.monotonic() + limit_s
    for job_id in dict.fromkeys(job_ids):
        left_s = until - time.monotonic()
        if left_s <= 0:
            break
        with suppress(slurm.SlurmError):
            shown |= {record.job_id: record for record in slurm.show(job_id, left_s)}
    return shown


def _merged(job: Job, shown: JobRecord | None) -> Job:
    """Add what only the controller knows: where the output goes (before Slurm 24.05), and what is not accounted yet."""
    last = job.last
    if shown is None:
        return job
    if shown.has_ended and not last.has_ended:
        last = replace(shown, steps=last.steps, requested_memory=last.requested_memory, submit_line=last.submit_line)
    last = replace(
        last,
        label=shown.label if shown.array_job_id else last.label,
        array_job_id=shown.array_job_id,
        array_task_id=shown.array_task_id,
        uid=shown.uid,  # a young record of the accounting has wrong ones
        user=shown.user,
        name=shown.name or last.name,
        folder=shown.folder or last.folder,
        stdout=last.stdout or shown.stdout,
        stderr=last.stderr or shown.stderr,
    )
    return Job((*job.attempts[:-1], last))


def _order(job: Job) -> tuple[int, int]:
    task = job.last.array_task_id
    return int(job.last.array_job_id or job.last.job_id), int(task) if task.isdigit() else _MOST_TASKS
