"""Hands messages to the services that apprise knows: chats, phones, web hooks."""

from __future__ import annotations

import hashlib
import html
import logging
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from gpualert.bounded import within
from gpualert.display import shorten, visible
from gpualert.errors import DeliveryError
from gpualert.notify import ChannelError
from gpualert.notify.mime import headers_of, text_of
from gpualert.notify.spool import Queued
from gpualert.redact import redact_text

_MARGIN = 40  # characters that a service may put between title and body
_LEAST_BODY = 60
_SECRET_LENGTH = 6
# Words that wake everybody up in a chat; a log may hold them.
_CALLS = re.compile(r"@(?=(?:everyone|here|channel|all)\b)|<(?=[!@#&])", re.IGNORECASE)
_NOTHING_SEEN = "\u200b"


def deliver(item: Queued, message: bytes, urls: Sequence[str], limit_s: float) -> Queued:
    """
    Hand a message to each service that has not got it.

    Args:
        item: Its state; `to` holds the labels of the services that are to get it, anything else means all.
        urls: The services, as apprise writes them.
        limit_s: The longest time for all of them.

    Returns:
        Its state, `to` being the labels of those that are to get it later.

    Raises:
        ChannelError: apprise is not installed, or no service can be used.
        DeliveryError: No service is set any more.
    """
    try:
        from apprise import Apprise
    except ImportError:
        raise ChannelError("apprise", "it is not installed: pip install 'gpualert-shim[apprise]'") from None
    services = {label_of(url): url for url in urls}
    if not services:
        raise DeliveryError("apprise", "the setting 'apprise' names no service any more", permanent=True)
    waiting = [label for label in item.to if label in services] or list(services)
    title, body = str(headers_of(message)["Subject"]), text_of(message)
    ends = time.monotonic() + limit_s
    failed: dict[str, str] = {}
    for label in waiting:
        reason = _hand_over(Apprise, services[label], title, body, ends - time.monotonic())
        if reason:
            failed[label] = reason
    why = "; ".join(f"{label}: {reason}" for label, reason in failed.items())
    if len(failed) == len(services):
        raise ChannelError("apprise", why)
    return replace(item, to=tuple(failed), last_error=why)


def label_of(url: str) -> str:
    """Return how a service is called where its URL, which holds secrets, may not be shown: `slack-3f9a1c2e`."""
    schema = re.match(r"[A-Za-z0-9]{1,20}(?=://)", url)
    return f"{schema.group().lower() if schema else 'service'}-{hashlib.sha256(url.encode()).hexdigest()[:8]}"


def _hand_over(library: Any, url: str, title: str, body: str, limit_s: float) -> str:
    """Hand a message to one service; return why it was not taken, or ""."""
    with _heard() as said:
        plugin = library.instantiate(url)
        if plugin is None:
            return "apprise does not know such a URL"
        plugin.overflow_mode = "truncate"  # for what grows beyond our count on its way
        fitting = fitted(body, title, plugin.body_maxlen, plugin.title_maxlen, plugin.notify_format == "html")
        caller = library()
        caller.add(plugin)
        try:
            taken = within(limit_s, lambda: caller.notify(body=fitting, title=title, body_format="text"))
        except TimeoutError as error:
            return f"{error}; it may have got the message"
        except Exception as error:  # one of a hundred plug-ins, and whatever it imports
            said.append(f"{type(error).__name__}: {error}")
            taken = False
    return "" if taken else _harmless(said[-1] if said else "not taken", url)


def fitted(body: str, title: str, body_limit: int, title_limit: int, as_html: bool) -> str:
    """
    Return a text that a service takes: its middle left out where it is too long, and saying so.

    Args:
        body_limit, title_limit: The most characters; a service without titles gets the title in front of the text.
        as_html: What HTML escapes takes more room.
    """
    body = _CALLS.sub(lambda match: match.group() + _NOTHING_SEEN, body)
    room = max(body_limit - (len(title) if title_limit <= 0 else 0) - _MARGIN, _LEAST_BODY)
    shown = shorten(body, room)
    while as_html and (grown := len(html.escape(shown))) > room and len(shown) > _LEAST_BODY:
        shown = shorten(body, max(len(shown) * room // grown - 1, _LEAST_BODY))
    return shown


@contextmanager
def _heard() -> Iterator[list[str]]:
    """Collect what apprise would print."""
    said: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(record.getMessage())

    logger, handler = logging.getLogger("apprise"), Handler(logging.WARNING)
    before, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield said
    finally:
        logger.removeHandler(handler)
        logger.propagate = before


def _harmless(said: str, url: str) -> str:
    """Return what apprise said without the secrets of the URL."""
    for secret in sorted(re.split(r"[/:@?&=,]+", url), key=len, reverse=True):
        if len(secret) >= _SECRET_LENGTH:
            said = said.replace(secret, "***")
    return shorten(visible(redact_text(said)[0]), 300)
