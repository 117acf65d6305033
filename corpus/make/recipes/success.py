"""Jobs that end well, and whose logs are full of words that do not sound like it."""

from __future__ import annotations

from corpus.make.recipe import produced

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
            "test_known.py": """\
import unittest


class Known(unittest.TestCase):
    @unittest.expectedFailure
    def test_overflow_error(self):
        self.assertEqual(float('inf'), 1)

    def test_error_is_raised(self):
        with self.assertRaises(KeyError):
            {}['missing']
"""
        },
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
        text="""\
import numpy as np

for name, values in {'cat': [1.0, 0.5], 'dog': [], 'bird': [0.25]}.items():
    print(f'{name}: precision {np.mean(values):.3f}', flush=True)
print('evaluation complete')
""",
        framework="numpy",
        uses=("numpy",),
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
]
