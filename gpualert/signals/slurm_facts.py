"""What Slurm's record of a job says about the end of one of its attempts: pure, and in words that the rules know."""

from __future__ import annotations

import pwd
from collections.abc import Sequence
from dataclasses import dataclass

from gpualert.display import duration
from gpualert.model import Evidence, Parameter, frozen
from gpualert.signals.slurm_records import LAUNCH_SIGNAL, Job, JobRecord

_ENDINGS = {
    "TIMEOUT": "State=TIMEOUT: it reached its time limit of {limit}",
    "DEADLINE": "State=DEADLINE: time limit reached, it could not end before its deadline",
    "OUT_OF_MEMORY": "State=OUT_OF_MEMORY: it asked for {asked}{used}",
    "NODE_FAIL": "State=NODE_FAIL: a node failed, of {nodes}",
    "PREEMPTED": "State=PREEMPTED: a job of higher priority took its place",
    "REQUEUED": "State=REQUEUED: it was preempted or put back into the queue",
    "BOOT_FAIL": "State=BOOT_FAIL: its nodes could not be started",
    "LAUNCH_FAILED": "State=LAUNCH_FAILED: it could not be started on its nodes",
    "RECONFIG_FAIL": "State=RECONFIG_FAIL: its nodes could not be set up",
}
_LAUNCH_REASONS = ("JobLaunchFailure", "launch_failed", "BadConstraints", "DependencyNeverSatisfied")


@dataclass(frozen=True)
class Said:
    """
    What Slurm says of one attempt.

    Attributes:
        state: The state that it ended in; "" while it runs.
        evidence: What that means; empty where the state tells nothing that the exit status does not.
        row: All of it in one line.
        notes: What became of the attempts before.
        again: That Slurm runs the job again, in one sentence; "" where it does not.
        ended_at: When it ended, in seconds since 1970 UTC; None while it runs.
    """

    state: str
    evidence: tuple[Evidence, ...]
    row: str
    notes: tuple[str, ...] = ()
    again: str = ""
    ended_at: float | None = None


def said_of(
    job: Job,
    restart_count: int = 0,
    step_id: str = "",
    signal: int | None = None,
    failed_nodes: Sequence[str] = (),
) -> Said:
    """
    Return what Slurm says of an attempt.

    Args:
        restart_count: Which attempt; the first is 0.
        step_id: The step that the run was in, where it was one.
        signal: The signal that ended the run, where it is known.
        failed_nodes: Which of the job's nodes are known to be down.
    """
    record = job.attempt(restart_count)
    notes = tuple(
        f"restart {number + 1} of job {earlier.label}; {_attempt(number, earlier)}"
        for number in range(restart_count)
        if (earlier := job.attempt(number))
    )
    if record is None or not record.has_ended:
        return Said("", (), row_of(record or job.last), notes)
    again = f"Slurm runs job {job.last.label} again: {_attempt(restart_count, record)}"
    evidence = _evidence(record, failed_nodes) or _sibling(record, step_id, signal)
    return Said(
        state=record.state,
        evidence=(evidence,) if evidence else (),
        row=row_of(record),
        notes=notes,
        again=again if job.runs_again(restart_count) else "",
        ended_at=record.ended_at,
    )


def _attempt(number: int, record: JobRecord) -> str:
    return f"attempt {number} ended {record.word}" + (f" on {record.nodes}" if record.nodes else "")


def _evidence(record: JobRecord, failed_nodes: Sequence[str]) -> Evidence | None:
    word, parameters = record.word, dict[str, Parameter](state=record.word)
    if record.reason:
        parameters["reason"] = record.reason
    if word == "FAILED" and (record.code == f"0:{LAUNCH_SIGNAL}" or record.reason in _LAUNCH_REASONS):
        parameters["launched"] = 0
        text = f"exit code {record.code}: its script was not started; can its output file be made?"
    elif word == "CANCELLED":
        text = f"CANCELLED{_by(record)}"
        if record.uid is not None and record.state.endswith(f" by {record.uid}"):
            parameters["by"] = "owner"
        if not record.was_started:
            parameters["launched"] = 0
            text += ", before it started" + (f" ({record.reason})" if record.reason else "")
    elif word in _ENDINGS:
        used = f", and one task was seen to use {record.max_rss}" if record.max_rss else ""
        asked, limit = record.requested_memory or "no more", record.time_limit or "unknown length"
        text = _ENDINGS[word].format(limit=limit, asked=asked, used=used, nodes=record.nodes or "unknown name")
    else:
        return None
    host = _only_node(record)
    if word == "NODE_FAIL" and not host and failed_nodes:
        text += f"; down is {', '.join(failed_nodes)}"
        host = failed_nodes[0] if len(failed_nodes) == 1 else ""
    return Evidence("slurm", "", 0, f"Slurm job {record.label} {text}", host=host, parameters=frozen(parameters))


def _by(record: JobRecord) -> str:
    """Say who cancelled a job, by number and name; "" where Slurm does not say."""
    uid = record.state.partition(" by ")[2]
    try:
        return f" by {uid} ({pwd.getpwuid(int(uid)).pw_name})"
    except (KeyError, ValueError, OverflowError):
        return f" by {uid}" if uid else ""


def _sibling(record: JobRecord, step_id: str, signal: int | None) -> Evidence | None:
    """Return that Slurm ended a task because another of its step had failed."""
    step = next((step for step in record.steps if step.step_id == step_id), None)
    if not step or signal not in (9, 15) or not step.exit_status or step.signal:
        return None
    text = f"step {step_id} ended with exit status {step.exit_status}: another task failed, and this one was ended"
    parameters: dict[str, Parameter] = {"state": "CANCELLED", "by": "sibling"}
    return Evidence("slurm", "", 0, f"Slurm job {record.label} {text}", parameters=frozen(parameters))


def _only_node(record: JobRecord) -> str:
    """Return the node, where it was only one."""
    return "" if "[" in record.nodes or "," in record.nodes else record.nodes


def row_of(record: JobRecord) -> str:
    """
    Return a record in one line: `4711 TIMEOUT 0:0 (TimeLimit), n1, 1h 1m of 01:00:00, 812K of 4G memory`.

    While the job runs the accounting may be behind: its state and times are left out.
    """
    if not record.has_ended:
        limit = f"time limit {record.time_limit}" if record.time_limit else ""
        return ", ".join(filter(None, [record.label, record.nodes, limit]))
    reason = f" ({record.reason})" if record.reason else ""
    parts = [f"{record.label} {record.state} {record.code}".rstrip() + reason, record.nodes]
    if record.elapsed_s is not None:
        parts.append(duration(record.elapsed_s) + (f" of {record.time_limit}" if record.time_limit else ""))
    if record.max_rss:
        parts.append(f"{record.max_rss} of {record.requested_memory or '?'} memory")
    return ", ".join(filter(None, parts))
