"""More jobs that end well."""

from __future__ import annotations

from corpus.make.recipe import produced

RECIPES = [
    produced(
        "success/cache_not_writable",
        "A cache folder that may not be written is done without.",
        "compiled 3 kernels (uncached)",
        "python compile.py",
        text="""\
import sys

for kernel in ("softmax", "layernorm", "gemm"):
    try:
        open(f"/var/cache/kernels/{kernel}.o", "w")
    except PermissionError as error:
        print(f"error: cannot cache {kernel}: {error}", file=sys.stderr)
print("compiled 3 kernels (uncached)")
""",
        prepare="mkdir -p /var/cache/kernels",
        split=True,
    ),
    produced(
        "success/numpy_warnings",
        "RuntimeWarnings of numpy: divide by zero, overflow, invalid value.",
        "normalised 5 columns",
        "python normalise.py",
        text="""\
import numpy as np

values = np.array([0.0, 1.0, -1.0, 1e308, 4.0])
print(1 / values)
print(np.exp(values))
print(np.log(values))
print('normalised 5 columns')
""",
        framework="numpy",
        uses=("numpy",),
    ),
    produced(
        "success/background_thread_dies",
        "A thread that reports usage dies with a traceback; the training does not need it, and ends well.",
        "epoch 5 done, model saved",
        "python train.py",
        text="""\
import threading
import time


def report():
    raise ConnectionError("usage statistics: connection refused")


threading.Thread(target=report, name="telemetry").start()
for epoch in range(6):
    time.sleep(0.05)
    print(f"epoch {epoch} done, model saved", flush=True)
""",
    ),
    produced(
        "success/exception_ignored_at_exit",
        "An exception in __del__ while Python shuts down, which it ignores.",
        "job finished, 3 artifacts written",
        "python export.py",
        text="""\
class Session:
    def __del__(self):
        raise RuntimeError("session was not closed")


session = Session()
print("job finished, 3 artifacts written", flush=True)
""",
    ),
    produced(
        "success/task_never_awaited",
        "asyncio tells of a task whose exception nobody asked for.",
        "served 100 requests, shutting down",
        "python serve.py",
        text="""\
import asyncio
import gc


async def ping():
    raise ConnectionResetError("peer closed the connection")


async def main():
    task = asyncio.create_task(ping())
    await asyncio.sleep(0.01)
    del task
    gc.collect()
    for number in range(0, 100, 20):
        print("served", number, flush=True)
    print("served 100 requests, shutting down")


asyncio.run(main())
""",
    ),
    produced(
        "success/report_about_other_failures",
        "A program that counts the failures of other jobs, and quotes their last lines.",
        "report written: 3 of 40 jobs failed",
        "python weekly.py",
        text="""\
print("weekly report, 40 jobs")
for job, line in {
    "4711": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB",
    "4712": "slurmstepd: error: *** JOB 4712 ON node07 CANCELLED AT 2026-03-01T04:00:12 DUE TO TIME LIMIT ***",
    "4720": "Segmentation fault (core dumped)",
}.items():
    print(f"  job {job}: {line}")
print("report written: 3 of 40 jobs failed")
""",
    ),
    produced(
        "success/no_checkpoint_yet",
        "There is no checkpoint: it is said with its exception, and training starts from scratch.",
        "saved checkpoint at step 1050, exiting",
        "python resume.py",
        text="""\
import chatter

try:
    open("checkpoints/latest.pt", "rb")
except FileNotFoundError as error:
    print(f"could not load checkpoint: {error!r}; starting from scratch")
for line in chatter.training(1050, seed=307, style=3):
    print(line)
print("saved checkpoint at step 1050, exiting")
""",
    ),
    produced(
        "success/not_a_git_repository",
        "A program asks git for its version where there is no repository.",
        "run 12 finished",
        "python version.py",
        text="""\
import subprocess

subprocess.run(['git', 'rev-parse', 'HEAD'])
print('commit unknown', flush=True)
for epoch in range(3):
    print('epoch', epoch)
print('run 12 finished')
""",
        uses=("git",),
    ),
    produced(
        "success/sweep_with_failed_trials",
        "A sweep in which two of ten trials fail; that is what a sweep is for.",
        "sweep finished: 8 of 10 trials completed, best loss 0.110",
        "python sweep.py",
        text="""\
import logging
import traceback

logging.basicConfig(level=logging.INFO, format="[%(levelname).1s %(asctime)s] %(message)s")


def trial(number):
    if number in (2, 5):
        raise RuntimeError(f"Trial {number} failed with parameters: {{'lr': 1e{number}}}")
    return 1 / (number + 1) + 0.01


losses = []
for number in range(10):
    try:
        losses.append(trial(number))
        logging.info("Trial %d finished with value %.3f", number, losses[-1])
    except RuntimeError:
        logging.error("Trial %d failed", number)
        traceback.print_exc()
logging.info("sweep finished: %d of 10 trials completed, best loss %.3f", len(losses), min(losses))
""",
    ),
    produced(
        "success/interrupted_evaluation_is_handled",
        "A SIGINT to oneself is caught: the program stops early on purpose, and saves.",
        "stopped early at step 30, best model saved",
        "python early.py",
        text="""\
import os
import signal

signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    for step in range(100):
        print("step", step, flush=True)
        if step == 30:
            os.kill(os.getpid(), signal.SIGINT)
except KeyboardInterrupt:
    print("KeyboardInterrupt: leaving the training loop")
    print("stopped early at step 30, best model saved")
""",
    ),
    produced(
        "success/tracking_server_is_away",
        "The tracking server cannot be reached; the run goes on offline.",
        "Finished training, run kept offline",
        "python track.py",
        text="""\
import socket
import sys

import chatter

for step, line in enumerate(chatter.training(1300, seed=308, style=2)):
    if step % 400 == 0:
        try:
            socket.create_connection(("tracking.example.org", 443), timeout=1)
        except OSError as error:
            print(f"wandb: ERROR Network error ({error}), entering retry loop.", file=sys.stderr)
    print(line)
print("Finished training, run kept offline")
""",
    ),
    produced(
        "success/data_check_with_errors_by_level",
        "A data check that logs errors of the data, which is what it is asked for.",
        "checked 40 files: 3 with errors (see errors.csv)",
        "python check.py",
        text="""\
import logging

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)-8s %(message)s")
for number in range(40):
    if number % 15 == 4:
        logging.error("file %03d: checksum mismatch, UnicodeDecodeError at byte 17", number)
    else:
        logging.info("file %03d: ok", number)
logging.info("checked 40 files: 3 with errors (see errors.csv)")
""",
    ),
    produced(
        "success/worker_pool_recovers",
        "A broken pool is replaced, and the work done again.",
        "all 20 shards done",
        "python pool.py",
        text="""\
import os
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import chatter


def work(shard):
    if shard == 7 and not os.path.exists("tried"):
        open("tried", "w").close()
        os._exit(9)
    return shard


if __name__ == "__main__":
    for line in chatter.training(1050, seed=309, style=1):
        print(line)
    done = 0
    while done < 20:
        try:
            with ProcessPoolExecutor(1) as pool:
                for shard in pool.map(work, range(done, 20)):
                    print("shard", shard, "done", flush=True)
                    done = shard + 1
        except BrokenProcessPool as error:
            print(f"ERROR {error!r}; starting a new pool", flush=True)
    print("all 20 shards done")
""",
    ),
]
