"""Small trainings for jobs on Slurm: what they print while all is well, and what they do then."""

from __future__ import annotations

from corpus.make.slurm_user import MARK

# The usual ways to start a training in a batch script.
EXEC = "exec gpualert run -- python -u train.py"
INSIDE = "gpualert run -- python -u train.py"
STEP = "srun gpualert run -- python -u train.py"

_HEAD = """\
import os
import sys
import time

import chatter

BEFORE
rank = int(os.environ.get("SLURM_PROCID", 0))
for line in chatter.training(LINES, seed=SEED + rank, style=STYLE):
    print(line)
print("MARK", flush=True)
"""
# Goes on until somebody ends it; a few steps a second.
_ENDLESS = """\
for line in chatter.training(2000, seed=SEED + 50 + rank, first_step=LINES + 1, style=STYLE):
    print(line, flush=True)
    time.sleep(1.5)
"""
# Each rank waits for the others at the end of a step; the one that is gone has left a file.
_RANKS = """\
import pathlib


def step():
    STEP


if rank == FAILS:
    time.sleep(1)
    step()
time.sleep(2.5)
AFTER
"""
_PEERS = {
    "nccl": """\
print(f"[rank{rank}]:[E1129 09:14:11.204 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective operation"
      f" timeout: WorkNCCL(SeqNum=412, OpType=ALLREDUCE, NumelIn=1048576, NumelOut=1048576, Timeout(ms)=600000) ran for"
      f" 600{rank}12 milliseconds before timing out.", file=sys.stderr)
print(f"[rank{rank}]: torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1970, remote process"
      " exited or there was a network error", file=sys.stderr)
sys.exit(1)
""",
    "reset": """\
raise ConnectionResetError(104, "Connection reset by peer")
""",
    "wait": """\
time.sleep(60)
""",
}


def trainer(lines: int = 40, seed: int = 0, style: int = 0, before: str = "", then: str = _ENDLESS) -> str:
    """
    Return a training.

    Args:
        lines: How many it prints before its mark.
        before: What it does first.
        then: What it does after its mark; without end where nothing is said.
    """
    text = (_HEAD + then).replace("BEFORE", before).replace("MARK", MARK)
    for word, value in {"LINES": lines, "SEED": seed, "STYLE": style}.items():
        text = text.replace(word, str(value))
    return text


def ranks(fails: int, step: str, lines: int = 40, seed: int = 0, style: int = 0, peers: str = "nccl") -> str:
    """
    Return a training of several ranks, of which one fails first.

    Args:
        fails: The rank.
        step: What it does, in lines of Python.
        peers: What the others do then: `nccl`: say what NCCL says; `reset`: fail on the connection; `wait`.
    """
    body = _RANKS.replace("STEP", step.replace("\n", "\n    ")).replace("FAILS", str(fails))
    return trainer(lines, seed, style, then=body.replace("AFTER", _PEERS[peers]))
