"""Commands about chains of retries: start, list, show, log, stop, resume, retry-now."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from gpualert.chains.driver import drive
from gpualert.chains.ending import history
from gpualert.chains.handover import job_id_of
from gpualert.chains.read import read_chain, read_story
from gpualert.chains.record import Chain, Order, Story
from gpualert.chains.runs import find_run
from gpualert.chains.setup import Wish, new_chain
from gpualert.chains.store import OVER, chain_paths, find_chain, make_chain, output_path, write_order
from gpualert.claims import locked
from gpualert.cli.common import folders, print_json, print_table, say
from gpualert.config import load_settings, load_settings_or_defaults
from gpualert.display import duration, instant, shorten, visible
from gpualert.errors import GpualertError, UsageError
from gpualert.files import make_private_folder, write_atomically
from gpualert.state import state_folders
from gpualert.ticking import is_ticking

_LOCK_S = 10.0
_AS_IS = {"ignore_unknown_options": False, "allow_interspersed_args": False}
NAME = click.argument("name")


@click.group(name="chain", invoke_without_command=True)
@click.pass_context
def chain(ctx: click.Context) -> None:
    """Try a command again where its cause of failure allows it: chains of retries, driven by `gpualert tick`."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


@chain.command(context_settings=_AS_IS)
@click.option("--name", default="", help="What the chain is called; by default after the command.")
@click.option("--max-attempts", metavar="N", help="Attempts in all, those that are resumed not counted.  [6]")
@click.option("--interval", metavar="T", help="Wait before an unchanged retry.  [11m]")
@click.option("--backoff", metavar="HOW", help="fixed, or exponential: twice as long each time.  [fixed]")
@click.option("--early", metavar="T", help="Dying before without progress is tried once more only.  [5m]")
@click.option("--max-resumes", metavar="N", help="How often it goes on after a scheduler ended it.  [20]")
@click.option("--on-sigterm", metavar="WHAT", help="resume or stop, after a SIGTERM that nobody claims.  [stop]")
@click.option("--progress", metavar="REGEX", help="Lines that show progress; a group in it is a number that grows.")
@click.option("--checkpoint", metavar="GLOB", help="What the command saves: new or changed, that is progress.")
@click.option("--bigger", metavar="WHAT", multiple=True, help="mem=x2 or env:NAME=/2, when something ran out.")
@click.option("--never", is_flag=True, default=None, help="Never try again, whatever the cause.")
@click.option("--retry-exit-0", is_flag=True, default=None, help="Also where a failed run reported status 0.")
@click.option("--policy", metavar="FILE", type=click.Path(path_type=Path), help="These options in a YAML file.")
@click.option("--host", type=click.Choice(["this", "any"]), default="this", help="Whose tick may start attempts.")
@click.option("--to", metavar="ADDR", multiple=True, help="Who gets the message.")
@click.option("--attach", metavar="GLOB", multiple=True, help="Files that the command writes, to attach.")
@click.option("--timeout", metavar="T", help="End each attempt after T.")
@click.option("--no-mail", is_flag=True, help="Send no message.")
@click.option("--no-log", is_flag=True, help="The message holds nothing of the log.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def start(command: tuple[str, ...], name: str, policy: Path | None, host: str, **flags: Any) -> int:
    """
    Start a chain: COMMAND now, and again where its cause of failure allows it.

    Placeholders in COMMAND: {attempt}, {exclude} (nodes to avoid), {resume} (the newest checkpoint); a word is left out
    while there is nothing to put in its place, so write --resume={resume}.
    """
    from gpualert.findings import rule_folders
    from gpualert.rules import load_rules

    settings = load_settings()
    run_options = [word for key in ("to", "attach", "timeout", "no_mail", "no_log") for word in _words(key, flags)]
    wanted = {key: value for key, value in flags.items() if value not in (None, ())}
    known = lambda: [rule.id for rule in load_rules(rule_folders()).rules]  # noqa: E731
    made = new_chain(Wish(command, name, wanted, policy, host == "any", run_options), settings.home, known)
    make_private_folder(settings.home / "locks")
    make_chain(made)
    complaints: list[str] = []
    drive(settings.home, state_folders(settings.home), settings, complaints.append, time.monotonic() + 10, [made.path])
    if complaints:
        raise GpualertError(complaints[0])
    when = "is started" if read_story(made.path).last else "starts with the next tick"
    say(f"chain {made.id}: attempt 1 {when}; look at it with: gpualert chain show {made.id}")
    if not is_ticking(settings.home):
        click.echo("gpualert: only ticks start attempts, and none has run for a while: see gpualert crontab", err=True)
    return 0


def _words(key: str, flags: dict[str, Any]) -> Sequence[str]:
    """Take an option of `gpualert run` out of the flags; return it as words."""
    value, option = flags.pop(key), f"--{key.replace('_', '-')}"
    if isinstance(value, tuple):
        return [word for each in value for word in (option, each)]
    return [] if not value else [option] if value is True else [option, value]


@chain.command(name="list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--all", "everything", is_flag=True, help="Those that have ended, too.")
def list_chains(as_json: bool, everything: bool) -> int:
    """List chains.  Status 1 when there is none."""
    rows = []
    for path in chain_paths(folders()):
        if everything or as_json or not (path / OVER).exists():
            rows.append(_row(path))
    if as_json:
        print_json(
            [dict(zip(("name", "state", "attempts", "last_class", "command"), row, strict=True)) for row in rows]
        )
    elif rows:
        print_table(rows, ("CHAIN", "STATE", "ATTEMPTS", "LAST", "COMMAND"))
    return 0 if rows else 1


def _row(path: Path) -> tuple[str, str, str, str, str]:
    try:
        what, story = read_chain(path), read_story(path)
    except GpualertError as error:
        return visible(path.name), "unreadable", "", "", visible(str(error))
    last = max(story.ended, default=0)
    class_ = story.ended[last].attempt.failure_class if last else ""
    command = " ".join(os.fsdecode(word) for word in what.command)
    return visible(what.id), _state(what, story), str(story.last), visible(class_), shorten(visible(command), 60)


def _state(what: Chain, story: Story) -> str:
    """Say how a chain stands, in a few words."""
    if story.running is not None:
        return "running, then stops" if story.stopped else "running"
    if story.end:
        return story.end.value.replace("_", " ")
    left_s = story.due_at(what.created_at) - time.time()
    return f"waits {duration(left_s)}" if left_s > 0 else "due"


@chain.command()
@NAME
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(name: str, as_json: bool) -> int:
    """Show what has come of a chain."""
    path = find_chain(name, folders())
    what, story = read_chain(path), read_story(path)
    if as_json:
        ended = {str(number): story.ended[number] for number in sorted(story.ended)}
        print_json({"name": what.id, "state": _state(what, story), "path": str(path), "ended": ended})
        return 0
    say(f"{visible(what.id)}: {_state(what, story)}")
    say(f"command  {visible(' '.join(os.fsdecode(word) for word in what.command))}")
    say(f"folder   {visible(os.fsdecode(what.cwd))}" + (f" on {what.policy.host}" if what.policy.host else ""))
    say(f"began    {instant(what.created_at)}")
    for number, line in zip(sorted(story.ended), history(story), strict=True):
        decision = story.ended[number].decision
        say(f"{visible(line)}; {'then ' if decision.retry else ''}{visible(decision.reason)}")
        say(f"  run {visible(story.ended[number].attempt.run_id or '(left no record)')}")
    if story.running is not None:
        say(f"attempt {story.running}: running{_job_of(what, story)}; see: gpualert chain log {visible(name)}")
    return 0


def _job_of(what: Chain, story: Story) -> str:
    """Return which Slurm job the running attempt has handed over, in words; "" for none."""
    started = story.started.get(story.last)
    run = find_run(folders(), what.id, started) if started and what.submits else None
    return f" as Slurm job {job_id_of(run)}" if run and job_id_of(run) else ""


@chain.command()
@NAME
@click.option("--attempt", type=click.IntRange(1), help="Which attempt; by default the last.")
def log(name: str, attempt: int | None) -> int:
    """Print the output of an attempt, as it is on disk."""
    path = find_chain(name, folders())
    number = attempt or read_story(path).last
    try:
        with output_path(path, number).open("rb") as file:
            while data := file.read(1 << 20):
                sys.stdout.buffer.write(data)
    except FileNotFoundError:
        raise UsageError(f"chain '{name}' has no attempt {number} yet") from None
    return 0


@chain.command()
@NAME
@click.option("--kill", is_flag=True, help="End the running attempt, too (SIGTERM).")
def stop(name: str, kill: bool) -> int:
    """Stop a chain: no further attempt is started."""
    path = find_chain(name, folders())
    with locked(path / "lock", _LOCK_S):
        what, story = read_chain(path), read_story(path)
        write_atomically(path / "stopped", b"")
    if story.running is None:
        say(f"chain {what.id} is stopped")
    elif kill:
        _end_attempt(what, story)
    else:
        say(f"chain {what.id} stops once attempt {story.running} has ended; --kill ends it now")
    return 0


def _end_attempt(what: Chain, story: Story) -> None:
    """
    End the running attempt.

    Raises:
        GpualertError: It cannot be reached from here.
    """
    started = story.started.get(story.last)
    run = find_run(folders(), what.id, started) if started else None
    job_id = job_id_of(run) if run else ""
    if job_id:
        subprocess.run(["scancel", job_id], check=False, timeout=_LOCK_S)
        say(f"chain {what.id} is stopped, and Slurm was told to cancel job {job_id}")
    elif run and run.start and run.start.host == os.uname().nodename:
        os.kill(run.start.pid, signal.SIGTERM)
        say(f"chain {what.id} is stopped, and attempt {story.last} was sent SIGTERM")
    else:
        raise GpualertError(f"cannot end attempt {story.last} of chain '{what.id}' from here; the chain is stopped")


@chain.command()
@NAME
def resume(name: str) -> int:
    """Have a chain go on that was stopped or has ended: at once, and what failed before counts no more."""
    return _go_on(name, afresh=True)


@chain.command(name="retry-now")
@NAME
def retry_now(name: str) -> int:
    """Start the next attempt of a waiting chain now."""
    return _go_on(name, afresh=False)


def _go_on(name: str, *, afresh: bool) -> int:
    settings, _ = load_settings_or_defaults()
    path = find_chain(name, folders())
    with locked(path / "lock", _LOCK_S):
        what, story = read_chain(path), read_story(path)
        if story.running is not None and not story.stopped:
            raise GpualertError(f"attempt {story.running} of chain '{name}' is running")
        forget = story.last if afresh or story.end else (story.order.forget if story.order else 0)
        if story.running is None:
            write_order(path, Order(story.last, time.time(), forget))
        for marker in ("stopped", OVER, "complaint"):
            (path / marker).unlink(missing_ok=True)
    complaints: list[str] = []
    state = what.state
    drive(state, folders(), settings, complaints.append, time.monotonic() + 10, [path])
    if complaints:
        raise GpualertError(complaints[0])
    now = read_story(path)
    started = now.running is not None and now.running != story.running
    say(f"chain {what.id}: " + (f"attempt {now.last} is started" if started else "it goes on with the next tick"))
    return 0
