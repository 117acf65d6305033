"""Read what the statistics are made of: run directories, the history of removed runs, chains, and the node ledger."""

from __future__ import annotations

import calendar
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpualert import ledger
from gpualert.blame import Blame
from gpualert.chains.read import ChainError, read_chain, read_story
from gpualert.chains.store import chain_paths
from gpualert.collect import duration_s
from gpualert.errors import GpualertError
from gpualert.history import read_history
from gpualert.listing import stored_verdict
from gpualert.model import RunStatus
from gpualert.rundir import skim_run
from gpualert.state import STAMP_LENGTH, run_paths
from gpualert.stats import ChainRecord, RunRecord, Statistics, statistics

_SLACK_S = 86400.0  # between a run's name and its start


@dataclass(frozen=True)
class Census:
    """
    All that is known of the time since an instant, perhaps with some from before.

    Attributes:
        troubles: What could not be read, each with its reason.
    """

    runs: tuple[RunRecord, ...]
    chains: tuple[ChainRecord, ...]
    blames: tuple[Blame, ...]
    troubles: tuple[str, ...] = ()

    def statistics(self, since: float, until: float) -> Statistics:
        """Compute the statistics of what happened between two instants."""
        return statistics(self.runs, self.chains, self.blames, since, until)


def take_census(states: Sequence[Path], since: float) -> Census:
    """Read the state folders; what cannot be read is left out, and said among the troubles."""
    troubles: list[str] = []
    runs: dict[str, RunRecord] = {}
    for state in states:
        try:
            runs.update((line.run_id, line) for line in _remembered(state, since))
        except (OSError, GpualertError) as error:
            troubles.append(f"cannot read the history in '{state}': {error}")
    # A run on disk knows more than its line of history.
    runs.update((record.run_id, record) for record in _on_disk(states, since, troubles))
    book = ledger.read(*states)
    chains = tuple(_chains(states, troubles))
    return Census(tuple(runs.values()), chains, book.blames, (*troubles, *book.troubles))


def _on_disk(states: Sequence[Path], since: float, troubles: list[str]) -> Iterator[RunRecord]:
    first = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(max(since - _SLACK_S, 0)))
    for path in run_paths(states):
        if path.name[:STAMP_LENGTH] < first:
            continue
        try:
            if record := _record(path):
                yield record
        except GpualertError as error:
            if path.exists():  # else it was removed meanwhile
                troubles.append(str(error))


def _record(path: Path) -> RunRecord | None:
    """
    Return what counts of a run; None for one that was never started, or is a part of another.

    Raises:
        RunDirError: It cannot be trusted.
    """
    run = skim_run(path)
    if not run.start or (run.start.parent_run_id and _is_there(path, run.start.parent_run_id)):
        return None
    verdict = stored_verdict(path)
    return RunRecord(
        run_id=path.name,
        status=_status(verdict),
        failure_class=str(verdict.get("class", "")),
        node=str(verdict.get("first_node") or "") or run.start.node or run.start.host,
        started_at=run.start.started_at,
        duration_s=duration_s(run),
        group=run.start.group,
    )


def _is_there(path: Path, other: str) -> bool:
    return "/" not in other and path.with_name(other).is_dir()


def _remembered(state: Path, since: float) -> Iterator[RunRecord]:
    for line in read_history(state):
        started_at = _started_at(line)
        if started_at is None or started_at < since:
            continue
        ended_at = line.get("ended_at")
        lasted_s = line.get("duration_s")
        if lasted_s is None and isinstance(line.get("started_at"), (int, float)) and isinstance(ended_at, (int, float)):
            lasted_s = ended_at - started_at
        yield RunRecord(
            run_id=str(line.get("run_id")),
            status=_status(line),
            failure_class=str(line.get("class") or ""),
            node=str(line.get("host") or ""),
            started_at=started_at,
            duration_s=max(float(lasted_s), 0.0) if isinstance(lasted_s, (int, float)) else None,
        )


def _started_at(line: Mapping[str, Any]) -> float | None:
    """Return when a remembered run started; where that was not written down its name tells the second."""
    started_at = line.get("started_at")
    if isinstance(started_at, (int, float)):
        return float(started_at)
    with suppress(ValueError):
        return float(calendar.timegm(time.strptime(str(line.get("run_id"))[:STAMP_LENGTH], "%Y%m%dT%H%M%SZ")))
    return None


def _status(verdict: Mapping[str, Any]) -> RunStatus | None:
    """Return how a run ended; None where nobody has said so yet."""
    with suppress(ValueError):
        status = RunStatus(verdict.get("status"))
        return None if status is RunStatus.RUNNING else status
    return None


def _chains(states: Sequence[Path], troubles: list[str]) -> Iterator[ChainRecord]:
    for path in chain_paths(states):
        try:
            chain, story = read_chain(path), read_story(path)
        except ChainError as error:
            troubles.append(str(error))
            continue
        yield ChainRecord(chain.id, story.all_attempts, story.end, chain.policy.max_attempts)
