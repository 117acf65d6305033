"""Time limits and watchdogs."""

from __future__ import annotations

from corpus.make.recipe import produced

RECIPES = [
    produced(
        "hang/own_timeout_option",
        "A job that waits for ever, ended by gpualert run --timeout.",
        "",
        "python -u barrier.py",
        text="""\
import time

print('rank 0 entering barrier')
time.sleep(600)
""",
        options="--timeout 2",
        limit_s=60,
    ),
    produced(
        "hang/timeout_of_coreutils",
        "timeout(1) ends a stage that makes no progress: 124.",
        "",
        "bash job.sh",
        text="""\
python3 chatter.py training 1507 --seed 511
echo stage 1; timeout 2 python3 -u -c "print('waiting for lock'); import time; time.sleep(60)"
s=$?; [ $s = 124 ] && echo 'stage 1 timed out after 2 s'; exit $s
""",
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
        text="""\
import asyncio


async def main():
    print('waiting for 4 actors', flush=True)
    await asyncio.wait_for(asyncio.sleep(60), timeout=1)


asyncio.run(main())
""",
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
]
