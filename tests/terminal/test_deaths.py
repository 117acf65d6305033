"""Whatever becomes of the relay and the shim: the job goes on, its output is seen, its status is right."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

import pytest
from shim.waiting import eventually

from .desk import Desk, Sides, python
from .emulator import Terminal, ended, freeze
from .test_job_control import go, ready


def complaints(term: Terminal) -> list[str]:
    """Return the lines in which gpualert said that something was lost."""
    return [row for row in term.rows if row.startswith("gpualert: ")]


def shim_of(desk: Desk) -> int:
    """Return the process id of the shim that the user's shell waits for."""
    for pid in sorted(desk.processes()):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        if b"run" in words and any(word.endswith(b"bash/gpualert") for word in words):
            return pid
    raise AssertionError("no shim runs")


def relays(desk: Desk) -> list[int]:
    """Return the process ids of the relays that run."""
    found = []
    for pid in sorted(desk.processes()):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        if any(b"import relay" in word for word in words):
            found.append(pid)
    return found


def test_a_killed_relay_takes_nothing_with_it(desk: Desk, shell: str) -> None:
    with desk.sit_down() as term:
        ready(desk, term)
        os.kill(desk.relay(), signal.SIGKILL)
        eventually(lambda: ended(desk.relay()), "the relay to be gone")
        go(desk)
        term.expect("done\r\n")
        assert term.prompt() == 5
        said = complaints(term)
    assert desk.only_run().finish().status == 5
    assert said or (desk.only_run().path / "output.log").read_bytes() == b"ready\ndone\n"


def test_relays_killed_again_and_again_cost_the_log_and_one_line(desk: Desk, shell: str) -> None:
    with desk.sit_down() as term:
        ready(desk, term, "USR1")
        for turn in range(1, 5):
            os.kill(int(desk.file("pid")), signal.SIGUSR1)
            term.expect("got USR1\r\n")
            for pid in relays(desk):
                os.kill(pid, signal.SIGKILL)
                eventually(lambda pid=pid: ended(pid), "the relay to be gone")  # type: ignore[misc]
            assert turn < 5
        go(desk)
        term.expect("done\r\n")
        assert term.prompt() == 5
        said = complaints(term)
    assert desk.only_run().finish().status == 5
    log = (desk.only_run().path / "output.log").read_bytes()
    assert said or log == b"ready\n" + 4 * b"got USR1\n" + b"done\n", log


def test_a_relay_killed_in_the_middle_of_much_output(desk: Desk, shell: str) -> None:
    with desk.sit_down() as term:
        term.line(python("write.py", "lines", 60_000, 6))
        term.expect("000009000 the quick")
        os.kill(desk.relay(), signal.SIGKILL)
        term.expect("000059999 the quick brown fox jumps over the lazy dog\r\n")
        assert term.prompt() == 6
    assert desk.only_run().finish().status == 6


def test_a_relay_that_hangs_is_replaced(desk: Desk) -> None:
    with desk.sit_down() as term:
        ready(desk, term)
        freeze(desk.relay())
        go(desk)
        term.expect("done\r\n")
        assert term.prompt() == 5
        said = complaints(term)
    assert desk.only_run().finish().status == 5
    assert said or (desk.only_run().path / "output.log").read_bytes() == b"ready\ndone\n"


def test_a_log_that_hangs_costs_the_log_and_one_line(desk: Desk) -> None:
    with desk.sit_down() as term:
        ready(desk, term, "USR1")
        # The relay after this one opens a full FIFO for its log, and each hangs in its first write.
        log = desk.only_run().path / "output.log"
        log.unlink()
        os.mkfifo(log)
        full = os.open(log, os.O_RDWR | os.O_NONBLOCK)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(full, b"x" * 4096)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(full, b"x")
        os.set_blocking(full, True)
        os.kill(desk.relay(), signal.SIGKILL)
        for _ in range(4):
            before = term.text.count("got USR1")
            os.kill(int(desk.file("pid")), signal.SIGUSR1)
            term.until(lambda before=before: term.text.count("got USR1") > before, "the job's words")  # type: ignore[misc]
        go(desk)
        term.expect("done\r\n")
        assert term.prompt() == 5
        said = complaints(term)
        os.close(full)
    assert len(said) >= 1
    assert "no longer kept" in said[0]
    assert desk.only_run().finish().status == 5


def test_after_a_killed_relay_nobody_waits_for_what_the_job_left_behind(desk: Desk) -> None:
    with desk.sit_down() as term:
        term.line("$W sh -c '$P $J/patient.py; exec $P $J/left_behind.py late'")
        term.expect("ready\r\n")
        os.kill(desk.relay(), signal.SIGKILL)
        go(desk)
        assert term.prompt() == 4
        (desk.cwd / "late").touch()
        term.expect("late words\r\n")


def test_after_a_killed_relay_the_keys_still_work(desk: Desk) -> None:
    with desk.sit_down() as term:
        ready(desk, term)
        os.kill(desk.relay(), signal.SIGKILL)
        term.suspend()
        assert term.prompt() == 148
        term.line("fg")
        term.until(lambda: term.foreground != term.process.pid, "the job to be in front")
        term.interrupt()
        assert term.prompt() == 130
        assert "KeyboardInterrupt" in term.rows


def test_a_killed_relay_gives_the_terminal_back(desk: Desk) -> None:
    with desk.sit_down() as term:
        before = term.modes
        term.line(python("full_screen.py"))
        term.until(lambda: "corner" in term.text, "the program's screen")
        os.kill(desk.relay(), signal.SIGKILL)
        term.send("q")
        assert term.prompt() == 0
        assert term.modes == before


def test_a_killed_shim_leaves_job_and_relay(desk: Desk, shell: str) -> None:
    with desk.sit_down() as term:
        pid = ready(desk, term)
        os.kill(shim_of(desk), signal.SIGKILL)
        assert term.prompt() == 137
        go(desk)
        term.expect("done\r\n")
        term.until(lambda: ended(pid), "the job to end")
    assert desk.only_run().finish().status == 5
    assert desk.log() == b"ready\ndone\n"


def test_shim_and_relay_killed_leave_the_job(desk: Desk, shell: str) -> None:
    with desk.sit_down() as term:
        pid = ready(desk, term)
        relay = desk.relay()
        os.kill(shim_of(desk), signal.SIGKILL)
        os.kill(relay, signal.SIGKILL)
        term.prompt()
        go(desk)
        assert desk.file("went").startswith("on\n")
        term.until(lambda: ended(pid), "the job to end")
    assert desk.only_run().finish().status == 5


def test_a_relay_that_is_stopped_for_a_while_loses_nothing(desk: Desk, shell: str) -> None:
    with desk.sit_down() as term:
        term.line("$W sh -c '$P $J/patient.py; $P $J/write.py lines 20000 6'")
        term.expect("ready\r\n")
        freeze(desk.relay())
        go(desk)
        desk.file("went")
        os.kill(desk.relay(), signal.SIGCONT)
        term.expect("done\r\n")
        term.expect("000019999 the quick brown fox jumps over the lazy dog\r\n")
        assert term.prompt() == 6
        assert complaints(term) == []
    assert desk.log().count(b"\n") == 20_002


def test_a_job_that_ends_while_the_relay_is_stopped(desk: Desk, shell: str) -> None:
    with desk.sit_down() as term:
        pid = ready(desk, term)
        freeze(desk.relay())
        go(desk)
        term.until(lambda: ended(pid), "the job to end")
        eventually(lambda: desk.only_run().has("exit"), "the end to be recorded")
        os.kill(desk.relay(), signal.SIGCONT)
        term.expect("done\r\n")
        term.prompt()
    assert desk.log() == b"ready\ndone\n"


def test_a_relay_that_is_slowed_to_a_crawl_loses_nothing(desk: Desk) -> None:
    with desk.sit_down() as term:
        term.line(python("write.py", "lines", 30_000, 6))
        term.expect("000000100 the")
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):  # it may be faster than we are
            for _ in range(20):
                freeze(desk.relay())
                seen = len(term.raw)
                os.kill(desk.relay(), signal.SIGCONT)
                term.until(lambda seen=seen: len(term.raw) > seen or ended(desk.relay()), "more output")  # type: ignore[misc]
        term.expect("000029999 the quick brown fox jumps over the lazy dog\r\n")
        assert term.prompt() == 6
    assert desk.log().count(b"\n") == 30_000


BROKEN = {
    "ends at once": "#!/bin/sh\nexit 1\n",
    "ends without a word": "#!/bin/sh\nexit 0\n",
    "talks nonsense": "#!/bin/sh\necho nonsense\necho more >&2\nexit 3\n",
    "dies": "#!/bin/sh\nkill -9 $$\n",
    "cannot be run": "#!/no/such/interpreter\n",
    "hangs": "#!/bin/sh\nexec sleep 600\n",
}


def run_with_python(desk: Desk, script: str) -> None:
    """Fail unless a job runs on its terminal, and one line is said, where Python is this script."""
    broken = desk.bin / "python"
    broken.write_text(script)
    broken.chmod(0o755)
    with desk.sit_down(env={"GPUALERT_PYTHON": broken}) as term:
        assert term.shell(python("look.py")) == 3
        assert "last words on stderr" in term.rows
        assert any(row.startswith("TTY True") for row in term.rows)
        assert len(complaints(term)) == 1, term.text
    assert desk.only_run().finish().status == 3


@pytest.mark.parametrize("script", BROKEN.values(), ids=BROKEN)
def test_a_relay_that_cannot_start_is_one_line(desk: Desk, script: str) -> None:
    run_with_python(desk, script)


def test_no_shell_minds_a_relay_that_cannot_start(desk: Desk, shell: str) -> None:
    run_with_python(desk, BROKEN["ends at once"])


def test_no_python_at_all_is_one_line(desk: Desk) -> None:
    with desk.sit_down(env={"GPUALERT_PYTHON": "/bin/false"}) as term:
        assert term.shell(python("look.py")) == 3
        assert len(complaints(term)) == 1, term.text


def test_a_log_that_can_grow_no_further_costs_no_output(sides: Sides, shell: str) -> None:
    def observe(desk: Desk) -> tuple[int, list[str]]:
        with desk.sit_down() as term:
            status = term.shell("ulimit -f 8; " + python("write.py", "lines", 2000, 6))
            return status, [row for row in term.rows if "brown fox" in row][-12:]

    assert sides.same(observe)[0] == 6


def test_a_state_folder_that_cannot_be_written_costs_no_terminal(desk: Desk) -> None:
    (desk.root / "file").write_text("")
    env = {"GPUALERT_HOME": desk.root / "file", "TMPDIR": desk.root}
    with desk.sit_down(env=env) as term:
        assert term.shell(python("look.py")) == 3
        assert any(row == "TTY True True True" for row in term.rows)


def test_a_caller_with_every_descriptor_in_use_has_its_job_run(desk: Desk, shell: str) -> None:
    with desk.sit_down() as term:
        term.shell("exec 3</dev/null 4<&3 5<&3 6<&3 7<&3 8<&3 9<&3")
        assert term.shell("$W sh -c 'test -t 0 && echo words; exit 3'") == 3
        assert "words" in term.rows


def test_nothing_runs_on_after_the_job(desk: Desk, shell: str) -> None:
    with desk.sit_down() as term:
        term.shell(python("look.py"))
        eventually(lambda: desk.processes() <= {term.process.pid}, "all helpers to end")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGUSR1])
def test_a_signal_for_the_shim_alone_reaches_the_job_once(desk: Desk, number: signal.Signals) -> None:
    with desk.sit_down() as term:
        ready(desk, term, "TERM", "HUP", "INT", "USR1")
        os.kill(shim_of(desk), number)
        term.expect(f"got {number.name[3:]}\r\n")
        go(desk)
        assert term.prompt() == 5
        assert desk.file("tally") == f"{number.name[3:]}\n"


def test_a_timeout_ends_a_job_on_a_terminal(tmp_path: Path) -> None:
    with contextlib.closing(Sides(tmp_path, "dash", ("--timeout", "0.3"))) as sides:
        with sides.wrapped.job("patient.py") as term:
            assert term.wait() == 124
            assert b"ready" in term.raw
        assert sides.wrapped.only_run().finish().exit["timed_out"] == "1"
