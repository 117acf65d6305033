"""The job's environment is the caller's, byte for byte, but for GPUALERT_RUN_ID."""

from __future__ import annotations

from typing import Any

import pytest

from .world import World

RUN_ID = b"GPUALERT_RUN_ID="
WORDS_OF_SHELLS = (
    "status run dir pid state home argv path options cdpath fpath signals name now log tmp host lock shell me self "
    "rc ret code i n x d f h p s fd out err stdout stderr start exit wait cmd args key value line word file "
    "IFS PS1 PS2 PS4 OPTIND OPTARG OPTERR LINENO PPID RANDOM SECONDS EPOCHSECONDS EPOCHREALTIME SRANDOM "
    "UID EUID GID USERNAME HOSTNAME HOST LOGNAME BASH BASHPID BASH_VERSION BASH_ARGV0 BASH_COMMAND BASH_SUBSHELL "
    "BASHOPTS SHELLOPTS DIRSTACK FUNCNAME GROUPS PIPESTATUS ZSH_VERSION ZSH_NAME ZSH_EVAL_CONTEXT ZDOTDIR NULLCMD "
    "HISTCMD HISTSIZE HISTFILE MAIL MAILPATH MAILCHECK CDPATH COLUMNS LINES TERM ENV BASH_ENV KSH_VERSION FCEDIT "
    "TMOUT TIMEFMT COMP_WORDBREAKS MACHTYPE OSTYPE HOSTTYPE VENDOR CPUTYPE TTY TTYIDLE KEYTIMEOUT "
    "POSIXLY_CORRECT BASH_LOADABLES_PATH CHILD_MAX FIGNORE GLOBIGNORE INPUTRC LANG "
    "LC_COLLATE LC_CTYPE LC_MESSAGES LC_NUMERIC TZ SHELL OLDPWD NLSPATH READNULLCMD WORDCHARS STTY ERRNO ARGC "
    "psvar prompt PROMPT PROMPT2 RPROMPT watch module_path fignore mailpath manpath zsh_eval_context histchars"
)
HOSTILE_NAMES = WORDS_OF_SHELLS.split()
# Not here: BASH_XTRACEFD and BASH_COMPAT, about whose values bash complains before it reads a script.
SET_UP_BY_SHELLS = {"SHELLOPTS": "braceexpand:hashall", "BASHOPTS": "cmdhist", "TMOUT": "0", "ZDOTDIR": "/nonexistent"}
ENVIRONMENTS: dict[str, dict[Any, Any]] = {
    "plain": {},
    "module_function": {
        "BASH_FUNC_module%%": "() {  eval `/usr/bin/modulecmd bash $*`\n}",
        "BASH_FUNC_ml()": "() { :; }",
    },
    "names_that_are_no_identifiers": {"a.b": "1", "a-b": "2", "1a": "3", "x y": "4", "é": "5", "a%": "6", "@": "7"},
    "no_pwd": {"PWD": None, "OLDPWD": None},
    "wrong_pwd": {"PWD": "/nowhere", "OLDPWD": "/neither"},
    "empty_pwd": {"PWD": "", "OLDPWD": ""},
    "empty_values": {"EMPTY": "", "A": "", "CUDA_VISIBLE_DEVICES": ""},
    "newlines": {"LINES_OF": "one\ntwo\n\n", "FAKE": "x\nGPUALERT_RUN_ID=not\nPATH=/evil"},
    "bytes": {"BYTES": bytes(range(1, 256)), "LATIN": b"\xe9", b"N\xff": b"\xff"},
    "quotes": {"QUOTES": "'\"`$(id)\\ $HOME ${x}"},
    "shlvl": {"SHLVL": "7"},
    "no_shlvl": {"SHLVL": None},
    "odd_shlvl": {"SHLVL": "x", "_": ""},
    "underscore": {"_": "/usr/bin/somebody"},
    "posixly_correct": {"POSIXLY_CORRECT": "1"},
    "shellopts": {"SHELLOPTS": "braceexpand:hashall:interactive-comments"},
    "no_path": {"PATH": None},
    "empty_path": {"PATH": ""},
    "relative_path": {"PATH": "bin::."},
    "no_home": {"HOME": None, "TMPDIR": None},
    "large": {"LARGE": "x" * 120_000, **{f"VARIABLE_{number}": str(number) for number in range(400)}},
    "former_run": {"GPUALERT_RUN_ID": "20200101T000000Z-elsewhere-00000000"},
    "our_own_names": {
        f"GPUALERT_{name}": "x" for name in ("RUN", "STATE", "STATUS", "PID", "SELF", "REEXEC", "X", "D")
    },
    "private_names": {f"__gpualert_{name}": "x" for name in ("run", "put", "status", "pid", "dir", "state")},
}


def seen_by_job(world: World, changes: dict[Any, Any]) -> tuple[list[bytes], list[bytes]]:
    """Return the job's environment bare and through the shim, without the run's id."""
    pair = world.both("/bin/cat", "/proc/self/environ", env=changes)
    pair.run.recorded  # noqa: B018 - it fails where there is no record
    assert (pair.run.returncode, pair.run.stderr, pair.run.complaints) == (0, b"", ())
    bare, run = (sorted(result.stdout.split(b"\0")[:-1]) for result in (pair.bare, pair.run))
    assert [entry for entry in run if entry.startswith(RUN_ID)] == [RUN_ID + pair.run.recorded.run_id.encode()]
    return tuple([entry for entry in side if not entry.startswith(RUN_ID)] for side in (bare, run))  # type: ignore


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_the_environment_is_the_callers(world: World, name: str) -> None:
    bare, run = seen_by_job(world, ENVIRONMENTS[name])
    assert run == bare


def test_no_name_the_script_or_its_shell_uses_is_lost_or_changed(world: World) -> None:
    safe = [name for name in HOSTILE_NAMES if name not in SET_UP_BY_SHELLS]
    bare, run = seen_by_job(world, dict.fromkeys(safe, "5"))
    assert run == bare


@pytest.mark.parametrize(
    "name", ["status", "IFS", "UID", "path", "LINENO", "PS4", "HISTCHARS", "RANDOM", *SET_UP_BY_SHELLS]
)
def test_a_name_with_a_meaning_keeps_a_value_without_one(world: World, name: str) -> None:
    bare, run = seen_by_job(world, {name: SET_UP_BY_SHELLS.get(name, "not a number /x:y\tz")})
    assert run == bare


@pytest.mark.parametrize("name", ["ENV", "BASH_ENV"])
def test_a_start_up_file_of_the_callers_is_passed_on(world: World, name: str) -> None:
    file = world.home / "startup"
    file.write_text(f"STARTED_BY_{name}=1; export STARTED_BY_{name}\n")
    pair = world.both("/bin/cat", "/proc/self/environ", env={name: str(file)})
    assert f"{name}={file}".encode() in pair.run.stdout.split(b"\0")
