"""
Kills for want of memory, as the job's control group counts them.

Source: Linux, admin-guide/cgroup-v2, memory.events.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from gpualert.model import Run

# A login session, a desktop or cron: whatever else the user does is counted with the job.
# Source: systemd.special(7), user@.service(5), pam_systemd(8).
_SHARED = re.compile(
    r"(?:^|/)(?:session-[^/]*\.scope|user@\d+\.service|user-\d+\.slice|crond?\.service|sshd?\.service)(?:/|$)"
)
# Made for one purpose, below a session too.  Source: systemd-run(1); Slurm, cgroup.conf(5).
_OWN = re.compile(r"(?:^|/)(?:run-[^/]*\.(?:scope|service)|job_\d+[^/]*)(?:/|$)")


def oom_kills(run: Run) -> int | None:
    """
    Return how many processes the kernel killed in the run's control group while it ran.

    Returns:
        None where they were not counted at both ends.
    """
    if not run.start or not run.exit or run.start.cgroup_oom_kill is None or run.exit.cgroup_oom_kill is None:
        return None
    kills = run.exit.cgroup_oom_kill - run.start.cgroup_oom_kill
    return kills if kills >= 0 else None  # a count that fell is another group's: the job was moved


def owns_cgroup(run: Run, others: Iterable[Run]) -> bool:
    """
    Say whether the run had its control group for itself, so that a kill in it was its own.

    Args:
        run: A run that was started.
        others: Other runs known on the same host.
    """
    if not run.start or (_SHARED.search(run.start.cgroup) and not _OWN.search(run.start.cgroup)):
        return False
    return not any(_shared_with(run, other) for other in others)


def _shared_with(run: Run, other: Run) -> bool:
    """Say whether another run was in the same control group at the same time, and neither was part of the other."""
    mine, theirs = run.start, other.start
    if not mine or not theirs or theirs.run_id == mine.run_id:
        return False
    if theirs.parent_run_id == mine.run_id or mine.parent_run_id == theirs.run_id:
        return False
    if (theirs.host, theirs.boot_id, theirs.cgroup) != (mine.host, mine.boot_id, mine.cgroup):
        return False
    my_end = run.exit.ended_at if run.exit else float("inf")
    their_end = other.exit.ended_at if other.exit else float("inf")
    return theirs.started_at < my_end and mine.started_at < their_end
