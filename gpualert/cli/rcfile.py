"""The command init: what Python answers of it.  The functions themselves are printed by the shell part."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import click

from gpualert.cli.common import become_shim, say
from gpualert.display import visible
from gpualert.places import shim
from gpualert.rcfile import SHELLS, install, rc_line, rc_path, shell_of, uninstall


@click.command()
@click.argument("shell", required=False, type=click.Choice(SHELLS))
@click.option("--install", "add", is_flag=True, help="Add the line to the shell's rc file, once.")
@click.option("--uninstall", "remove", is_flag=True, help="Remove that line.")
@click.option("--script", type=click.Path(path_type=Path), hidden=True)
def init(shell: str | None, add: bool, remove: bool, script: Path | None) -> int:
    """
    Print the functions for an rc file: eval "$(gpualert init bash)"

    --install adds a line that does so to ~/.bashrc, ${ZDOTDIR:-~}/.zshrc or ~/.profile (for sh); --uninstall removes
    it and leaves the file as it was.  Without a name, $SHELL is meant.  The line names this installation by its path,
    since PATH is seldom complete when an rc file is read.

    The functions also run the programs named in GPUALERT_WRAP (say "torchrun accelerate deepspeed") through `gpualert
    run`; runs shorter than GPUALERT_LONGER_THAN, 60 s, send no message.
    """
    if add and remove:
        raise click.UsageError("--install and --uninstall exclude each other")
    if add or remove:
        _change(shell or shell_of(), remove, script or _own_script())
    elif shell is None:
        raise click.UsageError(f"init: name one of {', '.join(SHELLS)}; see: gpualert init --help")
    else:
        become_shim("init", shell)
    return 0


def _change(shell: str, remove: bool, script: Path) -> None:
    """Add or remove the line, and tell."""
    path = rc_path(shell)
    if remove:
        say(visible(f"removed from {path}" if uninstall(path) else f"nothing to remove from {path}"))
    elif install(path, rc_line(shell, script)):
        say(visible(f"added to {path}; new shells have it, this one after: . {shlex.quote(str(path))}"))
    else:
        say(visible(f"already in {path}"))


def _own_script() -> Path:
    """Return the script of this installation."""
    beside = Path(sys.executable).with_name("gpualert")
    return beside if beside.exists() else shim()
