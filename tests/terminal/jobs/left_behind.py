# pathlib would double the start of this program.
# ruff: noqa: PTH110, PTH123
"""Leaves a process behind that keeps the output open: it speaks once the file `go` (or the one named) is there."""

import os
import sys
import time

if os.fork() == 0:
    while not os.path.exists((sys.argv[1:] or ["go"])[0]):
        time.sleep(0.005)
    os.write(1, b"late words\n")
    with open("went", "w") as file:
        file.write("on\n")
    os._exit(0)
print("parent ends", flush=True)
os._exit(4)
