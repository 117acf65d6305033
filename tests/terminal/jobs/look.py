# pathlib would double the start of this program.
# ruff: noqa: PTH123, PTH208
"""What a job sees of its terminal."""

import os
import shutil
import sys


def size_of(descriptor):
    """Return rows x columns, or why there are none."""
    try:
        size = os.get_terminal_size(descriptor)
    except OSError as error:
        return error.strerror
    return f"{size.lines}x{size.columns}"


def modes_of(descriptor):
    """Return whether echo, canonical input and signal keys are on, or why it cannot be known."""
    import termios

    try:
        lflag = termios.tcgetattr(descriptor)[3]
    except termios.error as error:
        return error.args[1]
    return [bool(lflag & flag) for flag in (termios.ECHO, termios.ICANON, termios.ISIG)]


streams = (0, 1, 2)
print("TTY", *map(os.isatty, streams))
print("size", *map(size_of, streams), shutil.get_terminal_size())
print("modes", *map(modes_of, (0,)))
with open("/dev/tty") as tty:
    print("controlling", size_of(tty.fileno()), os.tcgetpgrp(tty.fileno()) == os.getpgrp())
print("stdin", os.tcgetpgrp(0) == os.getpgrp() if os.isatty(0) else "no terminal")
print("line buffered", sys.stdout.line_buffering, sys.stderr.line_buffering)
print("term", os.environ.get("TERM"), os.environ.get("COLUMNS"), os.environ.get("LINES"))
print("descriptors", sorted(os.listdir("/proc/self/fd"))[:3], len(os.listdir("/proc/self/fd")))
print("last words on stderr", file=sys.stderr)
sys.exit(3)
