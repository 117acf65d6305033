"""
The failed attempts of a workflow engine's jobs: one line each, found without looking at any run directory.

`workflows/<workflow>/<key>.jsonl` holds the attempts of one job, and `gates/<workflow>/<key>` the exit status of one
that only a person can mend: the shim reads it.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from gpualert.blame import NodeNameError, blamed, check_node
from gpualert.errors import UnsafeFileError
from gpualert.files import make_private_folder, write_atomically
from gpualert.jsonfiles import append_line, read_lines
from gpualert.model import SCHEMA, Action, Confidence, Run, RunStatus, Verdict
from gpualert.state import state_of

_WORKFLOWS, _GATES = "workflows", "gates"
# One that is under way may have written nothing into its folder since it began.
_LONGEST_WORKFLOW_S = 30 * 86400.0
# What the shim takes for a gate's name, too.
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")


@dataclass(frozen=True)
class FailedAttempt:
    """
    One attempt of an engine's job that failed.

    Attributes:
        attempt: Its number from 1; 0 where the engine did not say.
        node: Where it ran, or "".
        first_node: Where its first failing rank ran, or "".
        blamed: The node whose own fault it was, or "".
        exit_status: None where nobody saw the end.
    """

    run_id: str
    attempt: int
    status: str
    failure_class: str
    action: str
    confidence: str
    node: str
    first_node: str
    blamed: str
    fingerprint: str
    exit_status: int | None

    @property
    def makes_a_gate(self) -> bool:
        """Whether only a person can mend what ended it, beyond doubt."""
        return (self.action, self.confidence) == (Action.FIX.value, Confidence.HIGH.value) and bool(self.exit_status)


# An attribute's name in a line; `class` as in all files.
_ON_DISK = {field.name: field.name for field in fields(FailedAttempt)} | {"failure_class": "class"}


def job_key(rule: str, wildcards: Mapping[str, object]) -> str:
    """Return the name of a job within its workflow: 16 hex digits, equal for equal rule and wildcards."""
    words = [rule, *(f"{name}={value}" for name, value in sorted(wildcards.items()))]
    return hashlib.sha256(json.dumps(words).encode("ascii")).hexdigest()[:16]


def record_attempt(run: Run, verdict: Verdict, gpu_allotted: bool | None) -> None:
    """
    Write down that an engine's job failed, and why; nothing where it did not, or no engine started it.

    Repeating it does no harm: the last line about a run counts.

    Args:
        gpu_allotted: Whether the run had a GPU to use; None where that is not known.

    Raises:
        OSError, UnsafeFileError: It cannot be written; the next attempt then runs unchanged.
    """
    workflow, key = run.engine.get("workflow", ""), run.engine.get("key", "")
    if verdict.status not in (RunStatus.FAILED, RunStatus.LOST) or not _are_names(workflow, key):
        return
    state = state_of(run.path)
    folder = state / _WORKFLOWS / workflow
    make_private_folder(folder)
    attempt = _attempt(run, verdict, gpu_allotted)
    named = {"schema": SCHEMA, "rule": run.engine.get("rule", ""), "wildcards": run.engine.get("wildcards", "")}
    values = {key: getattr(attempt, name) for name, key in _ON_DISK.items()}
    append_line(folder / f"{key}.jsonl", {**named, **values})
    if attempt.makes_a_gate:
        make_private_folder(state / _GATES / workflow)
        write_atomically(state / _GATES / workflow / key, f"{attempt.exit_status}\n".encode())


def _are_names(workflow: str, key: str) -> bool:
    return all(_NAME.fullmatch(name) for name in (workflow, key))


def _attempt(run: Run, verdict: Verdict, gpu_allotted: bool | None) -> FailedAttempt:
    blame = None
    with suppress(NodeNameError):
        blame = blamed(run, verdict, gpu_allotted, 0.0)
    return FailedAttempt(
        run_id=run.run_id,
        attempt=_number(run.engine.get("attempt", "")),
        status=verdict.status.value,
        failure_class=verdict.failure_class,
        action=verdict.action.value,
        confidence=verdict.confidence.value,
        node=(run.start.node or run.start.host) if run.start else "",
        first_node=verdict.first_node,
        blamed=blame.node if blame else "",
        fingerprint=verdict.fingerprint,
        exit_status=run.exit.status if run.exit else None,
    )


def _number(text: str) -> int:
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else 0


def read_attempts(
    folders: Iterable[Path], workflow: str, key: str
) -> tuple[tuple[FailedAttempt, ...], tuple[str, ...]]:
    """
    Return the failed attempts of a job, oldest first, and what of them could not be read.

    Args:
        folders: The state folders to look in.
    """
    found: dict[str, FailedAttempt] = {}
    troubles: list[str] = []
    if not _are_names(workflow, key):
        return (), ()
    for state in folders:
        path = state / _WORKFLOWS / workflow / f"{key}.jsonl"
        with suppress(OSError):
            list(path.parent.iterdir())  # NFS then asks the server what is in there, and not its own memory
        try:
            for number, line in read_lines(path):
                attempt = _from_line(line) if line else None
                if attempt:
                    found[attempt.run_id] = attempt
                else:
                    troubles.append(f"line {number} of '{path}' is no record")
        except (OSError, UnsafeFileError) as error:
            troubles.append(f"cannot read '{path}': {getattr(error, 'strerror', None) or error}")
    return tuple(found.values()), tuple(troubles)


def _from_line(line: Mapping[str, Any]) -> FailedAttempt | None:
    """Return what a line holds; None where a value is missing, of another type, or no node's name."""
    values: dict[str, Any] = {name: line.get(key) for name, key in _ON_DISK.items()}
    if type(values["attempt"]) is not int or type(values["exit_status"]) not in (int, type(None)):
        return None
    if any(type(value) is not str for name, value in values.items() if name not in ("attempt", "exit_status")):
        return None
    try:
        check_node(str(values["blamed"]) or "none", "")  # it becomes an option of sbatch
    except NodeNameError:
        return None
    return FailedAttempt(**values)


def attempts_before(attempts: Collection[FailedAttempt], attempt: int) -> dict[int, FailedAttempt]:
    """
    Return what is known of the attempts before number `attempt`, by their numbers, in order.

    Of several runs within one attempt (a rule's own `retries:` nest, a tick judges once more) the last counts.
    Attempts whose number the engine did not say are counted as they came.
    """
    numbered = {one.attempt: one for one in attempts if one.attempt > 0}
    unnumbered = [one for one in attempts if one.attempt <= 0]
    free = (number for number in range(1, attempt) if number not in numbered)
    numbered |= dict(zip(free, unnumbered, strict=False))
    return {number: one for number, one in sorted(numbered.items()) if number < attempt}


def times_failed(attempts: Iterable[FailedAttempt], classes: Iterable[str]) -> int:
    """Return how many of the attempts failed with one of the classes."""
    wanted = frozenset(classes)
    return sum(one.failure_class in wanted for one in attempts)


def blamed_nodes(attempts: Iterable[FailedAttempt], limit: int) -> list[str]:
    """Return the nodes whose own fault it was, each once, the last `limit` of them."""
    return list(dict.fromkeys(one.blamed for one in attempts if one.blamed))[-limit:]


def remove_old(state: Path, age_s: float, now: float) -> None:
    """Remove the records and gates of workflows in which nothing has failed for `age_s`, 30 days at least."""
    age_s = max(age_s, _LONGEST_WORKFLOW_S)
    for folder in (path for kind in (_WORKFLOWS, _GATES) for path in _folders(state / kind)):
        with suppress(OSError):
            if now - max(path.lstat().st_mtime for path in (folder, *folder.iterdir())) > age_s:
                shutil.rmtree(folder, ignore_errors=True)


def _folders(folder: Path) -> list[Path]:
    try:
        return [path for path in folder.iterdir() if path.is_dir() and not path.is_symlink()]
    except OSError:
        return []
