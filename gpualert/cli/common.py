"""What several commands need: the state folders, a run by its name, and text for a terminal."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import click

from gpualert.config import load_settings_or_defaults
from gpualert.jsonfiles import plain
from gpualert.places import shim
from gpualert.state import find_run, state_folders

_COLOURS = {
    **dict.fromkeys(["failed", "lost", "FAIL", "unreadable"], "red"),
    **dict.fromkeys(["succeeded", "ok"], "green"),
    **dict.fromkeys(["running", "launching", "unknown", "warn"], "yellow"),
}

RUN = click.argument("run", metavar="[RUN]", default="last")


def folders() -> list[Path]:
    """Return the folders that may hold runs; a broken settings file does not keep one from looking."""
    settings, _ = load_settings_or_defaults()
    return state_folders(settings.home)


def run_path(word: str) -> Path:
    """
    Return the run directory that the user means.

    Raises:
        NoSuchRunError: None, or more than one.
    """
    return find_run(word, folders())


def become_shim(*words: str) -> NoReturn:
    """Turn this process into the shell part, with this Python for what comes after the run."""
    environ = {"GPUALERT_PYTHON": sys.executable, **os.environ}
    os.execve("/bin/sh", ["sh", str(shim()), *words], environ)


def print_json(value: Any) -> None:
    """Print a value as JSON; it is ASCII, whatever strangers put into it."""
    print(json.dumps(plain(value), indent=2, ensure_ascii=True))


def say(text: str) -> None:
    """Print lines that may hold any character, to whatever standard output can show."""
    encoding = sys.stdout.encoding or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding))


def print_table(rows: Sequence[Sequence[str]], headings: Sequence[str]) -> None:
    """Print rows: fitted to a terminal and coloured there, as plain columns elsewhere."""
    if not sys.stdout.isatty():
        say(table(rows, headings))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table(*headings, box=None, pad_edge=False, header_style="bold")
    grid.columns[0].no_wrap = True
    for row in rows:
        # Text, not str: markup in a stranger's words stays words.
        grid.add_row(*(Text(cell, style=_COLOURS.get(cell.split(" ")[0], "")) for cell in row))
    Console().print(grid)


def table(rows: Sequence[Sequence[str]], headings: Sequence[str] = ()) -> str:
    """Return rows as aligned columns, the last one as long as it likes; empty for no rows."""
    lines = [list(headings), *map(list, rows)] if headings and rows else [list(row) for row in rows]
    if not lines:
        return ""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    padded = ([cell.ljust(width) for cell, width in zip(line[:-1], widths, strict=False)] + line[-1:] for line in lines)
    return "\n".join("  ".join(cells).rstrip() for cells in padded)
