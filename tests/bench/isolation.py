"""
What a broken world costs a job's caller.

Prints, for each condition, the time of `gpualert run` on a failing job that lasts a second, against the same in a
healthy world, paired over the published classes; with GPUALERT_POST=detach.

    python tests/bench/isolation.py [--seconds 1]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from isolation import CONDITIONS, JOBS, broken, job

from gpualert.places import shim


def wrapped_s(name: str, lasts_s: float, environ: dict[str, str]) -> tuple[float, int]:
    """Return how long the wrapped job took, and its status."""
    began = time.monotonic()
    done = subprocess.run(
        ["/bin/sh", str(shim()), "run", "--", *job(name, lasts_s)], capture_output=True, env=environ, check=False
    )
    return time.monotonic() - began, done.returncode


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1.0, help="How long each job lasts.")
    lasts_s = parser.parse_args().seconds
    print(f"{'condition':14} {'jobs':>4} {'status':>7} {'median':>8} {'healthy':>8} {'ratio':>6} {'worst':>6}")
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        worlds = {name: {**os.environ, **stack.enter_context(broken(name, Path(folder)))} for name in CONDITIONS}
        for condition in CONDITIONS[1:]:
            pairs, right = [], 0
            for name, (status, _) in JOBS.items():
                healthy, _ = wrapped_s(name, lasts_s, worlds["healthy"])
                took, code = wrapped_s(name, lasts_s, worlds[condition])
                right += code in (status, 128 - status)
                pairs.append((took, healthy))
            ratios = [took / healthy for took, healthy in pairs]
            took, healthy = (statistics.median(values) for values in zip(*pairs, strict=True))
            print(
                f"{condition:14} {len(pairs):4} {right:4}/{len(pairs)} {took:6.3f} s {healthy:6.3f} s"
                f" {statistics.median(ratios):6.3f} {max(ratios):6.3f}"
            )


if __name__ == "__main__":
    main()
