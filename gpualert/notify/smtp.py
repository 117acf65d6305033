"""Hands messages to a mail server; every phase has a time-out, and all of it a limit."""

from __future__ import annotations

import base64
import os
import re
import smtplib
import socket
import ssl
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass

from gpualert.bounded import within
from gpualert.config import Smtp, read_password
from gpualert.display import shorten, visible
from gpualert.errors import ConfigError, DeliveryError
from gpualert.notify import ChannelError, UnansweredError

_CHUNK_BYTES = 64 * 1024
_LOGIN_CODES = (530, 534, 535, 538)  # Source: RFC 4954, section 6
_TOO_LARGE = re.compile(r"\b5\.3\.4\b|size (?:exceed|limit)|too (?:large|big)", re.IGNORECASE)
_MAILBOX_FULL = re.compile(r"\b5\.2\.2\b")


@dataclass(frozen=True)
class Refusal:
    """A recipient that the server did not take while it took others."""

    address: str
    reason: str
    permanent: bool


def deliver(
    settings: Smtp, mail_from: str, to: Sequence[str], message: bytes, limit_s: float, last_answer_s: float
) -> tuple[Refusal, ...]:
    """
    Hand a message to the mail server; it is accepted for all recipients but those returned.

    Args:
        settings: The server.
        mail_from: The envelope's sender.
        to: The recipients.
        message: The message, with CRLF.
        limit_s: The longest time until the message has been sent.
        last_answer_s: The longest time that its acceptance may take then.

    Raises:
        ChannelError: The server cannot be used: unreachable, too slow, login refused, no TLS.
        UnansweredError: It has the whole message and did not answer.
        DeliveryError: It refused the message for all recipients, for now or for good.
    """
    watch = _Watch(limit_s)
    try:
        with _session(settings, watch) as server:
            try:
                return _transact(server, mail_from, to, message, watch, last_answer_s)
            except (OSError, ValueError, smtplib.SMTPException) as error:  # perhaps this very message breaks the server
                raise DeliveryError("smtp", f"lost while sending: {_words(error, watch)}") from error
    except (OSError, ValueError, smtplib.SMTPException, ConfigError) as error:
        raise ChannelError("smtp", f"{settings.host}:{settings.port}: {_words(error, watch)}") from error
    finally:
        watch.stop()


class _Watch:
    """Hangs up when the time is over: a server that sends one byte a second never runs into a socket's time-out."""

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self.expired = False
        self._handle: socket.socket | None = None
        self._timer = self._started(limit_s)

    def follow(self, connection: socket.socket) -> None:
        """Watch this connection, whatever is wrapped around it later, instead of the one before."""
        self._let_go()
        self._handle = connection.dup()
        if self.expired:
            self._hang_up()

    def allow(self, seconds: float) -> None:
        """Hang up that many seconds from now, and no earlier."""
        self._timer.cancel()
        self.limit_s = seconds
        self._timer = self._started(seconds)

    def stop(self) -> None:
        """Hang up no more."""
        self._timer.cancel()
        self._let_go()

    def _started(self, seconds: float) -> threading.Timer:
        timer = threading.Timer(max(seconds, 0.0), self._hang_up)
        timer.daemon = True
        timer.start()
        return timer

    def _let_go(self) -> None:
        if self._handle is not None:
            self._handle.close()

    def _hang_up(self) -> None:
        self.expired = True
        if self._handle is not None:
            with suppress(OSError):
                self._handle.shutdown(socket.SHUT_RDWR)


class _Server(smtplib.SMTP):
    """An SMTP session on a connection that is there already."""

    def __init__(self, connection: socket.socket, settings: Smtp) -> None:
        self._connection = connection
        # Not smtplib's default: socket.getfqdn may ask a dead name server for a long time.
        super().__init__(settings.host, settings.port, local_hostname=_own_name(connection), timeout=settings.timeout_s)

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        return self._connection


@contextmanager
def _session(settings: Smtp, watch: _Watch) -> Iterator[smtplib.SMTP]:
    """Connect, protect the connection and log in; hang up afterwards without waiting for a farewell."""
    password = read_password(settings, min(watch.limit_s, settings.timeout_s))
    connection = _connect(settings, watch)
    if settings.security == "tls":
        connection = ssl.create_default_context().wrap_socket(connection, server_hostname=settings.host)
    with closing(connection), closing(_Server(connection, settings)) as server:
        if settings.security == "starttls":
            server.starttls(context=ssl.create_default_context())
        server.ehlo_or_helo_if_needed()
        if settings.user:
            _login(server, settings.user, password)
        yield server
        with suppress(OSError, smtplib.SMTPException):
            server.putcmd("quit")


def _login(server: smtplib.SMTP, user: str, password: str) -> None:
    """Log in; smtplib itself refuses a name or a password that is not ASCII."""
    if (user + password).isascii():
        server.login(user, password)
        return
    response = base64.b64encode(f"\0{user}\0{password}".encode()).decode()  # Source: RFC 4616
    code, said = server.docmd("AUTH", f"PLAIN {response}")
    if code != 235:
        raise smtplib.SMTPAuthenticationError(code, said)


def _connect(settings: Smtp, watch: _Watch) -> socket.socket:
    """Connect to the first address of the server that answers."""
    found = within(
        min(watch.limit_s, settings.timeout_s),
        lambda: socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM),
    )
    last: OSError = OSError("it has no address")
    for family, kind, protocol, _, address in found:
        connection = socket.socket(family, kind, protocol)
        connection.settimeout(min(watch.limit_s, settings.timeout_s))
        watch.follow(connection)
        try:
            connection.connect(address)
        except OSError as error:
            connection.close()
            last = error
        else:
            connection.settimeout(settings.timeout_s)
            # Short lines and answers in turn: Nagle's algorithm would cost 40 ms a message.
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return connection
    raise last


def _own_name(connection: socket.socket) -> str:
    """Return how we greet the server: our full name, else the address we call from (RFC 5321, section 4.1.3)."""
    name = os.uname().nodename
    if "." in name and name.isascii():
        return name
    address = str(connection.getsockname()[0]).split("%")[0]
    return f"[IPv6:{address}]" if ":" in address else f"[{address}]"


def _transact(
    server: smtplib.SMTP, mail_from: str, to: Sequence[str], message: bytes, watch: _Watch, last_answer_s: float
) -> tuple[Refusal, ...]:
    """Send one message; returns as soon as the server has accepted it."""
    options = _size_option(server, message)
    _expect(server.mail(mail_from, options), f"sender {mail_from}")
    refused = [refusal for address in to if (refusal := _offer(server, address))]
    if len(refused) == len(to):
        reasons = "; ".join(f"{refusal.address}: {refusal.reason}" for refusal in refused)
        raise DeliveryError("smtp", reasons, permanent=all(refusal.permanent for refusal in refused))
    _expect(server.docmd("data"), "the message", 354)
    stuffed = message.replace(b"\r\n.", b"\r\n..")  # RFC 5321, section 4.5.2
    for at in range(0, len(stuffed), _CHUNK_BYTES):  # a time-out for each piece, not for all of it
        server.send(stuffed[at : at + _CHUNK_BYTES])
    server.send(b".\r\n" if message.endswith(b"\r\n") else b"\r\n.\r\n")
    _expect(_last_answer(server, watch, last_answer_s), "the message")
    return tuple(refused)


def _last_answer(server: smtplib.SMTP, watch: _Watch, limit_s: float) -> tuple[int, bytes]:
    """
    Wait for the answer to the whole message: hanging up on a server that is about to accept it would send it twice.

    Raises:
        UnansweredError: It did not come in time.
    """
    watch.allow(limit_s)
    if server.sock:
        server.sock.settimeout(None)  # only the watch hangs up now
    try:
        return server.getreply()
    except (OSError, smtplib.SMTPException) as error:
        if watch.expired:
            reason = f"the server has the whole message, and {_words(error, watch)} to it; it may arrive all the same"
            raise UnansweredError("smtp", reason) from error
        raise


def _size_option(server: smtplib.SMTP, message: bytes) -> list[str]:
    """Announce the message's size where the server wants to know (RFC 1870)."""
    if not server.has_extn("size"):
        return []
    limit = server.esmtp_features.get("size", "").strip()
    if limit.isdigit() and 0 < int(limit) < len(message):
        reason = f"the server takes {limit} bytes, the message has {len(message)}"
        raise DeliveryError("smtp", reason, permanent=True, too_large=True)
    return [f"size={len(message)}"]


def _offer(server: smtplib.SMTP, address: str) -> Refusal | None:
    """Name a recipient; return the refusal where there is one."""
    code, said = server.rcpt(address)
    if code in (250, 251):
        return None
    if code == 421 or code in _LOGIN_CODES:
        raise ChannelError("smtp", _reply(code, said))
    return Refusal(address, _reply(code, said), permanent=code >= 500)


def _expect(reply: tuple[int, bytes], what: str, wanted: int = 250) -> None:
    """
    Check the server's reply.

    Raises:
        ChannelError: It is closing, or wants a login first.
        DeliveryError: It is another one than `wanted`.
    """
    code, said = reply
    if code == wanted:
        return
    reason = f"{what} was refused: {_reply(code, said)}"
    if code in (421, -1) or code in _LOGIN_CODES:
        raise ChannelError("smtp", reason)
    words = said.decode("utf-8", "replace")
    # 552 is also said of a full mailbox, which a smaller message would not help.
    too_large = code >= 500 and bool(_TOO_LARGE.search(words) or (code == 552 and not _MAILBOX_FULL.search(words)))
    raise DeliveryError("smtp", reason, permanent=code >= 500, too_large=too_large)


def _reply(code: int, said: bytes) -> str:
    return f"{code} {shorten(visible(' '.join(said.decode('utf-8', 'replace').split())), 300)}"


def _words(error: Exception, watch: _Watch) -> str:
    """Return what went wrong, in the server's words where it said something."""
    if watch.expired:
        return f"no answer within {watch.limit_s:g} s"
    if isinstance(error, smtplib.SMTPResponseException):
        said = error.smtp_error if isinstance(error.smtp_error, bytes) else str(error.smtp_error).encode()
        login = "login refused: " if isinstance(error, smtplib.SMTPAuthenticationError) else ""
        return login + _reply(error.smtp_code, said)
    return visible(str(error)) or type(error).__name__
