"""
The files of the spool; every change is one rename, so that whoever is killed leaves it whole.

    outbox/<name>.eml      a message
    outbox/<name>.json     its state; the message counts from the moment this exists
    outbox/sent/           states of delivered messages: the claim that keeps a message from being sent twice
    outbox/dead/           states and messages that were refused for good
    outbox/dead/*.unsaid   sentences about them that no tick has said yet
    outbox/pause           until when nothing is tried, because the channel itself does not work
    outbox/pace            when the last messages went
    outbox/threads/        the Message-ID of the first message about each chain
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from gpualert.files import make_private_folder, write_atomically, write_new
from gpualert.notify.records import SpoolError, encoded, read_bytes, read_record

__all__ = ["SERVICES", "Pace", "Pause", "Queued", "Spool", "SpoolError", "name_of"]

SERVICES = "services"  # the channel beside that of the setting `mail`
_MESSAGE_BYTES = 1 << 30
_SENTENCE_BYTES = 1 << 16
_DRAFT_AGE_S = 3600.0  # `write_atomically` needs its draft for seconds


def name_of(message_id: str, channel: str = "") -> str:
    """Return the name of a message's files: it sorts as the run does, and belongs to this Message-ID alone."""
    readable = re.sub(r"[^A-Za-z0-9._-]", "_", message_id.strip("<>").split("@")[0])[:100]
    name = f"{readable}-{hashlib.sha256(message_id.encode()).hexdigest()[:8]}"
    return f"{name}.{channel}" if channel else name


@dataclass(frozen=True)
class Queued:
    """
    The state of one message.

    Attributes:
        mail_from, to: The envelope; `to` shrinks when only some recipients took the message.  While the settings are
            broken nobody knows it: `mail_from` is "" then, and `to` what the run itself asked for.
        run_path: The run it speaks of; "" where there is none.
        queued_at, next_at: When it came, and from when on it may be tried.
        tries: How often it was tried.
        last_error: Why it is still here; "" before the first try.
        reduced, bare: Its attachments, then all but the least were left out, because the server refused the size.
        refused: Recipients that were refused for good while others took it, each with the reason.
        channel: Where it goes: "" by the channel of the setting `mail`, else `SERVICES`.
    """

    message_id: str
    mail_from: str
    to: tuple[str, ...]
    queued_at: float
    run_path: str = ""
    next_at: float = 0.0
    tries: int = 0
    last_error: str = ""
    reduced: bool = False
    bare: bool = False
    refused: tuple[str, ...] = ()
    channel: str = ""

    @property
    def name(self) -> str:
        """The name of its files."""
        return name_of(self.message_id, self.channel)


@dataclass(frozen=True)
class Pause:
    """
    Nothing is tried for a while.

    Attributes:
        channel: The channel that does not work; another one, or other settings of it, do not wait.
        until: When it is tried again.
        times: How often in a row it did not work.
        reason: Why.
    """

    channel: str = ""
    until: float = 0.0
    times: int = 0
    reason: str = ""


@dataclass(frozen=True)
class Pace:
    """When messages went within the last minute, so that all senders together keep to the rate."""

    times: tuple[float, ...] = ()


@dataclass(frozen=True)
class Spool:
    """
    The spool of a state folder.

    Attributes:
        folder: `outbox/` in the state folder.
    """

    folder: Path

    @classmethod
    def of(cls, state: Path) -> Spool:
        """Return the spool of a state folder, making its folders."""
        for name in ("sent", "dead"):
            make_private_folder(state / "outbox" / name)
        return cls(state / "outbox")

    def has(self, message_id: str, channel: str = "") -> bool:
        """Say whether this message waits, was sent (or told in a digest), or was refused for good."""
        name = f"{name_of(message_id, channel)}.json"
        return any((self.folder / place / name).exists() for place in (".", "sent", "dead"))

    def add(self, item: Queued, message: bytes) -> None:
        """Keep a new message."""
        write_atomically(self.folder / f"{item.name}.eml", message)
        self.update(item)

    def add_new(self, item: Queued, message: bytes, channels: Sequence[str]) -> bool:
        """Keep a message for each of its channels; return whether it is new to any."""
        new = [channel for channel in channels if not self.has(item.message_id, channel)]
        for channel in new:
            self.add(replace(item, channel=channel), message)
        return bool(new)

    def update(self, item: Queued) -> None:
        """Keep the new state of a message."""
        write_atomically(self.folder / f"{item.name}.json", encoded(item))

    def replace_message(self, item: Queued, message: bytes) -> None:
        """Keep other bytes for a message."""
        write_atomically(self.folder / f"{item.name}.eml", message)
        self.update(item)

    def thread(self, key: str, message_id: str) -> str:
        """Return the Message-ID of the first message about something; "" where it is this one."""
        path = self.folder / "threads" / name_of(key)
        make_private_folder(path.parent)
        if write_new(path, message_id.encode()):
            return ""
        with suppress(SpoolError):
            first = read_bytes(path, _SENTENCE_BYTES).decode("ascii", "replace")
            return first if first != message_id and first.isprintable() else ""
        return ""

    def states(self, only: Sequence[str] | None = None) -> list[Path]:
        """Return the state files of the messages that wait, oldest run first; or those of some Message-IDs."""
        if only is not None:
            names = (name_of(message_id, channel) for message_id in dict.fromkeys(only) for channel in ("", SERVICES))
            return [path for name in names if (path := self.folder / f"{name}.json").exists()]
        return sorted(self.folder.glob("[!.]*.json"))

    def read(self, path: Path) -> Queued:
        """
        Read a message's state.

        Raises:
            SpoolError: It is unreadable or malformed.
        """
        item = read_record(path, Queued)
        if f"{item.name}.json" != path.name:
            raise SpoolError(path, f"it speaks of another message, {item.message_id!r}")
        return item

    def message(self, item: Queued) -> bytes:
        """
        Return a message's bytes.

        Raises:
            SpoolError: They are unreadable or empty.
        """
        path = self.folder / f"{item.name}.eml"
        data = read_bytes(path, _MESSAGE_BYTES)
        if not data:
            raise SpoolError(path, "it is empty")
        return data

    def claim_sent(self, item: Queued) -> None:
        """Remember that a message was delivered, and drop it."""
        (self.folder / f"{item.name}.json").rename(self.folder / "sent" / f"{item.name}.json")
        (self.folder / f"{item.name}.eml").unlink(missing_ok=True)

    def park(self, name: str, sentence: str) -> None:
        """Put the files of a message aside for good; the next tick says why."""
        for suffix in (".json", ".eml"):
            self.set_aside(self.folder / f"{name}{suffix}", sentence)

    def set_aside(self, path: Path, sentence: str) -> None:
        """Put a file aside for good; the next tick says why."""
        dead = self.folder / "dead"
        write_atomically(dead / f"{path.stem}.unsaid", sentence.encode("utf-8", "backslashreplace"))
        with suppress(FileNotFoundError):
            path.rename(dead / path.name)

    def unsaid(self) -> Iterator[str]:
        """Yield what was not said yet about messages that were given up; each counts as said when the next is asked."""
        for path in sorted((self.folder / "dead").glob("[!.]*.unsaid")):
            with suppress(SpoolError):
                yield read_bytes(path, _SENTENCE_BYTES).decode("utf-8", "replace")
            path.unlink(missing_ok=True)

    def waiting(self) -> list[str]:
        """Return the names of the messages that wait, oldest run first."""
        return [path.stem for path in self.states()]

    def given_up(self) -> list[str]:
        """Return the names of the messages that were given up, oldest run first."""
        return sorted({path.stem for path in (self.folder / "dead").glob("[!.]*.json")})

    def hurry(self, names: Sequence[str] | None, now: float) -> None:
        """
        Let messages be tried at once, those that were given up too, and end every pause.

        Args:
            names: Which; None means all that wait.

        Raises:
            SpoolError: The state of one is malformed.
        """
        for channel in ("", SERVICES):
            self.set_pause(None, channel)
        for name in self.waiting() if names is None else names:
            dead = not (self.folder / f"{name}.json").exists()
            item = read_record((self.folder / "dead" if dead else self.folder) / f"{name}.json", Queued)
            if dead:
                (self.folder / "dead" / f"{name}.eml").rename(self.folder / f"{name}.eml")
                item = replace(item, queued_at=now, tries=0)
            self.update(replace(item, next_at=now))
            for suffix in (".json", ".unsaid"):
                (self.folder / "dead" / f"{name}{suffix}").unlink(missing_ok=True)

    def drop(self, name: str) -> None:
        """Forget a message, whether it waits or was given up; its state stays as if it had been sent."""
        for place in (self.folder, self.folder / "dead"):
            with suppress(FileNotFoundError):
                (place / f"{name}.json").rename(self.folder / "sent" / f"{name}.json")
            for suffix in (".unsaid", ".eml"):
                (place / f"{name}{suffix}").unlink(missing_ok=True)

    def sweep(self) -> None:
        """Finish what a killed sender left half done: its claim or its verdict stands, the message still lies here."""
        for draft in self.folder.glob(".*.[0-9]*"):
            with suppress(OSError):
                if time.time() - draft.stat().st_mtime > _DRAFT_AGE_S:
                    draft.unlink()
        for path in self.folder.glob("[!.]*.eml"):
            state = f"{path.stem}.json"
            if not (self.folder / state).exists():
                if (self.folder / "sent" / state).exists():
                    path.unlink(missing_ok=True)
                elif (self.folder / "dead" / state).exists():
                    path.rename(self.folder / "dead" / path.name)

    def pause(self, channel: str = "") -> Pause:
        """Return the pause in force; one that has long passed where there is none, or it cannot be read."""
        try:
            return read_record(self._pause_file(channel), Pause)
        except SpoolError:
            return Pause()

    def set_pause(self, pause: Pause | None, channel: str = "") -> None:
        """Pause; None ends it."""
        path = self._pause_file(channel)
        if pause is not None:
            write_atomically(path, encoded(pause))
        elif path.exists():
            path.unlink(missing_ok=True)

    def _pause_file(self, channel: str) -> Path:
        return self.folder / ("pause" + (f".{channel}" if channel else ""))

    def pace(self) -> Pace:
        """Return when messages went; never, where that cannot be read."""
        try:
            return read_record(self.folder / "pace", Pace)
        except SpoolError:
            return Pace()

    def set_pace(self, pace: Pace) -> None:
        """Remember when messages went."""
        write_atomically(self.folder / "pace", encoded(pace))
