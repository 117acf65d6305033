#!/usr/bin/env python3
"""
What a tick costs with many chains of retries.

    python tests/bench/chains.py               200 chains
    python tests/bench/chains.py --chains 50

Prints, for real tick processes: the time of one that starts every chain, of one that finds them all running, and of
one that finds them all over.  The jobs wait at a gate, so that nothing but ticks and shims runs.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from gpualert.places import python_command

JOB = b"/bin/sh\0-c\0read line <gate\0"


def tick(environ: dict[str, str]) -> str:
    """Run a tick; return how long it took, and how much processor time it took itself."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.monotonic()
    subprocess.run(python_command("tick"), env=environ, check=True)
    took_s = time.monotonic() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    own_s = after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime
    return f"{took_s:6.2f} s, {own_s:5.2f} s of processor time"


def prepare(folder: Path, count: int) -> dict[str, str]:
    """Make the chains, all due; return the environment of the ticks."""
    environ = {"HOME": str(folder), "PATH": "/usr/bin:/bin", "GPUALERT_HOME": str(folder / "state")}
    environ |= {"GPUALERT_POST": "tick", "GPUALERT_MAIL": "none"}
    words = python_command("chain", "start", "--name", "model", "--", "true")
    subprocess.run(words, cwd=folder, env=environ, check=True, capture_output=True)
    chains, model = folder / "state" / "chains", folder / "model"
    shutil.copytree(chains / "model", model)
    for file in (model / "attempts").iterdir():
        file.unlink()
    (model / "command").write_bytes(JOB)
    subprocess.run(python_command("chain", "stop", "model"), env=environ, check=True, capture_output=True)
    tick(environ)  # what is left to do about that one is no part of what is measured
    for number in range(count):
        shutil.copytree(model, chains / f"copy-{number}")
    return environ


def main() -> int:
    """Print the times."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[1])
    parser.add_argument("--chains", type=int, default=200)
    count = parser.parse_args().chains
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        os.mkfifo(folder / "gate")
        gate = os.open(folder / "gate", os.O_RDWR)
        environ = prepare(folder, count)
        print(f"{count} chains, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
        print(f"all are started  {tick(environ)}")
        attempts = list((folder / "state/chains").glob("copy-*/attempts/1.json"))
        assert len(attempts) == count, f"{len(attempts)} were started"
        time.sleep(2)
        print(f"all are running  {tick(environ)}")
        for path in (folder / "state/chains").glob("copy-*"):
            (path / "over").touch()
        print(f"all are over     {tick(environ)}")
        (folder / "gate").unlink()
        os.close(gate)
        time.sleep(1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
