"""Stands for a training: A goes well, B runs out of GPU memory with batches of more than 32, C lacks a file."""

import sys
from pathlib import Path

sample, output, batch = sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 64
print("epoch 1: loss 0.71")
if sample == "B" and batch > 32:
    sys.exit("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB.")
if sample == "C":
    Path("data/C.json").read_text()
Path(output).write_text("a model\n")
