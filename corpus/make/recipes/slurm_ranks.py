"""Ranks of a step on Slurm, of which one fails first: each a run of its own, or all under one srun."""

from __future__ import annotations

from typing import Any

from corpus.make.recipe import Recipe
from corpus.make.recipes.slurm_base import ranks
from corpus.make.slurm import submitted

_EACH = "srun gpualert run -- python -u train.py"
_EACH_KILLED = "srun -K gpualert run -- python -u train.py"
_OUTER = "exec gpualert run -- srun -l python -u train.py"
_OUTER_KILLED = "exec gpualert run -- srun -l -K python -u train.py"


def _step(name: str, how: str, evidence: str, script: str, program: str, rank: int, of: int = 4, **more: Any) -> Recipe:
    """Return the recipe of a step of `of` ranks, each on a node of its own."""
    files = {"train.py": program, **more.pop("files", {})}
    return submitted(name, how, evidence, script, f"-N{of} -n{of}", files=files, first_rank=rank, **more)


RECIPES = [
    _step(
        "traceback/slurm_one_of_eight_ranks",
        "Eight ranks, each a run of its own; rank 5 misses a key, and the others say what NCCL says. 2,000 lines.",
        "KeyError: 'layers.11.router.weight'",
        _EACH,
        ranks(5, 'print({"layers.11.router.bias": 1}["layers.11.router.weight"])', 250, 9800, 0),
        5,
        of=8,
    ),
    _step(
        "segfault/slurm_one_of_four_ranks",
        "Four ranks under one srun; rank 2 reads address 0, and srun tells of it.",
        "Segmentation fault",
        _OUTER,
        ranks(2, "import ctypes\nctypes.c_int.from_address(0).value", 40, 9810, 1, peers="reset"),
        2,
    ),
    _step(
        "file_not_found/slurm_one_of_four_ranks",
        "Four ranks, each a run of its own; rank 3 finds no shard, and the others say what NCCL says.",
        "FileNotFoundError: [Errno 2] No such file or directory: '/data/shard-03.tar'",
        _EACH,
        ranks(3, 'open(f"/data/shard-{rank:02d}.tar", "rb")', 60, 9820, 2),
        3,
    ),
    _step(
        "div_zero/slurm_one_of_four_ranks",
        "Four ranks under one srun, 1,600 lines; rank 1 has no rows, and the others say what NCCL says.",
        "ZeroDivisionError: division by zero",
        _OUTER,
        ranks(1, "rows = []\nprint(sum(rows) / len(rows))", 400, 9830, 3),
        1,
    ),
    _step(
        "assertion/slurm_step_killed_on_bad_exit",
        "Four ranks, each a run of its own; rank 0 finds a wrong size, and srun -K ends the others.",
        "AssertionError: vocabulary is 50257, checkpoint has 50304",
        _EACH_KILLED,
        ranks(0, 'assert 50257 == 50304, "vocabulary is 50257, checkpoint has 50304"', 70, 9840, 4, peers="wait"),
        0,
    ),
    _step(
        "ram_oom/slurm_rank_under_ulimit",
        "Four ranks under one srun; rank 2 has a limit on its memory, and asks for more.",
        "MemoryError",
        "exec gpualert run -- srun -l bash rank.sh",
        ranks(2, "batch = bytearray(2 << 30)", 50, 9850, 0),
        2,
        files={"rank.sh": '[ "$SLURM_PROCID" != 2 ] || ulimit -v 600000\nexec python -u train.py\n'},
    ),
    _step(
        "unknown/slurm_killed_rank",
        "Four ranks under one srun -K; rank 1 dies by SIGKILL, and nothing says who sent it.",
        "",
        _OUTER_KILLED,
        ranks(1, "import signal\nos.kill(os.getpid(), signal.SIGKILL)", 45, 9860, 1, peers="wait"),
        1,
        class_alt=("interrupted",),
    ),
    _step(
        "runtime_error/slurm_one_of_eight_ranks",
        "Eight ranks under one srun -K, 1,440 lines; rank 6 finds its stage out of order.",
        "RuntimeError: pipeline stage 6 received micro-batch 9 before 8",
        _OUTER_KILLED,
        ranks(6, 'raise RuntimeError("pipeline stage 6 received micro-batch 9 before 8")', 180, 9870, 2, peers="reset"),
        6,
        of=8,
    ),
]
