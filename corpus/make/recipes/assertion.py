"""Assertions that fail."""

from __future__ import annotations

from corpus.make.recipe import compiled, produced

RECIPES = [
    produced(
        "assertion/with_a_message",
        "A Python assert with a message, on the shape of the data.",
        "AssertionError: expected 128 features, got 64",
        "python train.py",
        text="""\
def check(batch):
    assert len(batch[0]) == 128, f"expected 128 features, got {len(batch[0])}"


print("checking 32 batches")
check([[0.0] * 64])
""",
    ),
    produced(
        "assertion/bare",
        "A Python assert without a message, after 1,300 steps.",
        "AssertionError",
        "python -u train.py --resume",
        text="""\
import chatter

best = 3.0
for line in chatter.training(1300, seed=61, style=4):
    print(line)
loss = 4.5
assert loss < best
""",
    ),
    compiled(
        "assertion/assert_of_c",
        "assert() of C's aborts and prints its reason.",
        "Assertion `cells > 0' failed.",
        """\
#include <assert.h>
#include <stdio.h>
static int partition(int cells, int ranks) { assert(cells > 0); return cells / ranks; }
int main(void) {
    printf("mesh: 0 cells after filtering\\n");
    fflush(stdout);
    return partition(0, 4);
}
""",
        command="bash -c './solve; exit $?'",
    ),
    produced(
        "assertion/numpy_testing",
        "A regression check with numpy.testing.",
        "AssertionError:",
        "python check_kernels.py",
        text="""\
import numpy as np

expected = np.linspace(0, 1, 5)
got = expected.copy()
got[3] += 0.01
print("checking kernel softmax: 5 values")
np.testing.assert_allclose(got, expected, rtol=1e-5, err_msg="softmax")
""",
        framework="numpy",
        uses=("numpy",),
        evidence_alt=("Not equal to tolerance rtol=1e-05, atol=0",),
    ),
    produced(
        "assertion/unittest",
        "A test of unittest's that fails, as the job's last step.",
        "AssertionError: 9 != 10",
        "python -m unittest -v test_sampler",
        files={
            "test_sampler.py": """\
import unittest


class Sampler(unittest.TestCase):
    def test_every_sample_once(self):
        self.assertEqual(len(set(range(9))), 10)

    def test_order(self):
        self.assertEqual([1, 2], [1, 2])
"""
        },
        evidence_alt=("FAILED (failures=1)",),
    ),
    produced(
        "assertion/pytest",
        "A test of pytest's that fails.",
        "E       assert 0.5 == 0.25",
        "python -m pytest -p no:cacheprovider test_schedule.py",
        files={
            "test_schedule.py": """\
import pytest


def cosine(step):
    return 0.5


@pytest.mark.parametrize("step", range(20))
def test_in_range(step):
    assert 0 <= cosine(step) <= 1


def test_half_way():
    assert cosine(10) == 0.25
"""
        },
        framework="pytest",
        uses=("pytest",),
        evidence_alt=("test_schedule.py:14: AssertionError", "FAILED test_schedule.py::test_half_way - assert 0.5"),
    ),
    produced(
        "assertion/node_assert",
        "assert in Node.",
        "AssertionError [ERR_ASSERTION]: batch is empty",
        "node check.js",
        text="""\
const assert = require('assert');
console.log('validating batches');
assert(0 > 0, 'batch is empty');
""",
        framework="node",
        uses=("node",),
    ),
    produced(
        "assertion/java",
        "java -ea.",
        "java.lang.AssertionError: offsets not sorted",
        "java -ea Segment.java",
        text="""\
public class Segment {
  public static void main(String[] a) {
    System.out.println("[main] verifying segment 4");
    int[] offsets = {3, 1};
    assert offsets[0] < offsets[1] : "offsets not sorted";
  }
}
""",
        framework="java",
        uses=("java",),
    ),
    produced(
        "assertion/worker_of_a_pool",
        "An assertion in a worker, shown with the worker's traceback.",
        "AssertionError: shard 5 has duplicates",
        "python verify.py",
        text="""\
import multiprocessing as mp

import chatter


def verify(shard):
    ids = list(range(10)) + ([3] if shard == 5 else [])
    assert len(ids) == len(set(ids)), f"shard {shard} has duplicates"
    return len(ids)


if __name__ == "__main__":
    for line in chatter.training(1100, seed=13, style=2):
        print(line)
    with mp.get_context("spawn").Pool(2) as pool:
        print(pool.map(verify, range(8)))
""",
    ),
    produced(
        "assertion/one_rank_of_four",
        "Rank 2 of four disagrees about the step; the others are ended by the launcher.",
        "AssertionError: rank 2 is at step 41, expected 42",
        "mpirun --oversubscribe --tag-output -n 4 python sync.py",
        text="""\
import os
import time

rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
for step in range(42):
    print(f"step {step} done on rank {rank}", flush=True)
step = 41 if rank == 2 else 42
time.sleep(0.5)
assert step == 42, f"rank {rank} is at step {step}, expected 42"
time.sleep(20)
""",
        framework="mpi",
        uses=("mpirun",),
        first_rank=2,
    ),
    compiled(
        "assertion/assert_under_make",
        "The same of a test binary that make runs.",
        'Assertion `fabs(sum - 1.0) < 1e-9 && "weights must sum to one"\' failed.',
        """\
#include <assert.h>
#include <math.h>
#include <stdio.h>
int main(void) {
    double sum = 0;
    for (int i = 0; i < 9; i++) { sum += 0.1; printf("weight %d ok\\n", i); }
    fflush(stdout);
    assert(fabs(sum - 1.0) < 1e-9 && "weights must sum to one");
    return 0;
}
""",
        command="make -k check",
        files={
            "Makefile": """\
check: unit
\t@echo all checks passed
unit:
\t./solve
"""
        },
        uses=("gcc", "make"),
        class_alt=("segfault",),
    ),
    produced(
        "assertion/logged_as_fatal",
        "A runner logs the assertion through its own logger, with the traceback, and exits 1.",
        "AssertionError: vocab size 32000 does not match embedding 32001",
        "python -m runner",
        files={
            "runner/__init__.py": "",
            "runner/__main__.py": """\
import logging
import sys

form = "%(levelname).1s %(asctime)s %(module)s:%(lineno)d] %(message)s"
logging.basicConfig(stream=sys.stdout, level=logging.INFO, format=form)


def build(vocab, embedding):
    assert vocab == embedding, f"vocab size {vocab} does not match embedding {embedding}"


try:
    logging.info("building model")
    build(32000, 32001)
except Exception as error:
    logging.fatal("run failed: %r", error, exc_info=True)
    raise SystemExit(1) from None
""",
        },
    ),
]
