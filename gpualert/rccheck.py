"""What can be wrong between a person's shell and this installation: PATH, rc files, state folder, terminal."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gpualert import __version__
from gpualert.check import Check, Mark
from gpualert.errors import GpualertError
from gpualert.places import shim
from gpualert.rcfile import SHELLS, rc_path, scripts_in
from gpualert.state import run_paths

_ANSWER_LIMIT_S = 10.0
_SCRIPT_BEGIN = b"#!/bin/sh\n# gpualert - "
_NEW_SHELL = "open a new shell"


@dataclass(frozen=True)
class Command:
    """
    A program called gpualert.

    Attributes:
        path: Where it was found; a link is not followed.
        is_own: It belongs to the installation that asks.
        version: What it says; "" where it is missing, another's, or does not answer.
    """

    path: Path
    is_own: bool
    version: str


@dataclass(frozen=True)
class Terminal:
    """
    What is known of the terminal.

    Attributes:
        term: $TERM; "" where it is not set.
        columns, lines: What the terminal says.
        told_columns: $COLUMNS; "" where it is not set.
        has_entry: Whether this host knows a terminal of that name.
    """

    term: str
    columns: int
    lines: int
    told_columns: str = ""
    has_entry: bool = True


def check_rc(home: Path, environ: Mapping[str, str] = os.environ) -> Iterator[Check]:
    """Look at everything here; `home` is the state folder."""
    yield from judge_path([_command(path) for path in _on_path(environ.get("PATH", ""))], shim())
    yield from judge_function(environ.get("GPUALERT_FUNCTION", ""), __version__)
    for path, script in _rc_scripts(environ):
        yield from judge_rc_line(path, _command(script), __version__)
    yield from judge_state(_not_usable(home))
    terminal = _terminal(environ)
    if terminal:
        yield from judge_terminal(terminal)


def judge_path(found: Sequence[Command], own: Path) -> Iterator[Check]:
    """
    Judge the programs called gpualert on PATH.

    Args:
        found: The first is the one that a script or cron gets.
        own: The script of this installation.
    """
    if not found:
        advice = f"add its folder, or link {own} into one on PATH"
        yield Check(Mark.WARN, "command", "no 'gpualert' on PATH: scripts and cron do not find it", advice)
        return
    first, others = found[0], found[1:]
    if not first.is_own:
        what = f"gpualert {first.version}" if first.version else "it does not say its version"
        advice = f"remove it, or put the folder of {own} before it in PATH"
        yield Check(Mark.WARN, "command", f"the first on PATH is not this installation: {first.path} ({what})", advice)
    elif not others:
        yield Check(Mark.OK, "command", str(first.path))
    if others:
        names = ", ".join(f"{command.path} ({command.version or 'version unknown'})" for command in others)
        advice = "remove those that are not needed: they share the state folder"
        yield Check(Mark.WARN, "command", f"PATH finds {first.path}; it also has {names}", advice)


def judge_function(told: str, version: str) -> Iterator[Check]:
    """
    Judge the function `gpualert` of the shell that asked.

    Args:
        told: Its version, a blank and the path that it starts, as it says itself; "" where there is no function.
    """
    function_version, _, script = told.partition(" ")
    if not told:
        return
    if not os.access(script, os.X_OK):
        yield Check(Mark.WARN, "function", f"this shell's function starts {script!r}, which is gone", _NEW_SHELL)
    elif function_version != version:
        found = f"this shell's function is of version {function_version}, the program of {version}"
        yield Check(Mark.WARN, "function", found, _NEW_SHELL)
    else:
        yield Check(Mark.OK, "function", f"this shell starts {script}")


def judge_rc_line(path: Path, command: Command, version: str) -> Iterator[Check]:
    """Judge the line in an rc file, and the script that it names."""
    shell = next(
        shell for shell, name in zip(SHELLS, (".bashrc", ".zshrc", ".profile"), strict=True) if path.name == name
    )
    advice = f"gpualert init --install {shell}"
    if not os.access(command.path, os.X_OK):
        yield Check(Mark.WARN, "rc file", f"{path} names {command.path}, which is gone", advice)
    elif command.version != version:
        found = f"{path} names {command.path}, version {command.version or 'unknown'}; this is {version}"
        yield Check(Mark.WARN, "rc file", found, advice)
    else:
        yield Check(Mark.OK, "rc file", f"{path} names {command.path}")


def judge_state(not_usable: Sequence[Path]) -> Iterator[Check]:
    """Judge what the state folder has that we may not read or write; silent where there is nothing."""
    if not_usable:
        more = f" and {len(not_usable) - 1} more" if len(not_usable) > 1 else ""
        found = f"cannot read and write {not_usable[0]}{more}: runs there are not recorded, listed or reported"
        folder = shlex.quote(str(not_usable[0]))
        advice = f"sudo chown -R $(id -un) {folder}; chmod -R u+rwX {folder}"
        yield Check(Mark.FAIL, "state folder", found, advice)


def judge_terminal(terminal: Terminal) -> Iterator[Check]:
    """Judge whether programs can believe what they hear of the terminal."""
    troubles: list[tuple[str, str]] = []
    if terminal.term in ("", "dumb"):
        said = f"TERM is '{terminal.term}'" if terminal.term else "TERM is not set"
        troubles.append((f"{said}: no colours, no progress bar in place", "export TERM=xterm-256color"))
    elif not terminal.has_entry:
        said = f"this host does not know the terminal '{terminal.term}': curses programs fail"
        troubles.append((said, "install its terminfo entry, or export TERM=xterm-256color"))
    if not terminal.columns or not terminal.lines:
        said = f"it says {terminal.lines} lines of {terminal.columns} columns: progress bars guess"
        troubles.append((said, "stty rows 24 cols 80"))
    elif terminal.told_columns and terminal.told_columns != str(terminal.columns):
        said = f"COLUMNS is '{terminal.told_columns}', the terminal has {terminal.columns}: programs believe COLUMNS"
        troubles.append((said, "unset COLUMNS LINES"))
    for found, advice in troubles:
        yield Check(Mark.WARN, "terminal", found, advice)
    if not troubles:
        yield Check(Mark.OK, "terminal", f"{terminal.term}, {terminal.lines} lines of {terminal.columns} columns")


def _on_path(path: str) -> list[Path]:
    """Return the different programs called gpualert, in the order of PATH."""
    found: dict[Path, Path] = {}
    for folder in path.split(":"):
        program = Path(folder or ".", "gpualert").absolute()
        if program.is_file() and os.access(program, os.X_OK):
            found.setdefault(program.resolve(), program)
    return list(found.values())


def _command(path: Path) -> Command:
    """Look at one program; only a script of this project is asked for its version."""
    own = {shim().resolve(), Path(sys.executable).with_name("gpualert").resolve()}
    if path.resolve() in own:
        return Command(path, True, __version__)
    version = ""
    with suppress(OSError, subprocess.SubprocessError):
        with path.open("rb") as file:
            is_ours = file.read(len(_SCRIPT_BEGIN)) == _SCRIPT_BEGIN
        if is_ours:
            environ = {name: value for name, value in os.environ.items() if name != "GPUALERT_PYTHON"}
            done = subprocess.run(
                [path, "version"],
                env=environ,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_ANSWER_LIMIT_S,
                check=False,
            )
            version = done.stdout.decode("utf-8", "replace").strip().removeprefix("gpualert ")
    return Command(path, False, version)


def _rc_scripts(environ: Mapping[str, str]) -> Iterator[tuple[Path, Path]]:
    """Yield each rc file that has our line, with the script that it names."""
    for shell in SHELLS:
        with suppress(OSError, GpualertError):
            path = rc_path(shell, environ)
            yield from ((path, script) for script in scripts_in(path.read_bytes() if path.is_file() else b""))


def _not_usable(home: Path) -> list[Path]:
    """Return the folders of the state that we may not read, write or enter."""
    folders = [home, *(home / name for name in ("runs", "outbox", "mail", "locks", "claims"))]
    need = os.R_OK | os.W_OK | os.X_OK
    found = [folder for folder in folders if folder.is_dir() and not os.access(folder, need)]
    return found or [run for run in run_paths([home]) if not os.access(run, need)]


def _terminal(environ: Mapping[str, str]) -> Terminal | None:
    """Look at the terminal; None without one."""
    for fd in (1, 2, 0):
        with suppress(OSError):
            size = os.get_terminal_size(fd)
            term = environ.get("TERM", "")
            return Terminal(term, size.columns, size.lines, environ.get("COLUMNS", ""), _has_entry(term, fd))
    return None


def _has_entry(term: str, fd: int) -> bool:
    """Say whether terminfo knows a name; a Python without curses cannot tell, and says yes."""
    try:
        import curses

        curses.setupterm(term, fd)
    except ImportError:
        return True
    except curses.error:
        return False
    return True
