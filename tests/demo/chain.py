#!/usr/bin/env python3
"""
Two chains of retries as a person sees them, for the README.

    python tests/demo/chain.py

Nothing is faked: a program fetches its weights from a server that is down at first, another one wants a file that
is not there.  What cron would start each minute is started here between the commands.  Times and ids differ.
"""

from __future__ import annotations

import http.server
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

TRAIN = """\
import urllib.request
urllib.request.urlopen("http://127.0.0.1:{port}/weights")
print("step 1 loss 2.31")
"""
EVALUATE = 'rows = open("test.jsonl").readlines()\n'


class Demo:
    """A folder to work in, and the commands that are typed there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "bin").mkdir()
        (folder / "bin" / "gpualert").symlink_to(ROOT / "bash" / "gpualert")
        path = f"{folder}/bin:{Path(sys.executable).parent}:/usr/bin:/bin"
        self.environ = {"HOME": str(folder), "PATH": path, "LC_ALL": "C.UTF-8", "GPUALERT_PYTHON": sys.executable}
        self.environ["GPUALERT_POST"] = "detach"
        self.quietly("gpualert tick")

    def type(self, command: str) -> None:
        """Run a command, and show it with what it prints."""
        done = self.quietly(command)
        print(f"$ {command}\n{done.stdout}{done.stderr}", end="")

    def quietly(self, command: str) -> subprocess.CompletedProcess[str]:
        """Run a command."""
        return subprocess.run(
            ["bash", "-c", command], cwd=self.folder, env=self.environ, capture_output=True, text=True, check=False
        )

    def ticks_until(self, name: str, attempt: int) -> None:
        """Do what cron does, until an attempt of a chain has ended."""
        end = self.folder / ".local/state/gpualert/chains" / name / "attempts" / f"{attempt}.end.json"
        until = time.monotonic() + 60
        while not end.exists():
            assert time.monotonic() < until, f"attempt {attempt} of chain {name} does not end"
            self.quietly("gpualert tick")


def main() -> int:
    """Print the session."""
    server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler, bind_and_activate=False)
    server.server_bind()  # the address is ours, and nobody answers
    with tempfile.TemporaryDirectory(prefix="demo-") as folder:
        demo = Demo(Path(folder))
        (demo.folder / "weights").write_text("weights")
        (demo.folder / "train.py").write_text(TRAIN.format(port=server.server_port))
        (demo.folder / "evaluate.py").write_text(EVALUATE)
        (demo.folder / ".local/state/gpualert/locks").mkdir(parents=True, exist_ok=True)
        (demo.folder / ".local/state/gpualert/locks/ticked").touch()
        demo.type("gpualert chain start --name train --interval 1s -- python3 train.py")
        demo.type("gpualert chain start --name eval -- python3 evaluate.py")
        demo.ticks_until("eval", 1)
        demo.ticks_until("train", 2)
        server.server_activate()
        os.chdir(folder)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        demo.ticks_until("train", 3)
        demo.type("gpualert chain list --all")
        demo.type("gpualert chain show train | grep ^attempt")
        demo.type("grep -h ^Subject: ~/.local/state/gpualert/mail/new/*")
        server.shutdown()
    return 0


if __name__ == "__main__":
    sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115 (the server's log)
    sys.exit(main())
