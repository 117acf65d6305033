"""A dead file system or driver may keep a call for ever: wait no longer than is sensible."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

_Result = TypeVar("_Result")


def within(limit_s: float, call: Callable[[], _Result]) -> _Result:
    """
    Return what `call` returns, or raise what it raises.

    Raises:
        TimeoutError: It took longer than `limit_s`.  It goes on in a thread that does not keep the process alive.
    """
    results: list[_Result] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            results.append(call())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(limit_s)
    if errors:
        raise errors[0]
    if not results:
        raise TimeoutError(f"no answer within {limit_s:g} s")
    return results[0]
