"""The command doctor."""

from __future__ import annotations

import time
import uuid

import click

from gpualert.check import Check, Mark
from gpualert.checkup import check_all
from gpualert.cli.common import print_json, say, table
from gpualert.config import Settings, load_settings
from gpualert.display import visible

_SEND_LIMIT_S = 60.0


@click.command()
@click.option("--mail", "address", metavar="ADDRESS", help="Also send a trial message there.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def doctor(address: str | None, as_json: bool) -> int:
    """
    Check this installation: what works, and what to do where it does not.

    Status 1 when something does not work.
    """
    found = list(check_all())
    if address:
        found.append(_try_mail(load_settings(), address))
    if as_json:
        print_json(found)
    else:
        for check in found:
            say(table([(check.mark.value.ljust(4), visible(check.thing).ljust(12), visible(check.found))]))
            if check.advice:
                say(f"      {'':12}  -> {visible(check.advice)}")
    return 1 if any(check.mark is Mark.FAIL for check in found) else 0


def _try_mail(settings: Settings, address: str) -> Check:
    """Send a trial message through the channels that are set."""
    from email.message import EmailMessage
    from email.policy import SMTP
    from email.utils import formatdate

    from gpualert.notify.channels import channels_of
    from gpualert.notify.message import envelope
    from gpualert.notify.outbox import queue_message, send_due
    from gpualert.sending import why_waiting

    sent_by = envelope(settings, [address])
    if sent_by.refused:
        return Check(Mark.FAIL, "trial mail", "; ".join(sent_by.refused))
    named = f"<doctor-{uuid.uuid4().hex}@gpualert.invalid>"
    mail = EmailMessage(policy=SMTP)
    mail["From"], mail["To"], mail["Subject"] = sent_by.header_from, address, "gpualert: this is a trial message"
    mail["Date"], mail["Message-ID"], mail["Auto-Submitted"] = formatdate(), named, "auto-generated"
    mail.set_content("It arrived: messages about runs will too.\n")
    now = time.time()
    channels = channels_of(settings)
    queue_message(
        settings.home,
        bytes(mail),
        message_id=named,
        mail_from=sent_by.mail_from,
        to=sent_by.to,
        now=now,
        channels=channels,
    )
    done = send_due(settings.home, settings, now, _SEND_LIMIT_S, only=named)
    if done.sent.count(named) == len(channels):
        also = ", and to the other services" if len(channels) > 1 else ""
        return Check(Mark.OK, "trial mail", f"handed over by {settings.mail} to {address}{also}")
    reasons = "; ".join((*done.dead, *done.troubles)) or why_waiting(settings.home, named)
    return Check(Mark.FAIL, "trial mail", reasons, "see: gpualert config")
