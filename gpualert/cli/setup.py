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
@click.option("--scron", is_flag=True, help="Print lines for scrontab, Slurm's own crontab.")
def crontab(scron: bool) -> int:
    """Print the line for crontab; add it with: (crontab -l; gpualert crontab) | crontab -"""
    installation = (shim(), Path(sys.executable), load_settings().home)
    say("\n".join(scrontab_lines(*installation)) if scron else crontab_line(*installation))
    return 0


def crontab_line(command: Path, python: Path, home: Path) -> str:
    """
    Return the line that starts `tick` every minute with this installation on this state folder.

    Source: crontab(5): a `%` ends the command unless a backslash stands before it; the environment is almost empty.
    """
    return f"* * * * * {_tick_command(command, python, home)}".replace("%", r"\%")


def scrontab_lines(command: Path, python: Path, home: Path) -> list[str]:
    """
    Return the lines that have Slurm start `tick` every five minutes: each time is a job, which waits in the queue.

    Source: scrontab(1): options stand in lines of their own before the entry; a job that is late skips its turns.
    """
    log = shlex.quote(str(home.absolute() / "scron.log").replace("%", "%%"))  # sbatch(1), "filename pattern"
    options = ["--job-name=gpualert-tick", "--time=10", "--mem=500M", f"--output={log}", "--open-mode=append"]
    return [*(f"#SCRON {option}" for option in options), f"*/5 * * * * {_tick_command(command, python, home)}"]


def _tick_command(command: Path, python: Path, home: Path) -> str:
    variables = {"GPUALERT_HOME": str(home.absolute()), "GPUALERT_PYTHON": str(python.absolute())}
    if os.environ.get("XDG_CONFIG_HOME"):
        variables["XDG_CONFIG_HOME"] = os.environ["XDG_CONFIG_HOME"]
    return shlex.join(
        ["env", *(f"{name}={value}" for name, value in variables.items()), str(command.absolute()), "tick"]
    )


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
