"""Jobs that end well, and whose logs are full of words that do not sound like it."""

from __future__ import annotations

from corpus.make.recipe import compiled, produced

RECIPES = [
    produced(
        "success/bad_samples_are_skipped",
        "A traceback for each of four samples that are skipped, and 1,500 lines of training around them.",
        "training finished: 1500 steps, 4 samples skipped",
        "python -u train.py",
        text="""\
import logging

import chatter

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")


def decode(sample):
    if sample % 400 == 7:
        raise ValueError(f"cannot identify image file 'img_{sample}.jpg'")


skipped = 0
for step, line in enumerate(chatter.training(1500, seed=301, style=0)):
    try:
        decode(step)
    except ValueError:
        logging.exception("skipping sample %d", step)
        skipped += 1
    print(line)
print(f"training finished: 1500 steps, {skipped} samples skipped")
""",
    ),
    produced(
        "success/download_after_two_refusals",
        "The first two attempts are refused, then the server is up.",
        "downloaded 3 bytes",
        "python fetch.py",
        text="""\
import http.server
import threading
import urllib.request


class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"abc")

    def log_message(self, *unused):
        pass


for attempt in range(1, 6):
    if attempt == 3:
        threading.Thread(target=http.server.HTTPServer(("127.0.0.1", 9000), Answer).serve_forever, daemon=True).start()
    try:
        data = urllib.request.urlopen("http://127.0.0.1:9000/x", timeout=3).read()
    except OSError as error:
        print(f"ERROR: attempt {attempt} failed: {error}; retrying", flush=True)
    else:
        print(f"downloaded {len(data)} bytes")
        break
""",
    ),
    produced(
        "success/no_card_falls_back",
        "There is no card: the program says so and goes on with the processor.",
        "finished 10 steps on cpu",
        "python bench.py",
        text="""\
import ctypes
import warnings

try:
    ctypes.CDLL("libcuda.so.1")
    device = "cuda"
except OSError as error:
    warnings.warn(f"CUDA initialization: Found no NVIDIA driver on your system ({error})", stacklevel=1)
    device = "cpu"
for step in range(10):
    print(f"step {step} device={device}")
print(f"finished 10 steps on {device}")
""",
    ),
    produced(
        "success/tests_that_pass",
        "Tests about failures, all of which pass.",
        "12 passed",
        "python -m pytest -v -p no:cacheprovider test_errors.py",
        files={
            "test_errors.py": """\
import pytest


@pytest.mark.parametrize("kind", ["segfault", "out_of_memory", "FileNotFoundError", "nan_loss", "killed", "timeout"])
def test_is_reported(kind):
    print("RuntimeError: CUDA error:", kind)
    assert kind


@pytest.mark.parametrize("status", [1, 2, 126, 127, 137, 139])
def test_failed_with_status(status):
    with pytest.raises(SystemExit):
        raise SystemExit(status)
"""
        },
        framework="pytest",
        uses=("pytest",),
    ),
    produced(
        "success/expected_failures_of_pytest",
        "Expected failures, shown with their tracebacks.",
        "2 passed, 2 xfailed",
        "python -m pytest -rxX -p no:cacheprovider test_known.py",
        files={
            "test_known.py": """\
import pytest


@pytest.mark.xfail(reason="ZeroDivisionError: known bug 812", strict=True)
def test_empty_batch():
    1 / 0


@pytest.mark.xfail(reason="fails without a GPU: RuntimeError: No CUDA GPUs are available")
def test_gpu():
    raise RuntimeError("No CUDA GPUs are available")


def test_cpu():
    assert True


def test_shapes():
    assert (2, 3) != (3, 2)
"""
        },
        framework="pytest",
        uses=("pytest",),
    ),
    produced(
        "success/expected_failure_of_unittest",
        "The same of unittest.",
        "OK (expected failures=1)",
        "python -m unittest -v test_known",
        files={
            "test_known.py": "import unittest\n\n\nclass Known(unittest.TestCase):\n    @unittest.expectedFailure\n"
            "    def test_overflow_error(self):\n        self.assertEqual(float('inf'), 1)\n\n"
            "    def test_error_is_raised(self):\n        with self.assertRaises(KeyError):\n            {}['missing']\n"
        },
    ),
    produced(
        "success/removal_of_what_is_not_there",
        "A job script cleans up what may not be there, and goes on.",
        "all stages completed",
        "bash job.sh",
        text="rm old.ckpt || true\nls /scratch/cache 2>&1 || echo 'no cache yet'\ncat missing.cfg 2>&1 || true\n"
        "for stage in prepare train export; do echo \"stage $stage ok\"; done\necho all stages completed\n",
        framework="bash",
        uses=("bash",),
    ),
    produced(
        "success/optional_modules",
        "Optional modules are missing, and each is said with its ImportError.",
        "done, accuracy 0.912",
        "python optional.py",
        text="""\
import importlib

import chatter

for name in ("apex", "flash_attn", "deepspeed", "transformer_engine"):
    try:
        importlib.import_module(name)
    except ImportError as error:
        print(f"WARNING: {name} not available ({type(error).__name__}: {error}), using the built-in version")
for line in chatter.training(1100, seed=302, style=1):
    print(line)
print("done, accuracy 0.912")
""",
    ),
    produced(
        "success/overflow_skipped_by_a_scaler",
        "Overflows of half precision are skipped now and then, as mixed precision does.",
        "saved final model after 1200 steps",
        "python amp.py",
        text="""\
import chatter

scale = 65536.0
for step, line in enumerate(chatter.training(1200, seed=303, style=0)):
    if step in (3, 250, 777):
        scale /= 2
        print(f"Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to {scale}")
        print("[step] loss: nan grad_norm: inf (skipped)")
    print(line)
print("saved final model after 1200 steps")
""",
    ),
    produced(
        "success/metric_that_is_nan",
        "A metric is NaN where a class has no samples; the loss is fine.",
        "evaluation complete",
        "python evaluate.py",
        text="import numpy as np\n\nfor name, values in {'cat': [1.0, 0.5], 'dog': [], 'bird': [0.25]}.items():\n"
        "    print(f'{name}: precision {np.mean(values):.3f}', flush=True)\nprint('evaluation complete')\n",
        framework="numpy",
        uses=("numpy",),
    ),
    compiled(
        "success/crashed_worker_started_again",
        "A worker dies of SIGSEGV once; the script starts it again, and it ends well.",
        "worker finished all 50 items",
        """\
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(void) {
    int first = access("restarted", F_OK) != 0;
    fclose(fopen("restarted", "w"));
    for (int item = first ? 0 : 20; item < 50; item++) {
        printf("item %d done\\n", item);
        fflush(stdout);
        if (first && item == 20) *(volatile int *)0 = 1;
    }
    printf("worker finished all 50 items\\n");
    return 0;
}
""",
        command="bash job.sh",
        files={
            "job.sh": "for attempt in 1 2 3; do\n  ./solve && exit 0\n  echo \"worker died with status $?, restarting\"\ndone\nexit 1\n"
        },
    ),
    produced(
        "success/killed_for_memory_then_smaller",
        "A stage is killed for memory in its control group; the driver halves the batch, and it ends well.",
        "all 200 steps done with batch 64",
        "python driver.py",
        files={
            "driver.py": """\
import subprocess
import sys

batch = 256
while True:
    status = subprocess.call([sys.executable, "stage.py", str(batch)])
    if status == 0:
        break
    print(f"stage ended with {status}; halving batch {batch}", flush=True)
    batch //= 2
""",
            "stage.py": """\
import sys

batch = int(sys.argv[1])
held = [b"x" * (1 << 20) for _ in range(batch)]
for step in range(200):
    print(f"step {step} batch {batch} loss {4 / (step + 1):.3f}", flush=True)
print(f"all 200 steps done with batch {batch}")
""",
        },
        memory_mib=110,
    ),
    produced(
        "success/memory_error_caught",
        "A MemoryError is caught, and the work split.",
        "processed 4096 rows in chunks of 1024",
        "bash -c 'ulimit -v 500000; python chunks.py'",
        files={
            "chunks.py": """\
import sys
import traceback

size = 4096
while size:
    try:
        work = bytearray(size << 18)
        break
    except MemoryError:
        traceback.print_exc()
        print(f"chunk of {size} does not fit, trying {size // 2}", file=sys.stderr)
        size //= 2
for row in range(0, 4096, size):
    print(f"rows {row} to {row + size} ok")
print(f"processed 4096 rows in chunks of {size}")
"""
        },
    ),
    produced(
        "success/time_outs_retried",
        "Two time-outs, each with its traceback, and then it works.",
        "lease acquired on attempt 3",
        "python lease.py",
        text="""\
import traceback

for attempt in (1, 2, 3):
    try:
        if attempt < 3:
            raise TimeoutError("timed out waiting for the lock server")
        print(f"lease acquired on attempt {attempt}")
    except TimeoutError:
        traceback.print_exc()
""",
    ),
    produced(
        "success/errors_that_make_ignores",
        "make ignores errors of recipes that begin with a dash.",
        "build finished",
        "make all",
        files={
            "Makefile": "all: clean\n\t@echo build finished\nclean:\n\t-rm build.log\n\t-false\n\t-sh -c 'kill -SEGV $$$$'\n"
        },
        framework="make",
        uses=("make",),
    ),
    produced(
        "success/compiler_warnings",
        "A build with many warnings, whose tests pass.",
        "3 tests, 0 failures, 0 errors",
        "bash -e build.sh",
        files={
            "build.sh": "gcc -Wall -Wextra -o test test.c\n./test\n",
            "test.c": "#include <stdio.h>\nint fatal_error_count;\nint main(int argc, char **argv) {\n  int unused, failed = 0;\n"
            '  printf("%d tests, %d failures, %d errors\\n", 3L, failed, fatal_error_count);\n  for (unsigned i = 0; i < -1; i++) break;\n}\n',
        },
        framework="c",
        uses=("gcc",),
    ),
    produced(
        "success/long_training",
        "2,000 lines of training with a progress bar, nothing else.",
        "Training complete in 0h 12m",
        "bash job.sh",
        text="python3 chatter.py training 1000 --seed 304\npython3 chatter.py progress 400\n"
        "python3 chatter.py training 1000 --seed 305 --first-step 1001\necho 'Training complete in 0h 12m'\n",
    ),
    produced(
        "success/four_ranks_with_nccl_info",
        "Four ranks that end well, with NCCL's chatter in front.",
        "rank 0: all ranks finished, max error 0.0",
        "mpirun --oversubscribe --tag-output -n 4 python -u ranks.py",
        text="""\
import os
import time

import chatter

rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
if rank == 0:
    for line in chatter.nccl_info(4, seed=1):
        print(line)
for line in chatter.training(280, seed=306 + rank, style=4):
    print(line)
print(f"rank {rank}: destroying process group")
if rank == 0:
    time.sleep(1)
    print("rank 0: all ranks finished, max error 0.0")
""",
        framework="mpi",
        uses=("mpirun",),
    ),
    produced(
        "success/next_port_is_taken",
        "The port is in use, the next one is not.",
        "board listening on port 6007",
        "python board.py",
        text="""\
import socket

taken = socket.create_server(("127.0.0.1", 6006))
for port in (6006, 6007):
    try:
        board = socket.create_server(("127.0.0.1", port))
    except OSError as error:
        print(f"ERROR: cannot bind port {port}: {error}")
    else:
        print(f"board listening on port {port}")
        break
""",
    ),
    produced(
        "success/disk_nearly_full",
        "A checkpoint does not fit; old ones are removed, and it does.",
        "checkpoint 5 written, 4 kept",
        "python save.py",
        text="""\
import logging
import os

logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
kept = []
for number in range(6):
    path = f"/scratch/{number}.ckpt"
    while True:
        try:
            with open(path, "wb") as file:
                file.write(bytes(500_000))
            break
        except OSError as error:
            logging.warning("cannot write %s: %s; removing the oldest", path, error)
            os.remove(kept.pop(0))
    kept.append(path)
logging.info("checkpoint 5 written, %d kept", len(kept))
""",
        prepare="mkdir -p /scratch && mount -t tmpfs -o size=2m,mode=1777 scratch /scratch\n",
    ),
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
        text="import numpy as np\n\nvalues = np.array([0.0, 1.0, -1.0, 1e308, 4.0])\nprint(1 / values)\nprint(np.exp(values))\n"
        "print(np.log(values))\nprint('normalised 5 columns')\n",
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
        "success/broken_pipe_of_head",
        "head ends before the program in front of it.",
        "first three lines shown",
        "bash preview.sh",
        text="python3 -c '\nfor i in range(200000): print(\"row\", i)\n' | head -3\necho first three lines shown\n",
        framework="bash",
        uses=("bash",),
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
        "success/mirror_after_a_failed_download",
        "The first mirror cannot be reached; the file lies in the cache.",
        "using the cached copy",
        "bash get.sh",
        text="set -e\ncurl -fsS http://mirror.example.org/data.tar -o data.tar || echo 'mirror failed, trying the cache'\n"
        "[ -f data.tar ] || { echo cached >data.tar; echo 'using the cached copy'; }\n",
        framework="bash",
        uses=("bash", "curl"),
    ),
    produced(
        "success/command_that_may_be_missing",
        "A tool is tried for, and done without.",
        "benchmark finished: 8 threads",
        "sh bench.sh",
        text="nvidia-smi -L || echo 'no NVIDIA tools, measuring the processor only'\nrocm-smi || true\n"
        "for t in 1 2 4 8; do echo \"$t threads: 1.$t s\"; done\necho 'benchmark finished: 8 threads'\n",
        framework="bash",
    ),
    produced(
        "success/not_a_git_repository",
        "A program asks git for its version where there is no repository.",
        "run 12 finished",
        "python version.py",
        text="import subprocess\n\nsubprocess.run(['git', 'rev-parse', 'HEAD'])\nprint('commit unknown', flush=True)\n"
        "for epoch in range(3):\n    print('epoch', epoch)\nprint('run 12 finished')\n",
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
        "success/helper_terminated_on_purpose",
        "A script ends its own background helper; bash reports it as terminated.",
        "training done, helper stopped",
        "bash -m job.sh",
        text="sleep 60 &\nhelper=$!\nfor i in 1 2 3; do echo \"step $i\"; done\nkill $helper\nwait $helper\n"
        "echo 'training done, helper stopped'\nexit 0\n",
        framework="bash",
        uses=("bash",),
    ),
    produced(
        "success/time_limit_of_a_probe",
        "A probe is given one second, and may take longer.",
        "probe skipped, 5 checks passed",
        "bash check.sh",
        text="timeout 1 sleep 5\n[ $? = 124 ] && echo 'probe timed out (ignored)'\n"
        "for c in 1 2 3 4 5; do echo \"check $c passed\"; done\necho 'probe skipped, 5 checks passed'\n",
        framework="bash",
        uses=("bash",),
    ),
    compiled(
        "success/numerical_errors_are_small",
        "A solver that prints its errors, as solvers do.",
        "verification PASSED: max error 3.8e-11 below tolerance",
        """\
#include <stdio.h>
int main(void) {
    for (int i = 0; i < 60; i++)
        printf("iter %3d  residual error %.3e  abort threshold 1.0e+03  failed solves 0\\n", i, 1.0 / (1 << (i % 30)));
    printf("verification PASSED: max error 3.8e-11 below tolerance\\n");
    return 0;
}
""",
    ),
    produced(
        "success/java_without_a_log_configuration",
        "Java's loggers complain, and the indexer ends well.",
        "indexed 500 documents, 0 failures",
        "java Index.java",
        text="public class Index {\n  public static void main(String[] a) {\n"
        '    System.err.println("log4j:ERROR Could not find value for key log4j.appender.FILE");\n'
        '    System.err.println("WARNING: An illegal reflective access operation has occurred");\n'
        '    try { Object o = null; o.toString(); } catch (NullPointerException e) { e.printStackTrace(); }\n'
        '    System.out.println("indexed 500 documents, 0 failures");\n  }\n}\n',
        framework="java",
        uses=("java",),
    ),
    produced(
        "success/node_warnings",
        "Node warns of deprecations, and a promise is handled late.",
        "wrote 12 summaries",
        "node --trace-warnings summarise.js",
        text="new Buffer(1);\nprocess.emitWarning('fetch failed once: ECONNRESET', 'RetryWarning');\n"
        "const p = Promise.reject(new Error('first mirror failed'));\np.catch(e => console.error('ignored:', e.message));\n"
        "console.log('wrote 12 summaries');\n",
        framework="node",
        uses=("node",),
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
    produced(
        "success/two_ranks_one_warns",
        "Two ranks; one of them warns of a slow link and of a retried send.",
        "[rank 0] finished 50 iterations, 1 retried send, 0 lost",
        "mpirun --oversubscribe -n 2 python -u exchange.py",
        text="""\
import os
import time

rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
for step in range(50):
    print(f"[rank {rank}] iteration {step}")
    if rank == 1 and step == 20:
        print("[rank 1] WARNING: send to rank 0 failed (Connection reset by peer), retrying on eth1")
time.sleep(1 - rank)
print(f"[rank {rank}] finished 50 iterations, {1 - rank} retried send, 0 lost")
""",
        framework="mpi",
        uses=("mpirun",),
    ),
]
