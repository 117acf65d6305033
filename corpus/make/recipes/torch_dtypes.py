"""Tensors whose types do not fit."""

from __future__ import annotations

from corpus.make.recipes.torch_base import torch

RECIPES = [
    torch(
        "dtype_mismatch/float64_from_numpy",
        "Features come from NumPy as float64; the model is float32.",
        "RuntimeError: mat1 and mat2 must have the same dtype, but got Double and Float",
        """\
import numpy as np
import torch

features = torch.from_numpy(np.random.default_rng(0).normal(size=(100, 20)))
model = torch.nn.Sequential(torch.nn.Linear(20, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
print("dataset:", features.shape, features.dtype)
model(features)
""",
        uses=("torch", "numpy"),
    ),
    torch(
        "dtype_mismatch/labels_as_floats",
        "Class labels read from a CSV file are floats.",
        "expected target dtype to be Long or Byte, but got Float",
        """\
import csv
import io

import torch

table = io.StringIO("0.1,0.2,1\\n0.3,0.1,0\\n0.2,0.9,2\\n")
rows = torch.tensor([[float(x) for x in row] for row in csv.reader(table)])
inputs, labels = rows[:, :2], rows[:, 2]
print("epoch 1")
torch.nn.CrossEntropyLoss()(torch.nn.Linear(2, 3)(inputs), labels)
""",
    ),
    torch(
        "dtype_mismatch/token_ids_after_scaling",
        "Token ids are divided by two on the way to the embedding; real training before it.",
        "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int",
        """\
import tiny
import torch

tiny.train(1250, form=0, seed=3)
embedding = torch.nn.Embedding(1000, 32)
ids = torch.arange(0, 64)
print("stage 2: packed ids")
embedding(ids / 2)
""",
    ),
    torch(
        "dtype_mismatch/bf16_layer_and_fp32_input",
        "One layer was cast to bfloat16 and its input was not.",
        "mat1 and mat2 must have the same dtype, but got Float and BFloat16",
        """\
import torch


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(64)
        self.mlp = torch.nn.Linear(64, 64).bfloat16()

    def forward(self, x):
        return x + self.mlp(self.norm(x))


model = torch.nn.Sequential(*(Block() for _ in range(3)))
print("lm_head dtype: torch.bfloat16")
model(torch.randn(2, 5, 64))
""",
        steps=1383,
    ),
    torch(
        "dtype_mismatch/convolution_of_doubles",
        "A spectrogram in double precision goes into a convolution.",
        "RuntimeError: Input type (double) and bias type (float) should be the same",
        """\
import torch

wave = torch.sin(torch.linspace(0, 100, 16000, dtype=torch.float64))
spectrogram = torch.stft(wave, 256, return_complex=True, window=torch.hann_window(256, dtype=torch.float64)).abs()
print("spectrogram", tuple(spectrogram.shape))
torch.nn.Conv2d(1, 8, 3)(spectrogram[None, None])
""",
    ),
    torch(
        "dtype_mismatch/accumulate_into_integers",
        "A running sum starts as integers.",
        "result type Float can't be cast to the desired output type Long",
        """\
import torch

total = torch.zeros(4, dtype=torch.long)
for step in range(3):
    print("step", step)
    total += torch.rand(4)
""",
    ),
    torch(
        "dtype_mismatch/mask_of_floats",
        "A padding mask is float where masked_fill wants bool.",
        "masked_fill_ only supports boolean masks, but got mask with dtype float",
        """\
import torch

scores = torch.randn(2, 6, 6)
mask = torch.ones(6, 6).triu(1)
print("decoder layer 0")
scores.masked_fill(mask, float("-inf"))
""",
    ),
    torch(
        "dtype_mismatch/query_and_key",
        "The key-value cache is in half precision, the query is not; behind a training log.",
        "Expected query, key, and value to have the same dtype",
        """\
import chatter
import torch

for line in chatter.training(1400, seed=21, style=1):
    print(line)
cache = torch.zeros(1, 4, 16, 32, dtype=torch.float16)
query = torch.randn(1, 4, 1, 32)
torch.nn.functional.scaled_dot_product_attention(query, cache, cache)
""",
    ),
    torch(
        "dtype_mismatch/softmax_of_integers",
        "Integer scores go into softmax: not implemented for 'Long'.",
        "\"softmax_lastdim_kernel_impl\" not implemented for 'Long'",
        """\
import torch

votes = torch.tensor([[3, 1, 0], [0, 2, 2]])
print("ensemble of 4 models")
print(torch.softmax(votes, dim=-1))
""",
        steps=1420,
    ),
]
