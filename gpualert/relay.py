"""
The terminal relay: stands where tee would stand, and the job keeps its terminal.

    python -I -S relay.py MASTER READY LOG </dev/null >TERMINAL

The shim has opened a pseudo-terminal, and keeps its master end (descriptor MASTER)
open too, so that the death of this process hangs nothing up.  It reads from READY
where the slave is, and gives that to the job as its output (READY is -1 for a relay
that goes on in the place of a dead one).  The job's input, session, process group
and controlling terminal stay the caller's, and with them ^C, ^Z, job control and
getpass.  What is left to do here:

- copy what the job writes to the terminal and, unchanged, to the log;
- keep the slave as large as the terminal, and tell the job after it has changed;
- carry over mode changes: curses makes them on its standard output;
- carry over what is typed, for less: it reads the terminal on its standard error.

It is a file of its own, standard library only, and imports little: it is started
for every job in a terminal.  Exit status: 0, or 1 when the log is incomplete.
"""

from __future__ import annotations

# The modules `signal` and `os` take as long to import as all of the rest: these are what they are made of.
import _signal as signal  # type: ignore[import-not-found]
import errno
import fcntl
import posix as os
import select
import sys
import termios

TERMINAL = 1
PACKET_BYTES = 8192
UNSEEN_BYTES = 65536
# asm-generic/ioctls.h; the module termios does not name them all.
TIOCGPTN, TIOCSPTLCK, TIOCPKT = 0x80045430, 0x40045431, 0x5420
TIOCPKT_DATA, TIOCPKT_IOCTL = 0, 64
EXTPROC = 0o200000
IFLAG, OFLAG, CFLAG, LFLAG, CC = 0, 1, 2, 3, 6


TYPE_CHECKING = False  # importing typing would cost more than all the rest
if TYPE_CHECKING:
    from typing import Any, NoReturn

    Modes = list[Any]  # what termios.tcgetattr gives


def copied(modes: Modes) -> Modes:
    """Return a copy of `modes` that shares nothing with it."""
    return [*modes[:CC], list(modes[CC])]


def with_changes(target: Modes, before: Modes, after: Modes) -> Modes:
    """
    Return `target` with what differs between `before` and `after` set as in `after`.

    Only differences are carried over: the job may have changed the terminal itself
    through its standard input, and the slave never processes output.
    """
    result = copied(target)
    for field in (IFLAG, OFLAG, CFLAG, LFLAG):
        changed = before[field] ^ after[field]
        if field == LFLAG:
            changed &= ~EXTPROC
        if field == OFLAG:
            changed &= ~termios.OPOST
        result[field] = (target[field] & ~changed) | (after[field] & changed)
    result[CC] = [new if new != old else kept for kept, old, new in zip(target[CC], before[CC], after[CC], strict=True)]
    return result


def write(path: str, data: bytes) -> None:
    """Leave a few bytes to the relay that would take our place; it does without where there is no room."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        os.write(fd, data)
        os.close(fd)
    except OSError:
        pass


def read(path: str) -> bytes:
    """Return what the relay before us left; empty where there is nothing."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        data = os.read(fd, 64)
        os.close(fd)
        return data
    except OSError:
        return b""


def is_open_again(slave: str) -> bool:
    """
    Say whether a process of our session has opened the slave itself, beside its standard streams.

    That is how less gets at the terminal (by the name of its standard error), while curses and others read their
    standard input.
    """
    session = os.getsid(0)
    for pid in os.listdir("/proc"):
        try:
            if not pid.isdigit() or os.getsid(int(pid)) != session:
                continue
            folder = f"/proc/{pid}/fd"
            if any(os.readlink(f"{folder}/{fd}") == slave for fd in os.listdir(folder) if int(fd) > 2):
                return True
        except OSError:
            continue  # it has ended, or is not ours to look at
    return False


def open_again(terminal: int) -> int:
    """
    Return a descriptor of the terminal that does not wait: while it draws, more can be read from the job.

    The given one is shared with others, who expect it to wait; it has to do where the terminal is not ours to open.
    """
    try:
        return os.open(f"/proc/self/fd/{terminal}", os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
    except OSError:
        return terminal


class Relay:
    """One pseudo-terminal, one terminal, one log."""

    def __init__(self, master: int, log: int, slave: str, modes_path: str) -> None:
        self.master, self.log, self.slave = master, log, slave
        self.poll = select.poll()
        self.poll.register(master, select.POLLIN)
        self.more = select.poll()
        self.more.register(master, select.POLLIN)
        self.left_behind = b""
        self.log_is_whole = True
        self.screen = open_again(TERMINAL)
        self.unseen = b""
        self.is_typing = False
        self.is_terminal = os.isatty(TERMINAL)
        self.size = b""
        self.slave_modes: Modes = termios.tcgetattr(master)
        self.modes_at_start: Modes | None = None
        self.copy_size()
        if self.slave_modes[LFLAG] & EXTPROC:
            # Set up by the relay that died; the job may have changed modes since.
            self.left_behind = read(modes_path)
            return
        if self.is_terminal:
            try:
                self.modes_at_start = termios.tcgetattr(TERMINAL)
            except termios.error:
                self.is_terminal = False  # it has hung up since
            else:
                self.slave_modes = copied(self.modes_at_start)
                write(modes_path, fcntl.ioctl(TERMINAL, termios.TCGETS, b"\0" * 64))
        # The terminal turns a line end into CR LF; once is enough.
        self.slave_modes[OFLAG] &= ~termios.OPOST
        # With EXTPROC and packet mode the kernel reports each change of modes.
        self.slave_modes[LFLAG] |= EXTPROC
        termios.tcsetattr(master, termios.TCSANOW, self.slave_modes)
        fcntl.ioctl(master, TIOCPKT, b"\1\0\0\0")

    def copy_size(self) -> bool:
        """Make the slave as large as the terminal; say whether it changed."""
        if not self.is_terminal:
            return False
        try:
            size = fcntl.ioctl(TERMINAL, termios.TIOCGWINSZ, b"\0" * 8)
        except OSError:
            return False
        if size == self.size:
            return False
        self.size = size
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, size)
        return True

    def on_resize(self, *_: object) -> None:
        """
        Pass a new size on.

        The kernel has told the job already, which may have asked its output for the
        size before it was there: so its group is told once more; and once more after a
        moment, as curses misses what comes while it draws for the first.
        """
        if self.copy_size():
            self.tell_size()
            signal.setitimer(signal.ITIMER_REAL, 0.1)

    def tell_size(self, *_: object) -> None:
        """Tell our process group that the size has changed."""
        os.killpg(0, signal.SIGWINCH)

    def copy_modes(self) -> None:
        """Carry over what the job changed on its output."""
        now = termios.tcgetattr(self.master)
        before, self.slave_modes = self.slave_modes, now
        self.change_terminal(before, now)
        if self.is_terminal and not now[LFLAG] & termios.ICANON and is_open_again(self.slave):
            self.poll.register(TERMINAL, select.POLLIN)
            self.is_typing = True
        else:
            self.stop_typing()

    def stop_typing(self) -> None:
        """Leave what is typed to the job's standard input."""
        if self.is_typing:
            self.poll.unregister(TERMINAL)
            self.is_typing = False

    def type(self) -> None:
        """Pass on what was typed, unless we are in the background or the terminal is gone."""
        try:
            typed = os.read(TERMINAL, PACKET_BYTES) if self.is_in_front() else b""
        except OSError:
            typed = b""
        if typed:
            os.write(self.master, typed)
        else:
            self.stop_typing()

    def is_in_front(self) -> bool:
        """Say whether our process group has the terminal: when it is stopped, the modes are the shell's affair."""
        try:
            return self.is_terminal and os.getpgrp() == os.tcgetpgrp(TERMINAL)
        except OSError:
            return False  # it hung up, or is not our controlling terminal

    def change_terminal(self, before: Modes, after: Modes) -> None:
        """Apply one change of modes to the terminal, if it is ours to change."""
        if not self.is_in_front():
            return
        # Should the shell come to the front this very moment, we are not stopped for it.
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTTOU])
        try:
            now = termios.tcgetattr(TERMINAL)
            wanted = with_changes(now, before, after)
            if wanted != now:
                termios.tcsetattr(TERMINAL, termios.TCSADRAIN, wanted)
        except termios.error:
            pass
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTTOU])

    def restore(self) -> None:
        """Take back the changes that a job made and, dying, left behind."""
        if self.modes_at_start:
            self.change_terminal(self.slave_modes, self.modes_at_start)
        elif self.left_behind and self.is_in_front():
            fcntl.ioctl(TERMINAL, termios.TCSETSW, self.left_behind)

    def show(self) -> None:
        """Write to the terminal what it takes without waiting; one that is gone is no reason to stop."""
        try:
            self.unseen = self.unseen[os.write(self.screen, self.unseen) :]
        except BlockingIOError:
            pass
        except OSError:
            self.unseen = b""

    def keep(self, data: bytes) -> None:
        """Write to the log; a full disk ends the log, not the job's output."""
        while data and self.log_is_whole:
            try:
                data = data[os.write(self.log, data) :]
            except OSError:
                self.log_is_whole = False

    def run(self) -> None:
        """Copy until the last process that holds the slave is gone."""
        is_open = True
        while is_open:
            ready = self.wait()
            if TERMINAL in ready:
                self.type()
            if self.master in ready:
                data, modes_changed, is_open = self.take()
                self.unseen += data
                self.show()  # first: a log on a dead file system may keep us for ever
                self.keep(data)
                if modes_changed:
                    self.show_all()
                    self.copy_modes()
            elif self.unseen:
                self.show()
        self.show_all()

    def wait(self) -> list[int]:
        """
        Return what can be read, once there is something, or the terminal takes more.

        What is not shown yet waits in select(2), never in poll(2): by that the shim knows when it may leave.
        """
        if not self.unseen:
            return [fd for fd, _ in self.poll.poll()]
        read = [self.master] if len(self.unseen) < UNSEEN_BYTES else []
        return select.select(read + [TERMINAL] * self.is_typing, [self.screen], [])[0]

    def show_all(self) -> None:
        """Wait until everything is shown."""
        while self.unseen:
            select.select([], [self.screen], [])
            self.show()

    def take(self) -> tuple[bytes, bool, bool]:
        """
        Return what is there from the job, whether it changed modes behind that, and whether there may be more.

        The kernel gives at most 4 KiB at a time: with a log to write for each, the copy would halve its speed.  But a
        terminal that is behind gets its next words after three.
        """
        pieces: list[bytes] = []
        while len(pieces) < 16:
            try:
                packet = os.read(self.master, PACKET_BYTES)
            except OSError as error:
                if error.errno == errno.EIO:
                    return b"".join(pieces), False, False
                raise
            if packet[0] == TIOCPKT_DATA:
                pieces.append(packet[1:])
            elif packet[0] & TIOCPKT_IOCTL:
                return b"".join(pieces), True, True
            if (self.unseen and len(pieces) >= 3) or not self.more.poll(0):
                break
        return b"".join(pieces), False, True


def main() -> NoReturn:
    """Unlock the slave, say where it is, and copy."""
    master, ready, log_path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    for name in ("HUP", "INT", "QUIT", "USR1", "USR2", "TERM", "TSTP", "TTIN", "XFSZ", "PIPE"):
        signal.signal(getattr(signal, "SIG" + name), signal.SIG_IGN)
    fcntl.ioctl(master, TIOCSPTLCK, b"\0\0\0\0")
    number = int.from_bytes(fcntl.ioctl(master, TIOCGPTN, b"\0\0\0\0"), sys.byteorder)
    log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    slave = f"/dev/pts/{number}"
    relay = Relay(master, log, slave, f"{log_path.rpartition('/')[0]}/.modes")
    signal.signal(signal.SIGWINCH, relay.on_resize)
    signal.signal(signal.SIGCONT, relay.on_resize)
    signal.signal(signal.SIGALRM, relay.tell_size)
    if ready >= 0:
        os.write(ready, f"{slave} {os.getpid()}\n".encode())
        os.close(ready)
    relay.run()
    relay.restore()
    os._exit(0 if relay.log_is_whole else 1)  # nothing is left for Python to put in order


if __name__ == "__main__":
    main()
