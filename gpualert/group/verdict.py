"""One verdict for runs that one launcher started together: all their logs are judged as one job's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gpualert.collect import duration_s
from gpualert.findings import Findings, find_out, judge, load
from gpualert.group.launcher import Membership, membership
from gpualert.jsonfiles import plain
from gpualert.model import SCHEMA, Evidence, Exit, Facts, LogFile, Role, Run, RunStatus, Verdict
from gpualert.settle import Logs, readable_logs
from gpualert.standing import Standing, standing
from gpualert.verdict_json import facts_from_json
from gpualert.wording import host_of

# What often follows from the failure of another rank: a rank that says something else is believed before.
_MAY_FOLLOW = frozenset(("interrupted", "unknown", "hang", "nccl", "rendezvous", "network"))
_MOST_LOGS, _MOST_RANKS, _MOST_NAMED = 64, 1 << 16, 10
_MOST_BYTES, _MOST_BYTES_WAITING = 8 << 30, 256 << 20
_STANDINGS = {
    Standing.RUNNING: "still running",
    Standing.LAUNCHING: "still running",
    Standing.ENDED: "ended",
    Standing.LOST: "no end was recorded",
    Standing.UNKNOWN: "no end was recorded",
    Standing.ABANDONED: "never started",
}


@dataclass(frozen=True)
class Member:
    """
    One of the runs of a group.

    Attributes:
        findings: What was found out about it alone; None where it has not reported.
        logs: What can be read of its logs, each by a name that tells the rank.
    """

    run: Run
    group: Membership
    standing: Standing
    findings: Findings | None
    logs: Logs

    @property
    def label(self) -> str:
        """What a person calls it."""
        return self.group.label or self.run.run_id

    @property
    def host(self) -> str:
        """Where it was, or ""."""
        return host_of(self.run)

    @property
    def progress(self) -> str:
        """How it stands, of one that has not reported."""
        if self.run.exit:
            return f"exit status {self.run.exit.status}, not judged yet"
        return _STANDINGS[self.standing]

    @property
    def verdict(self) -> Verdict | None:
        """The verdict on it alone."""
        return self.findings.verdict if self.findings else None

    @property
    def is_bad(self) -> bool:
        """Whether it did not end well, as far as that is known."""
        if self.verdict:
            return self.verdict.status is not RunStatus.SUCCEEDED
        return self.standing is Standing.ENDED and self.run.exit is not None and self.run.exit.status != 0

    @property
    def suspicion(self) -> tuple[bool, bool, bool, float]:
        """Sorts members."""
        return suspicion(self.verdict, self.run.exit, is_bad=self.is_bad)


def suspicion(verdict: Verdict | None, end: Exit | None, *, is_bad: bool) -> tuple[bool, bool, bool, float]:
    """Sorts runs of one job: those that failed of themselves first, then those that may have been drawn along."""
    follows = not verdict or verdict.role is not Role.ROOT or verdict.failure_class in _MAY_FOLLOW
    return not is_bad, follows, not end, end.ended_at if end else float("inf")


def member_of(run: Run, *, reported: bool = False) -> Member:
    """Look at one run of a group as it is now; of one that has reported there is a verdict in any case."""
    group = membership(run) or Membership("", "", None, None)
    found = readable_logs(run)
    prefix = f"{group.word}{group.rank}" if group.rank is not None else run.run_id
    named = tuple(replace(log, name=f"{prefix}/{log.path.name}") for log in found.files)
    state = standing(run)
    findings = load(run.path) if reported else None
    if reported and not findings:  # damaged, or removed by hand
        findings = find_out(run, state, found)
    return Member(run, group, state, findings, replace(found, files=named))


def judge_group(members: Sequence[Member], *, wait: bool = False, read_logs: bool = True) -> Findings:
    """
    Judge runs that were started together; at least one has reported.

    Args:
        wait: The job's end waits: read less.
        read_logs: False takes the verdict on the member that is most suspicious: for logs that no reader survives.
    """
    ordered = sorted(members, key=lambda member: member.suspicion)
    first = next(member for member in (ordered if any(m.is_bad for m in members) else members) if member.findings)
    assert first.findings  # just chosen so
    verdict = _own(first.findings.verdict, first)
    if first.is_bad and read_logs:
        logs, left_out = _to_read(ordered, _MOST_BYTES_WAITING if wait else _MOST_BYTES)
        together = judge(logs, _facts(first.findings, members))
        if together.status is RunStatus.FAILED:
            verdict = replace(together, status=_status(members), not_read=(*together.not_read, *left_out))
    if (silent := _silent_rank(members, verdict)) is not None:
        verdict = replace(verdict, first_rank=silent)
    origin = first_member(members, verdict)
    is_first = first.is_bad and not struck_together(members, verdict)
    verdict = replace(
        verdict,
        evidence=tuple(_placed(item, members, origin) for item in verdict.evidence),
        runners_up=tuple(
            replace(other, evidence=_placed(other.evidence, members, None)) for other in verdict.runners_up
        ),
        first_rank=_first_rank(verdict, origin) if is_first else None,
        first_node=origin.host if is_first else "",
        first_gpu=origin.verdict.first_gpu if is_first and origin.verdict else "",
        notes=tuple(dict.fromkeys((*verdict.notes, *first.findings.verdict.notes, *_missing(members)))),
    )
    return Findings(verdict, origin.findings.machine if origin.findings else (), _evidence(members, origin, first))


def _own(verdict: Verdict, member: Member) -> Verdict:
    """Return the verdict on one member with its logs called as they are among those of all."""
    names = {log.path.name: log.name for log in member.logs.files}
    return replace(
        verdict,
        evidence=tuple(replace(item, file=names.get(item.file, item.file)) for item in verdict.evidence),
        runners_up=(),  # what else was considered is about that one alone
    )


def _status(members: Iterable[Member]) -> RunStatus:
    """Return the worst that is certain: a failure, else a loss, else that nobody knows."""
    found = {member.verdict.status for member in members if member.verdict}
    return next(status for status in (RunStatus.FAILED, RunStatus.LOST, RunStatus.UNKNOWN) if status in found)


def _facts(first: Findings, members: Iterable[Member]) -> Facts:
    """Return the facts about the first member, with what the kernels and the scheduler say of all."""
    return with_evidence_of(_facts_of(first), [_facts_of(member.findings) for member in members if member.findings])


def with_evidence_of(first: Facts, others: Iterable[Facts]) -> Facts:
    """Return facts with what is said in others too, each once."""
    told = [*first.evidence, *(item for facts in others for item in facts.evidence)]
    return replace(first, evidence=tuple({(item.source, item.text, item.host): item for item in told}.values()))


def _facts_of(findings: Findings) -> Facts:
    try:
        return facts_from_json(findings.evidence["facts"])
    except (KeyError, ValueError, TypeError, AttributeError):
        return Facts()


def _to_read(members: Sequence[Member], limit_bytes: int) -> tuple[list[LogFile], list[str]]:
    """Return the logs to judge, the most suspicious first, each file once; and what is said of those left out."""
    chosen: dict[object, LogFile] = {}
    left_out: list[str] = []
    used = 0
    for member in members:
        size = sum((log.end or 0) - log.start for log in member.logs.files)
        if len(chosen) >= _MOST_LOGS or (chosen and used + size > limit_bytes):
            left_out.append(member.label)
            continue
        used += size
        for log in member.logs.files:
            same = chosen.get(log.path)
            chosen[log.path] = _joined(same, log) if same else log
    said = f"the logs of {len(left_out)} more, {left_out[0]} among them: too much to read" if left_out else ""
    return list(chosen.values()), [said] if said else []


def _joined(one: LogFile, other: LogFile) -> LogFile:
    """Return a file that two members wrote to as one log of nobody in particular."""
    end = None if one.end is None or other.end is None else max(one.end, other.end)
    return LogFile(one.path.name, one.path, min(one.start, other.start), end)


def struck_together(members: Iterable[Member], verdict: Verdict) -> bool:
    """Say whether what ended the group came to several from outside: a time limit, scancel, not one rank's failure."""
    if any(item.file for item in verdict.evidence[:1]):
        return False
    alike = [
        one for one in members if one.is_bad and one.verdict and one.verdict.failure_class == verdict.failure_class
    ]
    return len(alike) > 1


def first_member(members: Sequence[Member], verdict: Verdict) -> Member:
    """Return the member that the failure began with: the missing rank, the one with the root line, the suspicious."""
    if verdict.status is RunStatus.SUCCEEDED:
        return members[0]
    ordered = sorted(members, key=lambda member: member.suspicion)
    rank, file = verdict.first_rank, verdict.evidence[0].file if verdict.evidence else ""
    owners = [member for member in ordered if file in {log.name for log in member.logs.files}]
    named = [member for member in ordered if member.group.word == "rank" and member.group.rank == rank is not None]
    return next(iter((*named, *owners, *ordered)))


def _silent_rank(members: Sequence[Member], verdict: Verdict) -> int | None:
    """Return the only rank that did not complain of a collective, where all others did: they waited for it."""
    if verdict.failure_class != "nccl" or verdict.role is not Role.CASCADE or members[0].group.word != "rank":
        return None
    quiet = [m.group.rank for m in members if not m.verdict or m.verdict.failure_class != "nccl"]
    quiet += absent_ranks(members)
    return quiet[0] if len(quiet) == 1 and len(members) > 2 else None


def _first_rank(verdict: Verdict, origin: Member) -> int | None:
    if verdict.first_rank is None and origin.group.word == "rank":
        return origin.group.rank
    return verdict.first_rank


def _placed(item: Evidence, members: Iterable[Member], origin: Member | None) -> Evidence:
    """Add to evidence which rank wrote it, and where."""
    owner = next((member for member in members if item.file in {log.name for log in member.logs.files}), origin)
    if owner is None:
        return item
    rank = owner.group.rank if item.rank is None and owner.group.word == "rank" and item.file else item.rank
    return replace(item, rank=rank, host=item.host or owner.host)


def _missing(members: Sequence[Member]) -> list[str]:
    """Say who has not reported, a sentence for each reason."""
    silent: dict[str, list[str]] = {}
    for member in members:
        if not member.findings:
            silent.setdefault(member.progress, []).append(member.label + (f" on {member.host}" if member.host else ""))
    if absent := absent_ranks(members):
        reason = "never started, as far as this state folder tells"
        silent[reason] = [f"{members[0].group.word} {rank}" for rank in absent]
    return [f"{reason}: {_listed(labels)}" for reason, labels in silent.items()]


def _listed(labels: Sequence[str]) -> str:
    rest = len(labels) - _MOST_NAMED
    return ", ".join(labels[:_MOST_NAMED]) + (f" and {rest} more" if rest > 0 else "")


def absent_ranks(members: Sequence[Member]) -> list[int]:
    """Return the ranks of which there is no record at all."""
    size = min(max((member.group.size or 0 for member in members), default=0), _MOST_RANKS)
    present = {member.group.rank for member in members}
    return [] if None in present else [rank for rank in range(size) if rank not in present]


def _evidence(members: Sequence[Member], origin: Member, first: Member) -> Mapping[str, Any]:
    """Return what `evidence.json` of a group holds."""
    found = first.findings.evidence if first.findings else {}
    return {
        "schema": SCHEMA,
        "facts": plain(found.get("facts")),
        "slurm": plain(found.get("slurm")),
        "machine": plain(origin.findings.machine if origin.findings else ()),
        "ranks": [
            {"run_id": member.run.path.name, "rank": member.group.rank, "host": member.host, **_ended(member)}
            for member in members
        ],
    }


def _ended(member: Member) -> dict[str, Any]:
    return {
        "status": member.verdict.status.value if member.verdict else member.standing.value,
        "class": member.verdict.failure_class if member.verdict else "",
        "duration_s": duration_s(member.run),
    }
