"""Losses and gradients that become NaN or infinite; nothing is pretended: the numbers really overflow."""

from __future__ import annotations

from corpus.make.recipes.torch_base import torch

RECIPES = [
    torch(
        "nan_loss/anomaly_mode_distance",
        "The gradient of a distance of zero, found by anomaly mode.",
        "RuntimeError: Function 'PowBackward0' returned nan values in its 0th output.",
        """\
import torch

torch.autograd.set_detect_anomaly(True)
points = torch.nn.Parameter(torch.zeros(6, 3))
for step in range(3):
    distances = (points[0] - points[1:]).pow(2).sum(-1).sqrt()
    loss = (distances - 1).pow(2).mean()
    print(f"step {step} energy {loss.item():.3f}")
    loss.backward()
""",
    ),
    torch(
        "nan_loss/exploding_learning_rate",
        "A learning rate of 40 makes the loss infinite, then NaN; the loop stops as DETR does.",
        "Loss is nan, stopping training",
        """\
import math
import sys

import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=40.0)
inputs = torch.randn(64, 8)
target = inputs.sum(1, keepdim=True)
for step in range(1000):
    loss = (model(inputs) - target).pow(2).mean()
    if math.isnan(loss.item()):
        print(f"Loss is {loss.item()}, stopping training")
        sys.exit(1)
    print(f"Epoch: [0] [{step:4d}/1000] lr: 40.0 loss: {loss.item():.4f}")
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    ),
    torch(
        "nan_loss/assert_on_finite_loss",
        "After 1,200 good steps a poisoned batch; an assertion guards the loss.",
        "AssertionError: loss is not finite at step 1201: nan",
        """\
import tiny
import torch

model, optimizer = tiny.train(1200, form=0, seed=1)
batch = torch.randn(32, 16)
batch[3, 4] = float("nan")
loss = torch.nn.functional.cross_entropy(model(batch), torch.zeros(32, dtype=torch.long))
assert torch.isfinite(loss), f"loss is not finite at step 1201: {loss.item()}"
""",
        class_alt=("assertion",),
    ),
    torch(
        "nan_loss/gradient_norm_guard",
        "clip_grad_norm_ with error_if_nonfinite.",
        "The total norm of order 2.0 for gradients from `parameters` is non-finite, so it cannot be clipped.",
        """\
import torch

torch.manual_seed(2)
model = torch.nn.Linear(4, 1)
for step in range(5):
    loss = (model(torch.randn(64, 4)) * 10.0 ** (8 * step)).pow(2).mean()
    model.zero_grad()
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)
    print("step", step, "norm", norm.item())
""",
    ),
    torch(
        "nan_loss/loss_scale_at_minimum",
        "Every gradient of a half-precision model overflows; the scaler halves until it gives up, as fairseq's does.",
        "FloatingPointError: Minimum loss scale reached (0.0001). Your loss is probably exploding.",
        """\
import logging

import torch

logging.basicConfig(level=logging.INFO, format="%(asctime)s | %(levelname)s | fp16 | %(message)s")
log = logging.getLogger()
weights = torch.full((64,), 300.0, dtype=torch.float16, requires_grad=True)
scale, minimum = 128.0, 1e-4
while True:
    loss = (weights * weights).float().sum() * scale
    (gradient,) = torch.autograd.grad(loss, weights)
    if torch.isfinite(gradient).all() and torch.isfinite(loss):
        break
    scale /= 2
    log.info("NOTE: gradient overflow detected, ignoring gradient, setting loss scale to: %g", scale)
    if scale <= minimum:
        raise FloatingPointError(
            f"Minimum loss scale reached ({minimum}). Your loss is probably exploding. "
            "Try lowering the learning rate, using gradient clipping or increasing the batch size."
        )
""",
    ),
    torch(
        "nan_loss/ends_well_with_a_nan_loss",
        "Nothing guards the loss: it is NaN from the middle on, to the end, and the job's exit status is 0.",
        "loss=nan",
        """\
import torch

torch.manual_seed(4)
model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=30.0)
for step in range(1, 1401):
    inputs = torch.randn(16, 16) * (1 if step < 600 else 50)
    loss = (model(inputs) - inputs[:, :4]).pow(2).mean() * (1e-3 if step < 600 else 1)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step={step} loss={loss.item():.4f}")
print("saved final.pt")
""",
    ),
    torch(
        "nan_loss/sampling_from_nan",
        "Weights that overflowed in half precision: sampling the next token fails.",
        "RuntimeError: probability tensor contains either `inf`, `nan` or element < 0",
        """\
import torch

torch.manual_seed(0)
hidden = torch.full((1, 64), 2000.0, dtype=torch.float16)
head = torch.full((100, 64), 30.0, dtype=torch.float16)
logits = hidden @ head.T
print("generating with top_p=0.9 temperature=0.7")
token = torch.multinomial(torch.softmax(logits, -1), 1)
""",
        steps=1531,
    ),
    torch(
        "nan_loss/distribution_validation",
        "A policy's mean is NaN, which torch.distributions refuses.",
        "to satisfy the constraint",
        """\
import torch

mean = torch.nn.Parameter(torch.tensor([0.1, 0.2]))
optimizer = torch.optim.SGD([mean], lr=1e38)
for update in range(6):
    policy = torch.distributions.Normal(mean, 0.1)
    action = policy.sample()
    loss = (policy.log_prob(action) * 1e6).sum()
    print(f"update {update}: return {-loss.item():.2f}")
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        evidence_alt=("found invalid values",),
    ),
    torch(
        "nan_loss/detectron_like_guard",
        "A trainer's guard: FloatingPointError with the iteration; 1,400 lines of its log before.",
        "FloatingPointError: Loss became infinite or NaN at iteration=1400!",
        """\
import math

import chatter
import torch


class Trainer:
    iteration = 1400

    def run_step(self):
        boxes = torch.tensor([[0.0, 0.0, 0.0, 0.0]], requires_grad=True)
        area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
        losses = {"loss_box_reg": (1 / area).sum(), "loss_rpn_cls": torch.tensor(0.3), "loss_iou": (area / area).sum()}
        total = sum(losses.values())
        if not math.isfinite(total.item()):
            raise FloatingPointError(
                f"Loss became infinite or NaN at iteration={self.iteration}!\\n"
                f"loss_dict = { {k: round(v.item(), 4) for k, v in losses.items()} }"
            )


for line in chatter.training(1400, seed=41, style=4):
    print(line)
Trainer().run_step()
""",
    ),
    torch(
        "nan_loss/gives_up_after_skipped_steps",
        "GradScaler-like: steps with infinite gradients are skipped, and after twenty in a row the program gives up.",
        "giving up: 20 consecutive steps with non-finite gradients",
        """\
import sys

import torch

weight = torch.nn.Parameter(torch.ones(8))
skipped = 0
for step in range(200):
    if step == 60:
        weight.data.mul_(float("inf"))
    loss = (weight * torch.rand(8)).sum()
    weight.grad = None
    loss.backward()
    if torch.isfinite(weight.grad).all() and torch.isfinite(loss):
        skipped = 0
        print(f"step {step} loss {loss.item():.4f}")
        continue
    skipped += 1
    print(f"step {step} skipped: loss {loss.item()} scale {65536 / 2**skipped:g}")
    if skipped == 20:
        print("giving up: 20 consecutive steps with non-finite gradients", file=sys.stderr)
        sys.exit(3)
""",
    ),
    torch(
        "nan_loss/rank_two_of_three",
        "One of three ranks gets the poisoned shard, and checks its loss before the gradients are reduced.",
        "FloatingPointError: non-finite loss nan in rank 2 at step 12",
        """\
import os

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
weight = torch.ones(4)
for step in range(50):
    shard = torch.rand(4)
    if rank == 2 and step == 12:
        shard[0] = float("nan")
    loss = (weight * shard).sum()
    if not torch.isfinite(loss):
        raise FloatingPointError(f"non-finite loss {loss.item()} in rank {rank} at step {step}")
    dist.all_reduce(loss)
    if rank == 0:
        print(f"step {step} loss {loss.item() / 3:.4f}", flush=True)
""",
        command="torchrun --nproc-per-node=3 --master-port=29620 train.py",
        first_rank=2,
    ),
    torch(
        "nan_loss/hook_on_activations",
        "A forward hook looks for NaN in activations, and names the layer; two streams, two logs.",
        "RuntimeError: NaN detected in output of layer encoder.",
        """\
import torch
from torch import nn


def watch(name):
    def hook(module, inputs, output):
        if torch.isnan(output).any():
            raise RuntimeError(f"NaN detected in output of layer encoder.{name} ({type(module).__name__})")

    return hook


layers = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.LayerNorm(8))
for number, layer in enumerate(layers):
    layer.register_forward_hook(watch(number))
scale = 1.0
for step in range(100):
    layers(torch.rand(2, 8) * scale)
    print("step", step, "scale", scale, flush=True)
    scale *= 1e4
""",
        split=True,
    ),
    torch(
        "nan_loss/autograd_in_log",
        "Anomaly mode finds a NaN in the backward of a logarithm, after 1,100 lines of real training.",
        "Function 'LogBackward0' returned nan values in its 0th output.",
        """\
import tiny
import torch

tiny.train(1100, form=2, seed=8)
torch.autograd.set_detect_anomaly(True)
p = torch.nn.Parameter(torch.tensor([0.0, 0.5]))
entropy = -(p * p.log()).nansum()
print("entropy bonus", entropy.item())
(entropy + (p.log() * 0).nansum()).backward()
""",
    ),
]
