"""Failures as some logger, box, prefix or progress bar shows them."""

from __future__ import annotations

from corpus.make.recipe import produced

_RAISES = """\
def load(path):
    with open(path, "rb") as file:
        return file.read()


def main():
    print("loading configuration", flush=True)
    load("/models/encoder/config.json")
"""
_BOXED = """\
from rich.traceback import install

install(show_locals=True, width=100)

"""
_JSON_LOG = """\
import json
import sys
import time
import traceback

import chatter


def say(level, event, **more):
    print(json.dumps({"ts": round(time.time(), 3), "level": level, "event": event, **more}), flush=True)


for line in chatter.training(1100, seed=601, style=1):
    say("info", line)
try:
    raise ConnectionRefusedError(111, "Connection refused", "feature-store:6379")
except OSError as error:
    say("error", "step failed", error=repr(error), exception=traceback.format_exc())
    sys.exit(1)
"""
_BAR = """\
import time

from tqdm import tqdm

for epoch in range(3):
    for step in tqdm(range(400), desc=f"epoch {epoch}", mininterval=0.01):
        time.sleep(0.0005)
        if epoch == 2 and step == 250:
            scale = [0.5] * 200
            scale[step] *= 2
"""
_KUBERNETES = """\
import datetime
import subprocess
import sys

command = [sys.executable, "-u", "serve.py"]
child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
for line in child.stdout:
    now = datetime.datetime.now(datetime.timezone.utc).isoformat()
    print(f"{now} stderr F {line}", end="", flush=True)
sys.exit(child.wait())
"""

RECIPES = [
    produced(
        "file_not_found/in_a_box_of_rich",
        "rich draws the traceback in a box, with the local variables of each frame.",
        "FileNotFoundError: [Errno 2] No such file or directory:",
        "python train.py",
        text=f"{_BOXED}\n{_RAISES}\n\nmain()\n",
        framework="rich",
        uses=("rich",),
    ),
    produced(
        "div_zero/in_a_box_of_rich",
        "The same of another exception, with 80 columns.",
        "ZeroDivisionError: division by zero",
        "python rate.py",
        text="""\
from rich.traceback import install

install(width=80)
tokens, seconds = 1000, 0
print("measuring")
print(tokens / seconds)
""",
        framework="rich",
        uses=("rich",),
    ),
    produced(
        "network/as_one_line_of_json",
        "A structured log: the whole traceback is one field of the last of 1,100 JSON lines.",
        "ConnectionRefusedError: [Errno 111] Connection refused",
        "python -u features.py",
        text=_JSON_LOG,
    ),
    produced(
        "traceback/behind_a_progress_bar",
        "tqdm's bar and the traceback are on one line of the log, as there is no line feed between them.",
        "IndexError: list index out of range",
        "python bars.py",
        text=_BAR,
        framework="tqdm",
        uses=("tqdm",),
    ),
    produced(
        "port_in_use/behind_a_kubelet_prefix",
        "Every line carries time, stream and a flag, as container runtimes write them.",
        "OSError: [Errno 98] Address already in use",
        "python kubelet.py",
        files={
            "kubelet.py": _KUBERNETES,
            "serve.py": """\
import socket

import chatter

for line in chatter.training(1200, seed=602, style=3):
    print(line)
first = socket.create_server(("127.0.0.1", 8080))
second = socket.socket()
second.bind(("127.0.0.1", 8080))
""",
        },
    ),
    produced(
        "disk_full/inside_another_message",
        "A helper's standard error is quoted in the exception of its parent.",
        "No space left on device",
        "python archive.py",
        text="""\
import subprocess

done = subprocess.run(["cp", "big.bin", "/scratch/"], capture_output=True, text=True)
print("archiving big.bin", flush=True)
if done.returncode:
    raise RuntimeError(f"archiver failed with status {done.returncode}, stderr was:\\n{done.stderr}")
""",
        prepare="""\
mkdir -p /scratch && mount -t tmpfs -o size=1m,mode=1777 scratch /scratch
head -c 4M /dev/zero >big.bin
""",
    ),
    produced(
        "permission/with_shell_tracing",
        "set -x: every command is shown with a plus before it is run.",
        "cp: cannot create regular file '/results/weights.bin': Permission denied",
        "bash -ex job.sh",
        text="""\
stamp=$(date -u +%Y)
python3 chatter.py training 1050 --seed 603
for part in 1 2; do
    echo "part $part" >>weights.bin
done
cp weights.bin /results/weights.bin
echo done
""",
        prepare="mkdir -p /results && chmod 755 /results",
        framework="bash",
        uses=("bash",),
    ),
    produced(
        "missing_module/while_pytest_collects",
        "pytest cannot import a test module; nothing is run.",
        "E   ModuleNotFoundError: No module named 'trainer'",
        "python -m pytest -p no:cacheprovider -q",
        files={
            "test_loader.py": """\
from trainer.loader import Loader


def test_loader():
    assert Loader()
""",
            "test_other.py": """\
def test_other():
    assert True
""",
        },
        framework="pytest",
        uses=("pytest",),
    ),
    produced(
        "network/in_an_exception_group",
        "An exception group of a task group: the cause stands behind bars.",
        "ConnectionRefusedError: [Errno 111] Connect call failed ('127.0.0.1', 7001)",
        "python actors.py",
        text="""\
import asyncio


async def connect(port):
    await asyncio.open_connection("127.0.0.1", port)


async def main():
    print("connecting 2 actors", flush=True)
    async with asyncio.TaskGroup() as group:
        group.create_task(connect(7001))
        group.create_task(asyncio.sleep(5))


asyncio.run(main())
""",
    ),
    produced(
        "assertion/under_time",
        "Statistics, as of time(1), follow the failure.",
        "AssertionError: checksum of shard 3 is 0x1f, expected 0x2f",
        "bash job.sh",
        files={
            "job.sh": """\
python check.py
s=$?
echo "Command exited with non-zero status $s"
for name in 'User time (seconds)' 'System time (seconds)' 'Maximum resident set size (kbytes)' \\
    'Major (requiring I/O) page faults' 'Signals delivered' 'Swaps' 'Exit status'; do
    echo "        $name: $s"
done
exit $s
""",
            "check.py": """\
for shard, checksum in enumerate((0x2F, 0x2F, 0x2F, 0x1F)):
    assert checksum == 0x2F, f"checksum of shard {shard} is {checksum:#x}, expected 0x2f"
    print("shard", shard, "ok", flush=True)
""",
        },
        uses=("bash",),
    ),
    produced(
        "segfault/address_sanitizer",
        "A program built with AddressSanitizer reads past a buffer: a long report in place of a signal.",
        "ERROR: AddressSanitizer: heap-buffer-overflow on address",
        "./solve",
        files={
            "solve.c": """\
#include <stdio.h>
#include <stdlib.h>
int main(void) {
    int *weights = malloc(10 * sizeof *weights);
    printf("normalising 10 weights\\n");
    fflush(stdout);
    int sum = 0;
    for (int i = 0; i <= 10; i++) sum += weights[i];
    return sum == 0;
}
"""
        },
        prepare="gcc -g -O0 -fsanitize=address -o solve solve.c",
        framework="c",
        uses=("gcc",),
        class_alt=("runtime_error", "unknown"),
        evidence_alt=("SUMMARY: AddressSanitizer: heap-buffer-overflow",),
    ),
    produced(
        "file_not_found/uncaught_in_c_plus_plus",
        "std::filesystem throws, nobody catches: terminate prints what().",
        "what():  filesystem error: cannot copy file: No such file or directory",
        "bash -c './stage && echo staged'",
        files={
            "stage.cc": """\
#include <filesystem>
#include <iostream>
int main() {
    std::cout << "staging restart file" << std::endl;
    std::filesystem::copy_file("restart.h5", "/tmp/restart.h5");
}
"""
        },
        prepare="g++ -std=c++17 -o stage stage.cc",
        framework="c++",
        uses=("g++",),
    ),
    produced(
        "traceback/module_of_ones_own_in_the_way",
        "A file called random.py hides the library's module of that name.",
        "has no attribute 'shuffle'",
        "python main.py",
        files={
            "random.py": """\
seed = 7
""",
            "main.py": """\
import random

print("shuffling")
random.shuffle([1, 2, 3])
""",
        },
    ),
    produced(
        "traceback/warning_made_an_error",
        "python -W error: a deprecation ends the program.",
        "DeprecationWarning: 'adamw_legacy' will be removed in 3.0",
        "python -W error train.py",
        text="""\
import warnings

print("building optimizer", flush=True)
warnings.warn("'adamw_legacy' will be removed in 3.0", DeprecationWarning, stacklevel=1)
""",
    ),
]
