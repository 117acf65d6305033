"""Small data-parallel programs of several ranks, and the ways in which people start them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from corpus.make.recipe import Recipe, produced
from corpus.make.recipes.torch_base import ENV

_HEAD = """\
import datetime
import os
import sys
import time

import torch
import torch.distributed as dist

BEFORE
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=TIMEOUT))
rank, world = dist.get_rank(), dist.get_world_size()


def load(step):
    FAULT
    return torch.randn(16, 32), torch.randint(4, (16,))


"""
# The same work in the four ways in which programs talk to each other.
_PROGRAMS: Mapping[str, str] = {
    "ddp": """\
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(STEPS):
    inputs, labels = load(step)
    loss = torch.nn.functional.cross_entropy(model(inputs), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"Epoch 0 step {step} rank {rank} loss {loss.item():.4f}", flush=True)
dist.destroy_process_group()
""",
    "allreduce": """\
weights = torch.zeros(32, 4)
for step in range(STEPS):
    inputs, labels = load(step)
    gradient = inputs.T @ (torch.softmax(inputs @ weights, 1) - torch.nn.functional.one_hot(labels, 4).float())
    dist.all_reduce(gradient)
    weights -= 0.01 * gradient / world
    if rank == 0:
        print(f"it {step:6d} | grad {gradient.norm():.3f} | weights {weights.norm():.3f}", flush=True)
""",
    "pipeline": """\
for step in range(STEPS):
    activations, _ = load(step)
    if rank > 0:
        dist.recv(activations, rank - 1)
    activations = torch.tanh(activations)
    if rank < world - 1:
        dist.send(activations, rank + 1)
    print(f"stage {rank} micro-batch {step} mean {activations.mean():.4f}", flush=True)
dist.barrier()
""",
    "evaluate": """\
correct = torch.zeros(1)
for step in range(STEPS):
    inputs, labels = load(step)
    correct += (inputs[:, :4].argmax(1) == labels).sum()
    if step % 10 == 0:
        gathered = [torch.zeros(1) for _ in range(world)]
        dist.all_gather(gathered, correct)
        print(f"rank {rank}: evaluated {step} batches, {int(sum(gathered))} right", flush=True)
dist.monitored_barrier(timeout=datetime.timedelta(seconds=4 if rank == 0 else 20))
""",
}
_BASH = """\
export MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 WORLD_SIZE=RANKS
pids=
for rank in $(seq 0 $((WORLD_SIZE - 1))); do
    RANK=$rank python -u train.py > >(sed "s/^/[rank$rank] /") 2>&1 &
    pids="$pids $!"
done
status=0
for pid in $pids; do wait $pid || status=$?; done
sleep 0.2
exit $status
"""
_SPAWN = """\
import os
import runpy

import torch.multiprocessing as mp


def main(rank, world):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29500", RANK=str(rank), WORLD_SIZE=str(world))
    runpy.run_path("train.py", run_name="__main__")


if __name__ == "__main__":
    mp.spawn(main, args=(RANKS,), nprocs=RANKS)
"""
_MPI = "RANK=$OMPI_COMM_WORLD_RANK WORLD_SIZE=$OMPI_COMM_WORLD_SIZE MASTER_ADDR=127.0.0.1 MASTER_PORT=29500"
_TORCHRUN = "torchrun --nproc-per-node=RANKS --master-port=29500"


def program(kind: str, fault: str = "pass", steps: int = 40, before: str = "", timeout_s: float = 6) -> str:
    """Return a program of several ranks; `fault` stands where it loads its data, `before` where it has not yet met."""
    text = _HEAD + _PROGRAMS[kind]
    indented = "\n    ".join(fault.strip().splitlines())
    for word, value in {"FAULT": indented, "BEFORE": before, "STEPS": steps, "TIMEOUT": timeout_s}.items():
        text = text.replace(word, str(value))
    return text


def ranks(name: str, how: str, evidence: str, text: str, launch: str = "torchrun", of: int = 2, **more: Any) -> Recipe:
    """
    Return the recipe of a program of several ranks, `train.py`.

    Args:
        launch: `torchrun`; `tee`: the same, each line with its rank; `each`: the same, each rank a run of its own;
            `mpirun`, `bash`, `spawn`.
        of: How many ranks.
    """
    env = {**ENV, "GLOO_SOCKET_IFNAME": "lo", **more.pop("env", {})}
    files = {"train.py": text, **more.pop("files", {})}
    limit_s = more.pop("limit_s", 180.0)
    command, whole = "", ""
    if launch == "torchrun":
        command = f"{_TORCHRUN} train.py"
    elif launch == "tee":
        command = f"{_TORCHRUN} --tee 3 --log-dir logs train.py"
    elif launch == "each":
        whole = f"{_TORCHRUN} --no-python gpualert run -- python -u train.py"
    elif launch == "mpirun":
        whole = f"gpualert run -- mpirun --oversubscribe --tag-output -n RANKS sh -c '{_MPI} exec python -u train.py'"
    elif launch == "bash":
        files["launch.sh"], command = _BASH.replace("RANKS", str(of)), "bash launch.sh"
    else:
        files["spawn.py"], command = _SPAWN.replace("RANKS", str(of)), "python -u spawn.py"
    more = {"framework": "pytorch", "uses": ("torch", "mpirun") if launch == "mpirun" else ("torch",), **more}
    return produced(
        name,
        f"{how} {of} ranks on gloo.",
        evidence,
        command.replace("RANKS", str(of)),
        launch=whole.replace("RANKS", str(of)),
        files=files,
        env=env,
        limit_s=limit_s,
        **more,
    )
