"""Checkpoints that are damaged, and such that do not fit the model."""

from __future__ import annotations

from corpus.make.recipes.torch_base import torch

_SAVE = """\
import torch
from torch import nn

model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64))
optimizer = torch.optim.AdamW(model.parameters())
"""
# Really saved, then cut as a full disk or a killed job leaves it.
_CUT = """
torch.save({"model": model.state_dict(), "step": 1200}, "last.pt")
with open("last.pt", "rb+") as file:
    file.truncate(SIZE)
"""

RECIPES = [
    torch(
        "checkpoint_corrupt/no_central_directory",
        "A checkpoint of which only the first kilobyte was written.",
        "PytorchStreamReader failed reading zip archive: failed finding central directory",
        _SAVE + _CUT.replace("SIZE", "1000") + 'print("resuming from last.pt")\ntorch.load("last.pt")\n',
    ),
    torch(
        "checkpoint_corrupt/half_a_file",
        "A checkpoint cut in half: this torch says EINVAL of all things, since it seeks before the file's beginning.",
        "OSError: [Errno 22] Invalid argument",
        _SAVE + _CUT.replace("SIZE", "20000") + 'print("=> loading checkpoint \'last.pt\'")\ntorch.load("last.pt")\n',
        class_alt=("traceback", "storage_io"),
        action="fix",
    ),
    torch(
        "checkpoint_corrupt/empty_file",
        "A checkpoint of no bytes, left by a job that was killed while it saved; the retry fails at once.",
        "EOFError: Ran out of input",
        _SAVE
        + 'open("last.pt", "wb").close()\nprint("auto-resume: found last.pt")\n'
        + 'torch.load("last.pt", weights_only=False)\n',
    ),
    torch(
        "checkpoint_corrupt/web_page_in_its_place",
        "The download was a page that says 404; 1,100 lines of noise before.",
        "Weights only load failed",
        "import chatter\nimport torch\n\nfor line in chatter.training(1100, seed=51):\n    print(line)\n"
        'open("weights.pth", "w").write("<!DOCTYPE html><html><title>404</title></html>")\ntorch.load("weights.pth")\n',
        evidence_alt=("UnpicklingError",),
    ),
    torch(
        "checkpoint_corrupt/safetensors_cut",
        "A shard of safetensors whose second half is missing.",
        "incomplete metadata, file not fully covered",
        """\
import logging
import torch
from safetensors.torch import load_file, save_file

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
save_file({"model.embed.weight": torch.zeros(64, 64)}, "model-00002-of-00003.safetensors")
with open("model-00002-of-00003.safetensors", "rb+") as file:
    file.truncate(9000)
for shard in ("model-00002-of-00003.safetensors",):
    logging.info("loading %s", shard)
    load_file(shard)
""",
        uses=("torch", "safetensors"),
        steps=1494,
    ),
    torch(
        "checkpoint_corrupt/safetensors_header",
        "A Git LFS pointer where a file of weights should be.",
        "Error while deserializing header: header too large",
        """\
from safetensors.torch import load_file

with open("adapter_model.safetensors", "w") as file:
    file.write("version https://git-lfs.github.com/spec/v1\\noid sha256:4d7a214614ab2935c943f9e0ff69d22e\\n")
print("loading adapter")
load_file("adapter_model.safetensors")
""",
        uses=("torch", "safetensors"),
    ),
    torch(
        "checkpoint_corrupt/missing_storage_in_the_zip",
        "One storage of the archive is missing; the best state is loaded after 1,300 steps.",
        "PytorchStreamReader failed locating file data/1: file not found",
        """\
import zipfile

import tiny
import torch

model, optimizer = tiny.train(1300, form=0, seed=6)
torch.save(model.state_dict(), "whole.pt")
with zipfile.ZipFile("whole.pt") as whole, zipfile.ZipFile("best.pt", "w") as best:
    for item in whole.infolist():
        if not item.filename.endswith("data/1"):
            best.writestr(item, whole.read(item))
print("restoring best.pt")
model.load_state_dict(torch.load("best.pt"))
""",
    ),
    torch(
        "checkpoint_corrupt/old_format_cut",
        "A file in the format before 1.6, cut off.",
        "unexpected EOF, expected",
        _SAVE
        + """
torch.save(model.state_dict(), "legacy.pth.tar", _use_new_zipfile_serialization=False)
with open("legacy.pth.tar", "rb+") as file:
    file.truncate(17000)
print("loading legacy.pth.tar")
torch.load("legacy.pth.tar")
""",
    ),
    torch(
        "checkpoint_corrupt/pickle_cut",
        "Replay buffers in a pickle that was not written to its end.",
        "_pickle.UnpicklingError: pickle data was truncated",
        """\
import pickle

data = pickle.dumps({"buffer": [float(i) for i in range(1000)]})
open("replay.pkl", "wb").write(data[: len(data) // 2])
print("restoring replay buffer")
with open("replay.pkl", "rb") as file:
    pickle.load(file)
""",
        framework="python",
        uses=(),
    ),
    torch(
        "checkpoint_corrupt/distributed_shard",
        "torch.distributed.checkpoint: one shard is a third of its size; each of two ranks reads it.",
        "CheckpointException",
        """\
import os
import warnings

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp

warnings.simplefilter("ignore")
dist.init_process_group("gloo")
state = {"weight": torch.randn(256, 64), f"rank{dist.get_rank()}": torch.randn(2000)}
dcp.save(state, checkpoint_id="step-100")
dist.barrier()
if dist.get_rank() == 0:
    with open("step-100/__1_0.distcp", "rb+") as file:
        file.truncate(1500)
dist.barrier()
print("rank", dist.get_rank(), "loads step-100", flush=True)
dcp.load(state, checkpoint_id="step-100")
""",
        command="torchrun --nproc-per-node=2 --master-port=29631 train.py",
        evidence_alt=("PytorchStreamReader", "failed finding central directory"),
    ),
    torch(
        "checkpoint_mismatch/other_number_of_classes",
        "A head for 1,000 classes into a model of 10.",
        "size mismatch for 1.weight: copying a param with shape torch.Size([1000, 32])",
        """\
import torch
from torch import nn

torch.save(nn.Sequential(nn.Linear(8, 32), nn.Linear(32, 1000)).state_dict(), "imagenet.pt")
model = nn.Sequential(nn.Linear(8, 32), nn.Linear(32, 10))
print("=> using pre-trained model")
model.load_state_dict(torch.load("imagenet.pt"))
""",
        evidence_alt=("RuntimeError: Error(s) in loading state_dict for Sequential:",),
    ),
    torch(
        "checkpoint_mismatch/saved_by_data_parallel",
        "The keys begin with `module.`, as DataParallel saved them; real training before.",
        "RuntimeError: Error(s) in loading state_dict for Sequential:",
        """\
import tiny
import torch

model, _ = tiny.train(1200, form=2, seed=2)
torch.save({"module." + k: v for k, v in model.state_dict().items()}, "ddp.pt")
print("evaluating ddp.pt")
model.load_state_dict(torch.load("ddp.pt"))
""",
        evidence_alt=("Missing key(s) in state_dict", "Unexpected key(s) in state_dict"),
    ),
    torch(
        "checkpoint_mismatch/optimizer_with_more_groups",
        "The model gained a parameter group since the optimizer was saved.",
        "ValueError: loaded state dict has a different number of parameter groups",
        _SAVE
        + """
torch.save(optimizer.state_dict(), "optimizer.pt")
groups = [{"params": model[0].parameters()}, {"params": model[2].parameters(), "lr": 1e-5}]
optimizer = torch.optim.AdamW(groups)
print("resuming the optimizer")
optimizer.load_state_dict(torch.load("optimizer.pt"))
""",
        steps=1457,
    ),
    torch(
        "checkpoint_mismatch/optimizer_of_other_parameters",
        "The optimizer's state is of a model with more parameters.",
        "loaded state dict contains a parameter group that doesn't match the size of optimizer's group",
        _SAVE
        + """
torch.save(optimizer.state_dict(), "optimizer.pt")
for parameter in model[0].parameters():
    parameter.requires_grad_(False)
optimizer = torch.optim.AdamW(p for p in model.parameters() if p.requires_grad)
print("stage 2: only the head is trained")
optimizer.load_state_dict(torch.load("optimizer.pt"))
""",
    ),
    torch(
        "checkpoint_mismatch/renamed_layers",
        "Layers were renamed since; the log tells of it through logging, with a level, and exits 1.",
        "Missing key(s) in state_dict",
        """\
import logging
import sys

import torch
from torch import nn

logging.basicConfig(level=logging.INFO, format="%(asctime)s [%(levelname)s] %(message)s")


class Net(nn.Module):
    def __init__(self, name):
        super().__init__()
        self.add_module(name, nn.Linear(4, 4))


torch.save(Net("fc").state_dict(), "net.pt")
try:
    Net("classifier").load_state_dict(torch.load("net.pt"))
except RuntimeError as error:
    logging.error("cannot restore net.pt: %s", error)
    sys.exit(1)
""",
        evidence_alt=("cannot restore net.pt", "Unexpected key(s) in state_dict"),
    ),
    torch(
        "checkpoint_mismatch/vocabulary_on_all_ranks",
        "Two ranks load one checkpoint with another vocabulary; both fail in the same way.",
        "size mismatch for weight: copying a param with shape torch.Size([32000, 8])",
        """\
import os

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
if dist.get_rank() == 0:
    torch.save(torch.nn.Embedding(32000, 8).state_dict(), "embedding.pt")
dist.barrier()
model = torch.nn.Embedding(32002, 8)
print(f"rank {dist.get_rank()}: tokenizer has 32002 entries", flush=True)
model.load_state_dict(torch.load("embedding.pt"))
""",
        command="torchrun --nproc-per-node=2 --master-port=29632 train.py",
        evidence_alt=("Error(s) in loading state_dict for Embedding",),
    ),
    torch(
        "checkpoint_mismatch/distributed_checkpoint_of_another_size",
        "torch.distributed.checkpoint compares sizes itself.",
        "Size mismatch between saved torch.Size([64, 64]) and current",
        _SAVE
        + """
import warnings

import torch.distributed.checkpoint as dcp

warnings.simplefilter("ignore")
dcp.save({"model": model.state_dict()}, checkpoint_id="step-500")
model[2] = nn.Linear(64, 32)
print("resuming from step-500")
dcp.load({"model": model.state_dict()}, checkpoint_id="step-500")
""",
        evidence_alt=("CheckpointException",),
    ),
]
