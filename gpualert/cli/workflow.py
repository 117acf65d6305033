"""`gpualert workflow`: how the jobs of a workflow went, and the one message about them."""

from __future__ import annotations

import sys
import time
from typing import Any

import click

from gpualert.cli.common import folders, print_json, say
from gpualert.config import load_settings_or_defaults, state_folder
from gpualert.workflow_folder import begin, find_workflow, has_ended, workflows
from gpualert.workflow_story import Attempt, JobStory, Story

# The first job is a little older than we are, and the last is judged when the engine has gone.
_BEGAN_S, _LAST_WORDS_S, _POLL_S = 5.0, 1.0, 0.5


@click.command(name="workflow")
@click.option("--json", "as_json", is_flag=True, help="Print all that is known as JSON.")
@click.option("--send", is_flag=True, help="Send the summary, once; engines and `gpualert tick` ask for that.")
@click.option("--follow", type=click.IntRange(0), hidden=True, help="Send it once this process has ended.")
@click.option("--engine", default="snakemake", hidden=True, help="With --follow: which engine that process is.")
@click.argument("workflow", default="last")
def workflow(workflow: str, as_json: bool, send: bool, follow: int | None, engine: str) -> None:
    """Show how the jobs of WORKFLOW (its id, the beginning of it, or `last`) went."""
    from gpualert import workflow_summary as summary

    if follow is not None:
        _follow(workflow, follow, engine)
        return
    known = folders()
    folder = find_workflow(workflow, known)
    if send:
        _send(workflow)
        return
    story, windows = summary.gather(folder, known)
    if as_json:
        print_json(story_json(story))
        return
    from gpualert.render import text
    from gpualert.workflow_report import build_workflow_report

    say(text(build_workflow_report(story, windows)).rstrip("\n"))


def _follow(name: str, pid: int, engine: str) -> None:
    """
    Wait for the end of a workflow that nobody else follows, and send its summary.

    A tick does so where its process is on another machine, or ours is killed with a job.
    """
    began_at = time.time() - _BEGAN_S
    begin(state_folder(), name, engine=engine, name="", started_at=began_at, pid=pid, is_counted=False)
    (folder,) = [found for found in workflows(folders()) if found.path.name == name]
    while pid and not has_ended(folder.read()):
        time.sleep(_POLL_S)
    if pid:
        time.sleep(_LAST_WORDS_S)
        _send(name)


def _send(word: str) -> None:
    """Send the summary, and say in two lines what it says."""
    from gpualert.workflow_report import counts
    from gpualert.workflow_summary import tell_workflow

    settings, trouble = load_settings_or_defaults()
    if trouble:
        raise trouble
    known = folders()
    story, troubles = tell_workflow(find_workflow(word, known), known, settings)
    if story.jobs:
        say(f"gpualert: {counts(story)}; more: gpualert workflow {story.workflow}")
    for sentence in troubles:
        print(f"gpualert: {sentence}", file=sys.stderr)


def story_json(story: Story) -> dict[str, Any]:
    """Return what is known of a workflow as JSON has it."""
    from gpualert.workflow_report import status_of

    return {
        "schema": 1,
        "workflow": story.workflow,
        "engine": story.engine,
        "name": story.name,
        "status": status_of(story).value,
        "started_at": story.started_at,
        "ended_at": story.ended_at,
        "done": story.done,
        "total": story.total,
        "jobs": [_job_json(job) for job in story.jobs],
        "not_read": list(story.not_read),
    }


def _job_json(job: JobStory) -> dict[str, Any]:
    return {
        "rule": job.last.rule,
        "wildcards": job.last.wildcards,
        "outcome": "failed" if job.passed_at is None else "recovered",
        "tries": job.tries,
        "attempts": [_attempt_json(attempt) for attempt in job.attempts],
    }


def _attempt_json(attempt: Attempt) -> dict[str, Any]:
    evidence = attempt.verdict.evidence[0] if attempt.verdict.evidence else None
    return {
        "attempt": attempt.number,
        "ended_at": attempt.ended_at,
        "exit_status": attempt.exit_status,
        "class": attempt.verdict.failure_class,
        "confidence": attempt.verdict.confidence.value,
        "action": attempt.verdict.action.value,
        "evidence": evidence.text if evidence else attempt.said,
        "file": evidence.file if evidence else "",
        "line": evidence.line if evidence else 0,
        "node": attempt.node,
        "external_job": attempt.external_job,
        "run_id": attempt.run_id,
        "logs": [{"path": path, "size_bytes": n_bytes} for path, n_bytes in attempt.logs],
    }
