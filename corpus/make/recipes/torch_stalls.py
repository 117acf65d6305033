"""Ports that are taken, and ranks that stand still until somebody ends them."""

from __future__ import annotations

from corpus.make.recipes.ranks_base import program, ranks
from corpus.make.recipes.torch_base import torch
from corpus.make.recipes.torch_ranks import at

_TAKEN = "python3 -m http.server 29500 >/dev/null 2>&1 &\nsleep 2\ngpualert run -- COMMAND\nkill $!\n"
_RUN = "torchrun --nproc-per-node=2"

_PORTS = [
    torch(
        "port_in_use/master_port_of_torchrun",
        "Another service listens on torchrun's master port.",
        "EADDRINUSE",
        program("ddp"),
        launch=_TAKEN.replace("COMMAND", f"{_RUN} --master-port=29500 train.py"),
    ),
    torch(
        "port_in_use/store_of_rank_0",
        "Ranks started by a script; rank 0 cannot open its store, and rank 1 finds another service behind the port.",
        "EADDRINUSE",
        program("allreduce"),
        command="true",
        files={
            "start.sh": "export MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 WORLD_SIZE=2\nRANK=0 python train.py &\n"
            "first=$!\nsleep 1\nRANK=1 timeout 20 python train.py &\nwait $first\nstatus=$?\nwait\nexit $status\n"
        },
        launch=_TAKEN.replace("COMMAND", "bash start.sh"),
    ),
    torch(
        "port_in_use/two_trainings_on_a_node",
        "A second torchrun with the same port, while a first one trains.",
        "EADDRINUSE",
        program("ddp", "time.sleep(0.1)", steps=2000, timeout_s=60),
        launch="torchrun --nproc-per-node=1 --master-port=29500 train.py >/dev/null 2>&1 &\nsleep 15\n"
        "gpualert run -- torchrun --nproc-per-node=1 --master-port=29500 train.py\nkill $!\n",
    ),
    torch(
        "port_in_use/spawned_after_a_long_preparation",
        "1,200 lines of preparation, then spawned processes on a port that is taken.",
        "EADDRINUSE",
        program("ddp"),
        files={
            "spawn.py": "import os\nimport runpy\n\nimport tiny\nimport torch.multiprocessing as mp\n\n\n"
            "def main(rank):\n    os.environ.update(MASTER_ADDR='127.0.0.1', MASTER_PORT='29500', RANK=str(rank),"
            " WORLD_SIZE='2')\n    runpy.run_path('train.py', run_name='__main__')\n\n\n"
            "if __name__ == '__main__':\n    tiny.train(1200, form=1, seed=23)\n    mp.spawn(main, nprocs=2)\n"
        },
        launch=_TAKEN.replace("COMMAND", "python -u spawn.py"),
        first_rank=0,
    ),
]
_WAIT = at(1, 20, "time.sleep(600)")
_HANGS = [
    ranks(
        "hang/silent_rank_until_our_time_limit",
        "Rank 1 sleeps, collectives have no time-out to speak of: `gpualert run --timeout` ends the job.",
        "",
        program("ddp", _WAIT, timeout_s=3600),
        options="--timeout 20",
    ),
    torch(
        "hang/coreutils_timeout",
        "The same under timeout of coreutils, which says that it ends the job; 1,500 lines before.",
        "timeout: sending signal TERM to command",
        program("ddp", at(1, 800, "time.sleep(600)"), steps=900, timeout_s=3600),
        command=f"timeout -v 40 {_RUN} --master-port=29661 train.py",
    ),
    torch(
        "hang/watchdog_thread",
        "A thread of the program finds no progress for 5 s; 1,100 lines before.",
        "watchdog: no progress for 5 s at step 1100, aborting",
        """\
import os
import sys
import threading
import time

import tiny


class Watchdog(threading.Thread):
    def __init__(self):
        super().__init__(daemon=True)
        self.beat, self.step = time.monotonic(), 0

    def run(self):
        while time.monotonic() - self.beat < 5:
            time.sleep(0.1)
        print(f"watchdog: no progress for 5 s at step {self.step}, aborting", file=sys.stderr, flush=True)
        os._exit(70)


watchdog = Watchdog()


def log(line):
    watchdog.beat, watchdog.step = time.monotonic(), watchdog.step + 1
    print(line)


tiny.train(1100, form=0, seed=31, log=log)
watchdog.start()
lock = threading.Lock()
lock.acquire()
lock.acquire()
""",
    ),
    torch(
        "hang/faulthandler_limit",
        "faulthandler ends a program that waits for a reader that does nothing.",
        "Timeout (0:00:08)!",
        """\
import faulthandler
import queue
import threading
import time

import torch

batches = queue.Queue()
faulthandler.dump_traceback_later(8, exit=True)
threading.Thread(target=time.sleep, args=(600,), daemon=True, name="reader").start()
print("waiting for the first batch", flush=True)
batches.get()
""",
    ),
    torch(
        "hang/supervisor_of_the_script",
        "A supervisor in the job's script watches the log, and kills the ranks when nothing comes.",
        "supervisor: no output for 15 s, killing the job",
        program("pipeline", at(1, 25, "time.sleep(600)"), timeout_s=3600),
        command="bash supervise.sh",
        files={
            "supervise.sh": f"{_RUN} --master-port=29662 train.py >train.log 2>&1 &\njob=$!\n"
            "tail -n +1 -f train.log &\n"
            "tail=$!\nold=-1\nwhile kill -0 $job 2>/dev/null; do\n    sleep 15\n    new=$(stat -c %s train.log)\n"
            '    if [ "$new" = "$old" ]; then\n        echo "supervisor: no output for 15 s, killing the job" >&2\n'
            "        kill -9 $job\n        kill $tail\n        exit 75\n    fi\n    old=$new\ndone\nkill $tail\n"
        },
    ),
    torch(
        "hang/deadlock_of_send_and_send",
        "Two ranks wait for each other's message; the job's limit, by SIGALRM, ends both.",
        "TimeoutError: step 12 did not finish within 6 s",
        """\
import signal
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()


def too_long(*_):
    raise TimeoutError(f"step {step} did not finish within 6 s")


signal.signal(signal.SIGALRM, too_long)
for step in range(40):
    signal.alarm(6)
    message = torch.ones(4)
    if step == 12:
        work = dist.irecv(message, 1 - rank)
        while not work.is_completed():
            time.sleep(0.1)
    dist.all_reduce(message)
    print(f"rank {rank} step {step}", flush=True)
""",
        command=f"{_RUN} --master-port=29663 train.py",
        class_alt=("traceback",),
    ),
]

RECIPES = [*_PORTS, *_HANGS]
