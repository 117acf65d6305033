"""State folders, and the runs in them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from gpualert.errors import GpualertError, UnsafeFileError
from gpualert.files import make_private_folder, open_folder
from gpualert.nearby import near

STAMP_LENGTH = len("20261129T145138Z")  # of a run's name: the second of its start
_NEAR_NAMES = 5
# Where the shim goes when the state folder cannot be used, beside $TMPDIR.
FALLBACK_PLACES = ("/tmp", "/dev/shm")


class NoSuchRunError(GpualertError):
    """
    No run has the name that was asked for.

    Attributes:
        word: What was asked for.
        near: Names of runs that come close, newest first.
    """

    def __init__(self, word: str, near: Iterable[str], reason: str = "no such run") -> None:
        self.word, self.near = word, tuple(near)
        hint = f"; did you mean {', '.join(self.near)}?" if self.near else "; see: gpualert runs"
        super().__init__(f"cannot find run '{word}': {reason}{hint}")


def state_folders(home: Path, environ: Mapping[str, str] = os.environ) -> list[Path]:
    """
    Return the folders that may hold runs: the state folder, then those the shim fell back to.

    A fallback counts only where it is private and ours; a stranger may have made it in /tmp.
    """
    bases = dict.fromkeys([*filter(None, [environ.get("TMPDIR")]), *FALLBACK_PLACES])
    fallbacks = [Path(base, _fallback_name()) for base in bases]
    return [home, *(folder for folder in fallbacks if folder != home and _is_private(folder))]


def is_fallback(folder: Path) -> bool:
    """Say whether a state folder is one that the shim takes where it cannot use the right one."""
    return folder.name == _fallback_name()


def _fallback_name() -> str:
    return f"gpualert-{os.geteuid()}"


def _is_private(folder: Path) -> bool:
    try:
        with open_folder(folder) as fd:
            return os.fstat(fd).st_mode & 0o077 == 0
    except (OSError, UnsafeFileError):
        return False


def state_of(run_path: Path) -> Path:
    """Return the state folder that a run directory lies in."""
    return run_path.parent.parent


def telling_state(run_path: Path, home: Path) -> Path:
    """
    Return the state folder whose spool and mail are used: the run's own, unless that is none or a makeshift.

    Args:
        home: The state folder of the settings.
    """
    state = state_of(run_path)
    if run_path.parent.name in ("runs", "groups") and not is_fallback(state):
        return state
    try:
        make_private_folder(home / "outbox")
    except OSError:
        return state
    return home if os.access(home / "outbox", os.W_OK) else state


def run_paths(folders: Iterable[Path]) -> list[Path]:
    """Return every run directory, oldest first."""
    return in_order(path for folder in folders for path in any_run_paths(folder))


def any_run_paths(folder: Path) -> list[Path]:
    """Return every run directory of a state folder, in any order: cheap, however many there are."""
    return [path for path in _children(folder / "runs") if not path.name.startswith(".")]


def in_order(paths: Iterable[Path]) -> list[Path]:
    """Return run directories, oldest first: the names begin with the second, within one their files decide."""
    found = list(paths)
    alike = Counter(path.name[:STAMP_LENGTH] for path in found)
    ties = {path: _began_at(path) for path in found if alike[path.name[:STAMP_LENGTH]] > 1}
    return sorted(found, key=lambda path: (path.name[:STAMP_LENGTH], ties.get(path, 0), path.name))


def _began_at(run_path: Path) -> int:
    """Return when a run began by the clock of its file system, in ns; 0 where it is gone."""
    for path in (run_path / "start", run_path):
        with suppress(OSError):
            return path.lstat().st_mtime_ns
    return 0


def _children(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            return [folder / entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def find_run(word: str, folders: Iterable[Path]) -> Path:
    """
    Return the run directory that a user means.

    Args:
        word: `last`, a run id, any part of one that only one run has, or the path of a run directory.
        folders: The state folders to look in.

    Raises:
        NoSuchRunError: None is meant, or more than one.
    """
    if "/" in word and Path(word).is_dir():
        return Path(word).absolute()
    paths = run_paths(folders)
    if word == "last" and paths:
        return paths[-1]
    exact = [path for path in paths if path.name == word]
    starting = exact or [path for path in paths if path.name.startswith(word)]
    matching = starting or [path for path in paths if word in path.name]
    if word and len(matching) == 1:
        return matching[0]
    if word and matching:
        near = [path.name for path in reversed(matching[-_NEAR_NAMES:])]
        raise NoSuchRunError(word, near, f"{len(matching)} runs have that in their name")
    raise NoSuchRunError(word, _near(word, [path.name for path in reversed(paths)]))


def _near(word: str, names: list[str]) -> list[str]:
    return near(word, names, _NEAR_NAMES, 0.5) or names[:_NEAR_NAMES]
