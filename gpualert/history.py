"""What is left of a run once its directory is removed: one line in `history.jsonl`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gpualert.files import open_regular
from gpualert.jsonfiles import append_line, read_lines
from gpualert.model import SCHEMA


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
    for _, found in read_lines(state / "history.jsonl"):
        if found and found.get("run_id") not in seen:
            seen.add(str(found.get("run_id")))
            yield found


def read_engine_history(state: Path, workflow: str, from_byte: int = 0) -> Iterator[dict[str, Any]]:
    """
    Yield what is remembered of the jobs of one engine's workflow, those that succeeded, in the order of their end.

    Args:
        from_byte: Where in the history to begin: it may hold millions of others.
    """
    mark = b'"workflow":"%s"' % workflow.encode()
    try:
        file = os.fdopen(open_regular(state / "history.jsonl"), "rb")
    except FileNotFoundError:
        return
    with file:
        file.seek(from_byte)
        for line in file:
            if mark not in line:
                continue
            try:
                found = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(found, dict) and found.get("workflow") == workflow:
                yield found
