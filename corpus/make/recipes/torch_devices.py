"""
Tensors on different devices.

A machine without a GPU has two devices as well: `cpu` and `meta`, where big models are made before they are loaded.
What is printed differs from a GPU's messages in nothing but the device's name.
"""

from __future__ import annotations

from corpus.make.recipe import produced
from corpus.make.recipes.torch_base import ENV, torch

_JAX = {**ENV, "XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "cpu"}

RECIPES = [
    torch(
        "device_mismatch/head_left_on_meta",
        "The backbone was loaded, the new head was never moved off the meta device.",
        "RuntimeError: Tensor on device meta is not on the expected device cpu!",
        """\
import torch
from torch import nn


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Linear(32, 64)
        with torch.device("meta"):
            self.head = nn.Linear(64, 5)

    def forward(self, x):
        return self.head(self.backbone(x).relu())


model = Classifier()
print({name: str(p.device) for name, p in model.named_parameters()})
model(torch.randn(4, 32))
""",
    ),
    torch(
        "device_mismatch/positions_not_registered",
        "Positions are a plain attribute, not a buffer: moving the model left them behind. Real training before.",
        "RuntimeError: Tensor on device cpu is not on the expected device meta!",
        """\
import tiny
import torch
from torch import nn

tiny.train(1150, form=0, seed=9)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(16, 16)
        self.positions = torch.randn(10, 16)

    def forward(self, x):
        return self.proj(x + self.positions)


encoder = Encoder().to("meta")
print("counting the FLOPs of the encoder on the meta device")
encoder(torch.randn(2, 10, 16, device="meta"))
""",
    ),
    torch(
        "device_mismatch/loss_against_labels",
        "Predictions and labels are on different devices when the loss is taken; the job's own logger tells.",
        "RuntimeError: Tensor on device meta is not on the expected device cpu!",
        """\
import logging

import torch
import torch.nn.functional as F

logging.basicConfig(level=logging.INFO, format="[%(levelname)s] %(asctime)s %(module)s: %(message)s")


def training_step(model, batch, device):
    inputs, labels = batch
    logits = model(inputs.to(device))
    return F.cross_entropy(logits, labels)


model = torch.nn.Linear(8, 3).to("meta")
logging.info("dry run of one step on %s", next(model.parameters()).device)
training_step(model, (torch.randn(4, 8), torch.tensor([0, 1, 2, 0])), "meta")
""",
    ),
    torch(
        "device_mismatch/lstm_parameters",
        "A recurrent layer says which of input and parameters is where.",
        "Input and parameter tensors are not at the same device, found input tensor at cpu",
        """\
import torch

with torch.device("meta"):
    tagger = torch.nn.LSTM(16, 32, num_layers=2)
print("tagging 3 sentences")
tagger(torch.randn(7, 3, 16))
""",
    ),
    torch(
        "device_mismatch/attention_cache",
        "The key-value cache was made on another device than the query.",
        "Expected query, key, and value to have the same device type",
        """\
import torch
import torch.nn.functional as F


class Cache:
    def __init__(self, length):
        self.keys = torch.empty(1, 2, length, 8, device="meta")
        self.values = torch.empty(1, 2, length, 8, device="meta")


cache = Cache(128)
print("generating 1 of 32 tokens")
F.scaled_dot_product_attention(torch.randn(1, 2, 1, 8), cache.keys, cache.values)
""",
        steps=1346,
    ),
    torch(
        "device_mismatch/optimizer_state_after_offload",
        "The optimizer's state was offloaded and not brought back, after 1,050 steps.",
        "is not on the expected device",
        """\
import tiny
import torch

tiny.train(1050, form=1, seed=12)
model = torch.nn.Linear(8, 2)
optimizer = torch.optim.Adam(model.parameters())
for step in range(2):
    model(torch.randn(4, 8)).sum().backward()
    optimizer.step()
    print("fine-tuning step", step)
    for state in optimizer.state.values():
        state["exp_avg"] = state["exp_avg"].to("meta")
""",
    ),
    torch(
        "device_mismatch/gradient_assigned",
        "Gradients that another worker made are assigned to parameters elsewhere.",
        "attempting to assign a gradient with device type 'meta' to a tensor with device type 'cpu'",
        """\
import torch

model = torch.nn.Linear(8, 2)
gradients = {name: torch.zeros_like(p, device="meta") for name, p in model.named_parameters()}
print("applying gradients of worker 1")
for name, parameter in model.named_parameters():
    parameter.grad = gradients[name]
""",
    ),
    torch(
        "device_mismatch/index_add_of_a_graph",
        "A graph network scatters messages with indices on another device.",
        "index_add(): self, index and source expected to be in the same device",
        """\
import torch

nodes = torch.zeros(5, 4)
edges = torch.tensor([[0, 1, 2], [1, 2, 3]], device="meta")
messages = torch.randn(3, 4)
print("layer 1: aggregating 3 messages to 5 nodes")
nodes.index_add_(0, edges[1], messages)
""",
    ),
    torch(
        "device_mismatch/batch_norm_statistics",
        "Running statistics lie on another device than the batch; two streams in two logs.",
        "is not on the expected device",
        """\
import sys

import torch
import torch.nn.functional as F

statistics = {"mean": torch.zeros(8, device="meta"), "var": torch.ones(8, device="meta")}
print("epoch 3 evaluating")
sys.stdout.flush()
F.batch_norm(torch.randn(4, 8), statistics["mean"], statistics["var"])
""",
        split=True,
    ),
    torch(
        "device_mismatch/teacher_and_student",
        "Distillation: the teacher's output and the student's are on two devices; 1,200 lines before.",
        "is not on the expected device",
        """\
import chatter
import torch

for line in chatter.training(1200, seed=33, style=3):
    print(line)
teacher = torch.nn.Linear(16, 4, device="meta")
student = torch.nn.Linear(16, 4)
batch = torch.randn(8, 16)
distance = torch.nn.functional.kl_div(student(batch).log_softmax(-1), teacher(batch.to("meta")).softmax(-1))
""",
    ),
    torch(
        "device_mismatch/guard_of_the_program",
        "The program checks devices itself and says what torch would say of a GPU.",
        "Expected all tensors to be on the same device, but found at least two devices, meta and cpu!",
        """\
import torch


def same_device(*tensors):
    found = sorted({str(t.device) for t in tensors}, reverse=True)
    if len(found) > 1:
        raise RuntimeError(
            "Expected all tensors to be on the same device, but found at least two devices, "
            + " and ".join(found) + "!"
        )


queries, memory = torch.randn(4, 8), torch.randn(100, 8, device="meta")
print("retrieval over", len(memory), "vectors")
same_device(queries, memory)
""",
    ),
    produced(
        "device_mismatch/jax_two_devices",
        "Two arrays are committed to two devices and added under jit.",
        "Received incompatible devices for jitted computation",
        "python step.py",
        text="""\
import jax
import jax.numpy as jnp

first, second = jax.devices()[:2]
params = jax.device_put(jnp.ones((4, 4)), first)
batch = jax.device_put(jnp.ones((2, 4)), second)
print("devices:", jax.devices())
print(jax.jit(lambda p, b: b @ p)(params, batch))
""",
        env=_JAX,
        framework="jax",
        uses=("jax",),
    ),
    torch(
        "device_mismatch/rank_with_other_device",
        "Of two ranks, the second leaves its mask on another device; the first waits for it in all_reduce.",
        "is not on the expected device",
        """\
import os

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
loss = torch.zeros(4)
for step in range(30):
    dist.all_reduce(loss)
    print(f"rank {rank} step {step}", flush=True)
mask = torch.ones(4, device="meta" if rank == 1 else "cpu")
loss = loss * mask
dist.all_reduce(loss)
""",
        command="torchrun --nproc-per-node=2 --master-port=29611 train.py",
        first_rank=1,
    ),
]
