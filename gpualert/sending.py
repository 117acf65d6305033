"""The way of one message out of the house: into the spool of the right state folder, and on from there."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from gpualert.config import Settings
from gpualert.errors import GpualertError
from gpualert.files import make_private_folder
from gpualert.model import Run, Verdict
from gpualert.notify.message import envelope, message_id
from gpualert.notify.outbox import LAST_ANSWER_S, queue_message, send_due
from gpualert.notify.spool import Spool
from gpualert.state import is_fallback, state_of


@dataclass(frozen=True)
class Sender:
    """The message about one run in one state."""

    run: Run
    verdict: Verdict
    settings: Settings

    def queue(self, message: bytes, *, addressed: bool) -> tuple[str, ...]:
        """
        Put the message into the spool, which takes each Message-ID once.

        Args:
            addressed: Whether the settings tell whom it goes to; where they are broken, those of the day it is sent do.

        Returns:
            A sentence for each recipient that is no address.

        Raises:
            OSError: The disk is full.
        """
        sent_by = envelope(self.settings, self.run.options.to)
        queue_message(
            self._state(),
            message,
            message_id=self._message_id(),
            mail_from=sent_by.mail_from if addressed else "",
            to=sent_by.to if addressed else self.run.options.to,
            now=time.time(),
            run_path=self.run.path,
        )
        return sent_by.refused

    def send(self, limit_s: float, *, others_too: bool, last_answer_s: float = LAST_ANSWER_S) -> list[str]:
        """
        Try to deliver it.

        Args:
            limit_s: The longest time for it.
            others_too: Once it is delivered, try those that wait from before as well.
            last_answer_s: The longest time, beyond the limit, for a mail server to accept what it has got.

        Returns:
            What went wrong, a sentence each; nothing when it is delivered.
        """
        ends = time.monotonic() + limit_s
        state, named = self._state(), self._message_id()
        done = send_due(state, self.settings, time.time(), limit_s, named, last_answer_s)
        if named not in done.sent:
            # Where it does not wait any more, another process was quicker.
            return [trouble for trouble in (*done.dead, *done.troubles, why_waiting(state, named)) if trouble]
        left_s = ends - time.monotonic()
        if done.waiting and others_too and left_s > 0:
            send_due(state, self.settings, time.time(), left_s)
        return list(done.troubles)

    def _message_id(self) -> str:
        return message_id(self.run.run_id, self.verdict.status)

    def _state(self) -> Path:
        """Return the state folder whose spool and mail are used: the run's own, unless that is none or a makeshift."""
        state = state_of(self.run.path)
        if self.run.path.parent.name == "runs" and not is_fallback(state):
            return state
        try:
            make_private_folder(self.settings.home / "outbox")
        except OSError:
            return state
        return self.settings.home if os.access(self.settings.home / "outbox", os.W_OK) else state


def why_waiting(state: Path, named: str) -> str:
    """Say why a message is still in the spool; "" when it is not."""
    spool = Spool.of(state)
    for path in spool.states():
        try:
            item = spool.read(path)
        except GpualertError:
            continue
        if item.message_id == named:
            return f"the message waits: {item.last_error or 'another process is sending just now'}"
    return ""
