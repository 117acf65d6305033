"""Turns a report into the plain text and the HTML of a message."""

from __future__ import annotations

import textwrap
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
    return _render("report.txt.j2", report)


def html(report: Report) -> str:
    """Return the message as one HTML page: tables and inline styles only, nothing is loaded from elsewhere."""
    return _render("report.html.j2", report)


def _render(template: str, report: Report) -> str:
    return _environment().get_template(template).render(report=report)


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
    environment.filters.update(wrapped=_wrapped, underlined=_underlined)
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


def _underlined(title: str) -> str:
    return f"{title}\n{'-' * min(len(title), _WIDTH)}"
