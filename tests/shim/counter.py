# pathlib would double the start of this program.
# ruff: noqa: PTH110, PTH123
"""The job of the signal tests: counts every delivery of every signal, and ends when it is told to."""

import os
import select
import signal
import sys

tally, end = sys.argv[1], sys.argv[2]
names = ("TERM", "HUP", "INT", "QUIT", "USR1", "USR2")
reader, writer = os.pipe()
os.set_blocking(writer, False)
signal.set_wakeup_fd(writer)  # the C handler writes one byte a delivery: two close together do not melt into one
for name in names:
    signal.signal(getattr(signal, f"SIG{name}"), lambda *_: None)
with open(tally, "a", buffering=1) as log:
    log.write(f"ready {os.getpid()}\n")
    while not os.path.exists(end):
        if select.select([reader], [], [], 0.01)[0]:
            for number in os.read(reader, 4096):
                log.write(f"{signal.Signals(number).name}\n")
print("last words")
sys.exit(7)
