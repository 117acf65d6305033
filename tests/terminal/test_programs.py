"""Programs that live on terminals look and behave under `gpualert run` as without it."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from .desk import Desk, Sides, python
from .emulator import COLUMNS, ROWS


def test_tqdm_draws_one_line_of_the_terminals_width(sides: Sides, shell: str) -> None:
    def observe(desk: Desk) -> list[str]:
        with desk.job("bar.py") as term:
            assert term.wait() == 0
            return term.rows

    rows = sides.same(observe)
    assert rows[0] == "half way"
    assert len(rows[1]) in (COLUMNS - 1, COLUMNS) and rows[1].endswith("40/40")
    assert rows[2:] == ["drawn"]


def test_rich_draws_in_colours_and_width(sides: Sides) -> None:
    def observe(desk: Desk) -> tuple[list[str], list[str], bytes]:
        with desk.job("colours.py") as term:
            assert term.wait() == 0
            return term.rows, term.colours(0), bytes(term.raw[:200])

    rows, colours, _ = sides.same(observe)
    assert rows[0].startswith(f"loss is down {COLUMNS}x{ROWS} 256")
    assert colours[:6] == ["red+bold"] * 4 + ["default"] * 2
    assert rows[-1] == "end"


def test_a_full_screen_program_gets_its_modes_and_leaves_none(sides: Sides, shell: str) -> None:
    def observe(desk: Desk) -> tuple[object, ...]:
        with desk.job("full_screen.py") as term:
            term.until(lambda: "corner" in term.text, "the program's screen")
            drawn, colours = term.rows, term.colours(0)
            inside = [term.has_mode(flag) for flag in (termios.ECHO, termios.ICANON)]
            term.send("x")  # no return: it must arrive at once, and not be echoed
            term.until(lambda: "key x" in term.text, "the key")
            after_key = term.rows
            term.send("q")
            status = term.wait()
            return status, drawn, colours, inside, after_key, term.rows, term.modes == term.modes_at_start

    status, drawn, colours, inside, _, last, restored = sides.same(observe)
    assert (status, inside, restored) == (0, [False, False], True)
    assert drawn[0] == f"full screen {ROWS}x{COLUMNS}" and drawn[-1].strip() == "corner"
    assert set(colours) == {"red+bold"}
    assert "back" in last


def test_a_full_screen_program_redraws_after_a_resize(sides: Sides) -> None:
    def observe(desk: Desk) -> list[str]:
        with desk.job("full_screen.py") as term:
            term.until(lambda: "corner" in term.text, "the program's screen")
            term.resize(20, 60)
            term.until(lambda: term.rows[-1].strip() == "corner" and len(term.rows) == 20, "the new corner")
            term.until(lambda: "full screen 20x60" in term.text and "key KEY_RESIZE" in term.text, "the new size")
            rows = term.rows
            term.send("q")
            assert term.wait() == 0
            return rows

    sides.same(observe)


def test_a_full_screen_program_stops_and_comes_back(sides: Sides, shell: str) -> None:
    def observe(desk: Desk) -> tuple[object, ...]:
        with desk.sit_down() as term:
            before = term.modes
            term.line(python("full_screen.py"))
            term.until(lambda: "corner" in term.text, "the program's screen")
            term.suspend()
            term.prompt()
            outside = term.shell("stty -a | grep -o '.icanon\\|.echo '; true"), term.rows[-3:]
            term.line("fg")
            term.until(lambda: "full screen" in term.rows[0] and "corner" in term.text, "the program's screen again")
            inside = [term.has_mode(flag) for flag in (termios.ECHO, termios.ICANON)]
            term.send("q")
            return outside, inside, term.prompt(), term.modes == before

    outside, inside, status, restored = sides.same(observe)
    assert (inside, status, restored) == ([False, False], 0, True), outside


def test_a_full_screen_program_has_left_the_screen_before_the_prompt(sides: Sides, caller: str) -> None:
    """The prompt must not land on the alternate screen, which the program takes with it."""

    def observe(desk: Desk) -> list[bytes]:
        with desk.sit_down(caller) as term:
            term.line(python("full_screen.py"))
            term.until(lambda: "corner" in term.text, "the program's screen")
            term.suspend()
            term.prompt()
            term.line("fg")
            term.until(lambda: term.foreground != term.process.pid, "the program to be in front")
            term.until(lambda: not term.has_mode(termios.ICANON), "its modes")
            term.send("q")
            term.prompt()
            # Entering and leaving the alternate screen, and prompts.
            return re.findall(rb"\x1b\[\?1049[hl]|\[\d+\]> ", bytes(term.raw))

    left, entered = b"\x1b[?1049l", b"\x1b[?1049h"
    order = sides.same(observe)
    assert order[1:3] == [entered, left] and order[4:6] == [entered, left]


def test_a_killed_full_screen_program_leaves_the_modes_the_shell_repairs(sides: Sides) -> None:
    def observe(desk: Desk) -> int:
        with desk.sit_down() as term:
            term.line("$W sh -c 'echo $$ >pid; exec $P $J/full_screen.py'")
            term.until(lambda: "corner" in term.text, "the program's screen")
            os.kill(int(desk.file("pid")), 9)
            term.prompt()
            return term.shell("test $((6 * 7)) = 42")

    assert sides.same(observe) == 0


def test_a_secret_is_neither_shown_nor_logged(sides: Sides, shell: str) -> None:
    def observe(desk: Desk) -> tuple[int, list[str], bool]:
        with desk.job("ask.py", "secret") as term:
            term.expect("Token: ")
            term.until(lambda: not term.has_mode(termios.ECHO), "echo to be off")
            term.line("hunter22")
            return term.wait(), term.rows, term.modes == term.modes_at_start

    assert sides.same(observe) == (0, ["Token:", "length 8"], True)
    assert b"hunter" not in sides.wrapped.log()


def test_a_secret_is_asked_for_where_the_output_is_piped(sides: Sides) -> None:
    def observe(desk: Desk) -> list[str]:
        with desk.sit_down() as term:
            term.line(python("ask.py", "secret") + " | cat")
            term.expect("Token: ")
            term.until(lambda: not term.has_mode(termios.ECHO), "echo to be off")
            term.line("hunter22")
            term.prompt()
            return term.rows

    assert "length 8" in sides.same(observe)


def test_a_question_is_answered_on_its_line(sides: Sides, shell: str) -> None:
    def observe(desk: Desk) -> tuple[int, list[str]]:
        with desk.job("ask.py", "name") as term:
            term.expect("name\\? ")
            term.send("Adx\x7fa\x01\x1b[C")  # readline: delete, to the start, one to the right
            term.line("-")
            return term.wait(), term.rows

    assert sides.same(observe) == (0, ["name? A-da", "hello A-da!"])


def test_a_debugger_session(sides: Sides) -> None:
    def observe(desk: Desk) -> tuple[int, list[str]]:
        with desk.job("ask.py", "pdb") as term:
            for line in ("weight += 1", "p weight", "c"):
                term.expect(r"\(Pdb\) ")
                term.line(line)
            return term.wait(), term.rows

    status, rows = sides.same(observe)
    assert (status, rows[-1]) == (0, "weight 42")
    assert b"(Pdb)" in sides.wrapped.log()


def test_a_python_prompt(sides: Sides) -> None:
    def observe(desk: Desk) -> tuple[int, list[str]]:
        with desk.command("/usr/bin/python3", "-I", "-q") as term:
            term.expect(">>> ")
            term.line("6 * 7")
            term.expect(">>> ")
            term.interrupt()
            term.expect("KeyboardInterrupt")
            term.expect(">>> ")
            term.send("\x04")
            return term.wait(), term.rows

    assert "42" in sides.same(observe)[1]


def test_less_pages(sides: Sides) -> None:
    if not shutil.which("less"):
        pytest.skip("less is not installed")

    def observe(desk: Desk) -> tuple[object, ...]:
        (desk.cwd / "text").write_text("".join(f"line {n}\n" for n in range(200)))
        with desk.command("less", "text") as term:
            term.until(lambda: term.rows[-1] == "text", "the first page")
            first = term.rows
            term.send("G")
            term.until(lambda: "line 199" in term.text, "the last page")
            last = term.rows
            term.send("q")
            return term.wait(), first, last, term.modes == term.modes_at_start

    status, first, _, restored = sides.same(observe)
    assert (status, first[0], len(first), restored) == (0, "line 0", ROWS, True)


def test_a_shell_inside_runs_commands(sides: Sides) -> None:
    """Job control it has only with --capture none: bash asks its standard error for that."""

    def observe(desk: Desk) -> tuple[int, int]:
        with desk.sit_down() as term:
            term.line("$W bash --noprofile --rcfile ~/.rc -i")
            term.prompt()
            status = term.shell("$P $J/look.py | grep -q 'TTY True False True' && exit 6")
            return status, term.shell("test $((6 * 7)) = 42")

    assert sides.same(observe) == (6, 0)


def test_a_shell_inside_has_job_control_without_capture(tmp_path: Path) -> None:
    def observe(desk: Desk) -> tuple[object, ...]:
        with desk.sit_down() as term:
            term.line("$W bash --noprofile --rcfile ~/.rc -i")
            term.prompt()
            term.line("$P $J/patient.py INT")
            term.expect("ready\r\n")
            term.suspend()
            stopped = term.prompt()
            in_front = term.foreground
            term.line("fg")
            term.until(lambda: term.foreground != in_front, "the job to be in front")
            term.interrupt()
            term.expect("got INT\r\n")
            (desk.cwd / "go").touch()
            ended = term.prompt()
            term.line("exit 4")
            return stopped, ended, term.prompt(), [row for row in term.rows if "tty" in row or "job control" in row]

    with contextlib.closing(Sides(tmp_path, "dash", ("--capture", "none"))) as sides:
        assert sides.same(observe) == (148, 5, 4, [])


def test_a_terminal_in_the_terminal(sides: Sides) -> None:
    """A client such as ssh: the wrapped command runs a shell on a pty of its own."""

    def observe(desk: Desk) -> tuple[object, ...]:
        with desk.sit_down() as term:
            before = term.modes
            term.line("$W $P $J/nested.py bash --noprofile --rcfile ~/.rc -i")
            term.prompt()
            term.shell("stty size")
            inner = term.rows[-2:]
            term.line("$P $J/patient.py")
            term.expect("ready\r\n")
            term.interrupt()
            interrupted = term.prompt()
            term.line("exit 4")
            return inner, interrupted, term.prompt(), term.modes == before

    assert sides.same(observe) == ([f"{ROWS} {COLUMNS}", "[0]>"], 130, 4, True)


def test_wrapped_inside_a_terminal_in_the_terminal(sides: Sides) -> None:
    def observe(desk: Desk) -> tuple[object, ...]:
        with desk.sit_down() as term:
            term.line("$P $J/nested.py bash --noprofile --rcfile ~/.rc -i")
            term.prompt()
            status = term.shell(python("look.py"))
            seen = [row for row in term.rows if row.startswith(("TTY", "size"))]
            term.line(python("patient.py"))
            term.expect("ready\r\n")
            term.interrupt()
            return status, seen, term.prompt()

    assert sides.same(observe)[2] == 130


class Tmux:
    """A tmux server of a desk, with one window of the usual size."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.socket = desk.root / "tmux"
        self.call("-f", "/dev/null", "new-session", "-d", "-x", str(COLUMNS), "-y", str(ROWS), *self.shell)

    shell = property(lambda self: ["bash", "--noprofile", "--rcfile", str(self.desk.home / ".rc"), "-i"])

    def call(self, *words: str) -> str:
        """Run a tmux command; return what it prints."""
        return self.desk.bare("tmux", "-S", self.socket, *words).stdout.decode()

    def type(self, line: str) -> None:
        """Send a line of keys."""
        self.call("send-keys", "-l", line)
        self.call("send-keys", "Enter")

    def until_shown(self, text: str) -> list[str]:
        """Wait until the pane has a row that ends so; return its rows."""
        from shim.waiting import eventually

        rows: list[str] = []

        def look() -> bool:
            rows[:] = self.call("capture-pane", "-p").rstrip("\n").split("\n")
            return any(row.endswith(text) for row in rows)

        eventually(look, f"{text!r} in the pane")
        return rows

    def close(self) -> None:
        """End the server and all in it."""
        self.call("kill-server")


def test_in_tmux(sides: Sides) -> None:
    if not shutil.which("tmux"):
        pytest.skip("tmux is not installed")

    def observe(desk: Desk) -> tuple[list[str], list[str]]:
        tmux = Tmux(desk)
        try:
            tmux.until_shown("[0]>")
            tmux.type(python("look.py"))
            seen = tmux.until_shown("[3]>")
            tmux.type("clear; " + python("patient.py"))
            tmux.until_shown("ready")
            tmux.call("send-keys", "C-c")
            tmux.until_shown("[130]>")
            tmux.type("clear; " + python("bar.py"))
            return seen, tmux.until_shown("drawn")
        finally:
            tmux.close()

    seen, drawn = sides.same(observe)
    assert "TTY True True True" in seen
    assert drawn[1].endswith("40/40") and len(drawn[1]) in (COLUMNS - 1, COLUMNS)


def test_output_modes_of_the_job_act_on_the_terminal(sides: Sides) -> None:
    def observe(desk: Desk) -> tuple[bytes, bool]:
        words = "stty -onlcr <&1; printf 'raw\\n'; sleep 0.2; stty onlcr <&1; printf 'cooked\\n'"
        with desk.command("sh", "-c", words) as term:
            term.wait()
            return bytes(term.raw), term.modes == term.modes_at_start

    assert sides.same(observe) == (b"raw\ncooked\r\n", True)


@pytest.mark.parametrize("where", ["", "</dev/tty"])
def test_a_mode_set_on_the_terminal_itself_stays(sides: Sides, where: str) -> None:
    """A command such as stty is run for just that."""

    def observe(desk: Desk) -> bool:
        with desk.sit_down("dash") as term:
            term.shell(f"$W stty -echo {where}")
            return term.has_mode(termios.ECHO)

    assert sides.same(observe) is False


def test_the_transcript_of_the_readme_can_be_made() -> None:
    script = Path(__file__).parents[1] / "demo" / "transcript.py"
    made = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True, timeout=100)
    assert made.stdout.startswith("$ gpualert run ")
    assert "OSError: [Errno 28] No space left on device" in made.stdout
    assert "FAILED disk_full: nightly" in made.stdout
