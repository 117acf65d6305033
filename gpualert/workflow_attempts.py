"""The failed attempts of a workflow's jobs: as their runs tell them, or as the engine, their logs and Slurm do."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from gpualert.findings import judge, load
from gpualert.model import Evidence, Facts, LogFile, Run, RunStatus
from gpualert.signals.slurm import SlurmError, account_of
from gpualert.signals.slurm_facts import said_of
from gpualert.signals.slurm_records import Job
from gpualert.tell import findings_of
from gpualert.wording import host_of, job_of
from gpualert.workflow_folder import FailedJob, Workflow
from gpualert.workflow_story import Attempt

_WELL = (RunStatus.SUCCEEDED, RunStatus.RUNNING)
_HEADING = re.compile(r"(Exception|Error)\b.*:$")


def attempt_of_run(run: Run, kept: Mapping[tuple[str, int], FailedJob]) -> Attempt | None:
    """
    Return what a run tells of a failed attempt; None where it went well, or is under way.

    Args:
        kept: What the engine told, by job and attempt: where the run was judged too late, after the next attempt had
            begun, the copies of the logs still tell.
    """
    found = findings_of(run)
    if found is None or found.verdict.status in _WELL:
        return None
    engine, verdict = run.engine, found.verdict
    number = int(engine["attempt"]) if engine.get("attempt", "").isdecimal() else 0
    told = kept.get((engine.get("key", ""), number))
    if told and told.copies and verdict.failure_class == "unknown":
        again = judge(log_files(told), Facts(status=run.exit.status if run.exit else None))
        verdict = again if again.failure_class != "unknown" else verdict
    streams = [str(stream.path) for stream in run.streams if stream.path and _size(str(stream.path)) != 0]
    return Attempt(
        key=engine.get("key", ""),
        rule=engine.get("rule", ""),
        wildcards=engine.get("wildcards", ""),
        number=number,
        ended_at=run.exit.ended_at if run.exit else (run.start.started_at if run.start else 0.0),
        exit_status=run.exit.status if run.exit else None,
        verdict=verdict,
        node=host_of(run),
        external_job=job_of(run),
        run_id=run.run_id,
        logs=_sizes([*(str(Path(run.cwd, word)) for word in engine.get("log", "").split()), *streams]),
    )


def damaged(runs: Iterable[Run]) -> list[str]:
    """Say of which runs the verdict was half written, or is damaged: they were judged once more."""
    return [
        f"rule '{run.engine.get('rule', '')}': '{run.path / 'verdict.json'}' is damaged; its logs were judged once more"
        for run in runs
        if (run.path / "verdict.json").exists() and load(run.path) is None
    ]


def attempts_told(workflow: Workflow, jobs: Sequence[FailedJob]) -> tuple[list[Attempt], list[str]]:
    """Return failed attempts that have no run, judged by their logs and the scheduler, and what could not be read."""
    known, troubles = _scheduled(jobs)
    return [_attempt_told(workflow, job, known.get(job.external_job)) for job in jobs], troubles


def _scheduled(jobs: Iterable[FailedJob]) -> tuple[Mapping[str, Job], list[str]]:
    """Return what Slurm says of the jobs that it may know."""
    numbers = sorted({job.external_job for job in jobs if job.external_job.isdecimal()})
    if not numbers or not shutil.which("sacct"):
        return {}, []
    try:
        return {job.last.job_id: job for job in account_of(numbers)}, []
    except SlurmError as error:
        return {}, [str(error)]


def _attempt_told(workflow: Workflow, told: FailedJob, job: Job | None) -> Attempt:
    record = job.last if job else None
    verdict = judge(log_files(told), _facts(told, job))
    said = _telling_lines(told.said)
    if said and not any(item.source in ("log", "slurm") for item in verdict.evidence):
        verdict = replace(verdict, evidence=(Evidence(workflow.engine, "", 0, said),))
    here = "" if told.external_job else workflow.host
    return Attempt(
        key=told.key,
        rule=told.rule,
        wildcards=told.wildcards,
        number=told.attempt,
        ended_at=told.at,
        exit_status=told.exit_status,
        verdict=verdict,
        node=record.nodes if record else here,
        external_job=f"Slurm {record.label}" if record else f"job {told.external_job}" if told.external_job else "",
        logs=_sizes(told.logs),
        said=said,
    )


def _facts(told: FailedJob, job: Job | None) -> Facts:
    """Return what votes on the verdict beside the logs.  (The exit status of Slurm's job is the engine's own: 1.)"""
    if job is None:
        return Facts(status=told.exit_status or 1)
    said = said_of(job, job.restarts)
    status = told.exit_status or job.last.exit_status or 1
    return Facts(status=status, signal=job.last.signal, scheduler_state=job.last.state, evidence=said.evidence)


def log_files(job: FailedJob) -> list[LogFile]:
    """Return a job's logs: the copies, which no later attempt has touched, under the names of the logs."""
    found = []
    for log in job.logs:
        path = (job.copies or {}).get(log, Path(log))
        path = path if path.is_file() else Path(log)
        if path.is_file():
            found.append(LogFile(log, path, 0, path.stat().st_size))
    return found


def _telling_lines(said: str) -> str:
    """Return the telling part of the engine's words: what comes after the names of exceptions and places."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return " ".join(line for line in lines if not _HEADING.search(line))[:500]


def _sizes(logs: Iterable[str]) -> tuple[tuple[str, int | None], ...]:
    return tuple((log, _size(log)) for log in dict.fromkeys(logs))


def _size(path: str) -> int | None:
    try:
        return Path(path).stat().st_size
    except (OSError, ValueError):
        return None
