"""How runs, chains of retries and nodes have fared: counts and shares, computed from records alone."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from gpualert.blame import Blame
from gpualert.decide import Attempt
from gpualert.model import ChainEnd, RunStatus
from gpualert.spread import Quartiles, gini, quartiles, top_share

TOP_NODES = 3
_FAILED = (RunStatus.FAILED, RunStatus.LOST)
_LAUNCH_S = 60.0  # within which one launcher starts all its runs

_Item = TypeVar("_Item")


@dataclass(frozen=True)
class RunRecord:
    """
    One run, as far as statistics go.

    Attributes:
        status: None where it has not been judged yet.
        node: Where it failed, else where it ran; "" where it is not known.
        started_at: Seconds since 1970 UTC.
        duration_s: None where it is not known.
        group: What runs of one launcher share; "" for a run of its own.
    """

    run_id: str
    status: RunStatus | None
    failure_class: str
    node: str
    started_at: float
    duration_s: float | None = None
    group: str = ""

    @property
    def failed(self) -> bool:
        return self.status in _FAILED

    @property
    def ended_at(self) -> float:
        return self.started_at + (self.duration_s or 0.0)


@dataclass(frozen=True)
class ChainRecord:
    """
    One chain of retries.

    Attributes:
        attempts: Those that have ended, oldest first.
        end: None while it goes on.
        max_attempts: What a retry without regard to the cause would have spent.
    """

    name: str
    attempts: tuple[Attempt, ...]
    end: ChainEnd | None
    max_attempts: int

    @property
    def failures(self) -> tuple[Attempt, ...]:
        return tuple(attempt for attempt in self.attempts if _has_failed(attempt))

    @property
    def attempts_saved(self) -> int:
        """How many attempts were not made because the chain stopped early; none for one that a person stopped."""
        if self.end not in (ChainEnd.NEEDS_PERSON, ChainEnd.GAVE_UP):
            return 0
        return max(0, self.max_attempts - len(self.attempts))


@dataclass(frozen=True)
class Row:
    """
    One failure class, one node, or everything.

    Attributes:
        name: The class or node; "" for everything.
        runs: Runs on the node; of a class, those that failed so.
        failures: Of these, those that failed or were lost.
        chains: Chains with a failed attempt of that class, or on that node; chains that needed no retry are not among
            them.
        chains_ended: Of these, those that have ended, other than by a person's word.
        chains_saved: Of these, those that succeeded at last.
        attempts: Failed attempts in chains.
        attempts_saved: Attempts not made because a chain stopped early, under the cause of its last attempt.
        interval_s: From the end of such an attempt to the start of the next; None without any.
        exclusions: Runs that a node was blamed for.
        time_lost_s: How long the failed runs had run.
    """

    name: str
    runs: int
    failures: int
    chains: int
    chains_ended: int
    chains_saved: int
    attempts: int
    attempts_saved: int
    interval_s: Quartiles | None
    exclusions: int
    time_lost_s: float

    @property
    def chain_success(self) -> float | None:
        """Which share of the ended chains was saved; None without any."""
        return self.chains_saved / self.chains_ended if self.chains_ended else None


@dataclass(frozen=True)
class Statistics:
    """
    Everything there is to say about a span of time.

    Attributes:
        since, until: Seconds since 1970 UTC.
        unjudged: Runs under way, or whose report is not made yet; counted nowhere else.
        chain_attempts: All attempts of chains, failed or not.
        chain_ends: How many chains came to each end; `running` for those that go on.
        nodes: How many nodes were seen; shares and Gini coefficient are over these.
        top_share: Which share of the exclusions the `TOP_NODES` most excluded have; None without any.
        gini: 0 where all nodes were excluded equally often, near 1 where one has it all; None without any.
    """

    since: float
    until: float
    unjudged: int
    total: Row
    chain_attempts: int
    chain_ends: tuple[tuple[str, int], ...]
    nodes: int
    top_share: float | None
    gini: float | None
    by_class: tuple[Row, ...]
    by_node: tuple[Row, ...]


def statistics(
    runs: Sequence[RunRecord], chains: Sequence[ChainRecord], blames: Sequence[Blame], since: float, until: float
) -> Statistics:
    """
    Compute the statistics of what happened between two instants.

    Runs count by their start, chains by the end of their last attempt.  What one launcher started together is one run,
    on as many nodes as it ran on, and failed on the node that failed first.
    """
    inside = [run for run in runs if since <= run.started_at <= until]
    jobs = list(_jobs(run for run in inside if run.status is not None))
    failed = [job for job in jobs if job.first.failed]
    retried = [chain for chain in chains if chain.failures and since <= chain.attempts[-1].ended_at <= until]
    tries = [_Try(chain, place) for chain in retried for place, one in enumerate(chain.attempts) if _has_failed(one)]
    blamed = {blame.run_id: blame for blame in blames if since <= blame.at <= until}  # a run counts once
    by_node = _node_rows(jobs, failed, tries, list(blamed.values()))
    exclusions = [row.exclusions for row in by_node]
    return Statistics(
        since=since,
        until=until,
        unjudged=sum(1 for run in inside if run.status is None),
        total=_row("", len(jobs), failed, tries, len(blamed)),
        chain_attempts=sum(len(chain.attempts) for chain in retried),
        chain_ends=tuple(sorted(Counter(chain.end.value if chain.end else "running" for chain in retried).items())),
        nodes=len(by_node),
        top_share=top_share(exclusions, TOP_NODES),
        gini=gini(exclusions),
        by_class=_class_rows(failed, tries, list(blamed.values())),
        by_node=by_node,
    )


@dataclass(frozen=True)
class _Job:
    """
    Runs that one launcher started together, or one of its own.

    Attributes:
        first: The one that failed first; one that did not where none failed.
    """

    first: RunRecord
    nodes: frozenset[str]
    lasted_s: float


def _jobs(runs: Iterable[RunRecord]) -> Iterator[_Job]:
    """Put together what one launcher started; a group's name comes back when a script launches one after another."""
    under_way: dict[str, list[RunRecord]] = {}
    for run in sorted(runs, key=lambda run: run.started_at):
        if not run.group:
            yield _job([run])
            continue
        mates = under_way.setdefault(run.group, [])
        if mates and run.started_at > max(mates[0].started_at + _LAUNCH_S, *(mate.ended_at for mate in mates)):
            yield _job(mates)
            mates = under_way[run.group] = []
        mates.append(run)
    yield from map(_job, under_way.values())


def _job(runs: Sequence[RunRecord]) -> _Job:
    failed = [run for run in runs if run.failed]
    first = min(failed or runs, key=lambda run: run.ended_at)
    return _Job(first, frozenset(run.node for run in runs if run.node), max(run.duration_s or 0.0 for run in runs))


@dataclass(frozen=True)
class _Try:
    """A failed attempt, by its place in its chain."""

    chain: ChainRecord
    place: int

    @property
    def attempt(self) -> Attempt:
        return self.chain.attempts[self.place]

    @property
    def node(self) -> str:
        return self.attempt.faulty_node or self.attempt.node

    @property
    def is_last(self) -> bool:
        return self.place == len(self.chain.attempts) - 1

    @property
    def wait_s(self) -> float | None:
        """How long the next attempt was waited for; None for the last, or where the clock was set back."""
        if self.is_last:
            return None
        after = self.chain.attempts[self.place + 1]
        if after.duration_s is None:
            return None
        wait_s = after.ended_at - after.duration_s - self.attempt.ended_at
        return wait_s if wait_s >= 0 else None


def _has_failed(attempt: Attempt) -> bool:
    return attempt.status in _FAILED


def _class_rows(failed: Sequence[_Job], tries: Sequence[_Try], blames: Sequence[Blame]) -> tuple[Row, ...]:
    jobs = _grouped(failed, lambda job: job.first.failure_class)
    tried = _grouped(tries, lambda each: each.attempt.failure_class)
    exclusions = Counter(blame.failure_class for blame in blames)
    names = jobs.keys() | tried.keys() | exclusions.keys()
    return _worst_first(
        _row(name, len(jobs[name]), jobs[name], tried[name], exclusions[name]) for name in names if name
    )


def _node_rows(
    jobs: Sequence[_Job], failed: Sequence[_Job], tries: Sequence[_Try], blames: Sequence[Blame]
) -> tuple[Row, ...]:
    runs = Counter(node for job in jobs for node in job.nodes)
    failures = _grouped(failed, lambda job: job.first.node)
    tried = _grouped(tries, lambda each: each.node)
    exclusions = Counter(blame.node for blame in blames)
    names = runs.keys() | tried.keys() | exclusions.keys()
    return _worst_first(_row(name, runs[name], failures[name], tried[name], exclusions[name]) for name in names if name)


def _grouped(items: Iterable[_Item], name: Callable[[_Item], str]) -> defaultdict[str, list[_Item]]:
    groups: defaultdict[str, list[_Item]] = defaultdict(list)
    for item in items:
        groups[name(item)].append(item)
    return groups


def _worst_first(rows: Iterable[Row]) -> tuple[Row, ...]:
    return tuple(sorted(rows, key=lambda row: (-row.failures, -row.exclusions, -row.runs, row.name)))


def _row(name: str, runs: int, failed: Sequence[_Job], tries: Sequence[_Try], exclusions: int) -> Row:
    chains = {id(each.chain): each.chain for each in tries}.values()
    ended = [chain for chain in chains if chain.end not in (None, ChainEnd.STOPPED)]
    return Row(
        name=name,
        runs=runs,
        failures=len(failed),
        chains=len(chains),
        chains_ended=len(ended),
        chains_saved=sum(chain.end is ChainEnd.SAVED for chain in ended),
        attempts=len(tries),
        attempts_saved=sum(each.chain.attempts_saved for each in tries if each.is_last),
        interval_s=quartiles([wait_s for each in tries if (wait_s := each.wait_s) is not None]),
        exclusions=exclusions,
        time_lost_s=sum(job.lasted_s for job in failed),
    )
