"""
Report one ended run: read, collect, classify, decide, tell, queue, send; what belongs together is told together.

Each step leaves its result in the run directory and a marker in `claims/`.  Killed anywhere, the next try goes on from
there; two at once send one message, because each works under the run's lock.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpualert.chains.handover import job_id_of
from gpualert.claims import Claims
from gpualert.config import Settings, load_settings_or_defaults
from gpualert.errors import ConfigError, GpualertError, LockTimeoutError
from gpualert.findings import Findings, find_out, load, save
from gpualert.group import group_of, is_group, join, own_membership, point_to
from gpualert.mailing import Mailing, decision_on, note, why_no_mail
from gpualert.model import Action, RetryDecision, Run
from gpualert.nesting import is_inner
from gpualert.notice import write_notice
from gpualert.rundir import read_run
from gpualert.settle import LIMIT_S, Logs, settle
from gpualert.standing import Standing, standing

if TYPE_CHECKING:
    from gpualert.chains.submission import Told

# Where the scheduler kills what a job leaves behind, the job's end waits for us.
_WAIT_SETTLE_S = 4.0
_SHIM_ONLY = (".live", ".stdout", ".stderr", ".stdout.cap", ".stderr.cap", ".wait", ".modes")
# A run whose classification did not survive that many tries is reported without it.
_CLASSIFY_TRIES = 2


class NotEndedError(GpualertError):
    """
    A run cannot be reported yet.

    Attributes:
        path: The run directory.
        standing: How it stands.
    """

    def __init__(self, path: Path, standing: Standing) -> None:
        self.path, self.standing = path, standing
        super().__init__(f"cannot report run '{path}': it is {standing.value}")


def post(path: Path, *, wait: bool = False, until_verdict: bool = False, unknown: bool = False) -> None:
    """
    Report the run, or the group of runs, in `path`, and the group that the run belongs to.

    Args, Raises:
        As `report_run` and `report_group`.
    """
    began = time.monotonic()
    group = path if is_group(path) else report_run(path, wait=wait, until_verdict=until_verdict, unknown=unknown)
    if group:
        from gpualert.group.post import report_group

        report_group(group, member=None if group == path else path, wait=wait, began=began)


def report_run(
    path: Path,
    *,
    wait: bool = False,
    until_verdict: bool = False,
    unknown: bool = False,
    environ: Mapping[str, str] | None = None,
) -> Path | None:
    """
    Report the run in `path`; nothing happens where that is done, or another process is at it.

    Args:
        wait: The job's end waits for us: be quick, and leave to a tick what takes long.
        until_verdict: Stop when `verdict.json` is written.
        unknown: Report the run although nobody can say whether it still runs.
        environ: The job's environment; None where it is not known.

    Returns:
        The group that it belongs to and that is to be reported now; None for a run that stands alone.

    Raises:
        RunDirError: The run directory cannot be trusted.
        NotEndedError: The run is under way, or was never started.
        OSError: The disk is full.
    """
    run = read_run(path)
    state = standing(run, ask_scheduler=True)
    if state not in (Standing.ENDED, Standing.LOST, *([Standing.UNKNOWN] if unknown else [])):
        raise NotEndedError(path, state)
    told = None
    if job_id := job_id_of(run):
        from gpualert.chains.submission import look_at

        if not (told := look_at(run, job_id)):
            return None  # a chain's attempt ends when the job ends that it has handed to Slurm
    settings, trouble = load_settings_or_defaults()
    claims = Claims.of(path)
    try:
        with claims.held(min(settings.lock_timeout_s, 1.0) if wait else settings.lock_timeout_s):
            steps = _Steps(told.run if told else run, state, claims, settings, trouble, wait, environ, told)
            if not claims.has(steps.marker("done")):
                if trouble:
                    note(path, f"{trouble}; the defaults are used, and no message is sent until it is mended")
                steps.go(until_verdict)
            return None if until_verdict or told else group_of(run)
    except LockTimeoutError:
        return None  # whoever holds it does all of this


@dataclass(frozen=True)
class _Steps:
    """
    The steps of one run in one state; each is skipped when its marker says that it is done.

    Attributes:
        told: What became of the Slurm job that the run handed over, where that is what is reported.
    """

    run: Run
    standing: Standing
    claims: Claims
    settings: Settings
    trouble: ConfigError | None
    wait: bool
    environ: Mapping[str, str] | None
    told: Told | None = None

    def marker(self, step: str) -> str:
        """Return the marker of a step: a run reported as lost is reported again when it turns out to have ended."""
        return f"{self.standing.value}-{step}"

    def go(self, until_verdict: bool) -> None:
        """Do what is not done yet."""
        self.claims.count("tries")
        clear_away(self.run.path)
        logs = self.told.logs if self.told else settle(self.run, _WAIT_SETTLE_S if self.wait else LIMIT_S)
        findings = self._findings(logs)
        if until_verdict:
            return
        if not self._joins_a_group():  # all of a group have one message
            self._mail(findings, logs, decision_on(self.run, findings, logs, self.settings))
            self._mailing.hook(findings.verdict)
        self.claims.mark(self.marker("done"))

    def _joins_a_group(self) -> bool:
        mine = None if self.told or self.run.engine.get("name") else own_membership(self.run)
        if not mine:
            return False
        try:
            point_to(self.run, join(self.run, mine))
        except OSError as error:  # a message from each is better than none
            note(self.run.path, f"it cannot be told together with '{mine.group}': {error.strerror or error}")
            return False
        return True

    def _findings(self, logs: Logs) -> Findings:
        if self.claims.has(self.marker("verdict")) and (stored := load(self.run.path)):
            return stored
        read_logs = self.claims.count(self.marker("classify")) < _CLASSIFY_TRIES
        if self.told:
            findings = self.told.findings
        else:
            findings = find_out(self.run, self.standing, logs, self.environ, read_logs=read_logs)
        save(self.run, findings)
        write_notice(self.run.path, findings.verdict)
        self._blame(findings)
        self._record_attempt(findings)
        self.claims.mark(self.marker("verdict"))
        return findings

    def _blame(self, findings: Findings) -> None:
        """Write a node's fault into the ledger; where that fails the report goes on."""
        if findings.verdict.action is not Action.ELSEWHERE:
            return
        from gpualert.ledger import blame_for

        ended_at = self.run.exit.ended_at if self.run.exit else time.time()
        try:
            blame_for(self.run, findings.verdict, findings.gpu_allotted, ended_at)
        except (GpualertError, OSError) as error:
            note(self.run.path, f"no node was blamed: {error}")

    def _record_attempt(self, findings: Findings) -> None:
        """Leave the cause to the next attempt of an engine's job; where that fails the report goes on."""
        if not self.run.engine.get("name"):
            return
        from gpualert.engine_attempts import record_attempt

        try:
            record_attempt(self.run, findings.verdict, findings.gpu_allotted)
        except (GpualertError, OSError) as error:
            note(self.run.path, f"the job's next attempt will not know of this one: {error}")

    def _mail(self, findings: Findings, logs: Logs, decision: RetryDecision | None) -> None:
        """Send the message, where there is to be one."""
        if self.claims.has(self.marker("queued")):
            return  # it is the spool's
        from gpualert import tell  # templates and mail cost 60 ms

        inner = [] if is_inner(self.run) else tell.failed_inside(self.run)
        self._mailing.ping(findings.verdict, decision)
        if why_no_mail(self.run, findings, bool(inner), self.settings, decision):
            self._mailing.skip(findings.verdict)
        else:
            self._mailing.send(findings, logs, inner, decision=decision)

    @property
    def _mailing(self) -> Mailing:
        return Mailing(self.run, self.claims, self.standing.value, self.settings, self.trouble, self.wait)


def clear_away(run_path: Path) -> None:
    """Remove what only the running shim needed; it would cost each job a program to do so itself."""
    for name in _SHIM_ONLY:
        with suppress(OSError):
            (run_path / name).unlink()
