"""Run a job in a box of its own: its mounts, host name, network and control groups are nobody else's."""

from __future__ import annotations

import itertools
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from corpus.make.recipe import Job

CHECKOUT = Path(__file__).resolve().parents[2]
PROJECT = "/home/user/project"
_USER = 1000
_GROUPS = Path("/sys/fs/cgroup")
_NUMBERS = itertools.count(1)
_ENV = {
    "HOME": "/home/user",
    "USER": "user",
    "LOGNAME": "user",
    "SHELL": "/bin/bash",
    "LANG": "C.UTF-8",
    # The shim of the checkout: an installed one may be older.
    "PATH": "/opt/gpualert/bash:/opt/venv/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
    "PYTHONDONTWRITEBYTECODE": "1",
    "GPUALERT_POST": "wait",
    "GPUALERT_MAIL": "none",
    "GPUALERT_PYTHON": "/opt/venv/bin/python",
}


class BoxError(Exception):
    """A job could not be run in a box; the sentence says why."""


def missing() -> str:
    """Say what keeps this machine from running jobs in a box; "" where nothing does."""
    if os.geteuid() != 0:
        return "it takes root to make a box for a job: namespaces, mounts and control groups"
    lacks = [name for name in ("unshare", "ip", "chroot") if not shutil.which(name)]
    if lacks:
        return f"not installed: {', '.join(lacks)}"
    return "" if sys.prefix != sys.base_prefix else "the workshop's Python must be a virtual environment's"


def run_in_box(job: Job, box: Path, cache: Path) -> Path:
    """
    Run a job and return the folder of its run directories.

    Args:
        box: An empty folder, on a disk.
        cache: A folder for compiled rules, which all boxes share.

    Raises:
        BoxError: It could not be started, did not end in time, or left no run directory.
    """
    home = box / "home"
    _furnish(job, box, cache)
    uid = 0 if job.as_root else _USER
    with _groups(job) as groups:
        base = Path(sys.base_prefix).resolve()
        words = ["sh", Path(__file__).with_name("sandbox.sh"), box, CHECKOUT, sys.prefix, base, uid, job.shm_mib]
        said = _run(["unshare", "--mount", "--uts", "--net", "--ipc", *map(str, words), *map(str, groups)], job, groups)
    _own(home, os.getuid())
    with suppress(OSError):
        shutil.copytree(home / ".cache" / "gpualert", cache, dirs_exist_ok=True)
    runs = home / ".local" / "state" / "gpualert" / "runs"
    if not runs.is_dir():
        raise BoxError(f"it left no run directory: {said.strip().rpartition(chr(10))[2]}")
    return runs


def _furnish(job: Job, box: Path, cache: Path) -> None:
    """Put into a box what the job needs."""
    home, project = box / "home", box / "home" / "project"
    project.mkdir(parents=True)
    (box / "over").mkdir()
    for name, text in {**job.files, "chatter.py": (Path(__file__).parent / "chatter.py").read_text()}.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    cache.mkdir(exist_ok=True)
    (home / ".cache").mkdir()
    shutil.copytree(cache, home / ".cache" / "gpualert")
    _own(home, _USER)
    (home / ".prepare").write_text(job.prepare + "\n")
    (home / ".launch").write_text(_launch(job))


def _launch(job: Job) -> str:
    """Return the script that runs in the box, as the user."""
    env = {**_ENV, **job.env}
    exports = [f"export {name}={shlex.quote(value)}" for name, value in env.items()]
    body = job.launch or f"gpualert run {job.options} -- {job.command}"
    return "\n".join([*exports, "cd " + PROJECT, body, ""])


def _run(words: list[str], job: Job, groups: list[Path]) -> str:
    """Run the box to its end; return what was said."""
    second = subprocess.PIPE if job.split else subprocess.STDOUT
    child = subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=second, start_new_session=True
    )
    try:
        out, err = child.communicate(timeout=job.limit_s)
    except subprocess.TimeoutExpired as error:
        raise BoxError(f"it did not end within {job.limit_s:g} s") from error
    finally:
        _kill(groups)
        child.wait()
    if os.environ.get("CORPUS_SHOW"):
        sys.stdout.buffer.write(out + (err or b""))
    return (out + (err or b"")).decode("utf-8", "replace")


def _own(folder: Path, uid: int) -> None:
    """Give a folder and all in it to a user."""
    for place, folders, files in os.walk(folder):
        for name in (".", *folders, *files):
            os.chown(os.path.join(place, name), uid, uid, follow_symlinks=False)  # noqa: PTH118


@contextmanager
def _groups(job: Job) -> Iterator[list[Path]]:
    """Make control groups with the job's limits; whatever is left in them at the end is killed."""
    limits = {"memory": {"memory.limit_in_bytes": job.memory_mib << 20}, "pids": {"pids.max": job.pids}}
    if (_GROUPS / "cgroup.controllers").is_file():
        limits = {"": {"memory.max": job.memory_mib << 20, "memory.swap.max": 0, "pids.max": job.pids}}
    name = f"corpus-{os.getpid()}-{next(_NUMBERS)}"  # the kernel's log still tells of the last one
    made = [_GROUPS / kind / name for kind in limits]
    for group, values in zip(made, limits.values(), strict=True):
        group.mkdir(exist_ok=True)
        for name, value in values.items():
            (group / name).write_text(str(value))
    try:
        yield made
    finally:
        _kill(made)
        for group in made:
            with suppress(OSError):
                group.rmdir()


def _kill(groups: list[Path]) -> None:
    """Kill what is in the groups until nothing is; for ten seconds at most."""
    ends = time.monotonic() + 10
    while time.monotonic() < ends:
        left = {pid for group in groups for pid in (group / "cgroup.procs").read_text().split()}
        if not left:
            return
        for pid in left:
            with suppress(OSError):
                os.kill(int(pid), signal.SIGKILL)
        time.sleep(0.05)
