"""What the scheduler says of a run: asked in one bounded call, and only about one that it may know more of."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpualert.model import Evidence, Exit, Run, Start

if TYPE_CHECKING:
    from gpualert.signals.slurm import Asked
    from gpualert.signals.slurm_facts import Said

# How a shell reports what a scheduler does to a job: SIGINT, SIGKILL, SIGUSR1, SIGUSR2, SIGTERM.
_STRUCK = frozenset((130, 137, 138, 140, 143))
_LAG_S = 2.0
_LAG_STEP_S = 0.4
_LAST_MOMENTS_S = 30.0


@dataclass(frozen=True)
class Heard:
    """
    What the scheduler says of a run.

    Attributes:
        said: All of it; None where it was not asked, or does not know the job.
        state: The state in which the run ended by its word; "" where it has none of the run's own.
        evidence: What votes on the verdict.
        notes: What became of the attempts before, and whether there is one after.
        not_read: Who could not be asked, and why.
    """

    said: Said | None = None
    state: str = ""
    evidence: tuple[Evidence, ...] = ()
    notes: tuple[str, ...] = ()
    not_read: tuple[str, ...] = ()


def hear(run: Run, oom_kills: int | None) -> Heard:
    """
    Return what the scheduler says of a run; one that ended well in a job's first attempt asks nobody.

    Args:
        oom_kills: Kills for memory in the run's own control group, where they were counted.
    """
    start, ended = run.start, run.exit
    if not start or not start.slurm_job_id:
        return Heard()
    well = ended is not None and ended.status == 0
    # Slurm reads the same count, at the end of the step, whatever the exit status is.
    state = "OUT_OF_MEMORY" if oom_kills else ""
    if well and not start.slurm_restart_count:
        return Heard(state=state)
    said, not_read = _slurm(start, ended, oom_kills)
    if said is None:
        return Heard(state=state, not_read=not_read)
    notes = (*said.notes, *filter(None, [said.again]))
    if well or not _is_its_end(ended, said):
        return Heard(said, state, notes=notes)
    return Heard(said, state or said.state, said.evidence, notes)


def _slurm(start: Start, ended: Exit | None, oom_kills: int | None) -> tuple[Said | None, tuple[str, ...]]:
    """Return what Slurm says of the attempt that a run was, and who could not be asked."""
    from gpualert.signals.slurm import failed_nodes  # only a job of Slurm's pays
    from gpualert.signals.slurm_facts import said_of

    # The accounting lags behind a job that is being ended; one that failed by itself still runs for Slurm.
    struck = ended is not None and not ended.timed_out and not oom_kills and ended.status in _STRUCK
    asked = _ask(start, _LAG_S if struck else 0.0)
    job = asked.jobs.get(start.slurm_job_id)
    if job is None:
        return None, asked.not_read or (f"sacct: it does not know job {start.slurm_job_id}",)
    signal = ended.signal or (ended.status - 128 if ended.status > 128 else None) if ended else None
    attempt = job.attempt(start.slurm_restart_count)
    down = failed_nodes(attempt.nodes) if attempt and attempt.word == "NODE_FAIL" else ()
    return said_of(job, start.slurm_restart_count, start.slurm_step_id, signal, down), ()


def _ask(start: Start, patience_s: float) -> Asked:
    """Ask until the attempt has ended, or for so long."""
    from gpualert.signals.slurm import ask_one

    until = time.monotonic() + patience_s
    while True:
        asked = ask_one(start.slurm_job_id)
        job = asked.jobs.get(start.slurm_job_id)
        attempt = job.attempt(start.slurm_restart_count) if job else None
        if time.monotonic() >= until or (attempt and attempt.has_ended):
            return asked
        time.sleep(_LAG_STEP_S)


def _is_its_end(ended: Exit | None, said: Said) -> bool:
    """Say whether the end of a job was the run's too: what ended long before was not ended by its time limit."""
    return ended is None or said.ended_at is None or ended.ended_at > said.ended_at - _LAST_MOMENTS_S
