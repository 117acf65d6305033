"""The two lines that a terminal gets when a run in it has failed (file `notice`; the shim prints them)."""

from __future__ import annotations

from pathlib import Path

from gpualert.display import shorten, visible
from gpualert.files import write_atomically
from gpualert.model import RunStatus, Verdict
from gpualert.redact import redact_text

_WIDTH = 160


def write_notice(path: Path, verdict: Verdict) -> None:
    """
    Write the notice of a failed run into its directory; nothing for any other.

    Raises:
        OSError: The disk is full.
    """
    if verdict.status is RunStatus.FAILED:
        write_atomically(path / "notice", notice(verdict).encode("utf-8", "replace"))


def notice(verdict: Verdict) -> str:
    """Return what failed and the line that shows it, then what to type for more; secrets and control codes are out."""
    telling = verdict.evidence[0] if verdict.evidence else None
    # Secrets first: a line that is cut may show half of one that nobody knows any more.
    why = visible(redact_text(telling.text.strip())[0]) if telling else verdict.title
    return f"gpualert: {verdict.failure_class}: {shorten(why, _WIDTH)}\ngpualert: more: gpualert show last\n"
