#!/usr/bin/env python3
"""
What is left of a run when things go wrong: its log, its exit status, and whether somebody is told.

    python tests/experiments/survival.py --peer VENV      all ways and situations
    python tests/experiments/survival.py --lines 4 --situations ordinary,killed

The job prints lines to both streams and notes, elsewhere, what it printed.  Half-way it waits until the blow has
fallen; then it goes on as it would.  What is shown goes to a pipe that somebody reads, and to a pseudo-terminal where
that is to close.  The disk that fills up is a tmpfs of 16 MB: mounting it needs root.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from peers import Way, add_peer, conditions, environment, mail_server, markdown, ways

# isort: split
import psutil
from overhead import helpers
from smtp_server import MailServer
from worlds import fill, tiny_disk

from gpualert.places import python_command

STATUS = 3
JOB = """
import os, sys, time
folder, lines, status = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
truth = open(folder + "/truth", "w", buffering=1)
truth.write("pid %d\\n" % os.getpid())
for number in range(lines):
    if number == lines // 2:
        truth.write("half\\n")
        while not os.path.exists(folder + "/go"):
            time.sleep(0.002)
    try:
        print("line %06d %s" % (number, "." * 1000), file=(sys.stdout, sys.stderr)[number % 2], flush=True)
    except OSError as error:
        truth.write("end 1 after %s\\n" % os.strerror(error.errno))
        os._exit(1)
    truth.write("line\\n")
truth.write("end %d\\n" % status)
os._exit(status)
"""
PATIENCE_S = 20.0


class Caller:
    """The shell that a user typed the command into, and somebody who reads what it shows."""

    def __init__(self, words: Sequence[str], values: dict[str, str], folder: Path, terminal: bool) -> None:
        self._reader, end = pty.openpty() if terminal else os.pipe()
        take = (lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0)) if terminal else None
        self.process = subprocess.Popen(
            words,
            env=values,
            cwd=folder,
            stdin=end if terminal else subprocess.DEVNULL,
            stdout=end,
            stderr=end,
            start_new_session=True,
            preexec_fn=take,
        )
        os.close(end)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        with contextlib.suppress(OSError):  # EIO: nobody has the terminal open any more
            while not self._over.is_set():
                if select.select([self._reader], [], [], 0.02)[0] and not os.read(self._reader, 1 << 16):
                    return

    def close(self) -> None:
        """Close the terminal, or the reading end of the pipe."""
        if not self._over.is_set():
            self._over.set()
            self._thread.join()
            os.close(self._reader)

    def wrappers(self, job: int) -> list[psutil.Process]:
        """Return what stands between the shell and the job."""
        return [child for child in psutil.Process(self.process.pid).children() if child.pid != job]


@dataclass
class Trial:
    """One way in one situation."""

    way: Way
    folder: Path
    lines: int
    caller: Caller | None = None
    job: int = 0

    @property
    def truth(self) -> list[str]:
        """What the job noted."""
        path = self.folder / "truth"
        return path.read_text().splitlines() if path.exists() else []

    @property
    def printed(self) -> int:
        """How many lines the job printed."""
        return self.truth.count("line")

    @property
    def log(self) -> bytes:
        """What is in the logs, all together."""
        return b"".join(path.read_bytes() for path in sorted(self.folder.glob(self.way.logs)))


def kill_wrapper(trial: Trial) -> None:
    """Kill what the user started, and not the job."""
    assert trial.caller
    for process in trial.caller.wrappers(trial.job):
        process.kill()
        process.wait(PATIENCE_S)


def kill_parent(trial: Trial) -> None:
    """Kill the shell that started it."""
    assert trial.caller
    trial.caller.process.kill()


def close_terminal(trial: Trial) -> None:
    """Close the window; all that hangs on it has been told so when the shell in it is gone."""
    assert trial.caller
    trial.caller.close()
    trial.caller.process.wait(PATIENCE_S)


def fill_disk(trial: Trial) -> None:
    """Leave no room where the log is."""
    fill(trial.folder / "disk")


def nothing(trial: Trial) -> None:
    """Let it go on."""


@dataclass(frozen=True)
class Situation:
    """
    What goes wrong.

    Attributes:
        strike: What happens when the job is half-way.
        job: The job's words instead of the usual ones.
        statuses: The exit statuses that are right; that of the job's own end comes first.
    """

    title: str
    strike: Callable[[Trial], None] = nothing
    job: tuple[str, ...] = ()
    terminal: bool = False
    tiny: bool = False
    statuses: tuple[int, ...] = ()


SITUATIONS = {
    "ordinary": Situation("it fails"),
    "exec": Situation("exec fails", job=("{folder}/broken",), statuses=(126, 127)),
    "missing": Situation("program missing", job=("{folder}/nowhere",), statuses=(127,)),
    "killed": Situation("wrapper kill -9'd", kill_wrapper),
    "terminal": Situation("terminal closes", close_terminal, terminal=True),
    "disk": Situation("disk fills up", fill_disk, tiny=True),
    "parent": Situation("parent kill -9'd", kill_parent),
}


@dataclass(frozen=True)
class Outcome:
    """What was left of a trial, as cells of the tables."""

    log: str = "-"
    status: str = "-"
    told: str = "-"
    job: str = "-"


def run(way: Way, situation: Situation, folder: Path, lines: int, server: MailServer) -> Outcome:
    """Try one way in one situation."""
    if situation.strike is kill_wrapper and not way.wrapper:
        return Outcome()
    server.forget()
    (folder / "disk").mkdir()
    (folder / "broken").write_text("#!/no/such/interpreter\n")
    (folder / "broken").chmod(0o755)
    with tiny_disk(folder / "disk", "16m") if situation.tiny else contextlib.nullcontext():
        trial = Trial(way, folder, lines)
        own = tuple(word.format(folder=folder) for word in situation.job)
        job = own or (sys.executable, "-c", JOB, str(folder), str(lines), str(STATUS))
        values = environment(way, folder, server.port, job)
        words = ["/bin/sh", "-c", f"{way.line}; exit $?", "sh", *job]
        trial.caller = Caller(words, values, folder / "tmp", situation.terminal)
        try:
            if not own:
                _strike(trial, situation)
            _end(trial)
        finally:
            trial.caller.close()
            trial.caller.process.wait()
        return Outcome(_log(trial, own), _status(trial, situation), _told(trial, values, server), _job(trial, own))


def _strike(trial: Trial, situation: Situation) -> None:
    """Let the blow fall when the job is half-way."""
    _until(lambda: "half" in trial.truth, f"{trial.way.name} does not start its job")
    trial.job = int(trial.truth[0].split()[1])
    situation.strike(trial)
    (trial.folder / "go").touch()


def _until(condition: Callable[[], object], complaint: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > end:
            sys.exit(complaint)
        time.sleep(0.002)


def _end(trial: Trial) -> None:
    """Wait until all that was started is over; end what hangs."""
    end = time.monotonic() + PATIENCE_S
    quiet = 0
    while quiet < 3:  # a process that is just about to become another program has no environment
        left = helpers(trial.folder)
        quiet = 0 if left else quiet + 1
        if time.monotonic() > end:
            print(f"{trial.way.name}: {len(left)} processes were still there after {PATIENCE_S:g} s", file=sys.stderr)
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def _log(trial: Trial, own: Sequence[str]) -> str:
    log = trial.log
    if own:  # what it should say is why there was nothing to run
        reason = rb"(?i)%s.*(?:not found|no such file)|(?:not found|no such file).*%s"
        name = re.escape(own[0].encode())
        return "says why" if re.search(reason % (name, name), log) else "says nothing" if log else "none"
    kept = len(set(re.findall(rb"line (\d{6}) ", log)))
    return f"{'all' if kept >= trial.printed else kept} of {trial.printed}" if log else f"none of {trial.printed}"


def _status(trial: Trial, situation: Situation) -> str:
    if not trial.way.status:
        return "none"
    found = [
        match
        for path in trial.folder.glob(trial.way.records)
        for match in re.findall(trial.way.status, path.read_bytes())
    ]
    if not found:
        return "none"
    status = int(found[-1])
    return f"{status}" if status in _right(trial, situation) else f"**{status}, wrong**"


def _right(trial: Trial, situation: Situation) -> tuple[int, ...]:
    """Return the statuses that are right; a signal's in either of two ways to write it."""
    if situation.statuses:
        return situation.statuses
    last = trial.truth[-1].split()
    return (int(last[1]),) if last[0] == "end" else (128 + signal.SIGHUP, -signal.SIGHUP)


def _told(trial: Trial, values: dict[str, str], server: MailServer) -> str:
    if not trial.way.mails or server.received:
        return "yes" if server.received else "nobody"
    if trial.way.is_ours:
        ballast = trial.folder / "disk" / "ballast"
        for word in ("by the next tick", "by a tick, once there is room"):
            subprocess.run(python_command("tick"), env=values, check=False, capture_output=True)
            if server.received:
                return word
            ballast.unlink(missing_ok=True)
    return "nobody"


def _job(trial: Trial, own: Sequence[str]) -> str:
    if own:
        return "-"
    last = trial.truth[-1].split()
    if last[:2] == ["end", str(STATUS)]:
        return "to its end"
    return f"**ended: {' '.join(last[3:])}**" if last[0] == "end" else "ended by the signal"


QUESTIONS = {
    "log": "Lines that the log holds, of those the job printed:",
    "status": "Exit status on record:",
    "told": "Is somebody told?",
    "job": "The job itself:",
}


def tables(outcomes: dict[tuple[str, str], Outcome], names: Sequence[str]) -> str:
    """Return one table for each question."""
    heads = ["", *(SITUATIONS[name].title for name in names)]
    found = []
    for question, title in QUESTIONS.items():
        by_way = {way: [getattr(outcomes[way, name], question) for name in names] for way, _ in outcomes}
        found.append(f"{title}\n\n" + markdown(heads, [(way, *cells) for way, cells in by_way.items()]))
    return "\n".join(found)


def main() -> None:
    """Try what the command line asks for and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_peer(parser)
    parser.add_argument("--lines", type=int, default=40)
    parser.add_argument("--situations", default=",".join(SITUATIONS), help="separated by commas")
    parser.add_argument("--ways", default="", help="only those with one of these words in their names, with commas")
    words = parser.parse_args()
    names = words.situations.split(",")
    if os.getuid() and "disk" in names:
        print("left out: the disk that fills up: mounting one needs root", file=sys.stderr)
        names.remove("disk")
    before = os.getloadavg()[0]
    outcomes = {}
    with mail_server() as server, tempfile.TemporaryDirectory(prefix="gpualert-") as scratch:
        wanted = [way for way in ways(words.peer) if any(word in way.name for word in words.ways.split(","))]
        for number, way in enumerate(wanted):
            for name in names:
                folder = Path(scratch) / f"{number}-{name}"
                folder.mkdir()
                outcomes[way.name, name] = run(way, SITUATIONS[name], folder, words.lines, server)
    print(tables(outcomes, names))
    print(conditions(before))


if __name__ == "__main__":
    main()
