"""Paths that are not there."""

from __future__ import annotations

from corpus.make.recipe import compiled, produced

RECIPES = [
    produced(
        "file_not_found/training_set",
        "A training script opens a data set that was never downloaded, from a job script under set -e.",
        "FileNotFoundError: [Errno 2] No such file or directory: 'data/train.jsonl'",
        "bash job.sh",
        files={
            "job.sh": """\
#!/bin/bash
set -e
echo "job started on $(hostname)"
python train.py --epochs 3
echo all done
""",
            "train.py": """\
import argparse
import json

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int)
args = parser.parse_args()


def read(path):
    with open(path) as lines:
        return [json.loads(line) for line in lines]


samples = read("data/train.jsonl")
print(len(samples), "samples")
""",
        },
    ),
    compiled(
        "file_not_found/input_deck_in_c",
        "A solver in C cannot open its input deck, and says so with perror.",
        "nozzle.inp: No such file or directory",
        """\
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv) {
    printf(" *** FLOW 4.2 (double precision, 1 process) ***\\n");
    printf(" reading input deck\\n");
    FILE *deck = fopen(argv[1], "r");
    if (!deck) { perror(argv[1]); return EXIT_FAILURE; }
    return 0;
}
""",
        command="./solve nozzle.inp",
    ),
    produced(
        "file_not_found/cat_of_a_part",
        "A shell script joins parts of a file, the last of which is missing.",
        "cat: parts/part-0003.txt: No such file or directory",
        "sh -eu merge.sh",
        text="""\
mkdir -p parts
for i in 0 1 2; do echo line $i >parts/part-000$i.txt; done
for i in 0 1 2 3; do
  echo "merging part $i"
  cat parts/part-000$i.txt >>merged.txt
done
""",
        framework="bash",
    ),
    produced(
        "file_not_found/directory_of_the_run",
        "A job script changes to a scratch directory that does not exist on this node.",
        "cd: /scratch/runs/exp-17: No such file or directory",
        "bash job.sh",
        text="""\
#!/bin/bash
python3 chatter.py training 1581 --seed 513
echo "node: $(hostname), started"
cd /scratch/runs/exp-17 || exit 1
python train.py
""",
        framework="bash",
        uses=("bash",),
    ),
    produced(
        "file_not_found/environment_file",
        "A script for dash sources an environment file that is missing.",
        "cannot open ./cluster.env: No such file",
        "sh submit.sh",
        text="""\
echo loading environment
. ./cluster.env
echo loaded
python train.py
""",
        framework="bash",
    ),
    produced(
        "file_not_found/the_script_itself",
        "The name of the script is misspelt; the interpreter says that it is not there, with status 2.",
        "python: can't open file '/home/user/project/tran.py': [Errno 2] No such file or directory",
        "python tran.py --lr 3e-4",
    ),
    produced(
        "file_not_found/target_of_make",
        "A Makefile names a data file that nothing makes.",
        "No rule to make target 'data/train.bin', needed by 'model.bin'.  Stop.",
        "make model.bin",
        files={
            "Makefile": """\
model.bin: data/train.bin vocab.txt
\t./train $^ > $@
vocab.txt:
\techo a > $@
"""
        },
        framework="make",
        uses=("make",),
        class_alt=("config_error",),
    ),
    produced(
        "file_not_found/csv_after_long_training",
        "After 1,600 steps the evaluation reads a table that is not there.",
        "FileNotFoundError: [Errno 2] No such file or directory: '/datasets/eval/labels.csv'",
        "python -u finetune.py",
        text="""\
import sys

import pandas as pd

import chatter

for number, line in enumerate(chatter.training(1600, seed=31, style=2)):
    print(line, file=sys.stderr if number % 7 == 0 else sys.stdout)


def evaluate():
    labels = pd.read_csv("/datasets/eval/labels.csv")
    return labels["y"].mean()


print("evaluating")
print(evaluate())
""",
        framework="pandas",
        uses=("pandas",),
    ),
    produced(
        "file_not_found/numpy_shard_in_a_pool",
        "One of many shards is missing; a pool hands the worker's exception to its parent.",
        "FileNotFoundError: [Errno 2] No such file or directory: 'shards/shard_011.npy'",
        "python index.py",
        text="""\
import os
from multiprocessing import Pool

import numpy as np

os.makedirs("shards", exist_ok=True)
for number in range(11):
    np.save(f"shards/shard_{number:03d}.npy", np.arange(100))


def total(number):
    return int(np.load(f"shards/shard_{number:03d}.npy").sum())


if __name__ == "__main__":
    with Pool(2) as pool:
        for number, result in enumerate(pool.imap(total, range(16))):
            print(f"shard {number}: {result}", flush=True)
""",
        framework="numpy",
        uses=("numpy",),
    ),
    produced(
        "file_not_found/archive_in_a_pipeline",
        "tar is given an archive that is not there; the script goes on, and fails at the end with its own count.",
        "tar: imagenet_val.tar: Cannot open: No such file or directory",
        "bash unpack.sh",
        text="""\
failed=0
for set in train val; do
  [ $set = val ] || { mkdir -p x; tar cf imagenet_train.tar x; }
  echo "unpacking imagenet_$set.tar"
  tar xf imagenet_$set.tar || failed=$((failed + 1))
done
echo "$failed of 2 archives could not be unpacked"
exit $failed
""",
        framework="bash",
        evidence_alt=("tar: Error is not recoverable: exiting now",),
    ),
    produced(
        "file_not_found/perl_die",
        "A Perl script dies on open.",
        "Can't open 'weights.txt': No such file or directory at infer.pl line 4.",
        "perl infer.pl",
        text="""\
use strict; use warnings;
print "inference, batch size 8\\n";
my $path = 'weights.txt';
open(my $in, '<', $path) or die "Can't open '$path': $!";
""",
        framework="perl",
        uses=("perl",),
    ),
    produced(
        "file_not_found/node_enoent",
        "A Node service reads a configuration that is not there.",
        "Error: ENOENT: no such file or directory, open 'config/production.json'",
        "node serve.js",
        text="""\
const fs = require('fs');
console.log('starting inference gateway on port 8080');
const config = JSON.parse(fs.readFileSync('config/production.json'));
console.log(config);
""",
        framework="node",
        uses=("node",),
    ),
    produced(
        "file_not_found/one_rank_misses_its_shard",
        "Rank 3 of four under mpirun finds no shard; the other three wait for it and are ended by the launcher.",
        "FileNotFoundError: [Errno 2] No such file or directory: '/tmp/shards/rank3.bin'",
        "mpirun --oversubscribe --tag-output -n 4 python load.py",
        text="""\
import os
import time

rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
os.makedirs("/tmp/shards", exist_ok=True)
if rank < 3:
    open(f"/tmp/shards/rank{rank}.bin", "w").write("x")
print(f"rank {rank}: waiting for shards", flush=True)
time.sleep(1)
data = open(f"/tmp/shards/rank{rank}.bin").read()
print(f"rank {rank}: {len(data)} bytes, entering barrier", flush=True)
time.sleep(20)
""",
        framework="mpi",
        uses=("mpirun",),
        first_rank=3,
    ),
    produced(
        "file_not_found/checkpoint_folder_removed",
        "A clean-up removes the checkpoint folder while the training runs; the rename at the end of a save fails.",
        "FileNotFoundError: [Errno 2] No such file or directory",
        "python train.py",
        text="""\
import os
import pickle
import shutil

import chatter

os.makedirs("checkpoints")


def save(step):
    with open(f"tmp-{step}.pkl", "wb") as file:
        pickle.dump({"step": step}, file)
    os.replace(f"tmp-{step}.pkl", f"checkpoints/step-{step}.pkl")
    print(f"saved checkpoints/step-{step}.pkl", flush=True)


for number, line in enumerate(chatter.training(2000, seed=8, style=0)):
    print(line)
    if number % 500 == 400:
        if number > 1500:
            shutil.rmtree("checkpoints")
        save(number)
""",
    ),
    produced(
        "file_not_found/own_words",
        "A program checks its arguments itself and says in its own words which file is missing.",
        "fatal: vocabulary file '/datasets/vocab/bpe-32k.txt' does not exist",
        "python -m trainer.main --vocab /datasets/vocab/bpe-32k.txt",
        files={
            "trainer/__init__.py": "",
            "trainer/main.py": """\
import pathlib
import sys

vocab = pathlib.Path(sys.argv[2])
print("trainer 0.9.1")
if not vocab.exists():
    sys.exit(f"fatal: vocabulary file '{vocab}' does not exist")
""",
        },
        split=True,
    ),
]
