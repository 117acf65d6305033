"""Decide whether a chain of retries goes on, after how long, and where: from the causes of its attempts alone."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from gpualert.model import Action, ChainEnd, Domain, RetryDecision, RunStatus, Verdict, frozen

# The same class that often in a row, without progress, is no accident.
MOST_ALIKE = 3
_LONGEST_INTERVAL_S = 6 * 3600.0
_JITTER = 0.1
# Trouble of the machines around the job: dying of it early says nothing about the job.
_INFRASTRUCTURE = (Domain.NODE, Domain.SCHEDULER, Domain.SERVICE)
_HOST_MEMORY = ("oom_killer", "ram_oom")

_PROSPECTS = {
    Action.FIX: "Trying again unchanged would end the same way.",
    Action.RETRY: "Trying again may work.",
    Action.ELSEWHERE: "Trying again on another node than {node} may work.",
    Action.BIGGER: "Trying again helps only with more of what ran out.",
    Action.RESUME: "It can go on from its last checkpoint.",
    Action.ONCE: "One more try would tell whether it happens again.",
    Action.NONE: "",
}


def prospect(verdict: Verdict) -> str:
    """Say in a sentence what another try would bring; for a run that failed with status 0, never a retry."""
    if verdict.status is RunStatus.FAILED and verdict.exited_zero:
        return "It reported status 0 although it failed: look at its results before you use them."
    node = next((item.host for item in verdict.evidence if item.host), "this one")
    return _PROSPECTS[verdict.action].format(node=node)


@dataclass(frozen=True)
class Escalation:
    """
    What a chain asks more of, or makes smaller, when something ran out.

    Attributes:
        what: `mem` (the memory a Slurm job asks for) or `env:NAME` (a variable of the job).
        factor: What it is multiplied with each time.
    """

    what: str
    factor: float

    def helps(self, failure_class: str) -> bool:
        """Say whether that may keep a failure of this class from coming again."""
        return self.what != "mem" or failure_class in _HOST_MEMORY


@dataclass(frozen=True)
class RetryPolicy:
    """
    The limits of a chain.

    Attributes:
        max_attempts: Resumed attempts are not counted.
        interval_s: The wait before an unchanged retry, up to a tenth longer.
        backoff: `fixed`, or `exponential`: doubled with each further failure of the same class.
        early_s: Dying before, without progress, is worth one confirmation only.
        max_resumes: How often a chain goes on after the scheduler ended it.
        on_sigterm: `resume` or `stop`, after a SIGTERM that nobody claims.
        never: Never try again, whatever the cause.
        retry_exit_0: Also where a failed run reported status 0.
        actions: Classes that this chain treats otherwise than their rules say.
        bigger: What to change when something ran out; empty: stop.
        host: Where every attempt runs; "" where a scheduler chooses, or another host may.
    """

    max_attempts: int = 6
    interval_s: float = 660.0
    backoff: str = "fixed"
    early_s: float = 300.0
    max_resumes: int = 20
    on_sigterm: str = "stop"
    never: bool = False
    retry_exit_0: bool = False
    actions: Mapping[str, Action] = field(default_factory=frozen)
    bigger: tuple[Escalation, ...] = ()
    host: str = ""


@dataclass(frozen=True)
class Attempt:
    """
    One ended attempt of a chain.

    Attributes:
        number: From 1.
        run_id: "" where it left no record.
        action: As the verdict has it.
        node: Where it ran.
        faulty_node: The node that is to blame; "" for the many failures that are no node's fault.
        progress: Whether it got further than those before; None where that cannot be known.
        sigterm: A SIGTERM ended it.
    """

    number: int
    status: RunStatus
    failure_class: str
    action: Action
    domain: Domain
    fingerprint: str = ""
    run_id: str = ""
    node: str = ""
    faulty_node: str = ""
    exited_zero: bool = False
    sigterm: bool = False
    progress: bool | None = None
    duration_s: float | None = None
    ended_at: float = 0.0


def decide(attempts: Sequence[Attempt], policy: RetryPolicy, chain: str = "") -> RetryDecision:
    """
    Decide whether a chain goes on after its last attempt.

    Args:
        attempts: All that have ended since the chain began, or a person had it go on; at least one.
        policy: The limits of the chain.
        chain: Its name, which shifts the waits of chains that failed together.

    Returns:
        The decision and its reason.  `delay_s` counts from the end of the last attempt.
    """
    last = attempts[-1]
    action = action_of(last, policy)
    stop = _why_never(last, policy) or _why_not(attempts, policy, action)
    if stop:
        end, reason = stop
        return RetryDecision(False, 0.0, reason, end, excluded(attempts, policy))
    again = f"resume {_resumes(attempts, policy)} of {policy.max_resumes}"
    if not _is_free(last, policy):
        again = f"attempt {_spent(attempts, policy) + 1} of {policy.max_attempts}"
    how = _how(last, policy, action)
    return RetryDecision(
        True,
        _delay_s(attempts, policy, action, chain),
        again + (f", {how}" if how else ""),
        exclude=excluded(attempts, policy),
    )


def action_of(attempt: Attempt, policy: RetryPolicy) -> Action:
    """Return what is to be done about one attempt's cause, before any limit is looked at."""
    if attempt.failure_class in policy.actions:
        return policy.actions[attempt.failure_class]
    if attempt.action is Action.NONE and attempt.status is not RunStatus.SUCCEEDED:
        if attempt.failure_class != "interrupted":
            return Action.ONCE
        return Action.RESUME if attempt.sigterm and policy.on_sigterm == "resume" else Action.NONE
    if attempt.failure_class == "node_failure" and _same_node(attempt.faulty_node, policy.host):
        return Action.RETRY  # the node is back: it is where this is asked
    if attempt.action is Action.RETRY and _died_early(attempt, policy) and attempt.domain not in _INFRASTRUCTURE:
        return Action.ONCE
    return attempt.action


def excluded(attempts: Sequence[Attempt], policy: RetryPolicy) -> tuple[str, ...]:
    """Return the nodes that the next attempt must avoid: those that were to blame for an earlier one."""
    blamed = (each.faulty_node for each in attempts if action_of(each, policy) is Action.ELSEWHERE)
    return tuple(dict.fromkeys(filter(None, blamed)))


def escalations(attempts: Sequence[Attempt], policy: RetryPolicy) -> dict[str, float]:
    """Return the factor for each thing that the next attempt gets more of, or makes smaller; empty for none."""
    factors: dict[str, float] = {}
    for attempt in attempts:
        if action_of(attempt, policy) is Action.BIGGER:
            for step in _helping(attempt, policy):
                factors[step.what] = factors.get(step.what, 1.0) * step.factor
    return factors


def _helping(attempt: Attempt, policy: RetryPolicy) -> list[Escalation]:
    return [step for step in policy.bigger if step.helps(attempt.failure_class)]


_Stop = tuple[ChainEnd, str]


def _why_never(last: Attempt, policy: RetryPolicy) -> _Stop | None:
    """Say why an attempt that ended so is followed by none, whatever its cause; None where the cause decides."""
    if last.status is RunStatus.SUCCEEDED:
        return ChainEnd.SAVED, "it succeeded" + (f" at attempt {last.number}" if last.number > 1 else "")
    if policy.never:
        return ChainEnd.NEEDS_PERSON, "this chain asked never to be tried again"
    if last.status is RunStatus.UNKNOWN:
        return ChainEnd.NEEDS_PERSON, "nobody can say whether it still runs"
    if last.exited_zero and not policy.retry_exit_0:
        return ChainEnd.NEEDS_PERSON, "it reported status 0 although it failed"
    return None


def _why_not(attempts: Sequence[Attempt], policy: RetryPolicy, action: Action) -> _Stop | None:
    """Say why the cause, or a limit, forbids another attempt; None where nothing does."""
    last = attempts[-1]
    name = last.failure_class
    if action is Action.NONE:
        return ChainEnd.STOPPED, "somebody ended it"
    if action is Action.FIX:
        return ChainEnd.NEEDS_PERSON, f"{name} would end the next attempt the same way"
    if action is Action.BIGGER and not _helping(last, policy):
        return ChainEnd.NEEDS_PERSON, f"{name} comes again without more of what ran out (see: --bigger)"
    if action is Action.ELSEWHERE and policy.host and _same_node(last.faulty_node, policy.host):
        return ChainEnd.NEEDS_PERSON, f"node {last.faulty_node} is to blame, and this chain runs nowhere else"
    if action is Action.ONCE and (before := _same_fault(attempts)):
        return ChainEnd.NEEDS_PERSON, f"it failed the same way as attempt {before.number}"
    return _why_enough(attempts, policy, action)


def _why_enough(attempts: Sequence[Attempt], policy: RetryPolicy, action: Action) -> _Stop | None:
    """Say which ceiling is reached; None for none."""
    last = attempts[-1]
    is_bounded = action in (Action.RETRY, Action.ELSEWHERE, Action.RESUME) and not _is_free(last, policy)
    if is_bounded and _alike(attempts, policy) >= MOST_ALIKE:
        return ChainEnd.GAVE_UP, f"{last.failure_class} ended {MOST_ALIKE} attempts in a row without progress"
    if action is Action.RESUME and _resumes(attempts, policy) > policy.max_resumes:
        return ChainEnd.GAVE_UP, f"it was resumed {policy.max_resumes} times"
    if _spent(attempts, policy) >= policy.max_attempts and not _is_free(last, policy):
        return ChainEnd.GAVE_UP, f"attempt {policy.max_attempts} of {policy.max_attempts} was the last"
    return None


def _died_early(attempt: Attempt, policy: RetryPolicy) -> bool:
    short = attempt.duration_s is not None and attempt.duration_s < policy.early_s
    return short and not attempt.progress


def _is_free(attempt: Attempt, policy: RetryPolicy) -> bool:
    """Say whether an attempt is not counted: the scheduler ended it, and it is not known to have stood still."""
    return action_of(attempt, policy) is Action.RESUME and attempt.progress is not False


def _spent(attempts: Sequence[Attempt], policy: RetryPolicy) -> int:
    return sum(not _is_free(attempt, policy) for attempt in attempts)


def _resumes(attempts: Sequence[Attempt], policy: RetryPolicy) -> int:
    return sum(action_of(attempt, policy) is Action.RESUME for attempt in attempts)


def _since_progress(attempts: Sequence[Attempt]) -> Sequence[Attempt]:
    """Return the attempts from the last one that got further on: what failed before is overcome."""
    first = max((place for place, attempt in enumerate(attempts) if attempt.progress), default=0)
    return attempts[first:]


def _same_fault(attempts: Sequence[Attempt]) -> Attempt | None:
    """Return an earlier attempt that failed as the last one did; None for none since there was progress."""
    *earlier, last = _since_progress(attempts)
    key = _fault(last)
    return next((attempt for attempt in earlier if _fault(attempt) == key), None)


def _fault(attempt: Attempt) -> tuple[str, str]:
    return attempt.failure_class, attempt.fingerprint


def _alike(attempts: Sequence[Attempt], policy: RetryPolicy) -> int:
    """Return how many attempts in a row failed in the last one's class; those that cost nothing do not interrupt."""
    name = attempts[-1].failure_class
    return sum(1 for _ in takewhile(lambda each: each.failure_class == name, _latest_first(attempts, policy)))


def _latest_first(attempts: Sequence[Attempt], policy: RetryPolicy) -> Iterator[Attempt]:
    return (each for each in reversed(_since_progress(attempts)) if not _is_free(each, policy))


def _same_node(one: str, other: str) -> bool:
    """Say whether two names are one node's: `n3` and `n3.cluster.example`."""
    return bool(one) and one.partition(".")[0] == other.partition(".")[0]


def _how(last: Attempt, policy: RetryPolicy, action: Action) -> str:
    """Say what is different about the next attempt; "" for nothing."""
    if action is Action.ELSEWHERE and last.faulty_node:
        return f"without node {last.faulty_node}"
    if action is Action.BIGGER:
        return "with " + " and ".join(f"{step.what} times {step.factor:g}" for step in _helping(last, policy))
    return "to see whether it happens again" if action is Action.ONCE else ""


def _delay_s(attempts: Sequence[Attempt], policy: RetryPolicy, action: Action, chain: str) -> float:
    """Return how long to wait: not at all where what was wrong is left behind, unless the last attempt died at once."""
    last = attempts[-1]
    at_once = {
        Action.ELSEWHERE: bool(last.faulty_node),
        Action.BIGGER: True,
        Action.RESUME: not _died_early(last, policy),
    }
    if at_once.get(action, False):
        return 0.0
    doublings = _alike(attempts, policy) - 1 if policy.backoff == "exponential" else 0
    longest_s = max(policy.interval_s, _LONGEST_INTERVAL_S)
    return min(policy.interval_s * 2.0 ** min(max(doublings, 0), 30), longest_s) * (1 + _JITTER * _chance(chain, last))


def _chance(chain: str, attempt: Attempt) -> float:
    """Return a number from 0 to 1 that is the same each time it is asked for."""
    digest = hashlib.sha256(f"{chain}\0{attempt.number}".encode()).digest()
    return int.from_bytes(digest[:4], "big") / 2**32
