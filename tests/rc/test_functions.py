"""The functions: thin, silent, and out of reach of the shell they live in."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from gpualert import __version__

from .shells import BASH_FOLDER, GPUALERT, Person, Said

STRICT = "set -eu\n(set -o pipefail) 2>/dev/null && set -o pipefail\nset -C\n"


def test_sourcing_under_strict_options_prints_nothing_and_succeeds(person: Person) -> None:
    assert person.run(STRICT + person.line() + person.line() + "exit 7\n") == Said(7, "", "")


def test_the_function_runs_the_script_though_it_is_not_on_path(person: Person) -> None:
    assert person.run(person.line() + "gpualert version\n") == Said(0, f"gpualert {__version__}\n", "")


def test_words_and_status_pass_unchanged(person: Person) -> None:
    person.program("job", status=3)
    said = person.run(person.line() + "gpualert run -- job 'a  b' '' '*' \"it's\" || exit $?\n")
    assert (said.status, said.out) == (3, "[job <a  b> <> <*> <it's>]\n")
    assert person.runs() == [(["job", "a  b", "", "*", "it's"], [])]


def test_a_failing_run_ends_a_shell_that_asked_for_it(person: Person) -> None:
    said = person.run(STRICT + person.line() + "gpualert run -- sh -c 'exit 5'\nprintf lost\n")
    assert (said.status, said.out) == (5, "")


ALIASES = """alias gpualert='echo ALIAS' torchrun='echo ALIAS' printf='echo ALIAS' command='echo ALIAS' run='echo ALIAS'
alias unset='echo ALIAS' eval='echo ALIAS' unalias='echo ALIAS' set='echo ALIAS'
"""


def test_aliases_do_not_reach_it(person: Person) -> None:
    person.program("torchrun")
    line = person.line().replace("eval", r"\eval", 1)
    said = person.run(f"GPUALERT_WRAP=torchrun\n{ALIASES}{line}gpualert run -- torchrun 1\ntorchrun 2\n")
    assert said == Said(0, "[torchrun <1>]\n[torchrun <2>]\n", "")
    assert [words for words, _ in person.runs()] == [["torchrun", "1"], ["torchrun", "2"]]


@pytest.mark.rc_shells("zsh")
def test_global_aliases_of_zsh_do_not_reach_it(person: Person) -> None:
    person.program("torchrun")
    aliases = "alias -g run='| cat' then='fi' torchrun='x' set='y' return='z' version='| cat' in=q\n"
    said = person.run(f"GPUALERT_WRAP=torchrun\n{aliases}{person.line()}'torchrun' 2\n")
    assert said == Said(0, "[torchrun <2>]\n", "")


def test_readonly_names_and_a_strange_ifs_do_not_reach_it(person: Person) -> None:
    person.program("torchrun")
    names = "readonly script=1 name=1 rest=1 last=1 words=1 state=1 GPUALERT_WRAP='torchrun  x' IFS='/-o '\n"
    said = person.run(STRICT + names + person.line() + person.line() + "torchrun 'a o' /b\n")
    assert (said.status, said.out, said.err) == (0, "[torchrun <a o> </b>]\n", "")


@pytest.mark.rc_shells("bash", "bash-posix", "zsh", "dash")
def test_an_exit_trap_runs_once_and_at_the_end(person: Person) -> None:
    said = person.run("trap 'printf trapped' EXIT\n" + person.line() + "gpualert run -- printf 'job '\n")
    assert said == Said(0, "job trapped", "")


@pytest.mark.rc_shells("bash", "bash-posix")
@pytest.mark.parametrize("options", ["", "set -E\n", "set -ET\n"])
def test_an_err_trap_sees_one_failure(person: Person, options: str) -> None:
    person.program("torchrun", status=4)
    text = f"GPUALERT_WRAP=torchrun\n{options}trap 'printf \"ERR %s \" $?' ERR\n{person.line()}"
    said = person.run(text + "gpualert run -- sh -c 'exit 4'\ntorchrun\n")
    assert said.out == "ERR 4 [torchrun <>]\nERR 4 "


@pytest.mark.rc_shells("bash", "bash-posix", "zsh")
def test_a_debug_trap_does_not_change_a_run(person: Person) -> None:
    said = person.run("trap ': traced' DEBUG\n" + person.line() + "gpualert run -- sh -c 'echo job; exit 6'\n")
    assert said == Said(6, "job\n", "")


def test_it_leaves_no_names_but_its_own(person: Person) -> None:
    names = "sed -n 's/^\\([A-Za-z_][A-Za-z0-9_]*\\)[= (].*/\\1/p'"
    listing = "{ set; (typeset -f || declare -f) 2>/dev/null; } | " + names + "\n"
    before = set(person.run(listing).out.split())
    after = set(person.run("GPUALERT_WRAP=torchrun\n" + person.line() + listing).out.split())
    new = {name for name in after - before if not re.match(r"gpualert|__gpualert_|GPUALERT_", name)}
    # What shells note down by themselves: the last word, the status of a pipeline ...
    assert new <= {
        "torchrun",
        "PIPESTATUS",
        "_",
        "BASH_REMATCH",
        "pipestatus",
        "functions",
        "aliases",
        "status",
        "KSH_MATCH",
    }


def test_options_and_positional_parameters_stay(person: Person) -> None:
    look = 'printf "%s:" "$-" "$#" "$@" "$IFS"\n'
    text = f"set -- one 'two three'\n{look}{person.line()}{look}"
    out = person.run(text).out
    assert out[: len(out) // 2] == out[len(out) // 2 :]


def test_wrapped_programs_are_run_through_gpualert_with_a_time_limit(person: Person) -> None:
    person.program("torchrun", status=9)
    person.program("accelerate")
    said = person.run(
        "GPUALERT_WRAP=' torchrun\taccelerate '\n"
        + person.line()
        + "accelerate launch 'a b'\ntorchrun train.py -h 256 x\n"
    )
    assert (said.status, said.err) == (9, "")
    assert person.runs() == [
        (["accelerate", "launch", "a b"], ["longer_than_s=60"]),
        (["torchrun", "train.py", "-h", "256", "x"], ["longer_than_s=60"]),
    ]


@pytest.mark.parametrize(
    "words", ["-h", "--help", "--version", "help", "version", "launch --help", "a b c d e f g h i -h"]
)
def test_questions_go_straight_to_the_program(person: Person, words: str) -> None:
    person.program("accelerate", status=2)
    said = person.run(STRICT + "GPUALERT_WRAP=accelerate\n" + person.line() + f"accelerate {words}\n")
    assert (said.status, said.err) == (2, "")
    assert said.out == "[accelerate" + "".join(f" <{word}>" for word in words.split()) + "]\n"
    assert person.runs() == []


@pytest.mark.parametrize(
    ("value", "seconds", "complaint"),
    [
        ("5", "5", ""),
        ("10m", "600", ""),
        ("", "60", ""),
        ("soon", "60", "gpualert: GPUALERT_LONGER_THAN: 'soon' is no time such as 90, 15m or 3h: 60 s it is\n"),
        ("-1; x", "60", "gpualert: GPUALERT_LONGER_THAN: '-1; x' is no time such as 90, 15m or 3h: 60 s it is\n"),
    ],
)
@pytest.mark.rc_shells("dash", "bash", "zsh")
def test_a_wrong_time_limit_never_costs_the_job(person: Person, value: str, seconds: str, complaint: str) -> None:
    person.program("torchrun")
    said = person.run("GPUALERT_WRAP=torchrun\n" + person.line() + "torchrun 1\n", GPUALERT_LONGER_THAN=value)
    assert said == Said(0, "[torchrun <1>]\n", complaint)
    assert person.runs() == [(["torchrun", "1"], [f"longer_than_s={seconds}"])]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("ray-x", "cannot be the name of a function"),
        ("/usr/bin/env", "cannot be the name of a function"),
        ("7z", "cannot be the name of a function"),
        ("a;touch${IFS}x", "cannot be the name of a function"),
        ("$(touch", "cannot be the name of a function"),
        ("*", "cannot be the name of a function"),
        ("gpualert", "cannot be the name of a function"),
        ("if", "belongs to the shell"),
        ("cd", "belongs to the shell"),
        ("exec", "belongs to the shell"),
        ("command", "belongs to the shell"),
    ],
)
def test_a_name_that_cannot_be_wrapped_is_skipped_with_one_line(person: Person, name: str, reason: str) -> None:
    person.program("torchrun")
    said = person.run(
        STRICT + person.line() + "torchrun 1\nif cd /; then exit 0; fi\n", GPUALERT_WRAP=f"{name} torchrun"
    )
    assert said == Said(0, "[torchrun <1>]\n", f"gpualert: GPUALERT_WRAP: '{name}' {reason}: skipped\n")
    assert len(person.runs()) == 1
    assert list(person.home.iterdir()) == []


def test_a_wrapped_name_keeps_an_alias_of_a_word_that_was_skipped(person: Person) -> None:
    said = person.run("alias cd=:\n" + person.line() + "alias cd\n", GPUALERT_WRAP="cd")
    assert said.status == 0 and "cd=" in said.out


def test_a_program_that_is_not_there_is_reported_by_its_shells_rules(person: Person) -> None:
    said = person.run(person.line() + "nosuch_program 1\n", GPUALERT_WRAP="nosuch_program")
    assert said.status == 127
    assert "not found" in said.err


def test_where_the_script_is_gone_wrapped_programs_run_all_the_same(person: Person) -> None:
    script = copy_of_the_script(person.root / "old")
    person.program("torchrun", status=3)
    text = "GPUALERT_WRAP=torchrun\n" + person.line(script) + f"rm -r '{script.parent}'\ntorchrun 1\n"
    said = person.run(text)
    expected = (
        f"gpualert: cannot find '{script}', which this shell calls gpualert: open a new shell, or install it again\n"
    )
    assert said == Said(3, "[torchrun <1>]\n", expected)


def test_where_the_script_is_gone_the_one_on_path_is_used(person: Person) -> None:
    script = copy_of_the_script(person.root / "old")
    (person.bin / "gpualert").symlink_to(GPUALERT)
    said = person.run(person.line(script) + f"rm -r '{script.parent}'\ngpualert version\n")
    assert (said.status, said.out) == (0, f"gpualert {__version__}\n")


def test_the_function_tells_doctor_and_nobody_else_what_it_is(person: Person) -> None:
    script = person.root / "tell" / "gpualert"
    copy_of_the_script(script.parent)
    text = person.line(script)
    setting = 'printf "#!/bin/sh\\nprintf \\"<%%s>\\" \\"\\${GPUALERT_FUNCTION-none}\\"\\n" >|' + f"'{script}'\n"
    said = person.run(text + setting + "gpualert doctor\ngpualert runs\n")
    assert said == Said(0, f"<{__version__} {script}><none>", "")


@pytest.mark.parametrize("folder", ["with blank", "it's", "$HOME", "a;b"])
def test_the_path_of_the_script_may_hold_anything(person: Person, folder: str) -> None:
    script = copy_of_the_script(person.root / folder)
    line = person.line().replace(f"'{GPUALERT}'", '"$SCRIPT"')
    said = person.run(line + 'printf "%s" "$__gpualert_script"\n', SCRIPT=str(script))
    assert said == Said(0, str(script), "")


def test_init_starts_no_python(person: Person) -> None:
    assert person.run(person.line(), GPUALERT_PYTHON="/bin/false", PATH="/nonexistent").err == ""


def copy_of_the_script(folder: Path) -> Path:
    """Install the shell part into a folder."""
    return Path(shutil.copytree(BASH_FOLDER, folder)) / "gpualert"
