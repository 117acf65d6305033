#!/usr/bin/env python3
"""
What wrappers cost: nohup, chronic, the published wrapper and `gpualert run` against the bare command.

    python tests/experiments/overhead_peers.py --peer VENV [--pairs 100] [--long-pairs 10]

Paired as in `tests/bench/overhead.py`, which does the measuring: the bare and the wrapped command take turns, and the
rows come in a new random order each time.  Output goes to a pipe; state, home and logs are on tmpfs; a mail server on
loopback takes the messages of those that send some.  `gpualert run` sends its own after it has returned, and the next
measurement waits for that.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from peers import SYSTEM_PATH, add_peer, conditions, environment, mail_server, markdown, ours, published

# isort: split
from overhead import MARK, TRUE, Case, measure

JOBS = {TRUE: (TRUE,), "a job of 1 s": ("/bin/sleep", "1")}
PLAIN = ("nohup", "chronic")


def cases(job: Sequence[str], folder: Path, peer: Path | None, shells: Sequence[str], port: int) -> Iterator[Case]:
    """Yield one row for each wrapper that is installed; each has a home of its own."""
    for name in PLAIN:
        if program := shutil.which(name, path=SYSTEM_PATH):
            yield _case(name, (program,), job, folder / name)
        else:
            print(f"left out: {name} is not installed", file=sys.stderr)
    for shell in shells:
        way = ours(shell)
        extra = environment(way, folder / shell, port)
        yield _case(way.name, tuple(shlex.split(way.line)[:-1]), job, folder / shell, extra)
    if not peer:
        print("left out: the published wrapper: name its virtual environment with --peer", file=sys.stderr)
        return
    way = published(peer)
    for note, options in (("with mail", ()), ("--no-notify", ("--no-notify",))):
        home = folder / note.strip("-").replace(" ", "-")
        run = (str(peer / "bin" / "gpualert"), "run", *options, "--")
        yield _case(f"{way.name}, {note}", run, job, home, environment(way, home, port))


def _case(
    name: str, wrapper: tuple[str, ...], job: Sequence[str], folder: Path, extra: dict[str, str] | None = None
) -> Case:
    """Return a row whose helpers are known by `folder`."""
    state = folder / "disk" / "state"
    state.mkdir(parents=True, exist_ok=True)
    marked = {**(extra or {}), MARK: str(state.parent)}
    return Case("tmpfs", state, name, "one tee", wrapper=wrapper, job=tuple(job), extra=marked)


def rows(measured: Sequence[Case], spawn_ms: float) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the table."""
    for case in measured:
        over = sorted(case.over_ms)
        median, p95 = statistics.median(over), over[int(0.95 * (len(over) - 1))]
        ratio = statistics.median(run / bare for run, bare in zip(case.run_ms, case.bare_ms, strict=True))
        yield (case.shell, f"{median:.1f}", f"{p95:.1f}", f"{median / spawn_ms:.1f}", f"{ratio:.3f}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_peer(parser)
    parser.add_argument("--pairs", type=int, default=100, help="of /bin/true")
    parser.add_argument("--long-pairs", type=int, default=10, help="of the job of one second")
    parser.add_argument("--shells", default="dash,bash", help="those that run `gpualert run`")
    words = parser.parse_args()
    for (title, job), pairs in zip(JOBS.items(), (words.pairs, words.long_pairs), strict=True):
        if not pairs:
            continue
        before = os.getloadavg()[0]
        with mail_server() as server, tempfile.TemporaryDirectory(prefix="gpualert-", dir="/dev/shm") as folder:
            measured = list(cases(job, Path(folder), words.peer, words.shells.split(","), server.port))
            spawn_ms = measure(measured, pairs, warm_up=min(3 if job == (TRUE,) else 1, pairs))
        print(f"Over {title}, bare; {pairs} pairs a row; posix_spawn of {TRUE}: median {spawn_ms:.3f} ms\n")
        print(
            markdown(
                ("", "median, ms", "95th percentile, ms", "x posix_spawn", "time, x bare"), rows(measured, spawn_ms)
            )
        )
        print(conditions(before) + "\n")


if __name__ == "__main__":
    main()
