"""The way of one message out of the house: into the spool of the right state folder, and on from there."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from gpualert.config import Settings
from gpualert.errors import GpualertError
from gpualert.model import Run, Verdict
from gpualert.notify.channels import channels_of
from gpualert.notify.digests import Case, Digest, Topic
from gpualert.notify.message import Envelope, envelope, message_id
from gpualert.notify.mime import threaded
from gpualert.notify.outbox import LAST_ANSWER_S, queue_message, send_due
from gpualert.notify.spool import Spool
from gpualert.state import telling_state
from gpualert.ticking import is_ticking
from gpualert.topics import case_of, topic_of
from gpualert.wanted import remember_end


@dataclass(frozen=True)
class Sender:
    """
    The message about one run in one state.

    Attributes:
        clock: Returns the time, in seconds since 1970 UTC.
    """

    run: Run
    verdict: Verdict
    settings: Settings
    clock: Callable[[], float] = time.time

    def queue(self, message: bytes, *, addressed: bool) -> tuple[str, ...]:
        """
        Put the message into the spool, which takes each Message-ID once, or among those that are told together.

        Args:
            addressed: Whether the settings tell whom it goes to; where they are broken, those of the day it is sent do.

        Returns:
            A sentence for each recipient that is no address.

        Raises:
            OSError: The disk is full.
        """
        sent_by = envelope(self.settings, self.run.options.to)
        case = self._case(sent_by, addressed=addressed)
        if not self._collect(case):
            queue_message(
                self._state,
                threaded(message, case.thread),
                message_id=case.message_id,
                mail_from=case.mail_from,
                to=case.to,
                now=case.queued_at,
                run_path=self.run.path,
                channels=channels_of(self.settings),
            )
        remember_end(self.run, self.verdict, self.settings, self._state)
        return sent_by.refused

    def skip(self, limit_s: float, *, others_too: bool, last_answer_s: float = LAST_ANSWER_S) -> list[str]:
        """
        End without a message: of an array it may be the task whose end completes the digest of the others.

        Args, Returns: As `send`.
        """
        case = self._case(envelope(self.settings, self.run.options.to), addressed=True)
        if not self._topic.expected or not self._window_s:
            return []
        Digest.on(self._state / "outbox", self._topic, case).skip(self._topic, case, self.clock(), self._window_s)
        return self.send(limit_s, others_too=others_too, last_answer_s=last_answer_s)

    def send(self, limit_s: float, *, others_too: bool, last_answer_s: float = LAST_ANSWER_S) -> list[str]:
        """
        Try to deliver it, and the digests that are due.

        Args:
            limit_s: The longest time for it.
            others_too: Once it is delivered, try those that wait from before as well.
            last_answer_s: The longest time, beyond the limit, for a mail server to accept what it has got.

        Returns:
            What went wrong, a sentence each; nothing when it is delivered, or left to a tick.
        """
        if self.settings.deliver == "tick":
            return []
        ends = time.monotonic() + limit_s
        alone = not is_ticking(self._state)
        named, prompt = self._message_id, alone and not others_too
        done = send_due(self._state, self.settings, self.clock(), limit_s, named, last_answer_s, prompt=prompt)
        if alone and others_too and self.settings.digest.keeper:
            from gpualert.keeper import start_keeper  # processes cost 10 ms

            start_keeper(self._state)
        waits = why_waiting(self._state, named)
        left_s = ends - time.monotonic()
        if not waits and done.waiting and others_too and left_s > 0:
            send_due(self._state, self.settings, self.clock(), left_s)
        return [*done.dead, *done.troubles, *filter(None, [waits])]

    def _case(self, sent_by: Envelope, *, addressed: bool) -> Case:
        mail_from = sent_by.mail_from if addressed else ""
        to = sent_by.to if addressed else self.run.options.to
        case = case_of(self.run, self.verdict, self._message_id, mail_from, to, self.clock())
        chain = self.run.start.chain if self.run.start else ""
        return replace(case, thread=Spool.of(self._state).thread(f"chain {chain}", case.message_id)) if chain else case

    def _collect(self, case: Case) -> bool:
        """Keep the message for a digest; False where it goes by itself."""
        if not self._window_s or Spool.of(self._state).has(case.message_id):
            return False
        digest = Digest.on(self._state / "outbox", self._topic, case)
        return digest.take(self._topic, case, case.queued_at, self._window_s)

    @property
    def _window_s(self) -> float:
        return self.settings.digest.window_s

    @cached_property
    def _topic(self) -> Topic:
        return topic_of(self.run, self.verdict)

    @property
    def _message_id(self) -> str:
        return message_id(self.run.run_id, self.verdict.status)

    @cached_property
    def _state(self) -> Path:
        return telling_state(self.run.path, self.settings.home)


def why_waiting(state: Path, named: str) -> str:
    """Say why a message is still in the spool; "" when it is not."""
    spool = Spool.of(state)
    for path in spool.states([named]):
        try:
            item = spool.read(path)
        except GpualertError:
            continue
        return f"the message waits: {item.last_error or 'another process is sending just now'}"
    return ""
