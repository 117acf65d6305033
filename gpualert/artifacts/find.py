"""Finds the files that a job changed, without following links and within bounds."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from gpualert.errors import UnsafeFileError
from gpualert.files import open_regular

MAX_DEPTH = 6
MAX_ENTRIES = 50_000
MAX_FOLDER_ENTRIES = 5_000  # so that one folder of samples does not hide the others
MAX_SEARCH_S = 3.0

_TICK_S = 0.02  # a kernel stamps files with the time of its last tick; Source: inode_set_ctime_current()
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_SKIPPED = frozenset(["__pycache__", "node_modules", "site-packages"])
_MAGIC = frozenset("*?[")


@dataclass(frozen=True)
class Skipped:
    """A folder or a glob that was not, or not wholly, looked at, and why."""

    what: str
    reason: str


@dataclass(frozen=True)
class Search:
    """
    Where to look, and the window of time in which a file must have changed.

    Attributes:
        ours: Folders and files that are never looked at, nor what is in them; without links.
    """

    cwd: str
    globs: tuple[str, ...]
    started_at: float
    ended_at: float
    ours: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Found:
    """
    A file that changed during the run, or that somebody asked for.

    Attributes:
        name: Relative to the job's folder where it lies in there.
        identity: Device and inode.
        asked: It matches `--attach`.
        problem: Why it cannot be sent; "" when it can.
    """

    path: Path
    name: str
    size_bytes: int
    identity: tuple[int, int]
    asked: bool
    problem: str = ""

    def open(self) -> int:
        """
        Open the very file that was found, each folder on the way and the file itself without following links.

        Raises:
            UnsafeFileError, OSError: It is gone, or something else has its name by now.
        """
        with open_without_links(self.path.parent) as folder:
            descriptor = open_regular(self.path.name, dir_fd=folder, shown=self.path)
        opened = os.fstat(descriptor)
        if (opened.st_dev, opened.st_ino) != self.identity:
            os.close(descriptor)
            raise UnsafeFileError(self.path, "another file has its name by now")
        return descriptor


@dataclass
class _Bounds:
    """What is left of a search, what is not its business, and what it could not look at."""

    ours: tuple[Path, ...] = ()
    entries: int = MAX_ENTRIES
    deadline_s: float = field(default_factory=lambda: time.monotonic() + MAX_SEARCH_S)
    skipped: list[Skipped] = field(default_factory=list)

    def skip(self, what: str, reason: str) -> None:
        """Note what is not looked at, once."""
        if (note := Skipped(what, reason)) not in self.skipped:
            self.skipped.append(note)

    def spend(self) -> bool:
        """Take one entry; False when there is nothing left to take."""
        self.entries -= 1
        return self.entries >= 0 and time.monotonic() < self.deadline_s


def find_changed(search: Search) -> tuple[list[Found], list[Skipped]]:
    """Return what changed below the job's folder and what the globs name, and what could not be looked at."""
    bounds = _Bounds(search.ours)
    found = {file.path: file for file in _below_cwd(search, bounds)}
    for pattern in dict.fromkeys(search.globs):
        found.update((file.path, file) for file in _matching(search, pattern, bounds))
    return list(found.values()), bounds.skipped


@contextmanager
def open_without_links(folder: Path) -> Iterator[int]:
    """
    Open an absolute folder, one component after the other, and yield its descriptor.

    Raises:
        UnsafeFileError: A component is a link.
        OSError: It is missing or unreadable.
    """
    descriptor = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for depth, part in enumerate(folder.parts[1:], 2):
            flags = _FOLDER if depth == len(folder.parts) else os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            try:
                inner = os.open(part, flags, dir_fd=descriptor)
            except NotADirectoryError as error:
                raise UnsafeFileError(Path(*folder.parts[:depth]), "it is a link, or no folder") from error
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


def changed_within(found: os.stat_result, started_at: float, ended_at: float) -> bool:
    """Say whether content and inode of a file were last changed in a window of time."""
    return all(_inside(stamp_ns, started_at, ended_at) for stamp_ns in (found.st_mtime_ns, found.st_ctime_ns))


def _inside(stamp_ns: int, started_at: float, ended_at: float) -> bool:
    # Some file systems keep whole seconds only: such a stamp stands for the second that it begins.
    grain_s = 1.0 if stamp_ns % 1_000_000_000 == 0 else _TICK_S
    return started_at - grain_s <= stamp_ns / 1e9 <= ended_at + _TICK_S


def _below_cwd(search: Search, bounds: _Bounds) -> Iterator[Found]:
    root = Path(search.cwd)
    try:
        with open_without_links(root) as descriptor:
            yield from _walk(descriptor, root, search, bounds, 0)
    except (UnsafeFileError, OSError) as error:
        bounds.skip(str(root), _refusal(error))


def _refusal(error: UnsafeFileError | OSError) -> str:
    if isinstance(error, UnsafeFileError):
        return f"not looked at: '{error.path}': {error.reason}; name the real path"
    return f"not looked at: {error.strerror or error}"


def _walk(folder: int, shown: Path, search: Search, bounds: _Bounds, depth: int) -> Iterator[Found]:
    """Yield what changed in an open folder, its own files before those of the folders in it."""
    inner = []
    for entry in _entries(folder, shown, bounds):
        if entry.is_dir(follow_symlinks=False):
            if not entry.name.startswith(".") and entry.name not in _SKIPPED:
                inner.append(entry.name)
        elif file := _judge(entry, shown / entry.name, search, asked=False):
            yield file
    if inner and depth == MAX_DEPTH:
        bounds.skip(str(shown), f"folders in it are not looked at: {MAX_DEPTH} deep is the limit")
        return
    for name in sorted(inner):
        with _opened(name, folder, shown / name, bounds) as descriptor:
            if descriptor is not None:
                yield from _walk(descriptor, shown / name, search, bounds, depth + 1)


def _entries(folder: int, shown: Path, bounds: _Bounds) -> Iterator[os.DirEntry[str]]:
    """Yield what is in an open folder, but for what is ours."""
    if any(shown.is_relative_to(place) for place in bounds.ours):
        return
    ours = {place.name for place in bounds.ours if place.parent == shown}
    with os.scandir(folder) as entries:
        for number, entry in enumerate(entries):
            if number == MAX_FOLDER_ENTRIES:
                bounds.skip(str(shown), f"not wholly looked at: it holds more than {MAX_FOLDER_ENTRIES:,} files")
                return
            if not bounds.spend():
                bounds.skip(str(shown), "not wholly looked at, nor what follows: there is too much")
                return
            if entry.name not in ours:
                yield entry


@contextmanager
def _opened(name: str, folder: int, shown: Path, bounds: _Bounds) -> Iterator[int | None]:
    """Open a folder in a folder; None, and a note, where that is refused."""
    try:
        descriptor = os.open(name, _FOLDER, dir_fd=folder)
    except OSError as error:
        bounds.skip(str(shown), _refusal(error))
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _judge(entry: os.DirEntry[str], shown: Path, search: Search, *, asked: bool) -> Found | None:
    """Return an entry that changed in the window; None for others, and for what vanished meanwhile."""
    try:
        found = entry.stat(follow_symlinks=False)
    except OSError:
        return None
    return _found(found, shown, search, asked=asked)


def _found(found: os.stat_result, path: Path, search: Search, *, asked: bool) -> Found | None:
    changed = changed_within(found, search.started_at, search.ended_at)
    if not changed and not asked:
        return None
    problem = _problem(found) or ("" if changed else "not changed during the run")
    name = str(path.relative_to(search.cwd)) if path.is_relative_to(search.cwd) else str(path)
    return Found(path, name, found.st_size, (found.st_dev, found.st_ino), asked, problem)


def _problem(found: os.stat_result) -> str:
    if stat.S_ISLNK(found.st_mode):
        return "a symbolic link: not followed"
    if stat.S_ISDIR(found.st_mode):
        return "a folder: name the files, such as 'folder/*'"
    if not stat.S_ISREG(found.st_mode):
        return "no regular file (a FIFO, socket or device): not opened"
    return "" if found.st_uid == os.geteuid() else f"belongs to user {found.st_uid}: not opened"


def _matching(search: Search, pattern: str, bounds: _Bounds) -> Iterator[Found]:
    """Yield what a glob names; `..` is resolved in the text, so a link cannot lead elsewhere."""
    parts = Path(os.path.normpath(Path(search.cwd, pattern))).parts
    fixed = next((i for i, part in enumerate(parts) if _MAGIC & set(part)), len(parts) - 1)
    root, inner = Path(*parts[: max(1, fixed)]), parts[max(1, fixed) :]
    subject, matched = f"--attach '{pattern}'", False
    try:
        with open_without_links(root) as descriptor:
            for file in _glob(descriptor, root, inner, search, bounds, 0):
                matched = True
                yield file
    except (UnsafeFileError, OSError) as error:
        bounds.skip(subject, _refusal(error))
    else:
        if not matched:
            bounds.skip(subject, "there is no such file")


def _glob(
    folder: int, shown: Path, parts: Sequence[str], search: Search, bounds: _Bounds, depth: int
) -> Iterator[Found]:
    if not parts or depth > 3 * MAX_DEPTH:
        return
    first, rest = parts[0], parts[1:]
    if first == "**":
        yield from _glob(folder, shown, rest or ("*",), search, bounds, depth + 1)
    for entry in _entries(folder, shown, bounds):
        is_folder = entry.is_dir(follow_symlinks=False)
        if first == "**":
            inner: Sequence[str] | None = parts if is_folder and not entry.name.startswith(".") else None
        else:
            matches = entry.name == first or (
                fnmatchcase(entry.name, first) and (entry.name[0] != "." or first[0] == ".")
            )
            inner = rest if is_folder and matches and rest else None
            if matches and not rest and (file := _judge(entry, shown / entry.name, search, asked=True)):
                yield file
        if inner is not None:
            with _opened(entry.name, folder, shown / entry.name, bounds) as descriptor:
                if descriptor is not None:
                    yield from _glob(descriptor, shown / entry.name, inner, search, bounds, depth + 1)
