"""The spool in bad weather, with real mail servers: nothing is lost, nothing is doubled, whatever they do."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from email import message_from_bytes
from itertools import count
from pathlib import Path

import pytest
from outcomes import tick_once
from rundirs import RunBuilder
from sites import NOW, Site, failed, to_server
from smtp_server import MailServer, closed_port, scripted

from gpualert.notify.outbox import queue_message, send_due
from gpualert.notify.spool import Spool
from gpualert.places import python_command
from gpualert.post import post

HOUR_S, DAY_S = 3600.0, 86_400.0
TESTS = Path(__file__).parent
ENVIRON = {**os.environ, "PYTHONPATH": str(TESTS)}


def queue(state: Path, number: int, now: float = NOW) -> str:
    """Queue a small message; return its Message-ID."""
    identity = f"<2026113{number:05d}Z-node03-3f9a1c2e.failed@gpualert.invalid>"
    text = f"Subject: {number}\r\nMessage-ID: {identity}\r\n\r\nIt failed.\r\n".encode()
    queue_message(state, text, message_id=identity, mail_from="m@x.org", to=("a@x.org",), now=now)
    return identity


def got(server: MailServer) -> Counter[str]:
    return Counter(str(message_from_bytes(mail.content)["Message-ID"]) for mail in server.received)


def drained(state: Path, port: int, now: float, step_s: float = 60.0, **more: object) -> int:
    """Send until nothing waits; return after how many rounds."""
    for rounds in count(1):
        assert rounds < 500, "it never ends"
        if not send_due(state, to_server(port, **more), now, 20).waiting:
            return rounds
        now += step_s
    raise AssertionError


def test_a_day_without_a_mail_server_loses_and_doubles_no_run(state: Path, server: MailServer) -> None:
    runs = 300
    site = Site(state, settings=to_server(closed_port()))
    ended = []
    for number in range(runs):
        site.now = NOW + number * DAY_S / runs
        ended.append(site.end(failed(f"cause_{number % 7}"), send=False))
        site.tick()
    site.settings = to_server(server.port)
    for _ in range(200):
        site.tick(60)
    for _ in range(8):
        site.tick(6 * HOUR_S)
    assert site.told_by(server) == Counter(ended)
    assert set(got(server).values()) == {1}
    assert Spool(state / "outbox").waiting() == []


def test_a_server_that_takes_ten_a_minute_refuses_none_where_the_setting_says_so(
    state: Path, server: MailServer
) -> None:
    identities = [queue(state, number) for number in range(35)]
    for minute in range(4):
        before = len(server.received)
        found = send_due(state, to_server(server.port, messages_per_minute=10), NOW + 61 * minute, 20)
        assert len(server.received) - before == min(10, 35 - before)
        assert minute == 3 or found.troubles == ("messages_per_minute is 10: the rest is sent later",)
    assert got(server) == Counter(identities)


def test_all_senders_of_a_state_folder_keep_to_the_rate_together(state: Path, server: MailServer) -> None:
    for number in range(6):
        queue(state, number)
    settings = to_server(server.port, messages_per_minute=4)
    for number in range(6):
        send_due(state, settings, NOW, 20, f"<2026113{number:05d}Z-node03-3f9a1c2e.failed@gpualert.invalid>")
    assert len(server.received) == 4
    assert send_due(state, settings, NOW + 61, 20).waiting == 0


def test_a_server_that_refuses_what_is_too_much_gets_all_in_the_end(state: Path, server: MailServer) -> None:
    identities = [queue(state, number) for number in range(20)]
    now = NOW
    while Spool(state / "outbox").waiting():
        taken, now = len(server.received), now + 61
        server.replies["MAIL"].clear()
        server.on_data = lambda most=taken + 5: (
            server.answer("MAIL", *["450 4.7.1 too many messages"] * 50) if len(server.received) >= most else None
        )
        send_due(state, to_server(server.port), now, 20)
        assert now < NOW + DAY_S
    assert got(server) == Counter(identities)


def test_a_greylisting_server_gets_each_message_once_on_its_second_visit(state: Path, server: MailServer) -> None:
    identities = [queue(state, number) for number in range(8)]
    server.answer("RCPT", *["451 4.7.1 greylisted, try again in five minutes"] * 8)
    send_due(state, to_server(server.port), NOW, 20)
    assert server.received == []
    drained(state, server.port, NOW + 300)
    assert got(server) == Counter(identities)


PHASES = ("connect", "EHLO", "MAIL", "RCPT", "DATA", "body", "dot")


def dropping_at(phase: str, port: int, times: int) -> Callable[[socket.socket], None]:
    """Return a talk that hangs up at a phase the first times, and hands the others on to a real server."""
    left = [times]

    def talk(client: socket.socket) -> None:
        left[0] -= 1
        drop = left[0] >= 0
        if drop and phase == "connect":
            return
        with socket.create_connection(("127.0.0.1", port)) as server:
            back = threading.Thread(target=copied, args=(server, client), daemon=True)
            back.start()
            seen = b""
            while data := client.recv(65_536):
                seen += data
                if drop and reached(phase, seen):
                    return
                server.sendall(data)
            with suppress(OSError):
                server.shutdown(socket.SHUT_WR)
            back.join()

    return talk


def reached(phase: str, seen: bytes) -> bool:
    body = seen.lower().partition(b"\r\ndata\r\n")[2]
    if phase == "body":
        return bool(body)
    if phase == "dot":
        return seen.endswith(b"\r\n.\r\n")
    return f"{phase}".lower().encode() in seen.lower()


def copied(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)


@pytest.mark.parametrize("phase", PHASES)
def test_a_connection_that_is_dropped_at_any_phase_loses_and_doubles_nothing(
    state: Path, server: MailServer, phase: str
) -> None:
    identities = [queue(state, number) for number in range(3)]
    with scripted(dropping_at(phase, server.port, 4)) as port:
        drained(state, port, NOW, step_s=1000)
    assert got(server) == Counter(identities)


def test_a_server_that_says_one_byte_a_second_is_left_and_another_gets_it(state: Path, server: MailServer) -> None:
    identity = queue(state, 1)

    def slow(connection: socket.socket) -> None:
        for byte in b"220 " + b"x" * 600:
            connection.sendall(bytes([byte]))
            time.sleep(1)

    with scripted(slow) as port:
        assert "no answer within" in send_due(state, to_server(port), NOW, 1.5).troubles[0]
    assert send_due(state, to_server(server.port), NOW + 100, 20).sent == (identity,)


def environ_of(server: MailServer) -> dict[str, str]:
    """Return the environment of a process that sends to a server, as fast as it can."""
    return {**server.environ, "GPUALERT_MESSAGES_PER_MINUTE": "0"}


def timed(command: list[str]) -> float:
    began = time.monotonic()
    subprocess.run(command, check=True)
    return time.monotonic() - began


def killed_at(delay_s: float) -> None:
    """Start a tick and kill it after a while; what it has started goes on."""
    with subprocess.Popen(python_command("tick"), stderr=subprocess.DEVNULL) as process:
        try:
            process.wait(delay_s)
        except subprocess.TimeoutExpired:
            process.kill()


def is_all_told(state: Path) -> bool:
    runs, outbox = state / "runs", state / "outbox"
    reported = all((run / "claims" / "ended-done").exists() for run in runs.iterdir())
    return reported and not [*outbox.glob("digests/*/*/*.json"), *outbox.glob("*.json")]


def finish(state: Path) -> None:
    """Tick until all is told."""
    ends = time.monotonic() + 100
    while not is_all_told(state):
        for path in (state / "runs").glob("*/claims/tries"):
            os.utime(path, (1, 1))  # tries are spaced
        tick_once(state)
        assert time.monotonic() < ends


@pytest.mark.parametrize(
    "moments",
    [
        pytest.param(8, marks=pytest.mark.timeout(300)),
        pytest.param(200, marks=[pytest.mark.long, pytest.mark.timeout(1800)]),
    ],
)
def test_tick_killed_at_any_moment_repeats_a_message_only_with_its_own_id(
    make_run: RunBuilder, server: MailServer, state: Path, monkeypatch: pytest.MonkeyPatch, moments: int
) -> None:
    for name, value in {**environ_of(server), "GPUALERT_DIGEST_WINDOW_S": "1"}.items():
        monkeypatch.setenv(name, value)
    runs, longest_s = [], 0.0
    for number in range(-1, moments):
        run_id = f"20261129T{145200 + number % 60:06}Z-node03-{number + 1:08x}"
        log = f"ValueError: {'ab' * (number % 3)}\n".encode()
        runs.append(make_run(run_id, start={"run_id": run_id}, log=log).name)
        if number < 0:
            longest_s = timed(python_command("tick")) * 1.5
            continue
        killed_at(longest_s * number / moments)
        if number % 6 == 5:
            finish(state)
    finish(state)
    sent = got(server)
    assert set(Site(state).told_by(server)) == set(runs)
    repeated = sum(sent.values()) - len(sent)
    assert repeated <= moments / 4, "only a kill between the server's answer and the claim may repeat one"


def test_two_hosts_without_locks_send_nothing_twice(state: Path, server: MailServer, no_locks: Path) -> None:
    identities = [queue(state, number, time.time()) for number in range(60)]
    (state / "runs").mkdir(mode=0o700)
    world = {**ENVIRON, **environ_of(server), "GPUALERT_HOME": str(state)}
    world |= {"LD_PRELOAD": str(no_locks), "NO_LOCKS": "37"}  # ENOLCK
    ticks = [subprocess.Popen(python_command("tick"), env=world) for _ in range(2)]
    assert [tick.wait() for tick in ticks] == [0, 0]
    drained(state, server.port, time.time(), messages_per_minute=0)
    assert got(server) == Counter(identities)


def test_a_real_run_through_bad_weather(make_run: RunBuilder, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Greylisted by the report, too large for the server at the first tick, and delivered all the same."""
    with MailServer().running() as server:
        for name, value in environ_of(server).items():
            monkeypatch.setenv(name, value)
        server.answer("RCPT", "450 greylisted")
        path = make_run()
        post(path)
        assert "450 greylisted" in (path / "post.log").read_text()
        (state_file,) = (state / "outbox").glob("2026*.json")
        state_file.write_text(re.sub(r'"next_at": [0-9.]+', '"next_at": 0', state_file.read_text()))
        server.answer("DATA", "552 5.3.4 message size exceeds limit")
        assert tick_once(state) == []
        (mail,) = server.received
        assert b"output.log\r\nThe files are where the message says." in mail.content
