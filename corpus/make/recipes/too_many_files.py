"""Too many open files."""

from __future__ import annotations

from corpus.make.recipe import compiled, produced

RECIPES = [
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
            "read.js": """\
const fs = require('fs');
console.log('reading 500 files');
const open = [];
for (let i = 0; i < 500; i++) open.push(fs.openSync('/etc/passwd', 'r'));
"""
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
            "spawn.py": """\
import subprocess

children = []
for number in range(100):
    print('child', number, flush=True)
    children.append(subprocess.Popen(['true'], stdin=subprocess.PIPE, stdout=subprocess.PIPE))
"""
        },
    ),
    produced(
        "too_many_files/bash_redirections",
        "A shell script that opens a descriptor for each log.",
        "Too many open files",
        "bash logs.sh",
        text="""\
python3 chatter.py training 1322 --seed 506
set -e
ulimit -n 24
for i in $(seq 10 60); do
  exec {fd}>log-$i.txt
  echo "log $i on $fd"
done
""",
        framework="bash",
        uses=("bash",),
    ),
]
