"""Turns what was collected on a topic into one message, once its window closes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from gpualert.claims import locked
from gpualert.config import Settings
from gpualert.errors import LockTimeoutError
from gpualert.files import make_private_folder
from gpualert.notify.channels import channels_of
from gpualert.notify.digests import Case, Digest, Window
from gpualert.notify.records import SpoolError, read_bytes, read_record
from gpualert.notify.spool import Queued, Spool

_MESSAGE_BYTES = 1 << 30


def close_due(state: Path, settings: Settings, now: float, *, prompt: bool = False) -> tuple[list[str], list[str]]:
    """
    Queue a message for each topic that is to be told now.

    Args:
        state: The state folder.
        settings: Whom a message is from, and how large it may be.
        now: The time, in seconds since 1970 UTC.
        prompt: Nobody may come by when a window closes; see `Digest.is_due`.

    Returns:
        The Message-IDs of what was queued, and a sentence for each trouble.

    Raises:
        OSError: The spool cannot be written.
    """
    queued: list[str] = []
    troubles: list[str] = []
    if not any(digest.is_ripe(now, prompt=prompt) for digest in Digest.all(state / "outbox")):
        return queued, troubles  # most often; thousands of reports at once need no lock for that
    make_private_folder(state / "locks")
    with suppress(LockTimeoutError), locked(state / "locks" / "digests", settings.lock_timeout_s):
        spool = Spool.of(state)
        for digest in Digest.all(spool.folder):
            try:
                queued += _looked_at(digest, spool, settings, now, prompt=prompt, troubles=troubles)
            except OSError as error:  # the disk is full, say; nothing was taken away
                troubles.append(f"cannot tell what waits in '{digest.folder}': {error.strerror or error}")
    return queued, troubles


def next_close(outbox: Path) -> float | None:
    """Return when the next digest is due, in seconds since 1970 UTC; None where nothing is collected."""
    times = [digest.closes_at() for digest in Digest.all(outbox) if digest.has_any()]
    return min(times, default=None)


def _looked_at(
    digest: Digest, spool: Spool, settings: Settings, now: float, *, prompt: bool, troubles: list[str]
) -> Iterator[str]:
    """Close one window where it is time to; yield the Message-ID of what was queued."""
    try:
        window = digest.window()
    except SpoolError as error:
        window = None
        troubles.append(f"{error}; what was collected is told at once")
    if not digest.is_due(window, now, prompt=prompt):
        return
    cases = _cases(digest, spool, troubles)
    if window and cases:
        digest.extend(window, now, len(cases))
    if cases:
        yield _queue(digest, cases, window, spool, settings, now)
    digest.end()
    if window and not cases and digest.expects_more(window):
        digest.rest(window, now)
    elif not window or not cases:
        digest.close()


def _cases(digest: Digest, spool: Spool, troubles: list[str]) -> list[Case]:
    """Return what is to be told; a damaged file is named and put aside, and what was told before is left out."""
    cases = []
    for path in digest.begin():
        try:
            case = read_record(path, Case)
            if case.file_name != path.name:
                raise SpoolError(path, f"it speaks of another message, {case.message_id!r}")
        except SpoolError as error:
            sentence = f"{error}; put aside in '{spool.folder / 'dead'}'"
            spool.set_aside(path, sentence)
            troubles.append(sentence)
            continue
        if (spool.folder / "sent" / path.name).exists():
            digest.drop(case)
        else:
            cases.append(case)
    return cases


def _queue(
    digest: Digest, cases: Sequence[Case], window: Window | None, spool: Spool, settings: Settings, now: float
) -> str:
    """
    Queue one message for all cases.

    It is named after the oldest case, whose file goes last: whoever goes on after a kill finds the same name, and
    that it is queued already.
    """
    oldest, *others = cases
    identity = f"<digest-{hashlib.sha256(oldest.message_id.encode()).hexdigest()[:24]}@gpualert.invalid>"
    if not others and not spool.has(identity):
        return _queue_alone(digest, oldest, window, spool, settings, now)
    if not spool.has(identity):
        from gpualert.notify.digest_message import compose_digest  # templates and mail cost 60 ms

        title = window.title if window else f"runs like {oldest.name or oldest.outcome}"
        message = compose_digest(
            cases, title, identity, settings, now, first=digest.first(), message_of=lru_cache(16)(message_of)
        )
        spool.add_new(Queued(identity, oldest.mail_from, oldest.to, now, "", now), message, channels_of(settings))
    for case in reversed(cases):
        digest.told(case, spool.folder / "sent")
    return identity


def _queue_alone(
    digest: Digest, case: Case, window: Window | None, spool: Spool, settings: Settings, now: float
) -> str:
    """Queue the message of the only case as it is, or the least that can be said where it is gone."""
    from gpualert.notify.mime import threaded  # costs 20 ms

    message = message_of(case)
    if not message:
        from gpualert.notify.digest_message import compose_digest  # templates and mail cost 60 ms

        title = window.title if window else case.name or case.outcome
        message = compose_digest([case], title, case.message_id, settings, now, first="", message_of=message_of)
    item = Queued(case.message_id, case.mail_from, case.to, case.queued_at, case.run_path, now)
    spool.add_new(item, threaded(message, case.thread), channels_of(settings))
    digest.drop(case)
    return case.message_id


def message_of(case: Case) -> bytes:
    """Return the message about a case from its run directory; empty where it is gone, or another's."""
    from gpualert.notify.mime import headers_of  # costs 20 ms

    if not case.run_path:
        return b""
    try:
        message = read_bytes(Path(case.run_path, "message.eml"), _MESSAGE_BYTES)
    except SpoolError:
        return b""
    return message if str(headers_of(message)["Message-ID"]).strip() == case.message_id else b""
