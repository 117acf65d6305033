"""PyTorch out of host memory or shared memory, and workers of its DataLoader that die."""

from __future__ import annotations

from corpus.make.recipe import produced
from corpus.make.recipes.torch_base import torch

_LOADER = """\
import os
import signal
import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    def __len__(self):
        return LENGTH

    def __getitem__(self, index):
        BODY
        return torch.rand(3, SIDE, SIDE), index % 10


if __name__ == "__main__":
    loader = DataLoader(Images(), batch_size=8, num_workers=WORKERS, MORE)
    for epoch in range(2):
        for step, (images, labels) in enumerate(loader):
            print(f"epoch {epoch} step {step} mean {images.mean():.4f}", flush=True)
"""


def loader(body: str = "", length: int = 400, side: int = 16, workers: int = 2, more: str = "") -> str:
    """Return a program that reads batches with workers; `body` is what one does for each sample."""
    lines = "\n        ".join(body.strip().splitlines()) or "pass"
    text = _LOADER
    for word, value in {"BODY": lines, "LENGTH": length, "SIDE": side, "WORKERS": workers, "MORE": more}.items():
        text = text.replace(word, str(value))
    return text


_ULIMIT = "bash -c 'ulimit -v 8000000; exec python -u train.py'"

RECIPES = [
    torch(
        "ram_oom/default_cpu_allocator",
        "A similarity matrix of 200,000 by 200,000 under ulimit -v.",
        "DefaultCPUAllocator: can't allocate memory: you tried to allocate 160000000000 bytes.",
        """\
import torch

embeddings = torch.randn(200_000, 16)
print("similarity of", len(embeddings), "embeddings")
similarity = embeddings @ embeddings.T
""",
        command=_ULIMIT,
        steps=1272,
    ),
    torch(
        "ram_oom/cache_of_activations",
        "Activations are kept over 1,500 steps until torch's allocator fails.",
        "DefaultCPUAllocator: can't allocate memory",
        """\
import torch

kept = []
layer = torch.nn.Linear(64, 64)
for step in range(100_000):
    out = layer(torch.randn(64, 64))
    kept.append(out.repeat(64, 4).detach() if step > 1000 else out.detach())
    print(f"step {step} loss {out.pow(2).mean().item():.5f} kept {len(kept)}")
""",
        command="bash -c 'ulimit -v 4500000; exec python -u train.py'",
    ),
    torch(
        "ram_oom/absurd_size",
        "A size was computed wrongly: torch cannot have 400 TB, ulimit or not.",
        "DefaultCPUAllocator: can't allocate memory: you tried to allocate 400000000000000 bytes.",
        """\
import logging

import torch

logging.basicConfig(level=logging.INFO)
logging.getLogger("buffer").info("allocating replay buffer for %d transitions", 10**12)
buffer = torch.empty(10**12, 100)
""",
    ),
    torch(
        "ram_oom/worker_without_memory",
        "A DataLoader worker gets a MemoryError, which torch raises again in the main process.",
        "MemoryError",
        loader(
            "if index == 90:\n    import resource\n    resource.setrlimit(resource.RLIMIT_AS, (1 << 32, 1 << 32))\n"
            "    blob = bytearray(1 << 36)"
        ),
        evidence_alt=("MemoryError: Caught MemoryError in DataLoader worker process",),
    ),
    torch(
        "shm_exhausted/batches_in_a_small_dev_shm",
        "Workers hand batches over through a /dev/shm of 8 MiB.",
        "unable to allocate shared memory(shm) for file",
        loader(side=256, workers=4),
        shm_mib=8,
    ),
    torch(
        "shm_exhausted/one_worker_after_many_steps",
        "Batches grow, and after more than a thousand steps one does not fit into /dev/shm.",
        "unable to allocate shared memory(shm) for file",
        loader("if index > 9600:\n    return torch.rand(3, 900, 900), index % 10", length=12000, side=2, workers=1),
        shm_mib=16,
    ),
    torch(
        "shm_exhausted/shared_tensor",
        "A tensor of 64 MiB is moved to shared memory of 16 MiB.",
        "No space left on device",
        """\
import torch

print("sharing the embedding table with 4 actors")
table = torch.randn(4096, 4096)
table.share_memory_()
""",
        shm_mib=16,
        steps=1309,
    ),
    torch(
        "shm_exhausted/numpy_shared_block",
        "multiprocessing.shared_memory beyond what /dev/shm holds: it dies by SIGBUS while it fills the block, "
        "having said what it does.",
        "filling shared memory block",
        """\
import numpy as np
from multiprocessing import shared_memory

block = shared_memory.SharedMemory(create=True, size=64 << 20)
print("filling shared memory block", block.name, "of 64 MiB (/dev/shm has 16 MiB)", flush=True)
np.ndarray(64 << 20, dtype=np.uint8, buffer=block.buf)[:] = 1
""",
        framework="numpy",
        uses=("numpy",),
        shm_mib=16,
        class_alt=("segfault",),
    ),
    torch(
        "shm_exhausted/queue_of_tensors",
        "Tensors are put into a queue and not taken out; the producer's thread prints why, the consumer starves.",
        "No space left on device",
        """\
import time

import torch
import torch.multiprocessing as mp


def producer(queue):
    for number in range(64):
        queue.put(torch.ones(1 << 20))
        print("produced", number, flush=True)


if __name__ == "__main__":
    queue = mp.Queue()
    worker = mp.Process(target=producer, args=(queue,))
    worker.start()
    time.sleep(8)
    for number in range(64):
        print("got", number, queue.get(timeout=5).sum().item(), flush=True)
""",
        shm_mib=24,
    ),
    produced(
        "shm_exhausted/write_into_dev_shm",
        "A script stages its data set into /dev/shm, which is too small for it.",
        "'/dev/shm/dataset.tar': No space left on device",
        "bash -e stage.sh",
        text="echo staging the data set into memory\nhead -c 40M /dev/zero >dataset.tar\ncp dataset.tar /dev/shm/\n",
        framework="bash",
        uses=("bash",),
        shm_mib=16,
    ),
    torch(
        "dataloader_worker/killed",
        "A worker dies by SIGKILL, and nothing says who sent it; 1,100 steps before.",
        "is killed by signal: Killed",
        loader("if index == 8800:\n    time.sleep(1)\n    os.kill(os.getpid(), signal.SIGKILL)", length=12000, side=2),
        class_alt=("oom_killer",),
    ),
    torch(
        "dataloader_worker/exits",
        "A worker's library calls exit(3) while it decodes, after more than 1,000 steps.",
        "exited unexpectedly",
        loader("if index == 9000:\n    time.sleep(1)\n    os._exit(3)", length=12000, side=2),
    ),
    torch(
        "dataloader_worker/segmentation_fault",
        "A worker crashes in native code.",
        "is killed by signal: Segmentation fault",
        loader("if index == 50:\n    time.sleep(1)\n    import ctypes\n    ctypes.string_at(8)"),
        class_alt=("segfault",),
        evidence_alt=("Unexpected segmentation fault encountered in worker",),
    ),
    torch(
        "dataloader_worker/aborts_with_a_reason",
        "A worker aborts in a decoder that says so on standard error.",
        "is killed by signal: Aborted",
        loader('if index == 64:\n    time.sleep(1)\n    os.write(2, b"jpeg decoder: corrupt scan\\n")\n    os.abort()'),
        class_alt=("segfault",),
        evidence_alt=("jpeg decoder: corrupt scan",),
    ),
    torch(
        "dataloader_worker/times_out",
        "A worker hangs on one sample, and the loader has a time-out.",
        "RuntimeError: DataLoader timed out after 4 seconds",
        loader("if index == 30:\n    time.sleep(60)", more="timeout=4"),
        class_alt=("hang",),
    ),
    torch(
        "dataloader_worker/process_pool",
        "A process of a pool that prepares data dies abruptly.",
        "concurrent.futures.process.BrokenProcessPool",
        """\
import os
from concurrent.futures import ProcessPoolExecutor

import chatter


def decode(index):
    if index == 40:
        os._exit(9)
    return index


if __name__ == "__main__":
    for line in chatter.training(1060, seed=81):
        print(line)
    with ProcessPoolExecutor(2) as pool:
        for index in pool.map(decode, range(64)):
            print("decoded", index)
""",
        framework="python",
        uses=(),
    ),
    torch(
        "dataloader_worker/terminated_under_ddp",
        "A worker of rank 1's loader is terminated by SIGTERM; the peer follows.",
        "is killed by signal: Terminated",
        loader(
            'if index == 60 and os.environ["RANK"] == "1":\n    time.sleep(1)\n    os.kill(os.getpid(), signal.SIGTERM)'
        )
        .replace(
            'if __name__ == "__main__":\n',
            'if __name__ == "__main__":\n    import torch.distributed as dist\n\n    dist.init_process_group("gloo")\n',
        )
        .replace("            print(", "            dist.all_reduce(torch.ones(4))\n            print("),
        command="torchrun --nproc-per-node=2 --master-port=29651 train.py",
        first_rank=1,
    ),
    torch(
        "traceback/worker_raises",
        "A worker raises: the loader shows the exception again with the worker's traceback.",
        "ValueError: cannot identify image file 'img_00111.jpg'",
        loader("if index == 111:\n    raise ValueError(f\"cannot identify image file 'img_{index:05d}.jpg'\")"),
        evidence_alt=("ValueError: Caught ValueError in DataLoader worker process",),
    ),
    torch(
        "file_not_found/worker_misses_a_file",
        "A worker opens a file that is not there; 1,300 lines of steps before.",
        "FileNotFoundError: [Errno 2] No such file or directory: '/home/user/project/images/10500.npy'",
        loader('if index == 10500:\n    open(os.path.abspath(f"images/{index}.npy"))', length=12000, side=2),
        evidence_alt=("FileNotFoundError: Caught FileNotFoundError in DataLoader worker process",),
    ),
    torch(
        "too_many_files/tensors_by_file_descriptor",
        "Batches are kept in a list: each holds a file descriptor, and ulimit -n is 200.",
        "Too many open files",
        loader(length=4000, side=2)
        .replace("for step, (images", "kept = []\n        for step, (images")
        .replace("            print(", "            kept.append(images)\n            print("),
        command="bash -c 'ulimit -n 200; exec python -u train.py'",
    ),
]
