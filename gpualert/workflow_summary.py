"""The one message about a workflow: its runs and what its engine told are gathered, judged, composed and sent."""

from __future__ import annotations

import re
import time
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from gpualert.cleaning import Window
from gpualert.config import Settings
from gpualert.errors import RunDirError
from gpualert.excerpt import read_windows
from gpualert.history import read_engine_history
from gpualert.model import Run, RunStatus
from gpualert.notify.channels import channels_of
from gpualert.notify.message import compose, envelope, message_id
from gpualert.notify.outbox import queue_message, send_due
from gpualert.rundir import read_run
from gpualert.settle import readable_logs
from gpualert.state import STAMP_LENGTH, run_paths, state_of
from gpualert.workflow_attempts import attempt_of_run, attempts_told, damaged, log_files
from gpualert.workflow_folder import FailedJob, Workflow, WorkflowFolder, has_ended
from gpualert.workflow_report import build_workflow_report, status_of
from gpualert.workflow_story import Attempt, Story, jobs_of

_WELL = (RunStatus.SUCCEEDED, RunStatus.RUNNING)
_SEND_S = 60.0
_MOST_EXCERPTS = 3
_HEADING = re.compile(r"(Exception|Error)\b.*:$")
_EARLIER_S = 120.0  # clocks of other hosts may be behind


def tell_workflow(folder: WorkflowFolder, folders: Sequence[Path], settings: Settings) -> tuple[Story, list[str]]:
    """
    Send the summary of a workflow that has ended, once.

    Args:
        folders: All state folders: a node may have kept its runs in a fallback.

    Returns:
        What happened, and what went wrong with telling it.

    Raises:
        WorkflowError: Its folder cannot be read.
        OSError: The disk is full.
    """
    story, windows = gather(folder, folders)
    if story.ended_at is not None and folder.read().ended_at is None:
        folder.end(story.ended_at)
    if folder.is_told or story.running or why_untold(story, settings):
        if not story.running:
            folder.mark_told()
        return story, []
    report = build_workflow_report(story, windows)
    sent_by = envelope(settings)
    named = message_id(f"workflow-{story.workflow}", report.status)
    message = compose(report, (), sent_by, named, story.ended_at or time.time())
    state = state_of(folder.path)
    queue_message(
        state,
        message,
        message_id=named,
        mail_from=sent_by.mail_from,
        to=sent_by.to,
        now=time.time(),
        channels=channels_of(settings),
    )
    folder.mark_told()
    if settings.deliver == "tick":
        return story, [*sent_by.refused]
    done = send_due(state, settings, time.time(), _SEND_S, named)
    return story, [*sent_by.refused, *done.dead, *done.troubles]


def why_untold(story: Story, settings: Settings) -> str:
    """Say why the summary of an ended workflow is not sent; "" where it is."""
    lasted_s = story.ended_at - story.started_at if story.ended_at is not None else None
    if settings.mail == "none":
        return "the setting 'mail' is none"
    if lasted_s is not None and lasted_s < settings.longer_than_s:
        return f"it lasted {lasted_s:.1f} s, and only what takes longer than {settings.longer_than_s:g} s is told"
    if settings.on == "never":
        return "the setting 'on' is never"
    if settings.on != "always" and status_of(story) is RunStatus.SUCCEEDED:
        return f"it succeeded, and the setting 'on' is {settings.on}"
    return ""


def gather(folder: WorkflowFolder, folders: Iterable[Path]) -> tuple[Story, list[Window]]:
    """
    Put together what happened in a workflow; also the log lines around the first causes.

    Raises:
        WorkflowError: Its folder cannot be read.
    """
    workflow = folder.read()
    ended = has_ended(workflow)
    if ended and workflow.ended_at is None and not workflow.is_counted:
        workflow = replace(workflow, ended_at=time.time())  # just noticed
    told, passed, troubles = folder.failures()
    runs = list(_runs(workflow, folders))
    kept = {(job.key, job.attempt): job for job in told}
    seen = [attempt for run in runs if (attempt := attempt_of_run(run, kept))]
    gated = _gated(workflow, {attempt.key for attempt in seen})
    others = [job for job in _not_seen(told, seen) if job.key not in gated]
    judged, unread = attempts_told(workflow, others)
    attempts = [*seen, *judged]
    passed |= _passed(workflow, folders, seen, {job.key for job in told})
    jobs = jobs_of(attempts, passed, gated)
    story = Story(
        workflow=workflow.workflow,
        **{name: getattr(workflow, name) for name in ("engine", "name", "cwd", "host", "started_at", "ended_at")},
        running=ended is not True,
        done=workflow.done,
        total=workflow.total,
        jobs=jobs,
        not_read=(*troubles, *unread, *damaged(runs)),
    )
    return story, _windows(story, {run.run_id: run for run in runs}, {job.key: job for job in told})


def _runs(workflow: Workflow, folders: Iterable[Path]) -> Iterable[Run]:
    """Yield the runs of a workflow: those of its time, as a run's name begins with that of its start."""
    began = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(workflow.started_at - _EARLIER_S))
    for path in run_paths(folders):
        if path.name[:STAMP_LENGTH] < began or not (path / "engine").exists():
            continue
        try:
            run = read_run(path)
        except RunDirError:
            continue  # its own report says so
        if run.engine.get("workflow") == workflow.workflow:
            yield run


def _not_seen(told: Iterable[FailedJob], seen: Sequence[Attempt]) -> Iterable[FailedJob]:
    """
    Yield the failures that the engine told of and that no run tells.

    Of jobs that share one of the scheduler's it calls all failed: those that have no run are not, where another has.
    """
    attempts, keys = {(attempt.key, attempt.number) for attempt in seen}, {attempt.key for attempt in seen}
    shared = {attempt.external_job.removeprefix("Slurm ").partition(".")[0] for attempt in seen} - {""}
    for job in told:
        if (job.key, job.attempt) not in attempts and (job.key in keys or job.external_job not in shared):
            yield job


def _gated(workflow: Workflow, keys: Iterable[str]) -> frozenset[str]:
    """Return which jobs the shim did not run again: further failures that the engine tells of are none."""
    if not workflow.is_gated:
        return frozenset()
    gates = state_of(workflow.path) / "gates" / workflow.workflow
    return frozenset(key for key in keys if key and (gates / key).is_file())


def _passed(
    workflow: Workflow, folders: Iterable[Path], seen: Iterable[Attempt], told: Container[str]
) -> Mapping[str, float]:
    """Return when jobs passed, by their keys, where the engine did not say so of the single job."""
    if workflow.ended_at is not None and workflow.is_counted:
        # It tells of each job that failed.  (Not so a command that went well: its output may be missing.)
        return {attempt.key: workflow.ended_at for attempt in seen if attempt.key not in told}
    passed: dict[str, float] = {}
    for line in _successes(workflow, folders):
        key, at = str(line.get("key", "")), line.get("ended_at")
        if isinstance(at, (int, float)) and key not in told:
            passed[key] = max(passed.get(key, 0.0), float(at))
    return passed


def _successes(workflow: Workflow, folders: Iterable[Path]) -> Iterable[Mapping[str, object]]:
    own = state_of(workflow.path)
    for state in folders:
        yield from read_engine_history(state, workflow.workflow, workflow.history_end if state == own else (0, 0))


def _windows(story: Story, runs: Mapping[str, Run], told: Mapping[str, FailedJob]) -> list[Window]:
    """Read the log lines around the cause of the first failed job of each of the first causes."""
    windows: list[Window] = []
    firsts = {job.last.verdict.failure_class: job for job in reversed(story.failed)}
    for name, _ in story.causes[:_MOST_EXCERPTS]:
        last = firsts[name].last
        root = next((item for item in last.verdict.evidence if item.line), None)
        logs = readable_logs(runs[last.run_id]).files if last.run_id else tuple(log_files(told[last.key]))
        found, _ = read_windows(logs, root, 0)
        windows += [replace(window, title=f"{firsts[name].name}: {window.title}") for window in found[:1]]
    return windows
