"""Where new attempts wait until the tick has done its work, so that many jobs that set off do not slow it down."""

from __future__ import annotations

import os
import select
import socket
import struct
import subprocess
from collections.abc import Callable

_LIMIT_S = 2
_LOOK_S = 0.05
STARTED = b"started"


class Gate:
    """
    One socket that every new attempt has as its input: it says there that it is started, and waits for leave to go.

    The end of file gives leave: when the gate is closed, or when our process has ended, however it did; and two
    seconds are enough in any case.
    """

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", _LIMIT_S, 0))
        # Bare descriptors: a tick that just ends keeps its gate closed to its very end.
        self._ours, self._theirs = ours.detach(), theirs.detach()

    def __enter__(self) -> Gate:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._ours)
        os.close(self._theirs)

    def admit(self, spawn: Callable[[int], subprocess.Popen[bytes]]) -> bool:
        """Start a process with that input; return whether it said that it is started, False where it ended before."""
        process = spawn(self._theirs)
        while not select.select([self._ours], [], [], _LOOK_S)[0]:
            if process.poll() is not None:
                break
        answered = bool(select.select([self._ours], [], [], 0)[0]) and os.read(self._ours, len(STARTED)) == STARTED
        process.returncode = 0  # nobody waits for it: it outlives us, on purpose
        return answered
