# pathlib would double the start of this program.
# ruff: noqa: PTH110, PTH123
"""
Says it is ready, and waits for a file named `go` in the working directory; then says it is done and exits 5.

Words: signals that it only reports (INT, TERM ...); each arrival is also a line in the file `tally`.
"""

import contextlib
import os
import signal
import sys
import time


def report(number, _):
    """Say which signal came."""
    name = signal.Signals(number).name[3:]
    with open("tally", "a") as tally:
        tally.write(f"{name}\n")
    with contextlib.suppress(OSError):  # the terminal may be gone
        os.write(1, f"got {name}\n".encode())  # print() must not be entered twice


for word in sys.argv[1:]:
    signal.signal(getattr(signal, f"SIG{word}"), report)
with open("pid", "w") as file:
    file.write(f"{os.getpid()}\n")
os.write(1, b"ready\n")
while not os.path.exists("go"):
    time.sleep(0.005)
with open("went", "w") as file:
    file.write("on\n")
try:
    os.write(1, b"done\n")
except OSError:
    with open("went", "a") as file:
        file.write("without a terminal\n")
os._exit(5)
