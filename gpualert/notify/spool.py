"""
The files of the spool; every change is one rename, so that whoever is killed leaves it whole.

    outbox/<name>.eml    a message
    outbox/<name>.json   its state; the message counts from the moment this exists
    outbox/sent/         states of delivered messages: the claim that keeps a message from being sent twice
    outbox/dead/         states and messages that were refused for good
    outbox/pause         until when nothing is tried, because the channel itself does not work
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gpualert.files import make_private_folder, write_atomically
from gpualert.notify.records import SpoolError, encoded, read_bytes, read_record

__all__ = ["Pause", "Queued", "Spool", "SpoolError", "name_of"]

_MESSAGE_BYTES = 1 << 30
_DRAFT_AGE_S = 3600.0  # `write_atomically` needs its draft for seconds


def name_of(message_id: str) -> str:
    """Return the name of a message's files: it sorts as the run does, and belongs to this Message-ID alone."""
    readable = re.sub(r"[^A-Za-z0-9._-]", "_", message_id.strip("<>").split("@")[0])[:100]
    return f"{readable}-{hashlib.sha256(message_id.encode()).hexdigest()[:8]}"


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
        reduced: Its attachments were left out, because the server refused the size.
        refused: Recipients that were refused for good while others took it, each with the reason.
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
    refused: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of its files."""
        return name_of(self.message_id)


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

    def has(self, message_id: str) -> bool:
        """Say whether this message waits, was sent (or told in a digest), or was refused for good."""
        name = f"{name_of(message_id)}.json"
        return any((self.folder / place / name).exists() for place in (".", "sent", "dead"))

    def add(self, item: Queued, message: bytes) -> None:
        """Keep a new message."""
        write_atomically(self.folder / f"{item.name}.eml", message)
        self.update(item)

    def update(self, item: Queued) -> None:
        """Keep the new state of a message."""
        write_atomically(self.folder / f"{item.name}.json", encoded(item))

    def replace_message(self, item: Queued, message: bytes) -> None:
        """Keep other bytes for a message."""
        write_atomically(self.folder / f"{item.name}.eml", message)
        self.update(item)

    def states(self, only: Sequence[str] | None = None) -> list[Path]:
        """Return the state files of the messages that wait, oldest run first; or those of some Message-IDs."""
        if only is not None:
            paths = (self.folder / f"{name_of(message_id)}.json" for message_id in only)
            return [path for path in paths if path.exists()]
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

    def park(self, name: str) -> None:
        """Put the files of a message aside for good."""
        for suffix in (".json", ".eml"):
            with suppress(FileNotFoundError):
                (self.folder / f"{name}{suffix}").rename(self.folder / "dead" / f"{name}{suffix}")

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

    def pause(self) -> Pause:
        """Return the pause in force; one that has long passed where there is none, or it cannot be read."""
        try:
            return read_record(self.folder / "pause", Pause)
        except SpoolError:
            return Pause()

    def set_pause(self, pause: Pause | None) -> None:
        """Pause; None ends it."""
        path = self.folder / "pause"
        if pause is not None:
            write_atomically(path, encoded(pause))
        elif path.exists():
            path.unlink(missing_ok=True)
