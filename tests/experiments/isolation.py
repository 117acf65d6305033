#!/usr/bin/env python3
"""
What a broken world costs a job's caller, and whether the messages arrive once it is whole again.

    python tests/experiments/isolation.py                      all classes x mail server up, refused, hanging
    python tests/experiments/isolation.py --classes published --conditions up,dropped,no_python,broken_python,disk_full

A job for each failure class prints the first example of its rule, lasts a second and ends with a fitting status: bare
and, in turn, through `gpualert run` under each condition (`tests/worlds.py`).  In the end the mail server takes
messages, `gpualert tick` and `gpualert outbox retry` run once, and what arrived is counted.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from email import message_from_bytes
from pathlib import Path

from peers import MARK, conditions, mail_server, markdown

# isort: split
from overhead import wait_for_helpers
from smtp_server import MailServer
from worlds import CONDITIONS, broken, job, jobs, mail

from gpualert.places import python_command, shim

UP = "up"


@dataclass
class World:
    """
    One condition, and what was measured under it.

    Attributes:
        environ: What runs under it find in their environment.
        server: Where its messages go, at once or in the end.
    """

    name: str
    folder: Path
    environ: Mapping[str, str]
    server: MailServer
    right: int = 0
    ratios: list[float] = field(default_factory=list)
    arrived_at_once: int = 0

    @property
    def arrived(self) -> int:
        """How many different messages have arrived, at the server or in a maildir."""
        received = [message.content for message in self.server.received]
        filed = [path.read_bytes() for path in self.folder.glob("**/mail/new/*")]
        return len({message_from_bytes(content)["Message-ID"] for content in received + filed})


def enter(name: str, folder: Path, stack: ExitStack) -> World:
    """Make that condition last until the stack is left."""
    server = stack.enter_context(mail_server())
    changes = stack.enter_context(broken("healthy" if name == UP else name, folder))
    each = {"GPUALERT_DIGEST_WINDOW_S": "0", "GPUALERT_DIGEST_KEEPER": "no", "GPUALERT_MESSAGES_PER_MINUTE": "0"}
    marked = {**os.environ, **(mail(server.port) if name == UP else {}), **changes, **each, MARK: str(folder)}
    return World(name, folder, marked, server)


def timed(words: Sequence[str], environ: Mapping[str, str]) -> tuple[float, int]:
    """Return how long a command took, and its status as a shell would write it."""
    began = time.perf_counter()
    code = subprocess.run(words, capture_output=True, env=environ, check=False).returncode
    return time.perf_counter() - began, code if code >= 0 else 128 - code


def measure(worlds: Sequence[World], names: Sequence[str], lasts_s: float) -> None:
    """Run each job bare and, in a random order, in each world."""
    for name in names:
        command = job(name, lasts_s)
        bare_s, status = timed(command, os.environ)
        for world in random.sample(worlds, len(worlds)):
            took_s, code = timed(["/bin/sh", str(shim()), "run", "--", *command], world.environ)
            world.right += code == status
            world.ratios.append(took_s / bare_s)


def recover(world: World) -> None:
    """Let the mail server take messages, make room on the disk, and have done what waits."""
    wait_for_helpers(world.folder)
    world.arrived_at_once = world.arrived
    for ballast in world.folder.glob("*/ballast"):
        ballast.unlink()
    whole = {**world.environ, **mail(world.server.port), "GPUALERT_PYTHON": sys.executable}
    for words in (["tick"], ["outbox", "retry"]):
        subprocess.run(python_command(*words), env=whole, check=False, capture_output=True)


def rows(worlds: Sequence[World], count: int) -> list[tuple[str, ...]]:
    """Return the rows of the table."""
    return [
        (
            world.name,
            f"{world.right} of {count}",
            f"{statistics.median(world.ratios):.3f}",
            f"{max(world.ratios):.3f}",
            f"{world.arrived_at_once} of {count}",
            f"{world.arrived} of {count}",
        )
        for world in worlds
    ]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1.0, help="how long each job lasts")
    parser.add_argument("--classes", default="all", help="all, published, or ids separated by commas")
    parser.add_argument(
        "--conditions", default="up,refused,hanging", help=f"of up, {', '.join(CONDITIONS)}; separated by commas"
    )
    words = parser.parse_args()
    known = {"all": jobs(), "published": jobs(published=True)}
    names = list(known.get(words.classes) or words.classes.split(","))
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="gpualert-") as scratch, ExitStack() as stack:
        worlds = []
        for name in words.conditions.split(","):
            folder = Path(scratch) / name
            folder.mkdir()
            worlds.append(enter(name, folder, stack))
        measure(worlds, names, words.seconds)
        for world in worlds:
            recover(world)
        print(f"{len(names)} jobs of {words.seconds:g} s, one of each class; times over those of the bare job\n")
        heads = ("mail server or world", "status kept", "time, median", "worst", "told at once", "told in the end")
        print(markdown(heads, rows(worlds, len(names))))
    print(conditions(before))


if __name__ == "__main__":
    main()
