"""Which messages are told together, and how a list shows each."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from gpualert.cleaning import Cleaner
from gpualert.model import Run, RunStatus, Start, Verdict
from gpualert.notify.digests import Case, Topic
from gpualert.wording import host_of, outcome, run_name

_NUMBERS = re.compile(r"\d+")
_NAME_LIMIT = 60


def topic_of(run: Run, verdict: Verdict, *, environ: Mapping[str, str] = os.environ) -> Topic:
    """
    Return what the message about a run is told together with.

    The tasks of an array are one topic; other failures are of one topic with those of the same cause, and successes
    with those of the same name, whatever numbers are in it.

    Args:
        environ: The environment we are in: inside an array it says how many tasks there are.
    """
    name, succeeded = shown_name(run), verdict.status is RunStatus.SUCCEEDED
    if run.start and run.start.slurm_array_job_id:
        array = run.start.slurm_array_job_id
        title = f"array {Cleaner(0).text(array)} of {name}"
        return Topic(title, f"array {array}", urgent=not succeeded, expected=_array_size(run.start, environ))
    key = f"success {_NUMBERS.sub('#', name)}" if succeeded else f"cause {cause_of(verdict)}"
    return Topic(f"runs like {name}", key)


def case_of(run: Run, verdict: Verdict, message_id: str, mail_from: str, to: tuple[str, ...], now: float) -> Case:
    """Return the message about a run as a digest lists it; what is shown of it is clean."""
    clean = Cleaner(0)
    root = verdict.evidence[0] if verdict.evidence and run.options.log else None
    return Case(
        message_id=message_id,
        mail_from=mail_from,
        to=to,
        queued_at=now,
        run_path=str(run.path),
        cause=cause_of(verdict),
        outcome=clean.text(outcome(verdict)),
        name=shown_name(run),
        host=clean.text(host_of(run), _NAME_LIMIT),
        why=clean.evidence(root) if root else "",
        task=clean.text(run.start.slurm_array_task_id, _NAME_LIMIT) if run.start else "",
    )


def cause_of(verdict: Verdict) -> str:
    """Return what is equal for the same fault in another run."""
    return f"{verdict.status.value} {verdict.fingerprint or verdict.failure_class}"


def shown_name(run: Run) -> str:
    """Return what a person would call the run, clean and short."""
    clean = Cleaner(0)
    return clean.text(clean.text(run_name(run)), _NAME_LIMIT)  # cleaned before it is cut: half a secret is not seen


def _array_size(start: Start, environ: Mapping[str, str]) -> int:
    """Return how many tasks an array has, as its record or the environment inside it says; 0 where nobody does."""
    inside = environ.get("SLURM_ARRAY_JOB_ID") == start.slurm_array_job_id
    count = start.extra.get("slurm_array_task_count") or (environ.get("SLURM_ARRAY_TASK_COUNT", "") if inside else "")
    return int(count) if re.fullmatch(r"[0-9]{1,9}", count) else 0
