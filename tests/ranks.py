"""Run directories of one group for tests: what srun leaves of `srun -N8 gpualert run python train.py`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rundirs import NOW, RunBuilder

GROUP = "slurm-4711.0.0"
OOM = b"step 1\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB.\n"


def watchdog(rank: int) -> bytes:
    """Return the log of a rank that waited in vain for another one."""
    return (
        f"step 1\n[rank{rank}]:[E1129 14:53:20.11 ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught collective "
        "operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for "
        "600012 milliseconds before timing out.\n"
    ).encode()


class Ranks:
    """Makes the runs of one group; call it with a rank and what differs from a run that ended well."""

    def __init__(
        self, make_run: RunBuilder, size: int = 8, group: str = GROUP, stamp: str = "20261129T145138Z"
    ) -> None:
        self.make_run, self.size, self.group, self.stamp = make_run, size, group, stamp

    def __call__(
        self, rank: int, *, log: bytes = b"done\n", start: Mapping[str, object] | None = None, **more: object
    ) -> Path:
        run_id = f"{self.stamp}-n{rank}-{rank:08x}"
        own = {"run_id": run_id, "node": f"n{rank}", "group": self.group, "group_size": self.size, "group_rank": rank}
        return self.make_run(run_id, log=log, start={**own, **(start or {})}, **{"exit": {"status": 0}, **more})  # type: ignore[arg-type]

    def failed(self, rank: int, log: bytes = OOM, *, status: int = 1, after_s: float = 0.0, **more: object) -> Path:
        """Make a run that failed, `after_s` later than others."""
        return self(rank, log=log, exit={"status": status, "ended_at": NOW + after_s}, **more)

    def with_one_cause(self, cause: int = 5) -> list[Path]:
        """Make all of them: one ran out of memory, the others waited for it and failed a second later."""
        return [
            self.failed(rank) if rank == cause else self.failed(rank, watchdog(rank), after_s=1)
            for rank in range(self.size)
        ]
