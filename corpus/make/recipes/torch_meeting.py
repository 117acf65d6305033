"""Ranks that do not meet, that leave, that stand still; ports that are taken."""

from __future__ import annotations

from corpus.make.recipes.ranks_base import program, ranks
from corpus.make.recipes.torch_base import torch
from corpus.make.recipes.torch_ranks import at

_STOP = "import signal\nos.kill(os.getpid(), signal.SIGSTOP)"
_TAKEN = "python3 -m http.server 29500 >/dev/null 2>&1 &\nsleep 2\ngpualert run -- COMMAND\nkill $!\n"
_RUN = "torchrun --nproc-per-node=2"

_STOPPED = [
    ranks(
        "nccl/stopped_rank",
        "Rank 1 is stopped by SIGSTOP, until its peer's all-reduce runs into its time-out.",
        "Timed out waiting 6000ms for recv operation to complete",
        program("ddp", at(1, 20, _STOP)),
        class_alt=("hang",),
    ),
    ranks(
        "nccl/stopped_rank_in_a_long_log",
        "Rank 2 of three is stopped after 1,300 lines, each with its rank.",
        "Timed out waiting 6000ms for recv operation to complete",
        program("ddp", at(2, 450, _STOP), steps=700),
        "tee",
        of=3,
        class_alt=("hang",),
    ),
    ranks(
        "nccl/stopped_rank_misses_a_barrier",
        "Rank 1 is stopped before a monitored barrier, which names it.",
        "failed to pass monitoredBarrier in 4000 ms",
        program("evaluate", at(1, 39, _STOP)),
        of=3,
        class_alt=("hang",),
        first_rank=1,
    ),
    ranks(
        "nccl/stopped_stage_under_mpirun",
        "The middle stage of a pipeline is stopped; its successor waits for activations in vain.",
        "Timed out waiting 6000ms for recv operation to complete",
        program("pipeline", at(1, 22, _STOP)),
        "mpirun",
        of=3,
        class_alt=("hang",),
    ),
    ranks(
        "nccl/stopped_rank_of_single_runs",
        "Each rank is a run of its own; rank 0 is stopped.",
        "Timed out waiting 6000ms for recv operation to complete",
        program("allreduce", at(0, 15, _STOP)),
        "each",
        class_alt=("hang",),
    ),
]
_LEFT = [
    ranks(
        "nccl/rank_leaves_early",
        "Rank 1 ends with status 0 in the middle; its peer's all-reduce finds the connection closed.",
        "gloo/transport/tcp/pair.cc",
        program("ddp", at(1, 20, "os._exit(0)")),
    ),
    ranks(
        "nccl/rank_with_fewer_batches",
        "Rank 2 has fewer batches than the others and is done before them; 1,200 lines, each with its rank.",
        "gloo/transport/tcp/pair.cc",
        program(
            "ddp",
            at(2, 410, 'print("rank 2: end of data", flush=True)\ndist.destroy_process_group()\nsys.exit(0)'),
            steps=430,
        ),
        "tee",
        of=3,
    ),
    ranks(
        "nccl/rank_leaves_under_mpirun",
        "The last stage of a pipeline returns early with status 0.",
        "gloo/transport/tcp/pair.cc",
        program("pipeline", at(2, 20, "time.sleep(1)\nos._exit(0)")),
        "mpirun",
        of=3,
    ),
    ranks(
        "nccl/rank_leaves_a_script",
        "bash starts four ranks; rank 3 leaves with status 0 and says why.",
        "gloo/transport/tcp/pair.cc",
        program("allreduce", at(3, 25, 'print("nothing left to do", flush=True)\nos._exit(0)')),
        "bash",
        of=4,
    ),
    ranks(
        "nccl/rank_leaves_single_runs",
        "Each rank is a run of its own; that of rank 0 succeeds too early.",
        "gloo/transport/tcp/pair.cc",
        program("allreduce", at(0, 11, "os._exit(0)")),
        "each",
    ),
    ranks(
        "nccl/rank_leaves_before_a_barrier",
        "Rank 1 leaves with status 0 before a monitored barrier, which names it; processes spawned by one program.",
        "Rank 1 failed to pass monitoredBarrier in 4000 ms",
        program("evaluate", at(1, 35, "os._exit(0)"), steps=38),
        "spawn",
        of=3,
        first_rank=1,
    ),
    ranks(
        "nccl/other_sizes_in_one_reduction",
        "Rank 1 reduces a tensor of another size than its peer: gloo finds that the messages do not fit.",
        "op.preamble.length <= op.nbytes",
        program("allreduce", at(1, 10, "dist.all_reduce(torch.zeros(7))")),
        class_alt=("runtime_error", "shape_mismatch"),
        action="fix",
    ),
]
_MEETING = [
    torch(
        "runtime_error/restart_that_did_not_help",
        "Rank 1 of two fails; torchrun starts both again, and the second attempt meets the addresses of the first.",
        "RuntimeError: glitch of a reader",
        program("ddp", at(1, 12, 'raise RuntimeError("glitch of a reader")')),
        command=f"{_RUN} --max-restarts=1 --master-port=29681 train.py",
        class_alt=("rendezvous", "nccl"),
        first_rank=1,
    ),
    ranks(
        "rendezvous/rank_joins_late",
        "Rank 1 comes 15 s after rank 0, which waits 6 s.",
        "1/2 clients joined",
        program("ddp", before='if os.environ["RANK"] == "1":\n    time.sleep(15)'),
        "bash",
    ),
    ranks(
        "rendezvous/rank_joins_late_under_mpirun",
        "Rank 2 is busy unpacking its data while the others wait; 1,100 lines of its progress.",
        "2/3 clients joined",
        program(
            "allreduce",
            before='if os.environ["RANK"] == "2":\n    for number in range(1100):\n'
            '        print(f"extracting train/{number:06d}.jpg", flush=True)\n    time.sleep(15)',
        ),
        "mpirun",
        of=3,
    ),
    ranks(
        "rendezvous/rank_joins_late_under_torchrun",
        "torchrun's store is there at once, but rank 1 does not add its address in time.",
        "wait timeout after 6000ms",
        program("ddp", before='if os.environ["RANK"] == "1":\n    time.sleep(20)'),
    ),
    ranks(
        "rendezvous/one_rank_too_few",
        "WORLD_SIZE says three, two are started.",
        "2/3 clients joined",
        program("allreduce", before='os.environ["WORLD_SIZE"] = "3"'),
        "bash",
    ),
    ranks(
        "rendezvous/ranks_of_two_opinions",
        "Rank 0 thinks of two ranks, rank 1 of three.",
        "wait timeout after 6000ms",
        program("pipeline", before='os.environ["WORLD_SIZE"] = str(2 + int(os.environ["RANK"]))\ntime.sleep(0.2)'),
        "bash",
    ),
    torch(
        "rendezvous/nobody_listens",
        "A second node is pointed to a port of the first where nobody listens.",
        "The client socket has timed out after 6000ms while trying to connect to (127.0.0.1, 29511)",
        program("ddp"),
        env={"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29511"},
    ),
    torch(
        "rendezvous/unknown_master",
        "MASTER_ADDR is a name that no server knows.",
        "The client socket has timed out after 6000ms",
        program("allreduce"),
        env={"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "gpu-head.cluster.example", "MASTER_PORT": "29500"},
        class_alt=("network",),
        evidence_alt=("gpu-head.cluster.example",),
        limit_s=90,
    ),
    torch(
        "rendezvous/second_node_missing",
        "torchrun waits for two nodes, and one comes.",
        "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError",
        program("ddp"),
        command="torchrun --nnodes=2 --nproc-per-node=1 --rdzv-backend=c10d --rdzv-endpoint=127.0.0.1:29400 --rdzv-id=7"
        " --rdzv-conf=join_timeout=6 train.py",
    ),
    torch(
        "rendezvous/endpoint_unreachable",
        "The rendezvous endpoint is an address that cannot be reached.",
        "RendezvousConnectionError: The connection to the C10d store has failed",
        program("ddp"),
        command="torchrun --nnodes=2 --nproc-per-node=1 --rdzv-backend=c10d --rdzv-endpoint=10.0.0.53:29400 --rdzv-id=7"
        " --rdzv-conf=timeout=8,read_timeout=6 train.py",
        limit_s=150,
    ),
    torch(
        "rendezvous/jax_coordinator_waits",
        "jax.distributed waits for a second process, which never comes.",
        "DEADLINE_EXCEEDED",
        """\
import jax

print("process 0 of 2", flush=True)
jax.distributed.initialize("127.0.0.1:8476", num_processes=2, process_id=0, initialization_timeout=6)
print(jax.device_count())
""",
        framework="jax",
        uses=("jax",),
    ),
]
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

RECIPES = [*_STOPPED, *_LEFT, *_MEETING, *_PORTS, *_HANGS]
