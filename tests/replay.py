"""
A made-up campaign the size of a published one, written to disk as gpualert would have left it.

The numbers that were published are kept: 224 sessions on 63 nodes within 73 days; among them 12 chains of retries with
73 attempts, 4 of them saved at last, at a median interval of 11 minutes (quartiles 10 and 11); more than half of all
exclusions on three nodes.  Everything else is drawn from a seed.

Source: "From Detection to Recovery: Operational Analysis on LLM Pre-training with 504 GPUs", arXiv 2605.09370.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rundirs import NOW, RunBuilder

from gpualert import ledger
from gpualert.chains.record import Chain, Ended, Watch
from gpualert.chains.store import make_chain, write_ended
from gpualert.decide import Attempt, RetryPolicy
from gpualert.model import Action, ChainEnd, Domain, RetryDecision, RunStatus

SESSIONS, NODES, CHAINS, ATTEMPTS, SAVED, DAYS = 224, 63, 12, 73, 4, 73
MAX_ATTEMPTS = 12
WORST_NODES = 3
# Minutes between the attempts of a chain, and how often.
WAITS = {9: 2, 10: 20, 11: 30, 13: 9}
# Failure class, what is to be done about it, whose trouble it is, and how often it was drawn.
CAUSES = (
    ("gpu_hardware", Action.ELSEWHERE, Domain.NODE, 30),
    ("node_failure", Action.ELSEWHERE, Domain.NODE, 10),
    ("nccl", Action.RETRY, Domain.UNKNOWN, 25),
    ("storage_io", Action.RETRY, Domain.SERVICE, 15),
    ("cuda_oom", Action.BIGGER, Domain.RESOURCES, 10),
    ("file_not_found", Action.FIX, Domain.USER_CODE, 10),
)
_DAY_S = 86400


@dataclass(frozen=True)
class Session:
    """One run of the campaign; `chain` is "" for one that nobody tried again."""

    number: int
    node: str
    started_at: int
    duration_s: int
    status: RunStatus
    failure_class: str
    action: Action
    domain: Domain
    chain: str = ""
    attempt: int = 1

    @property
    def run_id(self) -> str:
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(self.started_at))
        return f"{stamp}-{self.node}-{self.number:08x}"

    @property
    def ended_at(self) -> int:
        return self.started_at + self.duration_s

    @property
    def blames_node(self) -> bool:
        return self.action is Action.ELSEWHERE


@dataclass(frozen=True)
class Campaign:
    """What happened; `waits_s` as they were drawn, and how each chain ended."""

    sessions: tuple[Session, ...]
    waits_s: tuple[int, ...]
    ends: dict[str, ChainEnd]

    def of(self, chain: str) -> list[Session]:
        return [session for session in self.sessions if session.chain == chain]


def campaign(seed: int) -> Campaign:
    """Draw a campaign."""
    chance = random.Random(seed)
    waits_s = [60 * minutes for minutes, count in WAITS.items() for _ in range(count)]
    chance.shuffle(waits_s)
    names = [f"chain-{number:02}" for number in range(CHAINS)]
    unsaved = [ChainEnd.GAVE_UP] * (CHAINS - SAVED - 3) + [ChainEnd.NEEDS_PERSON] * 3
    ends = dict(zip(names, chance.sample([ChainEnd.SAVED] * SAVED + unsaved, CHAINS), strict=True))
    sessions: list[Session] = []
    left = list(waits_s)
    for name, size in zip(names, _sizes(chance), strict=True):
        at = _start(chance)
        for attempt in range(1, size + 1):
            saved = ends[name] is ChainEnd.SAVED and attempt == size
            session = _session(chance, len(sessions), at, failed=not saved, chain=name, attempt=attempt)
            sessions.append(session)
            at = session.ended_at + (left.pop(0) if attempt < size else 0)
    while len(sessions) < SESSIONS:
        sessions.append(_session(chance, len(sessions), _start(chance), failed=chance.random() < 0.6))
    return Campaign(tuple(sessions), tuple(waits_s), ends)


def _sizes(chance: random.Random) -> list[int]:
    """Return how many attempts each chain had: two at least, and all together `ATTEMPTS`."""
    sizes = [2] * CHAINS
    while sum(sizes) < ATTEMPTS:
        place = chance.randrange(CHAINS)
        sizes[place] += sizes[place] < MAX_ATTEMPTS
    return sizes


def _start(chance: random.Random) -> int:
    return int(NOW) - chance.randrange(2 * _DAY_S, DAYS * _DAY_S)


def _session(
    chance: random.Random, number: int, at: int, *, failed: bool, chain: str = "", attempt: int = 1
) -> Session:
    cause, action, domain, _ = chance.choices(CAUSES, [weight for *_, weight in CAUSES])[0]
    bad = action is Action.ELSEWHERE and failed and chance.random() < 0.6
    node = f"node{chance.randrange(WORST_NODES) if bad else number % NODES:02}"
    duration_s = chance.randrange(30, 6 * 3600)
    if not failed:
        cause, action, domain = "success", Action.NONE, Domain.UNKNOWN
    status = RunStatus.FAILED if failed else RunStatus.SUCCEEDED
    if cause == "node_failure":
        status = RunStatus.LOST
    return Session(number, node, at, duration_s, status, cause, action, domain, chain, attempt)


def write(found: Campaign, state: Path) -> None:
    """Write a campaign into a state folder: run directories, ledger and chains."""
    make_run = RunBuilder(state)
    for session in found.sessions:
        times = {"started_at": session.started_at, "node": session.node}
        path = make_run(session.run_id, log=None, start=times, exit={"ended_at": session.ended_at})
        verdict = {"schema": 1, "status": session.status.value, "class": session.failure_class}
        (path / "verdict.json").write_text(json.dumps(verdict))
        if session.blames_node:
            what = (session.node, "", session.failure_class, None, session.run_id)
            ledger.blame(state, *what, session.ended_at)
    for name in found.ends:
        _write_chain(found, name, state / "chains" / name)


def _write_chain(found: Campaign, name: str, path: Path) -> None:
    attempts = list(_attempts(found, name))
    policy = RetryPolicy(max_attempts=MAX_ATTEMPTS)
    make_chain(Chain(path, attempts[0].ended_at, (b"train",), b"/", {}, 0o22, {}, (), policy, Watch()))
    for attempt in attempts:
        end = found.ends[name] if attempt is attempts[-1] else None
        write_ended(path, Ended(attempt, RetryDecision(end is None, 0.0, "", end)))


def _attempts(found: Campaign, name: str) -> Iterator[Attempt]:
    for session in found.of(name):
        yield Attempt(
            number=session.attempt,
            status=session.status,
            failure_class=session.failure_class,
            action=session.action,
            domain=session.domain,
            run_id=session.run_id,
            node=session.node,
            faulty_node=session.node if session.blames_node else "",
            duration_s=float(session.duration_s),
            ended_at=float(session.ended_at),
        )
