from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from smtp_server import MailServer, answering, closed_port, make_certificate, scripted

from gpualert.config import Smtp
from gpualert.errors import DeliveryError
from gpualert.notify import ChannelError, UnansweredError, smtp

MESSAGE = b"Subject: hello\r\n\r\nline\r\n.dot\r\n..dots\r\n.\r\nend\r\n"
ANN, BOB = "ann@example.org", "bob@example.org"


pytestmark = pytest.mark.filterwarnings("ignore:Requiring AUTH while not requiring TLS")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificate(tmp_path_factory.mktemp("tls") / "localhost.pem")


def deliver(
    port: int,
    message: bytes = MESSAGE,
    to: tuple[str, ...] = (ANN,),
    limit_s: float = 20.0,
    last_answer_s: float = 10.0,
    **changes: Any,
):
    settings = {"host": "127.0.0.1", "port": port, "security": "none", "timeout_s": 10.0, **changes}
    return smtp.deliver(Smtp(**settings), "me@example.org", to, message, limit_s, last_answer_s)


def test_a_message_arrives_unchanged_with_its_envelope(server):
    assert deliver(server.port, to=(ANN, BOB)) == ()
    (got,) = server.received
    assert (got.mail_from, got.to, got.content) == ("me@example.org", [ANN, BOB], MESSAGE)


def test_a_large_message_with_a_dot_on_every_line_arrives_unchanged(server):
    message = b"Subject: x\r\n\r\n" + b".\r\n" * 100_000 + b"no line end"
    deliver(server.port, message)
    assert server.received[0].content == message + b"\r\n"


@pytest.mark.parametrize("security", ["starttls", "tls"])
def test_the_connection_is_encrypted_and_the_server_checked(certificate, monkeypatch, security):
    with MailServer(security=security, certificate=certificate).running() as server:
        with pytest.raises(ChannelError, match="certificate verify failed"):
            deliver(server.port, security=security)
        assert server.received == []
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        deliver(server.port, security=security, host="localhost")
        assert [got.encrypted for got in server.received] == [True]


def test_nothing_is_sent_in_clear_when_the_server_has_no_starttls(server):
    with pytest.raises(ChannelError, match="STARTTLS extension not supported"):
        deliver(server.port, security="starttls")
    assert server.received == []


def test_a_login_is_made_with_the_password_or_what_its_command_prints(certificate, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    fine = {"security": "starttls", "user": "ann"}
    with MailServer(security="starttls", certificate=certificate, user="ann", password="pässword").running() as server:
        deliver(server.port, **fine, password="pässword")
        deliver(server.port, **fine, password_command="printf 'pässword\\nsecond line'")
        assert [got.login for got in server.received] == [b"ann", b"ann"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"user": "ann", "password": "wrong-one"}, r"login refused: 535 "),
        ({}, r"530 "),
        ({"user": "ann", "password_command": "exit 3"}, r"password_command.*status 3"),
    ],
    ids=["wrong password", "no login", "broken password command"],
)
def test_a_refused_login_is_the_channels_fault_and_names_no_password(changes, reason):
    with MailServer(user="ann", password="right").running() as server:
        with pytest.raises(ChannelError, match=reason) as caught:
            deliver(server.port, **changes)
        assert server.received == [] and not caught.value.permanent
        assert "wrong-one" not in str(caught.value)


def test_nobody_listening_is_the_channels_fault():
    with pytest.raises(ChannelError, match=r"127\.0\.0\.1:\d+: .*refused"):
        deliver(closed_port())


def test_an_unknown_host_is_the_channels_fault():
    with pytest.raises(ChannelError, match=r"no-such-host\.invalid:25: "):
        deliver(25, host="no-such-host.invalid")


def silent(connection: socket.socket) -> None:
    while connection.recv(4096):
        pass


def one_byte_at_a_time(connection: socket.socket) -> None:
    for _ in range(600):
        connection.sendall(b"2")
        time.sleep(0.1)


@pytest.mark.parametrize(
    "talk",
    [
        pytest.param(silent, id="after connect"),
        pytest.param(one_byte_at_a_time, id="one byte at a time"),
        pytest.param(answering(b"hang"), id="after EHLO"),
        pytest.param(answering(b"250 hello", b"hang"), id="after MAIL"),
        pytest.param(answering(b"250 hello", b"250 ok", b"hang"), id="after RCPT"),
        pytest.param(answering(b"250 hello", b"250 ok", b"250 ok", b"hang"), id="after DATA"),
    ],
)
def test_a_server_that_hangs_is_left_at_the_limit(talk):
    started = time.monotonic()
    with scripted(talk) as port, pytest.raises(DeliveryError, match=r"no answer within 0\.5 s") as caught:
        deliver(port, limit_s=0.5)
    assert not caught.value.permanent
    assert time.monotonic() - started < 8, "far below the server's own 10 s and the test's time-out"


@pytest.mark.parametrize("security", ["starttls", "tls"])
def test_a_server_that_hangs_in_the_handshake_is_left_at_the_limit(security):
    talk = silent if security == "tls" else answering(b"250-hello\r\n250 STARTTLS", b"220 go", b"hang")
    with scripted(talk) as port, pytest.raises(ChannelError, match=r"no answer within 0\.5 s"):
        deliver(port, limit_s=0.5, security=security)


def test_a_silent_server_is_left_after_the_time_out_of_one_answer():
    with scripted(silent) as port, pytest.raises(ChannelError, match="timed out"):
        deliver(port, timeout_s=0.3)


def accepting_after(delay_s: float) -> Callable[[socket.socket], None]:
    """Return a talk that takes one message and says so that much later."""

    def slow(connection: socket.socket) -> None:
        lines = connection.makefile("rb")
        connection.sendall(b"220 slow\r\n")
        for reply in (b"250 hello", b"250 ok", b"250 ok", b"354 go"):
            lines.readline()
            connection.sendall(reply + b"\r\n")
        while lines.readline() != b".\r\n":
            pass
        time.sleep(delay_s)
        connection.sendall(b"250 taken\r\n")

    return slow


def test_the_last_answer_is_waited_for_beyond_the_limit_and_the_time_out_of_other_answers():
    """Hanging up on a server that has the whole message and is about to accept it would send it twice."""
    with scripted(accepting_after(1.8)) as port:
        assert deliver(port, limit_s=1.5, timeout_s=1.0, last_answer_s=30.0) == ()


def test_a_last_answer_that_does_not_come_is_told_from_other_troubles_with_its_own_limit():
    with (
        scripted(accepting_after(600)) as port,
        pytest.raises(
            UnansweredError, match=r"has the whole message, and no answer within 0\.3 s .*may arrive"
        ) as caught,
    ):
        deliver(port, last_answer_s=0.3)
    assert not caught.value.permanent


@pytest.mark.parametrize("replies", [3, 4], ids=["at DATA", "in DATA"])
def test_a_connection_lost_while_sending_is_the_messages_trouble_for_now(replies):
    talk = answering(*[b"250 hello", b"250 ok", b"250 ok", b"354 go"][:replies])
    with scripted(talk) as port, pytest.raises(DeliveryError, match="lost while sending") as caught:
        deliver(port, MESSAGE * 100_000)
    assert (type(caught.value), caught.value.permanent) == (DeliveryError, False)


@pytest.mark.parametrize(
    ("step", "reply", "kind", "permanent", "too_large"),
    [
        ("MAIL", "451 greylisted", DeliveryError, False, False),
        ("RCPT", "450 greylisted", DeliveryError, False, False),
        ("DATA", "451 try later", DeliveryError, False, False),
        ("DATA", "452 4.3.1 disk full", DeliveryError, False, False),
        ("MAIL", "421 closing", ChannelError, False, False),
        ("RCPT", "421 too many connections", ChannelError, False, False),
        ("DATA", "421 closing", ChannelError, False, False),
        ("MAIL", "530 5.7.0 log in first", ChannelError, False, False),
        ("MAIL", "550 5.7.1 you may not", DeliveryError, True, False),
        ("RCPT", "550 5.1.1 no such user", DeliveryError, True, False),
        ("DATA", "554 5.7.1 looks like spam", DeliveryError, True, False),
        ("DATA", "552 message exceeds fixed maximum", DeliveryError, True, True),
        ("DATA", "550 5.3.4 Message too big", DeliveryError, True, True),
        ("DATA", "552 5.2.2 mailbox full", DeliveryError, True, False),
    ],
)
def test_a_refusal_is_for_now_or_for_good_and_for_its_size_or_not(server, step, reply, kind, permanent, too_large):
    server.answer(step, reply)
    with pytest.raises(DeliveryError, match=reply[4:12]) as caught:
        deliver(server.port)
    found = caught.value
    assert (type(found), found.permanent, found.too_large) == (kind, permanent, too_large)
    assert server.received == []


def test_a_size_above_what_the_server_announces_is_not_even_sent():
    with MailServer(size_limit=1000).running() as server:
        with pytest.raises(DeliveryError, match="takes 1000 bytes, the message has 36800") as caught:
            deliver(server.port, MESSAGE * 800)
        assert caught.value.too_large
        deliver(server.port)
        assert len(server.received) == 1


def test_recipients_that_are_refused_do_not_keep_the_others_from_getting_it(server):
    server.answer(ANN, "550 no such user")
    server.answer(BOB, "450 later")
    refusals = deliver(server.port, to=(ANN, "cy@example.org", BOB))
    assert [(refusal.address, refusal.permanent) for refusal in refusals] == [(ANN, True), (BOB, False)]
    assert [got.to for got in server.received] == [["cy@example.org"]]


@pytest.mark.parametrize(("first", "permanent"), [("550 no", True), ("450 later", False)])
def test_when_all_recipients_are_refused_it_is_for_good_only_if_all_are(server, first, permanent):
    server.answer(ANN, first)
    server.answer(BOB, "550 no")
    with pytest.raises(DeliveryError) as caught:
        deliver(server.port, to=(ANN, BOB))
    assert caught.value.permanent is permanent


def test_what_a_server_says_is_shown_harmlessly(server):
    server.answer("RCPT", "550 \x1b[31mred\x07" + "x" * 400)
    with pytest.raises(DeliveryError) as caught:
        deliver(server.port)
    assert str(caught.value).isprintable() and len(str(caught.value)) < 500


def test_no_connection_is_left_open(server):
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    for _ in range(5):
        deliver(server.port)
        server.answer("RCPT", "550 no")
        with pytest.raises(DeliveryError):
            deliver(server.port)
    ends = time.monotonic() + 10
    while len(os.listdir("/proc/self/fd")) > before and time.monotonic() < ends:  # noqa: PTH208
        time.sleep(0.01)  # the server, in this process too, closes its own ends
    assert len(os.listdir("/proc/self/fd")) <= before  # noqa: PTH208
