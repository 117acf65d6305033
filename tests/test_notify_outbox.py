from __future__ import annotations

import json
import mailbox
import os
import signal
import stat
import subprocess
import sys
import threading
from dataclasses import replace
from email import message_from_bytes
from email.policy import default
from pathlib import Path
from typing import Any

import pytest
from reports import a_report, an_artifact
from sites import NOW, no_room_for, to_server
from smtp_server import MailServer, answering, closed_port, scripted

from gpualert.claims import locked
from gpualert.config import Settings, Smtp
from gpualert.notify.message import Envelope, compose
from gpualert.notify.outbox import MAX_AGE_S, Summary, queue_message, send_due
from gpualert.notify.spool import Spool

ENVIRON = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
ANN, BOB = "ann@example.org", "bob@example.org"


def queue(state: Path, number: int = 1, to: tuple[str, ...] = (ANN,), now: float = NOW, files: Any = ()) -> str:
    """Queue the message of a run; return its Message-ID."""
    identity = f"<2026113{number:05d}Z-node03-3f9a1c2e.failed@gpualert.invalid>"
    message = compose(a_report(artifacts=files), files, Envelope(ANN, ANN, to), identity, NOW)
    queue_message(
        state, message, message_id=identity, mail_from=ANN, to=to, now=now, run_path=Path(f"/runs/run-{number}")
    )
    return identity


def send(state: Path, settings: Settings, now: float = NOW, deadline_s: float = 20.0, **more: Any) -> Summary:
    return send_due(state, settings, now, deadline_s, **more)


def waiting(state: Path) -> list[Any]:
    spool = Spool(state / "outbox")
    return [spool.read(path) for path in spool.states()]


def dead(state: Path) -> list[str]:
    return sorted(path.suffix for path in (state / "outbox" / "dead").iterdir())


def test_a_queued_message_is_delivered_once_and_leaves_a_claim(state, server):
    identity = queue(state)
    assert send(state, to_server(server.port)) == Summary(sent=(identity,))
    assert send(state, to_server(server.port)) == Summary()
    queue(state)
    assert send(state, to_server(server.port)) == Summary(), "a message that was sent cannot be queued again"
    assert [message_from_bytes(got.content)["Message-ID"] for got in server.received] == [identity]
    assert not list((state / "outbox").glob("*.eml"))


def test_the_same_message_is_kept_once(state):
    queue(state)
    first = waiting(state)
    queue(state, now=NOW + 50)
    assert waiting(state) == first and len(first) == 1


def test_the_default_needs_no_set_up_and_makes_one_file(state):
    identities = [queue(state, number) for number in range(3)]
    assert send(state, Settings()).sent == tuple(identities)
    assert sorted(mail["Message-ID"] for mail in mailbox.Maildir(state / "mail")) == identities


def test_without_a_spool_there_is_nothing_to_do(state):
    assert send(state, Settings()) == Summary()
    assert not state.exists()


def test_only_the_message_that_was_asked_for_is_tried(state):
    queue(state, 1)
    second = queue(state, 2)
    assert send(state, Settings(), only=second) == Summary(sent=(second,), waiting=1)


def test_the_channel_none_keeps_everything(state):
    queue(state)
    assert send(state, Settings(mail="none")) == Summary(waiting=1)


def test_a_refusal_for_now_is_tried_again_later_and_then_delivered(state, server):
    identity = queue(state)
    server.answer("RCPT", "450 greylisted", "450 greylisted")
    delays = []
    for now in (NOW, NOW + 100):
        assert send(state, to_server(server.port), now) == Summary(waiting=1)
        delays.append(waiting(state)[0].next_at - now)
        assert "450 greylisted" in waiting(state)[0].last_error
    assert delays[0] < 70 and delays[1] > 100
    assert send(state, to_server(server.port), NOW + 110) == Summary(waiting=1), "it is not due yet"
    assert send(state, to_server(server.port), NOW + 300).sent == (identity,)
    assert len(server.received) == 1


def test_a_refusal_for_good_is_tried_once_put_aside_and_said_once(state, server):
    queue(state)
    server.answer("RCPT", "550 5.1.1 no such user")
    found = send(state, to_server(server.port))
    (sentence,) = found.dead
    assert sentence.startswith("the message about 'run-1' to ann@example.org was given up: ")
    assert sentence.endswith("550 5.1.1 no such user")
    assert send(state, to_server(server.port), NOW + 1e6) == Summary()
    assert dead(state) == [".eml", ".json", ".unsaid"] and server.received == []


@pytest.mark.parametrize("address", ["", "a b@x.org", "-oQ/tmp", "a@x.org\r\nRCPT TO:<b@x.org>", "jörg@x.org", "a@b@c"])
def test_what_is_no_address_never_reaches_a_server(state, server, address):
    queue(state, 1, (address,))
    queue(state, 2, (address, BOB))
    found = send(state, to_server(server.port))
    assert "no mail address" in found.dead[0]
    assert [got.to for got in server.received] == [[BOB]]
    assert len(found.sent) == 1 and "no mail address" in found.troubles[0]


def test_recipients_refused_for_now_get_it_later_and_the_others_once(state, server):
    queue(state, 1, (ANN, BOB, "cy@example.org"))
    server.answer(BOB, "450 later")
    server.answer("cy@example.org", "550 no")
    first = send(state, to_server(server.port))
    assert (first.sent, first.waiting, first.troubles) == ((), 1, ("cy@example.org: 550 no",))
    assert len(send(state, to_server(server.port), NOW + 1000).sent) == 1
    assert [got.to for got in server.received] == [[ANN], [BOB]]


def test_a_message_refused_for_its_size_goes_without_its_attachments(state, server):
    queue(state, files=[an_artifact(content=b"x" * 50_000)])
    server.answer("DATA", "552 5.3.4 message size exceeds limit")
    assert len(send(state, to_server(server.port)).sent) == 1
    (got,) = server.received
    *_, note = message_from_bytes(got.content, policy=default).iter_parts()
    assert "its attachments were left out:\r\nmetrics.csv\r\n" in note.get_content()
    assert len(got.content) < 40_000


def test_a_message_refused_for_its_size_again_goes_with_the_least_that_says_what_happened(state, server):
    identity = queue(state, files=[an_artifact()])
    server.answer("DATA", "552 too large", "552 too large")
    assert send(state, to_server(server.port)).sent == (identity,)
    (got,) = server.received
    mail = message_from_bytes(got.content, policy=default)
    assert mail["Message-ID"] == identity and mail.get_content_type() == "text/plain"
    assert len(got.content) < 3500 and "CUDA out of memory" in mail.get_content()
    assert "refused more for its size" in mail.get_content()


def test_a_message_refused_for_its_size_a_third_time_is_given_up(state, server):
    queue(state, files=[an_artifact()])
    server.answer("DATA", "552 too large", "552 too large", "552 too large")
    assert "552 too large" in send(state, to_server(server.port)).dead[0]
    assert server.received == []


def test_an_announced_size_limit_sends_without_attachments_at_once(state):
    with MailServer(size_limit=60_000).running() as server:
        queue(state, files=[an_artifact(content=b"x" * 60_000)])
        assert len(send(state, to_server(server.port)).sent) == 1
        assert len(server.received) == 1


@pytest.mark.parametrize("broken", ["refused", pytest.param("unresolvable", marks=pytest.mark.long), "login"])
def test_a_channel_that_does_not_work_is_tried_once_a_round_and_less_and_less(state, broken):
    for number in range(5):
        queue(state, number)
    connections: list[int] = []

    def refuse_login(connection: Any) -> None:
        connections.append(1)
        answering(b"250 AUTH PLAIN", b"535 5.7.8 bad credentials")(connection)

    with scripted(refuse_login) as port:
        settings = {
            "refused": to_server(closed_port()),
            "unresolvable": Settings(mail="smtp", smtp=Smtp(host="no-such-host.invalid", security="none")),
            "login": replace(to_server(port), smtp=replace(to_server(port).smtp, user="ann", password="x")),
        }[broken]
        first = send(state, settings)
        assert (first.waiting, len(first.troubles), first.dead) == (5, 1, ())
        paused = send(state, settings, NOW + 30)
        assert "nothing is sent for another" in paused.troubles[0] and first.troubles[0] in paused.troubles[0]
        tried = [now for now in range(0, 3600, 10) if "another" not in send(state, settings, NOW + now).troubles[0]]
        assert 4 <= len(tried) <= 8, "1, 2, 4, 8, 15 minutes apart"
        assert len(connections) in (0, len(tried) + 1)


def test_a_pause_ends_with_success_and_does_not_outlive_the_settings_that_caused_it(state, server):
    queue(state, 1)
    send(state, to_server(closed_port()))
    queue(state, 2)
    assert len(send(state, to_server(server.port), NOW + 1).sent) == 1, "other settings do not wait"
    assert not (state / "outbox" / "pause").exists()


def test_one_message_that_breaks_the_connection_does_not_stop_the_others(state):
    queue(state, 1)
    with scripted(answering(b"250 hello", b"250 ok", b"250 ok", b"354 go")) as port:
        found = send(state, to_server(port))
        assert (found.waiting, found.troubles) == (1, ())
        assert not (state / "outbox" / "pause").exists()


def test_what_cannot_be_delivered_for_five_days_is_put_aside_and_said(state):
    queue(state)
    settings = to_server(closed_port())
    assert send(state, settings, NOW + MAX_AGE_S - 10).dead == ()
    (sentence,) = send(state, settings, NOW + MAX_AGE_S + 4000).dead
    assert "not delivered within 5d" in sentence and "refused" in sentence
    assert dead(state) == [".eml", ".json", ".unsaid"]


def test_an_outage_of_a_day_loses_nothing_and_doubles_nothing(state, server):
    down = to_server(closed_port())
    identities = []
    for hour in range(24):
        identities += [queue(state, hour * 10 + i, now=NOW + hour * 3600) for i in range(3)]
        assert send(state, down, NOW + hour * 3600).sent == ()
    up, sent, now = to_server(server.port), [], NOW + 86400.0
    while waiting(state):
        now += 60
        sent += send(state, up, now).sent
        assert now < NOW + 86400 + 2 * 3600
    assert sorted(sent) == sorted(identities)
    assert sorted(message_from_bytes(got.content)["Message-ID"] for got in server.received) == sorted(identities)


def test_the_round_ends_at_its_deadline_and_the_rest_waits(state):
    for number in range(50):
        queue(state, number)
    assert send(state, Settings(), deadline_s=0.4) == Summary(waiting=50)
    with scripted(answering(b"hang")) as port:
        found = send(state, to_server(port), deadline_s=0.7)
    assert found.waiting == 50 and "no answer within" in found.troubles[0]


def test_a_message_that_the_server_took_without_an_answer_is_not_hurried(state):
    """It may have arrived: each early try would be one more copy."""
    queue(state)
    with scripted(answering(b"250 hello", b"250 ok", b"250 ok", b"354 go", b"hang")) as port:
        send(state, to_server(port), last_answer_s=0.3)
    (item,) = waiting(state)
    assert "it may arrive all the same" in item.last_error
    assert item.next_at - NOW > 3000
    assert not (state / "outbox" / "pause").exists()


def test_a_clock_that_was_set_back_stops_no_mail(state, server):
    day_s = 86400.0
    queue(state, now=NOW + day_s)
    send(state, to_server(closed_port()), NOW + day_s)
    assert send(state, to_server(server.port), NOW + day_s).waiting == 1, "before, it is not due"
    queue(state, 2, now=NOW + day_s)
    assert len(send(state, to_server(server.port), NOW).sent) == 2


def test_a_pause_from_a_clock_that_was_wrong_does_not_count(state):
    queue(state)
    settings = to_server(closed_port())
    send(state, settings, NOW + 86400)
    assert "nothing is sent" not in send(state, settings, NOW).troubles[0]
    assert "nothing is sent for another" in send(state, settings, NOW + 1).troubles[0]


def test_a_message_without_a_sender_goes_to_whom_the_settings_name_when_it_is_sent(state, server):
    for number, to in enumerate([(), (BOB,)]):
        queue_message(state, b"Subject: x\r\n\r\nx\r\n", message_id=f"<{number}@x>", mail_from="", to=to, now=NOW)
    assert len(send(state, replace(to_server(server.port), to=(ANN,), sender="me@example.org")).sent) == 2
    assert [(got.mail_from, got.to) for got in server.received] == [
        ("me@example.org", [ANN]),
        ("me@example.org", [BOB]),
    ]


def test_drafts_of_a_killed_writer_go_after_an_hour_and_no_earlier(state):
    queue(state)
    old, young = state / "outbox" / ".x.eml.123", state / "outbox" / ".y.json.124"
    for draft in (old, young):
        draft.write_bytes(b"half")
    os.utime(old, (old.stat().st_mtime - 3700,) * 2)
    assert len(send(state, Settings()).sent) == 1
    assert (old.exists(), young.exists()) == (False, True)


def test_while_another_process_sends_nothing_is_done(state):
    queue(state)
    (state / "locks").mkdir()
    with locked(state / "locks" / "outbox", 1):
        assert send(state, Settings(lock_timeout_s=0.1)) == Summary(busy=True)
    assert len(send(state, Settings()).sent) == 1


def test_many_senders_at_once_send_each_message_once(state, server):
    identities = [queue(state, number) for number in range(12)]
    rounds: list[Summary] = []
    threads = [threading.Thread(target=lambda: rounds.append(send(state, to_server(server.port)))) for _ in range(6)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert sorted(identity for found in rounds for identity in found.sent) == identities
    assert len(server.received) == 12


BROKEN = {
    "no json": b"{",
    "a list": b"[]",
    "another schema": b'{"schema": 99}',
    "a missing key": b'{"schema": 1, "message_id": "<1@x>"}',
    "a wrong type": b'{"schema": 1, "message_id": 5, "mail_from": "", "to": [], "queued_at": 0}',
    "no list of addresses": b'{"schema": 1, "message_id": "<1@x>", "mail_from": "", "to": "a@x", "queued_at": 0}',
    "another message's": b'{"schema": 1, "message_id": "<1@x>", "mail_from": "", "to": [], "queued_at": 0}',
    "not UTF-8": b"\xff\xfe",
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_state_is_named_and_put_aside_and_the_rest_goes_on(state, content):
    good = queue(state, 2)
    (state / "outbox" / "20261101-broken.json").write_bytes(content)
    found = send(state, Settings())
    assert found.sent == (good,)
    (sentence,) = found.dead
    assert "outbox/20261101-broken.json': " in sentence and "put aside" in sentence
    assert send(state, Settings()) == Summary()
    assert (state / "outbox" / "dead" / "20261101-broken.json").read_bytes() == content


@pytest.mark.parametrize("kind", ["missing", "empty", "link", "folder"])
def test_a_broken_message_is_named_and_the_rest_goes_on(state, tmp_path, kind):
    queue(state, 1)
    good = queue(state, 2)
    (path, _) = sorted((state / "outbox").glob("*.eml"))
    path.unlink()
    if kind == "empty":
        path.touch()
    elif kind == "link":
        (tmp_path / "private").write_text("secret")
        path.symlink_to(tmp_path / "private")
    elif kind == "folder":
        path.mkdir()
    found = send(state, Settings())
    assert found.sent == (good,) and str(path) in found.dead[0]
    assert b"secret" not in b"".join(mail.as_bytes() for mail in mailbox.Maildir(state / "mail"))


def test_keys_of_a_later_version_are_skipped(state):
    identity = queue(state)
    (path,) = Spool(state / "outbox").states()
    path.write_text(json.dumps({**json.loads(path.read_text()), "colour": "blue"}))
    assert send(state, Settings()).sent == (identity,)


def test_nobody_else_can_read_the_spool_whatever_the_umask(state):
    before = os.umask(0)
    try:
        queue(state)
        send(state, to_server(closed_port()))
    finally:
        os.umask(before)
    for path in state.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_a_full_disk_while_queueing_is_said_and_leaves_no_half_message(state):
    with no_room_for(1000), pytest.raises(OSError, match="large"):
        queue(state)
    assert [path for path in (state / "outbox").rglob("*") if path.is_file()] == []
    identity = queue(state)
    assert send(state, Settings()).sent == (identity,)


def test_a_full_disk_while_sending_loses_nothing_and_the_rest_goes_on(state, server):
    first, second = queue(state, 1), queue(state, 2)
    server.answer("RCPT", "450 later")
    with no_room_for(50):
        found = send(state, to_server(server.port))
    assert found.sent == (second,) and "cannot keep the state of message" in found.troubles[0]
    assert send(state, to_server(server.port)).sent == (first,)


def test_a_full_disk_keeps_a_message_out_of_the_maildir_but_in_the_spool(state):
    identity = queue(state)
    with no_room_for(1000):
        found = send(state, Settings())
    assert found.waiting == 1 and "cannot deliver by maildir" in found.troubles[0]
    assert list(mailbox.Maildir(state / "mail")) == []
    assert send(state, Settings(), NOW + 1000).sent == (identity,)


def test_an_unusable_state_folder_is_said_to_whoever_queues(state):
    state.mkdir()
    (state / "outbox").write_text("in the way")
    with pytest.raises(OSError, match="outbox"):
        queue(state)


@pytest.mark.parametrize("done", [0, 1, 2], ids=["before the state", "after the claim", "before the message went"])
def test_a_sender_killed_between_two_files_is_taken_up(state, done):
    spool = Spool.of(state)
    if done == 0:  # the message is there, its state is not: queueing again completes it
        (spool.folder / "left.eml").write_bytes(b"orphan")
        identity = queue(state)
        (spool.folder / f"{waiting(state)[0].name}.json").unlink()
        assert queue(state) == identity
        assert send(state, Settings()).sent == (identity,)
        assert (spool.folder / "left.eml").exists(), "what nobody can explain is kept"
        return
    queue(state)
    (item,) = waiting(state)
    target = "sent" if done == 1 else "dead"
    (spool.folder / f"{item.name}.json").rename(spool.folder / target / f"{item.name}.json")
    assert send(state, Settings()) == Summary()
    assert not list(spool.folder.glob("*.eml"))
    assert (spool.folder / "dead" / f"{item.name}.eml").exists() == (done == 2)


def test_killed_at_any_moment_a_message_gets_one_maildir_file(state):
    code = """
import sys
from pathlib import Path
from test_notify_outbox import *
state = Path(sys.argv[1])
for number in range(int(sys.argv[2])):
    queue(state, number)
    print("queued", flush=True)
    send(state, Settings())
"""
    total = 6
    for round_ in range(8):
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(state), str(total)], stdout=subprocess.PIPE, env=ENVIRON
        )
        assert process.stdout
        for _ in range(1 + round_ % total):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
    for number in range(total):
        queue(state, number)
    send(state, Settings())
    found = [mail["Message-ID"] for mail in mailbox.Maildir(state / "mail")]
    assert len(found) == len(set(found)) == total
    assert waiting(state) == []


def test_killed_between_the_servers_answer_and_the_claim_the_repeat_has_the_same_message_id(state):
    """The one window in which a message may come twice."""
    with MailServer().running() as server:
        identity = queue(state)

        code = """
import os, signal, sys
from pathlib import Path
from test_notify_outbox import Spool, send, to_server
Spool.claim_sent = lambda self, item: os.kill(os.getpid(), signal.SIGKILL)
send(Path(sys.argv[1]), to_server(int(sys.argv[2])))
"""
        killed = subprocess.run([sys.executable, "-c", code, str(state), str(server.port)], env=ENVIRON, check=False)
        assert killed.returncode == -signal.SIGKILL and len(server.received) == 1
        assert send(state, to_server(server.port)).sent == (identity,)
        assert [message_from_bytes(got.content)["Message-ID"] for got in server.received] == [identity] * 2
        assert server.received[0].content == server.received[1].content
