"""Plain RuntimeErrors."""

from __future__ import annotations

from corpus.make.recipe import produced

RECIPES = [
    produced(
        "runtime_error/dictionary_changed",
        "A cache is pruned while it is iterated over.",
        "RuntimeError: dictionary changed size during iteration",
        "python cache.py",
        text="""\
cache = {i: i * i for i in range(8)}
print('pruning', len(cache), 'entries')
for key in cache:
    if key % 2:
        del cache[key]
""",
    ),
    produced(
        "runtime_error/pool_after_shutdown",
        "Work is handed to an executor that has been shut down.",
        "RuntimeError: cannot schedule new futures after shutdown",
        "python prefetch.py",
        text="""\
from concurrent.futures import ThreadPoolExecutor

import chatter

pool = ThreadPoolExecutor(2)
for line in chatter.training(1150, seed=101, style=2):
    print(line)
pool.shutdown()
pool.submit(print, "next epoch")
""",
    ),
    produced(
        "runtime_error/closed_event_loop",
        "A loop is used after asyncio closed it.",
        "RuntimeError: Event loop is closed",
        "python client.py",
        text="""\
import asyncio

loop = asyncio.new_event_loop()
print(loop.run_until_complete(asyncio.sleep(0, 'first answer')))
loop.close()
loop.call_soon(print, 'second')
""",
    ),
    produced(
        "runtime_error/spawn_without_main_guard",
        "Processes are spawned while the main module is still being imported.",
        "An attempt has been made to start a new process before the",
        "timeout 20 python loader.py",
        text="""\
import multiprocessing as mp
import time

mp.set_start_method('spawn', force=True)
worker = mp.Process(target=print, args=('worker',))
worker.start()
worker.join()
print('exit code', worker.exitcode)
raise SystemExit(worker.exitcode)
""",
        evidence_alt=("RuntimeError:",),
    ),
    produced(
        "runtime_error/uncaught_in_c_plus_plus",
        "A C++ program throws std::runtime_error and catches nothing: it aborts, and prints its reason.",
        "what():  cannot parse tensor header: bad magic 0x0",
        "bash -c './convert model.bin; exit $?'",
        files={
            "convert.cc": """\
#include <iostream>
#include <stdexcept>
int main() {
    std::cout << "converting model.bin to fp16" << std::endl;
    throw std::runtime_error("cannot parse tensor header: bad magic 0x0");
}
"""
        },
        prepare="g++ -o convert convert.cc",
        framework="c++",
        uses=("g++",),
        class_alt=("segfault", "checkpoint_corrupt"),
        evidence_alt=("terminate called after throwing an instance of 'std::runtime_error'",),
    ),
    produced(
        "runtime_error/solver_of_ones_own",
        "A solver gives up with a RuntimeError of its own, in a logger's format.",
        "RuntimeError: solver did not converge after 500 iterations (residual 3.2e-01)",
        "python -m solver",
        files={
            "solver/__init__.py": "",
            "solver/__main__.py": """\
import logging

logging.basicConfig(level=logging.INFO, format="[%(asctime)s][%(name)s][%(levelname)s] - %(message)s")
log = logging.getLogger("solver")
for step in range(0, 500, 25):
    log.info("iteration %d residual %.3e", step, 0.32)
raise RuntimeError("solver did not converge after 500 iterations (residual 3.2e-01)")
""",
        },
    ),
    produced(
        "runtime_error/generator_stopped",
        "A StopIteration inside a generator.",
        "RuntimeError: generator raised StopIteration",
        "python -u stream.py",
        text="""\
def pairs(items):
    source = iter(items)
    while True:
        yield next(source), next(source)


for left, right in pairs([1, 2, 3, 4]):
    print(left, right)
""",
        evidence_alt=("StopIteration",),
        class_alt=("traceback",),
    ),
    produced(
        "runtime_error/one_rank_of_two",
        "Rank 1 of two finds a queue closed; rank 0 waits, and is ended by the launcher.",
        "RuntimeError: queue of rank 1 was closed by the producer",
        "mpirun --oversubscribe --tag-output -n 2 python queue_worker.py",
        text="""\
import os
import time

import chatter

rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
for line in chatter.training(520, seed=rank, style=4):
    print(line, flush=True)
time.sleep(1)
if rank == 1:
    raise RuntimeError("queue of rank 1 was closed by the producer")
time.sleep(20)
""",
        framework="mpi",
        uses=("mpirun",),
        first_rank=1,
    ),
]
