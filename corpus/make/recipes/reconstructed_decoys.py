"""Jobs on cards whose logs hold louder words than the cause: cascades, faults survived before, advice, warnings."""

from __future__ import annotations

from corpus.make.chatter import interleaved, nccl_info, prefixed, training
from corpus.make.recipe import Recipe, Text
from corpus.make.recipes.reconstructed_base import (
    labelled,
    of_rank,
    srun_ends,
    steps,
    told,
    torchrun_ends,
    trace,
    watchdog,
)

_ELASTIC = "https://docs.pytorch.org/docs/stable/elastic/errors.html"
_NCCL = "https://github.com/pytorch/pytorch/blob/main/torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp"
_LOST = "node01:410{n}:512{n} [{n}] misc/socket.cc:71 NCCL WARN Connection closed by remote peer node01<41217>"
_JOINS = trace(
    "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 3/4 clients joined.",
    "train.py|18|<module>|dist.init_process_group('nccl')",
    "torch/distributed/rendezvous.py|188|_create_c10d_store|return TCPStore(",
)
_CONFIG = trace(
    "FileNotFoundError: [Errno 2] No such file or directory: '/scratch/configs/7b.yaml'",
    "train.py|12|<module>|config = read(path)",
    "config.py|8|read|with open(path) as file:",
)

RECIPES = [
    told(
        "file_not_found/shard_of_rank_6",
        "Rank 6 of 8 opens a shard that is not there; ten minutes later the others time out at length.",
        _NCCL,
        "[rank6]: FileNotFoundError: [Errno 2] No such file or directory: '/data/tokens/shard_00614.npy'",
        nccl_info(8, seed=9101),
        steps(1100, seed=9102, style=4),
        of_rank(
            6,
            trace(
                "FileNotFoundError: [Errno 2] No such file or directory: '/data/tokens/shard_00614.npy'",
                "train.py|101|<module>|main()",
                "data.py|57|__getitem__|return np.load(self.paths[index], mmap_mode='r')",
            ),
        ),
        *(watchdog(rank, 1101) for rank in (0, 1, 2, 3, 4, 5, 7)),
        torchrun_ends(6, 8),
        command="torchrun --nproc-per-node 8 train.py",
        first_rank=6,
    ),
    told(
        "traceback/key_of_task_3",
        "Task 3 meets a batch without labels; srun then cancels the step, which looks like somebody's doing.",
        "https://slurm.schedmd.com/srun.html#OPT_kill-on-bad-exit",
        "3: KeyError: 'labels'",
        interleaved([prefixed(training(60, 9110 + rank, style=1), "srun", rank) for rank in range(4)], seed=9111),
        labelled(
            "3: ",
            trace("KeyError: 'labels'", "train.py|88|<module>|main()", "train.py|64|main|labels = batch['labels']"),
        ),
        "1: " + _LOST.format(n=1),
        srun_ends(3, host="node01"),
        command="srun -l --kill-on-bad-exit=1 python train.py",
        first_rank=3,
    ),
    told(
        "disk_full/checkpoint_of_rank_0",
        "Rank 0 cannot write the checkpoint; torch first speaks of its zip writer, and the others time out.",
        "https://github.com/pytorch/pytorch/blob/main/caffe2/serialize/inline_container.cc",
        "[rank0]: OSError: [Errno 28] No space left on device",
        steps(1000, seed=9120, style=0),
        of_rank(
            0,
            trace(
                "OSError: [Errno 28] No space left on device",
                "torch/serialization.py|850|save|_save(obj, opened_zipfile, pickle_module)",
            )
            + "\n\nDuring handling of the above exception, another exception occurred:\n\n"
            + trace(
                "RuntimeError: [enforce fail at inline_container.cc:626] . unexpected pos 1717986944 vs 1717986832",
                "train.py|140|<module>|save(model)",
                "torch/serialization.py|690|__exit__|self.file_like.write_end_of_file()",
            ),
        ),
        watchdog(1, 1001),
        watchdog(2, 1001),
        torchrun_ends(0, 4),
        command="torchrun --nproc-per-node 4 train.py",
        first_rank=0,
        evidence_alt=("[enforce fail at inline_container.cc:626] . unexpected pos",),
    ),
    told(
        "oom_killer/worker_of_rank_2",
        "A data worker of rank 2 is killed; the kernel says for what.",
        "https://www.kernel.org/doc/html/latest/admin-guide/cgroup-v1/memory.html",
        "Memory cgroup out of memory: Killed process 9912 (python)",
        steps(300, seed=9130, style=3),
        of_rank(
            2,
            trace(
                "RuntimeError: DataLoader worker (pid 9912) is killed by signal: Killed.",
                "train.py|90|<module>|main()",
                "torch/utils/data/_utils/signal_handling.py|73|handler|_error_if_any_worker_fails()",
            ),
        ),
        torchrun_ends(2, 4),
        command="torchrun --nproc-per-node 4 train.py",
        facts={
            "oom_kills": 1,
            "evidence": [
                {
                    "source": "kernel",
                    "host": "node01",
                    "text": "Memory cgroup out of memory: Killed process 9912 (python) total-vm:41876432kB,"
                    " anon-rss:33120004kB, file-rss:66304kB, shmem-rss:0kB, UID:1000 pgtables:69012kB"
                    " oom_score_adj:0",
                }
            ],
        },
        first_rank=2,
        class_alt=("dataloader_worker",),
        evidence_alt=("RuntimeError: DataLoader worker (pid 9912) is killed by signal: Killed.",),
    ),
    told(
        "traceback/after_a_full_card_was_survived",
        "The card was full once, and the program went on with smaller batches; an hour later it fails for another"
        " reason.",
        "https://pytorch.org/docs/stable/notes/faq.html",
        "AttributeError: 'NoneType' object has no attribute 'update'",
        steps(300, seed=9140, style=1),
        "WARNING: CUDA out of memory. Tried to allocate 2.00 GiB. -- retrying with micro batch 4",
        steps(760, seed=9141, style=1),
        trace(
            "AttributeError: 'NoneType' object has no attribute 'update'",
            "train.py|133|<module>|main()",
            "train.py|120|main|meter.update(loss)",
        ),
    ),
    told(
        "missing_module/after_overflows",
        "The scaler skips steps as it should; then the evaluation wants a package.",
        "https://docs.pytorch.org/docs/stable/amp.html",
        "ModuleNotFoundError: No module named 'rouge_score'",
        *(
            f"Gradient overflow. Skipping step, loss scaler 0 reducing loss scale to {2**n}.0 (grad norm: inf)"
            for n in (15, 14, 13)
        ),
        steps(500, seed=9150, style=4),
        "running evaluation",
        trace(
            "ModuleNotFoundError: No module named 'rouge_score'",
            "evaluate.py|4|<module>|from rouge_score import rouge_scorer",
        ),
        framework="apex",
    ),
    told(
        "assertion/with_corrected_errors_of_memory",
        "The monitor counts corrected errors of a card, which harm nobody; the program's own check fails.",
        "https://docs.nvidia.com/deploy/nvidia-smi/index.html",
        "AssertionError: vocabulary has 32001 entries, embedding 32000",
        "[monitor] GPU 3: ECC errors corrected: 17 (volatile), uncorrectable: 0\n[monitor] GPU 5: ECC errors"
        " corrected: 2 (volatile), uncorrectable: 0",
        trace(
            "AssertionError: vocabulary has 32001 entries, embedding 32000",
            "train.py|47|<module>|check(tokenizer, model)",
            "train.py|31|check|assert len(tokenizer) == size, f'vocabulary has {len(tokenizer)} entries,"
            " embedding {size}'",
        ),
    ),
    told(
        "permission/with_advice_about_cards",
        "The program prints its advice about full cards at every start; what ends it is a folder of somebody else.",
        "https://man7.org/linux/man-pages/man3/errno.3.html",
        "PermissionError: [Errno 13] Permission denied: '/scratch/shared/runs/7b'",
        """\
tip: if you see "CUDA out of memory", lower --micro-batch; if you see NCCL timeouts, raise --timeout
tip: set CUDA_LAUNCH_BLOCKING=1 to find illegal memory accesses
""",
        trace(
            "PermissionError: [Errno 13] Permission denied: '/scratch/shared/runs/7b'",
            "train.py|25|<module>|out.mkdir(parents=True)",
        ),
    ),
    told(
        "missing_module/library_of_cudnn",
        "A shared library of cuDNN is not found when torch is imported.",
        "https://docs.nvidia.com/deeplearning/cudnn/latest/installation/linux.html",
        "ImportError: libcudnn.so.9: cannot open shared object file: No such file or directory",
        "module load cuda/12.4",
        trace(
            "ImportError: libcudnn.so.9: cannot open shared object file: No such file or directory",
            "train.py|3|<module>|import torch",
            "torch/__init__.py|367|<module>|from torch._C import *  # noqa: F403",
        ),
    ),
    told(
        "missing_module/library_of_the_driver",
        "In a container that was started without its cards, the library of the driver is missing.",
        "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/",
        "OSError: libcuda.so.1: cannot open shared object file: No such file or directory",
        trace(
            "OSError: libcuda.so.1: cannot open shared object file: No such file or directory",
            "infer.py|2|<module>|import triton_kernels",
            "ctypes/__init__.py|376|__init__|self._handle = _dlopen(self._name, mode)",
        ),
        command="python infer.py",
        class_alt=("cuda_driver",),
    ),
    told(
        "segfault/rank_4_of_8",
        "Rank 4 dies of SIGSEGV in a collective library; torchrun names the signal, the others lose their peer.",
        _ELASTIC,
        "Fatal Python error: Segmentation fault",
        steps(120, seed=9190, style=0),
        """\
[default4]:Fatal Python error: Segmentation fault
[default4]:
[default4]:Thread 0x00007f24a7b6c740 (most recent call first):
[default4]:  File "/opt/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 2501 in \
all_reduce
[default4]:  File "/home/user/project/train.py", line 77 in main
""",
        *(_LOST.format(n=n) for n in (3, 5)),
        torchrun_ends(4, 8, status=-11),
        command="torchrun --nproc-per-node 8 train.py",
        first_rank=4,
        evidence_alt=("Signal 11 (SIGSEGV) received by PID 140314",),
    ),
    Recipe(
        "file_not_found/configuration_of_one_of_four_runs",
        tuple(
            Text(
                _CONFIG if rank == 2 else _JOINS,
                rank=rank,
                command="python train.py",
            )
            for rank in range(4)
        ),
        "Four runs, one a rank: rank 2 finds no configuration, so the others wait for it in vain. Source:"
        " https://docs.pytorch.org/docs/stable/distributed.html",
        "FileNotFoundError: [Errno 2] No such file or directory: '/scratch/configs/7b.yaml'",
        first_rank=2,
        framework="pytorch",
    ),
    told(
        "port_in_use/of_the_store_on_rank_0",
        "Another job on the node holds the port of the store; ranks 1 to 3 only see that nobody answers.",
        "https://github.com/pytorch/pytorch/blob/main/torch/csrc/distributed/c10d/socket.cpp",
        "The server socket has failed to listen on any local network address. port: 29500",
        """\
0: [W314 10:02:10.118204517 socket.cpp:464] [c10d] The server socket cannot be initialized on [::]:29500 (errno: 98 \
- Address already in use).
""",
        labelled(
            "0: ",
            trace(
                "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network"
                " address. port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in"
                " use",
                "train.py|20|<module>|dist.init_process_group('nccl')",
            ),
        ),
        labelled(
            "2: ",
            "[W314 10:02:11.004 socket.cpp:752] [c10d] The client socket has failed to connect to"
            " [node01]:29500 (errno: 111 - Connection refused).",
        ),
        srun_ends(0, host="node01"),
        command="srun -l python train.py",
        first_rank=0,
        evidence_alt=("The server socket cannot be initialized on [::]:29500",),
    ),
]
