"""Lightning, Hugging Face's Trainer and accelerate: what they raise themselves, and what they wrap."""

from __future__ import annotations

from typing import Any

from corpus.make.recipe import Recipe
from corpus.make.recipes.torch_base import torch

_LIGHTNING = """\
import lightning
import torch
from torch.utils.data import DataLoader


class Model(lightning.LightningModule):
    def __init__(self, width=4):
        super().__init__()
        self.layer = torch.nn.Linear(width, 1)

    def training_step(self, batch, index):
        loss = self.layer(batch).pow(2).mean()
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


def trainer(**more):
    return lightning.Trainer(accelerator="cpu", logger=False, max_epochs=2, enable_checkpointing=False, **more)


data = DataLoader(torch.randn(64, 4), batch_size=4)
"""
_HF = """\
import torch
from transformers import (
    BertConfig, BertForSequenceClassification, LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments
)

llama = LlamaConfig(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64, vocab_size=100)
bert = BertConfig(
    hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64, vocab_size=100,
    max_position_embeddings=16,
)


def arguments(**more):
    return TrainingArguments(
        **{"output_dir": "out", "use_cpu": True, "report_to": [], "logging_steps": 1, "max_steps": 20, **more}
    )


"""


def lightning(name: str, how: str, evidence: str, text: str, **more: Any) -> Recipe:
    """Return the recipe of a program that trains with Lightning."""
    return torch(name, how, evidence, _LIGHTNING + text, framework="lightning", uses=("torch", "lightning"), **more)


def trainer(name: str, how: str, evidence: str, text: str, **more: Any) -> Recipe:
    """Return the recipe of a program that trains with Hugging Face's Trainer."""
    uses = ("torch", "transformers", "accelerate")
    return torch(name, how, evidence, _HF + text, framework="transformers", uses=uses, **more)


RECIPES = [
    lightning(
        "nan_loss/lightning_detects_an_anomaly",
        "Trainer(detect_anomaly=True) finds the backward that made NaN.",
        "returned nan values in its 0th output.",
        """
class Broken(Model):
    def training_step(self, batch, index):
        out = self.layer(batch).mean()
        return torch.sqrt(out - out) * 0


trainer(detect_anomaly=True).fit(Broken(), data)
""",
    ),
    lightning(
        "nan_loss/lightning_stops_early",
        "EarlyStopping finds a monitored loss that is not finite and stops the training; the status is 0.",
        "is not finite",
        """
from lightning.pytorch.callbacks import EarlyStopping


class Broken(Model):
    def training_step(self, batch, index):
        loss = (self.layer(batch) * 1e30).pow(2).mean()
        self.log("train_loss", loss)
        return loss


trainer(callbacks=[EarlyStopping("train_loss", check_finite=True, verbose=True)]).fit(Broken(), data)
""",
    ),
    lightning(
        "config_error/lightning_without_a_gpu",
        "The trainer is asked for GPUs that nobody has.",
        "MisconfigurationException: No supported gpu backend found!",
        '\nlightning.Trainer(accelerator="gpu", devices=4).fit(Model(), data)\n',
        class_alt=("cuda_driver",),
        action="fix",
    ),
    lightning(
        "config_error/lightning_limit_of_batches",
        "A limit of batches that is neither a part nor a number.",
        "MisconfigurationException: You have passed invalid value 2.5 for limit_train_batches",
        "\ntrainer(limit_train_batches=2.5).fit(Model(), data)\n",
    ),
    lightning(
        "file_not_found/lightning_checkpoint",
        "The checkpoint to resume from is not there.",
        "FileNotFoundError: Checkpoint file not found: checkpoints/last.ckpt",
        '\ntrainer().fit(Model(), data, ckpt_path="checkpoints/last.ckpt")\n',
    ),
    lightning(
        "shape_mismatch/lightning_layer",
        "The model expects eight features and gets four; a progress bar on standard error.",
        "RuntimeError: mat1 and mat2 shapes cannot be multiplied (4x4 and 8x1)",
        "\ntrainer().fit(Model(8), data)\n",
    ),
    lightning(
        "runtime_error/lightning_detached_loss",
        "training_step returns a loss without a graph, in the second epoch of a long training.",
        "RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn",
        """
class Broken(Model):
    def training_step(self, batch, index):
        loss = self.layer(batch).pow(2).mean()
        print(f"epoch {self.current_epoch} step {self.global_step} loss {loss.item():.5f}")
        return loss.detach() if self.global_step > 1100 else loss


data = DataLoader(torch.randn(4000, 4), batch_size=4)
trainer(enable_progress_bar=False).fit(Broken(), data)
""",
    ),
    lightning(
        "runtime_error/lightning_metric_that_nobody_logs",
        "EarlyStopping waits for a metric that is not logged.",
        "RuntimeError: Early stopping conditioned on metric `val_loss` which is not available.",
        '\nfrom lightning.pytorch.callbacks import EarlyStopping\n\ntrainer(callbacks=[EarlyStopping("val_loss")])'
        ".fit(Model(), data)\n",
        class_alt=("config_error",),
    ),
    lightning(
        "checkpoint_mismatch/lightning_other_model",
        "load_from_checkpoint with a model of another width.",
        "size mismatch for layer.weight",
        """
first = trainer()
first.fit(Model(), data)
first.save_checkpoint("model.ckpt")
Model.load_from_checkpoint("model.ckpt", width=6)
""",
        evidence_alt=("Error(s) in loading state_dict for Model",),
    ),
    trainer(
        "traceback/trainer_without_labels",
        "The data set has no labels: the model returns no loss.",
        "ValueError: The model did not return a loss from the inputs",
        """\
data = [{"input_ids": [1, 2, 3]} for _ in range(32)]
Trainer(model=LlamaForCausalLM(llama), args=arguments(), train_dataset=data).train()
""",
        class_alt=("config_error",),
    ),
    trainer(
        "shape_mismatch/trainer_without_padding",
        "Sequences of different lengths and no collator that pads them.",
        "ValueError: expected sequence of length",
        """\
data = [{"input_ids": list(range(n)), "labels": list(range(n))} for n in (3, 5) * 8]
Trainer(model=LlamaForCausalLM(llama), args=arguments(), train_dataset=data).train()
""",
        class_alt=("traceback",),
    ),
    trainer(
        "shape_mismatch/more_tokens_than_positions",
        "A text of 20 tokens for a model of 16 positions, after 1,100 steps.",
        "The expanded size of the tensor (20) must match the existing size (16)",
        """\
def rows():
    for number in range(100_000):
        length = 20 if number // 8 == 1100 else 8
        yield {"input_ids": [1] * length, "labels": number % 2}


class Rows(torch.utils.data.IterableDataset):
    def __iter__(self):
        return rows()


Trainer(
    model=BertForSequenceClassification(bert), args=arguments(max_steps=4000, disable_tqdm=True), train_dataset=Rows()
).train()
""",
        limit_s=300,
    ),
    trainer(
        "traceback/trainer_label_out_of_range",
        "A third label for a model of two; a progress bar before.",
        "IndexError: Target 2 is out of bounds.",
        """\
data = [{"input_ids": [1, 2, 3], "labels": 2 if number == 30 else 1} for number in range(64)]
Trainer(model=BertForSequenceClassification(bert), args=arguments(), train_dataset=data).train()
""",
    ),
    trainer(
        "config_error/trainer_arguments_of_an_old_version",
        "An argument that was renamed since.",
        "TrainingArguments.__init__() got an unexpected keyword argument 'evaluation_strategy'",
        '\narguments(evaluation_strategy="steps")\n',
        class_alt=("traceback",),
    ),
    trainer(
        "config_error/trainer_save_and_eval_strategy",
        "load_best_model_at_end without an evaluation.",
        "ValueError: --load_best_model_at_end requires the save and eval strategy to match",
        "\narguments(load_best_model_at_end=True)\n",
        class_alt=("traceback",),
    ),
    trainer(
        "checkpoint_mismatch/trainer_with_a_larger_vocabulary",
        "from_pretrained with two more tokens than the checkpoint has.",
        "You set `ignore_mismatched_sizes` to `False`, thus raising an error",
        """\
LlamaForCausalLM(llama).save_pretrained("base")
llama.vocab_size = 102
LlamaForCausalLM.from_pretrained("base", config=llama)
""",
        evidence_alt=("MISMATCH",),
    ),
    trainer(
        "checkpoint_corrupt/trainer_shard",
        "A file of weights that was cut off while it was copied.",
        "SafetensorError: Error while deserializing header: incomplete metadata",
        """\
LlamaForCausalLM(llama).save_pretrained("base")
with open("base/model.safetensors", "rb+") as file:
    file.truncate(30000)
LlamaForCausalLM.from_pretrained("base")
""",
        evidence_alt=("incomplete metadata",),
    ),
    trainer(
        "network/model_of_a_hub",
        "A model is asked of its hub on a node without a network.",
        "We couldn't connect to 'https://huggingface.co' to load the files",
        """\
from transformers import AutoModel

AutoModel.from_pretrained("bert-base-uncased")
""",
        env={"HF_HUB_OFFLINE": "0", "HF_HUB_DOWNLOAD_TIMEOUT": "2"},
        evidence_alt=("thrown while requesting HEAD",),
        limit_s=200,
    ),
    trainer(
        "nan_loss/trainer_prints_nan_losses",
        "A learning rate of 1e30: gradients are NaN to the end, the Trainer logs such losses as 0; the status is 0.",
        "'grad_norm': 'nan'",
        """\
data = [{"input_ids": [1, 2, 3, number % 90], "labels": [1, 2, 3, number % 90]} for number in range(400)]
Trainer(
    model=LlamaForCausalLM(llama),
    args=arguments(learning_rate=1e30, max_steps=80, max_grad_norm=0.0, save_strategy="no", disable_tqdm=True),
    train_dataset=data,
).train()
print("done")
""",
    ),
    torch(
        "file_not_found/accelerate_state",
        "accelerate loads the state of a run that was never saved.",
        "ValueError: Tried to find checkpoint-100 but folder does not exist",
        """\
import torch
from accelerate import Accelerator

accelerator = Accelerator(cpu=True)
model = accelerator.prepare(torch.nn.Linear(4, 4))
accelerator.print("resuming from checkpoint-100")
accelerator.load_state("checkpoint-100")
""",
        framework="accelerate",
        uses=("torch", "accelerate"),
        class_alt=("traceback",),
    ),
    torch(
        "config_error/accelerate_precision",
        "A precision that does not exist.",
        "ValueError: Unknown mixed_precision mode: fp17.",
        'from accelerate import Accelerator\n\nAccelerator(mixed_precision="fp17")\n',
        framework="accelerate",
        uses=("torch", "accelerate"),
        class_alt=("traceback",),
    ),
    torch(
        "assertion/accelerate_with_two_processes",
        "Two processes of accelerate under torchrun; the second asserts the size of its shard.",
        "AssertionError: process 1 got 31 samples, expected 32",
        """\
import torch
from accelerate import Accelerator

accelerator = Accelerator(cpu=True)
mine = 32 - accelerator.process_index
for step in range(20):
    total = accelerator.reduce(torch.tensor(float(mine)))
    accelerator.print(f"step {step} samples {total.item():.0f}")
index = accelerator.process_index
assert mine == 32, f"process {index} got {mine} samples, expected 32"
accelerator.wait_for_everyone()
""",
        command="torchrun --nproc-per-node=2 --master-port=29671 train.py",
        env={"ACCELERATE_USE_CPU": "true", "GLOO_SOCKET_IFNAME": "lo"},
        framework="accelerate",
        uses=("torch", "accelerate"),
        first_rank=1,
    ),
]
