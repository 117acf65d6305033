"""^C, ^Z, fg, `kill %1` and loops at a prompt: as for the bare command, through the function."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator

import pexpect
import pytest

from .shells import SYSTEM_PATH, Person

DEADLINE_S = 30
pytestmark = pytest.mark.rc_shells("bash", "zsh")


@pytest.fixture
def prompt(person: Person) -> Iterator[pexpect.spawn]:  # type: ignore[type-arg]
    """Return a shell at its prompt, with torchrun wrapped."""
    person.program("torchrun")
    # exec: a dash that ^C meets amid its fork waits for a sleep that the ^C has missed.
    (person.bin / "torchrun").write_text('#!/bin/sh\nprintf "started %s\\n" "$1"\nexec sleep 300\n')
    (person.home / ".zshrc").write_text(f"PS1='READY> '\nGPUALERT_WRAP=torchrun\n{person.line()}")
    program = shutil.which(person.shell, path=SYSTEM_PATH)
    assert program
    words = ["--rcfile", str(person.home / ".zshrc"), "-i"] if person.shell == "bash" else ["-d", "-i"]
    child: pexpect.spawn[str] = pexpect.spawn(
        program,
        words,
        env={**person.environ, "ZDOTDIR": str(person.home)},
        cwd=str(person.home),
        encoding="utf-8",
        timeout=DEADLINE_S,
        dimensions=(33, 100),
    )
    child.expect_exact("READY> ")
    yield child
    child.close(force=True)


def status(child: pexpect.spawn) -> int:  # type: ignore[type-arg]
    """Return $? at the prompt."""
    child.sendline('printf "STATUS%s.\\n" "=$?"')
    child.expect(r"STATUS=(\d+)\.")
    assert isinstance(child.match, re.Match)
    return int(child.match[1])


def test_an_interrupt_ends_the_job_and_the_loop_around_it(prompt: pexpect.spawn) -> None:  # type: ignore[type-arg]
    for _ in range(10):  # the moment differs: now and then the shim has only just started the job
        prompt.sendline("for i in 1 2 3; do torchrun $i; done")
        prompt.expect("started 1")
        prompt.sendintr()
        prompt.expect_exact("READY> ")
        assert status(prompt) == 130
        assert "started 2" not in (prompt.before or "")


def test_a_stopped_job_goes_on_with_fg(person: Person, prompt: pexpect.spawn) -> None:  # type: ignore[type-arg]
    job = "sh -c 'echo up-\"and\"-running; read line; echo got $line; exit 5'"
    prompt.sendline(f"bare() {{ {job}; }}")
    seen = [_stop_and_go_on(prompt, words) for words in (f"gpualert run -- {job}", "bare")]
    # zsh (5.9) forgets the status of every function that was stopped: $? is 0 then.
    assert seen == ([5, 5] if person.shell == "bash" else [0, 0])
    (exit_record,) = (person.state / "runs").glob("*/exit")
    assert "status=5\n" in exit_record.read_text()


def _stop_and_go_on(prompt: pexpect.spawn, words: str) -> int:  # type: ignore[type-arg]
    """Return the status after ^Z and fg."""
    prompt.sendline(words)
    prompt.expect("up-and-running")
    prompt.send("\x1a")
    prompt.expect("(?i)(stopped|suspended)")
    prompt.expect_exact("READY> ")
    prompt.sendline("fg")
    prompt.sendline("hello")
    prompt.expect("got hello")
    return status(prompt)


def test_a_background_job_is_ended_by_its_job_number(prompt: pexpect.spawn) -> None:  # type: ignore[type-arg]
    prompt.sendline("torchrun 7 &")
    prompt.expect("started 7")
    prompt.sendline("kill %1; wait; jobs; echo all-'gone'")
    prompt.expect("all-gone")
    assert "unning" not in (prompt.before or "")


def test_the_prompt_is_not_touched(prompt: pexpect.spawn) -> None:  # type: ignore[type-arg]
    prompt.sendline('printf "PS1%s.\\n" "=$PS1"; printf "HOOKS%s.\\n" "=${PROMPT_COMMAND-}${precmd_functions-}"')
    prompt.expect_exact("PS1=READY> .")
    prompt.expect_exact("HOOKS=.")
