#!/usr/bin/env python3
"""
An interactive session as a person sees it, for the README.

    python tests/demo/transcript.py            print the screen
    python tests/demo/transcript.py --rows 40 --columns 110

Types into a real bash on a pseudo-terminal, shows what a terminal emulator makes of it, and fakes nothing: the
training loop below fails because its checkpoint goes to a full device.  Only times and ids differ between two calls.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from terminal.emulator import Terminal  # noqa: E402

TRAIN = """\
import math, pickle, random, sys
from tqdm import tqdm

random.seed(0)
weights, loss = [random.random() for _ in range(1000)], 4.0
shape = "{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt}{postfix}"
with tqdm(range(1, 501), desc="train", bar_format=shape) as bar:
    for step in bar:
        loss = 1.2 + 2.8 * math.exp(-step / 150) + random.gauss(0, 0.01)
        bar.set_postfix(loss=f"{loss:.3f}")
        if step % 250 == 0:
            bar.write(f"step {step}: saving checkpoints/{step}.pt")
            with open(f"checkpoints/{step}.pt", "wb", buffering=0) as file:
                pickle.dump(weights, file)
"""
PROMPT = rb"(?:^|\n)\$ "
RC = """\
PS1='$ '
unset HISTFILE
bind 'set enable-bracketed-paste off'
eval "$(gpualert init bash)"
"""


def prepare(folder: Path) -> dict[bytes, bytes]:
    """Write the training loop, its full disk and the user's rc file; return the user's environment."""
    for name in ("bin", "work/checkpoints"):
        (folder / name).mkdir(parents=True)
    (folder / ".bashrc").write_text(RC)
    (folder / "work" / "train.py").write_text(TRAIN)
    (folder / "work" / "checkpoints" / "250.pt").symlink_to("/dev/full")
    (folder / "bin" / "gpualert").symlink_to(ROOT / "bash" / "gpualert")
    values = {
        "HOME": str(folder),
        "PATH": f"{folder}/bin:{Path(sys.executable).parent}:/usr/bin:/bin",
        "TERM": "xterm-256color",
        "LC_ALL": "C.UTF-8",
        "GPUALERT_PYTHON": sys.executable,
        "GPUALERT_POST": "detach",
    }
    environ = {os.fsencode(key): os.fsencode(value) for key, value in values.items()}
    # The first use compiles the rules, which takes a second; a user has that behind them.
    subprocess.run(
        [folder / "bin" / "gpualert", "classify", "--status", "1", folder / ".bashrc"],
        env=environ,
        capture_output=True,
        check=False,
    )
    return environ


def session(folder: Path, rows: int, columns: int) -> list[str]:
    """Type the session; return the screen."""
    with Terminal(
        ["bash", "--rcfile", folder / ".bashrc", "-i"], prepare(folder), folder / "work", rows, columns
    ) as term:
        term.expect(PROMPT)
        term.line("gpualert run --name nightly -- python train.py")
        term.expect(PROMPT)
        term.until(lambda: list(folder.glob(".local/state/gpualert/runs/*/verdict.json")), "the verdict")
        term.line("gpualert show last | head -11")
        term.expect(PROMPT)
        return term.rows[:-1]


def main() -> int:
    """Print the session's screen."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=60)
    parser.add_argument("--columns", type=int, default=100)
    parser.add_argument("--tries", type=int, default=5)
    asked = parser.parse_args()
    for _ in range(asked.tries):
        with tempfile.TemporaryDirectory(prefix="demo-") as folder:
            rows = session(Path(folder), asked.rows, asked.columns)
        # The word after a failure only comes where the verdict was there in time: not on a busy machine.
        if any("more: gpualert show" in row for row in rows):
            break
    print("\n".join(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
