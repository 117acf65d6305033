"""Storage that fails: files that open, and cannot be read."""

from __future__ import annotations

from corpus.make.recipe import compiled, produced

# To be read, it takes an address that is mapped: from the start of the file there is EIO.
_BROKEN = "ln -s /proc/self/mem"

RECIPES = [
    produced(
        "storage_io/read_in_python",
        "A shard whose blocks cannot be read: EIO, after 1,100 lines.",
        "OSError: [Errno 5] Input/output error",
        "python train.py",
        text="""\
import chatter

for line in chatter.training(1100, seed=221, style=2):
    print(line)
for shard in ("shard-0001.bin", "shard-0002.bin"):
    with open(f"/datasets/{shard}", "rb", buffering=0) as file:
        print("read", shard, len(file.read(4096)), flush=True)
""",
        prepare=f"mkdir /datasets && cd /datasets; head -c 9000 /dev/zero >shard-0001.bin; {_BROKEN} shard-0002.bin",
    ),
    produced(
        "storage_io/copy_in_a_script",
        "cp of a file that cannot be read.",
        "Input/output error",
        "sh -e stage.sh",
        text="""\
echo staging 2 files
for f in a.tar b.tar; do cp /datasets/$f /tmp/$f; echo "staged $f"; done
""",
        prepare=f"mkdir /datasets; echo x >/datasets/a.tar; {_BROKEN} /datasets/b.tar",
        framework="bash",
    ),
    compiled(
        "storage_io/read_in_c",
        "A solver in C, in its own words.",
        "restart: read of /datasets/restart.h5 failed at byte 0: Input/output error",
        """\
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
int main(void) {
    char header[512];
    int fd = open("/datasets/restart.h5", O_RDONLY);
    printf("restart: reading header\\n");
    fflush(stdout);
    if (read(fd, header, sizeof header) < 0) {
        fprintf(stderr, "restart: read of /datasets/restart.h5 failed at byte 0: %s\\n", strerror(errno));
        return 1;
    }
    return 0;
}
""",
        prepare=f"mkdir /datasets; {_BROKEN} /datasets/restart.h5",
    ),
    produced(
        "storage_io/numpy_load",
        "numpy loads an array that cannot be read.",
        "OSError: [Errno 5] Input/output error",
        "python -u stats.py",
        text="""\
import numpy as np

for name in ('mean', 'variance'):
    print('loading', name)
    print(np.load(f'/datasets/{name}.npy').shape)
""",
        prepare="mkdir /datasets && cd /datasets\n"
        "/opt/venv/bin/python -c \"import numpy; numpy.save('mean.npy', numpy.ones(3))\"\n"
        f"{_BROKEN} variance.npy",
        framework="numpy",
        uses=("numpy",),
    ),
    produced(
        "storage_io/checksums_of_a_folder",
        "sha256sum over a data set with a file that cannot be read.",
        "sha256sum: b.tar: Input/output error",
        "bash -e verify.sh",
        text="""\
cd /datasets
echo verifying 3 archives
sha256sum *.tar
echo verified
""",
        prepare=f"mkdir /datasets; echo x >/datasets/a.tar; echo y >/datasets/c.tar; {_BROKEN} /datasets/b.tar",
        framework="bash",
        uses=("bash",),
    ),
    produced(
        "storage_io/one_rank_of_three",
        "Rank 1 of three cannot read its shard; the others are ended by the launcher.",
        "OSError: [Errno 5] Input/output error",
        "mpirun --oversubscribe --tag-output -n 3 python load.py",
        text="""\
import os
import time

rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
print(f"rank {rank}: reading /datasets/shard-{rank}.bin", flush=True)
time.sleep(0.5)
data = os.read(os.open(f"/datasets/shard-{rank}.bin", os.O_RDONLY), 4096)
print(f"rank {rank}: {len(data)} bytes", flush=True)
time.sleep(20)
""",
        prepare=f"mkdir /datasets && cd /datasets; echo x | tee shard-0.bin >shard-2.bin; {_BROKEN} shard-1.bin",
        framework="mpi",
        uses=("mpirun",),
        first_rank=1,
    ),
]
