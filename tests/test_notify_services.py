"""Other services, through apprise: the same report, the same guarantees, no secret shown."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from email.message import EmailMessage
from email.policy import SMTP
from pathlib import Path

import pytest
from smtp_server import closed_port
from web_server import WebServer

from gpualert.config import Settings, load_settings, shown
from gpualert.errors import ConfigError
from gpualert.notify.channels import channels_of
from gpualert.notify.outbox import Summary, queue_message, send_due
from gpualert.notify.services import fitted, label_of
from gpualert.notify.spool import Spool
from gpualert.places import python_command

pytest.importorskip("apprise", reason="apprise is not installed")

NOW = 1_796_000_000.0
TOKEN = "3ccdd113474722377935511fc85d3dd4"


@pytest.fixture
def chat() -> Iterator[WebServer]:
    with WebServer().running() as server:
        yield server


def url_of(server: WebServer | int, token: str = TOKEN) -> str:
    """Return the URL of a Mattermost server: at most 4,000 characters, and no titles."""
    port = server if isinstance(server, int) else server.port
    return f"mmost://127.0.0.1:{port}/{token}"


def queue(state: Path, settings: Settings, body: str = "It failed.\n", number: int = 1) -> str:
    identity = f"<2026113{number:05d}Z-node03-3f9a1c2e.failed@gpualert.invalid>"
    mail = EmailMessage(policy=SMTP)
    mail["Subject"], mail["Message-ID"] = "FAILED cuda_oom: train.py", identity
    mail.set_content(body)
    to, channels = ("a@example.org",), channels_of(settings)
    queue_message(state, bytes(mail), message_id=identity, mail_from="m@x.org", to=to, now=NOW, channels=channels)
    return identity


def texts(server: WebServer) -> list[str]:
    return [json.loads(body)["text"] for _, body in server.calls]


def test_a_message_goes_to_a_service_beside_the_maildir_once_each(state: Path, chat: WebServer) -> None:
    settings = Settings(apprise=(url_of(chat),))
    identity = queue(state, settings)
    assert send_due(state, settings, NOW, 20).sent == (identity, identity)
    assert send_due(state, settings, NOW + 1e6, 20) == Summary()
    (text,) = texts(chat)
    assert text.startswith("FAILED cuda_oom: train.py") and "It failed." in text
    assert len(list((state / "mail" / "new").iterdir())) == 1
    queue(state, settings)
    assert send_due(state, settings, NOW + 2e6, 20) == Summary()


def test_apprise_as_the_only_channel(state: Path, chat: WebServer) -> None:
    settings = Settings(mail="apprise", apprise=(url_of(chat),))
    queue(state, settings)
    assert len(send_due(state, settings, NOW, 20).sent) == 1
    assert len(chat.calls) == 1 and not (state / "mail").exists()


def test_what_is_too_long_is_cut_in_its_middle_and_says_so(state: Path, chat: WebServer) -> None:
    settings = Settings(mail="apprise", apprise=(url_of(chat),))
    queue(state, settings, "first line\n" + "some line of the log\n" * 1000 + "last line\n")
    send_due(state, settings, NOW, 20)
    (text,) = texts(chat)
    assert len(text) <= 4000
    assert "first line" in text and "characters left out" in text and text.endswith("last line")


def test_what_grows_as_html_is_cut_further() -> None:
    shown_text = fitted("<&>" * 1000, "title", 500, 100, as_html=True)
    assert len(shown_text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")) <= 500


def test_words_that_wake_everybody_are_disarmed() -> None:
    harmless = fitted("@everyone @here <!channel> <@U123> me@example.org", "t", 1000, 100, as_html=False)
    assert not any(word in harmless for word in ("@everyone", "@here", "<!channel", "<@U"))
    assert "me@example.org" in harmless


def test_a_service_that_is_away_waits_alone_and_gets_it_later(state: Path, chat: WebServer) -> None:
    away = closed_port()
    settings = Settings(apprise=(url_of(chat), url_of(away)))
    queue(state, settings)
    first = send_due(state, settings, NOW, 20)
    assert (len(first.sent), first.waiting) == (1, 1)
    (item,) = [Spool(state / "outbox").read(path) for path in Spool(state / "outbox").states()]
    assert item.to == (label_of(url_of(away)),)
    back = WebServer(port=away)
    with back.running():
        assert send_due(state, settings, NOW + 1000, 20).waiting == 0
    assert (len(chat.calls), len(back.calls)) == (1, 1)


def test_when_all_services_are_away_they_are_tried_less_and_less_and_mail_goes_on(state: Path) -> None:
    settings = Settings(apprise=(url_of(closed_port()),))
    for number in range(3):
        queue(state, settings, number=number)
    found = send_due(state, settings, NOW, 20)
    assert (len(found.sent), found.waiting, len(found.troubles)) == (3, 3, 1)
    assert "nothing is sent for another" in send_due(state, settings, NOW + 10, 20).troubles[0]


def test_no_secret_of_a_url_is_shown_anywhere(state: Path, chat: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUALERT_APPRISE", f"{url_of(chat)},{url_of(closed_port())},nonsense://{TOKEN}/{TOKEN}")
    chat.statuses = [403, 500]
    settings = load_settings()
    queue(state, settings)
    found = send_due(state, settings, NOW, 20)
    assert found.troubles
    for path in (state / "outbox").rglob("*.json"):
        assert TOKEN not in path.read_text()
    listed = subprocess.run(python_command("outbox", "list"), capture_output=True, text=True, check=True)
    doctor = subprocess.run(python_command("config"), capture_output=True, text=True, check=True)
    everything = str(found) + str(shown(settings)) + repr(settings) + listed.stdout + doctor.stdout + doctor.stderr
    assert TOKEN not in everything and "mmost-" in listed.stdout


def test_a_service_that_hangs_is_left_at_the_limit(state: Path, chat: WebServer) -> None:
    chat.gate = threading.Event()
    settings = Settings(mail="apprise", apprise=(url_of(chat),))
    queue(state, settings)
    found = send_due(state, settings, NOW, 1.5)
    assert found.waiting == 1 and "it may have got the message" in found.troubles[0]
    chat.gate.set()


def test_a_message_for_a_service_that_is_set_no_more_is_given_up_and_said(state: Path, chat: WebServer) -> None:
    queue(state, Settings(apprise=(url_of(chat),)))
    found = send_due(state, Settings(), NOW, 20)
    assert len(found.sent) == 1 and "names no service any more" in found.dead[0]


def test_apprise_without_a_service_is_a_broken_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUALERT_MAIL", "apprise")
    with pytest.raises(ConfigError, match="'apprise' names no service"):
        load_settings()
