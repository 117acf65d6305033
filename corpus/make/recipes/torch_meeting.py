"""Ranks that are stopped, that leave, that do not meet."""

from __future__ import annotations

from corpus.make.recipes.ranks_base import program, ranks
from corpus.make.recipes.torch_base import torch
from corpus.make.recipes.torch_ranks import at

_STOP = "import signal\nos.kill(os.getpid(), signal.SIGSTOP)"
_RUN = "torchrun --nproc-per-node=2"

_STOPPED = [
    ranks(
        "nccl/stopped_rank",
        "Rank 1 is stopped by SIGSTOP, until its peer's all-reduce runs into its time-out.",
        "Timed out waiting 6000ms for recv operation to complete",
        program("ddp", at(1, 20, _STOP)),
        class_alt=("hang",),
    ),
    ranks(
        "nccl/stopped_rank_in_a_long_log",
        "Rank 2 of three is stopped after 1,300 lines, each with its rank.",
        "Timed out waiting 6000ms for recv operation to complete",
        program("ddp", at(2, 450, _STOP), steps=700),
        "tee",
        of=3,
        class_alt=("hang",),
    ),
    ranks(
        "nccl/stopped_rank_misses_a_barrier",
        "Rank 1 is stopped before a monitored barrier, which names it.",
        "failed to pass monitoredBarrier in 4000 ms",
        program("evaluate", at(1, 39, _STOP)),
        of=3,
        class_alt=("hang",),
        first_rank=1,
    ),
    ranks(
        "nccl/stopped_stage_under_mpirun",
        "The middle stage of a pipeline is stopped; its successor waits for activations in vain.",
        "Timed out waiting 6000ms for recv operation to complete",
        program("pipeline", at(1, 22, _STOP)),
        "mpirun",
        of=3,
        class_alt=("hang",),
    ),
    ranks(
        "nccl/stopped_rank_of_single_runs",
        "Each rank is a run of its own; rank 0 is stopped.",
        "Timed out waiting 6000ms for recv operation to complete",
        program("allreduce", at(0, 15, _STOP)),
        "each",
        class_alt=("hang",),
    ),
]
_LEFT = [
    ranks(
        "nccl/rank_leaves_early",
        "Rank 1 ends with status 0 in the middle; its peer's all-reduce finds the connection closed.",
        "gloo/transport/tcp/pair.cc",
        program("ddp", at(1, 20, "os._exit(0)")),
    ),
    ranks(
        "nccl/rank_with_fewer_batches",
        "Rank 2 has fewer batches than the others and is done before them; 1,200 lines, each with its rank.",
        "gloo/transport/tcp/pair.cc",
        program(
            "ddp",
            at(2, 410, 'print("rank 2: end of data", flush=True)\ndist.destroy_process_group()\nsys.exit(0)'),
            steps=430,
        ),
        "tee",
        of=3,
    ),
    ranks(
        "nccl/rank_leaves_under_mpirun",
        "The last stage of a pipeline returns early with status 0.",
        "gloo/transport/tcp/pair.cc",
        program("pipeline", at(2, 20, "time.sleep(1)\nos._exit(0)")),
        "mpirun",
        of=3,
    ),
    ranks(
        "nccl/rank_leaves_a_script",
        "bash starts four ranks; rank 3 leaves with status 0 and says why.",
        "gloo/transport/tcp/pair.cc",
        program("allreduce", at(3, 25, 'print("nothing left to do", flush=True)\nos._exit(0)')),
        "bash",
        of=4,
    ),
    ranks(
        "nccl/rank_leaves_single_runs",
        "Each rank is a run of its own; that of rank 0 succeeds too early.",
        "gloo/transport/tcp/pair.cc",
        program("allreduce", at(0, 11, "os._exit(0)")),
        "each",
    ),
    ranks(
        "nccl/rank_leaves_before_a_barrier",
        "Rank 1 leaves with status 0 before a monitored barrier, which names it; processes spawned by one program.",
        "Rank 1 failed to pass monitoredBarrier in 4000 ms",
        program("evaluate", at(1, 35, "os._exit(0)"), steps=38),
        "spawn",
        of=3,
        first_rank=1,
    ),
    ranks(
        "nccl/other_sizes_in_one_reduction",
        "Rank 1 reduces a tensor of another size than its peer: gloo finds that the messages do not fit.",
        "op.preamble.length <= op.nbytes",
        program("allreduce", at(1, 10, "dist.all_reduce(torch.zeros(7))")),
        class_alt=("runtime_error", "shape_mismatch"),
        action="fix",
    ),
]
_MEETING = [
    torch(
        "runtime_error/restart_that_did_not_help",
        "Rank 1 of two fails; torchrun starts both again, and the second attempt meets the addresses of the first.",
        "RuntimeError: glitch of a reader",
        program("ddp", at(1, 12, 'raise RuntimeError("glitch of a reader")')),
        command=f"{_RUN} --max-restarts=1 --master-port=29681 train.py",
        class_alt=("rendezvous", "nccl"),
        first_rank=1,
    ),
    ranks(
        "rendezvous/rank_joins_late",
        "Rank 1 comes 15 s after rank 0, which waits 6 s.",
        "1/2 clients joined",
        program("ddp", before='if os.environ["RANK"] == "1":\n    time.sleep(15)'),
        "bash",
    ),
    ranks(
        "rendezvous/rank_joins_late_under_mpirun",
        "Rank 2 is busy unpacking its data while the others wait; 1,100 lines of its progress.",
        "2/3 clients joined",
        program(
            "allreduce",
            before='if os.environ["RANK"] == "2":\n    for number in range(1100):\n'
            '        print(f"extracting train/{number:06d}.jpg", flush=True)\n    time.sleep(15)',
        ),
        "mpirun",
        of=3,
    ),
    ranks(
        "rendezvous/rank_joins_late_under_torchrun",
        "torchrun's store is there at once, but rank 1 does not add its address in time.",
        "wait timeout after 6000ms",
        program("ddp", before='if os.environ["RANK"] == "1":\n    time.sleep(20)'),
    ),
    ranks(
        "rendezvous/one_rank_too_few",
        "WORLD_SIZE says three, two are started.",
        "2/3 clients joined",
        program("allreduce", before='os.environ["WORLD_SIZE"] = "3"'),
        "bash",
    ),
    ranks(
        "rendezvous/ranks_of_two_opinions",
        "Rank 0 thinks of two ranks, rank 1 of three.",
        "wait timeout after 6000ms",
        program("pipeline", before='os.environ["WORLD_SIZE"] = str(2 + int(os.environ["RANK"]))\ntime.sleep(0.2)'),
        "bash",
    ),
    torch(
        "rendezvous/nobody_listens",
        "A second node is pointed to a port of the first where nobody listens.",
        "The client socket has timed out after 6000ms while trying to connect to (127.0.0.1, 29511)",
        program("ddp"),
        env={"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29511"},
    ),
    torch(
        "rendezvous/unknown_master",
        "MASTER_ADDR is a name that no server knows.",
        "The client socket has timed out after 6000ms",
        program("allreduce"),
        env={"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "gpu-head.cluster.example", "MASTER_PORT": "29500"},
        class_alt=("network",),
        evidence_alt=("gpu-head.cluster.example",),
        limit_s=90,
    ),
    torch(
        "rendezvous/second_node_missing",
        "torchrun waits for two nodes, and one comes.",
        "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError",
        program("ddp"),
        command="torchrun --nnodes=2 --nproc-per-node=1 --rdzv-backend=c10d --rdzv-endpoint=127.0.0.1:29400 --rdzv-id=7"
        " --rdzv-conf=join_timeout=6 train.py",
    ),
    torch(
        "rendezvous/endpoint_unreachable",
        "The rendezvous endpoint is an address that cannot be reached.",
        "RendezvousConnectionError: The connection to the C10d store has failed",
        program("ddp"),
        command="torchrun --nnodes=2 --nproc-per-node=1 --rdzv-backend=c10d --rdzv-endpoint=10.0.0.53:29400 --rdzv-id=7"
        " --rdzv-conf=timeout=8,read_timeout=6 train.py",
        limit_s=150,
    ),
    torch(
        "rendezvous/jax_coordinator_waits",
        "jax.distributed waits for a second process, which never comes.",
        "DEADLINE_EXCEEDED",
        """\
import jax

print("process 0 of 2", flush=True)
jax.distributed.initialize("127.0.0.1:8476", num_processes=2, process_id=0, initialization_timeout=6)
print(jax.device_count())
""",
        framework="jax",
        uses=("jax",),
    ),
]
RECIPES = [*_STOPPED, *_LEFT, *_MEETING]
