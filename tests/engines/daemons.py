"""Daemons of a test cluster: started in the background, remembered in a file, stopped by their process numbers."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def wait_until(condition: Callable[[], Any], limit_s: float, what: str) -> Any:
    """Return the first true value of `condition`; TimeoutError after `limit_s`."""
    ends = time.monotonic() + limit_s
    while not (found := condition()):
        if time.monotonic() > ends:
            raise TimeoutError(f"waited {limit_s:g} s for {what}")
        time.sleep(0.1)
    return found


def silently(*words: str) -> bool:
    """Say whether a program ends well within a few seconds."""
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


@dataclass(frozen=True)
class Daemon:
    """One that was started; `started_at`, in ticks since boot, tells it from a later process of that number."""

    name: str
    pid: int
    started_at: str

    @property
    def lives(self) -> bool:
        """Whether it is there, and no zombie."""
        return _started_at(self.pid) == self.started_at != ""

    def signal(self, number: int) -> None:
        """Send it a signal, if it is there."""
        if self.lives:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)


class Daemons:
    """Those of one cluster, whoever started them: the file `run/daemons.json` in its folder names them."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self._file = base / "run/daemons.json"

    def all(self) -> list[Daemon]:
        """Return what was started and not stopped, in order."""
        with suppress(OSError, ValueError):
            return [Daemon(**told) for told in json.loads(self._file.read_text())]
        return []

    def start(self, name: str, words: Sequence[str], environ: Mapping[str, str], user: str | None = None) -> None:
        """Start one in the background, in place of one of that name; its output goes to `log/NAME.out`."""
        program = shutil.which(words[0], path=_PATH)
        assert program, f"no program {words[0]}"
        with (self.base / f"log/{name}.out").open("wb") as log:
            process = subprocess.Popen(
                [program, *words[1:]],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env={"PATH": _PATH, "LANG": "C.UTF-8", **environ},
                start_new_session=True,
                user=user,
                group=user,
                extra_groups=[] if user else None,
            )
        others = [daemon for daemon in self.all() if daemon.name != name]
        self._write([*others, Daemon(name, process.pid, _started_at(process.pid))])

    def stop(self, daemons: Sequence[Daemon]) -> None:
        """Stop some together: politely, and after ten seconds not so."""
        for daemon in daemons:
            daemon.signal(signal.SIGTERM)
        with suppress(TimeoutError):
            wait_until(lambda: not any(daemon.lives for daemon in daemons), 10, "daemons to end")
        for daemon in daemons:
            daemon.signal(signal.SIGKILL)
        self._write([daemon for daemon in self.all() if daemon not in daemons])

    def _write(self, daemons: Sequence[Daemon]) -> None:
        if self._file.parent.is_dir():
            draft = self._file.with_suffix(".new")
            draft.write_text(json.dumps([asdict(daemon) for daemon in daemons]))
            draft.replace(self._file)


def processes_on(node: str) -> list[int]:
    """Return the step daemons of a Slurm node and all that runs below them, by their control groups."""
    marks = (f"/slurm_{node}/", f"/{node}_slurmstepd.scope/")
    paths = Path("/proc").glob("[0-9]*/cgroup")
    return [int(path.parent.name) for path in paths if any(mark in read(path) for mark in marks)]


def read(path: Path) -> str:
    """Return what a file holds; "" where there is none."""
    with suppress(OSError):
        return path.read_text()
    return ""


def _started_at(pid: int) -> str:
    """Return when a process started; "" for one that is gone or a zombie."""
    fields = read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    return fields[19] if fields and fields[0] != "Z" else ""
