"""Which rank failed first, where its line does not say so."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpualert.classify import classify
from gpualert.classify.ranks import rank_of
from gpualert.model import Facts, LogFile
from gpualert.rules import load_rules
from gpualert.scan import open_log

TORCHRUN = """\
Root Cause (first observed failure):
[0]:
  time      : 2026-11-29_10:00:00
  host      : node03
  rank      : 11 (local_rank: 3)
  exitcode  : 1 (pid: 40118)
"""


@pytest.mark.parametrize(
    ("text", "log", "rank"),
    [
        ("Did not get subsequent heartbeat. Waited 900 seconds. Rank 6", "", 6),
        ("[h21:rank 13] OSError: [Errno 121] Remote I/O error", "", 13),
        ("main.py: error: unrecognized arguments: --local-rank=2", "", 2),
        ("amrex::Abort::2::CUDA error 700 in file X", "", 2),
        ("Out of memory error on GPU 3. Cannot allocate 768MB memory on GPU 3", "", 3),
        ("rank 3 of 8 reports", "", None),
        ("ValueError: bad value", "", None),
        ("ValueError: bad value", TORCHRUN, 11),
        ("ValueError: bad value", "failed (exitcode: -11) local_rank: 1 (pid: 40118) of binary: python\n", 1),
        ("ValueError: bad value", "-- Process 5 terminated with the following error:\n", 5),
        ("ValueError: bad value", "  Process name: [[34567,1],4]\n  Exit code:    1\n", 4),
        ("ValueError: bad value", "=   RANK 5 PID 33915 RUNNING AT node03\n", 5),
        ("ValueError: bad value", "[rank: 3] Child process with PID 1240 terminated with code 1.\n", 3),
        ("ValueError: bad value", "srun: error: node03: task 7: Exited with exit code 1\n", 7),
        ("ValueError: bad value", "Rank 2 crashed with exit code 1.\n", 2),
        ("[node03:190331] Signal: Segmentation fault (11)", "rank 9 has pid 190331\n" + TORCHRUN, 9),
        ("Out of memory: Killed process 40118 (python)", "rank 4 of pid 51\n" + TORCHRUN, 11),
        ("DataLoader worker (pid 77) is killed", "pid=77) world_rank=6, local_rank=0\n", 6),
        ("F0907 06:39:58.410552 33915 sampler.cu:512] Check failed", "worker rank 5, process 33915\n", 5),
        ("node03:88:301 [3] misc/shmutils.cc:72 NCCL WARN failed", "", 3),
        (
            "node03:88:301 [3] include/socket.h:361 NCCL WARN failed",
            "node03:88:88 [3] NCCL INFO comm 0x5 rank 27\n",
            27,
        ),
    ],
)
def test_the_rank_is_told_by_the_line_its_process_the_launcher_or_the_card(
    tmp_path: Path, text: str, log: str, rank: int | None
) -> None:
    path = tmp_path / "x.log"
    path.write_text(f"step 1\n{log}\n")
    assert rank_of(text, open_log(LogFile("x.log", path))) == rank


def test_a_signals_line_is_asked_alone() -> None:
    assert rank_of("Killed process 77 (python)", None) is None
    assert rank_of("rank 3 is gone", None) == 3


def test_the_mark_before_a_line_comes_first(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_text(f"[rank7]: Traceback (most recent call last):\n[rank7]: ValueError: bad value\n{TORCHRUN}")
    assert classify([LogFile("x.log", path)], Facts(status=1), load_rules()).first_rank == 7


def test_a_verdict_without_a_mark_has_the_launchers_rank(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_text(f"Traceback (most recent call last):\n  File 'a.py', line 1\nValueError: bad value\n{TORCHRUN}")
    assert classify([LogFile("x.log", path)], Facts(status=1), load_rules()).first_rank == 11
