"""Composes a report into the bytes of a mail; the same report always gives the same bytes."""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Sequence
from dataclasses import dataclass
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formatdate

from gpualert import __version__
from gpualert.config import Settings
from gpualert.display import visible
from gpualert.model import Artifact, RunStatus
from gpualert.notify.addresses import addresses_in
from gpualert.notify.mime import assemble, attachment, header
from gpualert.render import html, text
from gpualert.report import Report


@dataclass(frozen=True)
class Envelope:
    """
    Whom a message is from and where it goes.

    Attributes:
        header_from: What the reader sees, perhaps with a name.
        mail_from: The address that bounces go to.
        to: The recipients' addresses.
        refused: What was asked for and is no address, a sentence each.
    """

    header_from: str
    mail_from: str
    to: tuple[str, ...]
    refused: tuple[str, ...] = ()


def envelope(settings: Settings, to: Sequence[str] = ()) -> Envelope:
    """
    Return whom a message is from and where it goes.

    Args:
        settings: `to`, `from` and `envelope_from`.  Where there is no `to` the user writes to himself, and where there
            is no `from` a mail server is told the first recipient: it would refuse `user@node03`.
        to: What the run asked for; it replaces the settings' own, unless there is no address in it.
    """
    (asked, bad), (usual, bad_usual) = addresses_in(to), addresses_in(settings.to)
    sender, bad_sender = addresses_in([settings.sender])
    here = f"{pwd.getpwuid(os.geteuid()).pw_name}@{os.uname().nodename}" if not sender else ""
    recipients = asked or usual or sender[:1] or (here,)
    header_from = settings.sender if sender else recipients[0] if settings.mail == "smtp" else here
    mail_from = settings.envelope_from or (sender[0] if sender else header_from)
    refused = [f"no mail address: {visible(text)!r}" for text in (*bad, *(() if asked else bad_usual), *bad_sender)]
    return Envelope(header_from, mail_from, recipients, tuple(refused))


def message_id(run_id: str, status: RunStatus) -> str:
    """Return the Message-ID of what is said about a run in one state; it is the same whenever and wherever asked."""
    local = re.sub(r"[^A-Za-z0-9-]", "_", run_id)
    return f"<{local}.{status.value}@gpualert.invalid>"


def compose(report: Report, artifacts: Sequence[Artifact], sent_by: Envelope, identity: str, date_s: float) -> bytes:
    """
    Return the message as it goes over the wire: pure ASCII, CRLF, lines of at most 78 characters.

    Args:
        report: What it says.
        artifacts: What may go along; nothing does after `--no-log`.
        sent_by: Whom it is from and where it goes.
        identity: Its Message-ID.
        date_s: Its date, in seconds since 1970 UTC.
    """
    names = [point.label for point in report.attached]
    files = [] if report.log_withheld else [artifact for artifact in artifacts if artifact.attached]
    attached = [attachment(name, file.media_type, file.content) for file, name in zip(files, names, strict=False)]
    return assemble(_head(report, sent_by, identity, date_s), text(report), html(report), attached)


def _head(report: Report, sent_by: Envelope, identity: str, date_s: float) -> EmailMessage:
    mail = head(report.subject, sent_by, identity, date_s)
    mail["X-Gpualert-Run"] = header(report.run_id)
    mail["X-Gpualert-Status"] = report.status.value
    mail["X-Gpualert-Class"] = header(report.failure_class)
    return mail


def head(subject: str, sent_by: Envelope, identity: str, date_s: float) -> EmailMessage:
    """Return the headers of a mail."""
    mail = EmailMessage(policy=SMTP)
    mail["From"] = header(sent_by.header_from)
    mail["To"] = header(", ".join(sent_by.to))
    mail["Subject"] = header(subject)
    mail["Date"] = formatdate(date_s, usegmt=True)
    mail["Message-ID"] = identity
    mail["Auto-Submitted"] = "auto-generated"  # Source: RFC 3834, section 5
    mail["X-Auto-Response-Suppress"] = "All"  # the same for Exchange
    mail["X-Mailer"] = f"gpualert {__version__}"
    mail["MIME-Version"] = "1.0"
    return mail
