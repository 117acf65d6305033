#!/usr/bin/env python3
"""
The attachment budget: what of a job's outputs, from 1 KB to 1 GB, goes along with its message, and what that costs.

    python tests/experiments/artifacts.py --peer VENV [--sizes 1K,10K,100K,1M,10M,100M,1G]

For each size and kind a job writes one file - a table of random numbers, or an array of random bytes - or prints such a
table, goes on for a second, and fails.  The message is what a mail server on loopback received, which takes any size
unless --limit says otherwise.  Time and anonymous memory at its peak are those of `gpualert post`; the published
wrapper reports in its own process: its memory, its time without the bare job's.
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

# What each kind is called: in both wrappers, where it is the log.
NAMES = {"text": ("table.csv",), "bytes": ("array.npz",), "log": ("output.log", "combined.log")}
MOST_BY_PEER = 100_000_000  # of a log: its message has four times that, its memory eighteen times
JOB = """
import sys, time
block, name, size = open(sys.argv[1], "rb").read(), sys.argv[2], int(sys.argv[3])
with open(name, "wb") if name else sys.stdout.buffer as file:
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
    message_bytes: int = 0
    took_s: float = 0.0
    memory_mib: float = 0.0

    @property
    def price(self) -> str:
        """The numbers, as a cell."""
        if not self.memory_mib:
            return "-"
        message = size_text(self.message_bytes) if self.message_bytes else "none"
        return f"{message}, {self.took_s:.2f} s, {self.memory_mib:.0f} MiB"


def blocks(folder: Path) -> dict[str, Path]:
    """Make 1 MB of each kind to write again and again: gzip looks back 32 KB, and finds nothing twice."""
    chance = random.Random(1)
    rows = "".join(f"{number},{chance.random():.6f},{chance.gauss(0, 1):.6f}\n" for number in range(45_000))
    text = rows.encode()[:1_000_000]
    made = {"text": text, "bytes": chance.randbytes(1_000_000), "log": text}
    for kind, content in made.items():
        (folder / kind).write_bytes(content)
    return {kind: folder / kind for kind in made}


def fate(message: EmailMessage, names: Sequence[str]) -> str:
    """Say what the message did with a file: how it is attached, or that it is not, and what its text says of that."""
    body = message.get_body(("plain",))
    items = re.findall(r"(?m)^ *- .*(?:\n {2,}(?!- ).*)*", str(body.get_content() if body else ""))
    said = [" ".join(item.split()) for item in items if any(name in item for name in names)]
    for part in message.iter_attachments():
        found, content = part.get_filename() or "", part.get_payload(decode=True)
        if found.startswith(tuple(names)) or found.endswith(".zip"):
            assert isinstance(content, bytes)
            remark = _remark(said, found)
            return f"`{found}`, {size_text(len(content))}" + (f", {remark}" if remark else "")
    return f"left out: {_remark(said, *names)}" if said else "**not mentioned**"


def _remark(said: Sequence[str], *names: str) -> str:
    """Return what is said of a file besides its name and size."""
    every = "|".join(map(re.escape, names))
    line = next((line for line in said if re.search(every, line)), "").lstrip(" -")
    return re.sub(rf"^(?:{every})(?:: | \()[\d.,]+ \w+\)?(?:, )?|(?:Not attached, )|: (?:{every})\.?$| -> .*", "", line)


@dataclass(frozen=True)
class Bench:
    """One output, to be made by whichever wrapper."""

    folder: Path
    job: tuple[str, ...]
    names: tuple[str, ...]
    server: MailServer

    def of(self, way: Way, *options: str) -> Cost:
        """Return what the way makes of it."""
        self.server.forget()
        place = self.folder.parent / "trial"
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
        return Cost(fate(message, self.names), len(content), took_s, memory_mib)

    def _run(self, words: Sequence[str], values: dict[str, str]) -> float:
        began = time.monotonic()
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        with (
            subprocess.Popen(words, env=values, cwd=self.folder, **streams) as process,
            Path(os.devnull).open("wb") as no,
        ):
            assert process.stdout
            shutil.copyfileobj(process.stdout, no)
        return time.monotonic() - began


def costs(bench: Bench, size_bytes: int, peer: Path | None) -> Iterator[Cost]:
    """Yield what each way makes of an output."""
    way, name = ours("dash"), bench.names[0]
    yield bench.of(way)
    yield bench.of(way, "--attach", name)
    if peer and size_bytes > MOST_BY_PEER and "combined.log" in bench.names:
        yield Cost("not tried: see the row above")
    elif peer:
        yield bench.of(published(peer))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_peer(parser)
    parser.add_argument("--sizes", default="1KB,10KB,100KB,1MB,10MB,100MB,1GB", help="separated by commas")
    parser.add_argument("--kinds", default=",".join(NAMES), help="separated by commas")
    parser.add_argument("--limit", help="the largest message that the mail server takes")
    parser.add_argument("--folder", help="where the outputs are written")
    words = parser.parse_args()
    limit = parsed_size(words.limit) if words.limit else None
    heads = ["output", "", OURS, f"{OURS} --attach", "published wrapper"][: 5 if words.peer else 4]
    before = os.getloadavg()[0]
    fates, prices = [], []
    with mail_server(limit) as server, tempfile.TemporaryDirectory(prefix="gpualert-", dir=words.folder) as scratch:
        made, job = blocks(Path(scratch)), Path(scratch) / "job.py"
        job.write_text(JOB)
        for size, kind in itertools.product(words.sizes.split(","), words.kinds.split(",")):
            folder = Path(scratch) / f"{kind}-{size}"
            folder.mkdir()
            name = "" if kind == "log" else NAMES[kind][0]
            command = (sys.executable, str(job), str(made[kind]), name, str(parsed_size(size)))
            bench = Bench(folder, command, NAMES[kind], server)
            if not fates and "XDG_CACHE_HOME" not in os.environ:
                bench.of(ours("dash"))  # compiles the rules
            found = list(costs(bench, parsed_size(size), words.peer))
            fates.append((size, kind, *(cost.fate for cost in found)))
            prices.append((size, kind, *(cost.price for cost in found)))
            shutil.rmtree(folder)
    print(markdown(heads, fates))
    print("Size of the message, time and memory:\n")
    print(markdown(heads, prices))
    print(conditions(before))


if __name__ == "__main__":
    main()
