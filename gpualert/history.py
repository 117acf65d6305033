"""
What is left of a run once its directory is removed: one line in `history.jsonl`.

A history that has grown large is put aside as `history-<UTC time>.jsonl`, and read before the new one.  (It is renamed,
not rewritten: a job that ends at this very moment adds its line to one of both.)
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from gpualert.files import open_regular, write_atomically
from gpualert.jsonfiles import append_line, bounded_lines, read_lines
from gpualert.model import SCHEMA

_PUT_ASIDE_BYTES = 64 << 20


def remember(state: Path, run_id: str, what: Mapping[str, Any]) -> None:
    """
    Add one line to the history of a state folder.

    Raises:
        OSError, UnsafeFileError: It cannot be written; the run must stay then.
    """
    append_line(state / "history.jsonl", {"schema": SCHEMA, "run_id": run_id, **what})


def read_history(state: Path) -> Iterator[dict[str, Any]]:
    """
    Yield what is remembered, oldest first, each run once; nothing where there is no history.

    A line that was cut off by a crash is skipped.
    """
    seen: set[str] = set()
    for path in _files(state):
        for _, found in read_lines(path):
            if found and found.get("run_id") not in seen:
                seen.add(str(found.get("run_id")))
                yield found


def _files(state: Path) -> list[Path]:
    """Return the files of a history, the oldest first."""
    return [*sorted(state.glob("history-*.jsonl")), state / "history.jsonl"]


def end_of_history(state: Path) -> tuple[int, int]:
    """Return where a history ends now: the inode of its file and its length; zeros where there is none."""
    try:
        found = (state / "history.jsonl").stat()
    except OSError:
        return 0, 0
    return found.st_ino, found.st_size


def read_engine_history(state: Path, workflow: str, begin: tuple[int, int] = (0, 0)) -> Iterator[dict[str, Any]]:
    """
    Yield what is remembered of the jobs of one engine's workflow, those that succeeded, in the order of their end.

    Args:
        begin: Where the history ended before, by `end_of_history`: it may hold millions of others.
    """
    mark = b'"workflow":"%s"' % workflow.encode()
    for path, from_byte in _from(_files(state), begin):
        with suppress(FileNotFoundError), os.fdopen(open_regular(path), "rb") as file:
            file.seek(from_byte)
            for line in bounded_lines(file):
                if mark in line and (found := _parsed(line)).get("workflow") == workflow:
                    yield found


def _from(paths: list[Path], begin: tuple[int, int]) -> list[tuple[Path, int]]:
    """Return the files to read, each with the byte to begin at; all where the one that was meant is not there."""
    for at, path in enumerate(paths):
        with suppress(OSError):
            if path.stat().st_ino == begin[0]:
                return [(path, begin[1]), *((later, 0) for later in paths[at + 1 :])]
    return [(path, 0) for path in paths]


def _parsed(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def tidy_history(state: Path, engines_s: float, now: float) -> None:
    """
    Put a large history aside, and drop what is old of engines' jobs that succeeded: a workflow may have 200,000.

    Args:
        engines_s: The age at which those go.

    Raises:
        OSError, UnsafeFileError: It cannot be read or written.
    """
    history = state / "history.jsonl"
    if end_of_history(state)[1] > _PUT_ASIDE_BYTES:
        history.rename(state / time.strftime("history-%Y%m%dT%H%M%SZ.jsonl", time.gmtime(now)))
    for path in _files(state)[:-1]:
        if now - path.stat().st_mtime > engines_s:
            _drop_engines(path)


def _drop_engines(path: Path) -> None:
    """Drop the lines of engines' jobs from a file that nobody adds to any more."""
    with os.fdopen(open_regular(path), "rb") as file:
        kept = [line for line in file if b'"engine":' not in line or not _parsed(line).get("engine")]
    if kept:
        write_atomically(path, b"".join(kept))
    else:
        path.unlink()
