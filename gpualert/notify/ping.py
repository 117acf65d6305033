"""Tells an outside alarm, such as healthchecks, that a run has begun or ended: it cries when nobody calls."""

from __future__ import annotations

import time
import uuid
from http.client import HTTPException
from urllib.error import HTTPError
from urllib.parse import urlencode, urlsplit, urlunsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

from gpualert.bounded import within
from gpualert.display import visible

_TRIES, _PAUSE_S, _ANSWER_S = 3, 1.0, 10.0
_LASTING = (400, 401, 403, 404, 405, 410)  # asking again gives the same answer


def ping(url: str, event: str, run_id: str, body: str, limit_s: float) -> str:
    """
    Call an alarm's URL.

    Args:
        url: Of the check, as healthchecks writes it; it is a secret.
        event: `start`, `fail`, an exit status, or "" for success.
        run_id: The run; start and end of one are told apart from others by an id made of it.
        body: What is kept with the call.
        limit_s: The longest time for all tries.

    Returns:
        What went wrong; "" when it was heard.

    Source: https://healthchecks.io/docs/http_api - `/start`, `/fail`, `/<exit status>`, `rid`; tried again as advised
        there under "reliability tips".
    """
    if not (host := _host_of(url)):
        return "cannot ping: the URL is none of http or https"
    ends, reason = time.monotonic() + limit_s, ""
    for attempt in range(_TRIES):
        try:
            within(max(ends - time.monotonic(), 0.1), lambda: _call(_address(url, event, run_id), body))
            return ""
        except HTTPError as error:
            reason = f"it answered {error.code}"
            if error.code in _LASTING:
                break
        except (OSError, HTTPException, ValueError) as error:
            reason = visible(str(getattr(error, "reason", error)) or type(error).__name__)
        if time.monotonic() + _PAUSE_S * 2**attempt >= ends:
            break
        time.sleep(_PAUSE_S * 2**attempt)
    return f"cannot ping {visible(host)}: {reason}"


def _host_of(url: str) -> str:
    """Return the host of a web address; "" where it is none."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return parts.hostname or "" if parts.scheme in ("http", "https") else ""


def _address(url: str, event: str, run_id: str) -> str:
    parts = urlsplit(url)
    query = "&".join(filter(None, (parts.query, urlencode({"rid": str(uuid.uuid5(uuid.NAMESPACE_URL, run_id))}))))
    return urlunsplit(parts._replace(path="/".join(filter(None, (parts.path.rstrip("/"), event))), query=query))


def _call(address: str, body: str) -> None:
    # No redirects: what is asked for is one call to one place; proxies are those of the environment.
    opener = build_opener(ProxyHandler(), _NoRedirect())
    request = Request(
        address, body.encode("utf-8", "replace"), {"User-Agent": "gpualert", "Content-Type": "text/plain"}
    )
    with opener.open(request, timeout=_ANSWER_S) as answer:
        answer.read(1)


class _NoRedirect(HTTPRedirectHandler):
    """Takes a redirect for a refusal."""

    def redirect_request(self, *_: object) -> None:
        return None
