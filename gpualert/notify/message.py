"""Composes a report into the bytes of a mail; the same report always gives the same bytes."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import pwd
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from email.message import EmailMessage
from email.parser import BytesHeaderParser
from email.policy import SMTP
from email.utils import formatdate
from pathlib import PurePath

from gpualert import __version__
from gpualert.config import Settings
from gpualert.display import shorten, visible
from gpualert.model import Artifact, RunStatus
from gpualert.notify.addresses import addresses_in
from gpualert.render import html, text
from gpualert.report import Report

_MEDIA_TYPE = re.compile(r"[a-z]+/[A-Za-z0-9.+-]{1,80}")
_BASE64_STEP_BYTES = 57 * 1024  # whole lines: 57 bytes are 76 characters
_NAME_LIMIT = 100


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
    mark = hashlib.sha256(identity.encode()).hexdigest()[:24]
    names = [point.label for point in report.attached]
    files = [] if report.log_withheld else [artifact for artifact in artifacts if artifact.attached]
    parts = [_body(report, mark), *map(_attachment, files, names)]
    message = io.BytesIO()
    message.write(bytes(_head(report, sent_by, identity, date_s)).rstrip() + b"\r\n")
    message.write(b'Content-Type: multipart/mixed; boundary="%s"\r\n\r\n' % _boundary(mark).encode())
    for part in parts:
        message.write(b"--%s\r\n" % _boundary(mark).encode())
        for piece in part:
            message.write(piece)
        message.write(b"\r\n")
    message.write(b"--%s--\r\n" % _boundary(mark).encode())
    return message.getvalue()


def without_attachments(message: bytes) -> bytes | None:
    """Return a message of `compose` with a word in place of its attachments; None where it has none."""
    headers = BytesHeaderParser(policy=SMTP).parsebytes(message[: message.index(b"\r\n\r\n") + 4])
    boundary = b"--" + str(headers.get_boundary()).encode()
    parts = message.split(boundary)
    if len(parts) < 4:
        return None
    head, body, *attachments, _ = parts
    names = [BytesHeaderParser(policy=SMTP).parsebytes(part.lstrip()[:4096]).get_filename() for part in attachments]
    if not any(names):
        return None
    note = EmailMessage(policy=SMTP)
    listed = ", ".join(shorten(visible(str(name)), _NAME_LIMIT) for name in names)
    note.set_content(
        "The mail server refused this message for its size, so its attachments were left out:\n"
        f"{listed}\nThe files are where the message says.\n",
        cte="quoted-printable",
    )
    del note["MIME-Version"]
    return boundary.join([head, body, b"\r\n" + bytes(note) + b"\r\n", b"--\r\n"])


def _boundary(mark: str) -> str:
    return f"=_gpualert_{mark}"  # "=_" never occurs in quoted-printable or base64


def _head(report: Report, sent_by: Envelope, identity: str, date_s: float) -> EmailMessage:
    head = EmailMessage(policy=SMTP)
    head["From"] = _header(sent_by.header_from)
    head["To"] = _header(", ".join(sent_by.to))
    head["Subject"] = _header(report.subject)
    head["Date"] = formatdate(date_s, usegmt=True)
    head["Message-ID"] = identity
    head["Auto-Submitted"] = "auto-generated"  # Source: RFC 3834, section 5
    head["X-Auto-Response-Suppress"] = "All"  # the same for Exchange
    head["X-Gpualert-Run"] = _header(report.run_id)
    head["X-Gpualert-Status"] = report.status.value
    head["X-Gpualert-Class"] = _header(report.failure_class)
    head["X-Mailer"] = f"gpualert {__version__}"
    head["MIME-Version"] = "1.0"
    return head


def _header(value: str) -> str:
    # Python decodes an encoded word in a value that it is given; line breaks in it become real headers.
    return visible(value).replace("=?", "= ?")


def _body(report: Report, mark: str) -> Iterator[bytes]:
    body = EmailMessage(policy=SMTP)
    body.set_content(text(report), cte="quoted-printable")
    body.add_alternative(html(report), subtype="html", cte="quoted-printable")
    body.set_boundary(f"=_gpualert_alt_{mark}")
    del body["MIME-Version"]
    yield bytes(body)


def _attachment(artifact: Artifact, name: str) -> Iterator[bytes]:
    """Yield an attachment piece by piece; the email package would hold three copies of it."""
    part = EmailMessage(policy=SMTP)
    media_type = artifact.media_type if _MEDIA_TYPE.fullmatch(artifact.media_type) else "application/octet-stream"
    part["Content-Type"] = media_type + ("; charset=utf-8" if media_type.startswith("text/") else "")
    part.add_header("Content-Disposition", "attachment", filename=_file_name(name))
    part["Content-Transfer-Encoding"] = "base64"
    yield bytes(part)
    for at in range(0, len(artifact.content), _BASE64_STEP_BYTES):
        piece = artifact.content[at : at + _BASE64_STEP_BYTES]
        yield base64.encodebytes(piece).replace(b"\n", b"\r\n")


def _file_name(name: str) -> str:
    suffixes = "".join(PurePath(name).suffixes[-2:])[-20:]
    stem = name[: len(name) - len(suffixes)]
    return _header(shorten(stem, _NAME_LIMIT) + suffixes).replace("/", "_").replace("\\", "_").replace('"', "'")
