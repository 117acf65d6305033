"""
What a tick costs over many finished runs and waiting messages, before anything is sent.

Prints the time of a whole process, of the search for runs and of the look through the spool, and the memory.  Nobody
listens where the messages should go.

    python tests/bench/tick.py [--runs 10000] [--messages 2000]
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rundirs import RunBuilder
from smtp_server import closed_port

from gpualert.claims import Claims
from gpualert.notify.outbox import queue_message
from gpualert.places import python_command
from gpualert.tick import DONE, find_due

MESSAGE = b"Subject: x\r\n\r\n" + b"x" * 50_000


def fill(state: Path, runs: int, messages: int) -> None:
    make_run = RunBuilder(state)
    os.fsync = lambda fd: None  # type: ignore[assignment]  # only the making is hurried
    for number in range(runs):
        run_id = f"20261130T{number:06d}Z-node{number % 40:02d}-{number:08x}"
        path = make_run(run_id, start={"run_id": run_id})
        Claims.of(path).mark(DONE)
        if number < messages:
            identity, to = f"<{run_id}.failed@gpualert.invalid>", ("ann@example.org",)
            queue_message(state, MESSAGE, message_id=identity, mail_from=to[0], to=to, now=time.time(), run_path=path)


def ticked(state: Path) -> tuple[float, float]:
    """Return how long a tick takes, in seconds, and its largest memory, in MB."""
    (state / "outbox" / "pause").unlink(missing_ok=True)
    mail = {"MAIL": "smtp", "SMTP_HOST": "127.0.0.1", "SMTP_PORT": str(closed_port()), "SMTP_SECURITY": "none"}
    environ = {**os.environ, "GPUALERT_HOME": str(state), **{f"GPUALERT_{key}": value for key, value in mail.items()}}
    began = time.monotonic()
    subprocess.run(python_command("tick"), env=environ, check=True)
    return time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024


def main(runs: int, messages: int) -> None:
    with tempfile.TemporaryDirectory(prefix="gpualert-bench-") as folder:
        state = Path(folder, "state")
        fill(state, runs, messages)
        (state / "locks").mkdir(mode=0o700)
        (state / "locks" / "pruned").touch()  # removing old runs is for once an hour
        print(f"{runs:,} finished runs, {messages:,} waiting messages")
        for name in ("first tick", "later tick"):
            took_s, memory_mb = ticked(state)
            print(f"{name}: {took_s:.2f} s as a whole process, {memory_mb:.0f} MB")
        began = time.monotonic()
        assert find_due(state, print) == []
        print(f"of which the search for runs: {time.monotonic() - began:.2f} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--messages", type=int, default=2_000)
    given = parser.parse_args()
    main(given.runs, given.messages)
