"""The command outbox: messages that wait or were given up."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import click

from gpualert.claims import locked
from gpualert.cli.common import folders, print_json, print_table, say
from gpualert.config import load_settings
from gpualert.display import duration, shorten, visible
from gpualert.errors import UsageError
from gpualert.files import make_private_folder
from gpualert.notify.listing import Entry, entries, pauses
from gpualert.notify.spool import SERVICES, Spool

_SEND_LIMIT_S = 60.0
_NAMES = click.argument("names", metavar="[NAME]...", nargs=-1)


@click.group(invoke_without_command=True)
@click.pass_context
def outbox(ctx: click.Context) -> int:
    """Look at messages that wait or were given up, try them again, or drop them.  Without a word: list."""
    return int(ctx.invoke(list_)) if ctx.invoked_subcommand is None else 0


@outbox.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_(as_json: bool) -> int:
    """List messages that wait, are collected for a digest, or were given up; status 1 where there is none."""
    found = [entry for spool in _spools() for entry in entries(spool)]
    if as_json:
        print_json(found)
        return 0 if found else 1
    if found:
        print_table([_row(entry) for entry in found], ("name", "standing", "age", "tries", "to", "reason"))
    for spool in _spools():
        for reason in pauses(spool, time.time()):
            say(f"paused: {visible(reason)}")
    return 0 if found else 1


def _row(entry: Entry) -> Sequence[str]:
    age = duration(max(time.time() - entry.since, 0.0)) if entry.since else "?"
    to, reason = shorten(visible(", ".join(entry.to)), 60), visible(entry.reason)
    return (visible(entry.name), entry.standing, age, str(entry.tries), to, reason)


@outbox.command()
@_NAMES
def retry(names: tuple[str, ...]) -> int:
    """
    Try now what waits, or the messages NAME, those that were given up among them; a paused channel is tried again.

    A part of a name is enough where only one message has it.
    """
    from gpualert.notify.outbox import send_due

    settings = load_settings()
    wanted = _named(names)
    troubles: list[str] = []
    sent = waiting = 0
    for spool in _spools():
        with _held(spool):
            spool.hurry(wanted.get(spool.folder, []) if names else None, time.time())
        done = send_due(spool.folder.parent, settings, time.time(), _SEND_LIMIT_S)
        sent, waiting = sent + len(done.sent), waiting + done.waiting
        troubles += [*done.dead, *done.troubles]
    for trouble in troubles:
        say(visible(trouble))
    say(f"sent: {sent}, waiting: {waiting}")
    return 1 if waiting or troubles else 0


@outbox.command()
@_NAMES
@click.option("--given-up", is_flag=True, help="All that were given up.")
def drop(names: tuple[str, ...], given_up: bool) -> int:
    """Forget the messages NAME, or all that were given up; nobody gets them."""
    if not names and not given_up:
        raise UsageError("cannot drop messages: name some, or say --given-up; see: gpualert outbox list")
    wanted = _named(names)
    for spool in _spools():
        chosen = [*wanted.get(spool.folder, []), *(spool.given_up() if given_up else [])]
        with _held(spool):
            for name in dict.fromkeys(chosen):
                spool.drop(name)
                say(f"dropped {visible(name)}")
    return 0


@outbox.command(hidden=True)
@click.argument("state", type=click.Path(path_type=Path))
def wait(state: Path) -> None:
    """Stay until the digests of a state folder are told, where no tick runs."""
    from gpualert.keeper import keep

    keep(state, load_settings())


def _spools() -> list[Spool]:
    return [Spool.of(state) for state in folders() if (state / "outbox").is_dir()]


def _held(spool: Spool) -> AbstractContextManager[None]:
    make_private_folder(spool.folder.parent / "locks")
    return locked(spool.folder.parent / "locks" / "outbox", 10.0)


def _named(words: Sequence[str]) -> dict[Path, list[str]]:
    """
    Return the messages that words mean, by their spool.

    Raises:
        UsageError: A word means none, or several that are not one message on its two channels.
    """
    known = [(spool.folder, name) for spool in _spools() for name in (*spool.waiting(), *spool.given_up())]
    found: dict[Path, list[str]] = {}
    for word in words:
        meant = [pair for pair in known if word and word in pair[1]]
        if len({name.removesuffix(f".{SERVICES}") for _, name in meant}) != 1:
            which = "no message has" if not meant else f"{len(meant)} messages have"
            raise UsageError(f"cannot find message '{word}': {which} that in the name; see: gpualert outbox list")
        for folder, name in meant:
            found.setdefault(folder, []).append(name)
    return found
