"""
Retries that know the cause against blind ones at a fixed interval, on published mixes of causes.

    python tests/experiments/chains.py [SEED...]

Both see the same faults at the same times.  A retry that fails is futile.  The blind chain tries every 11 minutes until
it succeeds or has made its attempts, as the chains of arXiv 2605.09370 did (12 chains, 73 attempts, 4 saved).  Ours is
`decide` itself.  They are compared at equal success: the blind one is given as many attempts as save as many chains as
ours (between two whole numbers some chains get the one, some the other), and with all six attempts.

What is published is how often each cause occurs; how a fault behaves is assumed, and varied:

- always: an unchanged job fails on it each time (a missing file, too little memory);
- outage: it is over after a time, exponential with the mean `outage_s`; who starts before fails at once;
- node: it stays on one node; a retry that may use that node gets it with the chance `same_node`;
- either: no log tells which; always with the chance `always`, else it comes again by chance, `again`, at each try.

A verdict is wrong with the chance `misread`: it is then that of another cause, drawn from the same mix.  (The README's
table: the retry decision was wrong for 8.9, 5.0 and 2.2 % of logs never seen before.)
"""

from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from gpualert.decide import Attempt, RetryPolicy, decide
from gpualert.model import Action, RunStatus
from gpualert.rules import load_rules

SEEDS = (1, 2, 3)
INTERVAL_S = 660.0
MOST_ATTEMPTS = 6
POLICY = RetryPolicy(max_attempts=MOST_ATTEMPTS, interval_s=INTERVAL_S)
_RULES = load_rules().by_id


class Kind(Enum):
    """How a fault behaves when the job is tried again."""

    ALWAYS = "always"
    OUTAGE = "outage"
    NODE = "node"
    CHANCE = "chance"
    EITHER = "either"


@dataclass(frozen=True)
class Cause:
    """One row of a published table: its name there, how often it occurred, our class, and how it behaves."""

    name: str
    count: int
    failure_class: str
    kind: Kind


# Source: Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads", USENIX ATC 2019,
# table 7: the trials of two months on Microsoft's cluster Philly that failed.
PHILLY = (
    Cause("CPU out of memory", 12076, "oom_killer", Kind.ALWAYS),
    Cause("incorrect inputs", 9690, "file_not_found", Kind.ALWAYS),
    Cause("semantic error", 2943, "library_abi", Kind.ALWAYS),
    Cause("core dump", 2912, "segfault", Kind.EITHER),
    Cause("invalid memory access", 2602, "cuda_runtime", Kind.EITHER),
    Cause("model checkpoint error", 1995, "storage_io", Kind.OUTAGE),
    Cause("no signature", 1684, "unknown", Kind.EITHER),
    Cause("CUDA failure", 1484, "cuda_runtime", Kind.EITHER),
    Cause("syntax error", 1132, "syntax_error", Kind.ALWAYS),
    Cause("traceback from crash", 777, "traceback", Kind.ALWAYS),
    Cause("MPI error", 634, "nccl", Kind.OUTAGE),
    Cause("GPU out of memory", 487, "cuda_oom", Kind.ALWAYS),
    Cause("MPI runtime failure", 478, "network", Kind.OUTAGE),
    Cause("permission error", 299, "permission", Kind.ALWAYS),
    Cause("import error", 148, "missing_module", Kind.ALWAYS),
    Cause("job preempted", 147, "preempted", Kind.OUTAGE),
    Cause("CUDA init failed", 141, "cuda_driver", Kind.NODE),
    Cause("model diverged", 84, "nan_loss", Kind.EITHER),
    Cause("CUDA version mismatch", 49, "cuda_arch", Kind.ALWAYS),
    Cause("GPU ECC error", 10, "gpu_hardware", Kind.NODE),
    Cause("output node error", 3, "storage_io", Kind.OUTAGE),
    Cause("cannot load libraries", 1, "missing_module", Kind.ALWAYS),
)

# Source: Llama Team, "The Llama 3 Herd of Models", arXiv 2407.21783, table 5: the unexpected interruptions of 54 days
# of pre-training on 16,384 GPUs.
LLAMA3 = (
    Cause("faulty GPU", 148, "gpu_hardware", Kind.NODE),
    Cause("GPU HBM3 memory", 72, "gpu_hardware", Kind.NODE),
    Cause("software bug", 54, "traceback", Kind.ALWAYS),
    Cause("network switch or cable", 35, "nccl", Kind.OUTAGE),
    Cause("host maintenance", 32, "node_failure", Kind.NODE),
    Cause("GPU SRAM memory", 19, "gpu_hardware", Kind.NODE),
    Cause("GPU system processor", 17, "gpu_hardware", Kind.NODE),
    Cause("NIC", 7, "nccl", Kind.NODE),
    Cause("NCCL watchdog time-outs", 7, "nccl", Kind.OUTAGE),
    Cause("silent data corruption", 6, "nan_loss", Kind.NODE),
    Cause("GPU thermal interface and sensor", 6, "gpu_hardware", Kind.NODE),
    Cause("SSD", 3, "storage_io", Kind.NODE),
    Cause("power supply", 3, "node_failure", Kind.NODE),
    Cause("server chassis", 2, "node_failure", Kind.NODE),
    Cause("IO expansion board", 2, "gpu_hardware", Kind.NODE),
    Cause("dependency", 2, "library_abi", Kind.ALWAYS),
    Cause("CPU", 2, "node_failure", Kind.NODE),
    Cause("system memory", 2, "node_failure", Kind.NODE),
)
MIXES = {"Philly": PHILLY, "Llama 3": LLAMA3}


@dataclass(frozen=True)
class World:
    """What is assumed; see above."""

    outage_s: float = 600.0
    same_node: float = 0.5
    always: float = 0.5
    again: float = 0.1
    misread: float = 0.089


@dataclass(frozen=True)
class Fault:
    """
    What stands between a chain and its success.

    Attributes:
        name: Of the fault, and of its node where it has one.
        seen_as: The cause that the verdict takes it for, at every attempt: the log is the same.
        over_at: When an outage is over, in seconds from the first failure.
        chances: One number from 0 to 1 for each attempt.
    """

    name: str
    kind: Kind
    seen_as: Cause
    over_at: float
    chances: tuple[float, ...]

    def strikes(self, attempt: int, at: float, excluded: Sequence[str], world: World) -> bool:
        """Say whether an attempt that starts `at` seconds after the first failure fails on it."""
        chance = self.chances[attempt % len(self.chances)]
        return {
            Kind.ALWAYS: True,
            Kind.OUTAGE: at < self.over_at,
            Kind.NODE: self.name not in excluded and chance < world.same_node,
            Kind.CHANCE: chance < world.again,
        }[self.kind]


@dataclass(frozen=True)
class Outcome:
    """What a chain, or all of them together, came to."""

    saved: float
    futile: float


def faults(mix: Sequence[Cause], count: int, world: World, seed: int) -> Iterator[Fault]:
    """Draw the faults of so many chains."""
    chance = random.Random(f"{seed} {world}")
    weights = [cause.count for cause in mix]
    for number in range(count):
        cause, other = chance.choices(mix, weights, k=2)
        kind = cause.kind
        if kind is Kind.EITHER:
            kind = Kind.ALWAYS if chance.random() < world.always else Kind.CHANCE
        seen_as = other if chance.random() < world.misread else cause
        over_at = chance.expovariate(1 / world.outage_s)
        yield Fault(f"n{number}", kind, seen_as, over_at, tuple(chance.random() for _ in range(4 * MOST_ATTEMPTS)))


def blind(fault: Fault, world: World, attempts: int) -> Outcome:
    """Try every 11 minutes until it succeeds."""
    for retry in range(1, attempts):
        if not fault.strikes(retry, retry * INTERVAL_S, (), world):
            return Outcome(1, retry - 1)
    return Outcome(0, attempts - 1)


def informed(fault: Fault, world: World, policy: RetryPolicy) -> Outcome:
    """Do what `decide` says after each failure."""
    at, tried = 0.0, [_attempt(fault, 1, 0.0)]
    while True:
        decision = decide(tried, policy, fault.name)
        if not decision.retry:
            return Outcome(0, len(tried) - 1)
        at += decision.delay_s
        if not fault.strikes(len(tried), at, decision.exclude, world):
            return Outcome(1, len(tried) - 1)
        tried.append(_attempt(fault, len(tried) + 1, at))


def _attempt(fault: Fault, number: int, at: float) -> Attempt:
    """Return a failed attempt; the first had run for hours, the next die as they start."""
    rule = _RULES[fault.seen_as.failure_class]
    plain = Attempt(number, RunStatus.FAILED, rule.id, rule.action, rule.domain, fingerprint=fault.name)
    node = fault.name if rule.action is Action.ELSEWHERE and fault.kind is Kind.NODE else ""
    lasted_s = 7200.0 if number == 1 else 60.0
    return replace(plain, node=node, faulty_node=node, duration_s=lasted_s, ended_at=at)


@dataclass(frozen=True)
class Comparison:
    """
    Ours and the blind one on the same chains.

    Attributes:
        attempts: How many the blind one needed on average to save as many.
        equal: What it then came to; with its last attempts where it never saves as many.
        full: What it came to with `MOST_ATTEMPTS`.
    """

    ours: Outcome
    attempts: float
    equal: Outcome
    full: Outcome

    @property
    def cut(self) -> float:
        """Which share of the futile attempts is not made, at equal success."""
        return 1 - self.ours.futile / self.equal.futile

    @property
    def cut_of_full(self) -> float:
        """The same against all attempts."""
        return 1 - self.ours.futile / self.full.futile


def compare(mix: Sequence[Cause], count: int, world: World, seed: int, policy: RetryPolicy = POLICY) -> Comparison:
    """Let both run through the same faults."""
    drawn = list(faults(mix, count, world, seed))
    ours = _sum(informed(fault, world, policy) for fault in drawn)
    by_attempts = [_sum(blind(fault, world, attempts) for fault in drawn) for attempts in range(1, 2 * MOST_ATTEMPTS)]
    full = by_attempts[MOST_ATTEMPTS - 1]
    for attempts, (less, more) in enumerate(itertools.pairwise(by_attempts), start=1):
        if less.saved <= ours.saved < more.saved:
            part = (ours.saved - less.saved) / (more.saved - less.saved)
            equal = Outcome(ours.saved, less.futile + part * (more.futile - less.futile))
            return Comparison(ours, attempts + part, equal, full)
    return Comparison(ours, len(by_attempts), by_attempts[-1], full)


def _sum(outcomes: Iterator[Outcome]) -> Outcome:
    found = list(outcomes)
    return Outcome(sum(each.saved for each in found), sum(each.futile for each in found))


WORLDS = {
    "as assumed": World(),
    "no verdict wrong": World(misread=0.0),
    "outages of 30 min": World(outage_s=1800.0),
    "outages of 2 min": World(outage_s=120.0),
    "node comes again rarely": World(same_node=0.06),
    "node comes always again": World(same_node=1.0),
    "either: 90 % always": World(always=0.9),
    "either: 10 % always": World(always=0.1),
    "chance comes again: 50 %": World(again=0.5),
}


def main(seeds: Sequence[int], chains: int = 2000) -> None:
    """Print both mixes under each set of assumptions."""
    print(f"{chains} chains; futile attempts of ours, and of blind retries that save as many chains or have 6 attempts")
    heads = ("mix", "assumptions", "seed", "saved", "of 6", "futile", "blind", "tries", "cut", "of 6", "cut")
    form = "{:8} {:24} {:>4} {:>6} {:>5} {:>7} {:>7} {:>6} {:>6} {:>7} {:>6}"
    print(form.format(*heads))
    for (name, mix), (title, world), seed in itertools.product(MIXES.items(), WORLDS.items(), seeds):
        found = compare(mix, chains, world, seed)
        ours, equal, full = found.ours, found.equal, found.full
        counts = (f"{ours.futile:g}", f"{equal.futile:.0f}", f"{found.attempts:.2f}", f"{found.cut:.1%}")
        rest = (f"{full.futile:g}", f"{found.cut_of_full:.1%}")
        print(form.format(name, title, seed, f"{ours.saved:g}", f"{full.saved:g}", *counts, *rest))


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1:]] or SEEDS)
