"""
Messages that wait to be told together; every change is one rename, so that whoever is killed leaves it whole.

    outbox/digests/<topic>/window.json   until when messages on the topic are collected
    outbox/digests/<topic>/first         the Message-ID of the one that went at once
    outbox/digests/<topic>/new/          one file for each that was collected
    outbox/digests/<topic>/telling/      those of them that the digest under way tells of
    outbox/digests/<topic>/tasks/        one empty file for each task of an array that has ended
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from gpualert.files import make_private_folder, write_atomically, write_new
from gpualert.notify.records import SpoolError, encoded, read_bytes, read_record
from gpualert.notify.spool import name_of

LONGEST_WINDOW_S = 3600.0
_NAME_BYTES = 4096
_MOST_QUIET = 96  # windows; a day by default
_TRIES = 100  # each fails only when a digest begins or ends between two lines of ours


@dataclass(frozen=True)
class Topic:
    """
    What messages have in common that are told together: one fault, or one array.

    Attributes:
        title: What people call it, such as `array 4711 of train.py`.
        key: What tells it from others.
        urgent: The first message goes at once; those that can wait are collected from the first on.
        expected: How many tasks there are; 0 where nobody knows.
    """

    title: str
    key: str
    urgent: bool = True
    expected: int = 0


@dataclass(frozen=True)
class Case:
    """
    One message that waits to be told with others.

    Attributes:
        mail_from, to: The envelope.
        queued_at: When it came.
        run_path: The run it speaks of; the message itself lies there.
        cause: Equal for the same fault.
        outcome: Such as `FAILED cuda_oom`.
        name, host, task: The run as a list shows it; "" where there is none.
        why: The line that shows the cause, clean; "" where there is none, or nothing of the log may leave.
        thread: The Message-ID of the first message about its chain, where this is a later one.
    """

    message_id: str
    mail_from: str
    to: tuple[str, ...]
    queued_at: float
    run_path: str
    cause: str
    outcome: str
    name: str = ""
    host: str = ""
    task: str = ""
    why: str = ""
    thread: str = ""

    @property
    def file_name(self) -> str:
        """The name of its file."""
        return f"{name_of(self.message_id)}.json"


@dataclass(frozen=True)
class Window:
    """
    The time during which messages on a topic are collected.

    Attributes:
        title, expected: As in the topic.
        told: How many messages digests have told of.
        quiet: How many windows in a row nothing came.
    """

    title: str
    closes_at: float
    length_s: float
    told: int = 0
    expected: int = 0
    quiet: int = 0


@dataclass(frozen=True)
class Digest:
    """
    The messages on one topic.

    Attributes:
        folder: Where they wait.
    """

    folder: Path

    @classmethod
    def on(cls, outbox: Path, topic: Topic, case: Case) -> Digest:
        """Return the digest that a message belongs to: messages to other people are told apart."""
        told_apart = "\0".join((topic.key, case.mail_from, *case.to))
        return cls(outbox / "digests" / hashlib.sha256(told_apart.encode("utf-8", "surrogatepass")).hexdigest()[:16])

    @classmethod
    def all(cls, outbox: Path) -> Iterator[Digest]:
        """Yield every digest for which something is collected."""
        with suppress(FileNotFoundError), os.scandir(outbox / "digests") as entries:
            for path in sorted(Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)):
                yield cls(path)

    def take(self, topic: Topic, case: Case, now: float, window_s: float) -> bool:
        """
        Keep a message for the digest.

        Returns:
            False where it is the first on its topic, and goes at once.

        Raises:
            OSError: The disk is full.
        """
        for _ in range(_TRIES):
            with suppress(FileNotFoundError):  # a digest has just taken or closed a folder
                return self._take(topic, case, now, window_s)
        raise FileNotFoundError(f"cannot write in '{self.folder}': it goes away again and again")

    def _take(self, topic: Topic, case: Case, now: float, window_s: float) -> bool:
        make_private_folder(self.folder)
        write_new(self.folder / "window.json", encoded(_opened(topic, now, window_s)))
        is_first = topic.urgent and self._is_first(case)
        if not is_first and not (self.folder / "telling" / case.file_name).exists():
            make_private_folder(self.folder / "new")
            write_atomically(self.folder / "new" / case.file_name, encoded(case))
        self._count_task(case.task)  # last: the digest of an array closes once all of its tasks are counted
        return not is_first

    def _is_first(self, case: Case) -> bool:
        return write_new(self.folder / "first", case.message_id.encode()) or self.first() == case.message_id

    def first(self) -> str:
        """Return the Message-ID of the message that went at once; "" where none did."""
        try:
            return read_bytes(self.folder / "first", _NAME_BYTES).decode("utf-8", "replace")
        except SpoolError:
            return ""

    def skip(self, topic: Topic, case: Case, now: float, window_s: float) -> None:
        """
        Count the end of an array's task that sends no message.

        Raises:
            OSError: The disk is full.
        """
        self._count_task(case.task)
        write_new(self.folder / "window.json", encoded(_opened(topic, now, window_s)))

    def _count_task(self, task: str) -> None:
        if task:
            make_private_folder(self.folder / "tasks")
            (self.folder / "tasks" / name_of(task)).touch(mode=0o600)

    def window(self) -> Window | None:
        """
        Return the window; None where there is none (any more).

        Raises:
            SpoolError: It is damaged.
        """
        path = self.folder / "window.json"
        return read_record(path, Window) if path.exists() else None

    def has_any(self) -> bool:
        """Say whether anything was collected."""
        return _count(self.folder / "new") > 0 or (self.folder / "telling").exists()

    def closes_at(self) -> float:
        """Return when the window closes; long ago where it has, or is damaged."""
        try:
            window = self.window()
        except SpoolError:
            window = None
        return window.closes_at if window else 0.0

    def is_ripe(self, now: float, *, prompt: bool) -> bool:
        """Say whether it is due, or damaged."""
        try:
            return self.is_due(self.window(), now, prompt=prompt)
        except SpoolError:
            return True

    def is_due(self, window: Window | None, now: float, *, prompt: bool) -> bool:
        """
        Say whether what was collected is told now.

        Args:
            window: Its window.
            prompt: Nobody may come by when the window closes: tell each time that as many more have come as were told.
        """
        if window is None or (self.folder / "telling").exists():
            return True
        # One further off than any window is long is left from a clock that was wrong.
        if not now < window.closes_at <= now + max(LONGEST_WINDOW_S, window.length_s):
            return True
        if window.expected:
            return window.expected <= _count(self.folder / "tasks") and _count(self.folder / "new") > 0
        return prompt and _count(self.folder / "new") > window.told

    def begin(self) -> list[Path]:
        """
        Take what was collected, to tell it; what comes from now on waits for the next digest.

        Returns:
            The files of the cases, oldest run first; of a digest that was begun and not ended, where there is one.
        """
        telling = self.folder / "telling"
        if not telling.exists():
            with suppress(FileNotFoundError):
                (self.folder / "new").rename(telling)
        return sorted(telling.glob("[!.]*.json"))

    def extend(self, window: Window, now: float, told: int) -> None:
        """Go on collecting, for twice as long as before."""
        length_s = max(min(2 * window.length_s, LONGEST_WINDOW_S), window.length_s)
        longer = replace(window, closes_at=now + length_s, length_s=length_s, told=window.told + told, quiet=0)
        write_atomically(self.folder / "window.json", encoded(longer))

    def expects_more(self, window: Window) -> bool:
        """Say whether tasks of an array are still to end; after a long silence they were cancelled most likely."""
        return window.quiet < _MOST_QUIET and _count(self.folder / "tasks") < window.expected

    def rest(self, window: Window, now: float) -> None:
        """Wait for the other tasks of an array; the next message goes at once."""
        (self.folder / "first").unlink(missing_ok=True)
        longer = replace(window, closes_at=now + window.length_s, quiet=window.quiet + 1)
        write_atomically(self.folder / "window.json", encoded(longer))

    def told(self, case: Case, claims: Path) -> None:
        """Put the memory of a case among the claims: it is told once."""
        (self.folder / "telling" / case.file_name).rename(claims / case.file_name)

    def drop(self, case: Case) -> None:
        """Forget a case that waits in the spool by itself, or was told before."""
        (self.folder / "telling" / case.file_name).unlink(missing_ok=True)

    def end(self) -> None:
        """Remove the folder of a digest that was told; drafts in it are of killed writers, who will come again."""
        for draft in (self.folder / "telling").glob(".*"):
            draft.unlink(missing_ok=True)
        with suppress(FileNotFoundError):
            (self.folder / "telling").rmdir()

    def close(self) -> None:
        """Forget the topic: nothing came while its window was open, so the next message on it goes at once."""
        for name in ("window.json", "first"):
            (self.folder / name).unlink(missing_ok=True)
        for task in (self.folder / "tasks").glob("*"):
            task.unlink(missing_ok=True)
        for folder in (self.folder / "tasks", self.folder / "new", self.folder):
            with suppress(OSError):  # somebody has just put something into it
                folder.rmdir()


def _opened(topic: Topic, now: float, window_s: float) -> Window:
    return Window(topic.title, now + window_s, window_s, expected=topic.expected)


def _count(folder: Path) -> int:
    try:
        with os.scandir(folder) as entries:
            return sum(not entry.name.startswith(".") for entry in entries)
    except OSError:
        return 0
