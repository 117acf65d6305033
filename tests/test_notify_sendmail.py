from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from gpualert.errors import DeliveryError
from gpualert.notify import ChannelError
from gpualert.notify.sendmail import deliver, find_sendmail


def a_program(folder: Path, body: str) -> str:
    path = folder / "sendmail"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


def test_the_program_gets_the_envelope_as_words_and_the_message_on_its_input(tmp_path):
    program = a_program(tmp_path, f'printf "%s\\n" "$@" >{tmp_path}/words; cat >{tmp_path}/message')
    deliver(program, "me@x.org", ["a@x.org", "b@x.org"], b"Subject: s\r\nBcc: c@x.org\r\n\r\n.\r\nend\r\n", 10)
    assert (tmp_path / "words").read_text().split() == ["-i", "-f", "me@x.org", "--", "a@x.org", "b@x.org"]
    assert (tmp_path / "message").read_bytes() == b"Subject: s\nBcc: c@x.org\n\n.\nend\n"


@pytest.mark.parametrize(
    ("status", "kind", "permanent"),
    [
        (75, DeliveryError, False),
        (71, DeliveryError, False),
        (69, DeliveryError, False),
        (1, DeliveryError, False),
        (67, DeliveryError, True),
        (68, DeliveryError, True),
        (65, DeliveryError, True),
        (78, ChannelError, False),
        (64, ChannelError, False),
        (127, DeliveryError, False),
    ],
)
def test_the_exit_status_tells_for_now_from_for_good(tmp_path, status, kind, permanent):
    program = a_program(tmp_path, f"cat >/dev/null; echo no; exit {status}")
    with pytest.raises(DeliveryError, match=rf"exit status {status}.*: no$") as caught:
        deliver(program, "me@x.org", ["a@x.org"], b"m", 10)
    assert (type(caught.value), caught.value.permanent) == (kind, permanent)


def test_a_program_that_reads_nothing_is_no_trouble(tmp_path):
    deliver(a_program(tmp_path, "exit 0"), "me@x.org", ["a@x.org"], b"m" * 1_000_000, 10)


def test_a_program_that_hangs_is_ended_with_its_children(tmp_path):
    program = a_program(tmp_path, f"sleep 600 & echo $! >{tmp_path}/child; wait")
    with pytest.raises(ChannelError, match="took longer than 1 s"):
        deliver(program, "me@x.org", ["a@x.org"], b"m", 1)
    with suppress(psutil.NoSuchProcess):
        child = psutil.Process(int((tmp_path / "child").read_text()))
        assert child.status() == psutil.STATUS_ZOMBIE or psutil.wait_procs([child], timeout=10)[0]


def test_a_child_that_the_program_leaves_behind_does_not_cost_the_acceptance(tmp_path):
    program = a_program(tmp_path, f"cat >/dev/null; sleep 600 & echo $! >{tmp_path}/child; echo queued; exit 0")
    try:
        deliver(program, "me@x.org", ["a@x.org"], b"m", 30)
    finally:
        child = psutil.Process(int((tmp_path / "child").read_text()))
        runs_on = child.is_running()
        child.kill()
    assert runs_on, "it is the mail system's own, and may be at the delivery"


def test_a_missing_program_is_said(tmp_path):
    with pytest.raises(ChannelError, match="nowhere/sendmail': No such file"):
        deliver("/nowhere/sendmail", "me@x.org", ["a@x.org"], b"m", 10)


def test_the_program_is_looked_for_on_path(tmp_path, monkeypatch):
    program = a_program(tmp_path, "exit 0")
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    assert find_sendmail() == program
    assert find_sendmail("/else/where") == "/else/where"
