"""What may be broken around a job - mail, Python, disk - and a job for each of the published failure classes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from smtp_server import answering, closed_port, scripted

# The published classes: how such a job ends, and what it says before.
JOBS: dict[str, tuple[int, str]] = {
    "cuda_oom": (1, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB."),
    "nccl": (1, "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1275, unhandled system error"),
    "cuda_runtime": (1, "RuntimeError: CUDA error: an illegal memory access was encountered"),
    "ram_oom": (1, "MemoryError"),
    "segfault": (139, "Fatal Python error: Segmentation fault"),
    "file_not_found": (1, "FileNotFoundError: [Errno 2] No such file or directory: 'train.json'"),
    "permission": (1, "PermissionError: [Errno 13] Permission denied: '/data/train'"),
    "missing_module": (1, "ModuleNotFoundError: No module named 'apex'"),
    "div_zero": (1, "ZeroDivisionError: division by zero"),
    "device_mismatch": (1, "RuntimeError: Expected all tensors to be on the same device, but found cuda:0 and cpu!"),
    "nan_loss": (1, "FloatingPointError: loss is nan at step 812"),
    "oom_killer": (137, "Killed"),
    "traceback": (1, "KeyError: 'lr'"),
    "assertion": (1, "AssertionError: batch size must be positive"),
    "runtime_error": (3, "RuntimeError: the run cannot go on"),
}
CONDITIONS = ("healthy", "refused", "hanging", "dropped", "unresolvable", "no_python", "broken_python", "disk_full")
MEGABYTE = 1 << 20


def job(name: str, lasts_s: float = 0) -> list[str]:
    """Return a command that ends as a job of that class does: by its signal above 128."""
    status, words = JOBS[name]
    end = f"kill -{status - 128} $$" if status > 128 else f"exit {status}"
    return ["/bin/sh", "-c", f'sleep {lasts_s}; echo "$1" >&2; ulimit -c 0; {end}', "sh", words]


@contextmanager
def broken(condition: str, folder: Path) -> Iterator[dict[str, str]]:
    """Yield the variables under which runs meet that condition; their state is in `folder`."""
    state = folder / condition
    state.mkdir(parents=True)
    mail = {
        "GPUALERT_MAIL": "smtp",
        "GPUALERT_TO": "me@example.org",
        "GPUALERT_SMTP_HOST": "127.0.0.1",
        "GPUALERT_SMTP_SECURITY": "none",
        "GPUALERT_SMTP_TIMEOUT_S": "5",
    }
    environ = {"GPUALERT_HOME": str(state), "GPUALERT_POST": "detach", "GPUALERT_PYTHON": sys.executable}
    if condition == "refused":
        yield {**environ, **mail, "GPUALERT_SMTP_PORT": str(closed_port())}
    elif condition == "unresolvable":
        yield {**environ, **mail, "GPUALERT_SMTP_HOST": "mail.invalid", "GPUALERT_SMTP_PORT": "25"}
    elif condition == "hanging":
        with scripted(lambda connection: bool(connection.recv(1)) or None) as port:  # says nothing
            yield {**environ, **mail, "GPUALERT_SMTP_PORT": str(port)}
    elif condition == "dropped":
        ready = (b"250 hello", b"250 from", b"250 to", b"354 go on")  # and hangs up amid the data
        with scripted(answering(*ready)) as port:
            yield {**environ, **mail, "GPUALERT_SMTP_PORT": str(port)}
    elif condition == "no_python":
        yield {**environ, "GPUALERT_PYTHON": str(folder / "nowhere"), "PATH": "/bin:/usr/bin"}
    elif condition == "broken_python":
        yield {**environ, "GPUALERT_PYTHON": "/bin/false"}
    elif condition == "disk_full":
        with full_disk(state):
            yield {**environ, "TMPDIR": str(folder)}  # where the run is kept then
    else:
        yield environ


@contextmanager
def full_disk(folder: Path) -> Iterator[None]:
    """Mount a file system without room on `folder`; needs root."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)], check=True)
    try:
        (folder / "runs").mkdir(mode=0o700)
        with (folder / "ballast").open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                pass
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
