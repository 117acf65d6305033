"""What `gpualert run` says and does on a terminal when asked: --capture, --verbose, the words after a failure."""

from __future__ import annotations

import re

import pytest

from .desk import Desk, python
from .emulator import Terminal

# A job that fails for a reason that is plain to see.
OUT_OF_MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB."
FAILING = f"sh -c 'echo own words; echo \"{OUT_OF_MEMORY}\" >&2; exit 1'"


def seen(desk: Desk, option: str, how: str = "{}") -> list[str]:
    """Return the screen after jobs/look.py ran with an option."""
    with desk.sit_down() as term:
        term.shell(how.format(f"gpualert run {option} -- $P $J/look.py"))
        return term.rows


@pytest.mark.parametrize("option", ["--capture auto", "--capture=auto", "--capture pty", ""])
def test_a_terminal_is_relayed(desk: Desk, option: str) -> None:
    assert "TTY True True True" in seen(desk, option)
    assert desk.only_run().start["stdout"] == "pty"


def test_capture_tee_copies_through_a_pipe(desk: Desk) -> None:
    assert "TTY True False False" in seen(desk, "--capture tee")
    assert desk.only_run().start["stdout"] == "tee"


def test_capture_none_leaves_the_terminal_to_the_job(desk: Desk) -> None:
    assert "TTY True True True" in seen(desk, "--capture none")
    assert desk.only_run().start["stdout"] == "none"


def test_capture_pty_gives_a_job_in_a_pipe_a_terminal(desk: Desk) -> None:
    rows = seen(desk, "--capture pty", "{} 2>&1 | cat")
    assert "TTY True True True" in rows
    assert desk.only_run().start["stdout"] == "pty"
    assert b"TTY True True True\n" in desk.log()


def test_capture_pty_into_a_file_keeps_the_bytes(desk: Desk) -> None:
    seen(desk, "--capture pty", "{} >side 2>&1")
    assert (desk.cwd / "side").read_bytes().replace(b"\r\n", b"\n") == desk.log()


def test_an_unknown_way_to_capture_is_an_error(desk: Desk) -> None:
    with desk.sit_down() as term:
        assert term.shell("gpualert run --capture teletype -- true") == 2
        assert "auto, tee, pty, none" in term.text


def test_the_help_names_the_ways_to_capture(desk: Desk) -> None:
    with desk.sit_down() as term:
        assert term.shell("gpualert run --help") == 0
        row = next(row for row in term.rows if "--capture" in row)
        assert all(word in row for word in ("auto", "tee", "pty", "none"))


def test_without_verbose_nothing_is_said(desk: Desk, shell: str) -> None:
    with desk.command("true") as term:
        assert term.wait() == 0
        assert bytes(term.raw) == b""


def test_verbose_says_one_line_at_the_start(desk: Desk) -> None:
    with desk.sit_down() as term:
        term.shell("gpualert run --verbose -- echo words >side")
        (line,) = re.findall(rb"gpualert: .*", bytes(term.raw))
        assert desk.only_run().run_id.encode() in line
    assert (desk.cwd / "side").read_text() == "words\n"


def test_max_log_caps_the_log_and_not_the_screen(desk: Desk) -> None:
    with desk.sit_down() as term:
        assert term.shell("gpualert run --max-log 6K -- $P $J/write.py lines 3000 6") == 6
        assert b"000000000 the quick" in term.raw and b"000001500 the quick" in term.raw
        assert "000002999 the quick brown fox jumps over the lazy dog" in term.rows
    log = desk.log()
    assert len(log) < 12_000 and log.startswith(b"000000000 ") and b"000001500 " not in log
    assert log.endswith(b"000002999 the quick brown fox jumps over the lazy dog\n")


# --- After a failure ---------------------------------------------------------


def remarks(term: Terminal) -> list[str]:
    """Return what stands between the job's own last line and the prompt."""
    rows = term.rows
    last = max(n for n, row in enumerate(rows) if row.startswith("torch.") or row == "own words")
    return rows[last + 1 : -1]


# `post` leaves its words in a file; here they are there at once, however busy the machine is.
INSTANT = """#!/bin/sh
for run; do :; done
case " $* " in *" post "*) printf '%s\\n' 'cuda_oom: words' 'gpualert show last' >"$run/notice" ;; esac
exec "$P" "$@"
"""


def sit_down_with(desk: Desk, python_script: str) -> Terminal:
    """Return a terminal where Python is this script and the post-processor is started."""
    program = desk.bin / "python"
    program.write_text(python_script)
    program.chmod(0o755)
    return desk.sit_down(env={"GPUALERT_POST": "detach", "GPUALERT_PYTHON": program})


def test_after_a_failure_the_verdict_stands_below_the_output(desk: Desk, shell: str) -> None:
    with sit_down_with(desk, INSTANT) as term:
        assert term.shell(f"$W {FAILING}") == 1
        assert remarks(term) == ["cuda_oom: words", "gpualert show last"]
        # Dim: the attribute 2 before the words, and off again behind them.
        said = bytes(term.raw).rpartition(b"own words")[2].partition(b"2.50 GiB.")[2]
        assert re.search(rb"\x1b\[2m.*\x1b\[(0|22)?m", said, re.DOTALL), said
    assert all(b"gpualert show" not in run.log() for run in desk.runs())


def test_the_words_are_the_class_and_where_to_read_on(desk: Desk) -> None:
    """A real verdict, which on a busy machine may take longer than anybody waits: so until it is there in time."""
    with desk.sit_down(env={"GPUALERT_POST": "detach"}) as term:

        def tell() -> str:
            term.shell("clear")
            assert term.shell(f"$W {FAILING}") == 1
            return " ".join(remarks(term))

        words = term.until(tell, "a word after a failure")
        assert "cuda_oom" in words and "gpualert show last" in words
        assert len(remarks(term)) in (1, 2)


def test_the_verdict_never_stands_on_stdout(desk: Desk) -> None:
    with sit_down_with(desk, INSTANT) as term:
        assert term.shell(f"$W {FAILING} >side") == 1
        assert "gpualert show last" in term.text
        assert (desk.cwd / "side").read_text() == "own words\n"


QUIET = {
    "asked to be quiet": ("export GPUALERT_QUIET=1", f"$W {FAILING}"),
    "stderr is a file": ("true", f"$W {FAILING} 2>side"),
    "in the background": ("true", f"$W {FAILING} & wait $!"),
    "a success": ("true", "$W echo own words; false"),
}


@pytest.mark.parametrize(("before", "command"), QUIET.values(), ids=QUIET)
def test_nothing_is_said(desk: Desk, before: str, command: str) -> None:
    with sit_down_with(desk, INSTANT) as term:
        term.shell(before)
        assert term.shell(command) == 1
        assert "gpualert show" not in term.text
    side = desk.cwd / "side"
    assert not side.exists() or "gpualert" not in side.read_text()


def test_after_an_interrupt_nothing_is_said(desk: Desk) -> None:
    with sit_down_with(desk, INSTANT) as term:
        term.line(python("patient.py"))
        term.expect("ready\r\n")
        term.interrupt()
        assert term.prompt() == 130
        assert "gpualert show" not in term.text


def test_a_verdict_that_takes_long_is_not_waited_for(desk: Desk) -> None:
    """The relay's Python is quick, the one of `post` is not."""
    with sit_down_with(desk, '#!/bin/sh\ncase " $* " in *" post "*) sleep 30 ;; esac\nexec "$P" "$@"\n') as term:
        assert term.shell(f"$W {FAILING}") == 1
        assert remarks(term) == []


def test_log_follow_shows_what_comes(desk: Desk) -> None:
    with desk.sit_down() as term, desk.sit_down() as other:
        term.line(python("patient.py"))
        term.expect("ready\r\n")
        other.line("gpualert log --follow")
        other.expect("ready\r\n")
        (desk.cwd / "go").touch()
        other.expect("done\r\n")
        assert other.prompt() == 0
        assert term.prompt() == 5
