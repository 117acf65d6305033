"""The ways out: which there are, what each is called, and how a message is handed to one."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

from gpualert.config import Settings
from gpualert.display import visible
from gpualert.errors import DeliveryError
from gpualert.notify import maildir
from gpualert.notify.addresses import is_address
from gpualert.notify.spool import SERVICES, Queued


def channels_of(settings: Settings) -> tuple[str, ...]:
    """Return the channels that each message goes to: "", which is that of the setting `mail`, and others beside it."""
    return ("", SERVICES) if settings.apprise and settings.mail != "apprise" else ("",)


def key_of(settings: Settings, channel: str) -> str:
    """Return what tells one channel from another: a pause ends when the settings that caused it change."""
    mail = "apprise" if channel == SERVICES else settings.mail
    if mail == "smtp":
        smtp = settings.smtp
        return f"smtp {smtp.security} {smtp.user}@{smtp.host}:{smtp.port}"
    if mail == "apprise":
        return f"apprise {hashlib.sha256(chr(0).join(settings.apprise).encode()).hexdigest()[:16]}"
    return f"sendmail {settings.sendmail.path}" if mail == "sendmail" else mail


def hand_over(
    item: Queued, message: bytes, settings: Settings, state: Path, limit_s: float, last_answer_s: float
) -> Queued:
    """
    Hand a message to its channel.

    Args:
        state: The state folder, whose maildir is used.
        limit_s, last_answer_s: As in `smtp.deliver`.

    Returns:
        Its state, `to` being those who are to get it later.

    Raises:
        ChannelError: The channel does not work.
        DeliveryError: It refused the message.
    """
    mail = settings.mail
    if mail == "apprise" or item.channel == SERVICES:
        from gpualert.notify import services  # costs 30 ms, apprise itself 200

        return services.deliver(item, message, settings.apprise, limit_s)
    if mail == "maildir":
        maildir.deliver(state / "mail", message, item.message_id)
        return replace(item, to=())
    if not item.mail_from:
        item = _addressed(item, settings)
    to = [address for address in item.to if is_address(address)]
    bad = [f"no mail address: {visible(address)!r}" for address in item.to if address not in to]
    if not to:
        raise DeliveryError(mail, "; ".join(bad) or "there is no recipient", permanent=True)
    item = replace(item, refused=(*item.refused, *bad))
    if mail == "sendmail":
        from gpualert.notify import sendmail

        sendmail.deliver(settings.sendmail.path, item.mail_from, to, message, limit_s)
        return replace(item, to=())
    return _by_smtp(item, to, message, settings, limit_s, last_answer_s)


def _by_smtp(
    item: Queued, to: list[str], message: bytes, settings: Settings, limit_s: float, last_answer_s: float
) -> Queued:
    from gpualert.notify import smtp  # costs 30 ms

    refusals = smtp.deliver(settings.smtp, item.mail_from, to, message, limit_s, last_answer_s)
    said = [f"{refusal.address}: {refusal.reason}" for refusal in refusals if refusal.permanent]
    later = [refusal for refusal in refusals if not refusal.permanent]
    return replace(
        item,
        to=tuple(refusal.address for refusal in later),
        refused=(*item.refused, *said),
        last_error="; ".join(f"{refusal.address}: {refusal.reason}" for refusal in later),
    )


def _addressed(item: Queued, settings: Settings) -> Queued:
    """Return a message that was queued while the settings were broken with the sender and recipients of today's."""
    from gpualert.notify.message import envelope  # costs 20 ms

    sent_by = envelope(settings, item.to)
    return replace(item, mail_from=sent_by.mail_from, to=sent_by.to)
