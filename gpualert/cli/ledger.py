"""The node ledger: which nodes are to blame, which are left out, and how to clear one."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import click

from gpualert import ledger as book
from gpualert.blame import Suspect, check_node
from gpualert.cli.common import print_json, print_table, say
from gpualert.config import load_settings_or_defaults
from gpualert.display import duration, visible
from gpualert.settings import Settings
from gpualert.state import state_folders

_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group(invoke_without_command=True)
@_JSON
@click.pass_context
def ledger(ctx: click.Context, as_json: bool) -> int:
    """
    Nodes that runs failed on through the node's own fault.

    Without a further word: show them.  A node is left out by every chain once it has `ledger.strikes` strikes younger
    than `ledger.expires_s`; the chain that failed on it leaves it out at once.
    """
    return _show(as_json) if ctx.invoked_subcommand is None else 0


@ledger.command()
@_JSON
def show(as_json: bool) -> int:
    """List the nodes with strikes, the worst first.  Status 1 when there is none."""
    return _show(as_json)


@ledger.command()
@_JSON
def exclude(as_json: bool) -> int:
    """
    Print `--exclude=n1,n2` for sbatch and srun.  Nothing, and status 1, when no node is left out.

    sbatch $(gpualert ledger exclude) job.sh
    """
    _, found = _read()
    nodes = sorted(suspect.node for suspect in found if suspect.excluded)
    if as_json:
        print_json(nodes)
    elif nodes:
        say(f"--exclude={','.join(nodes)}")
    return 0 if nodes else 1


@ledger.command()
@click.argument("nodes", metavar="NODE...", nargs=-1, required=True)
def clear(nodes: tuple[str, ...]) -> int:
    """Let what NODE was blamed for until now count no more.  Status 1 where nothing counted."""
    for node in nodes:
        check_node(node, "gpualert ledger clear")
    settings, _ = load_settings_or_defaults()
    now, status = time.time(), 0
    for node in nodes:
        blaming = [state for state in state_folders(settings.home) if node in _counting(state, settings, now)]
        for state in blaming:
            book.clear(state, node, now)
        if blaming:
            say(f"cleared {node}")
        else:
            click.echo(f"gpualert: nothing counts against node '{node}'; see: gpualert ledger", err=True)
            status = 1
    return status


def _counting(state: Path, settings: Settings, now: float) -> set[str]:
    return {suspect.node for suspect in book.read(state).suspects(now, settings)}


def _read() -> tuple[Settings, tuple[Suspect, ...]]:
    """Read the ledgers; what cannot be read is said on stderr."""
    settings, _ = load_settings_or_defaults()
    found = book.read(*state_folders(settings.home))
    for trouble in found.troubles:
        click.echo(f"gpualert: {visible(trouble)}", err=True)
    return settings, found.suspects(time.time(), settings)


def _show(as_json: bool) -> int:
    settings, found = _read()
    if as_json:
        print_json([_as_json(suspect) for suspect in found])
    elif not found and sys.stdout.isatty():
        click.echo("No node has a strike.")
    else:
        rows = [_row(suspect, settings.ledger.strikes) for suspect in found]
        print_table(rows, ("NODE", "STRIKES", "LEFT OUT", "GPU", "CLASS", "XID", "LAST", "RUN"))
    return 0 if found else 1


def _row(suspect: Suspect, needed: int) -> tuple[str, ...]:
    last = suspect.blames[-1]
    return (
        suspect.node,
        f"{suspect.strikes} of {needed}",
        f"for {duration(suspect.free_at - time.time())}" if suspect.excluded else "no",
        visible(last.gpu),
        visible(last.failure_class),
        "" if last.xid is None else str(last.xid),
        time.strftime("%Y-%m-%d %H:%M", time.localtime(last.at)),
        visible(last.run_id),
    )


def _as_json(suspect: Suspect) -> dict[str, Any]:
    return {
        "node": suspect.node,
        "strikes": suspect.strikes,
        "excluded": suspect.excluded,
        "free_at": suspect.free_at,
        "blames": [
            {"class": item.failure_class, "gpu": item.gpu, "xid": item.xid, "run_id": item.run_id, "at": item.at}
            for item in suspect.blames
        ],
    }
