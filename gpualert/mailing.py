"""The message about what has been judged: composed, queued, sent, each once, whatever is killed in between."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpualert.claims import Claims
from gpualert.collect import duration_s
from gpualert.config import Settings
from gpualert.errors import ConfigError, GpualertError, LockTimeoutError, UnsafeFileError
from gpualert.files import open_append, read_regular, write_atomically
from gpualert.findings import Findings
from gpualert.jsonfiles import write_json
from gpualert.model import RetryDecision, Run, Verdict
from gpualert.nesting import is_inner
from gpualert.pinging import alarm_of, ping_end
from gpualert.settle import Logs
from gpualert.state import telling_state
from gpualert.user_hooks import hooks_for, run_hooks
from gpualert.wanted import unwanted
from gpualert.wording import chain_end

if TYPE_CHECKING:
    from gpualert.report import Rank

# Where the scheduler kills what a job leaves behind, the job's end waits for us.
_WAIT_SEND_S = 5.0
_WAIT_LAST_ANSWER_S = 10.0
_SEND_S = 60.0
_WAIT_PING_S, _PING_S = 3.0, 20.0
_WAIT_HOOK_S = 5.0
_MESSAGE_LIMIT_BYTES = 1 << 30


@dataclass(frozen=True)
class Mailing:
    """
    The message about one run, or one group of runs, in one state.

    Attributes:
        run: What it is about.
        prefix: What the markers of its steps begin with: one state has one message.
        trouble: Why the settings cannot be used; nothing is sent then.
        wait: The job's end waits for us.
    """

    run: Run
    claims: Claims
    prefix: str
    settings: Settings
    trouble: ConfigError | None
    wait: bool

    def marker(self, step: str) -> str:
        """Return the marker of a step."""
        return f"{self.prefix}-{step}"

    def send(
        self,
        findings: Findings,
        logs: Logs,
        inner: Sequence[tuple[Run, Verdict]] = (),
        ranks: Sequence[Rank] = (),
        decision: RetryDecision | None = None,
    ) -> None:
        """Compose, queue and send the message; what is done already is not done again."""
        if self.claims.has(self.marker("queued")):
            return  # it is the spool's
        message = self._message(lambda: self._composed(findings, logs, inner, ranks, decision), findings.verdict)
        from gpualert.sending import Sender

        sender = Sender(self.run, findings.verdict, self.settings)
        troubles = [*sender.queue(message, addressed=not self.trouble)]
        self.claims.mark(self.marker("queued"))
        if not self.trouble:  # else nobody knows the channel, and a tick sends it once the settings are mended
            troubles += self._within_limits(sender.send)
        for trouble in troubles:
            note(self.run.path, trouble)

    def ping(self, verdict: Verdict, decision: RetryDecision | None = None) -> None:
        """Tell an outside alarm how it ended; a chain's attempt that is tried again is no end."""
        if not alarm_of(self.run, self.settings) or self.claims.has(self.marker("pinged")):
            return
        if decision and not decision.end:
            return
        if trouble := ping_end(self.run, verdict, self.settings, _WAIT_PING_S if self.wait else _PING_S):
            note(self.run.path, trouble)
        self.claims.mark(self.marker("pinged"))

    def hook(self, verdict: Verdict) -> None:
        """Let programs of the user's own hear of the verdict, once."""
        hooks = hooks_for(self.run, verdict)
        if not hooks or self.claims.has(self.marker("hooked")):
            return
        limit_s = min(self.settings.hook_limit_s, _WAIT_HOOK_S) if self.wait else self.settings.hook_limit_s
        for sentence in run_hooks(hooks, self.run, verdict, limit_s):
            note(self.run.path, sentence)
        self.claims.mark(self.marker("hooked"))

    def skip(self, verdict: Verdict) -> None:
        """End without a message; where it is the last task of an array, those of the others are told now."""
        if not self.trouble and self.run.start and self.run.start.slurm_array_task_id:
            from gpualert.sending import Sender

            for trouble in self._within_limits(Sender(self.run, verdict, self.settings).skip):
                note(self.run.path, trouble)

    def _within_limits(self, send: Callable[..., list[str]]) -> list[str]:
        if self.wait:
            return send(_WAIT_SEND_S, others_too=False, last_answer_s=_WAIT_LAST_ANSWER_S)
        return send(_SEND_S, others_too=True)

    def _message(self, composed: Callable[[], bytes], verdict: Verdict) -> bytes:
        """Return the message, which is on disk before anything is sent."""
        path = self.run.path / "message.eml"
        if self.claims.has(self.marker("message")):
            return read_regular(path, _MESSAGE_LIMIT_BYTES)
        try:
            data = composed()
        except Exception as error:  # a bare message is better than none
            from gpualert import tell

            note(self.run.path, f"the report could not be made: {type(error).__name__}: {error}")
            data = tell.bare_message(self.run, verdict, type(error).__name__, self.settings, time.time()).data
        write_atomically(path, data)
        self.claims.mark(self.marker("message"))
        return data

    def _composed(
        self,
        findings: Findings,
        logs: Logs,
        inner: Sequence[tuple[Run, Verdict]],
        ranks: Sequence[Rank],
        decision: RetryDecision | None,
    ) -> bytes:
        from gpualert import tell  # templates and mail cost 60 ms
        from gpualert.artifacts import to_json

        told = tell.tell(self.run, findings, logs, inner, self.settings, decision, time.time(), ranks)
        write_json(self.run.path / "artifacts.json", to_json(told.artifacts))
        return told.data


def decision_on(run: Run, findings: Findings, logs: Logs, settings: Settings) -> RetryDecision | None:
    """
    Decide whether the chain of retries that a run is in goes on; None where it is in none, or that fails.

    Raises:
        LockTimeoutError: A tick is at the chain; the next one comes back to this.
    """
    if not run.start or not run.start.chain:
        return None
    from gpualert.chains.ending import decide_after

    try:
        return decide_after(run, findings, logs.files, settings.home)
    except LockTimeoutError:
        raise
    except (GpualertError, OSError) as error:  # the report goes on
        note(run.path, f"the chain does not know of this end: {error}")
        return None


def why_no_mail(
    run: Run, findings: Findings, inner_failed: bool, settings: Settings, decision: RetryDecision | None = None
) -> str:
    """
    Say why an ended run sends no message; "" where it sends one.

    Args:
        inner_failed: Whether a run inside it failed, which is worth a message even if it succeeded itself.
        decision: Whether its chain of retries goes on; None where it is in none.
    """
    lasted_s, asked_s = duration_s(run), run.options.longer_than_s
    longer_than_s = settings.longer_than_s if asked_s is None else asked_s
    if is_inner(run):
        return "the run that it is part of reports it"
    if run.engine.get("name") or (run.start and run.start.engine):  # the job itself, or a run inside it
        return "the summary of its workflow reports it"
    if findings.again:
        return findings.again
    if decision and not decision.end:
        return f"its chain tells of it at its end: {decision.reason}"
    if not run.options.mail:
        return "--no-mail"
    if settings.mail == "none":
        return "the setting 'mail' is none"
    if chain_end(decision):
        return ""  # nobody was told of the attempts before
    if lasted_s is not None and lasted_s < longer_than_s:
        return f"it lasted {lasted_s:.1f} s, and only runs longer than {longer_than_s:g} s send a message"
    return unwanted(run, findings.verdict, inner_failed, settings, telling_state(run.path, settings.home))


def note(run_path: Path, trouble: str) -> None:
    """Write down a trouble of our own in the run's post.log; where even that fails nobody can be told."""
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    try:
        fd = open_append(run_path / "post.log")
    except (OSError, UnsafeFileError):
        return
    with os.fdopen(fd, "ab") as file, suppress(OSError):
        file.write(f"{stamp} {trouble}\n".encode("utf-8", "backslashreplace"))
