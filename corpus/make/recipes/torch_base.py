"""What the recipes of PyTorch share: a small real training, and the way a case is written down."""

from __future__ import annotations

from typing import Any

from corpus.make.recipe import Recipe, produced

# A real training that a program can do before it fails: `import tiny; tiny.train(1200)`.
TINY = '''\
"""A small training that really learns."""
import logging
import time

import torch

FORMS = (
    "step {step:5d} | loss {loss:.4f} | grad_norm {norm:.3f} | lr {lr:.2e}",
    "Epoch {epoch} [{step}/{of}] loss={loss:.6f} acc={acc:.3f} ({ms:.1f} ms/it)",
    "{{'loss': {loss:.4f}, 'grad_norm': {norm:.4f}, 'learning_rate': {lr:.3e}, 'epoch': {epoch}}}",
)


def train(steps, form=0, seed=0, every=1, log=print):
    """Train a classifier on blobs; say each step."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    centres = torch.randn(5, 16) * 2
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 5))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, max(steps, 1))
    for step in range(1, steps + 1):
        began = time.perf_counter()
        target = torch.randint(5, (32,))
        output = model(centres[target] + torch.randn(32, 16))
        loss = torch.nn.functional.cross_entropy(output, target)
        optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        schedule.step()
        if step % every == 0:
            acc = (output.argmax(1) == target).float().mean()
            ms = 1e3 * (time.perf_counter() - began)
            log(FORMS[form].format(step=step, of=steps, epoch=step // 500, loss=loss.item(), norm=norm.item(),
                                   lr=schedule.get_last_lr()[0], acc=acc.item(), ms=ms))
    return model, optimizer
'''
# One thread each: the jobs are small, and other people's jobs run beside them.
ENV = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}


def torch(name: str, how: str, evidence: str, text: str, **more: Any) -> Recipe:
    """
    Return the recipe of a program in PyTorch, `train.py`; beside it lies `tiny.py`.

    Args:
        more: As for `produced`; also `command` in place of `python -u train.py`, and `steps` of a real training
            that the program does first, a line each.
    """
    if steps := more.pop("steps", 0):
        text = f"import tiny\n\ntiny.train({steps}, form={len(name) % 3}, seed={len(name)})\n\n{text}"
        how = f"{how} After {steps:,} steps of a training."
    command = more.pop("command", "python -u train.py")
    files = {"tiny.py": TINY, "train.py": text, **more.pop("files", {})}
    env = {**ENV, **more.pop("env", {})}
    more = {"framework": "pytorch", "uses": ("torch",), **more}
    return produced(name, how, evidence, command, files=files, env=env, **more)
