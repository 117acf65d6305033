"""A dead file system, driver or server may keep a call for ever: wait no longer than is sensible."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

_Result = TypeVar("_Result")
_PIECE_BYTES = 1 << 16
_SAID_BYTES = 4096


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


@dataclass(frozen=True)
class Answer:
    """What a program printed, and its exit status."""

    status: int
    printed: bytes
    complained: bytes


def answer_of(command: Sequence[str], limit_s: float, limit_bytes: int, environ: Mapping[str, str]) -> Answer:
    """
    Run a program without input and return what it printed.

    Raises:
        TimeoutError: It took longer than `limit_s`; it was killed with its children.
        OverflowError: It printed more than `limit_bytes`; it was killed with its children.
        OSError: It cannot be started.
    """
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, env=environ, start_new_session=True
    )
    until = time.monotonic() + limit_s
    try:
        printed, complained = _drained(process, until, limit_bytes)
        return Answer(process.wait(max(0.0, until - time.monotonic())), printed, complained)
    except BaseException as error:
        _kill_with_children(process)
        if isinstance(error, (TimeoutError, subprocess.TimeoutExpired)):
            raise TimeoutError(f"no answer within {limit_s:.3g} s") from None
        raise
    finally:
        for stream in (process.stdout, process.stderr):
            if stream:
                stream.close()


def fed(
    command: Sequence[str],
    given: bytes,
    limit_s: float,
    *,
    environ: Mapping[str, str] | None = None,
    cwd: str | None = None,
) -> tuple[int, bytes]:
    """
    Run a program that reads `given`; return its exit status and the start of what it said.

    Files, not pipes: what it leaves behind in the background holds a pipe open long after it has done its work.

    Raises:
        OSError: It cannot be started.
        TimeoutError: It took longer than `limit_s`; it was killed with its children.
    """
    import tempfile  # with what it needs, 10 ms

    with tempfile.TemporaryFile() as read, tempfile.TemporaryFile() as said:
        read.write(given)
        read.seek(0)
        process = subprocess.Popen(
            command, stdin=read, stdout=said, stderr=subprocess.STDOUT, env=environ, cwd=cwd, start_new_session=True
        )
        try:
            status = process.wait(limit_s)
        except BaseException as error:
            _kill_with_children(process)
            if isinstance(error, subprocess.TimeoutExpired):
                raise TimeoutError(f"no end within {limit_s:.3g} s") from None
            raise
        said.seek(0)
        return status, said.read(_SAID_BYTES)


def _kill_with_children(process: subprocess.Popen[bytes]) -> None:
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        process.wait(1.0)  # one that hangs in the kernel cannot die


def _drained(process: subprocess.Popen[bytes], until: float, limit_bytes: int) -> tuple[bytes, bytes]:
    """Read both pipes to their ends."""
    assert process.stdout and process.stderr
    out, err = process.stdout.fileno(), process.stderr.fileno()
    found = {out: bytearray(), err: bytearray()}
    with selectors.DefaultSelector() as open_pipes:
        for fd in found:
            open_pipes.register(fd, selectors.EVENT_READ)
        while open_pipes.get_map():
            left_s = until - time.monotonic()
            if left_s <= 0:
                raise TimeoutError
            for key, _ in open_pipes.select(left_s):
                piece = os.read(key.fd, _PIECE_BYTES)
                found[key.fd] += piece
                if not piece:
                    open_pipes.unregister(key.fd)
                if len(found[key.fd]) > limit_bytes:
                    raise OverflowError(f"it printed more than {limit_bytes} bytes")
    return bytes(found[out]), bytes(found[err])
