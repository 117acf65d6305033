"""Commands that tell how gpualert is set up: config, crontab, path, help, version."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import click

from gpualert import __version__
from gpualert.cli.common import become_shim, print_json, print_table, say
from gpualert.config import load_settings, shown, unknown_variables
from gpualert.display import visible
from gpualert.places import PLACES, place, shim


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.argument("key", required=False)
def config(key: str | None, as_json: bool) -> int:
    """Show every setting, its value and where that comes from; or one KEY."""
    rows = [row for row in shown(load_settings()) if key in (None, row[0].key)]
    if not rows:
        raise click.UsageError(f"no such setting '{key}'; see: gpualert config")
    if as_json:
        print_json([{"key": option.key, "value": value, "origin": origin} for option, value, origin in rows])
    else:
        cells = [(option.key, visible(value) or '""', visible(origin), option.help) for option, value, origin in rows]
        print_table(cells, ("SETTING", "VALUE", "FROM", "WHAT"))
    for name, near in unknown_variables().items():
        click.echo(f"gpualert: the variable {name} is no setting; did you mean {near}?", err=True)
    return 0


@click.command()
def crontab() -> int:
    """Print the line for crontab; add it with: (crontab -l; gpualert crontab) | crontab -"""
    click.echo(crontab_line(shim(), Path(sys.executable), load_settings().home))
    return 0


def crontab_line(command: Path, python: Path, home: Path) -> str:
    """
    Return the line that starts `tick` every minute with this installation on this state folder.

    Source: crontab(5): a `%` ends the command unless a backslash stands before it; the environment is almost empty.
    """
    variables = {"GPUALERT_HOME": str(home.absolute()), "GPUALERT_PYTHON": str(python.absolute())}
    if os.environ.get("XDG_CONFIG_HOME"):
        variables["XDG_CONFIG_HOME"] = os.environ["XDG_CONFIG_HOME"]
    words = ["env", *(f"{name}={value}" for name, value in variables.items()), str(command.absolute()), "tick"]
    return f"* * * * * {shlex.join(words)}".replace("%", r"\%")


@click.command()
@click.argument("what", type=click.Choice(list(PLACES)))
def path(what: str) -> int:
    """Say where the files for shells, hooks and workflows, or the page on the run directory, lie."""
    say(str(place(what)))
    return 0


@click.command()
def version() -> int:
    """Print the version."""
    click.echo(f"gpualert {__version__}")
    return 0


@click.command()
@click.argument("command", required=False)
@click.pass_context
def help_(ctx: click.Context, command: str | None) -> int:
    """Explain a COMMAND; without one, list them."""
    root = ctx.find_root()
    if command == "run":
        become_shim("run", "--help")
    if command is None:
        click.echo(root.get_help())
        return 0
    found = root.command.get_command(root, command) if isinstance(root.command, click.Group) else None
    if found is None:
        raise click.UsageError(f"no such command '{command}'; see: gpualert help")
    with click.Context(found, info_name=command, parent=root) as inner:
        click.echo(found.get_help(inner))
    return 0
