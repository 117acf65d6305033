"""Tensors whose shapes do not fit, in PyTorch and NumPy."""

from __future__ import annotations

from corpus.make.recipe import produced
from corpus.make.recipes.torch_base import torch

RECIPES = [
    torch(
        "shape_mismatch/flattened_width",
        "A classifier's first linear layer was sized for larger images.",
        "RuntimeError: mat1 and mat2 shapes cannot be multiplied (8x2304 and 4096x10)",
        """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
        self.head = nn.Linear(4096, 10)

    def forward(self, images):
        return self.head(self.features(images))


net = Net()
print(f"parameters: {sum(p.numel() for p in net.parameters()):,}")
loader = torch.utils.data.DataLoader(torch.randn(64, 3, 26, 26), batch_size=8)
for images in loader:
    net(images).sum().backward()
""",
    ),
    torch(
        "shape_mismatch/attention_mask_too_long",
        "The causal mask is built for the tokenizer's length, not for the batch's; the script logs the exception.",
        "must match the size of tensor b (77) at non-singleton dimension 3",
        """\
import logging

import torch
import torch.nn.functional as F

logging.basicConfig(level=logging.INFO, format="%(asctime)s | %(levelname)s | %(name)s | %(message)s")
log = logging.getLogger("clip.train")


def attend(query, key, value, mask):
    scores = query @ key.transpose(-2, -1) / query.shape[-1] ** 0.5
    return F.softmax(scores + mask, dim=-1) @ value


def main():
    mask = torch.full((77, 77), float("-inf")).triu(1)
    tokens = torch.randn(2, 4, 64, 16)
    log.info("sequence length %d", tokens.shape[-2])
    attend(tokens, tokens, tokens, mask)


try:
    main()
except Exception:
    log.exception("training failed")
    raise SystemExit(1)
""",
    ),
    torch(
        "shape_mismatch/odd_size_in_skip_connection",
        "A U-Net concatenates a skip connection of an image whose side is odd, after 1,300 good steps.",
        "RuntimeError: Sizes of tensors must match except in dimension 1. Expected size 24 but got size 25",
        """\
import tiny
import torch
from torch import nn

tiny.train(1300, form=1)


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(1, 8, 3, padding=1)
        self.mid = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(8, 8, 3, padding=1), nn.Upsample(scale_factor=2))
        self.up = nn.Conv2d(16, 1, 3, padding=1)

    def forward(self, image):
        skip = self.down(image)
        return self.up(torch.cat([self.mid(skip), skip], dim=1))


net = UNet()
for name, side in (("case_001", 24), ("case_002", 32), ("case_003", 25)):
    print("validating", name, tuple(net(torch.randn(1, 1, side, side)).shape))
""",
    ),
    torch(
        "shape_mismatch/grey_image_in_a_batch",
        "One grey image among colour ones: the collate function fails in a worker, where torch stacks in place.",
        "RuntimeError: Trying to resize storage that is not resizable",
        """\
import torch
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    def __len__(self):
        return 512

    def __getitem__(self, index):
        return torch.rand(1 if index == 201 else 3, 32, 32), index % 10


if __name__ == "__main__":
    for step, (images, labels) in enumerate(DataLoader(Images(), batch_size=16, num_workers=2)):
        print(f"step {step} batch {tuple(images.shape)}")
""",
        class_alt=("runtime_error",),
    ),
    torch(
        "shape_mismatch/channels_of_a_convolution",
        "An RGB backbone is fed MNIST; the program prints a progress bar before.",
        "Given groups=1, weight of size [16, 3, 3, 3], expected input[4, 1, 28, 28] to have 3 channels",
        """\
import sys

import chatter
import torch

sys.stderr.writelines(chatter.progress(400, seed=3, name="pretrain"))
backbone = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3), torch.nn.BatchNorm2d(16))
print("\\nfine-tuning on mnist")
backbone(torch.randn(4, 1, 28, 28))
""",
    ),
    torch(
        "shape_mismatch/reshape_of_heads",
        "The hidden size is no multiple of the number of heads.",
        "is invalid for input of size",
        """\
import torch


def split_heads(hidden, heads):
    batch, length, _ = hidden.shape
    return hidden.view(batch, length, heads, 64)


print("config: hidden=1000 heads=12")
split_heads(torch.randn(2, 10, 1000), 12)
""",
    ),
    torch(
        "shape_mismatch/last_batch_and_a_kept_state",
        "A recurrent state is kept between batches, and the epoch's last batch is smaller; 1,100 lines before.",
        "Expected hidden[0] size (1, 5, 32), got [1, 8, 32]",
        """\
import tiny
import torch

tiny.train(1100, form=2, seed=5)
rnn = torch.nn.LSTM(16, 32, batch_first=True)
state = None
series = torch.randn(101, 20, 16)
for number, batch in enumerate(series.split(8)):
    out, state = rnn(batch, state)
    state = tuple(s.detach() for s in state)
    print(f"batch {number} done, mean {out.mean():.4f}")
""",
    ),
    torch(
        "shape_mismatch/einsum_of_experts",
        "A mixture of experts routes to more experts than there are weights for.",
        "ValueError: Size of label 'e' for operand 1 (8) does not match previous terms (6).",
        """\
import torch

gates = torch.rand(32, 8).softmax(-1)
experts = torch.randn(6, 64, 64)
tokens = torch.randn(32, 64)
print("experts", experts.shape[0], "gates", gates.shape[1])
out = torch.einsum("te,edf,td->tf", gates, experts, tokens)
""",
        class_alt=("traceback",),
    ),
    torch(
        "shape_mismatch/collate_of_unpadded_texts",
        "Token sequences of different lengths are stacked without padding, in the main process.",
        "RuntimeError: stack expects each tensor to be equal size, but got [7] at entry 0 and [9] at entry 1",
        """\
import torch
from torch.utils.data import DataLoader

texts = [torch.arange(n) for n in (7, 9, 4, 12)]
loader = DataLoader(texts, batch_size=2)
print("fine-tuning on", len(texts), "texts", flush=True)
for batch in loader:
    print(batch.shape)
""",
    ),
    torch(
        "shape_mismatch/target_and_logits",
        "Labels of a truncated sequence against logits of all of it: cross_entropy says the batch sizes.",
        "ValueError: Expected input batch_size (126) to match target batch_size (120).",
        """\
import torch
import torch.nn.functional as F

logits = torch.randn(2, 64, 100)
labels = torch.randint(100, (2, 61))
print("evaluating perplexity on 1 batch")
loss = F.cross_entropy(logits[:, :-1].reshape(-1, 100), labels[:, 1:].reshape(-1))
""",
        steps=1568,
    ),
    produced(
        "shape_mismatch/numpy_broadcast",
        "Features are normalised with the statistics of another feature set.",
        "ValueError: operands could not be broadcast together with shapes (256,12) (11,)",
        "python normalise.py",
        text="""\
import numpy as np

features = np.random.default_rng(0).normal(size=(256, 12))
mean = np.zeros(11)
print("normalising", features.shape)
features -= mean
""",
        framework="numpy",
        uses=("numpy",),
        class_alt=("traceback",),
    ),
]
