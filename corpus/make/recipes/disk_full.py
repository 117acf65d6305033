"""File systems without room."""

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
        text="""\
python3 chatter.py training 1174 --seed 502
head -c 3M /dev/urandom >input.bin
echo staging input.bin to /scratch
cp input.bin /scratch/
echo staged
""",
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
        text="""\
python3 -c 'for i in range(400000): print(i * 7919 % 1000003, "x" * 20)' >pairs.txt
echo sorting $(wc -l <pairs.txt) pairs
sort -S 200k -T /scratch pairs.txt -o sorted.txt
echo sorted
""",
        prepare=_TINY,
        framework="bash",
    ),
    produced(
        "disk_full/file_size_limit",
        "A limit on the size of files, as sites set instead of a quota: the shell says which.",
        "File size limit exceeded",
        "bash dump.sh",
        text="""\
ulimit -f 1000
echo dumping activations
dd if=/dev/zero of=activations.bin bs=64k count=100 status=none
s=$?
echo "dump ended with $s"
exit $s
""",
        framework="bash",
        uses=("bash",),
        class_alt=("traceback",),
    ),
]
