"""One line about each run: the newest states of `runs`, from what lies on disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpualert.collect import duration_s
from gpualert.errors import GpualertError
from gpualert.jsonfiles import read_json
from gpualert.model import Run
from gpualert.rundir import read_run
from gpualert.standing import Standing, standing


@dataclass(frozen=True)
class Entry:
    """
    One run in a list.

    Attributes:
        status: `running`, `succeeded`, `failed`, `lost`, `unknown`, `launching`, `abandoned`, `ended` (not looked at
            yet) or `unreadable`.
        failure_class: "" where there is no verdict yet.
        started_at: Seconds since 1970 UTC, or None.
        trouble: Why the run directory could not be read, or "".
    """

    run_id: str
    path: Path
    status: str
    failure_class: str = ""
    exit_status: int | None = None
    started_at: float | None = None
    duration_s: float | None = None
    host: str = ""
    name: str = ""
    argv: Sequence[str] = ()
    trouble: str = ""


def entry(path: Path) -> Entry:
    """Look at one run directory; one that cannot be read is listed with the reason."""
    try:
        run = read_run(path)
        verdict = stored_verdict(path)
        return _entry(run, standing(run), verdict)
    except GpualertError as error:
        return Entry(path.name, path, "unreadable", trouble=str(error))


def _entry(run: Run, state: Standing, verdict: dict[str, Any]) -> Entry:
    judged = state in (Standing.ENDED, Standing.LOST, Standing.UNKNOWN) and bool(verdict)
    return Entry(
        run_id=run.path.name,
        path=run.path,
        status=str(verdict.get("status", "")) if judged else state.value,
        failure_class=str(verdict.get("class", "")) if judged else "",
        exit_status=run.exit.status if run.exit else None,
        started_at=run.start.started_at if run.start else None,
        duration_s=duration_s(run),
        host=(run.start.node or run.start.host) if run.start else "",
        name=run.name,
        argv=run.argv,
    )


def stored_verdict(path: Path) -> dict[str, Any]:
    """Return what `verdict.json` of a run directory holds; empty where there is none, or it is cut off."""
    try:
        return read_json(path / "verdict.json")
    except (OSError, ValueError, GpualertError):
        return {}
