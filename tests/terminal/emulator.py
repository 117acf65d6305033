"""A terminal of a given size, as a person sits at one: type, look at the screen, resize it, close the window."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyte
from shim.world import shell_status

ROWS, COLUMNS = 33, 100
DEADLINE_S = float(os.environ.get("TERMINAL_TEST_DEADLINE_S", "30"))
STEP_S = 0.004
# What the tests' shells say when they are ready: the status of the last command.
PROMPT = re.compile(rb"\[(\d+)\]> ")


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class Terminal:
    """
    A program on a new pseudo-terminal, which is the controlling terminal of the program's new session.

    A thread takes what the program writes, so that the terminal is never the one that makes it wait.
    """

    def __init__(
        self, argv: Sequence[Any], env: dict[bytes, bytes], cwd: Path, rows: int = ROWS, columns: int = COLUMNS
    ) -> None:
        self.raw = bytearray()
        self._expected = 0
        self._shown = 0
        self.screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self.screen)
        self.master, slave = pty.openpty()
        self._set_size(rows, columns)
        self.modes_at_start = self.modes
        self.process = subprocess.Popen(
            [os.fsencode(word) for word in argv],
            env=env,
            cwd=cwd,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=_take_terminal,
        )
        os.close(slave)
        self._stop_reading, self._stop = os.pipe()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close_window()
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait()

    def _read(self) -> None:
        while True:
            ready, _, _ = select.select([self.master, self._stop_reading], [], [])
            if self._stop_reading in ready:
                return
            try:
                self.raw += os.read(self.master, 65536)
            except OSError as error:
                # EIO: nobody holds the other side at the moment; somebody may open it again.
                if error.errno != errno.EIO or select.select([self._stop_reading], [], [], STEP_S)[0]:
                    return

    # --- What a person does ---------------------------------------------------

    def send(self, keys: str | bytes) -> None:
        """Press keys."""
        data = keys.encode() if isinstance(keys, str) else keys
        while data:
            data = data[os.write(self.master, data) :]

    def line(self, text: str) -> None:
        """Type a line."""
        self.send(text + "\r")

    def _set_size(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def resize(self, rows: int, columns: int) -> None:
        """Drag the window's corner."""
        self._show()
        self.screen.resize(rows, columns)
        self._set_size(rows, columns)

    def close_window(self) -> None:
        """Close the window: the kernel hangs up.  May be called twice."""
        if self.master < 0:
            return
        os.write(self._stop, b"x")
        self._reader.join()
        for descriptor in (self.master, self._stop, self._stop_reading):
            os.close(descriptor)
        self.master = -1

    # --- What a person sees ---------------------------------------------------

    def _show(self) -> None:
        pending = bytes(self.raw[self._shown :])
        self._shown += len(pending)
        self._stream.feed(pending)

    @property
    def rows(self) -> list[str]:
        """The screen, a line each, without blanks at the ends and empty lines below the last."""
        self._show()
        return "\n".join(row.rstrip() for row in self.screen.display).rstrip("\n").split("\n")

    @property
    def text(self) -> str:
        """The screen."""
        return "\n".join(self.rows)

    def colours(self, row: int) -> list[str]:
        """Return the foreground colour of each character of a screen row, bold ones marked."""
        self._show()
        cells = (self.screen.buffer[row][column] for column in range(self.screen.columns))
        return [f"{cell.fg}{'+bold' if cell.bold else ''}" for cell in cells if cell.data.strip()]

    @property
    def modes(self) -> list[Any]:
        """What `stty -a` would say: input, output, control and local flags, and special characters."""
        iflag, oflag, cflag, lflag, _, _, characters = termios.tcgetattr(self.master)
        return [iflag, oflag, cflag, lflag, *characters]

    def has_mode(self, lflag: int) -> bool:
        """Say whether a local mode such as termios.ECHO is on."""
        return bool(termios.tcgetattr(self.master)[3] & lflag)

    @property
    def foreground(self) -> int:
        """The process group in front."""
        return struct.unpack("i", fcntl.ioctl(self.master, termios.TIOCGPGRP, b"\0" * 4))[0]

    # --- Waiting --------------------------------------------------------------

    def until(self, condition: Callable[[], Any], what: str, deadline_s: float = DEADLINE_S) -> Any:
        """Return the condition's first true value; fails with the screen at the deadline."""
        end = time.monotonic() + deadline_s
        while not (value := condition()):
            assert time.monotonic() < end, f"waited {deadline_s:g} s in vain for {what}; the screen:\n{self.text}"
            time.sleep(STEP_S)
        return value

    def expect(self, pattern: str | bytes | re.Pattern[bytes]) -> re.Match[bytes]:
        """Wait for output that matches a regular expression, behind what was expected before."""
        if not isinstance(pattern, re.Pattern):
            pattern = re.compile(pattern.encode() if isinstance(pattern, str) else pattern)
        match = self.until(lambda: pattern.search(bytes(self.raw), self._expected), f"output {pattern.pattern!r}")
        self._expected = match.end()
        return match

    def prompt(self) -> int:
        """Wait for the shell's next prompt; return the status of the command before it."""
        return int(self.expect(PROMPT)[1])

    def shell(self, command: str) -> int:
        """Type a command at the prompt and wait for the next prompt; return its status."""
        self.line(command)
        return self.prompt()

    def wait(self) -> int:
        """Wait until the program has ended; return what a shell's $? would be."""
        status = shell_status(self.process.wait(DEADLINE_S))
        # What it wrote last may still be on its way through the kernel.
        seen = -1
        while seen != len(self.raw):
            seen = len(self.raw)
            time.sleep(5 * STEP_S)
        return status

    def interrupt(self) -> None:
        """Press ^C."""
        self.send("\x03")

    def suspend(self) -> None:
        """Press ^Z."""
        self.send("\x1a")

    def quit(self) -> None:
        r"""Press ^\."""
        self.send("\x1c")


def ended(pid: int) -> bool:
    """Say whether a process is gone (or a zombie)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def freeze(pid: int) -> None:
    """Stop a process, and wait until it has stopped."""
    os.kill(pid, signal.SIGSTOP)
    end = time.monotonic() + DEADLINE_S
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        assert time.monotonic() < end, f"process {pid} does not stop"
        time.sleep(STEP_S)
