"""The bytes of a mail: a text, its HTML and attachments, put together piece by piece and taken apart again."""

from __future__ import annotations

import base64
import hashlib
import io
import re
from collections.abc import Iterable, Iterator
from email.message import EmailMessage
from email.parser import BytesHeaderParser, BytesParser
from email.policy import SMTP
from pathlib import PurePath

from gpualert.display import shorten, visible

_MEDIA_TYPE = re.compile(r"[a-z]+/[A-Za-z0-9.+-]{1,80}")
_BASE64_STEP_BYTES = 57 * 1024  # whole lines: 57 bytes are 76 characters
_NAME_LIMIT = 100
_LEAST_CHARACTERS = 1500


def header(value: str) -> str:
    """Return a header's text: one line, and nothing in it that Python would decode."""
    # Python decodes an encoded word in a value that it is given; line breaks in it become real headers.
    return visible(value).replace("=?", "= ?")


def assemble(head: EmailMessage, text: str, html: str, attachments: Iterable[Iterable[bytes]]) -> bytes:
    """
    Return a mail as it goes over the wire: pure ASCII, CRLF, lines of at most 78 characters.

    Args:
        head: Its headers; the boundaries are made of the Message-ID, so that the same mail always has the same bytes.
        attachments: Those of `attachment`, or of `attachments_of` another mail.
    """
    mark = hashlib.sha256(str(head["Message-ID"]).encode()).hexdigest()[:24]
    boundary = f"=_gpualert_{mark}".encode()  # "=_" never occurs in quoted-printable or base64
    message = io.BytesIO()
    message.write(bytes(head).rstrip() + b"\r\n")
    message.write(b'Content-Type: multipart/mixed; boundary="%s"\r\n\r\n' % boundary)
    for part in (_body(text, html, mark), *attachments):
        message.write(b"--%s\r\n" % boundary)
        for piece in part:
            message.write(piece)
        message.write(b"\r\n")
    message.write(b"--%s--\r\n" % boundary)
    return message.getvalue()


def _body(text: str, html: str, mark: str) -> Iterator[bytes]:
    body = EmailMessage(policy=SMTP)
    body.set_content(text, cte="quoted-printable")
    body.add_alternative(html, subtype="html", cte="quoted-printable")
    body.set_boundary(f"=_gpualert_alt_{mark}")
    del body["MIME-Version"]
    yield bytes(body)


def attachment(name: str, media_type: str, content: bytes) -> Iterator[bytes]:
    """Yield an attachment piece by piece; the email package would hold three copies of it."""
    part = EmailMessage(policy=SMTP)
    media_type = media_type if _MEDIA_TYPE.fullmatch(media_type) else "application/octet-stream"
    part["Content-Type"] = media_type + ("; charset=utf-8" if media_type.startswith("text/") else "")
    part.add_header("Content-Disposition", "attachment", filename=_file_name(name))
    part["Content-Transfer-Encoding"] = "base64"
    yield bytes(part)
    for at in range(0, len(content), _BASE64_STEP_BYTES):
        piece = content[at : at + _BASE64_STEP_BYTES]
        yield base64.encodebytes(piece).replace(b"\n", b"\r\n")


def _file_name(name: str) -> str:
    suffixes = "".join(PurePath(name).suffixes[-2:])[-20:]
    stem = name[: len(name) - len(suffixes)]
    return header(shorten(stem, _NAME_LIMIT) + suffixes).replace("/", "_").replace("\\", "_").replace('"', "'")


def headers_of(message: bytes) -> EmailMessage:
    """Return the headers of a mail, without reading on."""
    found = BytesHeaderParser(policy=SMTP).parsebytes(message[: message.find(b"\r\n\r\n") + 4])
    assert isinstance(found, EmailMessage)
    return found


def text_of(message: bytes) -> str:
    """Return what a mail says as plain text; "" where it says nothing."""
    parts = _parts(message)
    whole = b"\r\n".join(parts[1].split(b"\r\n")[1:]) if len(parts) > 2 else message
    mail = BytesParser(policy=SMTP).parsebytes(whole)
    assert isinstance(mail, EmailMessage)
    body = mail.get_body(("plain",))
    return str(body.get_content()).replace("\r\n", "\n") if body else ""


def attachments_of(message: bytes) -> list[bytes]:
    """Return the attachments of a mail of `assemble` as they are in it."""
    return [part.removeprefix(b"\r\n").removesuffix(b"\r\n") for part in _parts(message)[2:-1]]


def threaded(message: bytes, first: str) -> bytes:
    """Return a mail as one that follows another, whose Message-ID is `first`; as it is where that is ""."""
    return f"In-Reply-To: {first}\r\nReferences: {first}\r\n".encode() + message if first else message


def without_attachments(message: bytes) -> bytes | None:
    """Return a mail of `assemble` with a word in place of its attachments; None where it has none."""
    parts = _parts(message)
    names = [headers_of(part.lstrip()[:4096]).get_filename() for part in parts[2:-1]]
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
    return _boundary_of(message).join([parts[0], parts[1], b"\r\n" + bytes(note) + b"\r\n", b"--\r\n"])


def shortest(message: bytes) -> bytes | None:
    """Return the least of a mail that says what happened, as plain text; None where it is hardly longer itself."""
    kept = headers_of(message)
    for name in ("Content-Type", "Content-Transfer-Encoding", "MIME-Version"):
        del kept[name]
    said = text_of(message)
    start = said[:_LEAST_CHARACTERS].rpartition("\n")[0] if len(said) > _LEAST_CHARACTERS else said
    kept.set_content(
        f"{start}\n\nThe mail server refused more for its size: gpualert show prints all of it.\n",
        cte="quoted-printable",
    )
    least = bytes(kept)
    return least if len(least) < len(message) // 2 else None


def _parts(message: bytes) -> list[bytes]:
    """Return a mail of `assemble` cut at its boundaries: headers, body, attachments, what is left."""
    return message.split(_boundary_of(message))


def _boundary_of(message: bytes) -> bytes:
    return b"--" + str(headers_of(message).get_boundary()).encode()
