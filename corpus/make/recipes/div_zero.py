"""Divisions by zero."""

from __future__ import annotations

from corpus.make.recipe import produced

RECIPES = [
    produced(
        "div_zero/mean_of_no_batches",
        "The mean over an empty loader.",
        "ZeroDivisionError: division by zero",
        "python evaluate.py",
        text="""\
def mean_loss(losses):
    return sum(losses) / len(losses)


print("evaluating 0 batches")
print(mean_loss([]))
""",
    ),
    produced(
        "div_zero/integer_modulo",
        "A logging interval of zero, in a loop that has run for a while.",
        "ZeroDivisionError: integer modulo by zero",
        "python -u train.py --log-every 0",
        text="""\
import chatter

log_every = 500
for step, line in enumerate(chatter.training(1500, seed=3, style=0), start=1):
    print(line)
    if step == 1400:
        print("changing log interval to 0")
        log_every = 0
    if step % log_every == 0:
        print("== checkpoint ==")
""",
    ),
    produced(
        "div_zero/float_division",
        "Normalising by a sum of weights that is 0.0.",
        "ZeroDivisionError: float division by zero",
        "bash -c 'set -o pipefail; python weights.py | tee weights.log'",
        files={
            "weights.py": """\
weights = [0.0, 0.0, 0.0]
total = sum(weights)
print('total weight', total, flush=True)
print([weight / total for weight in weights])
"""
        },
    ),
    produced(
        "div_zero/decimal",
        "Decimal arithmetic has its own exception.",
        "decimal.DivisionByZero: [<class 'decimal.DivisionByZero'>]",
        "python costs.py",
        text="""\
from decimal import Decimal

hours = Decimal(0)
print('GPU hours:', hours)
print(Decimal('12.5') / hours)
""",
    ),
    produced(
        "div_zero/bash_arithmetic",
        "A job script divides the batch over no GPUs.",
        "division by 0 (error token is",
        "bash job.sh",
        text="""\
#!/bin/bash
python3 chatter.py training 1692 --seed 516
set -e
gpus=$(ls /opt/gpus 2>/dev/null | wc -l)
echo "$gpus GPUs"
per_gpu=$((256 / gpus))
echo "batch $per_gpu"
""",
        framework="bash",
        uses=("bash",),
    ),
    produced(
        "div_zero/awk_mean",
        "awk takes the mean of no lines, as the last step of a script.",
        "division by zero",
        "sh -e summary.sh",
        text="""\
echo 'mean step time:'
grep step_time metrics.txt 2>/dev/null | awk '{ s += $2 } END { print s / NR }'
""",
        files={"metrics.txt": "nothing here\n"},
        framework="awk",
        uses=("awk",),
    ),
    produced(
        "div_zero/perl",
        "Perl calls it illegal.",
        "Illegal division by zero at rate.pl line 3.",
        "perl rate.pl",
        text="""\
my ($samples, $seconds) = (4096, 0);
print "throughput\\n";
print $samples / $seconds, "\\n";
""",
        framework="perl",
        uses=("perl",),
    ),
    produced(
        "div_zero/java_arithmetic",
        "An ArithmeticException in Java.",
        "java.lang.ArithmeticException: / by zero",
        "java Shard.java 0",
        text="""\
public class Shard {
  static int size(int n, int workers) { return n / workers; }
  public static void main(String[] a) {
    System.out.println("sharding 5000 documents");
    System.out.println(size(5000, Integer.parseInt(a[0])));
  }
}
""",
        framework="java",
        uses=("java",),
    ),
    produced(
        "div_zero/bc_in_a_script",
        "bc says so and ends with status 0, the script notices that there is no result.",
        "Divide by zero",
        "bash scaling.sh",
        text="""\
t1=12.5 t8=0
r=$(echo "scale=2; $t1 / $t8" | bc)
[ -n "$r" ] || { echo 'no efficiency computed' >&2; exit 1; }
""",
        framework="bash",
        uses=("bc", "bash"),
    ),
    produced(
        "div_zero/numpy_raises",
        "numpy is told to raise instead of warn.",
        "FloatingPointError: divide by zero encountered in divide",
        "python -u normalise.py",
        text="""\
import numpy as np

np.seterr(all="raise")
counts = np.array([4.0, 0.0, 2.0])
print("class weights from", counts)
print(1.0 / counts)
""",
        framework="numpy",
        uses=("numpy",),
    ),
    produced(
        "div_zero/worker_of_a_pool",
        "A worker divides by the size of an empty shard; the pool re-raises in the parent.",
        "ZeroDivisionError: division by zero",
        "python stats.py",
        text="""\
from concurrent.futures import ProcessPoolExecutor

import chatter


def mean(shard):
    values = list(range(10 - shard))
    return sum(values) / len(values)


if __name__ == "__main__":
    for line in chatter.training(1200, seed=9, style=3):
        print(line)
    with ProcessPoolExecutor(2) as pool:
        for shard, value in enumerate(pool.map(mean, range(12))):
            print("shard", shard, "mean", value)
""",
    ),
    produced(
        "div_zero/one_rank_of_four",
        "Rank 0 of four computes throughput over no time; the others wait in a barrier and are ended.",
        "ZeroDivisionError: float division by zero",
        "mpirun --oversubscribe --tag-output -n 4 python bench.py",
        text="""\
import os
import time

import chatter

rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
for line in chatter.training(260, seed=rank, style=1):
    print(line, flush=True)
elapsed = 0.0 if rank == 0 else 1.0
print(f"rank {rank}: {4096 / elapsed:.0f} samples/s", flush=True)
time.sleep(20)
""",
        framework="mpi",
        uses=("mpirun",),
        first_rank=0,
    ),
    produced(
        "div_zero/logged_exception",
        "A program logs the traceback through logging and leaves with status 1.",
        "ZeroDivisionError: division by zero",
        "python -m app.run",
        files={
            "app/__init__.py": "",
            "app/run.py": """\
import logging
import sys

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s: %(message)s")
log = logging.getLogger("app.scheduler")


def warmup(step, total):
    return step / total


log.info("warm-up over 0 steps")
try:
    warmup(1, 0)
except Exception:
    log.exception("training loop failed")
    sys.exit(1)
""",
        },
    ),
    produced(
        "div_zero/bigint_in_node",
        "A RangeError of Node's.",
        "RangeError: Division by zero",
        "node plan.js",
        text="""\
console.log('planning');
const tokens = 10n ** 12n, gpus = 0n;
console.log(tokens / gpus);
""",
        framework="node",
        uses=("node",),
    ),
]
