"""Keeps messages until they are delivered; one sender at a time, each message once."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpualert.claims import locked
from gpualert.config import Settings
from gpualert.errors import LockTimeoutError
from gpualert.files import make_private_folder
from gpualert.notify.closing import close_due
from gpualert.notify.round import LAST_ANSWER_S, MAX_AGE_S, Round
from gpualert.notify.spool import Queued, Spool

__all__ = ["LAST_ANSWER_S", "MAX_AGE_S", "Summary", "queue_message", "send_due"]


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
    channels: Sequence[str] = ("",),
) -> bool:
    """
    Keep a message until it is delivered.

    Args:
        channels: Where it goes; see `channels_of`.

    Returns:
        Whether it is new; False where this Message-ID waits already, was sent or was given up.

    Raises:
        OSError: The disk is full, or the state folder cannot be written.
    """
    spool = Spool.of(state)
    return spool.add_new(Queued(message_id, mail_from, tuple(to), now, str(run_path or ""), now), message, channels)


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
            round_ = Round(Spool.of(state), settings, now, started, started + deadline_s, last_answer_s)
            waiting = round_.run(None if only is None else [only, *closed])
            found = (*troubles, *round_.troubles)
            return Summary(tuple(round_.sent), waiting, tuple(round_.dead), found)
    except LockTimeoutError:
        return Summary(troubles=tuple(troubles), busy=True)
