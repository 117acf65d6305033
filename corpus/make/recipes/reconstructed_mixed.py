"""Jobs on cards of which several voices speak, or nobody: causes that are told late, faults that were absorbed."""

from __future__ import annotations

from typing import Any

from corpus.make.chatter import interleaved, nccl_info, prefixed, training
from corpus.make.recipe import Recipe, Text
from corpus.make.recipes.reconstructed_base import (
    deepspeed_ends,
    joined,
    labelled,
    of_rank,
    srun_ends,
    steps,
    told,
    torchrun_ends,
    trace,
    watchdog,
)

_TORCHRUN = "https://docs.pytorch.org/docs/stable/elastic/errors.html"
_FULL = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.91 GiB. GPU {gpu} has a total capacity of"
    " 79.11 GiB"
    " of which 1.02 GiB is free. Including non-PyTorch memory, this process has 78.08 GiB memory in use."
)


def _runs(failed: int, texts: str, others: str, **more: Any) -> tuple[Text, ...]:
    """Return four runs, one a rank, of which one has failed in its own words and the others in those of NCCL."""
    return tuple(
        Text(
            joined(steps(290, seed=8600 + failed, style=0), texts if rank == failed else watchdog(rank, 1161, others)),
            rank=rank,
            host=f"node{rank // 2 + 1:02d}",
            status=1 if rank == failed else 134,
            **(more if rank == failed else {}),
        )
        for rank in range(4)
    )


LATE = [
    told(
        "cuda_oom/told_after_its_neighbours",
        "The lines of rank 6 come late: first its neighbours say that they have lost it.",
        "https://github.com/NVIDIA/nccl/issues/1405",
        "[rank6]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.91 GiB.",
        steps(1010, seed=8400, style=4),
        """\
node01:4105:5120 [5] misc/socket.cc:71 NCCL WARN Connection closed by remote peer node01<41217>
node01:4107:5122 [7] misc/socket.cc:71 NCCL WARN Connection closed by remote peer node01<41219>
""",
        of_rank(
            5,
            trace(
                "torch.distributed.DistBackendError: NCCL error in:"
                " ../torch/csrc/distributed/c10d/NCCLUtils.hpp:317, remote process exited or there was a network"
                " error, NCCL version 2.21.5\nncclRemoteError: A call failed possibly due to a network error or a"
                " remote process exiting prematurely.",
                "pretrain.py|240|<module>|main()",
                "torch/distributed/distributed_c10d.py|2501|all_reduce|work = group.allreduce([tensor], opts)",
            ),
        ),
        of_rank(
            6, trace(_FULL.format(gpu=6), "pretrain.py|240|<module>|main()", "pretrain.py|171|main|loss.backward()")
        ),
        torchrun_ends(6, 8, script="pretrain.py"),
        command="torchrun --nproc-per-node 8 pretrain.py",
        framework="megatron",
        first_rank=6,
    ),
    told(
        "cuda_oom/skipped_batches_before",
        "Two batches that were too large are skipped; the third time there is no way out.",
        "https://github.com/facebookresearch/fairseq/blob/main/fairseq/trainer.py",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.91 GiB.",
        steps(400, seed=8410, style=1),
        "2026-03-14 04:11:02 WARNING trainer: ran out of memory in forward pass with exception: CUDA out of"
        " memory. Tried to allocate 1.31 GiB.; skipping batch",
        steps(300, seed=8411, style=1),
        "2026-03-14 05:40:18 WARNING trainer: ran out of memory in forward pass with exception: CUDA out of"
        " memory. Tried to allocate 1.44 GiB.; skipping batch",
        steps(340, seed=8412, style=1),
        trace(
            _FULL.format(gpu=0),
            "train.py|301|<module>|cli_main()",
            "fairseq/trainer.py|901|train_step|self.optimizer.step()",
        ),
        framework="fairseq",
    ),
    Recipe(
        "cuda_runtime/one_of_four_runs",
        _runs(
            1,
            trace(
                "RuntimeError: CUDA error: an illegal memory access was encountered\nCompile with"
                " `TORCH_USE_CUDA_DSA` to enable device-side assertions.",
                "train.py|80|<module>|main()",
                "train.py|66|main|total += loss.item()",
            ),
            "ALLREDUCE",
        ),
        "Four runs, one a rank: rank 1 fails, the others time out in a collective. Source:"
        " https://github.com/pytorch/pytorch/issues/118369",
        "RuntimeError: CUDA error: an illegal memory access was encountered",
        first_rank=1,
        framework="pytorch",
    ),
    Recipe(
        "gpu_hardware/one_of_four_runs",
        _runs(
            0,
            trace(
                "RuntimeError: CUDA error: unspecified launch failure\nCompile with `TORCH_USE_CUDA_DSA` to"
                " enable device-side assertions.",
                "train.py|80|<module>|main()",
                "train.py|66|main|total += loss.item()",
            ),
            "_REDUCE_SCATTER_BASE",
            facts={
                "gpu_allotted": True,
                "evidence": [
                    {
                        "source": "kernel",
                        "host": "node01",
                        "text": "NVRM: Xid (PCI:0000:a3:00): 119, pid=4711, name=python, Timeout after 6s of"
                        " waiting for RPC response from GPU0 GSP! Expected function 76 (GSP_RM_CONTROL)"
                        " (0x20801702 0x4).",
                    }
                ],
            },
        ),
        "Four runs, one a rank: the firmware of the card of rank 0 does not answer, which the kernel of its node"
        " says."
        " Source: https://docs.nvidia.com/deploy/xid-errors/",
        "NVRM: Xid (PCI:0000:a3:00): 119",
        evidence_alt=("RuntimeError: CUDA error: unspecified launch failure",),
        first_rank=0,
        framework="pytorch",
    ),
    told(
        "nan_loss/gradient_of_rank_3",
        "Megatron's check finds NaN in the gradients of rank 3.",
        "https://github.com/NVIDIA/Megatron-LM/blob/main/megatron/core/distributed/param_and_grad_buffer.py",
        "AssertionError: Rank 3: found NaN in local grad norm in backward pass before data-parallel communication"
        " collective.",
        steps(1200, seed=8440, style=4),
        of_rank(
            3,
            trace(
                "AssertionError: Rank 3: found NaN in local grad norm in backward pass before data-parallel"
                " communication collective. Device: 3, node: node01",
                "pretrain_gpt.py|300|<module>|pretrain(",
                "megatron/core/distributed/param_and_grad_buffer.py|141|check_for_nan_in_grad|assert not"
                " norm.isnan(), (",
            ),
        ),
        torchrun_ends(3, 8, script="pretrain_gpt.py"),
        command="torchrun --nproc-per-node 8 pretrain_gpt.py",
        framework="megatron",
        first_rank=3,
        class_alt=("assertion",),
    ),
    told(
        "nan_loss/scale_at_its_minimum",
        "DeepSpeed cannot lower the loss scale any further, as every step overflows.",
        "https://github.com/deepspeedai/DeepSpeed/blob/master/deepspeed/runtime/fp16/loss_scaler.py",
        "Exception: Current loss scale already at minimum - cannot decrease scale anymore. Exiting run.",
        (
            f"OVERFLOW! Rank 0 Skipping step. Attempted loss scale: {2 ** (16 - n)}, reducing to {2 ** (15 - n)}"
            for n in range(16)
        ),
        of_rank(
            0,
            trace(
                "Exception: Current loss scale already at minimum - cannot decrease scale anymore. Exiting run.",
                "train.py|140|<module>|engine.step()",
                "deepspeed/runtime/fp16/loss_scaler.py|180|update_scale|raise Exception(",
            ),
        ),
        deepspeed_ends(4),
        command="deepspeed train.py",
        framework="deepspeed",
        first_rank=0,
        evidence_alt=("OVERFLOW! Rank 0 Skipping step.",),
    ),
    told(
        "oom_killer/task_5_of_8",
        "The control group of task 5 runs out of memory; Slurm counts the event.",
        "https://slurm.schedmd.com/cgroup.conf.html",
        "slurmstepd: error: Detected 1 oom_kill event in StepId=48211.0. Some of the step tasks have been OOM Killed.",
        interleaved([prefixed(training(140, 8460 + rank, style=1), "srun", rank) for rank in range(8)], seed=8461),
        """\
slurmstepd: error: Detected 1 oom_kill event in StepId=48211.0. Some of the step tasks have been OOM Killed.
srun: error: node02: task 5: Out Of Memory
srun: Terminating StepId=48211.0
1: node01:4101:5120 [1] misc/socket.cc:71 NCCL WARN Connection closed by remote peer node02<41217>
srun: error: node01: tasks 0-3: Terminated
""",
        command="srun -l python train.py",
        status=137,
        facts={"scheduler_state": "OUT_OF_MEMORY"},
        first_rank=5,
        evidence_alt=("srun: error: node02: task 5: Out Of Memory",),
    ),
    told(
        "interrupted/cancelled_by_its_owner",
        "scancel: Slurm names no reason.",
        "https://slurm.schedmd.com/scancel.html",
        "slurmstepd: error: *** JOB 48211 ON node01 CANCELLED AT 2026-03-14T10:02:13 ***",
        steps(80, seed=8470, style=0),
        "slurmstepd: error: *** JOB 48211 ON node01 CANCELLED AT 2026-03-14T10:02:13 ***",
        status=143,
        signal=15,
        facts={"scheduler_state": "CANCELLED by 1000"},
    ),
    told(
        "interrupted/control_c_under_torchrun",
        "A person ends torchrun with ^C; ranks and launcher all say it in their way.",
        _TORCHRUN,
        "torch.distributed.elastic.multiprocessing.api.SignalException: Process 140245 got signal: 2",
        steps(30, seed=8480, style=1),
        "^CW0314 10:02:11.553000 140245 torch/distributed/elastic/agent/server/api.py:719] Received 2 death"
        " signal, shutting down workers",
        "W0314 10:02:11.554000 140245 torch/distributed/elastic/multiprocessing/api.py:897] Sending process"
        " 140310 closing signal SIGINT",
        of_rank(0, trace("KeyboardInterrupt", "train.py|92|<module>|main()", "train.py|70|main|loss.backward()")),
        of_rank(1, trace("KeyboardInterrupt", "train.py|92|<module>|main()", "train.py|71|main|optimizer.step()")),
        trace(
            "torch.distributed.elastic.multiprocessing.api.SignalException: Process 140245 got signal: 2",
            "torch/distributed/run.py|919|main|run(args)",
            "torch/distributed/elastic/agent/server/api.py|711|run|result = self._invoke_run(role)",
        ),
        command="torchrun --nproc-per-node 2 train.py",
        evidence_alt=("KeyboardInterrupt", "Received 2 death signal, shutting down workers"),
    ),
]

MEETING = [
    told(
        "rendezvous/seven_of_eight_came",
        "The store waits 901 seconds; one client never comes.",
        "https://github.com/pytorch/pytorch/blob/main/torch/csrc/distributed/c10d/TCPStore.cpp",
        "torch.distributed.DistStoreError: Timed out after 901 seconds waiting for clients. 7/8 clients joined.",
        "0: starting on node01, world size 8",
        labelled(
            "0: ",
            trace(
                "torch.distributed.DistStoreError: Timed out after 901 seconds waiting for clients. 7/8 clients"
                " joined.",
                "train.py|20|<module>|dist.init_process_group('nccl')",
                "torch/distributed/rendezvous.py|188|_create_c10d_store|return TCPStore(",
            ),
        ),
        srun_ends(0, host="node01"),
        command="srun -l python train.py",
    ),
    told(
        "rendezvous/jax_barrier",
        "JAX: process 3 does not register in time.",
        "https://docs.jax.dev/en/latest/multi_process.html",
        "DEADLINE_EXCEEDED: Barrier timed out. Id: PjRT_Client_Connect",
        "I0314 07:00:04.118 distributed.py:106] Starting JAX distributed service on [::]:8476",
        trace(
            "jaxlib.xla_extension.XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Id:"
            " PjRT_Client_Connect::1. This usually happens because a task triggered the barrier too early or too"
            " slowly. Please look at the task logs (both timed out and first task) to debug further.\n# of tasks"
            " that reached the barrier: 3/4.",
            "main.py|12|<module>|jax.distributed.initialize()",
            "jax/_src/distributed.py|131|initialize|self.client.connect()",
        ),
        framework="jax",
        command="python main.py",
    ),
    told(
        "rendezvous/identifier_of_nccl_not_fetched",
        "Rank 11 of 16 cannot fetch the identifier for NCCL, as the store on rank 0 has gone.",
        "https://github.com/hiyouga/LlamaFactory/issues/2470",
        "[11] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value store by"
        " key '0', but store->get('0') got error: Connection reset by peer",
        labelled("node02: ", "02/11/2026 22:38:41 - INFO - template - Replace eos token: <|im_end|>"),
        labelled(
            "node02: ",
            trace(
                "torch.distributed.DistBackendError: [11] is setting up NCCL communicator and retrieving"
                " ncclUniqueId from [0] via c10d key-value store by key '0', but store->get('0') got error:"
                " Connection reset by peer. This may indicate a possible application crash on rank 0 or a network"
                " set up issue.",
                "train.py|14|<module>|main()",
                "torch/distributed/distributed_c10d.py|4159|barrier|work = group.barrier(opts=opts)",
            ),
        ),
        deepspeed_ends(8),
        command="deepspeed --hostfile hosts train.py",
        framework="deepspeed",
        first_rank=11,
        class_alt=("nccl",),
    ),
    told(
        "device_mismatch/model_spread_over_two_cards",
        "The layers of a model lie on two cards, and an index stays on the first.",
        "https://github.com/InternLM/InternLM/issues/810",
        "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:1 and"
        " cuda:0!",
        "Loading checkpoint shards: 100%|██████████| 9/9 [00:41<00:00,  4.60s/it]",
        trace(
            "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:1"
            " and cuda:0! (when checking argument for argument index in method wrapper_CUDA_gather)",
            "score.py|40|<module>|scores = model(**batch)",
            "accelerate/hooks.py|170|new_forward|output = module._old_forward(*args, **kwargs)",
        ),
        framework="transformers",
        command="python score.py",
    ),
    told(
        "device_mismatch/weights_left_on_the_cpu",
        "A branch of the model of rank 1 was never moved to its card.",
        "https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/native/Convolution.cpp",
        "[rank1]: RuntimeError: Input type (torch.cuda.FloatTensor) and weight type (torch.FloatTensor) should be"
        " the same",
        nccl_info(2, seed=8530),
        of_rank(
            1,
            trace(
                "RuntimeError: Input type (torch.cuda.FloatTensor) and weight type (torch.FloatTensor) should be"
                " the same",
                "train.py|58|<module>|loss = step(images)",
                "torch/nn/modules/conv.py|549|_conv_forward|return F.conv2d(",
            ),
        ),
        torchrun_ends(1, 2),
        command="torchrun --nproc-per-node 2 train.py",
        first_rank=1,
        class_alt=("dtype_mismatch",),
    ),
]

SILENT = [
    told(
        "unknown/only_the_launcher_speaks",
        "The output of the ranks went elsewhere: torchrun says which rank failed, not why.",
        _TORCHRUN,
        "",
        steps(1020, seed=8550, style=2),
        torchrun_ends(3, 8),
        command="torchrun --redirects 3 --nproc-per-node 8 train.py",
        first_rank=3,
    ),
    told(
        "unknown/mpi_abort_without_a_reason",
        "A rank calls MPI_Abort and has said nothing before.",
        "https://docs.open-mpi.org/en/v5.0.x/man-openmpi/man3/MPI_Abort.3.html",
        "",
        (f"step {n} energy {-1.2e4 + n / 7:.6f}" for n in range(50)),
        """\
--------------------------------------------------------------------------
MPI_ABORT was invoked on rank 2 in communicator MPI_COMM_WORLD
with errorcode 1.

NOTE: invoking MPI_ABORT causes Open MPI to kill all MPI processes.
You may or may not see output from other processes, depending on
exactly when Open MPI kills them.
--------------------------------------------------------------------------
""",
        command="mpirun -np 4 ./md",
        framework="mpi",
        first_rank=2,
    ),
    told(
        "unknown/task_exits_with_7",
        "srun tells that a task has exited with code 7, which means something to its author alone.",
        "https://slurm.schedmd.com/srun.html",
        "Exited with exit code 7",
        interleaved([prefixed(training(30, 8570 + rank, style=3), "srun", rank) for rank in range(4)], seed=8571),
        srun_ends(2, host="node01", status=7),
        command="srun -l ./sim",
        framework="slurm",
        status=7,
        first_rank=2,
        settled="The line of srun was no evidence at first.",
    ),
]

ABSORBED = [
    told(
        "success/batch_halved_until_it_fits",
        "accelerate halves the batch after each time the card is full, and the training ends well.",
        "https://huggingface.co/docs/accelerate/usage_guides/memory",
        "",
        "Trying batch size: 64\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.05 GiB."
        " (caught)\nDecreasing batch size to: 32",
        steps(1100, seed=8700, style=2),
        "training finished in 5201 s, best loss 1.8814",
        status=0,
        framework="transformers",
    ),
    told(
        "success/allocator_says_that_it_is_no_failure",
        "XLA's allocator warns while it looks for a faster algorithm, and says itself that this is no failure.",
        "https://github.com/flatironinstitute/nemos/issues/345",
        "",
        "2026-03-14 21:59:55.086788: W external/xla/xla/tsl/framework/bfc_allocator.cc:310] Allocator (GPU_0_bfc)"
        " ran out of memory trying to allocate 3.37GiB with freed_by_count=0. The caller indicates that this is"
        " not a failure, but this may mean that there could be performance gains if more memory were available.",
        steps(90, seed=8710, style=1),
        "done: test accuracy 0.913",
        status=0,
        framework="jax",
    ),
    told(
        "success/continued_after_preemption",
        "Slurm appends the output of the second start to that of the first, which was preempted.",
        "https://slurm.schedmd.com/preempt.html",
        "",
        steps(60, seed=8720, style=0),
        "slurmstepd: error: *** JOB 48211 ON node01 CANCELLED AT 2026-03-13T22:40:02 DUE TO PREEMPTION ***",
        "resuming from checkpoints/step_000060.pt (restart 1)",
        steps(120, seed=8721, style=0),
        "all 180 steps done, model written to out/final.pt",
        status=0,
        facts={"scheduler_state": "COMPLETED"},
    ),
    told(
        "success/configurations_that_do_not_fit",
        "An autotuner passes over configurations that need more shared memory than the card has.",
        "https://triton-lang.org/main/python-api/generated/triton.autotune.html",
        "",
        (
            f"autotune: config {n} skipped: out of resource: shared memory, Required: {131072 + n * 4096},"
            f" Hardware limit: 101376."
            for n in range(9)
        ),
        "autotune: best config 11 (0.412 ms)",
        steps(40, seed=8730, style=3),
        "benchmark written to results.json",
        status=0,
        framework="triton",
    ),
    told(
        "success/rows_remapped_beside_it",
        "The kernel notes that a row of memory was remapped; the job is not touched by it.",
        "https://docs.nvidia.com/deploy/xid-errors/",
        "",
        nccl_info(8, seed=8740),
        steps(1300, seed=8741, style=4),
        "[after training is done] datetime: 2026-03-14 10:02:13",
        "[rank0]:[W314 10:02:13.771903114 ProcessGroupNCCL.cpp:1476] Warning: WARNING: destroy_process_group()"
        " was not called before program exit, which can leak resources. For more info, please see"
        " https://pytorch.org/docs/stable/distributed.html#shutdown (function operator())",
        status=0,
        framework="megatron",
        facts={
            "gpu_allotted": True,
            "evidence": [
                {
                    "source": "kernel",
                    "host": "node01",
                    "text": "NVRM: Xid (PCI:0000:41:00): 63, pid='<unknown>', name=<unknown>, Row Remapper: New row"
                    " (0x0000000002a3b1c0) marked for remapping, reset gpu to activate.",
                }
            ],
        },
    ),
]

RECIPES = [*LATE, *MEETING, *SILENT, *ABSORBED]
