"""Turns a report into the plain text and the HTML of a message."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpualert.report import Report

if TYPE_CHECKING:
    from jinja2 import Environment

_TEMPLATES = Path(__file__).parent / "templates"
_WIDTH = 78


def text(report: Report) -> str:
    """Return the message as plain text; prose fits 80 columns, log lines and paths are never broken."""
    return page("report.txt.j2", report=report)


def html(report: Report) -> str:
    """Return the message as one HTML page: tables and inline styles only, nothing is loaded from elsewhere."""
    return page("report.html.j2", report=report)


def page(template: str, **values: object) -> str:
    """Return a template filled with values; what goes into HTML is escaped."""
    return _environment().get_template(template).render(**values)


@lru_cache(maxsize=1)
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=lambda name: name is not None and ".html" in name,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(wrapped=_wrapped, underlined=_underlined, columns=_columns)
    return environment


def _wrapped(value: Any, label: str = "") -> str:
    """Return a paragraph behind its label, further lines indented below its start."""
    return textwrap.fill(
        str(value),
        _WIDTH,
        initial_indent=label,
        subsequent_indent=" " * len(label),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _columns(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of cells as lines, each column as wide as its widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def _underlined(title: str) -> str:
    return f"{title}\n{'-' * min(len(title), _WIDTH)}"
