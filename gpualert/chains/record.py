"""What a chain is, and how it stands: frozen data and what follows from it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gpualert.decide import Attempt, RetryPolicy
from gpualert.model import ChainEnd, RetryDecision

FORMAT = "gpualert-chain/1"
_CLOCK_SLACK_S = 60.0


@dataclass(frozen=True)
class Watch:
    """
    How the progress of an attempt shows.

    Attributes:
        pattern: A regular expression for lines of its log; its first group is a number that grows.  "" for none.
        checkpoint: A glob for what it saves, relative to its folder.  "" for none.
    """

    pattern: str = ""
    checkpoint: str = ""


@dataclass(frozen=True)
class Chain:
    """
    A chain as `chain start` left it; it never changes.

    Attributes:
        path: Its folder in the state folder's `chains/`.
        command: The words as they were typed, placeholders and all.
        environ: What every attempt gets.
        limits: Soft and hard limit by name (`NOFILE`), -1 for none.
        options: Words for `gpualert run`.
    """

    path: Path
    created_at: float
    command: tuple[bytes, ...]
    cwd: bytes
    environ: Mapping[bytes, bytes]
    umask: int
    limits: Mapping[str, tuple[int, int]]
    options: tuple[bytes, ...]
    policy: RetryPolicy
    watch: Watch

    @property
    def id(self) -> str:
        """Its name."""
        return self.path.name

    @property
    def state(self) -> Path:
        """The state folder it lies in."""
        return self.path.parent.parent

    @property
    def submits(self) -> bool:
        """Whether an attempt is a job that it hands to Slurm."""
        return os.path.basename(self.command[0]) == b"sbatch"  # noqa: PTH119 (bytes)


@dataclass(frozen=True)
class Started:
    """
    An attempt that was started, as the process wrote it down that became the shim.

    Attributes:
        pid: That process: alive, the attempt is under way.
        exclude: The nodes that were left out.
    """

    number: int
    host: str
    boot_id: str
    pid_ns: str
    pid: int
    pid_starttime: int | None
    started_at: float
    exclude: tuple[str, ...] = ()


@dataclass(frozen=True)
class Ended:
    """
    An attempt that has ended, and what was decided.

    Attributes:
        mark: How far it had got, where `--progress` tells that by a number.
    """

    attempt: Attempt
    decision: RetryDecision
    mark: float | None = None


@dataclass(frozen=True)
class Order:
    """
    That the chain goes on after attempt `after`, whatever was decided then.

    Attributes:
        due_at: Not before.
        forget: What failed up to that attempt counts no more; 0 forgets nothing.
    """

    after: int
    due_at: float
    forget: int = 0


@dataclass(frozen=True)
class Story:
    """
    What has come of a chain so far.

    Attributes:
        stopped: A person stopped it.
        lost: Attempts whose record is empty: the machine went down before it was written out.
    """

    started: Mapping[int, Started] = field(default_factory=dict)
    ended: Mapping[int, Ended] = field(default_factory=dict)
    order: Order | None = None
    stopped: bool = False
    lost: frozenset[int] = frozenset()

    @property
    def last(self) -> int:
        """The number of the last attempt; 0 before the first."""
        return max([*self.started, *self.ended, *self.lost], default=0)

    @property
    def running(self) -> int | None:
        """The attempt that has not ended, as far as anybody wrote down; None where there is none."""
        return self.last if self.last and self.last not in self.ended else None

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """The ended attempts that count."""
        forget = self.order.forget if self.order else 0
        return tuple(attempt for attempt in self.all_attempts if attempt.number > forget)

    @property
    def all_attempts(self) -> tuple[Attempt, ...]:
        """The ended attempts, those before a fresh start too: what was learnt of nodes and needs stays true."""
        return tuple(self.ended[number].attempt for number in sorted(self.ended))

    @property
    def end(self) -> ChainEnd | None:
        """How the chain ended; None where it goes on."""
        if self.running is not None:
            return None
        if self.last and not self.is_ordered and (end := self.ended[self.last].decision.end):
            return end
        return ChainEnd.STOPPED if self.stopped else None

    @property
    def is_ordered(self) -> bool:
        """Whether a person, or a clock that was set back, has overruled when the next attempt is due."""
        return self.order is not None and self.order.after == self.last

    def due_at(self, created_at: float) -> float:
        """Return when the next attempt is due, where the chain goes on."""
        if self.order and self.is_ordered:
            return self.order.due_at
        if not self.last:
            return created_at
        last = self.ended[self.last]
        return last.attempt.ended_at + last.decision.delay_s

    def put_off(self, created_at: float, now: float) -> Order | None:
        """Return an order to wait anew where the clock was set back meanwhile; None where it was not."""
        delay_s = self.ended[self.last].decision.delay_s if self.last else 0.0
        if self.due_at(created_at) - now <= delay_s + _CLOCK_SLACK_S:
            return None
        return Order(self.last, now + delay_s, self.order.forget if self.order else 0)
