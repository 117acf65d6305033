#!/usr/bin/env python3
"""
The attachment budget: what of a job's outputs, from 1 KB to 1 GB, goes along with its message, and what that costs.

    python tests/experiments/artifacts.py --peer VENV [--sizes 1K,10K,100K,1M,10M,100M,1G]

For each size and kind a job writes one file - a table of random numbers, or an array of random bytes - goes on for a
second, and fails.  The message is what a mail server on loopback received.  Time and anonymous memory at its peak are
those of `gpualert post`; the published wrapper reports in its own process: its memory, its time without the bare job's.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from pathlib import Path

from peers import OURS, Way, add_peer, conditions, environment, mail_server, markdown, ours, published

# isort: split
from post import watched
from smtp_server import MailServer

from gpualert.display import size as size_text
from gpualert.places import python_command
from gpualert.values import size as parsed_size

FILES = {"text": "table.csv", "bytes": "array.npz"}
JOB = """
import sys, time
block, name, size = open(sys.argv[1], "rb").read(), sys.argv[2], int(sys.argv[3])
with open(name, "wb") as file:
    for _ in range(size // len(block)):
        file.write(block)
    file.write(block[: size % len(block)])
time.sleep(1)
sys.exit("ValueError: bad value")
"""


@dataclass(frozen=True)
class Cost:
    """What came of one output: what became of it, the message's size, and what making the message cost."""

    fate: str
    message_bytes: int
    took_s: float
    memory_mib: float

    @property
    def cells(self) -> tuple[str, ...]:
        """The cells of a row."""
        return (self.fate, size_text(self.message_bytes), f"{self.took_s:.2f}", f"{self.memory_mib:.0f}")


def blocks(folder: Path) -> dict[str, Path]:
    """Make 1 MB of each kind to write again and again: gzip looks back 32 KB, and finds nothing twice."""
    chance = random.Random(1)
    rows = "".join(f"{number},{chance.random():.6f},{chance.gauss(0, 1):.6f}\n" for number in range(45_000))
    made = {"text": rows.encode()[:1_000_000], "bytes": chance.randbytes(1_000_000)}
    for kind, content in made.items():
        (folder / kind).write_bytes(content)
    return {kind: folder / kind for kind in made}


def fate(message: EmailMessage, name: str) -> str:
    """Say what the message did with a file: how it is attached, or what its text says of it."""
    for part in message.iter_attachments():
        found, content = part.get_filename() or "", part.get_payload(decode=True)
        if found.startswith(name) or found.endswith(".zip"):
            assert isinstance(content, bytes)
            return f"attached as `{found}`, {size_text(len(content))}"
    body = message.get_body(("plain",))
    said = [line for line in str(body.get_content() if body else "").splitlines() if line.lstrip().startswith("- ")]
    for line in said:
        if name in line:
            reason = re.sub(rf"^{re.escape(name)}: [^,]*, |: {re.escape(name)}\.?$", "", line.lstrip(" -"))
            return f"left out: {reason}"
    return "**not mentioned**"


@dataclass(frozen=True)
class Bench:
    """One output, to be made by whichever wrapper."""

    folder: Path
    job: tuple[str, ...]
    name: str
    server: MailServer

    def of(self, way: Way, *options: str) -> Cost:
        """Return what the way makes of it."""
        self.server.forget()
        place = self.folder / "trial"
        values = environment(way, place, self.server.port)
        words = [*shlex.split(way.line)[:-1], *self.job]
        if options:
            words[words.index("run") + 1 : words.index("run") + 1] = options
        if way.is_ours:
            self._run(words, {**values, "GPUALERT_POST": "tick"})
            memory_mib, _, took_s = watched(python_command("post"), values)
        else:
            memory_mib, _, took_s = watched(words, values, self.folder)
            took_s -= self._run(self.job, values)
        shutil.rmtree(place)
        if not self.server.received:
            return Cost("**no message**", 0, took_s, memory_mib)
        content = self.server.received[-1].content
        message = message_from_bytes(content, policy=default)
        return Cost(fate(message, self.name), len(content), took_s, memory_mib)

    def _run(self, words: Sequence[str], values: dict[str, str]) -> float:
        began = time.monotonic()
        subprocess.run(words, env=values, cwd=self.folder, check=False, capture_output=True)
        return time.monotonic() - began


def rows(bench: Bench, kind: str, size: str, peer: Path | None) -> Iterator[tuple[str, ...]]:
    """Yield a row for each way."""
    way = ours("dash")
    yield (size, kind, OURS, *bench.of(way).cells)
    yield (size, kind, f"{OURS} --attach", *bench.of(way, "--attach", bench.name).cells)
    if peer:
        yield (size, kind, "published wrapper", *bench.of(published(peer)).cells)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_peer(parser)
    parser.add_argument("--sizes", default="1KB,10KB,100KB,1MB,10MB,100MB,1GB", help="separated by commas")
    parser.add_argument("--kinds", default=",".join(FILES), help="separated by commas")
    parser.add_argument("--folder", help="where the outputs are written")
    words = parser.parse_args()
    before = os.getloadavg()[0]
    found: list[tuple[str, ...]] = []
    with mail_server() as server, tempfile.TemporaryDirectory(prefix="gpualert-", dir=words.folder) as scratch:
        made = blocks(Path(scratch))
        job = Path(scratch) / "job.py"
        job.write_text(JOB)
        for size, kind in itertools.product(words.sizes.split(","), words.kinds.split(",")):
            folder = Path(scratch) / f"{kind}-{size}"
            folder.mkdir()
            command = (sys.executable, str(job), str(made[kind]), FILES[kind], str(parsed_size(size)))
            found += rows(Bench(folder, command, FILES[kind], server), kind, size, words.peer)
            shutil.rmtree(folder)
    heads = ("output", "kind", "", "what became of it", "message", "s", "MiB")
    print(markdown(heads, found))
    print(conditions(before))


if __name__ == "__main__":
    main()
