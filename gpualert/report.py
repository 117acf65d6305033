"""Builds what a message says about one run; whatever is shown passes one cleaner on its way in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo

from gpualert.cleaning import Cleaner, Excerpt, Window
from gpualert.display import duration, instant, size
from gpualert.model import Artifact, Evidence, RetryDecision, Run, RunStatus, Verdict
from gpualert.wording import (
    WORDS,
    chain_end,
    command_name,
    first_failure,
    host_of,
    job_of,
    log_places,
    next_step,
    outcome,
    run_name,
    what_happened,
    where,
    whereabouts,
)

_MOST_EVIDENCE, _MOST_RUNNERS_UP, _MOST_INNER, _MOST_RANKS = 6, 4, 20, 40
_WITHHELD = "(withheld: --no-log)"


@dataclass(frozen=True)
class Point:
    """Something found, ready to show: what it is, where it stands, what it says, what else is known of it."""

    label: str
    where: str = ""
    text: str = ""
    details: str = ""


@dataclass(frozen=True)
class Rank:
    """
    One of the runs that one launcher started together.

    Attributes:
        label: What it is called, such as `rank 5`.
        node: Where it was, or "".
        outcome: How it ended, such as `FAILED cuda_oom`, or what is known instead.
        took_s: How long it took, or None.
        log: Where its log or its run directory lies, or "".
        first: What the failure began with, such as `rank 5`, where it began here; else "".
        succeeded: Whether it ended well.
        reported: Whether anything was heard of its end.
    """

    label: str
    node: str
    outcome: str
    took_s: float | None
    log: str
    first: str = ""
    succeeded: bool = False
    reported: bool = True


@dataclass(frozen=True)
class Report:
    """
    Everything a message says; every text is redacted, one line and safe to show.

    Attributes:
        word: The outcome in one word, such as `FAILED`.
        outcome: The outcome and its class, such as `FAILED cuda_oom`.
        whereabouts: Which run, where, and how long: `train.py on node03 after 3h 12m`.
        what, why, line, next_step, log: The first five answers; "" where there is none.
        evidence: What the verdict rests on.
        runners_up: Other explanations that were considered.
        notes, not_read: Remarks on the verdict; what could not be looked at.
        excerpts: Log lines around the cause, and the end of the log.
        inner: Runs inside this one that failed.
        ranks: Of runs that were started together: a row each of rank, node, outcome, duration and log.
        ranks_left_out: What is said of the rows that would be too many, or "".
        attached, left_out: The files that go along, and those that do not, each with size and reason.
        facts, machine: The run, and the machine it was on, as pairs of label and value.
        redactions: In how many places a secret was removed, attachments included.
        chain: What each attempt of its chain of retries came to.
        chain_end: How that chain ended, in a few words; "" where it did not, or there is none.
        log_withheld: The user asked with `--no-log` that nothing of the log leaves.
        look: The command that shows it again; "" for `gpualert show RUN`.
    """

    run_id: str
    status: RunStatus
    failure_class: str
    word: str
    outcome: str
    whereabouts: str
    what: str
    why: str
    line: str
    next_step: str
    log: str
    evidence: tuple[Point, ...] = ()
    runners_up: tuple[Point, ...] = ()
    notes: tuple[str, ...] = ()
    not_read: tuple[str, ...] = ()
    excerpts: tuple[Excerpt, ...] = ()
    inner: tuple[Point, ...] = ()
    ranks: tuple[tuple[str, ...], ...] = ()
    ranks_left_out: str = ""
    attached: tuple[Point, ...] = ()
    left_out: tuple[Point, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    machine: tuple[tuple[str, str], ...] = ()
    redactions: int = 0
    chain: tuple[Point, ...] = ()
    chain_end: str = ""
    log_withheld: bool = False
    look: str = ""

    @property
    def subject(self) -> str:
        """All of it in one line."""
        inside = f", {len(self.inner)} inside it failed" if self.inner else ""
        chain = f", {self.chain_end}" if self.chain_end else ""
        return f"{self.outcome}: {self.whereabouts}{inside}{chain}"

    @property
    def answers(self) -> tuple[tuple[str, str], ...]:
        """The first lines, as pairs of label and text; a text may be empty."""
        return (
            ("What", self.what),
            ("Why", self.why),
            ("Line", self.line),
            ("Next", self.next_step),
            ("Log", self.log),
        )

    @property
    def grounds(self) -> tuple[tuple[str, tuple[Point, ...]], ...]:
        """What the verdict rests on, as pairs of title and points; points may be empty."""
        first = [replace(point, text="") for point in self.evidence[:1] if point.details]  # "why" has its text
        return (
            ("Evidence", (*first, *self.evidence[1:])),
            ("Also considered", self.runners_up),
            ("Notes", tuple(Point("", note) for note in self.notes)),
            ("Could not be read", tuple(Point("", sentence) for sentence in self.not_read)),
        )

    @property
    def contents(self) -> tuple[tuple[str, tuple[Point, ...]], ...]:
        """Inner runs and files, as pairs of title and points; points may be empty."""
        return (
            ("The attempts of this chain", self.chain),
            ("Runs inside this one that failed", self.inner),
            ("Attached", self.attached),
            ("Not attached", self.left_out),
        )

    @property
    def facts_title(self) -> str:
        """What stands above the facts."""
        return "This run"

    @property
    def closing(self) -> tuple[str, ...]:
        """The last sentences."""
        places = f"in {self.redactions} places" if self.redactions != 1 else "in one place"
        removed = f"Secrets were removed {places}; the files on disk are unchanged."
        withheld = "Nothing of the log was sent, as --no-log asked."
        look = f"Look closer: {self.look or f'gpualert show {self.run_id}'}"
        return (*([removed] if self.redactions else []), *([withheld] if self.log_withheld else []), look)


def build_report(
    run: Run,
    verdict: Verdict,
    *,
    windows: Sequence[Window] = (),
    artifacts: Sequence[Artifact] = (),
    inner: Sequence[tuple[Run, Verdict]] = (),
    ranks: Sequence[Rank] = (),
    group: str = "",
    machine: Sequence[tuple[str, str]] = (),
    decision: RetryDecision | None = None,
    redactions: int = 0,
    zone: tzinfo | None = None,
) -> Report:
    """
    Gather what the message about `run` says.

    Args:
        run: The run.
        verdict: What ended it.
        windows: Log lines to show; none is shown after `--no-log`.
        artifacts: The files the message speaks of.
        inner: Runs inside this one that failed.
        ranks: Those that `run` stands for, where it stands for several.
        group: Which runs were started together with it; "" where it stands alone.
        machine: Host and GPUs, as pairs of label and value.
        decision: Whether it is tried again, where that was decided.
        redactions: How many secrets were removed from the artifacts.
        zone: The local time zone; None asks the system.
    """
    clean = Cleaner(redactions)
    withheld = not run.options.log
    if withheld:
        artifacts = [replace(item, attached=False, content=b"", reason="not sent: --no-log") for item in artifacts]
    points = [] if withheld else [_point(clean, item) for item in verdict.evidence[:_MOST_EVIDENCE]]
    root = verdict.evidence[0] if verdict.evidence else None
    shown = _most_telling(ranks)
    return Report(
        run_id=run.path.name if ranks else run.run_id,
        status=verdict.status,
        failure_class=verdict.failure_class,
        word=WORDS[verdict.status],
        outcome=clean.text(outcome(verdict)),
        whereabouts=_whereabouts_of_ranks(clean, run, ranks) if ranks else _whereabouts(clean, run),
        what=clean.text(what_happened(run, verdict, first_of(ranks))),
        why=_WITHHELD if withheld and root else points[0].text if points else "",
        line=clean.text(where(root)) if withheld and root else points[0].where if points else "",
        next_step=clean.text(next_step(verdict, decision), 2000),
        log=clean.text(log_places(run, artifacts), 1000),
        evidence=tuple(points),
        runners_up=() if withheld else tuple(_runner_up(clean, verdict)),
        notes=() if withheld else clean.each(verdict.notes),
        not_read=clean.each(verdict.not_read),
        excerpts=() if withheld else tuple(clean.excerpt(window) for window in windows),
        inner=tuple(_inner(clean, *pair, withheld) for pair in inner[:_MOST_INNER]),
        ranks=tuple(_rank_row(clean, rank) for rank in shown),
        ranks_left_out=_left_out(ranks, shown),
        attached=tuple(_file(clean, artifact) for artifact in artifacts if artifact.attached),
        left_out=tuple(_file(clean, artifact) for artifact in artifacts if not artifact.attached),
        facts=tuple(_facts(clean, run, verdict, group, zone)),
        machine=tuple((clean.text(label, 40), clean.text(value)) for label, value in machine),
        chain=tuple(_attempts(clean, decision)),
        chain_end=chain_end(decision),
        redactions=clean.removed,
        log_withheld=withheld,
    )


def _whereabouts(clean: Cleaner, run: Run) -> str:
    # The name is cleaned before it is cut: half a secret would no longer be recognised.
    return clean.text(whereabouts(run, clean.text(run_name(run), 60)), 150)


def first_of(ranks: Sequence[Rank]) -> str:
    """Return what the failure of several ranks began with, such as `rank 5`; "" where that is not known."""
    return next((rank.first for rank in ranks if rank.first), "")


def _whereabouts_of_ranks(clean: Cleaner, run: Run, ranks: Sequence[Rank]) -> str:
    """Say where several ranks were and which failed first: `train.py on 8 nodes after 3h 12m (rank 5 on n6 first)`."""
    nodes = {rank.node for rank in ranks if rank.node}
    place = f"{len(nodes)} nodes" if len(nodes) != 1 else next(iter(nodes))
    origin = next((rank for rank in ranks if rank.first), None)
    silent = sum(not rank.reported for rank in ranks)
    remark = f" ({silent} of {len(ranks)} did not report)" if silent else ""
    if origin:
        remark = f" ({origin.first}{f' on {origin.node}' if len(nodes) > 1 else ''} first)"
    return clean.text(f"{whereabouts(run, clean.text(run_name(run), 60), place)}{remark}", 180)


def _most_telling(ranks: Sequence[Rank]) -> Sequence[Rank]:
    """Return the ranks that are listed: all, or of very many the first to fail, then others that did not end well."""
    if len(ranks) <= _MOST_RANKS:
        return ranks
    chosen = sorted(range(len(ranks)), key=lambda at: (not ranks[at].first, ranks[at].succeeded))[:_MOST_RANKS]
    return [ranks[at] for at in sorted(chosen)]


def _left_out(ranks: Sequence[Rank], shown: Sequence[Rank]) -> str:
    rest = len(ranks) - len(shown)
    well = sum(rank.succeeded for rank in ranks) - sum(rank.succeeded for rank in shown)
    return f"and {rest} more, of which {well} ended well" if rest else ""


def _rank_row(clean: Cleaner, rank: Rank) -> tuple[str, ...]:
    took = "" if rank.took_s is None else duration(rank.took_s)
    mark = f"{rank.label}, first" if rank.first else rank.label
    return (clean.text(mark, 40), clean.text(rank.node, 60), clean.text(rank.outcome, 80), took, clean.text(rank.log))


def _point(clean: Cleaner, item: Evidence, label: str = "") -> Point:
    place = where(item) + (f"; {item.frame}" if item.frame else "")
    details = ", ".join(f"{key}={value}" for key, value in item.parameters.items())
    return Point(label, clean.text(place), clean.evidence(item), clean.text(details))


def _runner_up(clean: Cleaner, verdict: Verdict) -> Iterable[Point]:
    return (_point(clean, other.evidence, other.failure_class) for other in verdict.runners_up[:_MOST_RUNNERS_UP])


def _inner(clean: Cleaner, run: Run, verdict: Verdict, withheld: bool) -> Point:
    silent = withheld or not run.options.log or not verdict.evidence
    text = "" if silent else clean.evidence(verdict.evidence[0])
    return Point(f"{clean.text(outcome(verdict))}: {_whereabouts(clean, run)}", clean.text(str(run.path)), text)


def _file(clean: Cleaner, artifact: Artifact) -> Point:
    remarks = [size(artifact.size_bytes), artifact.reason]
    return Point(clean.text(artifact.name), clean.text(", ".join(filter(None, remarks))))


def _attempts(clean: Cleaner, decision: RetryDecision | None) -> Iterable[Point]:
    """List what the attempts of a chain came to; nothing where this one is the only one."""
    lines = decision.history if decision and len(decision.history) > 1 else ()
    return (Point("", clean.text(line)) for line in lines)


def _facts(clean: Cleaner, run: Run, verdict: Verdict, group: str, zone: tzinfo | None) -> Iterable[tuple[str, str]]:
    """List what identifies the run; a label without a value is left out."""
    start, ended = run.start, run.exit
    found = [
        ("Command", clean.command(run.argv) if run.options.log else clean.text(command_name(run.argv))),
        ("Name", clean.text(run.name)),
        ("Rule", clean.text(" ".join(filter(None, (run.engine.get("rule"), run.engine.get("wildcards")))))),
        ("Rule's log", clean.text(run.engine.get("log", ""))),
        ("Folder", clean.text(run.cwd)),
        ("Host", clean.text(host_of(run))),
        ("Failed", clean.text(first_failure(run, verdict))),
        ("Job", clean.text(job_of(run))),
        ("Group", clean.text(group)),
        ("Attempt", clean.text(f"{start.attempt} of chain {start.chain}" if start and start.chain else "")),
        ("Started", instant(start.started_at, zone) if start else ""),
        ("Ended", instant(ended.ended_at, zone) if ended else ""),
        ("Run", clean.text(run.run_id)),
        ("Files", clean.text(str(run.path))),
    ]
    return ((label, value) for label, value in found if value)
