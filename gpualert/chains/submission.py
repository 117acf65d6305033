"""What became of the Slurm job that an attempt handed over: the attempt's end is the job's, and so is its cause."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gpualert.chains.runs import runs_of
from gpualert.findings import Findings, unjudged
from gpualert.model import Facts, Run, RunStatus
from gpualert.nesting import is_inner
from gpualert.settle import Logs, readable_logs
from gpualert.signals.slurm import SlurmError, ask, show
from gpualert.signals.slurm_wanted import NoSuchJobError, find, parse
from gpualert.slurm_job import look
from gpualert.state import state_of
from gpualert.tell import findings_of

# A controller forgets a job some minutes after its end.  Source: slurm.conf(5), MinJobAge.
_FORGOTTEN_AFTER_S = 900.0


def ended(jobs: Iterable[tuple[Run, str]], now: float) -> list[Run]:
    """Return the runs whose job has ended, or is forgotten; one question for all."""
    pairs = list(jobs)
    known = ask([job_id for _, job_id in pairs]).jobs if pairs else {}
    return [
        run
        for run, job_id in pairs
        if (known[job_id].last.has_ended if job_id in known else now - _ended_at(run) > _FORGOTTEN_AFTER_S)
    ]


@dataclass(frozen=True)
class Told:
    """
    What became of a job that was handed over.

    Attributes:
        run: The job, or the run in it that tells why it failed, in the place of the run that handed it over.
    """

    run: Run
    logs: Logs
    findings: Findings


def look_at(run: Run, job_id: str) -> Told | None:
    """
    Return what became of a job, in the place of the run that handed it over; None while it waits or runs.

    The verdict is that of the runs inside the job, else what Slurm and the job's output tell.
    """
    folders = [state_of(run.path)]
    try:
        job = find([parse(job_id)])[0]  # the first of a heterogeneous one
    except NoSuchJobError as error:
        is_gone = time.time() - _ended_at(run) > _FORGOTTEN_AFTER_S and _is_forgotten(job_id)
        return _forgotten(run, folders, error.reasons) if is_gone else None
    if not job.last.has_ended or job.runs_again(len(job.attempts) - 1):
        return None
    looked = look(job, folders, run.path)
    return Told(_in_place_of(run, looked.run), looked.logs, looked.findings) if looked.findings else None


def _is_forgotten(job_id: str) -> bool:
    """Say whether Slurm's controller answers that it knows no such job; where it is silent the job may be running."""
    try:
        return not show(job_id)
    except SlurmError:
        return False


def _forgotten(run: Run, folders: Sequence[Path], not_read: Sequence[str]) -> Told | None:
    """Return what the runs inside a job tell that Slurm does not know any more; None while one of them goes on."""
    assert run.start
    inside = [each for each in runs_of(folders, run.start.chain, run.start.attempt) if each.run_id != run.run_id]
    told = [(each, findings_of(each)) for each in inside if not is_inner(each)]
    failed = [pair for pair in told if pair[1] and pair[1].verdict.status is not RunStatus.SUCCEEDED]
    for each, findings in failed or told[-1:]:
        return Told(_in_place_of(run, each), readable_logs(each), findings) if findings else None
    reason = "the job: Slurm does not know it any more, and it left no record of its own"
    verdict = unjudged(Facts(not_read=tuple(not_read)), reason)
    return Told(run, Logs(()), Findings(verdict, (), {}))


def _in_place_of(run: Run, told: Run) -> Run:
    """Return `told` with the name, the folder and the wishes of `run`: what is written about it goes there."""
    start = told.start or run.start
    assert run.start and start
    start = replace(start, chain=run.start.chain, attempt=run.start.attempt, parent_run_id="", group="")
    name = run.name or told.name
    return replace(told, path=run.path, run_id=run.run_id, name=name, options=run.options, start=start)


def _ended_at(run: Run) -> float:
    return run.exit.ended_at if run.exit else run.path.stat().st_mtime
