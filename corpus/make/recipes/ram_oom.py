"""Allocations of host memory that fail inside the process."""

from __future__ import annotations

from corpus.make.recipe import compiled, produced

RECIPES = [
    produced(
        "ram_oom/list_grows_under_ulimit",
        "A cache of samples grows until ulimit -v stops it: MemoryError.",
        "MemoryError",
        "bash job.sh",
        files={
            "job.sh": """\
ulimit -v 400000
exec python3 train.py
""",
            "train.py": """\
cache = []


def load(index):
    return bytearray(1 << 20)


for index in range(4000):
    cache.append(load(index))
    if index % 50 == 0:
        print(f"cached {index} samples", flush=True)
""",
        },
    ),
    produced(
        "ram_oom/numpy_distance_matrix",
        "A full distance matrix of float64 does not fit; numpy says which array.",
        "Unable to allocate",
        "python cluster.py --points 400000",
        text="""\
import numpy as np

points = np.random.default_rng(0).random((400_000, 3), dtype=np.float32)
print("clustering", points.shape, points.dtype)
distances = np.empty((len(points), len(points)), dtype=np.float64)
""",
        framework="numpy",
        uses=("numpy",),
        launch="ulimit -v 8000000; gpualert run -- python cluster.py --points 400000",
    ),
    produced(
        "ram_oom/bad_alloc_uncaught",
        "A C++ program asks for more than ulimit -v allows and catches nothing.",
        "terminate called after throwing an instance of 'std::bad_alloc'",
        "bash -c 'ulimit -v 500000; ./graph edges.txt'",
        prepare="g++ -O1 -o graph graph.cc",
        files={
            "graph.cc": """\
#include <iostream>
#include <vector>
int main() {
    std::vector<std::vector<long>> adjacency;
    for (int node = 0;; node++) {
        adjacency.emplace_back(1 << 17, 0L);
        if (node % 100 == 0) std::cout << "nodes: " << node << std::endl;
    }
}
"""
        },
        framework="c++",
        uses=("g++",),
        evidence_alt=("std::bad_alloc",),
    ),
    compiled(
        "ram_oom/malloc_says_so_in_c",
        "A C program checks malloc and reports errno in its own words.",
        "fft: cannot allocate work array (17179869184 bytes): Cannot allocate memory",
        """\
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(void) {
    size_t bytes = (size_t)1 << 34;
    fprintf(stderr, "fft: planning 2048^3 transform, 1 thread\\n");
    double *work = malloc(bytes);
    if (!work) {
        fprintf(stderr, "fft: cannot allocate work array (%zu bytes): %s\\n", bytes, strerror(errno));
        return 3;
    }
    return 0;
}
""",
        command="sh -c 'ulimit -v 1000000; exec ./solve'",
    ),
    produced(
        "ram_oom/command_substitution",
        "bash itself cannot hold what a command substitution returns under ulimit -v.",
        "xrealloc: cannot allocate",
        "bash dedup.sh",
        text="""\
set -e
echo deduplicating corpus
ulimit -v 200000
lines=$(head -c 300M /dev/zero | tr '\\0' 'a')
echo "${#lines} characters"
""",
        framework="bash",
        uses=("bash",),
    ),
    produced(
        "ram_oom/perl_out_of_memory",
        "A Perl filter keeps every line in a hash.",
        "Out of memory",
        "sh -c 'ulimit -v 150000; exec perl count.pl'",
        files={
            "count.pl": """\
my %seen; my $n = 0;
$| = 1;
print "counting n-grams\\n";
while (1) { $seen{$n++ . ("x" x 2000)} = 1; print "$n\\n" if $n % 10000 == 0; }
"""
        },
        framework="perl",
        uses=("perl",),
    ),
    produced(
        "ram_oom/anonymous_mapping_refused",
        "A shared buffer of 16 GiB is mapped under ulimit -v: ENOMEM as an OSError, not a MemoryError.",
        "OSError: [Errno 12] Cannot allocate memory",
        "bash -c 'ulimit -v 2000000 && python replay.py'",
        files={
            "replay.py": """\
import logging
import mmap

logging.basicConfig(format="%(levelname)s:%(name)s:%(message)s", level=logging.DEBUG)
log = logging.getLogger("replay")
log.info("replay buffer: 1e6 transitions of 16 KiB")
buffer = mmap.mmap(-1, 16 << 30)
log.info("buffer ready")
"""
        },
    ),
    produced(
        "ram_oom/pool_worker_memory_error",
        "A worker of a pool runs out under its own limit; the parent re-raises with the worker's traceback.",
        "MemoryError",
        "python featurize.py",
        text="""\
import multiprocessing as mp
import resource

import chatter


def limit():
    resource.setrlimit(resource.RLIMIT_AS, (300 << 20, 300 << 20))


def featurize(shard):
    size = (1 << 30) if shard == 21 else 1000
    return sum(bytes(size))


if __name__ == "__main__":
    for line in chatter.training(1300, seed=21, style=1):
        print(line)
    with mp.Pool(2, initializer=limit) as pool:
        for number, _ in enumerate(pool.imap(featurize, range(64))):
            print(f"featurized {number}")
""",
    ),
    produced(
        "ram_oom/pandas_merge_explodes",
        "A many-to-many join in pandas grows beyond what ulimit -v allows.",
        "Unable to allocate",
        "bash -c 'ulimit -v 4000000; exec python -W ignore join.py'",
        files={
            "join.py": """\
import pandas as pd

left = pd.DataFrame({"user": [1] * 60_000, "clicks": range(60_000)})
right = pd.DataFrame({"user": [1] * 60_000, "buys": range(60_000)})
print("joining", len(left), "x", len(right), flush=True)
joined = left.merge(right, on="user")
print(joined.shape)
"""
        },
        framework="pandas",
        uses=("pandas",),
    ),
    produced(
        "ram_oom/node_heap_limit",
        "A preprocessing script in Node reaches the limit of its heap.",
        "JavaScript heap out of memory",
        "node --max-old-space-size=40 tokenize.js",
        text="""\
const kept = [];
for (let i = 0; ; i++) {
  kept.push({id: i, text: 'token '.repeat(20) + i});
  if (i % 50000 === 0) console.log(`tokenized ${i}`);
}
""",
        framework="node",
        uses=("node",),
    ),
    produced(
        "ram_oom/java_heap_space",
        "An indexer in Java with a small heap.",
        "java.lang.OutOfMemoryError: Java heap space",
        "java -Xmx32m Index.java",
        text="""\
import java.util.*;
public class Index {
  public static void main(String[] a) {
    System.out.println("[main] INFO  indexing 12 segments");
    List<long[]> postings = new ArrayList<>();
    while (true) postings.add(new long[1 << 16]);
  }
}
""",
        framework="java",
        uses=("java",),
    ),
    produced(
        "ram_oom/one_rank_of_four",
        "Rank 1 of four under mpirun has the largest shard and a limit on its memory; the others are ended.",
        "MemoryError",
        "mpirun --oversubscribe --tag-output -n 4 python embed.py",
        text="""\
import os
import resource
import time

import chatter

rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
resource.setrlimit(resource.RLIMIT_AS, (400 << 20, 400 << 20))
for line in chatter.training(300, seed=rank, style=0):
    print(line, flush=True)
if rank == 1:
    table = [0.0] * (1 << 27)
time.sleep(15)
""",
        framework="mpi",
        uses=("mpirun",),
        first_rank=1,
    ),
    produced(
        "ram_oom/compiler_in_a_build",
        "A build step: the compiler runs out under ulimit -v.",
        "virtual memory exhausted: Cannot allocate memory",
        "bash build.sh",
        files={
            "build.sh": """\
set -e
ulimit -v 90000
echo '[1/1] building kernels'
python3 -S -c "print('double t[] = {' + ','.join(map(str, range(900000))) + '};')" > table.c
make -s table.o
""",
            "Makefile": """\
table.o: table.c
\tgcc -O2 -c table.c
""",
        },
        framework="make",
        uses=("gcc", "make"),
        class_alt=("traceback",),
    ),
]
