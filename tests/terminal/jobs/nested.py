"""A terminal in the terminal, as ssh makes one: runs its words on a new pty of the same size, keys passed on raw."""

import fcntl
import os
import pty
import struct
import sys
import termios

size = fcntl.ioctl(0, termios.TIOCGWINSZ, b"\0" * 8)
pid, master = pty.fork()
if pid == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", *struct.unpack("HHHH", size)))
before = termios.tcgetattr(0)
try:
    import tty

    tty.setraw(0)
    pty._copy(master)
finally:
    termios.tcsetattr(0, termios.TCSADRAIN, before)
_, status = os.waitpid(pid, 0)
sys.exit(os.waitstatus_to_exitcode(status) % 256)
