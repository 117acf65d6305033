"""
What a healthy training prints while it runs: noise for a job, or for the text of one.

    python chatter.py training 1500 --seed 7        a log of 1,500 lines
    python chatter.py progress 300                  a progress bar, with carriage returns, on standard error

It stands beside the job's files, and needs nothing but Python.  The same seed prints the same.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterable, Iterator

# Said by healthy jobs every day.
WARNINGS = (
    "/opt/venv/lib/python3.11/site-packages/torch/utils/data/dataloader.py:557: UserWarning: This DataLoader will"
    " create 8 worker processes in total. Our suggested max number of worker in current system is 4, which is smaller"
    " than what this DataLoader is going to create.",
    "WARNING:root:No checkpoint found in outputs/latest, starting from scratch",
    "/opt/venv/lib/python3.11/site-packages/transformers/tokenization_utils_base.py:1601: FutureWarning:"
    " `clean_up_tokenization_spaces` was not set. It will be set to `True` by default.",
    "W1129 09:14:02.118 torch/distributed/run.py:779] Setting OMP_NUM_THREADS environment variable for each process to"
    " be 1 in default, to avoid your system being overloaded",
    "huggingface/tokenizers: The current process just got forked, after parallelism has already been used. Disabling"
    " parallelism to avoid deadlocks...",
    "[W Utils.hpp:133] Warning: Environment variable NCCL_ASYNC_ERROR_HANDLING is deprecated; use"
    " TORCH_NCCL_ASYNC_ERROR_HANDLING instead (function getCvarInt)",
    "lr_scheduler.py:143: UserWarning: Detected call of `lr_scheduler.step()` before `optimizer.step()`.",
    "wandb: WARNING Path /home/user/.netrc is world-readable; consider chmod 600",
    "DeprecationWarning: `np.bool8` is a deprecated alias for `np.bool_`.",
    "Some weights of the model were not initialized from the checkpoint and are newly initialized: ['head.weight']",
    "INFO: retrying shard 0017 after timeout (attempt 1 of 5) ... ok",
    "warning: tcp_keepalive could not be set, errors will be detected later",
)
_STYLES = (
    "[{clock}] step {step}/{of} | loss {loss:.4f} | lr {lr:.2e} | grad_norm {norm:.3f} | {rate:.0f} tok/s",
    "{clock} INFO trainer: epoch={epoch} step={step} loss={loss:.5f} acc={acc:.3f} mem={mem:.1f}GiB eta={eta}m",
    "{{'loss': {loss:.4f}, 'grad_norm': {norm:.4f}, 'learning_rate': {lr:.3e}, 'epoch': {epoch}.{step:04d}}}",
    "Epoch: [{epoch}][{step:5d}/{of}]\tTime {eta:6.3f} (0.412)\tLoss {loss:.4e} ({loss:.4e})\tAcc@1 {acc:6.2f} (0.00)",
    " iteration {step:8d}/{of:8d} | consumed samples: {samples:12d} | elapsed time per iteration (ms): {ms:.1f} |"
    " lm loss: {loss:.6E} | loss scale: 1.0 | grad norm: {norm:.3f} | number of skipped iterations:   0 |"
    " number of nan iterations:   0 |",
)


def training(lines: int, seed: int = 0, first_step: int = 1, style: int | None = None) -> Iterator[str]:
    """Yield a log of so many lines: steps, now and then an evaluation, a checkpoint or a warning."""
    draw = random.Random(seed)
    form = _STYLES[style if style is not None else draw.randrange(len(_STYLES))]
    of = first_step + lines + draw.randrange(500, 9000)
    loss, second = draw.uniform(2.0, 11.0), draw.randrange(86_400)
    for number in range(lines):
        step = first_step + number
        loss = max(0.3, loss * draw.uniform(0.996, 1.0035))
        second += draw.randrange(1, 4)
        what = draw.random()
        if what < 0.004:
            yield f"saved checkpoint to /home/user/project/checkpoints/step_{step:06d}.pt ({draw.uniform(1, 9):.2f} s)"
        elif what < 0.010:
            yield f"eval at step {step}: loss {loss * 1.05:.4f}, errors 0, best {loss:.4f} so far"
        elif what < 0.015:
            yield draw.choice(WARNINGS)
        else:
            yield form.format(
                clock=f"2026-03-14 {second // 3600 % 24:02d}:{second // 60 % 60:02d}:{second % 60:02d}",
                step=step,
                of=of,
                loss=loss,
                lr=3e-4 * (1 - number / (lines + 1)),
                norm=draw.uniform(0.2, 1.9),
                rate=draw.uniform(9e3, 4e4),
                epoch=step // 2000,
                acc=draw.uniform(0.2, 0.9),
                mem=draw.uniform(20, 70),
                eta=draw.randrange(10, 300),
                samples=step * 1024,
                ms=draw.uniform(300, 900),
            )


def nccl_info(ranks: int, seed: int = 0, host: str = "node01") -> Iterator[str]:
    """Yield what NCCL says with NCCL_DEBUG=INFO while it starts, rank by rank."""
    draw = random.Random(seed)
    for rank in range(ranks):
        here = f"{host}:{4100 + rank}:{4200 + rank} [{rank % 8}] NCCL INFO"
        yield f"{here} Bootstrap : Using ib0:10.1.0.{11 + rank // 8}<0>"
        yield f"{here} NET/Plugin: No plugin found (libnccl-net.so), using internal implementation"
        yield f"{here} cudaDriverVersion 12040"
        yield f"{here} NET/IB : Using [0]mlx5_0:1/IB/SHARP [1]mlx5_1:1/IB [RO]; OOB ib0:10.1.0.{11 + rank // 8}<0>"
        yield f"{here} Setting affinity for GPU {rank % 8} to ffff,{draw.getrandbits(32):08x}"
        for channel in range(draw.randrange(2, 6)):
            peer = (rank + 1) % ranks
            yield f"{here} Channel {channel:02d}/0 : {rank}[{rank % 8}] -> {peer}[{peer % 8}] via P2P/CUMEM"
        yield f"{here} Connected all rings"
        yield f"{here} comm 0x{draw.getrandbits(44):x} rank {rank} nranks {ranks} cudaDev {rank % 8} - Init COMPLETE"


def progress(total: int, seed: int = 0, name: str = "train") -> Iterator[str]:
    """Yield what a progress bar writes for `total` steps, each from a carriage return; no line feed before its end."""
    draw = random.Random(seed)
    for step in range(total + 1):
        part = step / total
        bar = "█" * int(part * 40) + " " * (40 - int(part * 40))
        yield f"\r{name}: {part:4.0%}|{bar}| {step}/{total} [00:{step % 60:02d}<01:12, {draw.uniform(4, 9):.2f}it/s]"


def prefixed(lines: Iterable[str], launcher: str, rank: int) -> Iterator[str]:
    """Yield lines as a launcher shows those of one rank: `torchrun`, `srun` (with -l), `mpirun` (with --tag-output)."""
    prefix = {"torchrun": f"[default{rank}]:", "srun": f"{rank}: ", "mpirun": f"[1,{rank}]<stdout>:"}[launcher]
    return (prefix + line for line in lines)


def interleaved(streams: Iterable[Iterable[str]], seed: int = 0) -> Iterator[str]:
    """Yield the lines of several ranks in one log, each rank's own in their order."""
    draw = random.Random(seed)
    left = [iter(stream) for stream in streams]
    while left:
        stream = draw.choice(left)
        line = next(stream, None)
        if line is None:
            left.remove(stream)
        else:
            yield line


def main() -> None:
    """Print one kind of noise."""
    parser = argparse.ArgumentParser(description="print what a healthy training prints")
    parser.add_argument("kind", choices=["training", "progress", "nccl", "warnings"])
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first-step", type=int, default=1)
    chosen = parser.parse_args()
    if chosen.kind == "progress":
        sys.stderr.writelines(progress(chosen.count, chosen.seed))
        sys.stderr.write("\n")
        return
    lines: Iterable[str] = training(chosen.count, chosen.seed, chosen.first_step)
    if chosen.kind == "nccl":
        lines = nccl_info(chosen.count, chosen.seed)
    elif chosen.kind == "warnings":
        lines = (WARNINGS[(chosen.seed + number) % len(WARNINGS)] for number in range(chosen.count))
    sys.stdout.writelines(line + "\n" for line in lines)


if __name__ == "__main__":
    main()
