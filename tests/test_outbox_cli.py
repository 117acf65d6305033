"""`gpualert outbox`: what waits is listed, tried again, dropped."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from outcomes import messages, tick_once
from rundirs import RUN_ID, RunBuilder
from smtp_server import MailServer, closed_port

from gpualert.places import python_command
from gpualert.post import post

OTHER_ID = "20261129T145200Z-node03-00000002"


def outbox(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(python_command("outbox", *words), capture_output=True, text=True, check=False)


@pytest.fixture
def away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let messages go to a server that is not there."""
    for name, value in MailServer(port=closed_port()).environ.items():
        monkeypatch.setenv(name, value)


def test_an_empty_outbox_is_status_1() -> None:
    assert (outbox().returncode, outbox("list").stdout) == (1, "")


def test_what_waits_is_listed_with_its_reason_and_the_pause(make_run: RunBuilder, away: None) -> None:
    post(make_run())
    post(make_run(OTHER_ID, start={"run_id": OTHER_ID}))
    done = outbox()
    assert done.returncode == 0
    assert RUN_ID in done.stdout and "waiting" in done.stdout and "refused" in done.stdout
    assert "collected" in done.stdout and "told with others: FAILED traceback" in done.stdout
    assert "paused: cannot deliver by smtp" in done.stdout
    assert {entry["standing"] for entry in json.loads(outbox("list", "--json").stdout)} == {"waiting", "collected"}


def test_retry_lifts_the_pause_and_sends_at_once(
    make_run: RunBuilder, away: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    post(make_run())
    assert outbox("retry").returncode == 1
    with MailServer().running() as server:
        monkeypatch.setenv("GPUALERT_SMTP_PORT", str(server.port))
        done = outbox("retry", RUN_ID)
        assert (done.returncode, done.stdout) == (0, "sent: 1, waiting: 0\n")
        assert len(server.received) == 1


def test_what_was_given_up_is_sent_after_all(
    make_run: RunBuilder, state: Path, away: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with MailServer().running() as server:
        monkeypatch.setenv("GPUALERT_SMTP_PORT", str(server.port))
        server.answer("RCPT", "550 5.1.1 no such user")
        post(make_run())
        assert "given up" in outbox().stdout
        assert outbox("retry").stdout == "sent: 0, waiting: 0\n"
        assert outbox("retry", RUN_ID).stdout == "sent: 1, waiting: 0\n"
        assert len(server.received) == 1
        assert tick_once(state) == [] and outbox().returncode == 1


def test_what_was_dropped_is_never_sent(
    make_run: RunBuilder, state: Path, away: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make_run()
    post(path)
    assert outbox("drop", RUN_ID).stdout.startswith(f"dropped {RUN_ID}")
    monkeypatch.setenv("GPUALERT_MAIL", "maildir")
    (path / "claims" / "ended-done").unlink()
    (path / "claims" / "ended-queued").unlink()
    assert tick_once(state) == [] and messages(state) == []


@pytest.mark.parametrize("words", [("drop",), ("drop", "nothing"), ("retry", "2026"), ("retry", "")])
def test_a_word_that_means_no_message_or_several_is_refused(
    make_run: RunBuilder, away: None, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUALERT_DIGEST_WINDOW_S", "0")
    for run_id in (RUN_ID, OTHER_ID):
        post(make_run(run_id, start={"run_id": run_id}))
    done = outbox(*words)
    assert done.returncode == 2 and "Traceback" not in done.stderr and "gpualert outbox list" in done.stderr


def test_all_that_was_given_up_is_dropped(
    make_run: RunBuilder, state: Path, away: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUALERT_TO", "no address")
    monkeypatch.setenv("GPUALERT_DIGEST_WINDOW_S", "0")
    (state / "outbox" / "dead").mkdir(parents=True, mode=0o700)
    (state / "outbox" / "dead" / "broken.json").write_text("{")
    assert outbox("drop", "--given-up").stdout == "dropped broken\n"
    assert outbox().returncode == 1


def doctor() -> dict[str, dict[str, str]]:
    done = subprocess.run(python_command("doctor", "--json"), capture_output=True, text=True, check=False)
    return {f"{check['thing']} {check['mark']}": check for check in json.loads(done.stdout)}


def test_the_doctor_says_what_waits_and_what_was_given_up_and_why(
    make_run: RunBuilder, away: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    post(make_run())
    assert (
        "waiting messages: 1; the last: " in (found := doctor()["outbox warn"])["found"] and "refused" in found["found"]
    )
    assert "outbox retry" in found["advice"]
    with MailServer().running() as server:
        monkeypatch.setenv("GPUALERT_SMTP_PORT", str(server.port))
        server.answer("RCPT", "550 5.1.1 no such user")
        assert outbox("retry").returncode == 1
    found = doctor()["outbox warn"]
    assert "messages given up: 1; the last: me@example.org: 550 5.1.1 no such user" in found["found"]
    assert "drop --given-up" in found["advice"]


def test_the_doctor_warns_where_a_tick_is_to_send_and_none_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUALERT_DELIVER", "tick")
    assert "none runs" in doctor()["mail warn"]["found"]


def test_a_message_that_a_tick_is_to_send_waits_for_it(
    make_run: RunBuilder, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUALERT_DELIVER", "tick")
    post(make_run())
    assert messages(state) == []
    assert tick_once(state) == [] and len(messages(state)) == 1
