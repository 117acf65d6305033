"""What is said of runs that one launcher started together: a run that stands for all, logs to show, a row a rank."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gpualert.collect import duration_s
from gpualert.findings import Findings, load
from gpualert.group import group_of, joined, leader_id, unreported
from gpualert.group.launcher import membership
from gpualert.group.verdict import Member, absent_ranks, first_member, judge_group, member_of, struck_together
from gpualert.model import Exit, Run, RunStatus, Start, Verdict
from gpualert.report import Rank
from gpualert.settle import Logs
from gpualert.wording import outcome

_MOST_LOGS = 6  # shown and attached; the paths of all are in the table


@dataclass(frozen=True)
class Joint:
    """
    What the message about a group is made of.

    Attributes:
        run: Stands for all: the command, from the first start to the last end, ended as the first that failed did.
        logs: Those that are shown and attached.
        ranks: One row a member, those that never started too.
    """

    run: Run
    logs: Logs
    ranks: tuple[Rank, ...]


def joint(folder: Path, members: Sequence[Member], verdict: Verdict) -> Joint:
    """Gather what the message about a group is made of; `members` are those that began, by rank."""
    origin = first_member(members, verdict)
    return Joint(
        run=stand_in(folder, members, origin),
        logs=_shown_logs(members, origin, verdict),
        ranks=(*_rows(members, origin, verdict), *_absent_rows(members)),
    )


def look_at(folder: Path) -> tuple[Joint, Findings]:
    """Return what is said of a group, and the findings on it, stored or made now."""
    members = members_of(folder)
    findings = load(folder) or judge_group(members)
    return joint(folder, members, findings.verdict), findings


def failed_together(run: Run) -> tuple[Joint, Findings] | None:
    """Return what is said of the group that a run has reported to, where that failed; None otherwise."""
    folder = group_of(run)
    stored = load(folder) if folder else None
    if not folder or not stored or stored.verdict.status is RunStatus.SUCCEEDED:
        return None
    return look_at(folder)


def members_of(folder: Path) -> list[Member]:
    """Return the members of a group that began, by rank, as they are now."""
    reported = joined(folder)
    sizes = {found.size for run in reported if (found := membership(run))}
    others = [] if sizes == {len(reported)} else unreported(folder, reported)
    members = [*(member_of(run, reported=True) for run in reported), *map(member_of, others)]
    return sorted(members, key=lambda one: (one.group.rank is None, one.group.rank or 0, one.run.path.name))


def stand_in(folder: Path, members: Sequence[Member], origin: Member) -> Run:
    """Return a run that stands for all members; its id, and so the message's, never changes."""
    of = members[0].run
    return Run(
        path=folder,
        run_id=leader_id(folder),
        argv=of.argv,
        cwd=of.cwd,
        name=of.name,
        options=of.options,
        streams=origin.run.streams,
        start=_first_start([member.run.start for member in members]),
        exit=_last_exit(origin.run.exit, [member.run.exit for member in members]),
        engine=of.engine,
    )


def _first_start(starts: Iterable[Start | None]) -> Start | None:
    known = [start for start in starts if start]
    # It was on many nodes, and its ranks' cgroups and processes are their own.
    return replace(known[0], started_at=min(start.started_at for start in known), host="", node="") if known else None


def _last_exit(of_first: Exit | None, exits: Iterable[Exit | None]) -> Exit | None:
    return of_first and replace(of_first, ended_at=max(ended.ended_at for ended in exits if ended))


def _shown_logs(members: Sequence[Member], origin: Member, verdict: Verdict) -> Logs:
    """Return the logs of the first member and those of others that speak in the verdict."""
    files = {item.file for item in (*verdict.evidence, *(other.evidence for other in verdict.runners_up))}
    speaking = [log for member in members for log in member.logs.files if log.name in files]
    shown = {log.path: log for log in (*origin.logs.files, *speaking)}
    return Logs(tuple(shown.values())[:_MOST_LOGS], origin.logs.not_read)


def _rows(members: Sequence[Member], origin: Member, verdict: Verdict) -> list[Rank]:
    is_first = verdict.status is not RunStatus.SUCCEEDED and not struck_together(members, verdict)
    first = origin.label if verdict.first_rank is None else f"rank {verdict.first_rank}"
    return [_row(member, first if is_first and member is origin else "") for member in members]


def _row(member: Member, first: str) -> Rank:
    return Rank(
        label=member.label,
        node=member.host,
        outcome=outcome(member.verdict) if member.verdict else member.progress,
        took_s=duration_s(member.run),
        log=_place(member.run),
        first=first,
        succeeded=member.verdict is not None and not member.is_bad,
        reported=member.verdict is not None,
    )


def _place(run: Run) -> str:
    """Return the run directory, or where else the log lies."""
    elsewhere = (stream.path for stream in run.streams if stream.path and run.path not in stream.path.parents)
    return str(next(elsewhere, run.path))


def _absent_rows(members: Sequence[Member]) -> list[Rank]:
    word = members[0].group.word
    return [Rank(f"{word} {rank}", "", "never started", None, "", reported=False) for rank in absent_ranks(members)]
