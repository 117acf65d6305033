"""Builds a page about logs that belong to no run, such as those of a workflow's rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpualert.cleaning import Cleaner, Window
from gpualert.display import size
from gpualert.model import Evidence, LogFile, RunStatus, Verdict
from gpualert.report import Point, Report
from gpualert.wording import WORDS, next_step, outcome, where

_MOST_EVIDENCE = 6


@dataclass(frozen=True)
class LogReport(Report):
    """What is said about logs."""

    @property
    def facts_title(self) -> str:
        """What stands above the facts."""
        return "The logs"

    @property
    def closing(self) -> tuple[str, ...]:
        """The last sentences: there is no run to look closer at."""
        return super().closing[:-1]


def build_log_report(logs: Sequence[LogFile], verdict: Verdict, windows: Sequence[Window] = ()) -> LogReport:
    """
    Gather what is said about logs.

    Args:
        windows: The lines around the cause.
    """
    clean = Cleaner(0)
    points = [_point(clean, item) for item in verdict.evidence[:_MOST_EVIDENCE]]
    failed = verdict.status is not RunStatus.SUCCEEDED
    sure = f" ({verdict.failure_class}, {verdict.confidence.value} confidence)" if failed else ""
    return LogReport(
        run_id="",
        status=verdict.status,
        failure_class=verdict.failure_class,
        word=WORDS[verdict.status],
        outcome=clean.text(outcome(verdict)),
        whereabouts=clean.text(", ".join(log.name for log in logs), 150),
        what=clean.text(f"{verdict.title.rstrip('.')}{sure}."),
        why=points[0].text if points else "",
        line=points[0].where if points else "",
        next_step=clean.text(next_step(verdict, None), 2000) if failed else "",
        log="",
        evidence=tuple(points),
        notes=clean.each(verdict.notes),
        not_read=clean.each(verdict.not_read),
        excerpts=tuple(clean.excerpt(window) for window in windows),
        facts=tuple(("Log", clean.text(f"{log.name} ({size((log.end or 0) - log.start)})")) for log in logs),
        redactions=clean.removed,
    )


def _point(clean: Cleaner, item: Evidence) -> Point:
    return Point("", clean.text(where(item)), clean.evidence(item), clean.text(item.frame))
