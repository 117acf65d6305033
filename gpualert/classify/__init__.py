"""Why a run ended: its logs and what is known beside them, judged by the rules."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import PurePath

from gpualert import xid
from gpualert.classify import votes
from gpualert.classify.collectives import missing_rank, stalled_rank
from gpualert.classify.events import Event, Strength, read_events, signal_events
from gpualert.classify.judge import Judgement, Tier, is_lost_peer, judge, settle
from gpualert.classify.lines import read_line
from gpualert.classify.parameters import masked
from gpualert.classify.progress import Life, ordinary_lines_after, read_life
from gpualert.classify.ranks import rank_of
from gpualert.model import Action, Confidence, Evidence, Facts, LogFile, Role, RunnerUp, RunStatus, Verdict
from gpualert.ruleset import Rule, RuleSet
from gpualert.scan import Log, open_log

_LOOK_BACK_LINES = 200
# What may stand at the end of a run that went well.
_NO_FAILURE_AT_ZERO = frozenset(("interrupted", "hang", "unknown", "network", "rendezvous", "nccl"))
_TROUBLE = re.compile(
    r"(?i)\b(?:errors?|fail(?:ed|ure)|fatal|abort(?:ed)?|kill(?:ed)?|terminated|exit(?:ed|ing)?|crash(?:ed)?)\b"
)
# The loss that is minimised, not a metric; a loss of 0.0 beside it is how half precision shows the same.
_SPOILED = re.compile(
    r"(?i)(?<!val )(?<!eval )(?<!valid )(?<!validation )(?<!test )\b(?:train(?:ing)?[_ ])?loss\W{1,5}-?(?:nan|inf|0(?:\.0+)?\b.{0,60}\bgrad_?norm\W{1,5}nan)\b"  # noqa: E501
)
_FEWEST_SPOILED = 3
_TOOL = re.compile(r"\s*(?:cp|mv|rm|ls|cat|tail|head|rsync|scp|tar|gzip|mkdir|chmod|ln): ")
_KILLED = re.compile(r"\bKilled\b|SIGKILL|-9\b|signal 9\b|\b137\b")
_FOOTER_LINES = 3
_WENT_ON_LINES = 8
_RANK_IN_NAME = re.compile(r"(?:rank|task|proc|worker)[_.-]?(\d{1,6})|(?:^|[/._-])(\d{1,6})\.(?:log|out|err|txt)$")


@dataclass(frozen=True)
class Reading:
    """What was found in the logs, before it is judged."""

    logs: tuple[Log, ...]
    events: tuple[Event, ...]
    lives: dict[int, Life]
    not_read: tuple[str, ...]


def classify(logs: Sequence[LogFile], facts: Facts, rules: RuleSet) -> Verdict:
    """
    Judge why a run ended.

    Several logs are read together, as of one job: one a rank, or one a stream.  Never raises on what a log
    holds; what could not be read is in `not_read` of the verdict.
    """
    with ExitStack() as stack:
        opened, not_read = _open(logs, stack)
        return classify_opened(opened, facts, rules, not_read)


def classify_opened(logs: Sequence[Log], facts: Facts, rules: RuleSet, not_read: Sequence[str] = ()) -> Verdict:
    """Judge logs that are already open; see `classify`."""
    reading = read(logs, facts, rules, not_read)
    verdict = _verdict(reading, judge(reading.events, facts.status), facts, rules)
    on_xids = xid.notes((event.text, event.line.time_s) for event in reading.events)
    return replace(verdict, notes=(*verdict.notes, *on_xids))


def read(logs: Sequence[Log], facts: Facts, rules: RuleSet, not_read: Sequence[str] = ()) -> Reading:
    """Return every event of the logs and signals, those that the run survived marked as such."""
    events: list[Event] = list(signal_events(facts.evidence, rules))
    lives: dict[int, Life] = {}
    troubles = [*facts.not_read, *not_read]
    for number, log in enumerate(logs):
        try:
            found, _ = read_events(log, number, rules)
        except (OSError, ValueError, RecursionError, MemoryError) as error:
            troubles.append(f"{log.name}: {error}")
            continue
        events.extend(_ranked(found, log.name) if len(logs) > 1 else found)
        lives[number] = read_life(log, min((e.offset for e in found if e.failure_class != "success"), default=log.end))
    return Reading(tuple(logs), _outlived(settle(events, lives), logs), lives, tuple(troubles))


def _outlived(events: Sequence[Event], logs: Sequence[Log]) -> tuple[Event, ...]:
    """Mark mere messages as survived where their writer went on, to end by an exception of another class."""
    ends: dict[int, Event] = {}
    for event in events:
        if event.strength is Strength.RAISED and event.is_root and not (event.pattern.generic or event.settled):
            ends.setdefault(event.log, event)

    def is_message(event: Event) -> bool:
        end = ends.get(event.log)
        said = event.strength is Strength.SAID and not (event.settled or event.pattern.any_level)
        return said and end is not None and 0 <= event.offset < end.begin and event.failure_class != end.failure_class

    last = {(e.log, e.failure_class, e.line.stream): e for e in events if is_message(e)}
    outlived = {
        key
        for key, e in last.items()
        if ordinary_lines_after(logs[e.log], e.offset, e.line.stream, _WENT_ON_LINES, ends[e.log].begin)
        >= _WENT_ON_LINES
    }
    return tuple(
        replace(e, settled="the program went on after it")
        if is_message(e) and (e.log, e.failure_class, e.line.stream) in outlived
        else e
        for e in events
    )


def _open(files: Sequence[LogFile], stack: ExitStack) -> tuple[tuple[Log, ...], tuple[str, ...]]:
    logs, troubles = [], []
    for file in files:
        try:
            log = open_log(file)
        except (OSError, ValueError, MemoryError) as error:
            troubles.append(f"{file.name}: {_reason(error)}")
            continue
        for holder in log.holders:
            stack.callback(holder.close)
        logs.append(log)
    return tuple(logs), tuple(troubles)


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error or type(error).__name__)


def _ranked(events: Sequence[Event], name: str) -> tuple[Event, ...]:
    """Give events of one rank's own log that rank."""
    found = _RANK_IN_NAME.search(name)
    if not found:
        return tuple(events)
    rank = int(found[1] or found[2])
    return tuple(
        replace(event, line=replace(event.line, rank=rank)) if event.line.rank is None else event for event in events
    )


def _verdict(reading: Reading, judgement: Judgement, facts: Facts, rules: RuleSet) -> Verdict:
    vote = votes.scheduler_vote(facts)
    root = judgement.root
    if facts.timed_out and (root is None or root.failure_class in ("interrupted", "unknown")):
        return _by_vote(_timed_out(facts), Confidence.HIGH, judgement, reading, facts, rules)
    outlived = root is None or judgement.tier in (Tier.TALK, Tier.SURVIVED, Tier.MENTION, Tier.SUPPORT)
    ended_well = facts.status == 0 or (facts.status is None and not vote and outlived and _ended_well(reading))
    if ended_well and not facts.signal and not _died(root, judgement.tier, reading, vote, facts):
        return _success(reading, facts, rules, judgement)
    if vote and _outvotes(vote, root, judgement.tier):
        return _by_vote(vote, Confidence.MEDIUM, judgement, reading, facts, rules)
    if root is None or judgement.tier is Tier.SUPPORT:
        if facts.status is None and not vote and _ended_well(reading):
            return _success(reading, facts, rules, judgement)
        hint = votes.status_vote(facts)
        return _by_vote(hint or votes.Vote("unknown"), Confidence.LOW, judgement, reading, facts, rules)
    if _only_mourns(root, judgement.tier, reading, facts):
        return _by_vote(
            votes.status_vote(facts) or votes.Vote("unknown"), Confidence.MEDIUM, judgement, reading, facts, rules
        )
    if root.failure_class == "unknown" and _ran_out_of_memory(root, reading, facts):
        return _by_vote(votes.Vote("oom_killer"), Confidence.LOW, judgement, reading, facts, rules)
    if judgement.tier is Tier.SUMMARY:
        hint = votes.status_vote(facts)
        unsure = ("unknown", "interrupted", "segfault")
        if hint and hint.failure_class not in unsure and root.failure_class in ("unknown", "interrupted"):
            return _by_vote(hint, Confidence.LOW, judgement, reading, facts, rules)
    return _failure(root, judgement, reading, facts, rules)


def _outvotes(vote: votes.Vote, root: Event | None, tier: Tier) -> bool:
    """Say whether the scheduler or the cgroup is believed before the log."""
    if root is None or vote.failure_class == root.failure_class:
        return root is None
    return tier > Tier.ROOT or vote.failure_class == "oom_killer"


def _timed_out(facts: Facts) -> votes.Vote:
    vote = votes.status_vote(facts)
    assert vote  # it has a word for that
    return vote


def _only_mourns(root: Event, tier: Tier, reading: Reading, facts: Facts) -> bool:
    """
    Say whether the log tells less than the signal that ended the run.

    That is so for a fault that the run survived, where a crash is no answer to an exception; and for one of several
    runs, killed without a word, that the others miss.
    """
    if tier in (Tier.SURVIVED, Tier.MENTION):
        return facts.signal in votes.CRASHES
    missed = tier is Tier.CASCADE and is_lost_peer(root) and facts.signal in (*votes.CRASHES, 6, 9)
    return missed and PurePath(root.file).parent != PurePath(reading.logs[0].name).parent


def _ran_out_of_memory(root: Event, reading: Reading, facts: Facts) -> bool:
    """Say whether a bare SIGKILL is one for memory by the log's own figures."""
    killed = facts.status == 137 or facts.signal == 9 or _KILLED.search(root.text)
    return bool(killed) and any(event.failure_class == "oom_killer" for event in reading.events)


def _died(root: Event | None, tier: Tier, reading: Reading, vote: votes.Vote | None, facts: Facts) -> bool:
    """Say whether a run that reported status 0 failed all the same: a root that nothing after it outlived."""
    if vote and vote.failure_class == "oom_killer":
        # For the scheduler the job has failed, whatever became of the process that was killed.
        return facts.scheduler_state.startswith("OUT_OF_ME") or not _ended_well(reading)
    if root is None or tier not in (Tier.ROOT, Tier.GENERIC):
        return False
    if root.failure_class in _NO_FAILURE_AT_ZERO:
        return False
    if root.failure_class == "nan_loss" and root.pattern.weight > 0:
        return True  # the program says that it gave up, however well it then exits
    if root.failure_class == "nan_loss" and _stays_spoiled(reading):
        return True
    stays = root.pattern.action in (Action.FIX, Action.BIGGER, Action.ONCE) or root.failure_class == "launch_failed"
    if root.strength is not Strength.RAISED and not stays:
        return False
    if root.offset >= 0 and not _was_told(root, reading) and (_worked_on(root, reading) or _tidied_up(root, reading)):
        return False
    return not any(
        e.failure_class == "success" and e.pattern.weight >= 2 and e.log == root.log and e.offset > root.offset
        for e in reading.events
    )


def _was_told(root: Event, reading: Reading) -> bool:
    """Say whether a launcher tells after it that processes failed, whatever a script then does."""
    return any(
        e.failure_class == "unknown" and e.pattern.weight > 0 and e.log == root.log and e.offset > root.offset
        for e in reading.events
    )


def _tidied_up(root: Event, reading: Reading) -> bool:
    """Say whether the job had said that it is done, and only a tool of the shell fails after that."""
    done = any(
        e.failure_class == "success" and e.pattern.weight >= 3 and e.log == root.log and e.offset < root.offset
        for e in reading.events
    )
    return done and _TOOL.match(root.line.content) is not None


def _worked_on(root: Event, reading: Reading) -> bool:
    """
    Say whether the writer of an error had more to say than the last words of a script whose command has failed.

    A few lines are a footer: `finished at`, `elapsed`, `log kept in`.
    """
    raised = [e for e in reading.events if e.log == root.log and e.is_root and e.strength is Strength.RAISED]
    last = max((e for e in raised if not e.settled), key=lambda e: e.offset, default=root)
    last = last if last.offset > root.offset else root
    log = reading.logs[root.log]
    return ordinary_lines_after(log, last.offset, last.line.stream, _FOOTER_LINES + 1) > _FOOTER_LINES


def _stays_spoiled(reading: Reading) -> bool:
    """Say whether the loss was no number again and again, and no number came after."""
    spoiled = [event for event in reading.events if event.failure_class == "nan_loss" and not event.settled]
    return sum(bool(_SPOILED.search(event.line.content)) for event in spoiled) >= _FEWEST_SPOILED


def _ended_well(reading: Reading) -> bool:
    return any(e.failure_class == "success" and e.pattern.weight >= 2 for e in reading.events)


def _success(reading: Reading, facts: Facts, rules: RuleSet, judgement: Judgement) -> Verdict:
    last_trouble = max((e.offset for e in reading.events if e.failure_class != "success" and e.is_root), default=-1)
    said = sorted(
        (e for e in reading.events if e.failure_class == "success" and e.offset > last_trouble),
        key=lambda e: (-e.pattern.weight, -e.offset),
    )
    rule = rules.by_id["success"]
    notes: tuple[str, ...] = ()
    if judgement.root is not None and judgement.root.strength > Strength.TALK:
        notes = (f"survived {judgement.root.failure_class}: {judgement.root.text.strip()[:200]}",)
    evidence = tuple(_evidence(event, reading) for event in _distinct(said)[:3])
    if not evidence and (last := _last_words(reading)):
        evidence = (last,)
    return replace(
        _bare(rule, RunStatus.SUCCEEDED, Confidence.HIGH, facts),
        evidence=evidence,
        notes=notes,
        not_read=reading.not_read,
    )


def _last_words(reading: Reading) -> Evidence | None:
    """Return the last line that is not blank, of the first log that has one."""
    for log in reading.logs:
        span = log.previous_line(log.end)
        for _ in range(_LOOK_BACK_LINES):
            if span is None:
                break
            if text := read_line(log.text(span)).whole.strip():
                return Evidence("log", log.name, log.number(span[0]), text[:2000])
            span = log.previous_line(span[0])
    return None


def _distinct(events: Sequence[Event]) -> list[Event]:
    seen: dict[str, Event] = {}
    for event in events:
        seen.setdefault(masked(event.line.content), event)
    return list(seen.values())


def _by_vote(
    vote: votes.Vote,
    confidence: Confidence,
    judgement: Judgement,
    reading: Reading,
    facts: Facts,
    rules: RuleSet,
) -> Verdict:
    rule = rules.by_id.get(vote.failure_class) or rules.by_id["unknown"]
    support = [_evidence(e, reading) for e in reading.events if e.failure_class == rule.id][:3]
    last = _last_line(reading) if not support and rule.id in ("unknown", "hang", "interrupted") else None
    first = vote.evidence if vote.failure_class != "unknown" or not last else None
    # The kernel tells how many it killed, and the log whom.
    killed = [e for e in reading.events if _KILLED.search(e.text)] if rule.id == "oom_killer" else []
    deaths = [_evidence(event, reading) for event in _distinct(killed)[:2]]
    evidence = tuple(item for item in (*support, first, *deaths, last, vote.evidence) if item)
    status = RunStatus.UNKNOWN if facts.status is None and vote.evidence is None else RunStatus.FAILED
    role = vote.role if rule.role is Role.ROOT else rule.role
    bare = replace(_bare(rule, status, confidence, facts), role=role, action=vote.action or rule.action)
    unique = {(item.source, item.file, item.line, item.text): item for item in evidence}
    return _finished(replace(bare, evidence=tuple(unique.values())), judgement, reading)


def _last_line(reading: Reading) -> Evidence | None:
    """Return the last line that speaks of trouble, or else the last line; None for logs without any."""
    for log in reading.logs:
        last = span = log.previous_line(log.end)
        for _ in range(_LOOK_BACK_LINES):
            if span is None or _TROUBLE.search(log.text(span)):
                break
            span = log.previous_line(span[0])
        else:
            span = None
        span = span or last
        if span:
            return Evidence("log", log.name, log.number(span[0]), log.text(span).rstrip()[:2000])
    return None


def _failure(root: Event, judgement: Judgement, reading: Reading, facts: Facts, rules: RuleSet) -> Verdict:
    rule = rules.by_id[root.failure_class]
    confidence = {Tier.ROOT: Confidence.HIGH, Tier.GENERIC: Confidence.MEDIUM}.get(judgement.tier, Confidence.LOW)
    if judgement.tier in (Tier.CASCADE, Tier.TALK):
        confidence = Confidence.MEDIUM
    named = judgement.evidence[0].pattern if judgement.evidence else root.pattern
    verdict = replace(
        _bare(rule, RunStatus.FAILED, confidence, facts),
        role=root.pattern.role,
        outlook=named.outlook,
        action=named.action,
        advice=named.advice,
        domain=named.domain,
        evidence=tuple(_evidence(event, reading) for event in judgement.evidence),
        first_rank=_first_rank(root, judgement, reading),
    )
    return _finished(verdict, judgement, reading)


def _first_rank(root: Event, judgement: Judgement, reading: Reading) -> int | None:
    if root.failure_class == "nccl" and judgement.tier is Tier.CASCADE and root.offset >= 0:
        # Of all logs: there may be one a rank.
        alike = [event for event in reading.events if event.failure_class == "nccl" and event.offset >= 0]
        missing = missing_rank(alike, reading.logs[root.log])
        if missing is not None:
            return missing
    if root.failure_class in ("hang", "nccl") and root.offset >= 0:
        stalled = stalled_rank(reading.logs[root.log])
        if stalled is not None:
            return stalled
    if root.line.rank is not None:
        return root.line.rank
    return next((event.line.rank for event in judgement.evidence if event.line.rank is not None), None)


def _finished(verdict: Verdict, judgement: Judgement, reading: Reading) -> Verdict:
    others = tuple(
        RunnerUp(event.failure_class, _evidence(event, reading))
        for event in judgement.others
        if event.failure_class != verdict.failure_class
    )
    rank = _told_rank(verdict, reading) if verdict.first_rank is None else verdict.first_rank
    if rank is None and verdict.role is Role.ROOT:  # what the kernel tells, the first that it struck raises
        raised = (e for e in reading.events if e.is_root and e.strength >= Strength.SAID and not e.settled)
        rank = next((event.line.rank for event in raised if event.line.rank is not None), None)
    marked = replace(verdict, first_rank=rank, runners_up=others, not_read=reading.not_read)
    return replace(marked, fingerprint=fingerprint(marked))


def _told_rank(verdict: Verdict, reading: Reading) -> int | None:
    """Return the rank that something else than the mark before a line tells; None where nothing does."""
    logs = {log.name: log for log in reading.logs}
    for item in verdict.evidence:
        rank = rank_of(item.text, logs.get(item.file) or next(iter(reading.logs), None))
        if rank is not None:
            return rank
    return None


def _bare(rule: Rule, status: RunStatus, confidence: Confidence, facts: Facts) -> Verdict:
    return Verdict(
        status=status,
        exited_zero=facts.status == 0 and status is RunStatus.FAILED,
        failure_class=rule.id,
        paper_class=rule.paper,
        role=rule.role,
        outlook=rule.outlook,
        action=rule.action,
        title=rule.title,
        advice=rule.advice,
        confidence=confidence,
        domain=rule.domain,
    )


def _evidence(event: Event, reading: Reading) -> Evidence:
    number = reading.logs[event.log].number(event.offset) if event.offset >= 0 else 0
    return Evidence(
        source=event.source,
        file=event.file,
        line=number,
        text=event.text,
        rank=event.line.rank,
        host=event.line.host,
        parameters=event.parameters,
        frame=event.frame,
    )


def fingerprint(verdict: Verdict) -> str:
    """Return what is equal for the same fault in another run: made of class, line without numbers, user's frame."""
    best = verdict.evidence[0] if verdict.evidence else None
    text = masked(re.sub(r"^\W*\[?(?:rank)?\d{0,5}\]?:?\s", "", best.text)) if best else ""
    frame = re.sub(r":\d+", "", best.frame.rpartition("/")[2]) if best else ""
    return hashlib.sha256("\0".join((verdict.failure_class, text, frame)).encode()).hexdigest()[:16]
