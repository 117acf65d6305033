"""Post killed at any moment, and finished by a tick: one message each."""

from __future__ import annotations

import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest
from outcomes import messages, tick_once
from rundirs import RunBuilder
from smtp_server import MailServer

from gpualert.places import python_command
from gpualert.tick import DONE


def run_of(make_run: RunBuilder, number: int) -> Path:
    run_id = f"20261129T1452{number % 60:02}Z-node03-{number:08x}"
    return make_run(run_id, start={"run_id": run_id})


def post_time_s(make_run: RunBuilder) -> float:
    """Return how long a whole post takes here and now."""
    for run_id in ("warm-up", "measured"):
        began = time.monotonic()
        subprocess.run(python_command("post", str(make_run(run_id, start={"run_id": run_id}))), check=True)
    return time.monotonic() - began


def kill_at(path: Path, delay_s: float) -> None:
    """Start the post of a run and kill it after a while."""
    with subprocess.Popen(python_command("post", str(path))) as process:
        try:
            process.wait(delay_s)
        except subprocess.TimeoutExpired:
            process.kill()


@pytest.mark.parametrize("moments", [20, pytest.param(200, marks=[pytest.mark.long, pytest.mark.timeout(1800)])])
def test_post_killed_at_any_moment_and_a_tick_give_one_message_each(
    make_run: RunBuilder, state: Path, monkeypatch: pytest.MonkeyPatch, moments: int
) -> None:
    monkeypatch.setenv("GPUALERT_DIGEST_WINDOW_S", "0")
    longest_s = post_time_s(make_run) * 1.1
    paths = [run_of(make_run, number) for number in range(moments)]
    for number, path in enumerate(paths):
        kill_at(path, longest_s * number / moments)
    unfinished = [path for path in paths if not (path / "claims" / DONE).exists()]
    assert unfinished  # else nothing was killed
    while any(not (path / "claims" / DONE).exists() for path in paths):
        assert tick_once(state) == []
    found = Counter(str(mail["Message-ID"]) for mail in messages(state))
    assert len(found) == moments + 2 and set(found.values()) == {1}


def test_a_mail_server_gets_each_message_again_only_where_its_answer_was_not_written_down(
    make_run: RunBuilder, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with MailServer().running() as server:
        path = run_of(make_run, 1)
        for name, value in server.environ.items():
            monkeypatch.setenv(name, value)
        started: list[subprocess.Popen[bytes]] = []
        server.on_data = lambda: started[0].kill()  # between the server's acceptance and its answer
        started.append(subprocess.Popen(python_command("post", str(path))))
        started[0].wait()
        server.on_data = lambda: None
        assert tick_once(state) == tick_once(state) == []
    sent = [line for mail in server.received for line in mail.content.splitlines() if line.startswith(b"Message-ID:")]
    assert len(sent) == 2 and len(set(sent)) == 1
