"""
Resources that follow the cause: what a Snakemake rule asks for again, after an attempt has failed.

    from gpualert.workflow import escalate, excluded_nodes

    rule train:
        resources:
            mem_mb=escalate("mem_mb", 8000),
            gpu_mem_mb=escalate("gpu_mem_mb", 16000, limit=80000),
            batch=escalate("batch", 64, factor=0.5, limit=4),
            slurm_extra=excluded_nodes(),

Each returns what Snakemake calls for every attempt.  They never raise then: where nothing is known of the attempt
before, the resource stays what it was, and a line says so.
"""

from __future__ import annotations

import inspect
import os
import re
import secrets
import sys
import time
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from pathlib import Path
from typing import Any

from gpualert.engine_attempts import (
    FailedAttempt,
    attempts_before,
    blamed_nodes,
    job_key,
    read_attempts,
    times_failed,
)
from gpualert.errors import UsageError
from gpualert.model import Action
from gpualert.nearby import near

__all__ = ["escalate", "excluded_nodes", "job_key", "workflow_id"]

WORKFLOW_VARIABLE, KEY_VARIABLE = "GPUALERT_ENGINE_WORKFLOW", "GPUALERT_ENGINE_KEY"
Resource = Callable[..., Any]

_HOST_MEMORY, _GPU_MEMORY = ("oom_killer", "ram_oom"), ("cuda_oom",)
# What a resource is good against, where nobody says: by its name.
_CLASSES = (
    (re.compile(r"mem(_mb|_mib)?"), _HOST_MEMORY),
    (re.compile(r".*(gpu|vram|cuda|batch).*"), _GPU_MEMORY),
    (re.compile(r"disk(_mb|_mib)?"), ("disk_full",)),
    (re.compile(r"runtime"), ("walltime",)),
    (re.compile(r".*shm.*"), ("shm_exhausted",)),
)
# Snakemake asks milliseconds after a failure, and the record may have to come from another machine's disk.
_WAIT_S, _POLL_S = 1.0, 0.05
# In all: where jobs leave no records, Snakemake must not stand still for each of them.
_patience_s = 10.0
_said: set[tuple[str, int, str]] = set()


def workflow_id(environ: MutableMapping[str, str] = os.environ) -> str:
    """
    Return the id of the workflow that this process drives, and leave it in the environment for all that it starts.

    For the engine's own processes: within a job it would be the id of a workflow that the job starts, a new one.
    """
    if not environ.get(WORKFLOW_VARIABLE) or environ.get(KEY_VARIABLE):
        environ.pop(KEY_VARIABLE, None)
        environ[WORKFLOW_VARIABLE] = time.strftime("%Y%m%dT%H%M%SZ-", time.gmtime()) + secrets.token_hex(4)
    return environ[WORKFLOW_VARIABLE]


def escalate(
    name: str,
    base: float | Resource,
    factor: float = 2,
    on: Iterable[str] | str | None = None,
    limit: float | None = None,
    rule: str = "",
) -> Resource:
    """
    Return a resource that grows (or, with a factor below 1, shrinks) with each attempt that failed for want of it.

    Args:
        name: The resource, as messages call it.
        base: What the first attempt gets; or a function of what Snakemake offers (`wildcards`, `input`, `threads`).
        on: The failure classes that count; by default those that `name` is good against.
        limit: The value never goes beyond it.
        rule: The rule's name, where Snakemake does not give it: in expressions of a profile.

    Raises:
        UsageError: An argument makes no sense.
    """
    classes = _classes(name, on)
    if factor <= 0 or factor == 1:
        raise UsageError(f"escalate({name!r}): factor {factor!r} changes nothing; use 2, or 0.5 to shrink")
    if not callable(base) and type(base) not in (int, float):
        raise UsageError(f"escalate({name!r}): base {base!r} is no number; use a resource with a unit, such as mem_mb")
    workflow_id()

    def resource(wildcards: Mapping[str, object], attempt: int = 1, rulename: str = "", **given: Any) -> Any:
        offered = {"attempt": attempt, "rulename": rulename, **given}
        first = _call(base, wildcards, offered) if callable(base) else base
        if attempt < 2 or type(first) not in (int, float):
            return first
        job = _Job(rule or rulename, wildcards)
        known = job.failures_before(attempt)
        last = known.get(attempt - 1)
        value = _scaled(first, factor, times_failed(known.values(), classes), limit)
        if last and last.failure_class in classes:
            job.say(attempt, name, f"attempt {attempt - 1} ended with {last.failure_class}: now {name} is {value}")
        return value

    return resource


def excluded_nodes(base: str = "", limit: int = 4, rule: str = "") -> Resource:
    """
    Return Slurm options that keep a job off the nodes on which it failed through the node's own fault.

    Args:
        base: Options the rule needs anyway.
        limit: At most so many nodes, the last ones.
        rule: As for `escalate`.

    Raises:
        UsageError: `base` already excludes nodes: of two such options Slurm heeds one.
    """
    if re.search(r"(^|\s)(--exclude|-x)", base):
        raise UsageError(f"excluded_nodes({base!r}): of two such options Slurm heeds one")
    workflow_id()

    def resource(wildcards: Mapping[str, object], attempt: int = 1, rulename: str = "", **_: Any) -> str:
        if attempt < 2:
            return base
        job = _Job(rule or rulename, wildcards)
        nodes = blamed_nodes(job.failures_before(attempt).values(), limit)
        if not nodes:
            return base
        job.say(attempt, "nodes", f"attempt {attempt} keeps off {', '.join(nodes)}")
        return f"{base} --exclude={','.join(nodes)}".strip()

    return resource


class _Job:
    """One job of the workflow, as its rule and wildcards name it."""

    def __init__(self, rule: str, wildcards: Mapping[str, object]) -> None:
        self.rule, self.wildcards = rule, {name: str(value) for name, value in wildcards.items()}
        self.key = job_key(rule, self.wildcards)

    def failures_before(self, attempt: int) -> dict[int, FailedAttempt]:
        """Return what is known of the attempts before this one; what is missing, or in vain, is said once."""
        known, troubles = self._known_before(attempt)
        for trouble in troubles:
            self.say(attempt, trouble, trouble)
        last, ended = known.get(attempt - 1), f"attempt {attempt - 1}"
        if last and last.action == Action.FIX.value:
            self.say(attempt, "", f"{ended} ended with {last.failure_class}, which no further attempt mends")
        elif not last and not _are_gated(known.values()):
            self.say(attempt, "", f"nothing is known of why {ended} failed: its resources stay as they are")
        return known

    def _known_before(self, attempt: int) -> tuple[dict[int, FailedAttempt], tuple[str, ...]]:
        """Read what is known, and what could not be read; the record of the last attempt may come in a moment."""
        global _patience_s
        began_at = time.monotonic()
        wait_s = 0.0 if self._is_said(attempt, "") else min(_WAIT_S, _patience_s)
        while True:
            found, troubles = self._read()
            known = attempts_before(found, attempt)
            if attempt - 1 in known or _are_gated(known.values()):
                return known, troubles
            waited_s = time.monotonic() - began_at
            if waited_s >= wait_s:
                _patience_s -= waited_s
                return known, troubles
            time.sleep(_POLL_S)

    def _read(self) -> tuple[tuple[FailedAttempt, ...], tuple[str, ...]]:
        from gpualert.config import load_settings_or_defaults  # YAML: only once something has failed
        from gpualert.state import state_folders

        settings, _ = load_settings_or_defaults()
        return read_attempts(state_folders(settings.home), workflow_id(), self.key)

    def _is_said(self, attempt: int, about: str) -> bool:
        return (self.key, attempt, about) in _said

    def say(self, attempt: int, about: str, text: str) -> None:
        """Tell the user a thing about an attempt, once, where Snakemake tells its own."""
        if self._is_said(attempt, about):
            return
        _said.add((self.key, attempt, about))
        wildcards = ", ".join(f"{name}={value}" for name, value in self.wildcards.items())
        _say(f"gpualert: rule {self.rule or '?'}{f' ({wildcards})' if wildcards else ''}: {text}")


def _classes(name: str, on: Iterable[str] | str | None) -> frozenset[str]:
    """Return the failure classes that count for a resource; one that is none of ours may be the site's, and is said."""
    if on is None:
        on = next((classes for pattern, classes in _CLASSES if pattern.fullmatch(name)), ())
        if not on:
            raise UsageError(f"escalate({name!r}): name the failure classes that it is good against: on=('cuda_oom',)")
    wanted = frozenset([on] if isinstance(on, str) else on)
    known = {path.stem.partition("-")[2] for path in (Path(__file__).parent / "rules").glob("*.yaml")}
    for unknown in sorted(wanted - known):
        hint = "".join(f"; did you mean '{other}'?" for other in near(unknown, known))
        _say(f"gpualert: escalate({name!r}): '{unknown}' is no failure class of gpualert's own{hint}")
    return wanted


def _are_gated(attempts: Iterable[FailedAttempt]) -> bool:
    """Say whether the shim ends what attempts there are left, which leaves no record of them."""
    return os.environ.get("GPUALERT_GATE") == "stop" and any(one.makes_a_gate for one in attempts)


def _scaled(first: float, factor: float, times: int, limit: float | None) -> float:
    """Return the value after so many failures; a whole number stays one, and does not shrink to 0."""
    value = first * factor**times
    if limit is not None and times:
        value = min(value, max(limit, first)) if factor > 1 else max(value, min(limit, first))
    return max(round(value), 1) if isinstance(first, int) and times else value


def _call(base: Resource, wildcards: Mapping[str, object], offered: Mapping[str, Any]) -> Any:
    """Call a resource function with as much of what Snakemake offers as it takes."""
    parameters = inspect.signature(base).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return base(wildcards, **offered)
    return base(wildcards, **{name: value for name, value in offered.items() if name in parameters})


def _say(text: str) -> None:
    from gpualert.display import visible

    logging = sys.modules.get("snakemake.logging")
    if logging:
        logging.logger.warning(visible(text))
    else:
        print(visible(text), file=sys.stderr)
