"""Full disks, too many open files, too many threads."""

from __future__ import annotations

from corpus.make.recipe import compiled, produced

_TINY = "mkdir -p /scratch && mount -t tmpfs -o size=2m,mode=1777 scratch /scratch\n"

RECIPES = [
    produced(
        "disk_full/checkpoint_on_a_tiny_scratch",
        "Checkpoints fill a scratch file system of 2 MiB after 1,200 steps.",
        "OSError: [Errno 28] No space left on device",
        "python train.py",
        text="""\
import pickle

import chatter

for number, line in enumerate(chatter.training(1500, seed=111, style=0)):
    print(line)
    if number % 300 == 299:
        print(f"saving /scratch/step-{number}.pkl")
        with open(f"/scratch/step-{number}.pkl", "wb") as file:
            pickle.dump(bytes(500_000), file)
""",
        prepare=_TINY,
    ),
    produced(
        "disk_full/copy_in_a_script",
        "cp onto a full file system, under set -e.",
        "No space left on device",
        "bash -e stage.sh",
        text="head -c 3M /dev/urandom >input.bin\necho staging input.bin to /scratch\ncp input.bin /scratch/\necho staged\n",
        prepare=_TINY,
        framework="bash",
        uses=("bash",),
    ),
    produced(
        "disk_full/no_inodes",
        "There is room, but not for more files: too many small ones.",
        "OSError: [Errno 28] No space left on device: '/scratch/feature-",
        "python extract.py",
        text="""\
import logging

logging.basicConfig(level=logging.INFO, format="%(asctime)s - %(levelname)s - %(message)s")
for number in range(4000):
    with open(f"/scratch/feature-{number:05d}.txt", "w") as file:
        file.write("1.0")
    if number % 100 == 0:
        logging.info("extracted %d features", number)
""",
        prepare="mkdir -p /scratch && mount -t tmpfs -o size=64m,nr_inodes=600,mode=1777 scratch /scratch\n",
    ),
    compiled(
        "disk_full/write_in_c",
        "A solver writes a field dump, and reports errno in its own words.",
        "ERROR: dump of field 'pressure' failed: No space left on device",
        """\
#include <errno.h>
#include <stdio.h>
#include <string.h>
int main(void) {
    static char field[1 << 20];
    FILE *dump = fopen("/scratch/pressure.dat", "w");
    setvbuf(dump, NULL, _IONBF, 0);
    for (int step = 0; step < 10; step++) {
        printf("t=%.2f residual 1.0e-%d\\n", step * 0.1, step);
        if (fwrite(field, 1, sizeof field, dump) != sizeof field) {
            printf("ERROR: dump of field 'pressure' failed: %s\\n", strerror(errno));
            return 2;
        }
    }
    return 0;
}
""",
        prepare=_TINY,
    ),
    produced(
        "disk_full/sqlite",
        "A results database on a full disk.",
        "sqlite3.OperationalError: database or disk is full",
        "python record.py",
        text="""\
import sqlite3

db = sqlite3.connect("/scratch/results.db")
db.execute("create table runs (id integer, blob blob)")
for number in range(10_000):
    db.execute("insert into runs values (?, ?)", (number, bytes(4000)))
    if number % 100 == 0:
        db.commit()
        print("recorded", number, flush=True)
""",
        prepare=_TINY,
    ),
    produced(
        "disk_full/tmp_of_sort",
        "sort spills into a temporary folder that is full.",
        "No space left on device",
        "sh -e sort.sh",
        text="python3 -c 'for i in range(400000): print(i * 7919 % 1000003, \"x\" * 20)' >pairs.txt\n"
        "echo sorting $(wc -l <pairs.txt) pairs\nsort -S 200k -T /scratch pairs.txt -o sorted.txt\necho sorted\n",
        prepare=_TINY,
        framework="bash",
    ),
    produced(
        "disk_full/file_size_limit",
        "A limit on the size of files, as sites set instead of a quota: the shell says which.",
        "File size limit exceeded",
        "bash dump.sh",
        text="ulimit -f 1000\necho dumping activations\ndd if=/dev/zero of=activations.bin bs=64k count=100 status=none\n"
        "s=$?\necho \"dump ended with $s\"\nexit $s\n",
        framework="bash",
        uses=("bash",),
        class_alt=("traceback",),
    ),
    produced(
        "too_many_files/open_shards",
        "Every shard is kept open.",
        "OSError: [Errno 24] Too many open files",
        "bash -c 'ulimit -n 64; python shards.py'",
        files={
            "shards.py": """\
shards = []
for number in range(1000):
    shards.append(open(f"shard-{number}.bin", "wb"))
    if number % 20 == 0:
        print("opened", number, flush=True)
"""
        },
    ),
    produced(
        "too_many_files/sockets",
        "A client leaks sockets, in a logger's format, with noise before.",
        "OSError: [Errno 24] Too many open files",
        "bash -c 'ulimit -n 100 && exec python -u client.py'",
        files={
            "client.py": """\
import logging
import socket

import chatter

logging.basicConfig(level=logging.INFO, format="%(levelname)s %(asctime)s %(name)s %(message)s")
for line in chatter.training(1100, seed=121, style=1):
    logging.info(line)
pairs = []
try:
    while True:
        pairs.append(socket.socketpair())
except OSError:
    logging.exception("connection pool failed at %d", len(pairs))
    raise SystemExit(1)
"""
        },
    ),
    compiled(
        "too_many_files/open_in_c",
        "A C program opens one file after the other.",
        "Too many open files",
        """\
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
int main(void) {
    printf("indexing 10000 documents\\n");
    fflush(stdout);
    for (int i = 0; i < 10000; i++)
        if (open("/etc/passwd", O_RDONLY) < 0) { fprintf(stderr, "document %d: ", i); perror("open"); exit(1); }
    return 0;
}
""",
        command="sh -c 'ulimit -n 50; ./solve'",
    ),
    produced(
        "too_many_files/node_emfile",
        "Node reads thousands of files at once.",
        "EMFILE: too many open files",
        "sh -c 'ulimit -n 60; exec node read.js'",
        files={
            "read.js": "const fs = require('fs');\nconsole.log('reading 500 files');\n"
            "const open = [];\nfor (let i = 0; i < 500; i++) open.push(fs.openSync('/etc/passwd', 'r'));\n"
        },
        framework="node",
        uses=("node",),
    ),
    produced(
        "too_many_files/pipes_of_children",
        "A parent keeps the pipes of all its children.",
        "OSError: [Errno 24] Too many open files",
        "bash -c 'ulimit -n 40; python spawn.py'",
        files={
            "spawn.py": "import subprocess\n\nchildren = []\nfor number in range(100):\n    print('child', number, flush=True)\n"
            "    children.append(subprocess.Popen(['true'], stdin=subprocess.PIPE, stdout=subprocess.PIPE))\n"
        },
    ),
    produced(
        "too_many_files/bash_redirections",
        "A shell script that opens a descriptor for each log.",
        "Too many open files",
        "bash logs.sh",
        text="set -e\nulimit -n 24\nfor i in $(seq 10 60); do\n  exec {fd}>log-$i.txt\n  echo \"log $i on $fd\"\ndone\n",
        framework="bash",
        uses=("bash",),
    ),
    produced(
        "thread_limit/python_threads",
        "More threads than the control group allows.",
        "RuntimeError: can't start new thread",
        "python prefetch.py",
        text="""\
import threading
import time

print("starting 200 prefetch threads")
for number in range(200):
    threading.Thread(target=time.sleep, args=(3,), daemon=True).start()
""",
        pids=60,
    ),
    produced(
        "thread_limit/fork_in_bash",
        "A script starts more background jobs than there may be processes.",
        "fork: retry: Resource temporarily unavailable",
        "bash fan.sh",
        text="for i in $(seq 100); do sleep 20 & done\nwait\n",
        pids=40,
        framework="bash",
        uses=("bash",),
        evidence_alt=("fork: Resource temporarily unavailable",),
    ),
    compiled(
        "thread_limit/pthread_in_c",
        "pthread_create in C, reported in the program's own words.",
        "cannot create worker thread",
        """\
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
static void *work(void *unused) { sleep(3); return NULL; }
int main(void) {
    pthread_t thread;
    for (int i = 0; i < 256; i++) {
        int error = pthread_create(&thread, NULL, work, NULL);
        if (error) { fprintf(stderr, "cannot create worker thread %d of 256: %s\\n", i, strerror(error)); return 1; }
    }
    return 0;
}
""",
        pids=50,
    ),
    produced(
        "thread_limit/fork_in_python",
        "A pool larger than the limit on processes: fork fails.",
        "BlockingIOError: [Errno 11] Resource temporarily unavailable",
        "python pool.py",
        text="""\
import multiprocessing as mp
import time

import chatter

if __name__ == "__main__":
    for line in chatter.training(1100, seed=131, style=3):
        print(line)
    workers = [mp.Process(target=time.sleep, args=(2,)) for _ in range(100)]
    for worker in workers:
        worker.start()
""",
        pids=40,
    ),
    produced(
        "thread_limit/parallel_make",
        "make -j without a number starts more recipes than there may be processes.",
        "Resource temporarily unavailable",
        "make -j all",
        files={"Makefile": "all: $(shell seq 100)\n%:\n\t@sleep 3; echo encoded $@\n"},
        pids=24,
        framework="make",
        uses=("make",),
    ),
    produced(
        "thread_limit/java_native_thread",
        "Java cannot create a native thread.",
        "java.lang.OutOfMemoryError: unable to create native thread",
        "java -Xss256k -Xmx64m Pool.java",
        text="public class Pool {\n  public static void main(String[] a) throws Exception {\n"
        "    for (int i = 0; i < 500; i++) {\n"
        "      new Thread(() -> { try { Thread.sleep(3000); } catch (InterruptedException e) { } }).start();\n"
        '      if (i % 20 == 0) System.out.println("threads: " + i);\n    }\n  }\n}\n',
        framework="java",
        uses=("java",),
        pids=100,
    ),
]
