"""
What the rc line costs a shell at its start.

Prints, for each shell, the time of `eval "$(gpualert init SHELL)"` beside one fork and exec of /bin/true by the same
shell, taken in turns; median of the rounds.  With GPUALERT_WRAP, each name costs a fork.

    python tests/bench/rc.py [--rounds 40] [--wrap "torchrun accelerate deepspeed"]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import tempfile
from pathlib import Path

GPUALERT = Path(__file__).resolve().parents[2] / "bash" / "gpualert"
SHELLS = {"bash": (["bash", "--norc"], "bash"), "zsh": (["zsh", "-f"], "zsh"), "dash": (["dash"], "sh")}
REPEATS = 20

# The shell itself takes the time.
_BODY = """
now() {{ {now}; }}
i=0
while [ $i -lt {rounds} ]; do
    now; t0=$NOW
    n=0; while [ $n -lt {repeats} ]; do /bin/true; n=$((n + 1)); done
    now; t1=$NOW
    n=0; while [ $n -lt {repeats} ]; do eval "$('{script}' init {word})"; n=$((n + 1)); done
    now; t2=$NOW
    printf '%s %s %s\\n' "$t0" "$t1" "$t2"
    i=$((i + 1))
done
"""
_NOW = {
    "bash": "NOW=${EPOCHREALTIME/[.,]/}",
    "zsh": "zmodload zsh/datetime zsh/mathfunc; NOW=$(( int(EPOCHREALTIME * 1e6) ))",
    # Two programs a round, outside what is measured.
    "dash": "NOW=$(($(date +%s%N) / 1000))",
}


def measure(shell: str, script: Path, rounds: int, wrap: str) -> tuple[float, float]:
    """Return the median microseconds of a fork and exec, and of the rc line."""
    words, word = SHELLS[shell]
    text = _BODY.format(now=_NOW[shell], rounds=rounds, repeats=REPEATS, script=script, word=word)
    environ = {**os.environ, "GPUALERT_WRAP": wrap}
    out = subprocess.run([*words, "-c", text], capture_output=True, text=True, check=True, env=environ).stdout
    times = [[int(field) for field in line.split()] for line in out.splitlines()]
    bare = statistics.median(t1 - t0 for t0, t1, _ in times) / REPEATS
    line = statistics.median(t2 - t1 for _, t1, t2 in times) / REPEATS
    return bare, line


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--wrap", default="torchrun accelerate deepspeed")
    words = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        link = Path(folder, "gpualert")
        link.symlink_to(GPUALERT)
        for shell in SHELLS:
            for name, script, wrap in (
                ("plain", GPUALERT, ""),
                ("through a link", link, ""),
                (f"wrapping {len(words.wrap.split())}", GPUALERT, words.wrap),
                ("link, wrapping", link, words.wrap),
            ):
                bare, line = measure(shell, script, words.rounds, wrap)
                print(f"{shell:5} {name:15} fork+exec {bare:5.0f} us, rc line {line:5.0f} us: {line / bare:4.1f}x")


if __name__ == "__main__":
    main()
