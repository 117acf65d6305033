"""Runs that a person or a signal ended."""

from __future__ import annotations

from corpus.make.recipe import produced

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
_HANDLE = """\
import pathlib
import signal

signal.signal(signal.SIGINT, signal.default_int_handler)
"""
_STARTED = 'pathlib.Path(".started").touch()\n'

RECIPES = [
    produced(
        "interrupted/ctrl_c_in_python",
        "Ctrl-C amid a training loop, after 1,100 lines.",
        "KeyboardInterrupt",
        "python -u train.py",
        files={
            "train.py": _HANDLE
            + """\
import time

import chatter

for line in chatter.training(1100, seed=201, style=0):
    print(line)
"""
            + _STARTED
            + """\
while True:
    time.sleep(0.1)
"""
        },
        launch=_signalled("python -u train.py"),
    ),
    produced(
        "interrupted/ctrl_c_while_importing",
        "Ctrl-C amid an import: a long traceback out of importlib.",
        "KeyboardInterrupt",
        "python main.py",
        files={
            "main.py": _HANDLE
            + """\
print('starting', flush=True)
import heavy
""",
            "heavy.py": """\
import pathlib
import time

"""
            + _STARTED
            + "time.sleep(30)\n",
        },
        launch=_signalled("python main.py"),
    ),
    produced(
        "interrupted/sigterm_unclaimed",
        "SIGTERM from nobody who says so; the program dies without a word.",
        "",
        "python -u wait.py",
        files={
            "wait.py": """\
import pathlib
import time

print('epoch 1')
"""
            + _STARTED
            + "time.sleep(60)\n"
        },
        launch=_signalled("python -u wait.py", "TERM"),
        class_alt=("preempted",),
    ),
    produced(
        "interrupted/program_says_so",
        "A program catches SIGINT, saves, and leaves with 130.",
        "received SIGINT, saving and exiting",
        "python -u graceful.py",
        files={
            "graceful.py": """\
import pathlib
import signal
import sys
import time


def stop(number, frame):
    print('received SIGINT, saving and exiting', flush=True)
    sys.exit(130)


signal.signal(signal.SIGINT, stop)
for step in range(200):
    print('step', step)
"""
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
            + """\
import multiprocessing as mp
import time


def work(item):
    if item == 1:
        """
            + _STARTED
            + """\
    time.sleep(30)


if __name__ == '__main__':
    with mp.Pool(3) as pool:
        pool.map(work, range(3))
"""
        },
        launch=_signalled("python pool.py"),
    ),
    produced(
        "interrupted/script_with_a_trap",
        "A job script traps TERM, tells its child, and says what it does.",
        "caught SIGTERM, stopping child",
        "bash job.sh",
        files={
            "job.sh": """\
python3 chatter.py training 1470 --seed 510
trap 'echo "caught SIGTERM, stopping child"; kill $child; exit 143' TERM
python3 -c 'import time; time.sleep(60)' &
child=$!
echo training; touch .started
wait $child
"""
        },
        launch=_signalled("bash job.sh", "TERM"),
        framework="bash",
        uses=("bash",),
        class_alt=("preempted",),
    ),
]
