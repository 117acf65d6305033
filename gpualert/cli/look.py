"""Commands that look at runs: runs, show."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from gpualert.cli.common import RUN, folders, print_json, print_table, run_path, say
from gpualert.config import load_settings_or_defaults
from gpualert.display import duration, shorten, visible
from gpualert.group import find_group
from gpualert.history import read_history
from gpualert.jsonfiles import plain
from gpualert.listing import Entry, entry
from gpualert.rundir import read_run
from gpualert.settle import readable_logs
from gpualert.state import run_paths
from gpualert.wording import run_name


@click.command()
@click.option("-n", "count", default=20, show_default=True, type=click.IntRange(0), help="How many; 0 for all.")
@click.option("--failed", is_flag=True, help="Only runs that did not succeed.")
@click.option("--running", is_flag=True, help="Only runs that have not ended.")
@click.option("--pruned", is_flag=True, help="What is remembered of runs that were removed.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def runs(count: int, failed: bool, running: bool, pruned: bool, as_json: bool) -> int:
    """List runs, the newest last.  Status 1 when there is none."""
    if pruned:
        return _print_history(as_json)
    wanted = _filter(failed, running)
    found: list[Entry] = []
    for path in reversed(run_paths(folders())):
        if count and len(found) == count:
            break
        if wanted is None or (look := entry(path)).status in wanted:
            found.append(entry(path) if wanted is None else look)
    found.reverse()
    if as_json:
        print_json([_as_json(look) for look in found])
    elif found:
        print_table([_row(look) for look in found], ("RUN", "STATUS", "EXIT", "STARTED", "TOOK", "HOST", "COMMAND"))
    elif sys.stdout.isatty():
        click.echo("No runs.  Start one: gpualert run -- COMMAND")
    return 0 if found else 1


def _filter(failed: bool, running: bool) -> set[str] | None:
    """Return the states that are wanted, or None for all."""
    wanted = {"failed", "lost", "unknown", "unreadable"} if failed else set()
    return wanted | ({"running", "launching"} if running else set()) or None


def _row(look: Entry) -> tuple[str, ...]:
    state = f"{look.status} {look.failure_class}" if look.failure_class not in ("", "success") else look.status
    started = "" if look.started_at is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(look.started_at))
    command = look.trouble or look.name or " ".join(look.argv)
    return (
        visible(look.run_id),
        visible(state),
        "" if look.exit_status is None else str(look.exit_status),
        started,
        "" if look.duration_s is None else duration(look.duration_s),
        visible(look.host),
        shorten(visible(command), 60 if not look.trouble else 300),
    )


def _as_json(look: Entry) -> dict[str, Any]:
    return {
        "run_id": look.run_id,
        "path": str(look.path),
        "status": look.status,
        "class": look.failure_class,
        "exit_status": look.exit_status,
        "started_at": look.started_at,
        "duration_s": look.duration_s,
        "host": look.host,
        "name": look.name,
        "argv": list(look.argv),
        "trouble": look.trouble,
    }


def _print_history(as_json: bool) -> int:
    found = [line for folder in folders() for line in read_history(folder)]
    if as_json:
        print_json(found)
    else:
        rows = [[str(line.get(key, "")) for key in ("run_id", "status", "class", "exit_status")] for line in found]
        commands = [" ".join(map(str, line.get("command") or _job(line))) for line in found]
        cells = [
            [*map(visible, row), shorten(visible(command), 60)] for row, command in zip(rows, commands, strict=True)
        ]
        print_table(cells, ("RUN", "STATUS", "CLASS", "EXIT", "COMMAND"))
    return 0 if found else 1


def _job(line: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what an engine's job is called: of those no command is remembered."""
    return tuple(str(line[key]) for key in ("rule", "wildcards") if line.get(key))


@click.command()
@RUN
@click.option("--json", "as_json", is_flag=True, help="Print JSON: the verdict, and the run.")
@click.option("--status", is_flag=True, help="Print nothing; exit with the run's own exit status.")
def show(run: str, as_json: bool, status: bool) -> int:
    """
    Show what happened to a RUN (default: the last one), or to a group of runs by its name.

    With --status the exit status is the run's; 1, and a line on stderr, where it has none.
    """
    if group := find_group(run, folders()):
        return _show_group(group, as_json, status)
    path = run_path(run)
    if status:
        return _show_status(path)
    if as_json:
        return _show_json(path)
    print_report(path)
    return 0


def _show_group(folder: Path, as_json: bool, status: bool) -> int:
    """Show a group; its exit status is that of the run that failed first."""
    from gpualert import tell
    from gpualert.group.report import look_at
    from gpualert.render import text
    from gpualert.verdict_json import verdict_to_json

    joint, findings = look_at(folder)
    if status:
        return joint.run.exit.status if joint.run.exit else 1
    if as_json:
        ranks = [plain(rank) for rank in joint.ranks]
        print_json({"path": str(folder), "ranks": ranks, "verdict": verdict_to_json(findings.verdict, folder.name)})
        return 0
    settings, _ = load_settings_or_defaults()
    run = replace(joint.run, options=replace(joint.run.options, log=True))
    say(text(tell.report_of(run, findings, joint.logs, [], settings, ranks=joint.ranks)))
    return 0


def _show_status(path: Path) -> int:
    found = read_run(path)
    if found.exit:
        return found.exit.status
    click.echo(f"gpualert: run '{path.name}' has no exit status: it is {entry(path).status}", err=True)
    return 1


def _show_json(path: Path) -> int:
    from gpualert.tell import verdict_of
    from gpualert.verdict_json import verdict_to_json

    run = read_run(path)
    verdict = verdict_of(run)
    print_json({**_as_json(entry(path)), "verdict": verdict and verdict_to_json(verdict, run.run_id)})
    return 0


def print_report(path: Path) -> None:
    """Print what the message about a run says; of one that is under way, only how it stands."""
    from gpualert import tell
    from gpualert.chains.ending import decided
    from gpualert.render import text

    run = read_run(path)
    found = tell.findings_of(run)
    if found is None:
        say(visible(f"{entry(path).status.upper()}: {run_name(run)} ({run.path})"))
        return
    settings, _ = load_settings_or_defaults()
    run = replace(run, options=replace(run.options, log=True))  # --no-log is for what leaves the machine
    report = tell.report_of(
        run, found, readable_logs(run), tell.failed_inside(run), settings, decided(run, settings.home)
    )
    say(text(report))
