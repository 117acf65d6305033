"""Runs that somebody or something ended: interrupts, time limits and watchdogs; and storage that fails."""

from __future__ import annotations

from corpus.make.recipe import compiled, produced

_SIGNALLED = """\
setsid sh -c 'echo $$ >group; exec gpualert run -- {command}' &
until [ -e {mark} ]; do sleep 0.05; done
sleep 0.3
kill -s {signal} -- {target}
wait $!
"""


def _signalled(command: str, signal: str = "INT", target: str = "-$(cat group)", mark: str = ".started") -> str:
    """Return lines of sh that run a command in a group of its own, and signal it once a file is there."""
    return _SIGNALLED.format(command=command, signal=signal, target=target, mark=mark)


# A background job of sh ignores SIGINT; a terminal's does not.
_HANDLE = "import pathlib\nimport signal\n\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
_STARTED = 'pathlib.Path(".started").touch()\n'
# To be read, it takes an address that is mapped: from the start of the file there is EIO.
_BROKEN = "ln -s /proc/self/mem"

RECIPES = [
    produced(
        "interrupted/ctrl_c_in_python",
        "Ctrl-C amid a training loop, after 1,100 lines.",
        "KeyboardInterrupt",
        "python -u train.py",
        files={
            "train.py": _HANDLE
            + "import time\n\nimport chatter\n\nfor line in chatter.training(1100, seed=201, style=0):\n    print(line)\n"
            + _STARTED
            + "while True:\n    time.sleep(0.1)\n"
        },
        launch=_signalled("python -u train.py"),
    ),
    produced(
        "interrupted/ctrl_c_while_importing",
        "Ctrl-C amid an import: a long traceback out of importlib.",
        "KeyboardInterrupt",
        "python main.py",
        files={
            "main.py": _HANDLE + "print('starting', flush=True)\nimport heavy\n",
            "heavy.py": "import pathlib\nimport time\n\n" + _STARTED + "time.sleep(30)\n",
        },
        launch=_signalled("python main.py"),
    ),
    produced(
        "interrupted/sigterm_unclaimed",
        "SIGTERM from nobody who says so; the program dies without a word.",
        "",
        "python -u wait.py",
        files={"wait.py": "import pathlib\nimport time\n\nprint('epoch 1')\n" + _STARTED + "time.sleep(60)\n"},
        launch=_signalled("python -u wait.py", "TERM"),
        class_alt=("preempted",),
    ),
    produced(
        "interrupted/program_says_so",
        "A program catches SIGINT, saves, and leaves with 130.",
        "received SIGINT, saving and exiting",
        "python -u graceful.py",
        files={
            "graceful.py": "import pathlib\nimport signal\nimport sys\nimport time\n\n\ndef stop(number, frame):\n"
            "    print('received SIGINT, saving and exiting', flush=True)\n    sys.exit(130)\n\n\n"
            "signal.signal(signal.SIGINT, stop)\nfor step in range(200):\n    print('step', step)\n"
            + _STARTED
            + "time.sleep(60)\n"
        },
        launch=_signalled("python -u graceful.py"),
    ),
    produced(
        "interrupted/pool_of_workers",
        "Ctrl-C with a pool: every worker prints its own traceback.",
        "KeyboardInterrupt",
        "python pool.py",
        files={
            "pool.py": _HANDLE
            + "import multiprocessing as mp\nimport time\n\n\ndef work(item):\n    if item == 1:\n        "
            + _STARTED
            + "    time.sleep(30)\n\n\nif __name__ == '__main__':\n    with mp.Pool(3) as pool:\n        pool.map(work, range(3))\n"
        },
        launch=_signalled("python pool.py"),
    ),
    produced(
        "interrupted/script_with_a_trap",
        "A job script traps TERM, tells its child, and says what it does.",
        "caught SIGTERM, stopping child",
        "bash job.sh",
        files={
            "job.sh": "trap 'echo \"caught SIGTERM, stopping child\"; kill $child; exit 143' TERM\n"
            "python3 -c 'import time; time.sleep(60)' &\nchild=$!\necho training; touch .started\nwait $child\n"
        },
        launch=_signalled("bash job.sh", "TERM"),
        framework="bash",
        uses=("bash",),
        class_alt=("preempted",),
    ),
    produced(
        "hang/own_timeout_option",
        "A job that waits for ever, ended by gpualert run --timeout.",
        "",
        "python -u barrier.py",
        text="import time\n\nprint('rank 0 entering barrier')\ntime.sleep(600)\n",
        options="--timeout 2",
        limit_s=60,
    ),
    produced(
        "hang/timeout_of_coreutils",
        "timeout(1) ends a stage that makes no progress: 124.",
        "",
        "bash job.sh",
        text="echo stage 1; timeout 2 python3 -u -c \"print('waiting for lock'); import time; time.sleep(60)\"\n"
        "s=$?; [ $s = 124 ] && echo 'stage 1 timed out after 2 s'; exit $s\n",
        evidence_alt=("stage 1 timed out after 2 s",),
        uses=("bash",),
    ),
    produced(
        "hang/fault_handler_timer",
        "faulthandler ends a program that did not finish in time, and shows where every thread stood.",
        "Timeout (0:00:02)!",
        "python -u watch.py",
        text="""\
import faulthandler
import threading

import chatter

faulthandler.dump_traceback_later(2, exit=True)
for line in chatter.training(1100, seed=211, style=4):
    print(line)
print("acquiring the store's lock")
lock = threading.Lock()
lock.acquire()
lock.acquire()
""",
    ),
    produced(
        "hang/watchdog_of_ones_own",
        "A watchdog thread aborts the run when no step ends for a while.",
        "watchdog: no step finished for 2.0 s (last: step 120), aborting",
        "python -u train.py",
        text="""\
import logging
import os
import threading
import time

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(threadName)s %(levelname)s %(message)s")
last = [time.monotonic(), 0]


def watch():
    while True:
        time.sleep(0.2)
        if time.monotonic() - last[0] > 2:
            logging.critical("watchdog: no step finished for 2.0 s (last: step %d), aborting", last[1])
            os._exit(75)


threading.Thread(target=watch, name="watchdog", daemon=True).start()
for step in range(1, 121):
    last[:] = time.monotonic(), step
    logging.info("step %d loss %.3f", step, 5 / step)
time.sleep(60)
""",
    ),
    produced(
        "hang/asyncio_wait_for",
        "A task does not finish in time; asyncio.wait_for raises.",
        "TimeoutError",
        "python gather.py",
        text="import asyncio\n\n\nasync def main():\n    print('waiting for 4 actors', flush=True)\n"
        "    await asyncio.wait_for(asyncio.sleep(60), timeout=1)\n\n\nasyncio.run(main())\n",
        class_alt=("traceback", "network"),
    ),
    produced(
        "hang/workers_never_join",
        "A parent gives up on workers that do not end.",
        "worker 1 did not finish within 2 s, giving up",
        "python join.py",
        text="""\
import multiprocessing as mp
import sys
import time


def work(number):
    time.sleep(0 if number == 0 else 60)


if __name__ == "__main__":
    workers = [mp.Process(target=work, args=(number,), daemon=True) for number in range(2)]
    for worker in workers:
        worker.start()
    for number, worker in enumerate(workers):
        worker.join(2)
        if worker.is_alive():
            print(f"worker {number} did not finish within 2 s, giving up", file=sys.stderr)
            sys.exit(1)
        print("worker", number, "finished", flush=True)
""",
    ),
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
        prepare=f"mkdir /datasets; head -c 9000 /dev/zero >/datasets/shard-0001.bin; {_BROKEN} /datasets/shard-0002.bin",
    ),
    produced(
        "storage_io/copy_in_a_script",
        "cp of a file that cannot be read.",
        "Input/output error",
        "sh -e stage.sh",
        text="echo staging 2 files\nfor f in a.tar b.tar; do cp /datasets/$f /tmp/$f; echo \"staged $f\"; done\n",
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
        text="import numpy as np\n\nfor name in ('mean', 'variance'):\n    print('loading', name)\n"
        "    print(np.load(f'/datasets/{name}.npy').shape)\n",
        prepare="mkdir /datasets; /opt/venv/bin/python -c \"import numpy; numpy.save('/datasets/mean.npy', numpy.ones(3))\";"
        f" {_BROKEN} /datasets/variance.npy",
        framework="numpy",
        uses=("numpy",),
    ),
    produced(
        "storage_io/checksums_of_a_folder",
        "sha256sum over a data set with a file that cannot be read.",
        "sha256sum: b.tar: Input/output error",
        "bash -e verify.sh",
        text="cd /datasets\necho verifying 3 archives\nsha256sum *.tar\necho verified\n",
        prepare=f"mkdir /datasets; echo x >/datasets/a.tar; echo y >/datasets/c.tar; {_BROKEN} /datasets/b.tar",
        framework="bash",
        uses=("bash",),
    ),
    produced(
        "storage_io/one_rank_of_three",
        "Rank 1 of three cannot read its shard; the others are ended by the launcher.",
        "OSError: [Errno 5] Input/output error",
        "mpirun --oversubscribe --tag-output -n 3 python -u load.py",
        text="""\
import os
import time

rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
print(f"rank {rank}: reading /datasets/shard-{rank}.bin")
time.sleep(0.5)
data = os.read(os.open(f"/datasets/shard-{rank}.bin", os.O_RDONLY), 4096)
print(f"rank {rank}: {len(data)} bytes")
time.sleep(20)
""",
        prepare=f"mkdir /datasets; echo x | tee /datasets/shard-0.bin >/datasets/shard-2.bin; {_BROKEN} /datasets/shard-1.bin",
        framework="mpi",
        uses=("mpirun",),
        first_rank=1,
    ),
]
