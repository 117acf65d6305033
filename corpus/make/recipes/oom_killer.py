"""Kills by the kernel for memory, in a control group with a real limit."""

from __future__ import annotations

from corpus.make.recipe import compiled, produced

_GROW = """\
import time

import chatter

held = []
for number, line in enumerate(chatter.training(4000, seed={seed}, style={style})):
    if number >= {after}:
        held.append(b"x" * (4 << 20))
    print(line, flush=True)
"""
_EAT = """\
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(void) {
    for (int mib = 0; mib < 4000; mib += 16) {
        memset(malloc(16 << 20), 1, 16 << 20);
        printf("factorised block %d, %d MiB of workspace\\n", mib / 16, mib);
        fflush(stdout);
    }
    return 0;
}
"""
_KERNEL = "Memory cgroup out of memory: Killed process"

RECIPES = [
    produced(
        "oom_killer/python_grows",
        "A training that leaks memory reaches its group's limit of 300 MiB; its log simply stops.",
        "",
        "python train.py",
        text=_GROW.format(seed=1, style=0, after=1200),
        memory_mib=300,
    ),
    produced(
        "oom_killer/seen_by_the_kernel",
        "The same, where the kernel's log can be read.",
        _KERNEL,
        "python train.py",
        text=_GROW.format(seed=2, style=3, after=40),
        memory_mib=300,
        as_root=True,
    ),
    produced(
        "oom_killer/child_of_a_script",
        "bash reports that its child was killed, and passes the status on.",
        "Killed",
        "bash job.sh",
        files={
            "job.sh": """\
echo stage 1: tokenize
python tokenize_all.py
s=$?
echo "tokenize ended with $s"
exit $s
""",
            "tokenize_all.py": _GROW.format(seed=3, style=1, after=10),
        },
        memory_mib=250,
        uses=("bash",),
    ),
    produced(
        "oom_killer/child_of_a_python_parent",
        "The parent sees its child die of SIGKILL, and fails on its own afterwards.",
        "died with <Signals.SIGKILL: 9>",
        "python pipeline.py",
        files={
            "pipeline.py": """\
import subprocess
import sys

print('stage embed', flush=True)
subprocess.run([sys.executable, 'embed.py'], check=True)
""",
            "embed.py": _GROW.format(seed=4, style=2, after=20),
        },
        memory_mib=250,
    ),
    produced(
        "oom_killer/parent_fails_on_the_missing_result",
        "The child is killed; the parent does not look at its status, and fails on the file that it did not write.",
        "Killed",
        "bash -c 'python embed.py; python merge.py'",
        files={
            "embed.py": _GROW.format(seed=5, style=0, after=5),
            "merge.py": """\
print('merging')
print(open('embeddings.bin', 'rb').read(4))
""",
        },
        memory_mib=250,
        evidence_alt=("FileNotFoundError: [Errno 2] No such file or directory: 'embeddings.bin'",),
        class_alt=("file_not_found",),
    ),
    produced(
        "oom_killer/exit_zero",
        "The child is killed, and the script goes on and ends with status 0: nothing was trained.",
        "Killed",
        "bash job.sh",
        files={
            "job.sh": """\
echo "training on $(hostname)"
python train.py
echo cleaning up
rm -f tmp-*
exit 0
""",
            "train.py": _GROW.format(seed=6, style=4, after=1100),
        },
        memory_mib=300,
        uses=("bash",),
    ),
    produced(
        "oom_killer/worker_of_a_pool",
        "A worker of a process pool is killed; the pool is broken, and says that it does not know why.",
        "BrokenProcessPool: A process in the process pool was terminated abruptly",
        "python featurize.py",
        text="""\
from concurrent.futures import ProcessPoolExecutor


def featurize(shard):
    held = [b"x" * (8 << 20) for _ in range(400 if shard == 6 else 1)]
    return len(held)


if __name__ == "__main__":
    with ProcessPoolExecutor(2) as pool:
        for shard, count in enumerate(pool.map(featurize, range(20))):
            print("shard", shard, "features", count, flush=True)
""",
        memory_mib=300,
    ),
    compiled(
        "oom_killer/c_under_make",
        "A solver in C, run by make.",
        "Killed",
        _EAT,
        command="make solve-large",
        files={
            "Makefile": """\
solve-large:
\t./solve -n 100000
"""
        },
        memory_mib=200,
        uses=("gcc", "make"),
    ),
    compiled(
        "oom_killer/one_of_xargs",
        "One of several programs that xargs runs; its words for a death by SIGKILL.",
        "terminated by signal 9",
        _EAT,
        command="sh -c 'seq 3 | xargs -n 1 ./solve'",
        memory_mib=200,
    ),
    produced(
        "oom_killer/one_rank_of_four",
        "Rank 3 of four holds the largest shard; its shell says that it was killed, and mpirun ends the others.",
        "Killed",
        "mpirun --oversubscribe -n 4 bash -c 'python -u shard.py; exit $?'",
        text="""\
import os
import time

import chatter

rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
for line in chatter.training(300, seed=rank, style=1):
    print(f"[rank {rank}] {line}")
time.sleep(1.0)
held = []
while rank == 3:
    held.append(b"x" * (4 << 20))
time.sleep(20)
""",
        memory_mib=400,
        framework="mpi",
        uses=("mpirun",),
        first_rank=3,
    ),
    produced(
        "oom_killer/supervisor_gives_up",
        "A supervisor starts its worker again and again; each is killed, and it gives up.",
        "worker 3 died with signal 9",
        "python supervise.py",
        files={
            "supervise.py": """\
import logging
import subprocess
import sys

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s supervisor: %(message)s")
for attempt in (1, 2, 3):
    logging.info("starting worker %d", attempt)
    status = subprocess.call([sys.executable, "worker.py"])
    logging.warning("worker %d died with signal %d", attempt, -status)
logging.error("giving up after 3 attempts")
sys.exit(1)
""",
            "worker.py": _GROW.format(seed=7, style=0, after=5),
        },
        memory_mib=200,
        evidence_alt=("worker 1 died with signal 9",),
    ),
    compiled(
        "oom_killer/kernel_names_another_process",
        "A small launcher survives its large child, where the kernel's log can be read.",
        "oom-kill:constraint=CONSTRAINT_MEMCG",
        _EAT,
        command="sh -c './solve || { echo solver failed with $?; exit 1; }'",
        memory_mib=200,
        as_root=True,
    ),
    produced(
        "oom_killer/sort_in_a_pipeline",
        "A pipeline in which sort is killed and the consumer sees a short input.",
        "Killed",
        "bash -o pipefail count.sh",
        text="""\
echo counting
python3 -c '
for i in range(1, 40_000_000): print(i * 7919 % 1000003)
' | sort -S 2G | uniq -c | tail -1
echo "statuses: ${PIPESTATUS[*]}"
exit 2
""",
        memory_mib=120,
        framework="bash",
        uses=("bash",),
        evidence_alt=("statuses: ",),
    ),
]
