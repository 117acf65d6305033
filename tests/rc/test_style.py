"""The files that shells read pass the linters, agree with each other and with the program."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from gpualert import __version__
from gpualert.cli import cli

from .shells import BASH_FOLDER, GPUALERT, SYSTEM_PATH

SH, BASH, ZSH = (BASH_FOLDER / f"rc.{name}" for name in ("sh", "bash", "zsh"))


def said_by(*words: str | Path) -> str:
    """Return what a linter prints."""
    program = shutil.which(words[0]) or shutil.which(words[0], path=SYSTEM_PATH)
    assert program, f"{words[0]} is not installed"
    done = subprocess.run([program, *words[1:]], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


@pytest.mark.parametrize(("path", "dialect", "language"), [(SH, "sh", "posix"), (BASH, "bash", "bash")])
def test_the_linters_have_nothing_to_say(path: Path, dialect: str, language: str) -> None:
    assert said_by("shellcheck", "--norc", "--enable=all", f"--shell={dialect}", path) == ""
    assert said_by("shfmt", "-d", "-ln", language, "-i", "4", "-s", path) == ""


def test_every_shell_can_parse_its_file() -> None:
    for words in (["dash", "-n", SH], ["busybox", "ash", "-n", SH], ["bash", "-n", BASH], ["zsh", "-n", ZSH]):
        assert said_by(*words) == ""


def test_the_functions_carry_the_version_of_the_program() -> None:
    assert f"\n__gpualert_version={__version__}\n" in SH.read_text()


@pytest.mark.parametrize("path", [BASH, ZSH], ids=["bash", "zsh"])
def test_every_command_is_completed(path: Path) -> None:
    words = set(re.findall(r"[a-z]+", path.read_text()))
    assert set(cli.list_commands(None)) - words == set()  # type: ignore[arg-type]


@pytest.mark.parametrize("path", [BASH, ZSH], ids=["bash", "zsh"])
def test_every_option_of_run_is_completed(path: Path) -> None:
    help_text = subprocess.run(["sh", GPUALERT, "run", "--help"], capture_output=True, text=True, check=True).stdout
    options = set(re.findall(r"^  (--[a-z-]+)", help_text, re.MULTILINE))
    assert len(options) > 8
    assert options - set(re.findall(r"--[a-z-]+", path.read_text())) == set()
