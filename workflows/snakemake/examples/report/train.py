"""Stands for a training: A goes well, B runs out of GPU memory, C lacks a file."""

import sys
from pathlib import Path

sample, output = sys.argv[1:]
print("epoch 1: loss 0.71")
if sample == "B":
    print("epoch 2: loss 0.64")
    sys.exit("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB.")
if sample == "C":
    Path("data/C.json").read_text()
Path(output).write_text("a model\n")
