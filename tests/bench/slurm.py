#!/usr/bin/env python3
"""
What the wrapper costs a Slurm job that does not fail: prints tables, asserts nothing.

    python tests/bench/slurm.py                    one job on the cluster of the tests, which it starts unless it is up

Everything is measured inside one allocation, so that the queue plays no part, and paired: bare and wrapped take turns.
First programs that the batch script starts, then steps started by srun.  `post` is who makes the report: `wait` is
what a Slurm job does by itself, because nothing outlives it; `tick` leaves it to a tick: that is the shim alone.
"""

from __future__ import annotations

import argparse
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from overhead import GPUALERT, TRUE, Case, measure, print_latency

REPOSITORY = Path(__file__).resolve().parents[2]
_KINDS = ("adopt", "two tees")


def programs(pairs: int, folder: Path) -> None:
    """Measure and print what programs started by the batch script cost."""
    told = {name: value for name, value in os.environ.items() if name.startswith("SLURM")}
    cases = [
        Case("tmpfs", folder / "state", "dash", kind, post, extra=told, note=note)
        for kind in _KINDS
        for post, note in (("tick", "the shim alone"), ("wait", "with the report"))
    ]
    spawn = measure(cases, pairs)
    print(f"started by the batch script; posix_spawn: median {spawn:.3f} ms; {pairs} pairs a row; {_load()}")
    print_latency(cases, spawn)


def steps(pairs: int, folder: Path) -> None:
    """Measure and print what steps cost."""
    environ = {**os.environ, "GPUALERT_HOME": str(folder / "state"), "GPUALERT_PYTHON": sys.executable}
    bare: list[float] = []
    over: dict[str, list[float]] = {"tick": [], "wait": []}
    for _ in range(pairs):
        bare.append(_srun_ms([TRUE], environ))
        for post, times in over.items():
            wrapped = ["/bin/dash", str(GPUALERT), "run", "--", TRUE]
            times.append(_srun_ms(wrapped, {**environ, "GPUALERT_POST": post}) - bare[-1])
    print(f"\nsteps: srun {TRUE} takes {statistics.median(bare):.0f} ms; {pairs} pairs a row; {_load()}")
    for post, times in over.items():
        print(f"post {post}: {statistics.median(times):+.1f} ms, from {min(times):+.1f} to {max(times):+.1f}")


def _srun_ms(words: list[str], environ: dict[str, str]) -> float:
    began = time.perf_counter()
    subprocess.run(["srun", "-n1", *words], env=environ, check=True, stdin=subprocess.DEVNULL)
    return (time.perf_counter() - began) * 1e3


def _load() -> str:
    return f"load {os.getloadavg()[0]:.2f}"


def submit(words: argparse.Namespace) -> None:
    """Run this file as a job, and print what it prints."""
    sys.path.insert(0, str(REPOSITORY))
    from tests.engines.cluster import Cluster

    with Cluster().used(), tempfile.TemporaryDirectory(prefix="gpualert-bench-") as folder:
        ours = shlex.join([sys.executable, __file__, "--inside", *map(str, (words.pairs, words.steps))])
        script = Path(folder, "bench.sh")
        script.write_text(f"#!/bin/sh\nexec {ours}\n")
        out = Path(folder, "out")
        asked = ["-N1", "-n1", "--exclusive", "--mem=1000", "-o", str(out)]
        done = subprocess.run(["sbatch", "--wait", *asked, str(script)], stdout=subprocess.DEVNULL, check=False)
        print(out.read_text(), end="")
        sys.exit(done.returncode)


def main() -> None:
    """Submit the job; inside it, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs", nargs="?", type=int, default=60)
    parser.add_argument("steps", nargs="?", type=int, default=10)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    words = parser.parse_args()
    if not words.inside:
        submit(words)
    with tempfile.TemporaryDirectory(prefix="gpualert-", dir="/dev/shm") as folder:
        programs(words.pairs, Path(folder))
        steps(words.steps, Path(folder))


if __name__ == "__main__":
    main()
