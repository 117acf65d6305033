"""The ranks of a real mpirun: one verdict and one message."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from outcomes import body, messages, tick_once

from gpualert.places import shim

pytestmark = [
    pytest.mark.engines,
    pytest.mark.skipif(not shutil.which("mpirun"), reason="no mpirun (package openmpi-bin)"),
]

_TRAIN = """
import os, sys, time
rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
print("rank", rank, "starts", flush=True)
if rank == 2 and "fail" in sys.argv:
    time.sleep(0.5)
    open("/no/such/data.bin")
time.sleep(60 if "fail" in sys.argv else 0.1 * rank)
"""


def mpirun(folder: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    """Run four ranks, each through the shim."""
    (folder / "train.py").write_text(_TRAIN)
    command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "4", "sh", str(shim()), "run", "--"]
    # mpirun kills at once what is left in a rank's process group; what is detached may not have left it yet.
    environ = {**os.environ, "GPUALERT_PYTHON": sys.executable, "GPUALERT_POST": "wait"}
    return subprocess.run(
        [*command, sys.executable, "train.py", *words],
        cwd=folder, env=environ, stdin=subprocess.DEVNULL, capture_output=True, timeout=90, check=False,
    )  # fmt: skip


def test_a_rank_that_fails_and_those_that_mpirun_kills_for_it_are_one_message(tmp_path: Path, state: Path) -> None:
    assert mpirun(tmp_path, "fail").returncode == 1
    (mail,) = messages(state)
    assert str(mail["Subject"]).strip().startswith("FAILED file_not_found: train.py on ")
    assert str(mail["Subject"]).endswith("(rank 2 first)")
    assert sum(line.startswith("rank ") for line in body(mail).splitlines()) == 4
    assert tick_once(state) == []  # finishes the reports that mpirun killed
    assert len(messages(state)) == 1


def test_ranks_that_end_well_at_different_times_are_one_message(tmp_path: Path, state: Path) -> None:
    assert mpirun(tmp_path).returncode == 0
    (mail,) = messages(state)
    assert str(mail["Subject"]).startswith("OK: train.py on ")
    assert "did not report" not in str(mail["Subject"])
