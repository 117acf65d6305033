"""
Report a group of runs once: wait for those that are missing, within bounds, then judge, tell, queue, send.

Whoever reports last, or has waited long enough, does it for all, under the group's lock; killed anywhere, another
member or a tick goes on.  A group is told once, and once more only where a member fails after its success was told.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpualert.claims import MAX_TRIES, Claims, is_being_done, is_done, is_due, tries
from gpualert.config import Settings, load_settings_or_defaults
from gpualert.errors import ConfigError, LockTimeoutError
from gpualert.findings import Findings, load, save
from gpualert.group import Turn, count_joined, group_paths, is_bad, joined, unreported, whose_turn
from gpualert.group.launcher import membership
from gpualert.group.report import joint, members_of, stand_in
from gpualert.group.verdict import Member, first_member, judge_group
from gpualert.mailing import Mailing, decision_on, note, why_no_mail
from gpualert.model import Run
from gpualert.nesting import is_inner

# Since this post began.  Where the job's end waits, settling and sending need most of the shim's 30 s.
_WAIT_S, _PATIENCE_S = 10.0, 60.0
_PAUSE_S, _LOOK_AGAIN_S = 0.2, 2.0
_LOCK_S, _STAY_S = 1.0, 25.0
# Logs that no reader survived that often are not read again.
_CLASSIFY_TRIES = 2

FAILED, SUCCEEDED = "failed", "succeeded"


@dataclass(frozen=True)
class Seen:
    """
    Who has reported to a group, at one moment.

    Attributes:
        runs: The members that have, by rank.
        size: How many there are; None where nobody knows.
        bad: Whether one of them did not end well.
    """

    runs: tuple[Run, ...]
    size: int | None
    bad: bool

    @property
    def word(self) -> str:
        """What the markers of this state begin with."""
        return FAILED if self.bad else SUCCEEDED

    def turn(self, folder: Path, *, waited: bool) -> Turn:
        """Say what to do about the group."""
        under_way = unreported(folder, self.runs)
        return whose_turn(len(self.runs), self.size, bad=self.bad, waited=waited, is_under_way=lambda: any(under_way))


def look(folder: Path) -> Seen:
    """Look who has reported to a group."""
    runs = tuple(joined(folder))
    sizes = [found.size for run in runs if (found := membership(run)) and found.size]
    return Seen(runs, max(sizes, default=None), any(is_bad(run.path) for run in runs))


def report_group(folder: Path, *, member: Path | None = None, wait: bool = False, began: float | None = None) -> None:
    """
    Report the group in `folder`, where that is due; nothing happens where it is done, or others are to do it.

    Args:
        member: The run directory of the member on whose behalf we are here; None for a tick.
        wait: The job's end waits for us.
        began: Since when it does, on the monotonic clock; now by default.

    Raises:
        OSError: The disk is full.
    """
    began = time.monotonic() if began is None else began
    settings, trouble = load_settings_or_defaults()
    # A member has just reported; a tick goes by the last report that the file system knows of.
    since = began if member else began - _age_s(folder)
    group = _Group(folder, Claims.of(folder), settings, trouble, wait, since)
    ends = time.monotonic() + (_LOCK_S if wait else settings.lock_timeout_s)
    if wait and member and is_bad(member):
        # Where one rank's end is the end of all (srun -K, mpirun), whoever is reporting for us would be killed.
        ends = began + _STAY_S
    while True:
        try:
            with group.claims.held(0):
                return group.go()
        except LockTimeoutError:  # whoever holds it looks again before it leaves
            if group.claims.has(f"{FAILED}-done") or time.monotonic() >= ends:
                return None
            time.sleep(_PAUSE_S)


@dataclass(frozen=True)
class _Group:
    """
    The steps of one group; each is skipped when its marker says that it is done.

    Attributes:
        since: Since when members are waited for, on the monotonic clock.
    """

    folder: Path
    claims: Claims
    settings: Settings
    trouble: ConfigError | None
    wait: bool
    since: float

    def go(self) -> None:
        """Report the group; again where what became known meanwhile changes a success to a failure."""
        while seen := self._ripe():
            self.claims.count("tries")
            if self.trouble:
                note(self.folder, f"{self.trouble}; no message is sent until it is mended")
            self._report(seen)
            self.claims.mark(f"{seen.word}-done")

    def _ripe(self) -> Seen | None:
        """Wait until the group is to be reported, and return who has; None where that is done, or for others to do."""
        ends = self.since + (_WAIT_S if self.wait else _PATIENCE_S)
        while True:
            reported = count_joined(self.folder)
            seen = look(self.folder)
            if self._is_told(seen):
                return None
            turn = seen.turn(self.folder, waited=self._has_waited(seen, ends))
            if turn is Turn.REPORT:
                return seen
            if turn is Turn.WAIT:
                self._wait_for_another(reported, ends)
            elif count_joined(self.folder) == reported:  # else somebody came who may not wait for our lock
                return None

    def _is_told(self, seen: Seen) -> bool:
        return not seen.runs or self.claims.has(f"{FAILED}-done") or self.claims.has(f"{seen.word}-done")

    def _has_waited(self, seen: Seen, ends: float) -> bool:
        """Say whether we have waited long enough: not as long where all have ended, as reports may have been killed."""
        now = time.monotonic()
        if now >= ends or now < self.since + _WAIT_S:
            return now >= ends
        others = list(unreported(self.folder, seen.runs))
        return len(seen.runs) + len(others) == seen.size and all(run.exit for run in others)

    def _wait_for_another(self, count: int, ends: float) -> None:
        ends = min(ends, time.monotonic() + _LOOK_AGAIN_S)
        while count_joined(self.folder) <= count and time.monotonic() < ends:
            time.sleep(_PAUSE_S)

    def _report(self, seen: Seen) -> None:
        members = members_of(self.folder)
        findings = self._findings(members, seen.word)
        told = joint(self.folder, members, findings.verdict)
        decision = decision_on(told.run, findings, told.logs, self.settings)
        mailing = Mailing(told.run, self.claims, seen.word, self.settings, self.trouble, self.wait)
        mailing.ping(findings.verdict, decision)
        if any(map(is_inner, seen.runs)) or why_no_mail(told.run, findings, False, self.settings, decision):
            mailing.skip(findings.verdict)
        else:
            mailing.send(findings, told.logs, ranks=told.ranks, decision=decision)
        mailing.hook(findings.verdict)

    def _findings(self, members: Sequence[Member], word: str) -> Findings:
        if self.claims.has(f"{word}-verdict") and (stored := load(self.folder)):
            return stored
        read_logs = self.claims.count(f"{word}-classify") < _CLASSIFY_TRIES
        findings = judge_group(members, wait=self.wait, read_logs=read_logs)
        save(stand_in(self.folder, members, first_member(members, findings.verdict)), findings)
        self.claims.mark(f"{word}-verdict")
        return findings


def _age_s(folder: Path) -> float:
    """Return how long ago the last member reported, by the clock of the file system; 0 where clocks differ."""
    return max(0.0, time.time() - (folder / "members").stat().st_mtime)


def due_groups(state: Path, now: float | None = None) -> list[Path]:
    """Return the groups of a state folder that are to be reported now and that nobody is at."""
    now = time.time() if now is None else now
    return [path for path in group_paths(state) if _may_be_due(path, now) and _is_due(path, now)]


def _may_be_due(folder: Path, now: float) -> bool:
    """Say whether a group may have something to tell: cheaply, as most have told it long ago."""
    if is_done(folder, f"{FAILED}-done") or is_done(folder, "parked") or not is_due(folder, now):
        return False
    told = folder / "claims" / f"{SUCCEEDED}-done"
    if told.exists() and told.stat().st_mtime > (folder / "members").stat().st_mtime:
        return False
    return not is_being_done(folder)


def is_given_up(folder: Path) -> bool:
    """Say whether a group was tried too often, and nobody was told."""
    told = any(is_done(folder, step) for step in (f"{FAILED}-done", f"{SUCCEEDED}-done", "parked"))
    return not told and tries(folder) >= MAX_TRIES


def _is_due(folder: Path, now: float) -> bool:
    seen = look(folder)
    if not seen.runs or is_done(folder, f"{seen.word}-done"):
        return False
    waited = now - (folder / "members").stat().st_mtime >= _PATIENCE_S
    return seen.turn(folder, waited=waited) is Turn.REPORT
