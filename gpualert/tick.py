"""What cron runs: finish what was left unfinished, deliver what waits, remove what is old.  Silent when all is well."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gpualert import ledger
from gpualert.chains.gate import Gate
from gpualert.chains.handover import job_id_of
from gpualert.chains.store import remove_over
from gpualert.claims import MAX_TRIES, PARKED, Claims, is_being_done, is_done, is_due, locked, tries
from gpualert.config import Prune, Settings
from gpualert.engine_attempts import remove_old
from gpualert.errors import GpualertError, LockTimeoutError, RunDirError, UnsafeFileError
from gpualert.files import make_private_folder, open_append
from gpualert.finished import Finished
from gpualert.group import group_paths, remove_empty_groups
from gpualert.history import tidy_history
from gpualert.model import Run
from gpualert.places import python_command
from gpualert.prune import prune
from gpualert.rundir import read_run
from gpualert.standing import LAUNCH_GRACE_S, UNKNOWN_AFTER_S, Standing, standing
from gpualert.state import any_run_paths, in_order, run_paths

LIMIT_S = 50.0
STUCK_S = 3600.0
_POST_LIMIT_S = 900.0  # a mail server may take 600 s to accept what it has got; killed before, it would be sent twice
_LOST_GRACE_S = 0.5
_PRUNE_EVERY_S = 3600.0
_MEMORY_S = 90 * 86400.0  # of messages that belong to no run
_PUBLISH_EVERY_S = 600.0  # counting 10,000 runs takes a second
# A scheduler's server is asked seldom, and only about runs that have been silent for a while.
_ASK_EVERY_S = 600.0
_ASK_AFTER_S = 300.0

DONE = "ended-done"
LOST_DONE = "lost-done"


@dataclass(frozen=True)
class Due:
    """A run whose report is to be made, and how the run stands."""

    run: Run
    standing: Standing


def tick(
    folders: Iterable[Path],
    settings: Settings,
    complain: Callable[[str], None],
    limit_s: float = LIMIT_S,
    gate: Gate | None = None,
) -> None:
    """
    Do once what waits in the state folders.

    A second tick on the same folder leaves at once.  No new work is begun after `limit_s`; the next tick goes on.

    Args:
        complain: Takes each line that a person should see; cron mails it.
        gate: Where new attempts of chains wait; without one, until all this is done.
    """
    if gate is None:
        with Gate() as own:
            tick(folders, settings, complain, limit_s, own)
        return
    until = time.monotonic() + limit_s
    folders = list(folders)
    for state in folders:
        if not any((state / kind).is_dir() for kind in ("runs", "chains", "workflows")):
            continue
        try:
            make_private_folder(state / "locks")
            with locked(state / "locks" / "tick", 0):
                _tick(state, folders, settings, complain, until, gate)
                (state / "locks" / "ticked").touch(mode=0o600)  # the doctor looks whether cron runs us
        except LockTimeoutError:
            _complain_if_none_ends(state, complain)
        except OSError as error:
            complain(f"cannot work in state folder '{state}': {error.strerror or error}")


def _complain_if_none_ends(state: Path, complain: Callable[[str], None]) -> None:
    """Complain, once an hour, when another tick has been at it for so long that it will never end."""
    ended, complained = state / "locks" / "ticked", state / "locks" / "complained"
    with suppress(OSError):
        long_ago = time.time() - STUCK_S
        if ended.stat().st_mtime < long_ago and not (complained.exists() and complained.stat().st_mtime > long_ago):
            complained.touch(mode=0o600)
            complain(f"no tick has ended in '{state}' for an hour: some file system or mail server does not answer")


def _tick(
    state: Path,
    folders: Sequence[Path],
    settings: Settings,
    complain: Callable[[str], None],
    until: float,
    gate: Gate,
) -> None:
    _drive(state, folders, settings, complain, until, gate)
    found = _confirmed(find_due(state, complain))
    for due in found:
        if time.monotonic() >= until:
            break
        _post(due.run.path, complain, "--alone", *(["--unknown"] if due.standing is Standing.UNKNOWN else []))
    for group in _due_groups(state, complain):
        if time.monotonic() >= until:
            break
        _post(group, complain)
    _tell_workflows(state, complain, until)
    if found:
        _drive(state, folders, settings, complain, until, gate)  # the chains of what has just been reported
    _deliver(state, settings, complain, until)
    if time.monotonic() < until and _is_time(state, "pruned", _PRUNE_EVERY_S):
        _prune(state, folders, settings, complain)
        for trouble in ledger.news(state):
            complain(trouble)
    is_home = state == folders[0]
    if is_home and settings.stats.prometheus and _is_time(state, "published", _PUBLISH_EVERY_S):
        _publish(folders, settings, complain)


def _drive(
    state: Path,
    folders: Sequence[Path],
    settings: Settings,
    complain: Callable[[str], None],
    until: float,
    gate: Gate,
) -> None:
    """Start what is due of the chains of retries."""
    if (state / "chains").is_dir():
        from gpualert.chains.driver import drive

        drive(state, folders, settings, complain, until, gate=gate)


def _tell_workflows(state: Path, complain: Callable[[str], None], until: float) -> None:
    """Have the summaries of workflows sent whose own process was killed before it could."""
    if not (state / "workflows").is_dir():
        return
    from gpualert.workflow_folder import untold

    for folder in untold(state, time.time()):
        if time.monotonic() < until and is_due(folder.path):
            Claims.of(folder.path).count("tries")
            _start(folder.path, complain, "workflow", "--send", folder.path.name)


def find_due(state: Path, complain: Callable[[str], None], now: float | None = None) -> list[Due]:
    """
    Return the runs of a state folder whose report is missing and may be tried now, oldest first.

    A run that was tried too often, or cannot be read, is complained about once and then left alone.
    """
    now = time.time() if now is None else now
    due: list[Due] = []
    doubtful: list[Run] = []
    handed_over: list[Due] = []
    paths, finished = any_run_paths(state), Finished.of(state)
    for path in in_order(path for path in paths if path not in finished):
        if is_done(path, DONE) or is_done(path, PARKED):
            finished.add(path)
        elif tries(path) >= MAX_TRIES:
            _park(path, f"gave up on the report of run '{path}' after {MAX_TRIES} tries; see its post.log", complain)
        elif is_being_done(path):
            _complain_if_stuck(path, complain, now)
        elif is_due(path, now):
            found = _look(path, complain, now, doubtful)
            (handed_over if found and job_id_of(found[0].run) else due).extend(found)
    finished.save(paths)
    lost = _given_up(state, doubtful, now)
    names = {item.run.path.name for item in lost}
    return [*(item for item in due if item.run.path.name not in names), *lost, *_job_ended(handed_over, now)]


def _job_ended(handed_over: Sequence[Due], now: float) -> list[Due]:
    """Return the attempts of chains whose Slurm job has ended: one call for all."""
    if not handed_over:
        return []
    from gpualert.chains.submission import ended

    runs = ended([(due.run, job_id_of(due.run)) for due in handed_over], now)
    return [due for due in handed_over if due.run in runs]


def _due_groups(state: Path, complain: Callable[[str], None]) -> list[Path]:
    """Return the groups of runs whose report is missing; one that was tried too often is left alone, as a run is."""
    if not (state / "groups").is_dir():
        return []
    from gpualert.group.post import due_groups, is_given_up

    for path in filter(is_given_up, group_paths(state)):
        _park(path, f"gave up on the report of group '{path}' after {MAX_TRIES} tries; see its post.log", complain)
    return due_groups(state)


def _given_up(state: Path, doubtful: Sequence[Run], now: float) -> list[Due]:
    """Return the runs, of those that nobody here can see, whose job the scheduler says has ended: one call for all."""
    starts = [run.start for run in doubtful if run.start]
    if not starts or not _is_time(state, "asked", _ASK_EVERY_S):
        return []
    from gpualert.signals.slurm import ended_runs

    ended = ended_runs(starts, now)
    return [Due(run, Standing.LOST) for run in doubtful if run.run_id in ended]


def _complain_if_stuck(path: Path, complain: Callable[[str], None], now: float) -> None:
    """Complain, once, about a process that works on a report for so long that it will never end."""
    with suppress(OSError, UnsafeFileError):
        if now - (path / "claims" / "tries").stat().st_mtime > STUCK_S and not is_done(path, "stuck"):
            complain(f"the report of run '{path}' does not end: some file system or driver does not answer")
            Claims.of(path).mark("stuck")


def _look(path: Path, complain: Callable[[str], None], now: float, doubtful: list[Run]) -> list[Due]:
    try:
        run = read_run(path)
        state = standing(run)
        if state is Standing.UNKNOWN and _is_doubtful(run, now):
            doubtful.append(run)
        return [Due(run, state)] if _is_wanted(run, state, now) else []
    except (RunDirError, OSError) as error:
        # A young one may still be in the making, and one that is gone was removed meanwhile.
        if path.exists() and now - path.stat().st_mtime > LAUNCH_GRACE_S:
            _park(path, str(error), complain)
        return []


def _is_wanted(run: Run, state: Standing, now: float) -> bool:
    """Say whether a run whose end is not reported yet is to be reported now."""
    if state is Standing.ENDED:
        return True
    if state is Standing.LOST:
        return not is_done(run.path, LOST_DONE)
    if state is not Standing.UNKNOWN or is_done(run.path, "unknown-done"):
        return False
    return now - _last_sign_at(run) > UNKNOWN_AFTER_S


def _is_doubtful(run: Run, now: float) -> bool:
    """Say whether the scheduler is to be asked about a run that nobody here can see."""
    in_slurm = run.start is not None and bool(run.start.slurm_job_id)
    return in_slurm and not is_done(run.path, LOST_DONE) and now - _last_sign_at(run) > _ASK_AFTER_S


def _last_sign_at(run: Run) -> float:
    """Return when a run that cannot be seen from here last started, wrote, or was looked after."""
    signs = [run.start.started_at if run.start else 0.0]
    for path in (run.path, *(stream.path for stream in run.streams if stream.path)):
        with suppress(OSError):
            signs.append(path.stat().st_mtime)
    return max(signs)


def _park(path: Path, reason: str, complain: Callable[[str], None]) -> None:
    """Leave a run alone from now on; the complaint comes first, so that it is never lost."""
    complain(reason)
    with suppress(OSError, UnsafeFileError):
        Claims.of(path).mark(PARKED)


def _confirmed(found: list[Due]) -> list[Due]:
    """
    Leave out the lost runs whose record appears after all.

    Where the file system has no locks, a recorder may be about to write it.
    """
    if any(due.standing is Standing.LOST for due in found):
        time.sleep(_LOST_GRACE_S)
    gone = (Standing.LOST, Standing.UNKNOWN)  # the latter where it is the scheduler who says so
    return [due for due in found if due.standing is not Standing.LOST or standing(due.run) in gone]


def _post(path: Path, complain: Callable[[str], None], *flags: str) -> None:
    """Make the report on a run or a group in another process: whatever a log does to it, the others get theirs."""
    _start(path, complain, "post", *flags, str(path))


def _start(path: Path, complain: Callable[[str], None], *words: str) -> None:
    """Run a command of ours; what it says goes to the post.log in `path`."""
    command = python_command(*words)
    try:
        with os.fdopen(_open_post_log(path), "ab") as stderr:
            nothing = subprocess.DEVNULL
            subprocess.run(command, stdin=nothing, stdout=nothing, stderr=stderr, timeout=_POST_LIMIT_S, check=False)
    except OSError as error:
        complain(f"cannot report '{path}': {error.strerror or error}")
    except subprocess.TimeoutExpired:
        complain(f"the report on '{path}' took longer than {_POST_LIMIT_S:g} s; it is tried again later")


def _open_post_log(run_path: Path) -> int:
    """Open the run's post.log; where it is no file of ours the report is made without it."""
    try:
        return open_append(run_path / "post.log")
    except (OSError, UnsafeFileError):
        return os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)


def _deliver(state: Path, settings: Settings, complain: Callable[[str], None], until: float) -> None:
    """Send what waits; a message that was given up is complained about, one that waits for a server is not."""
    from gpualert.notify.outbox import send_due  # only now: mail costs 30 ms
    from gpualert.notify.spool import Spool

    left_s = until - time.monotonic()
    if left_s > 0:
        send_due(state, settings, time.time(), left_s)
    for reason in Spool.of(state).unsaid():  # by whomever they were given up
        complain(reason)


def _is_time(state: Path, name: str, every_s: float) -> bool:
    """Say whether what is not for each minute was last done long enough ago, and note that it is done now."""
    stamp = state / "locks" / name
    try:
        if time.time() - stamp.stat().st_mtime < every_s:
            return False
    except OSError:
        pass
    stamp.touch(mode=0o600)
    return True


def _prune(state: Path, folders: Sequence[Path], settings: Settings, complain: Callable[[str], None]) -> None:
    try:
        prune_state(state, settings.prune, time.time(), folders)
    except (GpualertError, OSError) as error:
        complain(f"cannot remove old runs in '{state}': {error}")


def _publish(folders: Sequence[Path], settings: Settings, complain: Callable[[str], None]) -> None:
    """Write the statistics where a monitoring system reads them; runs that cannot be read were complained about."""
    from gpualert.census import take_census
    from gpualert.exposition import write_exposition

    now = time.time()
    since = now - settings.stats.since_s
    try:
        write_exposition(Path(settings.stats.prometheus), take_census(folders, since).statistics(since, now))
    except (GpualertError, OSError) as error:
        complain(f"cannot write statistics to '{settings.stats.prometheus}': {error}")


def prune_state(state: Path, policy: Prune, now: float, folders: Iterable[Path] = ()) -> list[Path]:
    """
    Remove the old runs of a state folder, and what the spools remember of their messages.

    Args:
        folders: All state folders: the message about a run in a fallback folder waits in the outbox at home.

    Raises:
        OSError, UnsafeFileError: The history cannot be written.
    """
    from gpualert.notify.memory import forget, runs_told_later

    outboxes = [folder / "outbox" for folder in dict.fromkeys([state, *folders])]
    waiting = {run for outbox in outboxes for run in runs_told_later(outbox)}
    remove_old(state, policy.failed_s, now)
    remove_over(state, now - policy.failed_s)
    removed = prune(state, run_paths([state]), policy, lambda path: _is_finished(path, waiting), now)
    remove_empty_groups(state)
    tidy_history(state, policy.failed_s, now)
    for outbox in outboxes:
        forget(outbox, {path.name for path in removed}, now - _MEMORY_S)
    return removed


def _is_finished(path: Path, waiting: set[str]) -> bool:
    """Say whether all is done about a run: reported and delivered, or a launch that came to nothing."""
    if path.name in waiting:
        return False
    if is_done(path, DONE):
        return True
    try:
        state = standing(read_run(path))
        return state is Standing.ABANDONED or (state in (Standing.LOST, Standing.UNKNOWN) and is_done(path, LOST_DONE))
    except (RunDirError, OSError):
        return False
