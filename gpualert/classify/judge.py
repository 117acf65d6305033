"""Which of many events began the end: what was survived is set aside, the earliest root wins, cascades come last."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

from gpualert.classify.events import Event, Strength
from gpualert.classify.parameters import masked
from gpualert.classify.progress import Life
from gpualert.model import Role

MOST_EVIDENCE = 5
# What was only said further than this before the end began is old news.
NEAR_BYTES = 20_000
# An exception whose line ends at its colon prints its message within so many bytes, below a native stack.
_MESSAGE_BYTES = 8_000

# What make says of a recipe is so, whatever the other recipes that it runs at once have to say after it.
_LAST_WORDS = re.compile(r"\s*(?:g?make(?:\[\d+\])?: \*\*\* |ninja: )")
_EXCEPTION = re.compile(r"\s*[\w.]{1,80}(?:Error|Exception)\b")
# What a rank says when another is gone, and what a launcher says of the one that a signal ended; not SIGTERM, which it
# sends itself.
_LOST_PEER = re.compile(
    r"(?i)\bconnection (?:was )?(?:closed|reset|lost|broken)\b.{0,12}\bpeer|\bbroken pipe\b"
    r"|\bpeer \S{1,12} (?:disconnected|gone|closed|died|left)\b"
    r"|\b(?:peer|remote) (?:process|rank|worker)\b.{0,60}\b(?:exited|gone|disconnected|lost)\b"
)
_DEATH = re.compile(
    r"(?i)\b(?:exited|terminated|killed|died) (?:on|with|by) signal:? ?"
    r"(?:SIG(?:KILL|ABRT|SEGV|BUS|ILL|FPE)|[46789]\b|11\b)"
    r"|\bfailed \(exitcode: -(?:[46789]|11)\)|\breturn code = -(?:[46789]|11)\b|\(signal (?:[46789]|11)\)"
)


class Tier(IntEnum):
    """The order in which events are believed; the lowest is tried first."""

    ROOT = 0  # says what failed, and the run did not survive it
    GENERIC = 1  # an exception or a crash of no more specific class
    TALK = 2  # a warning that would explain the end
    CASCADE = 3
    SUMMARY = 4  # a launcher's, or of no class of its own
    SURVIVED = 5
    MENTION = 6
    SUPPORT = 7


@dataclass(frozen=True)
class Judgement:
    """
    The event that names the class, those that support it, and the best of each other class.

    Attributes:
        tier: How it was chosen.
        why: For each event that lost, by its index in `ranked`, why it did.
    """

    root: Event | None
    tier: Tier
    evidence: tuple[Event, ...]
    others: tuple[Event, ...]


def settle(events: Sequence[Event], lives: Mapping[int, Life]) -> tuple[Event, ...]:
    """Return the events with those that the run survived marked as such."""
    return tuple(_settled(event, lives.get(event.log), events) for event in events)


def _settled(event: Event, life: Life | None, events: Sequence[Event]) -> Event:
    if life is None or event.offset < 0 or event.pattern.rule == "success" or _LAST_WORDS.match(event.line.content):
        return event
    if event.pattern.rule == "launch_failed" and life.runs_after(event.offset):
        return replace(event, settled="the job's own code ran after it")
    needs_finite = event.pattern.rule == "nan_loss"
    if life.goes_on(event.offset, event.line.stream, needs_finite=needs_finite):
        return replace(event, settled="the program went on after it")
    restart = life.restarted_after(event.offset)
    if restart is not None and any(
        later.log == event.log and later.offset > restart and later.is_root and later.strength >= Strength.SAID
        for later in events
    ):
        return replace(event, settled="the job was started again after it")
    return event


def tier(event: Event, trouble: Mapping[int, int] | None = None) -> Tier:
    """
    Say how far an event is believed.

    `trouble` holds for each log where its end begins: the first exception that was not caught, or else the first line
    that follows from a failure.  What was only said long before is believed less.
    """
    if event.pattern.role is Role.CONFIRMATION:
        return Tier.SUPPORT
    if event.settled:
        return Tier.SURVIVED
    if not event.is_root:
        return Tier.SUMMARY if event.pattern.generic else Tier.CASCADE
    if event.strength is Strength.MENTION:
        return Tier.MENTION
    old = event.offset < (trouble or {}).get(event.log, 0) - NEAR_BYTES
    if event.strength is Strength.TALK:
        return Tier.MENTION if old else Tier.TALK
    if event.pattern.generic:
        return Tier.GENERIC
    return Tier.TALK if old and event.strength is Strength.SAID and event.pattern.weight <= 0 else Tier.ROOT


def troubles(events: Sequence[Event]) -> Mapping[int, int]:
    """Return for each log where its end begins; see `tier`.  A log without such lines is missing."""
    begins: dict[int, int] = {}
    for wanted in (Tier.GENERIC, Tier.CASCADE, Tier.SUMMARY):
        for event in events:
            if event.offset >= 0 and tier(event) is wanted and event.log not in begins:
                begins[event.log] = event.begin
    return begins


def judge(events: Sequence[Event], status: int | None = None) -> Judgement:
    """Return what ended the run, of its events in the order of the logs; nothing for none."""
    usable = [event for event in events if event.pattern.rule != "success"]
    trouble = troubles(usable)
    order = list(Tier)
    if status in (1, None):  # the status of an exception that was not caught
        order.insert(order.index(Tier.SUMMARY), Tier.SURVIVED)
    for level in order:
        group = [event for event in usable if tier(event, trouble) is level and _may_stand(event, level)]
        if level is Tier.SURVIVED:
            group.sort(key=lambda event: not event.is_root)
        if group:
            root = _explained(_first(group), usable)
            return Judgement(root, level, _evidence(root, usable), _others(root, usable))
    return Judgement(None, Tier.SUPPORT, (), ())


# Causes that are told by the kernel or the scheduler, often after the fact, and what the program makes of them.
_EXPLAINS = {
    "gpu_hardware": frozenset(("cuda_runtime", "cublas_cudnn", "cuda_driver", "segfault")),
    "oom_killer": frozenset(("dataloader_worker", "segfault", "interrupted", "hang", "network", "rendezvous")),
    "walltime": frozenset(("interrupted",)),
    "preempted": frozenset(("interrupted", "walltime", "rendezvous", "nccl")),
    "node_failure": frozenset(("interrupted", "rendezvous", "hang", "nccl")),
    "hang": frozenset(("network",)),  # of a server that its own watchdog ended
}


def _explained(root: Event, events: Sequence[Event]) -> Event:
    """Return the event that explains `root`, if one is there, else `root`."""
    if is_lost_peer(root):
        cascades = [event for event in events if tier(event) is Tier.CASCADE]
        deaths = (event for event in events if tier(event) >= Tier.SUMMARY and _DEATH.search(event.line.content))
        return next(deaths, root) if all(map(is_lost_peer, cascades)) else root
    for event in events:
        late = event.failure_class == "hang" and event.offset > root.offset
        if root.failure_class in _EXPLAINS.get(event.failure_class, ()) and tier(event) <= Tier.GENERIC and not late:
            return event
    if root.failure_class == "network" and root.pattern.generic:  # a service of the job's own that may have died first
        deaths = (e for e in events if tier(e) is Tier.SUMMARY and e.log == root.log)
        return next((e for e in deaths if e.offset < root.offset), root)
    return root


def is_lost_peer(event: Event) -> bool:
    """Say whether all that an event tells is that another rank was gone."""
    return not event.is_root and _LOST_PEER.search(event.line.content) is not None


def _may_stand(event: Event, level: Tier) -> bool:
    """A fault that was survived explains the end, if nothing else does, only where it was no mere message."""
    if level is not Tier.SURVIVED or event.strength is Strength.RAISED:
        return True
    return event.strength is Strength.SAID and event.is_root and _EXCEPTION.match(event.line.content) is not None


def _first(group: Sequence[Event]) -> Event:
    """Return the earliest of events of one tier: by time where both are stamped alike, else by place."""
    first = group[0]
    for event in group[1:]:
        if _earlier(event, first):
            first = event
    return _best_of_chain(first, group)


def _earlier(one: Event, other: Event) -> bool:
    if one.source != other.source or one.offset < 0 or other.offset < 0:
        return False
    mine, theirs = one.line, other.line
    if (
        mine.time_s is not None
        and theirs.time_s is not None
        and mine.dated == theirs.dated
        and mine.stream != theirs.stream
    ):
        return mine.time_s < theirs.time_s - 1.0 and (mine.dated or theirs.time_s - mine.time_s < 43_200)
    return False


def _best_of_chain(event: Event, group: Sequence[Event]) -> Event:
    """Within one exception prefer the more telling line."""
    if event.traceback is None:
        return event
    if event.line.content.rstrip().endswith(("Error:", "Exception:")):  # the message stands further down
        below = (e for e in group if e.log == event.log and 0 < e.offset - event.offset < _MESSAGE_BYTES)
        return next((e for e in below if e.line.stream == event.line.stream and not e.pattern.generic), event)
    same = [e for e in group if e.log == event.log and e.traceback == event.traceback]
    return max(same, key=lambda e: (e.pattern.weight, -e.place))


def _evidence(root: Event, events: Sequence[Event]) -> tuple[Event, ...]:
    """Return the lines to show: the root, then the most telling different ones of its class that are as fresh."""
    same = [e for e in events if e.failure_class == root.failure_class and bool(e.settled) == bool(root.settled)]
    ranked = sorted(same, key=_telling)
    best = ranked[0] if ranked and _outranks(ranked[0], root) else root
    shown, seen = [], set()
    for event in (best, root, *ranked):
        key = masked(event.line.content)
        if key not in seen:
            seen.add(key)
            shown.append(event)
    return tuple(shown[:MOST_EVIDENCE])


def _telling(event: Event) -> tuple[float, ...]:
    return (-event.pattern.weight, -(event.is_root), -event.strength, event.log, event.offset)


def _outranks(event: Event, root: Event) -> bool:
    """A more telling line of the same class stands for the root, and an exception for the line that announces it."""
    if event.pattern.action is not root.pattern.action:
        return False
    louder = root.strength is Strength.SAID and event.strength is Strength.RAISED and root.pattern.weight < 2
    return event.pattern.weight > root.pattern.weight or (louder and event.pattern.weight == root.pattern.weight)


def _others(root: Event, events: Sequence[Event]) -> tuple[Event, ...]:
    best: dict[str, Event] = {}
    for event in sorted(events, key=lambda e: (tier(e), e.log, e.offset)):
        if event.failure_class != root.failure_class:
            best.setdefault(event.failure_class, event)
    return tuple(best.values())[:5]
