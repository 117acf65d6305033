"""Real mail servers for tests: one that can be told to refuse, and one that follows a script."""

from __future__ import annotations

import datetime
import ipaddress
import socket
import ssl
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, Envelope, LoginPassword, Session
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


@dataclass
class Received:
    """One message as the server took it."""

    mail_from: str
    to: list[str]
    content: bytes
    login: bytes | None
    encrypted: bool


@dataclass
class MailServer:
    """
    A mail server on the loopback interface.

    Attributes:
        replies: For `MAIL`, `RCPT`, `DATA` or an address: what to answer the next times instead of taking it.
        user, password: Who may log in; with a user set nobody else may send.
        size_limit: The largest message, announced in the greeting; None announces nothing.
        security: `none`, `starttls` (and nothing without) or `tls`.
    """

    replies: dict[str, deque[str]] = field(default_factory=lambda: defaultdict(deque))
    user: str = ""
    password: str = ""
    size_limit: int | None = None
    security: str = "none"
    certificate: Path | None = None
    port: int = 0
    received: list[Received] = field(default_factory=list)
    on_data: Callable[[], None] = lambda: None

    @property
    def environ(self) -> dict[str, str]:
        """The environment of a process that sends to this server, without encryption."""
        mail = {"MAIL": "smtp", "TO": "me@example.org", "SMTP_HOST": "127.0.0.1", "SMTP_PORT": str(self.port)}
        return {f"GPUALERT_{key}": value for key, value in {**mail, "SMTP_SECURITY": "none"}.items()}

    def forget(self) -> None:
        """Be as if nothing had happened."""
        self.received.clear()
        self.replies.clear()
        self.on_data = lambda: None

    def answer(self, step: str, *replies: str) -> None:
        """Give these replies, in turn, the next times at this step."""
        self.replies[step].extend(replies)

    async def handle_MAIL(  # noqa: N802
        self, server: Any, session: Session, envelope: Envelope, address: str, options: Any
    ) -> str:
        if self.replies["MAIL"]:
            return self.replies["MAIL"].popleft()
        envelope.mail_from = address
        return "250 OK"

    async def handle_RCPT(  # noqa: N802
        self, server: Any, session: Session, envelope: Envelope, address: str, options: Any
    ) -> str:
        for step in (address, "RCPT"):
            if self.replies[step]:
                return self.replies[step].popleft()
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Session, envelope: Envelope) -> str:  # noqa: N802
        if self.replies["DATA"]:
            return self.replies["DATA"].popleft()
        assert isinstance(envelope.content, bytes) and envelope.mail_from is not None
        login = session.auth_data.login if session.auth_data else None
        content, to = envelope.content, list(envelope.rcpt_tos)
        encrypted = self.security == "tls" or session.ssl is not None
        self.received.append(Received(envelope.mail_from, to, content, login, encrypted))
        self.on_data()
        return "250 OK"

    def authenticate(self, server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> AuthResult:
        good = isinstance(data, LoginPassword) and (data.login, data.password) == (
            self.user.encode(),
            self.password.encode(),
        )
        # With handled=True aiosmtpd would send no reply, and the client would wait for ever.
        return AuthResult(success=good, handled=False, auth_data=data)

    @contextmanager
    def running(self) -> Iterator[MailServer]:
        """Serve until the block ends."""
        tls = None
        if self.security != "none":
            assert self.certificate is not None
            tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            tls.load_cert_chain(self.certificate)
        controller = _Controller(
            self,
            hostname="127.0.0.1",
            port=self.port,
            ssl_context=tls if self.security == "tls" else None,
            tls_context=tls if self.security == "starttls" else None,
            require_starttls=self.security == "starttls",
            auth_required=bool(self.user),
            auth_require_tls=False,
            authenticator=self.authenticate,
            data_size_limit=self.size_limit,
        )
        controller.start()
        self.port = controller.port
        try:
            yield self
        finally:
            controller.stop()


class _Controller(Controller):
    """Takes any free port when asked for port 0."""

    def _trigger_server(self) -> None:
        self.port = self.server.sockets[0].getsockname()[1]
        super()._trigger_server()


@contextmanager
def scripted(talk: Callable[[socket.socket], None]) -> Iterator[int]:
    """Let `talk` handle each connection to a port on the loopback interface; yield the port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    threading.Thread(target=handle, args=(connection,), daemon=True).start()

        def handle(connection: socket.socket) -> None:
            with closing(connection), suppress(OSError):
                talk(connection)

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)


def answering(*replies: bytes) -> Callable[[socket.socket], None]:
    """
    Return a talk that greets, gives one reply for each line it is sent, then hangs up.

    A reply `b"hang"` keeps the connection open and says nothing more.
    """

    def talk(connection: socket.socket) -> None:
        connection.sendall(b"220 scripted\r\n")
        lines = connection.makefile("rb")
        for reply in replies:
            lines.readline()
            if reply == b"hang":
                while lines.readline():
                    pass
                return
            connection.sendall(reply + b"\r\n")

    return talk


def closed_port() -> int:
    """Return a port on the loopback interface that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def make_certificate(path: Path) -> Path:
    """Write key and certificate of `localhost`, signed by itself, into one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    now = datetime.datetime.now(datetime.timezone.utc)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
    return path
