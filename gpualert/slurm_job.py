"""A Slurm job that was never wrapped, told as a run is: from Slurm's record and the files that its output went to."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gpualert.errors import RunDirError, UnsafeFileError
from gpualert.files import open_regular, write_atomically
from gpualert.findings import Findings, first_of, judge
from gpualert.group.report import failed_together
from gpualert.kept import head_and_tail
from gpualert.model import Capture, Exit, Facts, LogFile, Options, Run, RunStatus, Start, Stream, frozen
from gpualert.nesting import is_inner
from gpualert.report import Rank
from gpualert.rundir import read_run
from gpualert.settle import Logs, readable_logs
from gpualert.signals.epilog import read_epilog
from gpualert.signals.kernel import evidence_of
from gpualert.signals.slurm import script_of
from gpualert.signals.slurm_facts import row_of, said_of
from gpualert.signals.slurm_output import first_node, output_paths
from gpualert.signals.slurm_records import Job, JobRecord
from gpualert.state import STAMP_LENGTH, run_paths
from gpualert.tell import findings_of
from gpualert.verdict_json import verdict_to_json
from gpualert.wording import outcome

_SLACK_S = 120.0  # clocks of nodes differ


@dataclass(frozen=True)
class Looked:
    """
    What was found out about a job.

    Attributes:
        run: The job as a run, or the run in it that tells why it failed.
        findings: None while it waits or runs.
    """

    job: Job
    run: Run
    logs: Logs
    findings: Findings | None

    @property
    def record(self) -> JobRecord:
        """The newest attempt."""
        return self.job.last


def look(job: Job, folders: Iterable[Path], scratch: Path, *, anew: bool = False) -> Looked:
    """
    Find out why a job ended.

    Args:
        folders: State folders: where the job's own runs lie in one, their verdicts count.
        scratch: A folder for copies of another user's output.
        anew: Judge its output even where it has runs.
    """
    record = job.last
    logs, outputs = _outputs(record, scratch)
    run = _as_run(record, outputs)
    if not record.has_ended:
        return Looked(job, run, logs, None)
    for inside in () if anew else _runs_of(job, folders):
        if together := failed_together(inside):
            joint, of_all = together
            return Looked(job, joint.run, joint.logs, replace(of_all, machine=_machine(record, of_all)))
        told = findings_of(inside)
        if told and told.verdict.status is not RunStatus.SUCCEEDED:
            return Looked(job, inside, readable_logs(inside), replace(told, machine=_machine(record, told)))
    return Looked(job, run, logs, _judged(job, logs))


def _judged(job: Job, logs: Logs) -> Findings:
    record = job.last
    said = said_of(job, job.restarts)
    kept, unread = ([], "") if record.state == "COMPLETED" else read_epilog(record.job_id)
    facts = Facts(
        status=record.exit_status,
        signal=record.signal,
        duration_s=record.elapsed_s,
        scheduler_state=record.state,
        host=record.nodes if record.nodes == first_node(record.nodes) else "",
        evidence=(*said.evidence, *map(evidence_of, kept)),
        not_read=(*logs.not_read, *filter(None, [unread])),
    )
    verdict = judge(logs.files, facts)
    node, gpu = first_of(verdict, facts)
    verdict = replace(verdict, notes=(*verdict.notes, *said.notes), first_node=node, first_gpu=gpu)
    return Findings(verdict, (("Slurm", said.row),), {})


def _machine(record: JobRecord, told: Findings) -> tuple[tuple[str, str], ...]:
    """Return the machine's rows with Slurm's final word in place of what it said while the job ran."""
    return (("Slurm", row_of(record)), *(row for row in told.machine if row[0] != "Slurm"))


def _outputs(record: JobRecord, scratch: Path) -> tuple[Logs, tuple[Path, ...]]:
    """Return a job's output, and the files that it went to; another user's are read by way of a copy."""
    if not record.was_started:
        return Logs(()), ()
    paths = output_paths(record)
    if paths[:1] == [Path("/dev/null")]:
        return Logs((), ("the output: the job sent it to /dev/null",)), ()
    if paths and not any(map(_exists, paths)):
        paths = output_paths(record, script_of(record.job_id)) or paths
    there = tuple(filter(_exists, paths))
    found = [_log(record, path, scratch / f"{record.job_id}-{number}") for number, path in enumerate(there)]
    remarks = [
        f"{path}: it was written to after the job's end; another may have done so"
        for path in there
        if _is_newer(path, record)
    ]
    if not there:
        remarks.append(
            f"{paths[0]}: there is no such file" if paths else "the output: Slurm does not say where it went"
        )
    remarks += [item for item in found if isinstance(item, str)]
    return Logs(tuple(item for item in found if isinstance(item, LogFile)), tuple(remarks)), there


def _exists(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _is_newer(path: Path, record: JobRecord) -> bool:
    try:
        return record.ended_at is not None and path.stat().st_mtime > record.ended_at + _SLACK_S
    except OSError:
        return False


def _log(record: JobRecord, path: Path, copy: Path) -> LogFile | str:
    """Return a file of the job's owner that can be read, or why it cannot: whoever asks may be root."""
    if record.uid is None:
        return f"{path}: Slurm does not say whose job it was"
    try:
        os.close(open_regular(path, owner=record.uid))
        if record.uid == os.geteuid():
            return LogFile(path.name, path, 0, path.stat().st_size)
        write_atomically(copy, head_and_tail(path, owner=record.uid))
        return LogFile(path.name, copy)
    except UnsafeFileError as error:
        return str(error)
    except OSError as error:
        return f"{path}: {error.strerror or error}"


def _as_run(record: JobRecord, outputs: Iterable[Path]) -> Run:
    """Return a job as a run, for a report; its folder stands for the run directory that it does not have."""
    run_id = f"slurm-{record.label}"
    start = Start(run_id, first_node(record.nodes), 1, None, record.started_at or 0.0, node=record.nodes)
    ended_at = record.ended_at or record.started_at or 0.0
    return Run(
        path=Path(record.folder or "/"),
        run_id=run_id,
        argv=tuple(record.submit_line.split()),
        cwd=record.folder,
        name=record.name,
        options=Options(),
        streams=tuple(Stream(path.name, Capture.ADOPT, path) for path in outputs),
        start=replace(start, slurm_job_id=record.label) if record.was_started else None,
        exit=None if record.exit_status is None else Exit(record.exit_status, record.signal, False, ended_at),
        engine=frozen({"ended": f"Slurm says {record.state}."}),
    )


def _runs_of(job: Job, folders: Iterable[Path]) -> list[Run]:
    """Return the outermost runs in a job's newest attempt, those that ended first first."""
    record = job.last
    if record.started_at is None:
        return []
    first, last = _stamp(record.started_at - _SLACK_S), _stamp((record.ended_at or time.time()) + _SLACK_S)
    near = [path for path in run_paths(folders) if first <= path.name[:STAMP_LENGTH] <= last]
    runs = [run for path in near if (run := _read(path)) and _is_in(run, job) and not is_inner(run)]
    return sorted(runs, key=lambda run: run.exit.ended_at if run.exit else float("inf"))


def _stamp(at: float) -> str:
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(at))


def _read(path: Path) -> Run | None:
    try:
        return read_run(path)
    except RunDirError:
        return None


def _is_in(run: Run, job: Job) -> bool:
    """Say whether a run belongs to a job's newest attempt."""
    start, restarts = run.start, job.restarts
    return start is not None and start.slurm_job_id == job.last.job_id and restarts in (0, start.slurm_restart_count)


def causes(looked: Sequence[Looked]) -> list[list[Looked]]:
    """Return the jobs that failed, those of one cause together, the commonest first."""
    groups: dict[tuple[str, str], list[Looked]] = {}
    for item in looked:
        if item.findings and item.findings.verdict.status is not RunStatus.SUCCEEDED:
            verdict = item.findings.verdict
            groups.setdefault((verdict.failure_class, verdict.fingerprint), []).append(item)
    return sorted(groups.values(), key=len, reverse=True)


def ranks_of(looked: Sequence[Looked], first: Looked) -> list[Rank]:
    """Return the jobs as the rows of a report on all of them."""
    return [_rank(item, item is first) for item in looked]


def _rank(item: Looked, is_first: bool) -> Rank:
    record, verdict = item.record, item.findings.verdict if item.findings else None
    label = f"task {record.array_task_id}" if record.array_task_id.isdigit() else f"job {record.label}"
    log = next((str(stream.path) for stream in item.run.streams if stream.path), "")
    ended = outcome(verdict) if verdict else record.state
    well = verdict is not None and verdict.status is RunStatus.SUCCEEDED
    return Rank(label, record.nodes, ended, record.elapsed_s, log, label if is_first else "", well)


def to_json(looked: Sequence[Looked]) -> list[dict[str, Any]]:
    """Return jobs and their verdicts as JSON's values."""
    return [
        {
            "job": item.record.label,
            "job_id": item.record.job_id,
            "state": item.record.state,
            "exit_code": item.record.code,
            "reason": item.record.reason,
            "nodes": item.record.nodes,
            "restarts": item.job.restarts,
            "name": item.record.name,
            "run_id": item.run.run_id,
            "verdict": verdict_to_json(item.findings.verdict, item.run.run_id) if item.findings else None,
        }
        for item in looked
    ]
