"""Ranks of a step that end one after another, are killed for one another, or belong to an outer run: one message."""

from __future__ import annotations

import re

import pytest
from outcomes import body

from .jobs import GPUALERT, User

pytestmark = pytest.mark.engines

_TRAIN = """
import os, sys, time
rank = int(os.environ["SLURM_PROCID"])
print("step 1", flush=True)
mode, pause_s = sys.argv[1], float(sys.argv[2])
if mode == "well":
    time.sleep(3 if rank == 0 else 0)
    sys.exit(0)
time.sleep(pause_s * ((rank - 2) % 4))
if rank == 2:
    raise ZeroDivisionError("bad")
print(f"[rank{rank}]: torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1970, "
      "unhandled system error", flush=True)
sys.exit(1)
"""


@pytest.fixture
def trainer(user: User) -> User:
    """Return a user with a program whose rank 2 fails first."""
    (user.work / "train.py").write_text(_TRAIN)
    return user


def subjects(user: User) -> list[str]:
    return [re.sub(r" after [0-9][0-9.a-z ]*(?=\(|$)", " ", str(mail["Subject"])).strip() for mail in user.mails()]


@pytest.mark.parametrize("pause_s", [0.2, 1.0])
def test_ranks_whose_step_is_killed_at_the_first_error_are_told_once(trainer: User, pause_s: float) -> None:
    ranks = f"srun -K {GPUALERT} run -- python3 train.py fail {pause_s}"
    trainer.finish(f"scontrol show hostnames > nodes\n{ranks}", "-N4", "-n4", limit_s=90)
    trainer.gpualert("tick")  # on a machine that is very busy the step may be killed before all is told
    node = (trainer.work / "nodes").read_text().split()[2]
    assert subjects(trainer) == [f"FAILED div_zero: train.py on 4 nodes (rank 2 on {node} first)"]


def test_ranks_that_end_well_one_after_another_are_told_with_the_last(trainer: User) -> None:
    _, end = trainer.finish(f"srun {GPUALERT} run -- python3 train.py well 0", "-N4", "-n4", limit_s=90)
    assert end.state == "COMPLETED"
    assert subjects(trainer) == ["OK: train.py on 4 nodes"]


def test_ranks_inside_an_outer_run_are_told_by_that(trainer: User) -> None:
    script = f"exec {GPUALERT} run --name outer -- srun {GPUALERT} run -- python3 train.py fail 0.2"
    trainer.finish(script, "-N4", "-n4", "-w", "n[1-4]", limit_s=90)
    (mail,) = trainer.mails()
    assert str(mail["Subject"]).strip().startswith("FAILED div_zero: outer on n1")
    assert "1 inside it failed" in str(mail["Subject"]) and "FAILED div_zero: train.py" in body(mail)
