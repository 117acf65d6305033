"""Sends what waits in the spool: one sender at a time, each message once, what cannot go now later, never for ever."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from gpualert.claims import locked
from gpualert.config import Settings
from gpualert.display import duration, visible
from gpualert.errors import DeliveryError, LockTimeoutError
from gpualert.files import make_private_folder
from gpualert.notify import ChannelError, UnansweredError, maildir
from gpualert.notify.addresses import is_address
from gpualert.notify.closing import close_due
from gpualert.notify.spool import Pause, Queued, Spool, SpoolError

LAST_ANSWER_S = 600.0  # Source: RFC 5321, section 4.5.3.2.6: a server may take that long to accept a message
MAX_AGE_S = 5 * 86400.0  # Source: RFC 5321, section 4.5.4.1: give up after 4 to 5 days
_FIRST_DELAY_S, _LONGEST_DELAY_S, _LONGEST_PAUSE_S = 60.0, 3600.0, 900.0
_SPREAD = 0.1
_LEAST_TIME_S = 0.5  # with less time left than this nothing more is begun


@dataclass(frozen=True)
class Summary:
    """
    What one round of sending did.

    Attributes:
        sent: Message-IDs that were delivered.
        waiting: How many messages wait.
        dead: A sentence for each message that was given up.
        troubles: A sentence for each file, recipient or channel that made trouble.
        busy: Another process is sending; nothing was done.
    """

    sent: tuple[str, ...] = ()
    waiting: int = 0
    dead: tuple[str, ...] = ()
    troubles: tuple[str, ...] = ()
    busy: bool = False


def queue_message(
    state: Path,
    message: bytes,
    *,
    message_id: str,
    mail_from: str,
    to: Sequence[str],
    now: float,
    run_path: Path | None = None,
) -> bool:
    """
    Keep a message until it is delivered.

    Returns:
        Whether it is new; False where this Message-ID waits already, was sent or was given up.

    Raises:
        OSError: The disk is full, or the state folder cannot be written.
    """
    spool = Spool.of(state)
    item = Queued(message_id, mail_from, tuple(to), now, str(run_path or ""), now)
    if spool.has(message_id):
        return False
    spool.add(item, message)
    return True


def send_due(
    state: Path,
    settings: Settings,
    now: float,
    deadline_s: float,
    only: str | None = None,
    last_answer_s: float = LAST_ANSWER_S,
    *,
    prompt: bool = False,
) -> Summary:
    """
    Try to deliver every message that is due, digests among them.

    Args:
        state: The state folder.
        settings: The channel and its settings.
        now: The time, in seconds since 1970 UTC.
        deadline_s: The longest time for all of it; what is left waits.
        only: The Message-ID of the one message to try, beside the digests that are due; None tries all.
        last_answer_s: The longest time, beyond the deadline, for a mail server to accept what it has got.
        prompt: Nobody may come by when the window of a digest closes; see `Digest.is_due`.

    Raises:
        OSError: The spool cannot be written, or its file system has no locks.
    """
    if not (state / "outbox").is_dir():
        return Summary()
    make_private_folder(state / "locks")
    started = time.monotonic()
    closed, troubles = ([], []) if settings.mail == "none" else close_due(state, settings, now, prompt=prompt)
    try:
        with locked(state / "locks" / "outbox", min(deadline_s, settings.lock_timeout_s)):
            round_ = _Round(Spool.of(state), settings, now, started + deadline_s, last_answer_s, troubles=troubles)
            return round_.run(None if only is None else [only, *closed])
    except LockTimeoutError:
        return Summary(troubles=tuple(troubles), busy=True)


@dataclass
class _Round:
    """One round of sending, under the lock."""

    spool: Spool
    settings: Settings
    now: float
    ends: float  # on the monotonic clock
    last_answer_s: float
    sent: list[str] = field(default_factory=list)
    dead: list[str] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)

    def run(self, only: Sequence[str] | None) -> Summary:
        """Send what is due and tell what came of it."""
        self.spool.sweep()
        pause = self.spool.pause()
        if pause.channel == channel_of(self.settings) and self._is_ahead(pause.until, _LONGEST_PAUSE_S):
            self.troubles.append(f"nothing is sent for another {duration(pause.until - self.now)}: {pause.reason}")
        elif self.settings.mail != "none":
            self._send(only, pause)
        return Summary(tuple(self.sent), len(self.spool.states()), tuple(self.dead), tuple(self.troubles))

    def _send(self, only: Sequence[str] | None, pause: Pause) -> None:
        for item in self._due(only):
            if self._left_s() < _LEAST_TIME_S:
                return
            try:
                if not self._works(item, pause):
                    return
            except OSError as error:  # the disk is full, say; its state stays as it was
                self.troubles.append(f"cannot keep the state of message '{item.name}': {error.strerror or error}")

    def _works(self, item: Queued, pause: Pause) -> bool:
        """Try one message; say whether the channel works, so that others are worth a try."""
        try:
            self._try(item)
        except ChannelError as error:
            self.troubles.append(str(error))
            self._back_off(item, error)
            self._pause(pause, error)
            return False
        except SpoolError as error:
            self._set_aside(error, item.name)
        else:
            self.spool.set_pause(None)
        return True

    def _due(self, only: Sequence[str] | None) -> Iterator[Queued]:
        for path in self.spool.states(only):
            try:
                item = self.spool.read(path)
            except SpoolError as error:
                self._set_aside(error, path.stem)
                continue
            if not self._is_ahead(item.next_at, _LONGEST_DELAY_S):
                yield item

    def _is_ahead(self, moment: float, longest_s: float) -> bool:
        """Say whether a moment is still to come; one further off than any delay is left from a clock that was wrong."""
        return self.now < moment <= self.now + longest_s * (1 + _SPREAD)

    def _try(self, item: Queued) -> None:
        """
        Try one message.

        Raises:
            ChannelError: The channel does not work.
            SpoolError: The message cannot be read.
        """
        message = self.spool.message(item)
        try:
            left = self._deliver(item, message)
        except ChannelError:
            raise
        except DeliveryError as error:
            smaller = _without_attachments(message) if error.too_large and not item.reduced else None
            if smaller is not None:
                reduced = replace(item, reduced=True)
                self.spool.replace_message(reduced, smaller)
                self._try(reduced)
            elif error.permanent:
                self._give_up(item, error.reason)
            else:
                self._back_off(item, error)
            return
        self.troubles += left.refused[len(item.refused) :]
        if left.to:
            self._back_off(left, DeliveryError(self.settings.mail, left.last_error))
        else:
            self.spool.claim_sent(left)
            self.sent.append(item.message_id)

    def _deliver(self, item: Queued, message: bytes) -> Queued:
        """Hand a message over; return its state, `to` being those who are to get it later."""
        mail, limit_s = self.settings.mail, self._left_s()
        if mail == "maildir":
            maildir.deliver(self.spool.folder.parent / "mail", message, item.message_id)
            return replace(item, to=())
        if not item.mail_from:
            item = _addressed(item, self.settings)
        to = [address for address in item.to if is_address(address)]
        bad = [f"no mail address: {visible(address)!r}" for address in item.to if address not in to]
        if not to:
            raise DeliveryError(mail, "; ".join(bad) or "there is no recipient", permanent=True)
        if mail == "sendmail":
            from gpualert.notify import sendmail

            sendmail.deliver(self.settings.sendmail.path, item.mail_from, to, message, limit_s)
            return replace(item, to=(), refused=(*item.refused, *bad))
        from gpualert.notify import smtp  # costs 30 ms

        refusals = smtp.deliver(self.settings.smtp, item.mail_from, to, message, limit_s, self.last_answer_s)
        said = [f"{refusal.address}: {refusal.reason}" for refusal in refusals if refusal.permanent]
        later = [refusal for refusal in refusals if not refusal.permanent]
        return replace(
            item,
            to=tuple(refusal.address for refusal in later),
            refused=(*item.refused, *bad, *said),
            last_error="; ".join(f"{refusal.address}: {refusal.reason}" for refusal in later),
        )

    def _back_off(self, item: Queued, error: DeliveryError) -> None:
        """Try a message again later, or never when it has become too old."""
        if self.now - item.queued_at > MAX_AGE_S:
            self._give_up(item, f"not delivered within {duration(MAX_AGE_S)}; the last reason: {error.reason}")
            return
        tries = item.tries + 1
        as_after = 20 if isinstance(error, UnansweredError) else tries  # it may have arrived: the longest delay at once
        next_at = self.now + _delay_s(item.name, as_after, _LONGEST_DELAY_S)
        self.spool.update(replace(item, tries=tries, next_at=next_at, last_error=error.reason))

    def _give_up(self, item: Queued, reason: str) -> None:
        """Put a message aside for good, and say so."""
        self.spool.update(replace(item, tries=item.tries + 1, last_error=reason))
        self.spool.park(item.name)
        about = Path(item.run_path).name or item.message_id
        self.dead.append(f"the message about '{about}' to {', '.join(map(visible, item.to))} was given up: {reason}")

    def _pause(self, pause: Pause, error: ChannelError) -> None:
        channel = channel_of(self.settings)
        times = pause.times + 1 if pause.channel == channel else 1
        until = self.now + _delay_s(channel, times, _LONGEST_PAUSE_S)
        self.spool.set_pause(Pause(channel, until, times, str(error)))

    def _set_aside(self, error: SpoolError, name: str) -> None:
        if error.lasting:
            self.spool.park(name)
            self.dead.append(f"{error}; put aside in '{self.spool.folder / 'dead'}'")
        else:
            self.troubles.append(str(error))

    def _left_s(self) -> float:
        return self.ends - time.monotonic()


def channel_of(settings: Settings) -> str:
    """Return what tells one channel from another: a pause ends when the settings that caused it change."""
    if settings.mail == "smtp":
        smtp = settings.smtp
        return f"smtp {smtp.security} {smtp.user}@{smtp.host}:{smtp.port}"
    return f"sendmail {settings.sendmail.path}" if settings.mail == "sendmail" else settings.mail


def _delay_s(key: str, tries: int, longest_s: float) -> float:
    """Return the wait after that many tries: doubling, up to `longest_s`, and spread by a fifth so that none gather."""
    spread = hashlib.sha256(f"{key} {tries}".encode()).digest()[0] / 255  # the same when asked again
    return min(_FIRST_DELAY_S * 2.0 ** min(tries - 1, 20), longest_s) * (1 - _SPREAD + 2 * _SPREAD * spread)


def _addressed(item: Queued, settings: Settings) -> Queued:
    """Return a message that was queued while the settings were broken with the sender and recipients of today's."""
    from gpualert.notify.message import envelope  # costs 20 ms

    sent_by = envelope(settings, item.to)
    return replace(item, mail_from=sent_by.mail_from, to=sent_by.to)


def _without_attachments(message: bytes) -> bytes | None:
    from gpualert.notify.mime import without_attachments  # costs 20 ms

    return without_attachments(message)
