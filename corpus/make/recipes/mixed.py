"""One cause and several voices: what followed from it, what was handled before it, what hides it."""

from __future__ import annotations

from corpus.make.recipe import compiled, produced

RECIPES = [
    produced(
        "permission/after_a_missing_file_was_handled",
        "A missing file is handled with its traceback at the start; the end comes from another error.",
        "PermissionError: [Errno 13] Permission denied: '/results/final.bin'",
        "python train.py",
        text="""\
import traceback

import chatter

try:
    open("cache.bin")
except FileNotFoundError:
    traceback.print_exc()
    print("no cache, building it")
for line in chatter.training(1200, seed=611, style=0):
    print(line, flush=True)
open("/results/final.bin", "wb")
""",
        prepare="mkdir -p /results && chmod 755 /results",
    ),
    produced(
        "ram_oom/wrapped_by_the_program",
        "A MemoryError becomes a RuntimeError of the program's own; the first is the cause.",
        "MemoryError",
        "bash -c 'ulimit -v 600000; python build.py'",
        files={
            "build.py": """\
def allocate(rows):
    return bytearray(rows << 20)


def build():
    try:
        return allocate(4096)
    except MemoryError as error:
        raise RuntimeError("cannot build the index") from error


print("building index of 4096 rows", flush=True)
build()
"""
        },
        evidence_alt=("RuntimeError: cannot build the index",),
    ),
    produced(
        "disk_full/the_log_itself",
        "The logging module cannot write its file, and says so for each record; then the program gives up.",
        "OSError: [Errno 28] No space left on device",
        "python service.py",
        text="""\
import logging
import sys

logging.basicConfig(filename="/scratch/service.log", level=logging.INFO)
for number in range(3):
    logging.info("x" * 3_000_000)
print("service: 3 records lost, stopping", file=sys.stderr)
sys.exit(1)
""",
        prepare="mkdir -p /scratch && mount -t tmpfs -o size=1m,mode=1777 scratch /scratch",
    ),
    produced(
        "disk_full/then_a_missing_file",
        "The first stage fails for lack of space and is not looked at; the second misses its output.",
        "No space left on device",
        "bash stages.sh",
        files={
            "stages.sh": """\
echo "stage 1: extract"
python3 extract.py
echo "stage 2: train"
python3 train.py
""",
            "extract.py": """\
import os

with open("/scratch/part", "wb") as part:
    part.write(bytes(5 << 20))
os.rename("/scratch/part", "/scratch/features.bin")
""",
            "train.py": """\
open("/scratch/features.bin", "rb")
""",
        },
        prepare="mkdir -p /scratch && mount -t tmpfs -o size=1m,mode=1777 scratch /scratch",
        uses=("bash",),
        evidence_alt=("OSError: [Errno 28] No space left on device",),
        class_alt=("file_not_found",),
    ),
    produced(
        "traceback/consumer_of_a_pipe",
        "The consumer of a pipe dies of an exception; the producer then complains of a broken pipe.",
        "ValueError: negative token id -1",
        "bash -o pipefail stream.sh",
        files={
            "stream.sh": """\
python3 produce.py | python3 consume.py
s=$?
echo "stream ended with $s"
exit $s
""",
            "produce.py": """\
for number in range(400_000):
    print(number if number != 5000 else -1)
""",
            "consume.py": """\
import sys

for line in sys.stdin:
    token = int(line)
    if token < 0:
        raise ValueError(f"negative token id {token}")
""",
        },
        uses=("bash",),
    ),
    produced(
        "network/retries_used_up",
        "Five attempts are refused, each is logged, and the program gives up with an exception of its own.",
        "ConnectionRefusedError: [Errno 111] Connection refused",
        "python -u fetch.py",
        text="""\
import logging
import time
import urllib.request

import chatter

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s fetch: %(message)s")
for line in chatter.training(1100, seed=612, style=2):
    logging.info(line)
last = None
for attempt in range(1, 6):
    try:
        urllib.request.urlopen("http://127.0.0.1:9200/index", timeout=2)
    except OSError as error:
        last = error
        logging.warning("attempt %d of 5 failed: %s", attempt, error)
        time.sleep(0.05)
raise RuntimeError("giving up on the index after 5 attempts") from last
""",
        evidence_alt=("attempt 5 of 5 failed", "RuntimeError: giving up on the index after 5 attempts"),
    ),
    produced(
        "missing_module/behind_a_tee",
        "python | tee without pipefail: the program never ran, and the status is 0.",
        "ModuleNotFoundError: No module named 'lightning'",
        "sh job.sh",
        files={
            "job.sh": """\
echo "job 17 on $(hostname)"
python train.py 2>&1 | tee train.log
""",
            "train.py": """\
import lightning

print(lightning.__version__)
""",
        },
    ),
    produced(
        "file_not_found/swallowed_by_the_last_command",
        "The script's last command succeeds, so that the status is 0, though training ended with an exception.",
        "FileNotFoundError: [Errno 2] No such file or directory: 'data/val.bin'",
        "bash job.sh",
        files={
            "job.sh": """\
python train.py
date +%Y >finished.txt
""",
            "train.py": """\
import chatter

for line in chatter.training(1300, seed=613, style=4):
    print(line, flush=True)
open("data/val.bin", "rb")
""",
        },
        uses=("bash",),
    ),
    produced(
        "traceback/thread_first_and_queue_after",
        "A loader thread dies of an exception; the main thread then finds its queue empty.",
        "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte",
        "python loader.py",
        text="""\
import queue
import threading

items = queue.Queue()


def load():
    for data in (b"a", b"b", b"\\xff\\xfe"):
        items.put(data.decode())


threading.Thread(target=load, name="loader").start()
for number in range(4):
    print("item", items.get(timeout=1), flush=True)
""",
        evidence_alt=("_queue.Empty",),
    ),
    produced(
        "segfault/after_a_handled_exception",
        "An exception was handled long before; the end is a signal, and no line tells of it.",
        "",
        "python -u step.py",
        text="""\
import ctypes
import traceback

import chatter

try:
    {}["bias"]
except KeyError:
    traceback.print_exc()
    print("using the default bias")
for line in chatter.training(1400, seed=614, style=1):
    print(line)
ctypes.c_int.from_address(8).value
""",
    ),
    compiled(
        "segfault/one_of_parallel_recipes",
        "make -j: one recipe dies, the others go on talking.",
        "Segmentation fault",
        """\
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int part = atoi(argv[1]);
    for (int i = 0; i < 5; i++) { printf("part %d: tile %d rendered\\n", part, i); fflush(stdout); usleep(40000); }
    if (part == 2) return *(volatile int *)0;
    for (int i = 5; i < 15; i++) { printf("part %d: tile %d rendered\\n", part, i); fflush(stdout); usleep(40000); }
    return 0;
}
""",
        command="make -j 3 all",
        files={
            "Makefile": "all: 1 2 3\n%:\n\t@./solve $@\n",
        },
        uses=("gcc", "make"),
    ),
    produced(
        "traceback/two_ranks_with_two_errors",
        "Rank 2 fails first; rank 0 then loses its connection to it, and fails louder.",
        "ValueError: rank 2 got a batch of 0 samples",
        "mpirun --oversubscribe --tag-output -n 3 python ring.py",
        text="""\
import os
import socket
import time

rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
if rank == 0:
    server = socket.create_server(("127.0.0.1", 6100))
    peer, _ = server.accept()
    while True:
        data = peer.recv(100)
        if not data:
            raise ConnectionError("rank 0: connection closed by peer")
        print("rank 0: received", len(data), flush=True)
elif rank == 1:
    for step in range(300):
        print("rank 1: step", step, flush=True)
    time.sleep(20)
else:
    time.sleep(0.5)
    link = socket.create_connection(("127.0.0.1", 6100))
    link.send(b"x" * 10)
    time.sleep(0.3)
    raise ValueError("rank 2 got a batch of 0 samples")
""",
        framework="mpi",
        uses=("mpirun",),
        first_rank=2,
    ),
    produced(
        "hang/killed_by_timeout",
        "timeout -s KILL ends a program that makes no progress: 137, as after a kill for memory, but it is none.",
        "no heartbeat for 2 s, killing the trainer",
        "bash watch.sh",
        text="""\
python3 -u -c 'import time; print("entering barrier"); time.sleep(60)' &
child=$!
sleep 2
echo "watch: no heartbeat for 2 s, killing the trainer"
kill -KILL $child
wait $child
s=$?
echo "watch: trainer ended with $s"
exit $s
""",
        framework="bash",
        uses=("bash",),
    ),
    produced(
        "unknown/killed_by_somebody",
        "SIGKILL from somebody: the control group's count says that it was not for memory, and nothing else speaks.",
        "",
        "bash job.sh",
        files={
            "job.sh": """\
python train.py
exit $?
""",
            "train.py": """\
import os
import signal

import chatter

for line in chatter.training(1100, seed=615, style=3):
    print(line, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
""",
        },
        uses=("bash",),
        class_alt=("interrupted",),
    ),
    produced(
        "unknown/ends_with_status_1",
        "A program that leaves with status 1 amid its work, and says nothing.",
        "",
        "python -u train.py",
        text="""\
import os

import chatter

for line in chatter.training(1250, seed=616, style=2):
    print(line)
os._exit(1)
""",
    ),
    produced(
        "unknown/ends_with_status_42",
        "A short script that ends with a status of its own making.",
        "",
        "sh check.sh",
        text="""\
echo checking licences
echo checking quota
exit 42
""",
        framework="bash",
    ),
]
