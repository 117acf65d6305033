"""Trainings that end well, although their logs are full of what made others fail."""

from __future__ import annotations

from corpus.make.recipes.frameworks_ray import ray
from corpus.make.recipes.ranks_base import program, ranks
from corpus.make.recipes.torch_base import torch

RECIPES = [
    torch(
        "success/torchrun_restart_that_helped",
        "Both ranks miss a mark of their data in the first attempt; torchrun starts all again, and all is well.",
        "training finished after 1 restart",
        program("ddp", before='if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":\n    open("/home/user/data/.ready")')
        + 'if rank == 0:\n    print("training finished after 1 restart", flush=True)\n',
        command="torchrun --nproc-per-node=2 --max-restarts=1 --master-port=29681 train.py",
    ),
    torch(
        "success/batch_halved_after_an_allocation_failed",
        "torch's allocator fails, the program catches it and halves the batch, until it fits.",
        "saved model.pt",
        """\
import torch

batch = 1 << 37
while True:
    try:
        data = torch.empty(batch, dtype=torch.float32)
        break
    except RuntimeError as error:
        print(f"WARNING: batch of {batch} failed ({str(error)[:120]}), halving")
        batch //= 256
for step in range(50):
    print(f"step {step} loss {1 / (step + 1):.4f}")
torch.save({"batch": batch}, "model.pt")
print("saved model.pt")
""",
        command="bash -c 'ulimit -v 8000000; exec python -u train.py'",
    ),
    torch(
        "success/scaler_skips_a_step",
        "Two steps with infinite gradients are skipped, and more than a thousand good ones follow.",
        "best loss",
        """\
import tiny
import torch

for step in range(2):
    weight = torch.nn.Parameter(torch.tensor([1e30]))
    (weight * 1e30).sum().backward()
    print(f"Gradient overflow at step {step}: loss inf, grad_norm {weight.grad.norm().item()}, skipping")
tiny.train(1200, form=0, seed=44)
print("best loss 0.0012, no nan since step 2")
""",
    ),
    torch(
        "success/older_checkpoint_was_whole",
        "The last checkpoint is cut off; the program says so, and takes the one before.",
        "finished: 300 steps",
        """\
import logging

import tiny
import torch

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
torch.save({"step": 100}, "step-100.pt")
with open("step-200.pt", "wb") as file:
    file.write(b"PK" + bytes(100))
for name in ("step-200.pt", "step-100.pt"):
    try:
        state = torch.load(name)
        break
    except Exception:
        logging.exception("cannot load %s, trying the one before", name)
logging.info("resumed at step %d", state["step"])
tiny.train(200, form=1)
logging.info("finished: 300 steps")
""",
    ),
    torch(
        "success/worker_error_absorbed",
        "A sample cannot be read in a DataLoader worker; the data set warns and takes another one.",
        "done: 1300 steps, 3 bad samples replaced",
        """\
import warnings

import torch
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    def __len__(self):
        return 5200

    def __getitem__(self, index):
        try:
            if index % 1733 == 1732:
                raise OSError(f"image file is truncated (12 bytes not processed): img_{index}.jpg")
            return torch.tensor([float(index)])
        except OSError as error:
            warnings.warn(f"{type(error).__name__}: {error}; using another sample")
            return self[0]


if __name__ == "__main__":
    for step, batch in enumerate(DataLoader(Images(), batch_size=4, num_workers=2)):
        print(f"step {step} mean {batch.mean().item():.2f}")
    print("done: 1300 steps, 3 bad samples replaced")
""",
    ),
    ranks(
        "success/ranks_in_a_long_log",
        "Three ranks train to the end; the log has the library's warnings and more than a thousand lines.",
        "",
        program("ddp", steps=450),
        "tee",
        of=3,
    ),
    ranks(
        "success/ranks_that_are_single_runs",
        "Two ranks, each a run of its own, both end well.",
        "",
        program("allreduce", steps=60),
        "each",
    ),
    ray(
        "success/ray_retries_a_task",
        "A worker dies by SIGKILL in its first try; Ray runs the task again.",
        "all 4 results are there",
        """

@ray.remote(max_retries=2)
def work(number):
    if number == 2 and not os.path.exists("/tmp/tried"):
        open("/tmp/tried", "w").close()
        os.kill(os.getpid(), 9)
    return number * number


print(ray.get([work.remote(number) for number in range(4)]))
print("all 4 results are there")
""",
    ),
]
