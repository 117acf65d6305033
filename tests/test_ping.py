"""The outside alarm hears of start and end, and never keeps a job waiting."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from rundirs import RUN_ID, RunBuilder
from smtp_server import closed_port
from web_server import WebServer

from gpualert.config import load_settings, shown
from gpualert.notify.ping import ping
from gpualert.places import python_command
from gpualert.post import post

CHECK = "/ping/1b4e28ba-2fa1-11d2-883f-0016d3cca427"


@dataclass
class Alarm(WebServer):
    """An alarm with one check."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}{CHECK}"

    @property
    def paths(self) -> list[str]:
        return [urlsplit(path).path.removeprefix(CHECK) for path, _ in self.calls]


@pytest.fixture
def alarm() -> Iterator[Alarm]:
    alarm = Alarm()
    with alarm.running():
        yield alarm


@pytest.mark.parametrize(
    ("status", "log", "path"),
    [(0, b"done\n", ""), (7, b"ValueError: x\n", "/7"), (0, b"MemoryError\n", None)],
    ids=["success", "failure", "status 0"],
)
def test_the_alarm_hears_the_end_once(
    make_run: RunBuilder, alarm: Alarm, status: int, log: bytes, path: str | None
) -> None:
    run = make_run(exit={"status": status}, log=log, options={"ping_url": alarm.url})
    post(run), post(run)
    assert len(alarm.paths) == 1
    assert path is None or alarm.paths == [path]
    assert "train.py" in alarm.calls[0][1]


def test_start_and_end_of_one_run_carry_one_id(make_run: RunBuilder, alarm: Alarm) -> None:
    run = make_run(options={"ping_url": alarm.url})
    subprocess.run(python_command("ping", "--start", str(run)), check=True)
    post(run)
    assert alarm.paths == ["/start", "/1"]
    ids = [parse_qs(urlsplit(path).query)["rid"] for path, _ in alarm.calls]
    assert ids[0] == ids[1]


def test_the_settings_alarm_hears_of_runs_that_have_none_and_its_url_is_never_shown(
    make_run: RunBuilder, alarm: Alarm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUALERT_PING_URL", alarm.url)
    post(make_run())
    assert alarm.paths == ["/1"]
    assert CHECK not in str(shown(load_settings())) and CHECK not in repr(load_settings())


def test_a_run_inside_another_is_not_what_the_settings_alarm_waits_for(
    make_run: RunBuilder, alarm: Alarm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUALERT_PING_URL", alarm.url)
    make_run(ended=False, start={"pid": 1, "pid_starttime": ""})
    post(make_run("inner", start={"run_id": "inner", "parent_run_id": RUN_ID}))
    assert alarm.paths == []


def test_a_call_that_is_not_heard_is_tried_again_and_a_refused_one_is_not(alarm: Alarm) -> None:
    alarm.statuses = [500, 503]
    assert ping(alarm.url, "start", "r", "x", 20) == ""
    assert len(alarm.calls) == 3
    alarm.statuses = [404]
    assert ping(alarm.url, "start", "r", "x", 20) == "cannot ping 127.0.0.1: it answered 404"
    assert len(alarm.calls) == 4


def test_a_redirect_is_not_followed(alarm: Alarm) -> None:
    alarm.statuses = [302, 302, 302]
    assert "302" in ping(alarm.url, "", "r", "x", 20)
    assert all(path.startswith(CHECK) for path, _ in alarm.calls)


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://x/y", "http://", "http://[", "nonsense", ""])
def test_what_is_no_web_address_is_refused(url: str) -> None:
    assert ping(url, "", "r", "x", 5) == "cannot ping: the URL is none of http or https"


def test_an_alarm_that_nobody_hears_or_that_hangs_is_said_and_changes_nothing(
    make_run: RunBuilder, alarm: Alarm
) -> None:
    alarm.gate = threading.Event()
    gone = f"http://127.0.0.1:{closed_port()}{CHECK}"
    for number, url in enumerate((gone, alarm.url)):
        run_id = f"2026112{number}T145138Z-node03-3f9a1c2e"
        run = make_run(run_id, options={"ping_url": url}, start={"run_id": run_id})
        post(run, wait=True)
        said = (run / "post.log").read_text()
        assert "cannot ping 127.0.0.1" in said and CHECK not in said
        assert (run / "claims" / "ended-done").exists()
    alarm.gate.set()


def test_a_query_in_the_url_stays(alarm: Alarm) -> None:
    ping(f"{alarm.url}/?key=1", "fail", "r", "x", 5)
    assert alarm.calls[0][0].startswith(f"{CHECK}/fail?key=1&rid=")
    assert Path(CHECK).name in alarm.calls[0][0]
