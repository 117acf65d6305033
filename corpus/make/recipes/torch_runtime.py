"""RuntimeErrors of PyTorch that nothing more specific describes, assertions, and exceptions from its depths."""

from __future__ import annotations

from corpus.make.recipes.torch_base import torch

RECIPES = [
    torch(
        "runtime_error/backward_twice",
        "A loss is kept over an iteration and backpropagated again, after 1,250 steps.",
        "RuntimeError: Trying to backward through the graph a second time",
        """\
import tiny
import torch

tiny.train(1250, form=1, seed=4)
hidden = torch.zeros(1, 8)
cell = torch.nn.RNNCell(4, 8)
for step in range(3):
    hidden = cell(torch.randn(1, 4), hidden)
    loss = hidden.pow(2).sum()
    print("bptt step", step, "loss", loss.item())
    loss.backward()
""",
    ),
    torch(
        "runtime_error/in_place_modification",
        "An activation is changed in place between forward and backward.",
        "RuntimeError: one of the variables needed for gradient computation has been modified by an inplace operation",
        """\
import torch

layer = torch.nn.Linear(4, 4)
out = torch.sigmoid(layer(torch.randn(2, 4)))
print("epoch 0, batch 0")
out += 1
out.sum().backward()
""",
        steps=1087,
    ),
    torch(
        "runtime_error/leaf_in_place",
        "Weights are initialised in place without no_grad.",
        "RuntimeError: a leaf Variable that requires grad is being used in an in-place operation.",
        """\
import torch

model = torch.nn.Linear(8, 8)
print("re-initialising weights")
for parameter in model.parameters():
    parameter.mul_(0.1)
""",
    ),
    torch(
        "runtime_error/view_of_a_transpose",
        "view on a tensor that is not contiguous.",
        "RuntimeError: view size is not compatible with input tensor's size and stride",
        """\
import logging

import torch

logging.basicConfig(level=logging.DEBUG, format="%(asctime)s %(name)s %(levelname)s %(message)s")
logging.debug("loading 4 heads")
heads = torch.randn(2, 4, 10, 8)
merged = heads.transpose(1, 2).view(2, 10, 32)
""",
        class_alt=("shape_mismatch",),
    ),
    torch(
        "runtime_error/nothing_requires_grad",
        "All parameters were frozen.",
        "RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn",
        """\
import torch

model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1))
for parameter in model.parameters():
    parameter.requires_grad = False
trainable = sum(p.numel() for p in model.parameters() if p.requires_grad)
print(f"trainable params: {trainable} || all params: {sum(p.numel() for p in model.parameters())}")
model(torch.randn(2, 4)).mean().backward()
""",
    ),
    torch(
        "runtime_error/numpy_of_a_tensor_with_grad",
        "A metric is computed with NumPy from a tensor that requires grad; two logs, 1,100 lines on the first.",
        "RuntimeError: Can't call numpy() on Tensor that requires grad.",
        """\
import tiny
import torch

model, _ = tiny.train(1100, form=0, seed=14)
scores = model(torch.randn(10, 16))
print("auc", scores.numpy().mean())
""",
        split=True,
    ),
    torch(
        "runtime_error/inference_tensor_in_training",
        "Features computed in inference mode are trained on.",
        "RuntimeError: Inference tensors cannot be saved for backward.",
        """\
import torch

backbone, head = torch.nn.Linear(8, 8), torch.nn.Linear(8, 2)
with torch.inference_mode():
    features = backbone(torch.randn(4, 8))
print("linear probe on", len(features), "features")
head(features).sum().backward()
""",
    ),
    torch(
        "runtime_error/singular_matrix",
        "A natural-gradient step inverts a matrix that is singular.",
        "linalg.inv: The diagonal element 1 is zero",
        """\
import torch

fisher = torch.zeros(3, 3)
print("kfac: factor update 1")
torch.linalg.inv(fisher)
""",
        class_alt=("traceback",),
    ),
    torch(
        "runtime_error/deepcopy_of_a_graph",
        "An exponential average copies a tensor that is no leaf.",
        "RuntimeError: Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol",
        """\
import copy

import torch

model = torch.nn.Linear(2, 2)
model.cache = model(torch.ones(1, 2))
print("creating ema copy")
ema = copy.deepcopy(model)
""",
        steps=1124,
    ),
    torch(
        "runtime_error/vector_backward",
        "backward on a loss of one value a sample; the loss was made with reduction='none'.",
        "RuntimeError: grad can be implicitly created only for scalar outputs",
        """\
import torch
import torch.nn.functional as F

model = torch.nn.Linear(4, 3)
for epoch in range(2):
    loss = F.cross_entropy(model(torch.randn(8, 4)), torch.randint(3, (8,)), reduction="none")
    print(f"epoch {epoch} loss {loss.mean():.3f}")
    loss.backward()
""",
    ),
    torch(
        "runtime_error/unused_parameter_under_ddp",
        "DistributedDataParallel finds parameters that got no gradient; both ranks say so.",
        "RuntimeError: Expected to have finished reduction in the prior iteration before starting a new one.",
        """\
import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.unused = nn.Linear(4, 2), nn.Linear(4, 2)

    def forward(self, x):
        return self.used(x)


model = nn.parallel.DistributedDataParallel(Net())
for step in range(5):
    model(torch.randn(2, 4)).sum().backward()
    print(f"rank {dist.get_rank()} step {step}", flush=True)
""",
        command="torchrun --nproc-per-node=2 --master-port=29641 train.py",
    ),
    torch(
        "runtime_error/vmap_of_item",
        "torch.vmap over a function that asks for a Python number.",
        "RuntimeError: vmap: It looks like you're calling .item() on a Tensor.",
        """\
import chatter
import torch


def energy(x):
    return x * 2 if x.item() > 0 else x


for line in chatter.training(1300, seed=71, style=2):
    print(line)
torch.vmap(energy)(torch.randn(16))
""",
    ),
    torch(
        "runtime_error/cholesky_in_a_gaussian_process",
        "A kernel matrix is not positive definite.",
        "The factorization could not be completed because the input is not positive-definite",
        """\
import torch

x = torch.tensor([[0.0], [0.0], [1.0]])
kernel = torch.exp(-torch.cdist(x, x)) - 0.5 * torch.eye(3)
print("fitting a GP to 3 points")
torch.linalg.cholesky(kernel)
""",
        class_alt=("traceback",),
    ),
    torch(
        "assertion/head_dimension_in_attention",
        "torch.nn.MultiheadAttention asserts in Python that heads divide the width.",
        "AssertionError: embed_dim must be divisible by num_heads",
        """\
import torch

for heads in (4, 8, 12):
    torch.nn.MultiheadAttention(64, heads)
    print("heads", heads, "ok")
""",
    ),
    torch(
        "assertion/gradients_of_a_scaler",
        "GradScaler asserts that inf checks were recorded; after 1,150 lines.",
        "AssertionError: No inf checks were recorded for this optimizer.",
        """\
import tiny
import torch

model, optimizer = tiny.train(1150, form=2, seed=17)
scaler = torch.amp.GradScaler("cpu")
optimizer.zero_grad(set_to_none=True)
print("switching to mixed precision")
scaler.scale(torch.ones(1, requires_grad=True).sum()).backward()
scaler.step(optimizer)
""",
    ),
    torch(
        "assertion/torch_testing_assert_close",
        "A numerical check against a reference fails.",
        "AssertionError: Tensor-likes are not close!",
        """\
import torch

torch.manual_seed(0)
x = torch.randn(64, 64)
reference = x @ x
approximate = (x.bfloat16() @ x.bfloat16()).float()
print("checking fused kernel against reference")
torch.testing.assert_close(approximate, reference)
""",
        steps=1235,
    ),
    torch(
        "traceback/label_out_of_range",
        "A label of 7 in a problem of three classes: on a CPU an IndexError.",
        "IndexError: Target 7 is out of bounds.",
        """\
import torch
import torch.nn.functional as F

logits = torch.randn(4, 3)
print("epoch 0")
F.cross_entropy(logits, torch.tensor([0, 2, 7, 1]))
""",
        steps=1161,
    ),
    torch(
        "traceback/token_out_of_vocabulary",
        "A token id beyond the embedding table.",
        "IndexError: index out of range in self",
        """\
import torch

embedding = torch.nn.Embedding(32000, 16)
print("prompt of 3 tokens")
embedding(torch.tensor([[1, 31999, 32000]]))
""",
        steps=1198,
    ),
    torch(
        "traceback/empty_dataset",
        "A filter left no sample; the sampler says so.",
        "ValueError: num_samples should be a positive integer value, but got num_samples=0",
        """\
from torch.utils.data import DataLoader

samples = [s for s in ("a.png", "b.png") if s.endswith(".jpg")]
print(f"found {len(samples)} images")
DataLoader(samples, batch_size=4, shuffle=True)
""",
    ),
    torch(
        "traceback/scheduler_stepped_too_often",
        "OneCycleLR is stepped beyond its end, after 1,050 lines of training.",
        "ValueError: Tried to step 3 times. The specified number of total steps is 2",
        """\
import tiny
import torch

model, optimizer = tiny.train(1050, form=0, seed=19)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=2)
for step in range(5):
    optimizer.step()
    schedule.step()
""",
    ),
]
