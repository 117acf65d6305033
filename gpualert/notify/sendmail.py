"""Hands messages to the local mail program."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence

from gpualert.bounded import fed
from gpualert.display import shorten, visible
from gpualert.errors import DeliveryError
from gpualert.notify import ChannelError

_PLACES = ("/usr/sbin", "/usr/lib", "/usr/local/sbin")
# Source: sysexits.h.  The message is at fault with bad data, no such user, no such host; whoever set it up with bad
# usage, no permission, bad configuration; everything else may pass.
_MESSAGE_FAULTS = {65: "bad data", 67: "no such user", 68: "no such host"}
_SET_UP_FAULTS = {64: "bad usage", 77: "no permission", 78: "bad configuration"}


def find_sendmail(path: str = "") -> str:
    """Return the mail program: `path`, else the first on PATH and where systems keep it; "" where there is none."""
    places = os.pathsep.join([os.environ.get("PATH", os.defpath), *_PLACES])
    return path or shutil.which("sendmail", path=places) or ""


def deliver(path: str, mail_from: str, to: Sequence[str], message: bytes, limit_s: float) -> None:
    """
    Pipe a message to the mail program.

    Args:
        path: The program; "" looks for it.
        mail_from: The envelope's sender.
        to: The recipients; they are given as words, so nothing in the message can add one.
        message: The message.
        limit_s: The longest wait for the program.

    Raises:
        ChannelError: There is no such program, it is set up wrongly or takes too long.
        DeliveryError: It refused the message, for now or for good.
    """
    program = find_sendmail(path)
    if not program:
        raise ChannelError("sendmail", "no program called sendmail was found; set sendmail.path")
    command = [program, "-i", "-f", mail_from, "--", *to]
    try:
        status, said = fed(command, message.replace(b"\r\n", b"\n"), limit_s)
    except TimeoutError:
        raise ChannelError("sendmail", f"'{program}' took longer than {limit_s:g} s") from None
    except OSError as error:
        raise ChannelError("sendmail", f"'{program}': {error.strerror or error}") from error
    if status:
        raise _refusal(status, shorten(visible(said.decode("utf-8", "replace").strip()), 300))


def _refusal(status: int, said: str) -> DeliveryError:
    meaning = _MESSAGE_FAULTS.get(status) or _SET_UP_FAULTS.get(status)
    reason = f"exit status {status}" + (f" ({meaning})" if meaning else "") + (f": {said}" if said else "")
    if status in _SET_UP_FAULTS:
        return ChannelError("sendmail", reason)
    return DeliveryError("sendmail", reason, permanent=status in _MESSAGE_FAULTS)
