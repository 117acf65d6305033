"""Tab: subcommands, options of run, their values, then the command as it would be completed without us."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pexpect
import pytest

from gpualert.cli import cli

from .shells import SYSTEM_PATH, Person

COMMANDS = set(cli.list_commands(None))  # type: ignore[arg-type]
DEADLINE_S = 30


def bash_offers(person: Person, *words: str, before: str = "") -> list[str]:
    """Return what bash offers for the last of the words."""
    text = f"""{before}
{person.line()}
COMP_WORDS=(gpualert {" ".join(map(shlex.quote, words))})
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
__gpualert_complete gpualert "${{COMP_WORDS[COMP_CWORD]}}" "${{COMP_WORDS[COMP_CWORD-1]}}"
printf '%s\\n' "${{COMPREPLY[@]-}}"
"""
    said = person.run(text)
    assert (said.status, said.err) == (0, "")
    return said.out.split()


pytestmark = pytest.mark.rc_shells("bash", "bash-posix")
STRICT = "set -euo pipefail; set -C; IFS=abr; shopt -s nullglob failglob"


@pytest.mark.parametrize("before", ["", STRICT])
def test_bash_offers_every_command(person: Person, before: str) -> None:
    assert set(bash_offers(person, "", before=before)) >= COMMANDS
    assert bash_offers(person, "ru", before=before) == ["run", "runs", "rules"]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["run", "--no"], ["--no-mail", "--no-log"]),
        (["run", "--name", "x", "--lo"], ["--longer-than"]),
        (["run", "--name", "=", "x", "--lo"], ["--longer-than"]),
        (["run", "--capture", ""], ["auto", "tee", "pty", "none"]),
        (["run", "--capture", "=", "t"], ["tee"]),
        (["run", "--capture", "="], ["auto", "tee", "pty", "none"]),
        (["run", "--no-mail", "--", "python-x", "--no"], []),
        (["run", "--attach", "--na"], []),
        (["run", "./trai"], []),
        (["init", "--ins"], ["--install"]),
        (["init", "z"], ["zsh"]),
        (["rules", "e"], ["explain"]),
        (["path", "n"], ["nextflow"]),
        (["help", "cr"], ["crontab"]),
        (["classify", "x"], []),
        (["nosuch", ""], []),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("before", ["", STRICT], ids=["plain", "strict"])
def test_bash_offers(person: Person, words: list[str], offered: list[str], before: str) -> None:
    assert bash_offers(person, *words, before=before) == offered


@pytest.mark.parametrize(
    "words", [["run", "my_train"], ["run", "--", "my_train"], ["run", "--name", "n", "--", "my_train"]]
)
def test_bash_offers_programs_where_the_command_stands(person: Person, words: list[str]) -> None:
    person.program("my_training_program")
    assert bash_offers(person, *words) == ["my_training_program"]


def test_bash_leaves_the_commands_words_to_its_own_completion(person: Person) -> None:
    helper = '_comp_command_offset() { COMPREPLY=("from-word-$1"); return 124; }'
    assert bash_offers(person, "run", "--no-mail", "--", "git", "che", before=helper) == ["from-word-4"]


def interactive(person: Person, argv: list[str], rc_name: str, rc: str) -> pexpect.spawn:  # type: ignore[type-arg]
    """Return a shell at its first prompt."""
    (person.home / rc_name).write_text(rc)
    program = shutil.which(argv[0], path=SYSTEM_PATH)
    assert program
    child: pexpect.spawn[str] = pexpect.spawn(
        program,
        argv[1:],
        env={**person.environ, "ZDOTDIR": str(person.home)},
        cwd=str(person.home),
        encoding="utf-8",
        timeout=DEADLINE_S,
        dimensions=(33, 100),
    )
    child.expect_exact("READY> ")
    return child


@pytest.mark.rc_shells("bash")
def test_tab_in_a_bash_completes_commands_options_and_files(person: Person) -> None:
    (person.home / "my training log").write_text("")
    rc = "PS1='READY> '; bind 'set enable-bracketed-paste off'\n" + person.line()
    child = interactive(person, ["bash", "--rcfile", str(person.home / "bashrc"), "-i"], "bashrc", rc)
    child.send("gpualert cla\t")
    child.expect_exact("classify ")
    child.send("my\t")
    child.expect_exact(r"my\ training\ log")
    child.send("\x15gpualert run --longer\t")
    child.expect_exact("--longer-than ")
    child.send("5 -- ls my\t")
    child.expect_exact(r"my\ training\ log")
    child.sendline("\x15exit")
    child.expect(pexpect.EOF)


@pytest.mark.rc_shells("zsh")
@pytest.mark.parametrize("options", ["", "setopt no_unset sh_word_split ksh_arrays warn_create_global\n"])
def test_tab_in_a_zsh_completes_commands_options_programs_and_files(person: Person, options: str) -> None:
    person.program("my_training_program")
    (person.home / "my_log.txt").write_text("")
    show = "show() { zle -I; print -r -- \"BUFFER<$BUFFER>\"; }; zle -N show; bindkey '^T' show\n"
    rc = f"autoload -Uz compinit; compinit -u -D\nPS1='READY> '\n{show}{options}{person.line()}"
    child = interactive(person, ["zsh", "-d", "-i"], ".zshrc", rc)
    for typed, expected in (
        ("gpualert cla\t", "gpualert classify "),
        ("my\t", "gpualert classify my_log.txt "),
        ("\x15gpualert run --longer\t", "gpualert run --longer-than "),
        ("5 -- my_tr\t", "gpualert run --longer-than 5 -- my_training_program "),
        ("my_l\t", "gpualert run --longer-than 5 -- my_training_program my_log.txt "),
        ("\x15gpualert run my_tr\t", "gpualert run my_training_program "),
        ("\x15gpualert init --unin\t", "gpualert init --uninstall "),
    ):
        child.send(typed + "\x14")
        child.expect(r"BUFFER<(.*?)>")
        assert child.match[1] == expected
    child.sendline("\x15exit")
    child.expect(pexpect.EOF)
    assert "created globally" not in child.before


@pytest.mark.rc_shells("zsh")
def test_a_zsh_without_its_completion_system_is_left_alone(person: Person) -> None:
    said = person.run(person.line() + "whence -w compdef\n")
    assert (said.out, said.err) == ("compdef: none\n", "")


def test_nothing_is_kept_for_a_path_that_was_not_asked_for(person: Person, tmp_path: Path) -> None:
    bash_offers(person, "run", "--", "")
    assert not person.state.exists()
