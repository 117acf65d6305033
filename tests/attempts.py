"""Ended attempts for tests of chains, with defaults: each fails as a network does, an hour after its start."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gpualert.decide import Attempt
from gpualert.model import Action, Domain, RunStatus

HOUR_S = 3600.0
# What a verdict says of some classes: action, domain.
CLASSES = {
    "success": (Action.NONE, Domain.UNKNOWN),
    "network": (Action.RETRY, Domain.SERVICE),
    "storage_io": (Action.RETRY, Domain.SERVICE),
    "nccl": (Action.RETRY, Domain.UNKNOWN),
    "gpu_hardware": (Action.ELSEWHERE, Domain.NODE),
    "node_failure": (Action.ELSEWHERE, Domain.NODE),
    "cuda_oom": (Action.BIGGER, Domain.RESOURCES),
    "oom_killer": (Action.BIGGER, Domain.RESOURCES),
    "walltime": (Action.RESUME, Domain.SCHEDULER),
    "preempted": (Action.RESUME, Domain.SCHEDULER),
    "segfault": (Action.ONCE, Domain.UNKNOWN),
    "unknown": (Action.ONCE, Domain.UNKNOWN),
    "traceback": (Action.FIX, Domain.USER_CODE),
    "file_not_found": (Action.FIX, Domain.USER_CODE),
    "interrupted": (Action.NONE, Domain.USER_CODE),
}


def attempt(failure_class: str = "network", number: int = 1, **changes: Any) -> Attempt:
    """Return an attempt that ended in that class."""
    action, domain = CLASSES[failure_class]
    made = Attempt(
        number=number,
        status=RunStatus.SUCCEEDED if failure_class == "success" else RunStatus.FAILED,
        failure_class=failure_class,
        action=action,
        domain=domain,
        fingerprint=f"print of {failure_class}",
        run_id=f"run-{number}",
        node="n1",
        faulty_node="n1" if action is Action.ELSEWHERE else "",
        duration_s=HOUR_S,
        ended_at=number * HOUR_S,
    )
    return replace(made, **changes)


def attempts(*classes: str | tuple[str, dict[str, Any]]) -> list[Attempt]:
    """Return attempts that ended in those classes, one after the other; a pair changes one."""
    pairs = [(each, {}) if isinstance(each, str) else each for each in classes]
    return [attempt(name, number, **changes) for number, (name, changes) in enumerate(pairs, start=1)]
