"""Builds what the message about a workflow says: the same report as for a run, its jobs in place of inner runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from gpualert.cleaning import Cleaner, Window
from gpualert.display import duration, instant, size
from gpualert.model import Evidence, RunStatus
from gpualert.report import Point, Report
from gpualert.wording import WORDS, where
from gpualert.workflow_story import Attempt, JobStory, Story

_MOST_FAILED, _MOST_RECOVERED, _MOST_ADVICE, _MOST_CAUSES = 60, 20, 3, 6


@dataclass(frozen=True)
class WorkflowReport(Report):
    """
    Everything a message says about a workflow.

    Attributes:
        counts: The jobs in one line, such as `2 of 12 jobs failed (cuda_oom 2), 1 recovered`.
        failed, recovered: The jobs.
    """

    counts: str = ""
    failed: tuple[Point, ...] = ()
    recovered: tuple[Point, ...] = ()

    @property
    def subject(self) -> str:
        """All of it in one line."""
        return f"{self.outcome}: {self.whereabouts}, {self.counts}"

    @property
    def contents(self) -> tuple[tuple[str, tuple[Point, ...]], ...]:
        """The jobs, as pairs of title and points."""
        return (("Jobs that failed", self.failed), ("Jobs that passed after a failure", self.recovered))

    @property
    def facts_title(self) -> str:
        """What stands above the facts."""
        return "This workflow"


def status_of(story: Story) -> RunStatus:
    """Say how a workflow stands."""
    if story.running:
        return RunStatus.RUNNING
    if story.ended_at is None:
        return RunStatus.LOST
    return RunStatus.FAILED if story.failed or _is_short(story) else RunStatus.SUCCEEDED


def _is_short(story: Story) -> bool:
    """Say whether jobs were left undone: something else than a job stopped the workflow."""
    return story.done is not None and story.total is not None and story.done < story.total


def build_workflow_report(story: Story, windows: Sequence[Window] = ()) -> WorkflowReport:
    """
    Gather what the message about a workflow says.

    Args:
        windows: Log lines around the causes.
    """
    clean = Cleaner(0)
    status = status_of(story)
    first = story.failed[0].last if story.failed else None
    evidence = first.verdict.evidence[0] if first and first.verdict.evidence else None
    return WorkflowReport(
        run_id=story.workflow,
        status=status,
        failure_class=story.causes[0][0] if story.causes else "",
        word=WORDS[status],
        outcome=WORDS[status],
        whereabouts=clean.text(_whereabouts(story), 150),
        what=clean.text(_what(story, status)),
        why=clean.evidence(evidence) if evidence else clean.text(first.said if first else ""),
        line=clean.text(f"{where(evidence)}, in {story.failed[0].name}") if evidence else "",
        next_step=clean.text(_next_step(story), 2000),
        log=", ".join(clean.text(text) for text in _logs(first)) if first else "",
        not_read=clean.each(story.not_read),
        excerpts=tuple(clean.excerpt(window) for window in windows),
        facts=tuple((label, clean.text(value)) for label, value in _facts(story) if value),
        look=f"gpualert workflow {story.workflow}",
        counts=clean.text(counts(story)),
        failed=_points(clean, story.failed, _MOST_FAILED),
        recovered=_points(clean, story.recovered, _MOST_RECOVERED),
        redactions=clean.removed,
    )


def counts(story: Story) -> str:
    """Say in one line how the jobs went: `2 of 12 jobs failed (cuda_oom 2), 1 recovered`."""
    of_all = f" of {story.total:,}" if story.total is not None else ""
    named = ", ".join(f"{name} {count}" if count > 1 else name for name, count in story.causes[:_MOST_CAUSES])
    more = ", ..." if len(story.causes) > _MOST_CAUSES else ""
    jobs = "job" if len(story.failed) == 1 and not of_all else "jobs"
    parts = [f"{len(story.failed):,}{of_all} {jobs} failed ({named}{more})"] if story.failed else []
    if story.recovered:
        parts.append(f"{len(story.recovered):,} recovered")
    if not story.failed and story.done is not None:
        parts.insert(0, f"{story.done:,}{of_all} jobs done")
    return ", ".join(parts) or "no job failed"


def _whereabouts(story: Story) -> str:
    took = f" after {duration(story.ended_at - story.started_at)}" if story.ended_at is not None else ""
    return f"{PurePath(story.name).name or story.engine} on {story.host}{took}"


def _what(story: Story, status: RunStatus) -> str:
    said = counts(story)
    ending = {
        RunStatus.LOST: f" {story.engine.capitalize()} was killed before it could say how the workflow went.",
        RunStatus.RUNNING: " It has not ended.",
    }.get(status, "")
    if status is RunStatus.FAILED and _is_short(story):
        left = (story.total or 0) - (story.done or 0) - len(story.failed)
        ending = f" {left:,} {'was' if left == 1 else 'were'} never done." if left > 0 else ""
    return f"{said[0].upper()}{said[1:]}.{ending}"


def _next_step(story: Story) -> str:
    """Give the advice on each cause, the most frequent first."""
    advice = {job.last.verdict.failure_class: " ".join(job.last.verdict.advice.split()) for job in story.failed}
    found = [(name, advice[name]) for name, _ in story.causes[:_MOST_ADVICE] if advice[name]]
    if len(found) == 1:
        return found[0][1]
    return " ".join(f"{name}: {text}" for name, text in found)


def _points(clean: Cleaner, jobs: Sequence[JobStory], most: int) -> tuple[Point, ...]:
    points = [_point(clean, job) for job in jobs[:most]]
    if len(jobs) > most:
        points.append(Point("", f"and {len(jobs) - most:,} more"))
    return tuple(points)


def _point(clean: Cleaner, job: JobStory) -> Point:
    last = job.last
    evidence = last.verdict.evidence[0] if last.verdict.evidence else None
    place = [
        f"on {last.node}" if last.node else "",
        last.external_job,
        f"exit status {last.exit_status}" if last.exit_status is not None else "exit status not known",
        _tried(job),
    ]
    details = [*_logs(last, evidence), *_earlier(job)]
    return Point(
        label=clean.text(f"{last.verdict.failure_class}: {job.name}", 200),
        where=clean.text(", ".join(filter(None, place))),
        text=clean.evidence(evidence) if evidence else clean.text(last.said),
        details=clean.text("; ".join(details), 2000),
    )


def _tried(job: JobStory) -> str:
    if job.passed_at is not None:
        return f"passed at attempt {job.tries}"
    tried = f"{job.tries} attempts" if job.tries > 1 else "1 attempt"
    return f"{tried}, and not tried again: a person must mend it" if job.is_gated else tried


def _earlier(job: JobStory) -> Iterable[str]:
    """Tell of the attempts before the last failure, alike ones once."""
    before = [f"{one.verdict.failure_class}{f' on {one.node}' if one.node else ''}" for one in job.attempts[:-1]]
    return [f"before: {', '.join(dict.fromkeys(before))}"] if before else []


def _logs(attempt: Attempt, evidence: Evidence | None = None) -> list[str]:
    """Say where the logs are, how large, and on which line of which the evidence stands."""
    return [_log(path, n_bytes, evidence) for path, n_bytes in attempt.logs]


def _log(path: str, n_bytes: int | None, evidence: Evidence | None) -> str:
    shown = f"{path} ({'gone' if n_bytes is None else size(n_bytes)})"
    if evidence and evidence.line and evidence.file in (path, PurePath(path).name):
        return f"line {evidence.line} of {shown}"
    return shown


def _facts(story: Story) -> list[tuple[str, str]]:
    return [
        ("Workflow", story.name),
        ("Folder", story.cwd),
        ("Host", story.host),
        ("Started", instant(story.started_at)),
        ("Ended", instant(story.ended_at) if story.ended_at is not None else ""),
        ("Id", story.workflow),
    ]
