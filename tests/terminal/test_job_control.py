"""Keys and job control: from an interactive shell, a wrapped job stops, goes on and ends as the bare one does."""

from __future__ import annotations

import os
import signal

import pytest

from .desk import Desk, Sides, python
from .emulator import Terminal, ended


def ready(desk: Desk, term: Terminal, *words: str) -> int:
    """Type the patient job and wait until it is ready; return its process id."""
    term.line(python("patient.py", *words))
    term.expect("ready\r\n")
    return int(desk.file("pid"))


def go(desk: Desk) -> None:
    """Let the patient job end."""
    (desk.cwd / "go").touch()


def test_interrupt_ends_the_job(sides: Sides, caller: str, shell: str) -> None:
    def observe(desk: Desk) -> tuple[int, bool]:
        with desk.sit_down(caller) as term:
            ready(desk, term)
            term.interrupt()
            return term.prompt(), "KeyboardInterrupt" in term.rows

    assert sides.same(observe) == (130, True)
    assert sides.wrapped.only_run().finish().status == 130
    assert b"KeyboardInterrupt" in sides.wrapped.log()


@pytest.mark.parametrize("key", ["INT", "QUIT"])
def test_a_key_reaches_a_job_that_catches_it_once(sides: Sides, shell: str, key: str) -> None:
    def observe(desk: Desk) -> tuple[int, str]:
        with desk.sit_down() as term:
            ready(desk, term, key)
            for _ in range(3):
                term.send({"INT": "\x03", "QUIT": "\x1c"}[key])
                term.expect(f"got {key}\r\n")
            go(desk)
            return term.prompt(), desk.file("tally")

    assert sides.same(observe) == (5, f"{key}\n" * 3)


def test_quit_ends_the_job(sides: Sides, caller: str) -> None:
    def observe(desk: Desk) -> tuple[int, bool]:
        with desk.sit_down(caller) as term:
            term.shell("ulimit -c 0")
            ready(desk, term)
            term.quit()
            return term.prompt(), "uit" in term.text

    assert sides.same(observe)[0] == 131


def test_interrupt_ends_a_loop(sides: Sides, caller: str, shell: str) -> None:
    def observe(desk: Desk) -> tuple[int, int]:
        with desk.sit_down(caller) as term:
            term.line("for n in 1 2 3; do " + python("patient.py") + "; done")
            term.expect("ready\r\n")
            term.interrupt()
            return term.prompt(), term.rows.count("ready")

    assert sides.same(observe) == (130, 1)


def test_interrupt_does_not_end_a_loop_over_a_job_that_handles_it(sides: Sides, caller: str) -> None:
    def observe(desk: Desk) -> tuple[int, int]:
        with desk.sit_down(caller) as term:
            term.line("for n in 1 2; do " + python("patient.py", "INT") + "; done")
            term.expect("ready\r\n")
            term.interrupt()
            term.expect("got INT\r\n")
            go(desk)
            return term.prompt(), term.rows.count("done")

    sides.same(observe)


def test_suspend_and_foreground(sides: Sides, caller: str, shell: str) -> None:
    def observe(desk: Desk) -> tuple[int, int, list[str]]:
        with desk.sit_down(caller) as term:
            ready(desk, term)
            term.suspend()
            stopped = term.prompt()
            term.shell("jobs")
            term.line("fg")
            go(desk)
            term.expect("done\r\n")
            return stopped, term.prompt(), [row for row in term.rows if "suspended" not in row]

    stopped, status, _ = sides.same(observe)
    assert (stopped > 128, status) == (True, 5)
    assert sides.wrapped.only_run().finish().status == 5


def test_nothing_is_recorded_while_the_job_is_stopped(desk: Desk, shell: str) -> None:
    with desk.sit_down() as term:
        ready(desk, term)
        term.suspend()
        term.prompt()
        assert not desk.only_run().has("exit")
        term.line("fg")
        go(desk)
        assert term.prompt() == 5
    assert desk.log() == b"ready\ndone\n"


def test_stopped_again_and_again_it_goes_on(sides: Sides, caller: str) -> None:
    def observe(desk: Desk) -> list[int]:
        with desk.sit_down(caller) as term:
            ready(desk, term, "USR1")
            statuses = []
            for turn in range(3):
                term.suspend()
                statuses.append(term.prompt())
                term.line("fg")
                term.until(lambda: term.foreground != term.process.pid, "the job to be in front")
                os.kill(int(desk.file("pid")), signal.SIGUSR1)
                term.expect("got USR1\r\n")
                assert turn < 3
            go(desk)
            return [*statuses, term.prompt()]

    sides.same(observe)


def test_in_the_background_it_speaks_and_ends(sides: Sides, caller: str, shell: str) -> None:
    def observe(desk: Desk) -> None:
        with desk.sit_down(caller) as term:
            ready(desk, term)
            term.suspend()
            term.prompt()
            term.shell("bg")
            go(desk)
            term.expect("done\r\n")
            term.until(lambda: ended(int(desk.file("pid"))), "the job to end")

    sides.same(observe)
    assert sides.wrapped.only_run().finish().status == 5


def test_started_in_the_background_it_comes_to_the_front(sides: Sides, caller: str) -> None:
    def observe(desk: Desk) -> int:
        with desk.sit_down(caller) as term:
            term.line(python("patient.py") + " &")
            term.expect("ready\r\n")
            term.shell("true")
            term.line("fg")
            term.until(lambda: term.foreground != term.process.pid, "the job to be in front")
            term.interrupt()
            return term.prompt()

    assert sides.same(observe) == 130


def test_kill_by_job_number_reaches_the_job_once(sides: Sides, caller: str) -> None:
    def observe(desk: Desk) -> str:
        with desk.sit_down(caller) as term:
            term.line(python("patient.py", "TERM") + " &")
            term.expect("ready\r\n")
            term.line("kill %1")
            term.expect("got TERM\r\n")
            go(desk)
            term.expect("done\r\n")
            term.until(lambda: ended(int(desk.file("pid"))), "the job to end")
            return desk.file("tally")

    assert sides.same(observe) == "TERM\n"
    assert sides.wrapped.only_run().finish().status == 5


def test_killed_by_job_number_it_is_terminated(sides: Sides, caller: str) -> None:
    def observe(desk: Desk) -> int:
        with desk.sit_down(caller) as term:
            term.line(python("patient.py") + " &")
            term.expect("ready\r\n")
            return term.shell("kill %1; wait $!")

    assert sides.same(observe) == 143


def test_a_background_job_that_reads_is_stopped(sides: Sides, caller: str) -> None:
    def observe(desk: Desk) -> tuple[int, bool]:
        with desk.sit_down(caller) as term:
            term.line("$W sh -c 'read line; echo got $line; exit 6' &")
            term.prompt()
            term.until(lambda: any("topped" in row or "suspended" in row for row in jobs(term)), "the job to stop")
            term.line("fg")
            term.until(lambda: term.foreground != term.process.pid, "the job to be in front")
            term.line("words")
            term.expect("got words\r\n")
            return term.prompt(), "got words" in term.rows

    assert sides.same(observe) == (6, True)


def jobs(term: Terminal) -> list[str]:
    """Ask the shell for its jobs."""
    term.shell("jobs")
    return term.rows[-8:]


def test_a_background_job_that_writes_under_tostop_is_stopped(sides: Sides) -> None:
    def observe(desk: Desk) -> int:
        with desk.sit_down() as term:
            term.shell("stty tostop")
            term.line("$W sh -c 'sleep 0.1; echo words; exit 6' &")
            term.prompt()
            term.until(lambda: any("topped" in row for row in jobs(term)), "the job to stop")
            assert "words" not in term.rows
            term.line("fg")
            term.expect("words\r\n")
            return term.prompt()

    assert sides.same(observe) == 6


@pytest.mark.callers("bash", "zsh")
def test_a_pipeline_stops_and_goes_on_as_one(sides: Sides, caller: str) -> None:
    def observe(desk: Desk) -> tuple[int, bool]:
        with desk.sit_down(caller) as term:
            ready(desk, term, "INT")
            go(desk)
            term.prompt()
            (desk.cwd / "go").unlink()
            term.line(python("patient.py") + " | cat")
            term.expect("ready\r\n")
            term.suspend()
            term.prompt()
            term.line("fg")
            go(desk)
            term.expect("done\r\n")
            return term.prompt(), "done" in term.rows

    assert sides.same(observe) == (0, True)


def test_the_closed_window_ends_the_job(sides: Sides, caller: str, shell: str) -> None:
    def observe(desk: Desk) -> bool:
        with desk.sit_down(caller) as term:
            pid = ready(desk, term)
            term.close_window()
            term.until(lambda: ended(pid), "the job to end")
            return (desk.cwd / "went").exists()

    assert sides.same(observe) is False
    assert sides.wrapped.only_run().finish().status == 129


def test_the_closed_window_tells_a_job_that_listens(sides: Sides, caller: str) -> None:
    def observe(desk: Desk) -> tuple[str, str]:
        with desk.sit_down(caller) as term:
            pid = ready(desk, term, "HUP")
            term.close_window()
            tally = desk.file("tally")
            go(desk)
            term.until(lambda: ended(pid), "the job to end")
            return tally.splitlines()[0], desk.file("went").splitlines()[0]

    assert sides.same(observe) == ("HUP", "on")
    run = sides.wrapped.only_run().finish()
    assert run.status == 5
    assert run.log().startswith(b"ready\ngot HUP\n")


def test_a_background_job_outlives_its_shell_as_before(sides: Sides, caller: str) -> None:
    """Whether it does is the shell's choice; after it, the log still grows."""

    def observe(desk: Desk) -> str:
        with desk.sit_down(caller) as term:
            term.line(python("patient.py", "HUP") + " &")
            term.expect("ready\r\n")
            pid = int(desk.file("pid"))
            term.line("exit")
            term.line("exit")
            term.until(lambda: ended(term.process.pid), "the shell to end")
            go(desk)
            term.until(lambda: ended(pid), "the job to end")
            return desk.file("went").splitlines()[0]

    assert sides.same(observe) == "on"
    run = sides.wrapped.only_run().finish()
    assert run.status == 5
    assert run.log().splitlines()[-1] == b"done"


def test_nohup_outside_keeps_the_job_alive(sides: Sides) -> None:
    def observe(desk: Desk) -> tuple[bytes, str]:
        with desk.sit_down() as term:
            term.line("nohup " + python("patient.py") + " &")
            pid = int(desk.file("pid"))
            term.close_window()
            go(desk)
            term.until(lambda: ended(pid), "the job to end")
            return (desk.cwd / "nohup.out").read_bytes(), desk.file("went")

    assert sides.same(observe) == (b"ready\ndone\n", "on\n")
    assert sides.wrapped.only_run().start["stdout"] == "adopt"


def test_nohup_inside_keeps_the_job_alive(sides: Sides) -> None:
    def observe(desk: Desk) -> tuple[bytes, str]:
        with desk.sit_down() as term:
            term.line("$W nohup $P $J/patient.py &")
            pid = int(desk.file("pid"))
            term.close_window()
            go(desk)
            term.until(lambda: ended(pid), "the job to end")
            return (desk.cwd / "nohup.out").read_bytes(), desk.file("went")

    assert sides.same(observe) == (b"ready\ndone\n", "on\n")
    assert sides.wrapped.only_run().finish().status == 5


def test_a_stopped_job_is_hung_up_with_its_window(sides: Sides) -> None:
    def observe(desk: Desk) -> bool:
        with desk.sit_down() as term:
            pid = ready(desk, term)
            term.suspend()
            term.prompt()
            term.close_window()
            term.until(lambda: ended(pid), "the job to end")
            return (desk.cwd / "went").exists()

    assert sides.same(observe) is False
    assert sides.wrapped.only_run().finish().status in (129, 143)  # the kernel hangs up, bash terminates


def test_a_disowned_job_goes_on_after_its_window(sides: Sides) -> None:
    def observe(desk: Desk) -> str:
        with desk.sit_down() as term:
            term.line(python("patient.py") + " & disown")
            term.expect("ready\r\n")
            pid = int(desk.file("pid"))
            term.line("exit")
            term.until(lambda: ended(term.process.pid), "the shell to end")
            term.close_window()
            go(desk)
            term.until(lambda: ended(pid), "the job to end")
            return desk.file("went").splitlines()[0]

    assert sides.same(observe) == "on"
    assert sides.wrapped.log() == b"ready\ndone\n"


@pytest.mark.callers("bash", "zsh")
def test_the_function_of_the_rc_line_stops_and_ends_as_any_function(sides: Sides, caller: str) -> None:
    def observe(desk: Desk) -> list[int]:
        plain = 'any() { command "$@" || return; }; W=any'
        with desk.sit_down(caller) as term:
            term.shell(f'eval "$(gpualert init {caller})"' if desk.prefix else plain)
            ready(desk, term)
            term.suspend()
            statuses = [term.prompt()]
            term.line("fg")
            term.until(lambda: term.foreground != term.process.pid, "the job to be in front")
            go(desk)
            term.expect("done\r\n")
            statuses.append(term.prompt())
            (desk.cwd / "go").unlink()
            ready(desk, term)
            term.interrupt()
            return [*statuses, term.prompt()]

    sides.same(observe)
