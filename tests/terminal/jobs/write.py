"""Writes: `bytes` all byte values; `lines N` numbered lines; `order N` lines to stdout and stderr in turns."""

import os
import sys

what, count = sys.argv[1], int((sys.argv[2:] or ["1"])[0])
if what == "bytes":
    os.write(1, b"<" + bytes(range(256)) + b">\n")
elif what == "lines":
    block = b"".join(b"%09d the quick brown fox jumps over the lazy dog\n" % n for n in range(count))
    while block:
        block = block[os.write(1, block) :]
elif what == "order":
    for n in range(count):
        os.write(1 + n % 2, b"%d\n" % n)
sys.exit(int((sys.argv[3:] or ["0"])[0]))
