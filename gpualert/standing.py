"""How a run stands: running, ended, lost, or impossible to say."""

from __future__ import annotations

import fcntl
import os
import time
from dataclasses import dataclass, replace
from enum import Enum

from gpualert.errors import UnsafeFileError
from gpualert.files import open_regular
from gpualert.model import Run, Start
from gpualert.rundir import has_ended
from gpualert.signals.process import Machine, is_alive, this_machine

LAUNCH_GRACE_S = 60.0
# What cannot be seen from here is given up after that time.
UNKNOWN_AFTER_S = 24 * 3600.0
# Names that many machines bear at once say nothing about which machine it was.
_ANYBODY = ("", "localhost", "localhost.localdomain")


class Standing(str, Enum):
    """How a run stands."""

    LAUNCHING = "launching"
    ABANDONED = "abandoned"
    RUNNING = "running"
    ENDED = "ended"
    LOST = "lost"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Observation:
    """
    What can be seen of a run without an exit record; None where it cannot be seen from here.

    Attributes:
        lock_held: Whether somebody holds its lock.  A free lock proves nothing.
        rebooted: Whether its host was started anew since.
        child_alive: Whether the job's own process lives.
        age_s: Since the run directory last changed.
        job_ended: Whether the scheduler says that the job is over; None where it was not asked.
    """

    lock_held: bool | None
    rebooted: bool | None
    child_alive: bool | None
    age_s: float
    job_ended: bool | None = None


def standing(run: Run, *, ask_scheduler: bool = False) -> Standing:
    """
    Look at a run and say how it stands.

    Args:
        ask_scheduler: Ask the scheduler, some seconds long, where nothing else can be said of a job of its own.
    """
    seen = observe(run, this_machine())
    found = judge(run, seen)
    if found is Standing.UNKNOWN and ask_scheduler and run.start and run.start.slurm_job_id:
        from gpualert.signals import slurm  # hardly ever

        found = judge(run, replace(seen, job_ended=slurm.has_ended(run.start)))
    if found in (Standing.LOST, Standing.UNKNOWN) and has_ended(run.path):
        return Standing.ENDED  # its record was written while we looked
    return found


def judge(run: Run, seen: Observation) -> Standing:
    """Say how a run stands by what was seen of it; *unknown* is never read as *gone*."""
    if run.exit:
        return Standing.ENDED
    if seen.lock_held or seen.child_alive:
        return Standing.RUNNING if run.start else Standing.LAUNCHING
    if not run.start:
        return Standing.LAUNCHING if seen.age_s < LAUNCH_GRACE_S else Standing.ABANDONED
    if seen.rebooted or seen.child_alive is False or seen.job_ended:
        return Standing.LOST
    return Standing.UNKNOWN


def observe(run: Run, here: Machine) -> Observation:
    """Look at the lock, the machine and the process of a run."""
    return Observation(
        lock_held=_lock_held(run),
        rebooted=_rebooted(run.start, here) if run.start else None,
        child_alive=_child_alive(run.start, here) if run.start else None,
        age_s=max(0.0, time.time() - run.path.stat().st_mtime),
    )


def same_pids(start: Start, here: Machine) -> bool:
    """Say whether the process ids of a run mean the same processes here."""
    # Kernels before 5.14 do not tell the shell its namespace: there the boot id alone must do.
    return bool(start.boot_id) and start.boot_id == here.boot_id and start.pid_ns in ("", here.pid_ns)


def _rebooted(start: Start, here: Machine) -> bool | None:
    if start.host in _ANYBODY or start.host != here.host or not start.boot_id or not here.boot_id:
        return None
    return start.boot_id != here.boot_id


def _child_alive(start: Start, here: Machine) -> bool | None:
    return is_alive(start.pid, start.pid_starttime) if same_pids(start, here) else None


def _lock_held(run: Run) -> bool | None:
    """Try the lock; None where there is none or the file system has no locks."""
    try:
        fd = open_regular(run.path / "lock")
    except (OSError, UnsafeFileError):
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)  # on NFS an exclusive lock would need a file open for writing
        return False
    except BlockingIOError:
        return True
    except OSError:
        return None
    finally:
        os.close(fd)
