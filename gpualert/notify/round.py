"""One round of sending: what is due goes, what cannot go now goes later, never for ever."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from gpualert.config import Settings
from gpualert.display import duration, visible
from gpualert.errors import DeliveryError
from gpualert.notify import ChannelError, UnansweredError
from gpualert.notify.channels import hand_over, key_of
from gpualert.notify.spool import SERVICES, Pace, Pause, Queued, Spool, SpoolError

LAST_ANSWER_S = 600.0  # Source: RFC 5321, section 4.5.3.2.6: a server may take that long to accept a message
MAX_AGE_S = 5 * 86400.0  # Source: RFC 5321, section 4.5.4.1: give up after 4 to 5 days
_FIRST_DELAY_S, _LONGEST_DELAY_S, _LONGEST_PAUSE_S = 60.0, 3600.0, 900.0
_SPREAD = 0.1
_LEAST_TIME_S = 0.5  # with less time left than this nothing more is begun
_MINUTE_S = 60.0


@dataclass
class Round:
    """
    One round of sending, under the lock.

    Attributes:
        now: The time at its start, in seconds since 1970 UTC.
        started, ends: On the monotonic clock.
        sent: Message-IDs that were delivered; by a channel beside the first they count as well.
        dead: A sentence for each message that was given up.
        troubles: A sentence for each file, recipient or channel that made trouble.
        stopped: Channels that do not work in this round.
        recent: When messages went within the last minute; None until that is read.
    """

    spool: Spool
    settings: Settings
    now: float
    started: float
    ends: float
    last_answer_s: float
    sent: list[str] = field(default_factory=list)
    dead: list[str] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)
    stopped: set[str] = field(default_factory=set)
    recent: tuple[float, ...] | None = None

    def run(self, only: Sequence[str] | None) -> int:
        """Send what is due; return how many messages wait then."""
        self.spool.sweep()
        self.stopped = {channel for channel in ("", SERVICES) if not self._is_open(channel)}
        for item in self._due(only):
            if self._left_s() < _LEAST_TIME_S or not self._has_pace(item):
                break
            self._send(item)
        return len(self.spool.states())

    def _is_open(self, channel: str) -> bool:
        """Say whether a channel may be tried now."""
        if self.settings.mail == "none":
            return False
        pause = self.spool.pause(channel)
        if pause.channel == key_of(self.settings, channel) and self._is_ahead(pause.until, _LONGEST_PAUSE_S):
            self.troubles.append(f"nothing is sent for another {duration(pause.until - self.now)}: {pause.reason}")
            return False
        return True

    def _due(self, only: Sequence[str] | None) -> Iterator[Queued]:
        for path in self.spool.states(only):
            if {"", SERVICES} <= self.stopped:
                return
            try:
                item = self.spool.read(path)
            except SpoolError as error:
                self._set_aside(error, path.stem)
                continue
            if item.channel not in self.stopped and not self._is_ahead(item.next_at, _LONGEST_DELAY_S):
                yield item

    def _is_ahead(self, moment: float, longest_s: float) -> bool:
        """Say whether a moment is still to come; one further off than any delay is left from a clock that was wrong."""
        return self.now < moment <= self.now + longest_s * (1 + _SPREAD)

    def _has_pace(self, item: Queued) -> bool:
        """Say whether another message may go within this minute, and count it; what goes to our maildir is free."""
        most = self.settings.messages_per_minute
        if not most or (self.settings.mail == "maildir" and not item.channel):
            return True
        now = self.now + time.monotonic() - self.started
        if self.recent is None:
            self.recent = self.spool.pace().times
        self.recent = tuple(at for at in self.recent if abs(now - at) < _MINUTE_S)  # clocks differ a little
        if len(self.recent) >= most:
            self.troubles.append(f"messages_per_minute is {most}: the rest is sent later")
            return False
        self.recent = (*self.recent, now)
        with suppress(OSError):  # on a full disk we keep to the rate alone
            self.spool.set_pace(Pace(self.recent))
        return True

    def _send(self, item: Queued) -> None:
        """Try one message; where its channel turns out not to work, others of it are not tried."""
        try:
            self._try(item)
            self.spool.set_pause(None, item.channel)
        except ChannelError as error:
            self.troubles.append(str(error))
            self.stopped.add(item.channel)
            self._back_off(item, error)
            self._pause(item.channel, error)
        except SpoolError as error:
            self._set_aside(error, item.name)
        except OSError as error:  # the disk is full, say; its state stays as it was
            self.troubles.append(f"cannot keep the state of message '{item.name}': {error.strerror or error}")

    def _try(self, item: Queued) -> None:
        """
        Try one message.

        Raises:
            ChannelError: The channel does not work.
            SpoolError: The message cannot be read.
        """
        message = self.spool.message(item)
        try:
            left = hand_over(item, message, self.settings, self.spool.folder.parent, self._left_s(), self.last_answer_s)
        except ChannelError:
            raise
        except DeliveryError as error:
            self._refused(item, message, error)
            return
        self.troubles += left.refused[len(item.refused) :]
        if left.to:
            self._back_off(left, DeliveryError(key_of(self.settings, item.channel), left.last_error))
        else:
            self.spool.claim_sent(left)
            self.sent.append(item.message_id)

    def _refused(self, item: Queued, message: bytes, error: DeliveryError) -> None:
        smaller = _smaller(message, item) if error.too_large else None
        if smaller is not None:
            reduced = replace(item, reduced=True, bare=item.reduced)
            self.spool.replace_message(reduced, smaller)
            self._try(reduced)
        elif error.permanent:
            self._give_up(item, error.reason)
        else:
            self._back_off(item, error)

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
        about = Path(item.run_path).name or item.message_id
        self.spool.update(replace(item, tries=item.tries + 1, last_error=reason))
        sentence = f"the message about '{about}' to {', '.join(map(visible, item.to))} was given up: {reason}"
        self.spool.park(item.name, sentence)
        self.dead.append(sentence)

    def _pause(self, channel: str, error: ChannelError) -> None:
        before, key = self.spool.pause(channel), key_of(self.settings, channel)
        times = before.times + 1 if before.channel == key else 1
        until = self.now + _delay_s(key, times, _LONGEST_PAUSE_S)
        self.spool.set_pause(Pause(key, until, times, str(error)), channel)

    def _set_aside(self, error: SpoolError, name: str) -> None:
        if not error.lasting:
            self.troubles.append(str(error))
            return
        sentence = f"{error}; put aside in '{self.spool.folder / 'dead'}'"
        self.spool.park(name, sentence)
        self.dead.append(sentence)

    def _left_s(self) -> float:
        return self.ends - time.monotonic()


def _delay_s(key: str, tries: int, longest_s: float) -> float:
    """Return the wait after that many tries: doubling, up to `longest_s`, and spread by a fifth so that none gather."""
    spread = hashlib.sha256(f"{key} {tries}".encode()).digest()[0] / 255  # the same when asked again
    return min(_FIRST_DELAY_S * 2.0 ** min(tries - 1, 20), longest_s) * (1 - _SPREAD + 2 * _SPREAD * spread)


def _smaller(message: bytes, item: Queued) -> bytes | None:
    """Return a message with less in it than what was refused: no attachments, then the least; None at the end."""
    from gpualert.notify.mime import shortest, without_attachments  # costs 20 ms

    if item.bare:
        return None
    return (None if item.reduced else without_attachments(message)) or shortest(message)
