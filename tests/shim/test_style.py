"""The script is POSIX sh that passes the linters, and every shell can parse it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

import pytest

from .world import GPUALERT, SYSTEM_PATH, shell_argv


def lint(tool: str, *words: str) -> str:
    """Return what a linter has to say about the script."""
    program = shutil.which(tool) or shutil.which(tool, path=SYSTEM_PATH)
    assert program, f"{tool} is not installed"
    result = subprocess.run([program, *words, str(GPUALERT)], capture_output=True, text=True, check=False)
    return result.stdout + result.stderr


def test_shellcheck_has_nothing_to_say() -> None:
    assert lint("shellcheck", "--norc", "--enable=all", "--shell=sh") == ""


def test_shfmt_would_change_nothing() -> None:
    assert lint("shfmt", "-d", "-ln", "posix", "-i", "4", "-s") == ""


def test_every_shell_can_parse_it(shell: str) -> None:
    result = subprocess.run([*shell_argv(shell), "-n", str(GPUALERT)], capture_output=True, check=False)
    assert (result.returncode, result.stderr) == (0, b"")


def test_it_is_an_executable_sh_script_in_ascii() -> None:
    text = GPUALERT.read_bytes()
    assert text.startswith(b"#!/bin/sh\n")
    assert os.access(GPUALERT, os.X_OK)
    assert text.isascii() and b"\r" not in text


def test_every_disabled_check_says_why() -> None:
    lines = [line.strip() for line in GPUALERT.read_text().splitlines() if "shellcheck disable" in line]
    assert [line for line in lines if not re.fullmatch(r"# shellcheck disable=[SC0-9,]+ # \S.{9,}", line)] == []


@pytest.mark.parametrize(
    "word", ["echo ", "local ", "[[ ", "function ", "source ", "typeset ", "declare ", "$'", "<(", "&>"]
)
def test_it_uses_no_word_that_differs_between_shells(word: str) -> None:
    code = [line.strip() for line in GPUALERT.read_text().splitlines() if not line.strip().startswith("#")]
    assert [line for line in code if line.startswith(word)] == []
