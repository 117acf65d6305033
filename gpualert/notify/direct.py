"""Sends one message now or not at all, for those who have no state folder and do something else where it fails."""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from pathlib import Path

from gpualert.errors import DeliveryError
from gpualert.notify.message import Envelope
from gpualert.notify.outbox import queue_message, send_due
from gpualert.notify.spool import Spool
from gpualert.settings import Settings

_LIMIT_S = 30.0
_LAST_ANSWER_S = 30.0


def send_now(message: bytes, message_id: str, sent_by: Envelope, settings: Settings) -> None:
    """
    Hand a message over, by the mail program where the settings know no channel that leaves the house.

    Raises:
        DeliveryError: It was not accepted for every recipient.
        OSError: There is no room for a scratch folder.
    """
    if settings.mail not in ("smtp", "sendmail"):
        settings = replace(settings, mail="sendmail")
    with tempfile.TemporaryDirectory(prefix="gpualert-") as scratch:
        state, now = Path(scratch), time.time()
        queue_message(state, message, message_id=message_id, mail_from=sent_by.mail_from, to=sent_by.to, now=now)
        done = send_due(state, settings, now, _LIMIT_S, message_id, _LAST_ANSWER_S)
        if message_id in done.sent and not done.troubles:
            return
        spool = Spool.of(state)
        waiting = [spool.read(path).last_error for path in spool.states()]
        said = next(filter(None, [*done.dead, *waiting, spool.pause().reason, *done.troubles]), "it was not accepted")
        raise DeliveryError(settings.mail, said.removeprefix(f"cannot deliver by {settings.mail}: "))
