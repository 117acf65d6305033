"""Shared file systems that fail, shared memory too small for NCCL, hubs that cannot be reached or refuse."""

from __future__ import annotations

from corpus.make.chatter import interleaved, nccl_info, prefixed, training
from corpus.make.recipes.reconstructed_base import (
    labelled,
    mpirun_ends,
    of_rank,
    srun_ends,
    steps,
    told,
    torchrun_ends,
    trace,
)

_ERRNO = "https://man7.org/linux/man-pages/man3/errno.3.html"
_EVICTED = (
    "LustreError: 11-0: scratch-OST0007-osc-ffff9a41c2b7: operation ost_read to node 10.4.0.31@o2ib failed: rc = -107"
)

STORAGE = [
    told(
        "storage_io/stale_handle_while_saving",
        "The server of NFS has lost the folder of the checkpoints.",
        "https://github.com/hiyouga/LlamaFactory/issues/3243",
        "OSError: [Errno 116] Stale file handle: '/nfs/runs/7b/checkpoint-1500'",
        steps(1190, seed=7800, style=2),
        trace(
            "OSError: [Errno 116] Stale file handle: '/nfs/runs/7b/checkpoint-1500'",
            "sft.py|70|<module>|trainer.train()",
            "transformers/trainer.py|3009|_save_checkpoint|os.makedirs(output_dir, exist_ok=True)",
        ),
        command="python sft.py",
        framework="transformers",
    ),
    told(
        "storage_io/lustre_evicts_a_client",
        "Lustre has evicted the client of task 11: its read ends with ESHUTDOWN, and srun ends the step.",
        "https://doc.lustre.org/lustre_manual.xhtml#lustreproc.errors",
        "11: OSError: [Errno 108] Cannot send after transport endpoint shutdown: '/lustre/data/shard-00211.bin'",
        interleaved([prefixed(training(70, 7810 + rank, style=4), "srun", rank) for rank in (3, 15)], seed=7811),
        labelled(
            "11: ",
            trace(
                "OSError: [Errno 108] Cannot send after transport endpoint shutdown: '/lustre/data/shard-00211.bin'",
                "pretrain.py|188|<module>|main()",
                "megatron/core/datasets/indexed_dataset.py|355|get|self.bin_buffer_file.readinto(sequence)",
            ),
        ),
        srun_ends(11),
        command="srun -l python pretrain.py",
        framework="megatron",
        first_rank=11,
        facts={"evidence": [{"source": "kernel", "host": "node02", "text": _EVICTED}]},
        evidence_alt=("LustreError: 11-0: scratch-OST0007-osc",),
    ),
    told(
        "storage_io/hdf5_reads_an_error",
        "HDF5 prints its stack of errors for a block that the disk cannot read.",
        "https://docs.hdfgroup.org/hdf5/v1_14/group___h5_e.html",
        "errno = 5, error message = 'Input/output error'",
        """\
reading fields of step 4100
HDF5-DIAG: Error detected in HDF5 (1.12.2) MPI-process 3:
  #000: H5Dio.c line 179 in H5Dread(): can't read data
    major: Dataset
    minor: Read failed
  #009: H5FDsec2.c line 741 in H5FD__sec2_read(): file read failed: time = Sat Mar 14 10:02:12 2026, filename = \
'/gpfs/sim/out.h5', file descriptor = 24, errno = 5, error message = 'Input/output error', buf = 0x2b1c4000, total \
read size = 4194304, bytes this sub-read = 4194304, offset = 21474836480
    major: Low-level I/O
    minor: Read failed
solver: cannot restart from step 4100
""",
        mpirun_ends(3),
        command="mpirun -np 8 ./solver --restart /gpfs/sim/out.h5",
        framework="hdf5",
        first_rank=3,
    ),
    told(
        "storage_io/mount_is_not_connected",
        "The process behind a FUSE mount has died; every access says so.",
        _ERRNO,
        "OSError: [Errno 107] Transport endpoint is not connected: '/mnt/bucket/tokens'",
        steps(30, seed=7830, style=1),
        trace(
            "OSError: [Errno 107] Transport endpoint is not connected: '/mnt/bucket/tokens'",
            "train.py|61|<module>|files = sorted(os.listdir(args.data))",
        ),
    ),
    told(
        "storage_io/remote_end_does_not_answer",
        "tar writes an archive to a file system whose remote end has gone.",
        _ERRNO,
        "tar: /beegfs/out/run7.tar: Wrote only 4096 of 10240 bytes",
        """\
packing 1204 files
tar: /beegfs/out/run7.tar: Cannot write: Remote I/O error
tar: /beegfs/out/run7.tar: Wrote only 4096 of 10240 bytes
tar: Error is not recoverable: exiting now
make: *** [Makefile:14: archive] Error 2
""",
        command="make archive",
        framework="make",
        status=2,
        evidence_alt=("Cannot write: Remote I/O error",),
    ),
    told(
        "storage_io/one_node_of_four_has_a_stale_mount",
        "Rank 2 of 4 runs where the mount is stale, in a log of JSON lines.",
        "https://man7.org/linux/man-pages/man5/nfs.5.html",
        "OSError: [Errno 116] Stale file handle",
        (
            f'{{"level": "info", "rank": {n % 4}, "msg": "step {n // 4}", "loss": {3.1 - n / 4000:.4f}}}'
            for n in range(1200)
        ),
        '{"level": "error", "rank": 2, "msg": "batch failed", "exception": "Traceback (most recent call last):\\n'
        '  File \\"/home/user/project/train.py\\", line 77, in step\\n    batch = next(batches)\\nOSError: [Errno'
        ' 116] Stale file handle"}',
        '{"level": "error", "rank": 0, "msg": "collective failed", "exception": "RuntimeError:'
        ' [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.1.0.13]:41122"}',
        command="bash launch.sh",
        first_rank=2,
    ),
]

SHARED_MEMORY = [
    told(
        "shm_exhausted/segment_of_nccl",
        "A container has 64 MiB of /dev/shm: NCCL of rank 0 cannot make its segment.",
        "https://github.com/NVIDIA/nccl/issues/525",
        "NCCL WARN Error while creating shared memory segment /dev/shm/nccl-WU88OE (size 9637888), error: No"
        " space left on device (28)",
        nccl_info(4, seed=7900),
        """\
node01:4100:4200 [0] misc/shmutils.cc:88 NCCL WARN Error: failed to extend /dev/shm/nccl-WU88OE to 9637892 bytes, \
error: No space left on device (28)
node01:4100:4200 [0] misc/shmutils.cc:132 NCCL WARN Error while creating shared memory segment /dev/shm/nccl-WU88OE \
(size 9637888), error: No space left on device (28)
node01:4100:4200 [0] NCCL INFO transport/shm.cc:551 -> 2
node01:4102:4202 [2] proxy.cc:1326 NCCL WARN Socket recv failed while polling for opId=0x7f6f18cb7f40
""",
        of_rank(
            0,
            trace(
                "torch.distributed.DistBackendError: NCCL error in:"
                " ../torch/csrc/distributed/c10d/NCCLUtils.hpp:317, unhandled system error (run with"
                " NCCL_DEBUG=INFO for details), NCCL version 2.21.5\nncclSystemError: System call (e.g. socket,"
                " malloc) or external library call failed or device error.\nLast error:\nError while creating"
                " shared memory segment /dev/shm/nccl-WU88OE (size 9637888), error: No space left on device (28)",
                "train.py|39|<module>|model = DistributedDataParallel(model)",
            ),
        ),
        torchrun_ends(0, 4),
        command="torchrun --nproc-per-node 4 train.py",
        first_rank=0,
        evidence_alt=("failed to extend /dev/shm/nccl-WU88OE", "Error while creating shared memory segment"),
    ),
    told(
        "shm_exhausted/fallocate_of_nccl_under_mpi",
        "The wording of an older NCCL, under Open MPI: rank 3.",
        "https://github.com/NVIDIA/nccl/issues/290",
        "NCCL WARN Call to posix_fallocate failed : No space left on device",
        labelled("[1,0]<stdout>:", "\n".join(training(1040, 7910, style=3))),
        """\
[1,3]<stdout>:node01:2145:2555 [3] include/shm.h:28 NCCL WARN Call to posix_fallocate failed : No space left on \
device
[1,3]<stdout>:node01:2145:2555 [3] NCCL INFO include/shm.h:41 -> 2
[1,3]<stdout>:node01:2145:2555 [3] include/shm.h:48 NCCL WARN Error while creating shared memory segment \
nccl-shm-recv-1462445a6f01cbfc-1-2-3 (size 9637888)
[1,3]<stderr>:tensorflow.python.framework.errors_impl.UnknownError: ncclCommInitRank failed: unhandled system error
""",
        mpirun_ends(3),
        command="mpirun --tag-output -np 4 python mnist.py",
        framework="horovod",
        first_rank=3,
        evidence_alt=("NCCL WARN Error while creating shared memory segment",),
    ),
]

HUBS = [
    told(
        "auth/gated_model",
        "The model is gated, and the account has not been admitted.",
        "https://huggingface.co/docs/hub/models-gated",
        "403 Client Error. (Request ID: Root=1-67d4",
        "tokenizer_config.json: 100%|██████████| 55.4k/55.4k [00:00<00:00, 2.1MB/s]",
        trace(
            """\
huggingface_hub.errors.GatedRepoError: 403 Client Error. (Request ID: Root=1-67d41c02-0000000000000000;00000000-0000)

Cannot access gated repo for url https://huggingface.co/meta-llama/Llama-3.1-8B/resolve/main/config.json.
Access to model meta-llama/Llama-3.1-8B is restricted and you are not in the authorized list. Visit \
https://huggingface.co/meta-llama/Llama-3.1-8B to ask for access.""",
            "finetune.py|25|<module>|model = AutoModelForCausalLM.from_pretrained(name)",
            "huggingface_hub/utils/_http.py|426|hf_raise_for_status|raise _format(GatedRepoError, message,"
            " response) from e",
        ),
        framework="transformers",
        evidence_alt=(
            "Access to model meta-llama/Llama-3.1-8B is restricted",
            "Cannot access gated repo for url",
        ),
    ),
    told(
        "auth/no_token_for_tracking",
        "wandb has no key and there is nobody to ask.",
        "https://docs.wandb.ai/support/",
        "wandb.errors.errors.UsageError: api_key not configured (no-tty). call wandb.login(key=[your_api_key])",
        steps(3, seed=8001, style=1),
        trace(
            "wandb.errors.errors.UsageError: api_key not configured (no-tty). call wandb.login(key=[your_api_key])",
            "train.py|14|<module>|wandb.init(project='vit')",
        ),
        framework="wandb",
    ),
    told(
        "network/hub_does_not_answer",
        "The hub cannot be reached and the file is not in the cache.",
        "https://github.com/huggingface/transformers/blob/main/src/transformers/utils/hub.py",
        "OSError: We couldn't connect to 'https://huggingface.co' to load the files",
        "'(MaxRetryError(\"HTTPSConnectionPool(host='huggingface.co', port=443): Max retries exceeded with url:"
        " /bert-base-uncased/resolve/main/config.json (Caused by"
        ' NameResolutionError(\\"<urllib3.connection.HTTPSConnection object at 0x7f2c>: Failed to resolve'
        " 'huggingface.co' ([Errno -3] Temporary failure in name resolution)\\\"))\"), '(Request ID: 1f)')'"
        " thrown while requesting HEAD"
        " https://huggingface.co/bert-base-uncased/resolve/main/config.json\nRetrying in 1s [Retry 1/5].",
        trace(
            "OSError: We couldn't connect to 'https://huggingface.co' to load the files, and couldn't find them"
            " in the cached files.\nCheckout your internet connection or see how to run the library in offline"
            " mode at 'https://huggingface.co/docs/transformers/installation#offline-mode'.",
            "embed.py|8|<module>|model = AutoModel.from_pretrained('bert-base-uncased')",
            "transformers/utils/hub.py|531|cached_files|raise OSError(",
        ),
        framework="transformers",
        evidence_alt=("Temporary failure in name resolution",),
    ),
    told(
        "network/download_cut_on_rank_0",
        "Rank 0 of 2 downloads shards when the connection breaks; rank 1 waits for it.",
        "https://urllib3.readthedocs.io/en/stable/reference/urllib3.exceptions.html",
        "[rank0]: requests.exceptions.ChunkedEncodingError: ('Connection broken: IncompleteRead(",
        "model-00003-of-00017.safetensors:  41%|████      | 2.03G/4.98G [01:12<01:44, 28.2MB/s]",
        of_rank(
            0,
            trace(
                "requests.exceptions.ChunkedEncodingError: ('Connection broken: IncompleteRead(2031616000 bytes"
                " read, 2948300800 more expected)', IncompleteRead(2031616000 bytes read, 2948300800 more"
                " expected))",
                "prepare.py|33|<module>|snapshot_download(args.model)",
                "requests/models.py|822|generate|raise ChunkedEncodingError(e)",
            ),
        ),
        of_rank(
            1,
            trace(
                "torch.distributed.DistBackendError: [1] is setting up NCCL communicator and retrieving"
                " ncclUniqueId from [0] via c10d key-value store by key '0', but store->get('0') got"
                " error: Connection reset by peer",
                "prepare.py|36|<module>|dist.barrier()",
            ),
        ),
        torchrun_ends(0, 2, script="prepare.py"),
        command="torchrun --nproc-per-node 2 prepare.py",
        first_rank=0,
    ),
]

RECIPES = [*STORAGE, *SHARED_MEMORY, *HUBS]
