"""
Measure the scan beside `grep -cF -f` with the same literals on the same file.

Usage: `python tests/bench/scan.py [GIB] [LOG...]`.

Prints: a log of GIB gibibytes (default 1) by classify and by grep, in turn, with peak memory beyond the mapped file; a
1 MB log as a whole process with and without hyperscan; every pattern against hostile repetition of 1 MB.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from gpualert.classify.lines import MOST_CHARACTERS
from gpualert.rules import load_rules, read_rules, rule_files
from gpualert.ruleset import Pattern

NOISE = "".join(
    f"[2026-05-01 10:{n // 60 % 60:02}:{n % 60:02},113] [INFO] [trainer.py:88:log] [Rank {n % 8}] step={n} loss={5 / (n + 2):.4f}"  # noqa: E501
    f" lr=3.0e-05 tokens/s={31000 + n % 977} mem=71.2GB grad_norm={n % 91 / 40:.3f}\n"
    for n in range(40_000)
).encode()
TAIL = (
    b'Traceback (most recent call last):\n  File "/job/train.py", line 7, in main\n'
    b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 79.15 GiB\n"
)
CLASSIFY = (
    "import resource, sys; from gpualert.classify import classify; from gpualert.rules import load_rules;"
    " from gpualert.model import Facts, LogFile; from pathlib import Path; rules = load_rules();"
    " v = classify([LogFile('x', Path(sys.argv[1]))], Facts(status=1), rules);"
    " print(v.failure_class, *[line.split()[1] for line in open('/proc/self/status') if line.startswith(('RssAnon', 'VmHWM'))])"  # noqa: E501
)


def make_log(path: Path, size: int, parts: list[bytes]) -> None:
    """Write a log of about `size` bytes that repeats `parts` and ends in a failure."""
    body = b"".join(parts)
    with path.open("wb") as file:
        while file.tell() + len(body) < size:
            file.write(body)
        file.write(body[: max(0, size - file.tell())])
        file.write(b"\n" + TAIL)


def timed(command: list[str], **environment: str) -> tuple[float, str]:
    """Return wall seconds and output of a command."""
    begin = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, check=False)
    return time.perf_counter() - begin, (done.stdout + done.stderr).strip()


def large(size: int, logs: list[Path], folder: Path) -> Iterator[str]:
    """Yield the comparison on a large log: the best of three, in turn."""
    path, wanted = folder / "large.log", folder / "literals"
    make_log(path, size, [log.read_bytes() for log in logs] or [NOISE])
    wanted.write_bytes(b"\n".join(load_rules().literals) + b"\n")
    grep, ours, said = [], [], ""
    for _ in range(3):
        grep.append(timed(["grep", "-cF", "-f", str(wanted), str(path)], LC_ALL="C")[0])
        seconds, said = timed([sys.executable, "-c", CLASSIFY, str(path)])
        ours.append(seconds)
    name, high_kib, anonymous_kib = (*said.split()[-3:],)
    yield f"{size / 2**30:.2f} GiB, {name}: classify {min(ours):.2f} s, grep -cF {min(grep):.2f} s, ratio {min(ours) / min(grep):.2f}"  # noqa: E501
    yield f"memory that is not the mapped file: {int(anonymous_kib) / 1024:.0f} MiB (peak with the file {int(high_kib) / 1024:.0f} MiB)"  # noqa: E501


def small(folder: Path) -> Iterator[str]:
    """Yield the whole process on 1 MB: the best of five."""
    path = folder / "small.log"
    make_log(path, 1 << 20, [NOISE])
    for name, use in (("hyperscan", "1"), ("plain re", "0")):
        words = [sys.executable, "-m", "gpualert", "classify", "--status", "1", str(path)]
        timed(words, GPUALERT_HYPERSCAN=use)
        yield f"1 MB, whole process, {name}: {min(timed(words, GPUALERT_HYPERSCAN=use)[0] for _ in range(5)):.3f} s"


def hostile(pattern: Pattern) -> float:
    """Return seconds for 1 MB of what the pattern likes, in pieces as long as a line is read."""
    pieces = [text for text in re.split(r"[^A-Za-z_ ]+", pattern.regex) if len(text) > 2] or ["a"]
    text = (" ".join(pieces) * MOST_CHARACTERS)[:MOST_CHARACTERS]
    variants = (text, " ".join(pieces[:1]) * 400, "a" * MOST_CHARACTERS, "1" * MOST_CHARACTERS, " " * MOST_CHARACTERS)
    begin = time.perf_counter()
    for variant in variants:
        pattern.matches(variant[:MOST_CHARACTERS])
    return (time.perf_counter() - begin) / len(variants) * ((1 << 20) / MOST_CHARACTERS)


def main(words: list[str]) -> None:
    """Print every measurement."""
    size = int(float(words[0]) * 2**30) if words else 1 << 30
    with tempfile.TemporaryDirectory() as name:
        for line in (*small(Path(name)), *large(size, [Path(word) for word in words[1:]], Path(name))):
            print(line, flush=True)
    costs = sorted(
        ((hostile(p), p.rule, p.regex[:70]) for rule in read_rules(rule_files()) for p in rule.patterns), reverse=True
    )
    print(
        f"{len(costs)} patterns against 1 MB of hostile repetition: worst {costs[0][0]:.2f} s, median {costs[len(costs) // 2][0]:.3f} s"  # noqa: E501
    )
    for seconds, rule, regex in costs[:5]:
        print(f"  {seconds:6.2f} s  {rule}: {regex}")
    print(f"peak of this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MiB")


if __name__ == "__main__":
    main(sys.argv[1:])
