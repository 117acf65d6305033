"""The end of an attempt: what it came to, and whether the chain goes on.  The first decision stands."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from gpualert.blame import NodeNameError, blamed
from gpualert.chains.progress import mark_in, saved_since
from gpualert.chains.read import ChainError, read_chain, read_story
from gpualert.chains.record import Chain, Ended, Started, Story
from gpualert.chains.runs import find_run
from gpualert.chains.store import chain_path, write_ended
from gpualert.claims import locked
from gpualert.collect import duration_s
from gpualert.decide import Attempt, decide
from gpualert.display import duration
from gpualert.errors import UnsafeFileError
from gpualert.findings import Findings
from gpualert.jsonfiles import plain, write_json
from gpualert.model import SCHEMA, Action, ChainEnd, Domain, LogFile, RetryDecision, Run, RunStatus
from gpualert.state import state_of
from gpualert.wording import host_of

_LOCK_S = 10.0
_UNDECIDED = RetryDecision(False, 0.0, "")


@dataclass(frozen=True)
class Part:
    """
    What a run is to a chain.

    Attributes:
        started: The attempt, where the run is all of it; None for a run inside one, which the attempt tells of.
    """

    chain: Path
    started: Started | None


def part_of(run: Run, home: Path) -> Part | None:
    """
    Say which part of a chain a run is; None where it is none, or there is no such chain on disk.

    Args:
        home: The state folder of the settings, where a chain's run may have had to be kept elsewhere.

    Raises:
        ChainError: The chain cannot be trusted.
    """
    states = dict.fromkeys([state_of(run.path), home])
    path = chain_path(run.start.chain, states) if run.start else None
    if run.start is None or path is None:
        return None
    started = read_story(path).started.get(run.start.attempt)
    first = find_run(states, run.start.chain, started) if started else None
    return Part(path, started if first and first.run_id == run.run_id else None)


def decide_after(run: Run, findings: Findings, logs: Sequence[LogFile], home: Path) -> RetryDecision | None:
    """
    Decide whether the chain goes on that a run is part of.

    Args:
        home: The state folder of the settings, where the run itself had to be kept elsewhere.

    Returns:
        None where the run is part of none.  For a run inside an attempt there is nothing to decide, and no end.

    Raises:
        ChainError, LockTimeoutError, OSError: The chain cannot be read, is at work elsewhere, or the disk is full.
    """
    part = part_of(run, home)
    if part is None:
        return None
    if part.started is None:
        return RetryDecision(False, 0.0, f"it is part of an attempt of chain {part.chain.name}")
    chain = read_chain(part.chain)
    with locked(chain.path / "lock", _LOCK_S):
        story = conclude(chain, read_story(chain.path), part.started, run, findings, logs)
    return replace(story.ended[part.started.number].decision, history=tuple(history(story)))


def decided(run: Run, home: Path) -> RetryDecision | None:
    """Return what was decided after a run; None where it is no attempt of a chain, or that is not known."""
    try:
        part = part_of(run, home)
        story = read_story(part.chain) if part and part.started else Story()
    except (ChainError, OSError):
        return None
    ended = story.ended.get(run.start.attempt) if run.start else None
    return replace(ended.decision, history=tuple(history(story))) if ended else None


def conclude(
    chain: Chain, story: Story, started: Started, run: Run, findings: Findings, logs: Sequence[LogFile]
) -> Story:
    """
    Decide after the attempt that a run was, and write that down in both; the caller holds the chain's lock.

    Returns:
        The story with that attempt; the first decision stands.

    Raises:
        OSError: The disk is full.
    """
    if started.number not in story.ended:
        seen, mark = _look(chain, logs)
        progress = _progress(seen, mark, story, saved_since(chain, started.started_at))
        attempt = replace(_attempt(started, run, findings), progress=progress)
        story = end(chain, story, Ended(attempt, _UNDECIDED, mark))
    about = {"chain": chain.id, "attempt": started.number}
    decision = story.ended[started.number].decision
    write_json(run.path / "retry.json", {"schema": SCHEMA, **about, **plain(decision)})
    return story


def vanish(
    chain: Chain, story: Story, number: int, reason: str, now: float, status: RunStatus = RunStatus.LOST
) -> Story:
    """
    Decide after an attempt that left no record: it could not be started, or its machine went down at once.

    Args:
        status: Unknown where nobody can say whether it runs after all.
    """
    action, domain = Action.RETRY, Domain.SCHEDULER
    attempt = Attempt(number, status, "launch_failed", action, domain, fingerprint=reason, ended_at=now)
    return end(chain, story, Ended(attempt, _UNDECIDED))


def end(chain: Chain, story: Story, ended: Ended) -> Story:
    """
    Decide after an attempt, and write it down; the caller holds the chain's lock.

    Returns:
        The story with that attempt.

    Raises:
        OSError: The disk is full.
    """
    decision = decide([*story.attempts, ended.attempt], chain.policy, chain.id)
    if story.stopped and decision.retry:
        decision = RetryDecision(False, 0.0, "somebody stopped the chain", ChainEnd.STOPPED, decision.exclude)
    decided = replace(ended, decision=decision)
    write_ended(chain.path, decided)
    return replace(story, ended=MappingProxyType({**story.ended, ended.attempt.number: decided}))


def history(story: Story) -> Iterator[str]:
    """Yield what each ended attempt came to, in a sentence each."""
    for number in sorted(story.ended):
        attempt = story.ended[number].attempt
        class_ = attempt.failure_class if attempt.status is not RunStatus.SUCCEEDED else "success"
        on = f" on {attempt.node}" if attempt.node else ""
        after = f" after {duration(attempt.duration_s)}" if attempt.duration_s is not None else ""
        yield f"attempt {number}: {class_}{on}{after}"


def _look(chain: Chain, logs: Sequence[LogFile]) -> tuple[bool | None, float | None]:
    """Say whether the logs show progress, and how far; None where nobody said how, or they cannot be read."""
    if not chain.watch.pattern:
        return None, None
    try:
        return mark_in(logs, chain.watch.pattern)
    except (OSError, UnsafeFileError):
        return None, None


def _progress(seen: bool | None, mark: float | None, story: Story, saved: bool | None) -> bool | None:
    """Say whether an attempt got further than all before it; None where that cannot be known."""
    marks = [ended.mark for ended in story.ended.values() if ended.mark is not None]
    further = seen if mark is None or not marks else mark > max(marks)
    known = [each for each in (further, saved) if each is not None]
    return any(known) if known else None


def _attempt(started: Started, run: Run, findings: Findings) -> Attempt:
    verdict = findings.verdict
    ended_at = run.exit.ended_at if run.exit else time.time()
    return Attempt(
        number=started.number,
        status=verdict.status,
        failure_class=verdict.failure_class,
        action=verdict.action,
        domain=verdict.domain,
        fingerprint=verdict.fingerprint,
        run_id=run.run_id,
        node=host_of(run),
        faulty_node=_faulty_node(run, findings, ended_at),
        exited_zero=verdict.exited_zero,
        sigterm=run.exit is not None and signal.SIGTERM in (run.exit.signal, run.exit.status - 128),
        duration_s=duration_s(run),
        ended_at=ended_at,
    )


def _faulty_node(run: Run, findings: Findings, ended_at: float) -> str:
    """Return the node that is to blame for a failure; "" for none, or where its name makes no sense."""
    with suppress(NodeNameError):
        blame = blamed(run, findings.verdict, findings.gpu_allotted, ended_at)
        return blame.node if blame else ""
    return ""
