"""Python exceptions of no more specific class."""

from __future__ import annotations

from corpus.make.recipe import produced

RECIPES = [
    produced(
        "traceback/missing_key",
        "A state dictionary without the key that is asked for.",
        "KeyError: 'optimizer'",
        "python resume.py",
        text="""\
state = {'model': {}, 'step': 100}
print('resuming from step', state['step'])
optimizer = state['optimizer']
""",
    ),
    produced(
        "traceback/value_of_a_string",
        "A learning rate that is no number, after the first 1,500 lines of a sweep.",
        "ValueError: could not convert string to float: '3e-4,'",
        "python -u sweep.py",
        text="""\
import chatter

for line in chatter.training(1500, seed=71, style=1):
    print(line)
for text in ("1e-3", "3e-4,"):
    print("lr", float(text))
""",
    ),
    produced(
        "traceback/wrong_argument",
        "A call with an argument that the function does not have.",
        "TypeError: build() got an unexpected keyword argument 'dropout'",
        "bash launch.sh",
        files={
            "launch.sh": """\
set -euo pipefail
export OMP_NUM_THREADS=1
python model.py 2>&1 | tee model.log
""",
            "model.py": """\
def build(width, depth):
    return width * depth


print('building', flush=True)
build(width=64, depth=2, dropout=0.1)
""",
        },
        uses=("bash",),
    ),
    produced(
        "traceback/index_out_of_range",
        "An index beyond the end of a list.",
        "IndexError: list index out of range",
        "python decode.py",
        text="""\
vocab = ['<pad>', 'the', 'a']
for token in (1, 2, 0, 3):
    print(vocab[token])
""",
    ),
    produced(
        "traceback/attribute_of_none",
        "A regular expression that matches nothing.",
        "AttributeError: 'NoneType' object has no attribute 'group'",
        "python parse.py",
        text="""\
import re

for name in ('step-100.pt', 'last.pt'):
    print(re.search(r'step-(\\d+)', name).group(1))
""",
    ),
    produced(
        "traceback/undecodable_text",
        "Latin-1 bytes read as UTF-8, in a worker of a pool.",
        "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xe9 in position 3: invalid continuation byte",
        "python clean.py",
        text="""\
from multiprocessing import Pool


def clean(data):
    return data.decode("utf-8").lower()


if __name__ == "__main__":
    with Pool(2) as pool:
        for text in pool.imap(clean, [b"tea", b"milk", b"caf\\xe9 au lait"]):
            print(text, flush=True)
""",
    ),
    produced(
        "traceback/own_exception",
        "An exception of the project's own, out of a package, with noise before.",
        "pipeline.errors.EmptyBatch: no sample survived the filters (min_len=512)",
        "python -m pipeline.main",
        files={
            "pipeline/__init__.py": "",
            "pipeline/errors.py": """\
class EmptyBatch(Exception):
    pass
""",
            "pipeline/main.py": """\
import chatter
from pipeline.errors import EmptyBatch

for line in chatter.training(1250, seed=81, style=3):
    print(line)
raise EmptyBatch("no sample survived the filters (min_len=512)")
""",
        },
    ),
    produced(
        "traceback/broken_json",
        "A line of a data set that is no JSON.",
        "json.decoder.JSONDecodeError: Expecting ',' delimiter: line 1 column 25 (char 24)",
        "python ingest.py",
        text="""\
import json

lines = ['{"id": 1}', '{"id": 2, "text": "a b" "c"}']
for line in lines:
    print(json.loads(line))
""",
    ),
    produced(
        "traceback/in_an_event_loop",
        "A task of asyncio.gather raises; the frames of the event loop stand around it.",
        "LookupError: model 'gpt-nano' is not served here",
        "python serve.py",
        text="""\
import asyncio


async def route(name):
    await asyncio.sleep(0.01)
    if name == "gpt-nano":
        raise LookupError(f"model {name!r} is not served here")
    return name


async def main():
    print("serving 3 models", flush=True)
    print(await asyncio.gather(*map(route, ["bert", "t5", "gpt-nano"])))


asyncio.run(main())
""",
    ),
    produced(
        "traceback/chained",
        "An exception while another one was handled; the second ends the program.",
        "KeyError: 'retry_s'",
        "python fetch.py",
        text="""\
config = {"retries": 3}


def parse(text):
    return int(text)


for text in ("12", "n/a"):
    try:
        print("value", parse(text), flush=True)
    except ValueError:
        print("cannot parse, waiting", config["retry_s"])
""",
        evidence_alt=("ValueError: invalid literal for int() with base 10: 'n/a'",),
    ),
    produced(
        "traceback/logged_with_a_prefix",
        "A daemon logs every line of the traceback behind its own prefix.",
        "OverflowError: cannot convert float infinity to integer",
        "python daemon.py",
        text="""\
import sys
import time
import traceback

import chatter


def say(level, text):
    for line in text.splitlines():
        print(f"2026-03-14T10:11:12.{time.time_ns() // 1000 % 1000:03d}Z {level:5s} trainer[1]: {line}")


for line in chatter.training(1050, seed=91, style=0):
    say("INFO", line)
try:
    steps = int(float("inf"))
except Exception:
    say("ERROR", traceback.format_exc())
    sys.exit(70)
""",
    ),
    produced(
        "traceback/pandas_column",
        "A column that the table does not have: pandas shows two tracebacks.",
        "KeyError: 'label'",
        "python -W ignore table.py",
        text="""\
import pandas as pd

frame = pd.DataFrame({'text': ['a', 'b'], 'Label': [0, 1]})
print(frame.head())
print(frame['label'].mean())
""",
        framework="pandas",
        uses=("pandas",),
    ),
    produced(
        "traceback/singular_matrix",
        "A least-squares step with a singular matrix.",
        "numpy.linalg.LinAlgError: Singular matrix",
        "python solve.py",
        text="""\
import numpy as np

matrix = np.ones((3, 3))
print('solving 3x3')
print(np.linalg.solve(matrix, np.arange(3.0)))
""",
        framework="numpy",
        uses=("numpy",),
    ),
    produced(
        "traceback/helper_with_status_3",
        "A helper program ends with status 3 and says nothing; check=True raises.",
        "subprocess.CalledProcessError: Command '['sh', '-c', 'exit 3']' returned non-zero exit status 3.",
        "python orchestrate.py",
        text="""\
import subprocess

for code in (0, 0, 3):
    print('stage', code, flush=True)
    subprocess.run(['sh', '-c', f'exit {code}'], check=True)
""",
        class_alt=("unknown",),
    ),
    produced(
        "traceback/one_rank_of_four",
        "Rank 3 of four has another number of columns; its peers wait, and are ended by the launcher.",
        "ValueError: too many values to unpack (expected 2)",
        "mpirun --oversubscribe -n 4 python -u reduce.py",
        text="""\
import os
import time

rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
print(f"rank {rank} of 4 ready")
rows = [(1, 2)] * 10 + ([(1, 2, 3)] if rank == 3 else [])
time.sleep(0.3)
for left, right in rows:
    pass
print(f"rank {rank}: {len(rows)} rows, waiting for the others")
time.sleep(20)
""",
        framework="mpi",
        uses=("mpirun",),
        first_rank=3,
    ),
]
