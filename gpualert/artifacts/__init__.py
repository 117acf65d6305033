"""Which files go along with a message: the logs of a failed run, and what the job made that a person would look at."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from gpualert.artifacts.content import (
    Body,
    binary_body,
    is_packed_text,
    log_body,
    looks_like_text,
    packed_text_body,
    text_body,
)
from gpualert.artifacts.find import Found, Search, Skipped, find_changed
from gpualert.artifacts.kinds import BINARY_TYPES, is_binary, not_by_default, withheld
from gpualert.bounded import within
from gpualert.display import size as size_text
from gpualert.errors import UnsafeFileError
from gpualert.files import open_regular
from gpualert.model import SCHEMA, Artifact, LogFile, Run
from gpualert.quota import Budget, encoded_size, packing_order
from gpualert.settings import Settings
from gpualert.state import state_folders, state_of

MAX_UNASKED = 20  # attachments that nobody named
MAX_LISTED = 30  # files that are named although they do not go along
_SEARCH_LIMIT_S = 10.0  # on a file system that does not answer

# In a state folder, which may well be a folder of the job's own.
_OURS = (
    *("runs", "groups", "chains", "outbox", "mail", "hosts", "ledger", "workflows", "gates", "locks"),
    "history.jsonl",
)

NO_LOG = "not sent: --no-log"
_NO_ROOM = "too large for what is left of the budget"


def collect(
    run: Run, logs: Sequence[LogFile], settings: Settings, *, failed: bool, now: float | None = None
) -> tuple[Artifact, ...]:
    """
    Return every file that the message of a run speaks of, attached or not, with the reason.

    Logs are attached only where the run failed; text leaves redacted; with `--no-log` nothing leaves.

    Args:
        logs: The run's own logs.
        failed: Whether it went wrong.
        now: Closes the window of changes where the run's end is not known; the clock by default.
    """
    if not run.options.log:
        return tuple(_left_out_log(log, NO_LOG) for log in logs)
    budget = Budget(settings.attach.max_file_bytes, settings.attach.max_total_bytes)
    packed, used = (
        _pack_logs(logs, budget) if failed else ([_left_out_log(log, "the run succeeded") for log in logs], 0)
    )
    found, skipped = _search(run, logs, settings, time.time() if now is None else now)
    wanted, rest = _choose(found, settings.attach.unasked_bytes)
    return (*packed, *_pack_files(wanted, budget, used), *_listed(rest), *(_note(run, note) for note in skipped))


def to_json(artifacts: Iterable[Artifact]) -> dict[str, Any]:
    """Return the content of `artifacts.json`: every file with size and reason, without the bytes."""
    return {"schema": SCHEMA, "artifacts": [_entry(artifact) for artifact in artifacts]}


def _entry(artifact: Artifact) -> dict[str, Any]:
    return {
        "name": _utf8(artifact.name),
        "path": _utf8(str(artifact.path)),
        "size_bytes": artifact.size_bytes,
        "attached": artifact.attached,
        "attached_bytes": len(artifact.content),
        "media_type": artifact.media_type,
        "reason": _utf8(artifact.reason),
        "omitted_lines": artifact.omitted_lines,
        "redactions": artifact.redactions,
    }


def _utf8(name: str) -> str:
    """Spell out bytes that are no UTF-8: JSON readers refuse lone surrogates."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _pack_logs(logs: Sequence[LogFile], budget: Budget) -> tuple[list[Artifact], int]:
    """Attach each log, sharing what room there is; return also the encoded bytes they take."""
    packed, used = [], 0
    for left, log in zip(range(len(logs), 0, -1), logs, strict=True):
        share = Budget(budget.per_file_bytes, (budget.total_bytes - used) // left)
        artifact = _log_artifact(log, share.room_for_one())
        packed.append(artifact)
        used += encoded_size(len(artifact.content)) if artifact.attached else 0
    return packed, used


def _log_artifact(log: LogFile, room_bytes: int) -> Artifact:
    try:
        descriptor = open_regular(log.path)
    except (UnsafeFileError, OSError) as error:
        return _left_out_log(log, _reason(error))
    try:
        size_bytes, body = log_body(descriptor, log.start, log.end, room_bytes)
    except OSError as error:
        return _left_out_log(log, _reason(error))
    finally:
        os.close(descriptor)
    if size_bytes == 0:
        return Artifact(log.name, log.path, 0, False, "empty")
    if body is None:
        return Artifact(log.name, log.path, size_bytes, False, _NO_ROOM)
    return _attached(log.name, log.path, size_bytes, body)


def _left_out_log(log: LogFile, reason: str) -> Artifact:
    try:
        found = log.path.lstat().st_size
    except OSError:
        found = 0
    end = found if log.end is None else min(log.end, found)
    return Artifact(log.name, log.path, max(0, end - log.start), False, reason)


def _search(run: Run, logs: Sequence[LogFile], settings: Settings, now: float) -> tuple[list[Found], list[Skipped]]:
    """Return the files that changed while the run ran, without its logs, and what could not be looked at."""
    if run.start is None or not run.cwd.startswith("/"):
        return [], []
    search = Search(
        cwd=run.cwd,
        globs=(*settings.attach.globs, *run.options.attach),
        started_at=run.start.started_at,
        ended_at=run.exit.ended_at if run.exit else now,
        ours=_our_places(run, settings),
    )
    try:
        found, skipped = within(_SEARCH_LIMIT_S, lambda: find_changed(search))
    except TimeoutError:
        return [], [Skipped(run.cwd, f"not looked at: no answer within {_SEARCH_LIMIT_S:g} s")]
    own = {identity for log in logs if (identity := _identity(log))}
    return [file for file in found if file.identity not in own], skipped


def _our_places(run: Run, settings: Settings) -> tuple[Path, ...]:
    """Return what is ours and not the job's, without links: other runs, with their logs, may lie in its folder."""
    states = [state_of(run.path), *state_folders(settings.home)]
    inside = [state / name for state in states for name in _OURS]
    return tuple(dict.fromkeys(path.resolve() for path in (run.path, *inside)))


def _identity(log: LogFile) -> tuple[int, int] | None:
    try:
        found = log.path.lstat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _choose(found: Sequence[Found], unasked_bytes: int) -> tuple[list[Found], list[tuple[Found, str]]]:
    """Part files into those to attach and those only listed, each with its reason."""
    wanted: list[Found] = []
    rest: list[tuple[Found, str]] = []
    unasked = 0
    for file in sorted(found, key=lambda file: (not file.asked, file.size_bytes)):
        reason = file.problem or withheld(file.path.name) or ("" if file.asked else _unasked(file, unasked_bytes))
        if not reason and not file.asked:
            unasked += 1
            reason = f"{MAX_UNASKED} other files go along already" if unasked > MAX_UNASKED else ""
        if reason:
            rest.append((file, reason))
        else:
            wanted.append(file)
    return wanted, rest


def _unasked(file: Found, unasked_bytes: int) -> str:
    reason = not_by_default(file.path.name)
    if not reason and file.size_bytes > unasked_bytes:
        reason = f"larger than {size_text(unasked_bytes)}; --attach sends it"
    return reason or ("" if file.size_bytes else "empty")


def _pack_files(wanted: Sequence[Found], budget: Budget, used: int) -> Iterator[Artifact]:
    for index in packing_order([file.size_bytes for file in wanted]):
        artifact = _file_artifact(wanted[index], budget.room_for_one(used))
        used += encoded_size(len(artifact.content)) if artifact.attached else 0
        yield artifact


def _file_artifact(file: Found, room_bytes: int) -> Artifact:
    try:
        descriptor = file.open()
    except (UnsafeFileError, OSError) as error:
        return Artifact(file.name, file.path, file.size_bytes, False, _reason(error))
    try:
        binary = is_binary(file.path.name, os.pread(descriptor, 16, 0))
        if not binary and looks_like_text(descriptor):
            body = text_body(descriptor, room_bytes)
        elif file.asked and is_packed_text(descriptor):
            body = packed_text_body(descriptor, room_bytes)
        elif not binary and not file.asked:
            return Artifact(
                file.name, file.path, file.size_bytes, False, "binary in spite of its name; --attach sends it"
            )
        else:
            body = binary_body(descriptor, room_bytes, BINARY_TYPES.get(file.path.suffix.lower(), ""))
    except OSError as error:
        return Artifact(file.name, file.path, file.size_bytes, False, _reason(error))
    finally:
        os.close(descriptor)
    if body is None:
        return Artifact(file.name, file.path, file.size_bytes, False, _NO_ROOM)
    return _attached(file.name, file.path, file.size_bytes, body)


def _attached(name: str, path: Path, size_bytes: int, body: Body) -> Artifact:
    return Artifact(
        name=name + body.suffix,
        path=path,
        size_bytes=size_bytes,
        attached=True,
        reason=body.note,
        content=body.content,
        media_type=body.media_type,
        omitted_lines=body.omitted_lines,
        redactions=body.redactions,
    )


def _listed(rest: Sequence[tuple[Found, str]]) -> Iterator[Artifact]:
    """List files that stay behind, those somebody asked for and the largest first, the others as a sum."""
    ordered = sorted(rest, key=lambda item: (not item[0].asked, -item[0].size_bytes))
    for file, reason in ordered[:MAX_LISTED]:
        yield Artifact(file.name, file.path, file.size_bytes, False, reason)
    if more := ordered[MAX_LISTED:]:
        total = sum(file.size_bytes for file, _ in more)
        yield Artifact(f"{len(more):,} more files", more[0][0].path.parent, total, False, "changed too, not listed")


def _note(run: Run, note: Skipped) -> Artifact:
    return Artifact(note.what, Path(run.cwd), 0, False, note.reason)


def _reason(error: Exception) -> str:
    if isinstance(error, UnsafeFileError):
        return f"not opened: {error.reason}"
    return f"not read: {error.strerror if isinstance(error, OSError) and error.strerror else error}"
