"""Which ends are worth a message, as the settings `messages` and `on` say."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path

from gpualert.config import Settings
from gpualert.errors import UnsafeFileError
from gpualert.files import make_private_folder, read_regular, write_atomically
from gpualert.model import Run, RunStatus, Verdict
from gpualert.wording import run_name

_MOMENT_BYTES = 100


def unwanted(run: Run, verdict: Verdict, inner_failed: bool, settings: Settings, state: Path) -> str:
    """
    Say why the settings want no message about a run; "" where they want one.

    Args:
        inner_failed: Whether a run inside it failed, which is worth a message even if it succeeded itself.
        state: The state folder, which remembers what failed last.
    """
    on, said = wanted_on(run, settings)
    if on == "never":
        return f"{said} is never"
    if on == "always" or verdict.status is not RunStatus.SUCCEEDED or inner_failed:
        return ""
    if on == "recovery" and _failed_at(run, state) <= _ended_at(run):
        return ""
    return f"it succeeded, and {said} is {on}"


def wanted_on(run: Run, settings: Settings) -> tuple[str, str]:
    """Return which ends of a run are told - `failure`, `always`, `recovery`, `never` - and the setting that says so."""
    for rule in settings.messages:
        if fnmatchcase(run_name(run), rule.name):
            return rule.on, f"the setting 'messages' for '{rule.name}'"
    return settings.on, "the setting 'on'"


def remember_end(run: Run, verdict: Verdict, settings: Settings, state: Path) -> None:
    """
    Remember a failure whose recovery is to be told, until that has been told.

    Raises:
        OSError: The disk is full.
    """
    if wanted_on(run, settings)[0] != "recovery":
        return
    path = _memory_of(run, state)
    if verdict.status is not RunStatus.SUCCEEDED:
        make_private_folder(path.parent)
        write_atomically(path, f"{_ended_at(run)}\n".encode())
    elif _failed_at(run, state) <= _ended_at(run):
        path.unlink(missing_ok=True)


def _failed_at(run: Run, state: Path) -> float:
    """Return when a run of this name, or else of this command, failed; in the far future where none did."""
    with suppress(OSError, UnsafeFileError, ValueError):
        return float(read_regular(_memory_of(run, state), _MOMENT_BYTES))
    return float("inf")


def _ended_at(run: Run) -> float:
    return run.exit.ended_at if run.exit else run.start.started_at if run.start else 0.0


def _memory_of(run: Run, state: Path) -> Path:
    called = run.name or "\0".join((run.cwd, *run.argv))
    return state / "outbox" / "failed" / hashlib.sha256(called.encode("utf-8", "surrogateescape")).hexdigest()[:24]
