"""Commands that do something: run, post, tick, prune."""

from __future__ import annotations

import math
import sys
import time
from dataclasses import replace

import click

from gpualert.cli.common import RUN, become_shim, folders, run_path, say
from gpualert.config import Prune, load_settings, load_settings_or_defaults
from gpualert.display import visible
from gpualert.errors import GpualertError
from gpualert.state import state_folders

_PING_LIMIT_S = 50.0
_AS_IS = {"ignore_unknown_options": True, "allow_interspersed_args": False, "help_option_names": []}
_KEEP_ALL = Prune(math.inf, math.inf, sys.maxsize, sys.maxsize)


@click.command(context_settings=_AS_IS)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def run(words: tuple[str, ...]) -> None:
    """Run a command: what `gpualert run` on PATH does without Python."""
    become_shim("run", *words)


@click.command()
@RUN
@click.option("--wait", is_flag=True, help="Be quick: the job's end waits; a tick does what takes long.")
@click.option("--until", type=click.Choice(["verdict"]), help="Stop when verdict.json is written.")
@click.option("--unknown", is_flag=True, help="Also where nobody can say whether the run still runs.")
def post(run: str, wait: bool, until: str | None, unknown: bool) -> int:
    """Report an ended RUN (default: the last one), or go on where its report was interrupted."""
    from gpualert.listing import entry
    from gpualert.post import post as post_run

    path = run_path(run)
    try:
        post_run(path, wait=wait, until_verdict=until is not None, unknown=unknown)
    except OSError as error:
        reason = error.strerror or str(error)
        raise GpualertError(f"cannot report '{path}': {reason}; gpualert tick tries again later") from error
    look = entry(path)
    say(visible(f"{look.run_id}: {look.status} {look.failure_class}".rstrip()))
    return 0


@click.command(hidden=True)
@RUN
@click.option("--start", is_flag=True, required=True, help="It has begun.")
def ping(run: str, start: bool) -> None:
    """Tell the outside alarm of a RUN that it has begun; what the shim starts by itself."""
    from gpualert.mailing import note
    from gpualert.pinging import ping_start
    from gpualert.rundir import read_run

    settings, _ = load_settings_or_defaults()
    path = run_path(run)
    if trouble := ping_start(read_run(path), settings, _PING_LIMIT_S):
        note(path, trouble)


@click.command()
def tick() -> int:
    """
    Do what waits, once: report ended and lost runs, send what could not be sent, remove old runs.

    Silent when all is well.  For cron: see `gpualert crontab`.
    """
    from gpualert.chains.gate import Gate
    from gpualert.tick import tick as tick_once

    complaints: list[str] = []

    def complain(complaint: str) -> None:
        complaints.append(complaint)
        click.echo(f"gpualert: {visible(complaint)}", err=True)  # at once: we may be killed

    settings, trouble = load_settings_or_defaults()
    if trouble:
        complain(f"{trouble}; no message is sent and no run removed until it is mended")
        settings = replace(settings, mail="none", prune=_KEEP_ALL)
    # The gate is never opened but by our end: jobs that set off before would slow that down.
    tick_once(state_folders(settings.home), settings, complain, gate=Gate())
    return 1 if complaints else 0


@click.command()
@click.option("-q", "--quiet", is_flag=True, help="Print nothing.")
def prune(quiet: bool) -> int:
    """Remove old runs now, as the settings `prune.*` say; each leaves one line of history."""
    from gpualert.tick import prune_state

    settings = load_settings()
    states = folders()
    removed = [path for state in states for path in prune_state(state, settings.prune, time.time(), states)]
    if not quiet:
        for path in removed:
            say(f"removed {visible(path.name)}")
        say(f"{len(removed)} runs removed")
    return 0
