"""What lies in a spool, as a list shows it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpualert.notify.digests import Case, Digest
from gpualert.notify.records import SpoolError, read_record
from gpualert.notify.spool import SERVICES, Queued, Spool


@dataclass(frozen=True)
class Entry:
    """
    One message.

    Attributes:
        standing: `waiting`, `collected` (for a digest) or `given up`.
        since: When it came, in seconds since 1970 UTC; 0 where that cannot be read.
        tries: How often it was tried.
        reason: Why it is here; "" before the first try.
    """

    name: str
    standing: str
    since: float
    tries: int
    to: tuple[str, ...]
    reason: str


def entries(spool: Spool) -> Iterator[Entry]:
    """Yield the messages of a spool: those that wait, those that are collected, those that were given up."""
    for path in spool.states():
        yield _entry(path, "waiting")
    for digest in Digest.all(spool.folder):
        for path in sorted(digest.folder.glob("*/*.json")):
            yield _case(path)
    for name in spool.given_up():
        yield _entry(spool.folder / "dead" / f"{name}.json", "given up")


def _entry(path: Path, standing: str) -> Entry:
    try:
        item = read_record(path, Queued)
    except SpoolError as error:
        return Entry(path.stem, standing, 0.0, 0, (), error.reason)
    return Entry(path.stem, standing, item.queued_at, item.tries, item.to, item.last_error)


def _case(path: Path) -> Entry:
    try:
        case = read_record(path, Case)
    except SpoolError as error:
        return Entry(path.stem, "collected", 0.0, 0, (), error.reason)
    return Entry(path.stem, "collected", case.queued_at, 0, case.to, f"told with others: {case.outcome}")


def pauses(spool: Spool, now: float) -> Iterator[str]:
    """Yield why a channel is not tried just now."""
    for channel in ("", SERVICES):
        pause = spool.pause(channel)
        if pause.until > now:
            yield pause.reason
