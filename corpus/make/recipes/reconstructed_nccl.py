"""Collectives of NCCL that fail, where nothing earlier explains it."""

from __future__ import annotations

from corpus.make.chatter import interleaved, nccl_info, prefixed, training
from corpus.make.recipe import Recipe, Text
from corpus.make.recipes.reconstructed_base import (
    joined,
    labelled,
    mpirun_ends,
    of_rank,
    srun_ends,
    steps,
    told,
    torchrun_ends,
    trace,
    watchdog,
)

_GUIDE = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html"


def _dist_error(kind: str, name: str, meaning: str, last: str) -> str:
    """Return the message of PyTorch for an error that NCCL has returned."""
    return f"""\
torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.hpp:317, {kind} (run \
with NCCL_DEBUG=INFO for details), NCCL version 2.21.5
{name}: {meaning}
Last error:
{last}"""


_USAGE = ("invalid usage", "ncclInvalidUsage", "This usually reflects invalid usage of NCCL library.")
_REMOTE = (
    "remote process exited or there was a network error",
    "ncclRemoteError",
    "A call failed possibly due to a network error or a remote process exiting prematurely.",
)
_SYSTEM = (
    "unhandled system error",
    "ncclSystemError",
    "System call (e.g. socket, malloc) or external library call failed or device error.",
)


def _one_rank_log(rank: int) -> str:
    """Return the log of one of four runs, of which rank 2 has stopped making progress."""
    lines = steps(300 if rank != 2 else 288, seed=7490, style=0)
    if rank == 2:
        return joined(lines)
    return joined(lines, watchdog(rank, 300), "terminate called after throwing an instance of 'c10::DistBackendError'")


RECIPES = [
    told(
        "nccl/all_ranks_time_out",
        "Eight ranks time out in the same all-reduce after 1,200 steps; none says why.",
        "https://github.com/XPixelGroup/BasicSR/issues/737",
        "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4818, OpType=ALLREDUCE",
        nccl_info(8, seed=7401),
        steps(1200, seed=7402, style=1),
        *(watchdog(rank, 4818) for rank in (0, 4, 1, 2, 7, 3, 6, 5)),
        "terminate called after throwing an instance of 'c10::DistBackendError'",
        torchrun_ends(0, 8, status=-6),
        command="torchrun --nproc-per-node 8 train.py",
        evidence_alt=tuple(f"[Rank {rank}] Watchdog caught collective operation timeout" for rank in range(1, 8)),
        class_alt=("hang",),
    ),
    told(
        "nccl/infiniband_completion_error",
        "Rank 9 of 16 gets no answer from its peer over InfiniBand; the ranks around it lose their connections.",
        "https://github.com/NVIDIA/nccl/issues/1814",
        "NCCL WARN NET/IB: Got completion from peer 10.1.0.11<44206> with status=12 opcode=0 len=0 vendor err 129",
        interleaved([prefixed(training(1250, 7410, style=4), "srun", 15)], seed=7411),
        """\
 9: node02:30185:30611 [1] transport/net_ib.cc:2007 NCCL WARN NET/IB: Got completion from peer 10.1.0.11<44206> \
with status=12 opcode=0 len=0 vendor err 129 (Send) localGid ::ffff:10.1.0.12 remoteGids::ffff:10.1.0.11 hca mlx5_1
 9: node02:30185:30611 [1] NCCL INFO transport/net.cc:1298 -> 6
 9: node02:30185:30611 [1] NCCL INFO proxy.cc:694 -> 6
 9: node02:30185:30611 [1] NCCL INFO proxy.cc:874 -> 6 [Progress Thread]
""",
        labelled(
            " 9: ",
            of_rank(
                9,
                trace(
                    _dist_error(*_REMOTE, "NET/IB: Got completion from peer 10.1.0.11<44206> with status=12"),
                    "pretrain.py|310|<module>|main()",
                    "torch/distributed/distributed_c10d.py|2501|all_reduce|work = group.allreduce([tensor], opts)",
                ),
            ),
        ),
        """\
 1: node01:4101:4966 [1] misc/socket.cc:71 NCCL WARN Connection closed by remote peer node02<41217>
 8: node02:30184:30610 [0] misc/socket.cc:71 NCCL WARN Connection closed by remote peer node02<55102>
""",
        srun_ends(9, status=1),
        command="srun -l python pretrain.py",
        first_rank=9,
        evidence_alt=("ncclRemoteError: A call failed possibly due to a network error",),
    ),
    told(
        "nccl/two_ranks_on_one_card",
        "CUDA_VISIBLE_DEVICES names one card for two ranks: NCCL refuses, and would refuse again.",
        "https://github.com/verl-project/verl/issues/161",
        "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 41000",
        "Initializing distributed: world size 2, backend nccl",
        of_rank(
            1,
            trace(
                _dist_error(*_USAGE, "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 41000"),
                "train.py|60|<module>|model = DistributedDataParallel(model)",
                "torch/nn/parallel/distributed.py|835|__init__|_verify_param_shape_across_processes(",
            ),
        ),
        of_rank(
            0,
            trace(
                _dist_error(*_USAGE, "Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 41000"),
                "train.py|60|<module>|model = DistributedDataParallel(model)",
                "torch/nn/parallel/distributed.py|835|__init__|_verify_param_shape_across_processes(",
            ),
        ),
        torchrun_ends(1, 2),
        command="torchrun --nproc-per-node 2 train.py",
        action="fix",
        evidence_alt=("Duplicate GPU detected : rank 0 and rank 1", "ncclInvalidUsage: This usually reflects"),
    ),
    told(
        "nccl/connect_aborted",
        "Rank 3 cannot connect to the network interface that a peer has announced.",
        "https://github.com/NVIDIA/nccl/issues/1515",
        "NCCL WARN socketStartConnect: Connect to 172.17.0.1<45763> failed : Software caused connection abort",
        nccl_info(4, seed=7431),
        """\
node01:4103:4203 [3] misc/socket.cc:483 NCCL WARN socketStartConnect: Connect to 172.17.0.1<45763> failed : \
Software caused connection abort
node01:4103:4203 [3] NCCL INFO misc/socket.cc:564 -> 2
node01:4103:4203 [3] NCCL INFO transport/net_socket.cc:336 -> 2
node01:4103:4203 [3] NCCL INFO transport/net.cc:592 -> 2
""",
        of_rank(
            3,
            trace(
                _dist_error(
                    *_SYSTEM,
                    "socketStartConnect: Connect to 172.17.0.1<45763> failed : Software caused connection abort",
                ),
                "train.py|44|<module>|dist.barrier()",
                "torch/distributed/distributed_c10d.py|4159|barrier|work = group.barrier(opts=opts)",
            ),
        ),
        torchrun_ends(3, 4),
        command="torchrun --nnodes 2 --nproc-per-node 4 train.py",
        first_rank=3,
        evidence_alt=(
            "socketStartConnect: Connect to 172.17.0.1<45763> failed : Software",
            "ncclSystemError: System call (e.g. socket, malloc)",
        ),
    ),
    told(
        "nccl/watchdog_is_stuck",
        "The monitor of PyTorch finds that the watchdog itself has stood still for 480 seconds.",
        "https://github.com/pytorch/pytorch/blob/main/torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp",
        "ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress in monitoring enqueued"
        " collectives.",
        steps(150, seed=7440, style=0),
        """\
[rank0]:[E314 22:15:40.118204517 ProcessGroupNCCL.cpp:1414] [PG ID 0 PG GUID 0(default_pg) Rank 0] First PG on this \
rank that detected no heartbeat of its watchdog.
[rank0]:[E314 22:15:40.118310226 ProcessGroupNCCL.cpp:1453] [PG ID 0 PG GUID 0(default_pg) Rank 0] Heartbeat \
monitor timed out! Process will be terminated after dumping debug info. workMetaList_.size()=2
[rank0]:[F314 22:25:40.120114902 ProcessGroupNCCL.cpp:1480] [PG ID 0 PG GUID 0(default_pg) Rank 0] [PG ID 0 PG GUID \
0(default_pg) Rank 0] ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress in monitoring \
enqueued collectives. This typically indicates a NCCL/CUDA API (e.g., CudaEventDestroy) hang blocking the watchdog, \
and could be triggered by another thread holding the GIL inside a CUDA api (for example, CudaEventDestroy), or \
other deadlock-prone behaviors.
""",
        torchrun_ends(0, 8, status=-6),
        command="torchrun --nproc-per-node 8 train.py",
        class_alt=("hang",),
        evidence_alt=("Heartbeat monitor timed out!", "First PG on this rank that detected no heartbeat"),
    ),
    told(
        "nccl/jax_across_hosts",
        "A psum across two hosts ends with a system error of NCCL, as XLA reports it.",
        "https://docs.jax.dev/en/latest/gpu_performance_tips.html and XLA's nccl_api.cc",
        "XlaRuntimeError: INTERNAL: NCCL operation ncclCommInitRankConfig(",
        """\
I0314 10:14:02.330117 140021 distributed.py:106] Connecting to JAX distributed service on node01:8476
I0314 10:14:10.018204 140021 main.py:41] process 1 of 2, 4 local devices, 8 global devices
""",
        trace(
            "jaxlib.xla_extension.XlaRuntimeError: INTERNAL: NCCL operation ncclCommInitRankConfig(&comm_handle,"
            " nranks, AsNcclUniqueId(clique_id), rank, &comm_config) failed: unhandled system error (run with"
            " NCCL_DEBUG=INFO for details). Last NCCL warning(error) log entry (may be unrelated) 'Error: network"
            " not found.'.",
            "main.py|88|<module>|state = train(state, batches)",
            "main.py|70|train|grads = jax.lax.psum(grads, 'data')",
        ),
        command="python main.py --coordinator node01:8476",
        framework="jax",
    ),
    told(
        "nccl/horovod_cannot_make_a_communicator",
        "Horovod with four ranks under Open MPI: making the communicator fails on rank 2 first.",
        "https://github.com/horovod/horovod/issues/3929",
        "horovod.common.exceptions.HorovodInternalError: ncclCommInitRank failed: unhandled system error",
        interleaved(
            [
                prefixed([f"rank {rank}: 312 batches a epoch", f"rank {rank}: broadcasting variables"], "mpirun", rank)
                for rank in range(4)
            ],
            seed=7461,
        ),
        labelled(
            "[1,2]<stderr>:",
            trace(
                "horovod.common.exceptions.HorovodInternalError: ncclCommInitRank failed: unhandled system error",
                "train.py|51|<module>|hvd.broadcast_variables(model.variables, root_rank=0)",
                "horovod/tensorflow/mpi_ops.py|401|broadcast|return MPI_LIB.horovod_broadcast(tensor, name=name,",
            ),
        ),
        mpirun_ends(2),
        command="mpirun --tag-output -np 4 python train.py",
        framework="horovod",
        first_rank=2,
    ),
    told(
        "nccl/tests_of_nvidia",
        "The tests of NVIDIA themselves lose a peer half way through.",
        "https://github.com/NVIDIA/nccl-tests/issues/166",
        "Test NCCL failure common.cu:958 'remote process exited or there was a network error",
        """\
# nThread 1 nGpus 1 minBytes 8 maxBytes 8589934592 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 \
validation: 1 graph: 0
#
# Using devices
#  Rank  0 Group  0 Pid  22816 on     node01 device  0 [0x19] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid  22817 on     node02 device  0 [0x19] NVIDIA H100 80GB HBM3
#
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
           8             2     float     sum      -1    41.02    0.00    0.00      0    38.11    0.00    0.00      0
     1048576        262144     float     sum      -1    88.61   11.83   11.83      0    87.92   11.93   11.93      0
node01: Test NCCL failure common.cu:958 'remote process exited or there was a network error / '
 .. node01 pid 22816: Test failure common.cu:844
 .. node01 pid 22816: Test failure all_reduce.cu:87
""",
        mpirun_ends(0),
        command="mpirun -np 2 ./build/all_reduce_perf -b 8 -e 8G -f 2",
        framework="nccl-tests",
        first_rank=0,
    ),
    told(
        "nccl/versions_differ",
        "The image of the second node holds an older NCCL: the library refuses.",
        "https://github.com/NVIDIA/nccl/blob/master/src/init.cc",
        "Mismatched NCCL version detected : rank 0 version 22105 rank 4 version 21805",
        "[2026-03-14 07:31:10] world size 8 on 2 nodes",
        """\
node01:4100:4200 [0] init.cc:1011 NCCL WARN Mismatched NCCL version detected : rank 0 version 22105 rank 4 version \
21805
node01:4100:4200 [0] NCCL INFO init.cc:1532 -> 5
""",
        of_rank(
            0,
            trace(
                _dist_error(*_USAGE, "Mismatched NCCL version detected : rank 0 version 22105 rank 4 version 21805"),
                "train.py|29|<module>|dist.barrier()",
                "torch/distributed/distributed_c10d.py|4159|barrier|work = group.barrier(opts=opts)",
            ),
        ),
        command="torchrun --nnodes 2 --nproc-per-node 4 train.py",
        action="fix",
        class_alt=("library_abi",),
        evidence_alt=("ncclInvalidUsage: This usually reflects",),
    ),
    told(
        "nccl/no_interface_of_that_name",
        "NCCL_SOCKET_IFNAME names an interface that the node does not have.",
        _GUIDE,
        "NCCL WARN Bootstrap : no socket interface found",
        """\
node07:8810:8810 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to bond0

node07:8810:8810 [0] bootstrap.cc:45 NCCL WARN Bootstrap : no socket interface found
node07:8810:8810 [0] NCCL INFO init.cc:102 -> 3
""",
        trace(
            "torch.distributed.DistBackendError: NCCL error in:"
            " ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:2005, internal error - please report this issue"
            " to the NCCL developers, NCCL version 2.21.5\nncclInternalError: Internal check failed.\nLast"
            " error:\nBootstrap : no socket interface found",
            "train.py|22|<module>|dist.broadcast(seed, src=0)",
            "torch/distributed/distributed_c10d.py|2421|broadcast|work = group.broadcast([tensor], opts)",
        ),
        command="python train.py",
        action="fix",
        class_alt=("config_error",),
        evidence_alt=("Bootstrap : no socket interface found", "ncclInternalError: Internal check failed."),
    ),
    told(
        "nccl/rank_0_evaluates_alone",
        "Lightning: rank 0 still evaluates when the others wait in a broadcast; rank 1 times out first.",
        "https://github.com/jpata/particleflow/issues/390",
        "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=41, OpType=BROADCAST",
        "GPU available: True (cuda), used: True\nLOCAL_RANK: 1 - CUDA_VISIBLE_DEVICES: [0,1,2,3]\nLOCAL_RANK: 0 -"
        " CUDA_VISIBLE_DEVICES: [0,1,2,3]",
        (
            f"Validation: {n / 12:5.1f}%|{'#' * (n // 60):20}| {n}/1200 [{n // 60:02d}:{n % 60:02d}<10:00]"
            for n in range(1040)
        ),
        watchdog(1, 41, "BROADCAST", 1, 1_800_000),
        watchdog(3, 41, "BROADCAST", 1, 1_800_000),
        "[rank1]:[E314 23:01:04.100311 ProcessGroupNCCL.cpp:542] terminate called after throwing an instance of"
        " 'c10::DistBackendError'",
        "Aborted (core dumped)",
        command="bash train.sh",
        framework="lightning",
        status=134,
        first_rank=1,
        class_alt=("hang",),
        evidence_alt=("[Rank 3] Watchdog caught collective operation timeout",),
    ),
    told(
        "nccl/switch_of_nvlink_binds_no_memory",
        "The switch of NVLink cannot bind multicast memory for rank 4, which ends the start of NCCL.",
        "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-nvls-enable",
        "NCCL WARN Failed to bind NVLink SHARP (NVLS) Multicast memory of size 2097152 : CUDA error 401",
        nccl_info(8, seed=7482),
        """\
node01:4104:4204 [4] transport/nvls.cc:257 NCCL WARN Failed to bind NVLink SHARP (NVLS) Multicast memory of size \
2097152 : CUDA error 401 'the operation cannot be performed in the present state'.
This is usually caused by a system or configuration error in the Fabric Manager or NVSwitches.
Disable NVLS (NCCL_NVLS_ENABLE=0) to avoid this error, or correct the system error.
node01:4104:4204 [4] NCCL INFO transport/nvls.cc:488 -> 1
""",
        of_rank(
            4,
            trace(
                _dist_error(
                    "unhandled cuda error",
                    "ncclUnhandledCudaError",
                    "Call to CUDA function failed.",
                    "Failed to bind NVLink SHARP (NVLS) Multicast memory of size 2097152",
                ),
                "train.py|71|<module>|dist.all_reduce(ready)",
                "torch/distributed/distributed_c10d.py|2501|all_reduce|work = group.allreduce([tensor], opts)",
            ),
        ),
        torchrun_ends(4, 8),
        command="torchrun --nproc-per-node 8 train.py",
        first_rank=4,
        class_alt=("gpu_hardware",),
        action="elsewhere",
        settled="retry became elsewhere: the state of a node's fabric manager outlives the job.",
        evidence_alt=("ncclUnhandledCudaError: Call to CUDA function failed.",),
    ),
    Recipe(
        "nccl/silent_rank_of_runs_of_their_own",
        tuple(
            Text(_one_rank_log(rank), status=134 if rank != 2 else 143, rank=rank, command="python train.py")
            for rank in range(4)
        ),
        "Four runs, one a rank: three time out in step 300, the log of rank 2 just stops. Source:"
        " https://github.com/pytorch/pytorch/issues/118369",
        "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=300",
        evidence_alt=tuple(f"[Rank {rank}] Watchdog caught collective operation timeout" for rank in (1, 3)),
        class_alt=("hang",),
        framework="pytorch",
    ),
]
