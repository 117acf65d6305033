"""What a job sees of its terminal, and what comes out of it."""

from __future__ import annotations

import hashlib
import re

import pytest

from .desk import Desk, Sides, python
from .emulator import COLUMNS, ROWS


def shown_by(desk: Desk, name: str, *words: object) -> tuple[int, bytes, list[object]]:
    """Run a job on a terminal of its own; return its status, each byte that came out, and the modes it left."""
    with desk.job(name, *words) as term:
        return term.wait(), bytes(term.raw), term.modes


def test_the_job_sees_the_terminal(sides: Sides, shell: str) -> None:
    status, raw, _ = sides.same(lambda desk: shown_by(desk, "look.py"))
    assert status == 3
    assert b"TTY True True True" in raw
    assert f"size {ROWS}x{COLUMNS} {ROWS}x{COLUMNS} {ROWS}x{COLUMNS}".encode() in raw


def test_the_record_says_that_a_terminal_was_relayed(desk: Desk, shell: str) -> None:
    shown_by(desk, "look.py")
    start = desk.only_run().start
    assert (start["stdout"], start["stderr"], start["combined"]) == ("pty", "pty", "1")


def test_each_byte_comes_out_as_from_the_bare_command(sides: Sides, shell: str) -> None:
    sides.same(lambda desk: shown_by(desk, "write.py", "bytes"))
    assert sides.wrapped.log() == b"<" + bytes(range(256)) + b">\n"


def test_two_streams_keep_their_order(sides: Sides) -> None:
    sides.same(lambda desk: shown_by(desk, "write.py", "order", 400))
    assert sides.wrapped.log() == b"".join(b"%d\n" % n for n in range(400))


def test_all_of_a_large_output_comes_out(sides: Sides, shell: str) -> None:
    def observe(desk: Desk) -> tuple[int, str]:
        status, raw, _ = shown_by(desk, "write.py", "lines", 60_000, 6)
        return status, hashlib.sha256(raw).hexdigest()

    assert sides.same(observe)[0] == 6
    assert sides.wrapped.log().count(b"\n") == 60_000


@pytest.mark.parametrize("signal", ["KILL", "SEGV", "TERM", "INT", "ABRT"])
def test_a_death_by_signal_has_its_status(sides: Sides, signal: str) -> None:
    def observe(desk: Desk) -> tuple[int, bytes]:
        with desk.command("sh", "-c", f"printf 'last words'; ulimit -c 0; kill -{signal} $$") as term:
            return term.wait(), bytes(term.raw)

    sides.same(observe)


def test_all_output_is_there_before_the_next_prompt(sides: Sides, shell: str) -> None:
    def observe(desk: Desk) -> list[str]:
        with desk.sit_down() as term:
            term.shell("for n in 1 2 3 4 5 6 7 8 9 10; do $W printf '%s words\\n' $n; done")
            return term.rows

    assert sides.same(observe)[-1] == "[0]>"


def test_a_resize_reaches_the_job(sides: Sides, shell: str) -> None:
    def observe(desk: Desk) -> list[bytes]:
        with desk.job("sizes.py") as term:
            term.expect("33x100")
            term.resize(40, 120)
            term.expect("40x120")
            term.resize(20, 50)
            term.expect("20x50")
            assert term.wait() == 0
            return list(dict.fromkeys(bytes(term.raw).splitlines()))  # told twice is no harm

    sides.same(observe)


def test_a_resize_while_the_job_is_stopped_is_seen_afterwards(sides: Sides) -> None:
    def observe(desk: Desk) -> int:
        with desk.sit_down() as term:
            term.line(python("sizes.py"))
            term.expect("33x100")
            term.suspend()
            term.prompt()
            term.resize(20, 50)
            term.line("fg")
            term.expect("20x50")
            return term.prompt()

    assert sides.same(observe) == 0


REDIRECTED = {
    "stderr to a file": ("{} 2>side", "pty", "adopt"),
    "stdout to a file": ("{} >side", "adopt", "pty"),
    "stdout to a pipe": ("{} | cat", "tee", "pty"),
    "stderr to a pipe": ("{} 2>&1 >/dev/tty | cat", "pty", "tee"),
    "stdin from a file": ("{} <.rc", "pty", "pty"),
    "stdin from a pipe": ("true | {}", "pty", "pty"),
    "stdout closed": ("{} >&-", "closed", "pty"),
    "nothing": ("{} >side 2>&1", "adopt", "adopt"),
}


@pytest.mark.parametrize(("how", "stdout", "stderr"), REDIRECTED.values(), ids=REDIRECTED)
def test_each_stream_goes_its_own_way(sides: Sides, how: str, stdout: str, stderr: str) -> None:
    def observe(desk: Desk) -> tuple[list[str], str]:
        side = desk.cwd / "side"
        (desk.cwd / ".rc").write_text("some input\n")
        with desk.sit_down() as term:
            command = "$W sh -c 'for n in 0 1 2; do test -t $n && echo $n; done; echo two >&2; exit 3'"
            term.shell(how.format(command))
            # Two streams on two ways have no order.
            return sorted(term.rows), side.read_text() if side.exists() else ""

    sides.same(observe)
    start = sides.wrapped.only_run().start
    assert (start["stdout"], start["stderr"]) == (stdout, stderr)


def test_what_a_left_behind_process_says_is_shown_and_logged(sides: Sides, shell: str) -> None:
    def observe(desk: Desk) -> tuple[int, str]:
        with desk.sit_down() as term:
            status = term.shell(python("left_behind.py"))
            (desk.cwd / "go").touch()
            term.expect("late words\r\n")
            assert desk.file("went") == "on\n"
            return status, term.text

    assert sides.same(observe)[0] == 4
    assert sides.wrapped.log() == b"parent ends\nlate words\n"


def test_output_that_the_screen_is_too_slow_for_waits(sides: Sides) -> None:
    """^S and ^Q stop and continue the output as they always do."""

    def observe(desk: Desk) -> tuple[bytes, int]:
        with desk.job("patient.py") as term:
            term.expect("ready\r\n")
            term.send("\x13")
            (desk.cwd / "go").touch()
            desk.file("went")
            stopped = bytes(term.raw)
            term.send("\x11")
            term.expect("done")
            return stopped, term.wait()

    stopped, status = sides.same(observe)
    assert (b"done" in stopped, status) == (False, 5)


def test_a_run_in_a_run_is_relayed_too(sides: Sides) -> None:
    def observe(desk: Desk) -> tuple[int, bytes]:
        with desk.command(*desk.prefix, "sh", "-c", "test -t 1 && tput cols; exit 9") as term:
            return term.wait(), bytes(term.raw)

    assert sides.same(observe) == (9, b"100\r\n")


def test_two_runs_at_once_do_not_mix_their_logs(desk: Desk) -> None:
    with desk.sit_down() as term:
        term.line(
            "$W sh -c 'echo one; sleep 0.1; echo one' & $W sh -c 'echo two; sleep 0.1; echo two'; wait; echo over"
        )
        term.expect(r"\nover")
        term.prompt()
    assert sorted(run.log() for run in desk.runs()) == [b"one\none\n", b"two\ntwo\n"]


def test_the_log_is_shown_folded_and_kept_raw(desk: Desk) -> None:
    with desk.sit_down() as term:
        term.shell("$W printf 'step 1\\rstep 2\\r\\033[31mstep 3\\033[0m\\n'")
        term.shell("clear; gpualert log")
        assert [row for row in term.rows if "step" in row] == ["step 3"]
        mark = len(term.raw)
        term.shell("gpualert log --raw")
        assert re.search(rb"step 1\rstep 2\r\x1b\[31mstep 3\x1b\[0m\r?\n", bytes(term.raw[mark:]))
