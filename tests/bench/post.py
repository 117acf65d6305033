"""
How long a message takes, and how much memory.

Prints the time from the job's death to the message's acceptance by an SMTP server on the loopback interface, for a run
with a captured log of 1 MB; and the peak memory of `gpualert post` on a log of 1 GB.

    python tests/bench/post.py [--times 20] [--folder /dev/shm] [--large-mb 1000]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rundirs import RunBuilder
from smtp_server import MailServer

from gpualert.places import python_command, shim

# The job: a log of that many bytes, a traceback, and the time of its death.
JOB = """
import os, sys, time
line = "step %06d  loss 1.2345  grad_norm 0.98  tokens/s 12345  gpu_mem 71.2GiB\\n"
sys.stdout.write("".join(line % n for n in range(int(sys.argv[1]) // len(line % 0))))
sys.stdout.write("Traceback (most recent call last):\\n  File \\"train.py\\", line 3, in <module>\\n"
                 "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB.\\n")
sys.stdout.flush()
with open(sys.argv[2], "w") as file:
    file.write(str(time.monotonic()))
os._exit(1)
"""


def death_to_acceptance_s(folder: Path, log_bytes: int, times: int) -> list[float]:
    """Return the seconds from the job's death to the acceptance of its message, one a run."""
    accepted: list[float] = []
    with MailServer(on_data=lambda: accepted.append(time.monotonic())).running() as server:
        environ = {
            **os.environ,
            "GPUALERT_HOME": str(folder / "state"),
            "GPUALERT_POST": "detach",
            "GPUALERT_PYTHON": sys.executable,
            "GPUALERT_MAIL": "smtp",
            "GPUALERT_TO": "me@example.org",
            "GPUALERT_SMTP_HOST": "127.0.0.1",
            "GPUALERT_SMTP_PORT": str(server.port),
            "GPUALERT_SMTP_SECURITY": "none",
        }
        found = []
        for number in range(times + 1):
            stamp = folder / f"died-{number}"
            job = [sys.executable, "-c", JOB, str(log_bytes), str(stamp)]
            command = ["/bin/sh", str(shim()), "run", "--", *job]
            with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, cwd=folder) as process:
                process.communicate()
            while len(accepted) <= number:
                time.sleep(0.005)
            found.append(accepted[number] - float(stamp.read_text()))
    return found[1:]  # the first compiles the rules


def peak_memory_mib(folder: Path, log_bytes: int) -> tuple[float, float, float]:
    """Return anonymous and all resident memory at their peak, in MiB, and the seconds that `post` took."""
    path = RunBuilder(folder / "large")(log=b"")
    lines = b"".join(b"step %06d  loss 1.2345  grad_norm 0.98  tokens/s 12345\n" % n for n in range(20_000))
    with (path / "output.log").open("wb") as log:
        while log.tell() < log_bytes:
            log.write(lines)
        log.write(b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB.\n")
    return watched(python_command("post", str(path)), {**os.environ, "GPUALERT_HOME": str(folder / "large")})


def watched(words: list[str], environ: dict[str, str], cwd: Path | None = None) -> tuple[float, float, float]:
    """Run a command and return what `peak_memory_mib` does, of that one process."""
    anonymous = resident = 0.0
    began = time.monotonic()
    with subprocess.Popen(words, env=environ, cwd=cwd, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            status = _status(process.pid)
            anonymous = max(anonymous, status.get("RssAnon", 0) / 1024)
            resident = max(resident, status.get("VmHWM", 0) / 1024)
            time.sleep(0.002)
    return anonymous, resident, time.monotonic() - began


def _status(pid: int) -> dict[str, int]:
    """Return the sizes in /proc/PID/status, in KiB."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return {}
    fields = (line.replace(":", " ").split() for line in lines)
    return {words[0]: int(words[1]) for words in fields if words[-1] == "kB"}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--folder", default=None)
    parser.add_argument("--large-mb", type=int, default=1000)
    words = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gpualert-bench-", dir=words.folder) as name:
        folder = Path(name)
        found = death_to_acceptance_s(folder, 1_000_000, words.times)
        print(f"death to acceptance, 1 MB captured log, {len(found)} runs:")
        print(f"  median {statistics.median(found):.3f} s, least {min(found):.3f} s, most {max(found):.3f} s")
        if words.large_mb:
            anonymous, resident, took_s = peak_memory_mib(folder, words.large_mb * 1_000_000)
            print(f"post on a log of {words.large_mb} MB: anonymous memory at most {anonymous:.0f} MiB")
            print(f"  with the pages of the mapped log {resident:.0f} MiB; it took {took_s:.1f} s")


if __name__ == "__main__":
    main()
