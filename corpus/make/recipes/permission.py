"""Paths, ports and processes that an ordinary user may not touch."""

from __future__ import annotations

from corpus.make.recipe import compiled, produced

_ROOTS = "mkdir -p /datasets /results && chmod 755 /results\n"

RECIPES = [
    produced(
        "permission/data_of_another_group",
        "A data set that only root may read.",
        "PermissionError: [Errno 13] Permission denied: '/datasets/private/train.bin'",
        "python train.py",
        text="""\
print("loading /datasets/private/train.bin")
with open("/datasets/private/train.bin", "rb") as file:
    header = file.read(16)
""",
        prepare=_ROOTS
        + "mkdir /datasets/private && touch /datasets/private/train.bin && chmod 600 /datasets/private/*",
    ),
    produced(
        "permission/redirect_into_results",
        "A job script redirects into a folder that belongs to root.",
        "/results/exp1.log: Permission denied",
        "bash job.sh",
        text="""\
python3 chatter.py training 1544 --seed 512
echo starting experiment 1
python3 -c 'print(1)' > /results/exp1.log
s=$?
echo "experiment 1: status $s"
exit $s
""",
        prepare=_ROOTS,
        framework="bash",
        uses=("bash",),
    ),
    produced(
        "permission/mkdir_of_an_output_folder",
        "mkdir in a folder of root's, under set -e.",
        "mkdir: cannot create directory ‘/results/run-7’: Permission denied",
        "sh -e run.sh",
        text="""\
echo preparing output
mkdir -p /results/run-7
echo training
""",
        prepare=_ROOTS,
        framework="bash",
    ),
    compiled(
        "permission/device_in_c",
        "A C program opens a device-like node that only root may use.",
        "cannot open accelerator /opt/accel/card0: Permission denied",
        """\
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
int main(void) {
    fprintf(stderr, "accel: probing 1 card\\n");
    int fd = open("/opt/accel/card0", O_RDWR);
    if (fd < 0) {
        fprintf(stderr, "accel: cannot open accelerator /opt/accel/card0: %s (errno %d)\\n", strerror(errno), errno);
        return 5;
    }
    return 0;
}
""",
        prepare="mkdir /opt/accel && mknod /opt/accel/card0 p && chmod 600 /opt/accel/card0",
    ),
    produced(
        "permission/change_of_owner",
        "Handing a file to another user: operation not permitted.",
        "PermissionError: [Errno 1] Operation not permitted: 'model.bin'",
        "python publish.py",
        text="""\
import os
import logging

logging.basicConfig(level=logging.INFO, format="%(asctime)s [%(process)d] %(levelname)s %(name)s - %(message)s")
log = logging.getLogger("publish")
open("model.bin", "w").write("weights")
log.info("publishing model.bin (7 bytes)")
os.chown("model.bin", 0, 0)
log.info("published")
""",
    ),
    produced(
        "permission/privileged_port",
        "A metrics server binds port 80 as an ordinary user.",
        "PermissionError: [Errno 13] Permission denied",
        "python -m http.server 80",
    ),
    produced(
        "permission/copy_in_make",
        "An install target copies into a folder of root's.",
        "cp: cannot create regular file '/results/model.bin': Permission denied",
        "make install",
        files={
            "Makefile": """\
install: model.bin
\tcp model.bin /results/model.bin
model.bin:
\techo weights > $@
"""
        },
        prepare=_ROOTS,
        framework="make",
        uses=("make",),
    ),
    produced(
        "permission/checkpoint_after_long_training",
        "After 1,400 steps numpy cannot save into a folder whose mode somebody changed.",
        "PermissionError: [Errno 13] Permission denied: '/results/weights.npy'",
        "python -u train.py",
        text="""\
import numpy as np

import chatter

weights = np.zeros(1000)
for line in chatter.training(1400, seed=41, style=4):
    print(line)
print("saving weights to /results/weights.npy")
np.save("/results/weights.npy", weights)
print("done")
""",
        prepare=_ROOTS,
        framework="numpy",
        uses=("numpy",),
    ),
    produced(
        "permission/node_eacces",
        "A Node script writes metrics where it may not.",
        "Error: EACCES: permission denied, open '/results/metrics.json'",
        "node metrics.js",
        text="""\
console.log('collecting metrics of 3 runs');
require('fs').writeFileSync('/results/metrics.json', JSON.stringify({loss: 0.1}));
""",
        prepare=_ROOTS,
        framework="node",
        uses=("node",),
    ),
    produced(
        "permission/java_access_denied",
        "A Java program writes a segment where it may not.",
        "java.nio.file.AccessDeniedException: /results/segment_0",
        "java Merge.java",
        text="""\
import java.nio.file.*;
public class Merge {
  public static void main(String[] a) throws Exception {
    System.out.println("merging 4 segments");
    Files.writeString(Path.of("/results/segment_0"), "x");
  }
}
""",
        prepare=_ROOTS,
        framework="java",
        uses=("java",),
    ),
    produced(
        "permission/one_rank_of_three",
        "Rank 1 of three finds its folder with another owner; the others are ended by the launcher.",
        "PermissionError: [Errno 13] Permission denied: '/results/rank1/log.txt'",
        "mpirun --oversubscribe -n 3 python -u write.py",
        text="""\
import os
import time

rank = os.environ["OMPI_COMM_WORLD_RANK"]
print(f"[rank {rank}] opening its log")
time.sleep(0.5 if rank == "1" else 0)
with open(f"/results/rank{rank}/log.txt", "w") as log:
    log.write("hello")
print(f"[rank {rank}] training")
time.sleep(20)
""",
        prepare=_ROOTS
        + "mkdir /results/rank0 /results/rank1 /results/rank2 && chown 1000 /results/rank0 /results/rank2",
        framework="mpi",
        uses=("mpirun",),
        first_rank=1,
    ),
    produced(
        "permission/copy_of_a_tree",
        "shutil.copytree collects what it could not copy into one error.",
        "shutil.Error: [(",
        "python stage.py",
        text="""\
import shutil

print("staging /datasets/images to /tmp/images")
shutil.copytree("/datasets/images", "/tmp/images")
print("staged")
""",
        prepare=_ROOTS + "mkdir /datasets/images; cd /datasets/images; touch a.jpg b.jpg c.jpg; chmod 000 b.jpg",
    ),
    produced(
        "permission/read_only_mount",
        "The output folder is mounted read-only.",
        "OSError: [Errno 30] Read-only file system: '/results/history.json'",
        "python sweep.py",
        text="""\
import json

history = {"lr": [1e-3, 3e-4], "loss": [0.31, 0.28]}
print("best lr: 3e-4")
with open("/results/history.json", "w") as file:
    json.dump(history, file)
""",
        prepare=_ROOTS + "mount -t tmpfs -o ro ro /results",
        class_alt=("storage_io",),
    ),
    produced(
        "permission/touch_on_a_read_only_mount",
        "The same in a shell script.",
        "touch: cannot touch '/results/.lock': Read-only file system",
        "bash -e job.sh",
        text="""\
echo taking the lock
touch /results/.lock
echo training
""",
        prepare=_ROOTS + "mount -t tmpfs -o ro ro /results",
        framework="bash",
        uses=("bash",),
        class_alt=("storage_io",),
    ),
    produced(
        "permission/logged_and_left",
        "A program catches the error, logs it in one line and leaves with status 4.",
        "cannot write report: [Errno 13] Permission denied: '/results/report.html'",
        "python report.py",
        text="""\
import logging
import sys

import chatter

logging.basicConfig(level=logging.INFO, format="%(asctime)s | %(levelname)-8s | %(message)s")
for line in chatter.training(1200, seed=77, style=1):
    logging.info(line)
try:
    open("/results/report.html", "w")
except OSError as error:
    logging.critical("cannot write report: %s", error)
    sys.exit(4)
""",
        prepare=_ROOTS,
    ),
]
