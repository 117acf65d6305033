"""A strict reader of the run directory, written from `gpualert/FORMAT.md` alone."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from .waiting import eventually, is_alive

RUN_ID = re.compile(r"\d{8}T\d{6}Z-[A-Za-z0-9_-]{1,32}-[A-Za-z0-9]{8,}")
LINE = re.compile(rb"([a-z][a-z0-9_]*)=([!-~]*)")
INSTANT = re.compile(r"|\d{9,}(\.\d+)?")
NUMBER = re.compile(r"|\d+")
CAPTURE = re.compile(r"tee|adopt|pty|none|closed")
FLAG = re.compile(r"|0|1")
WORD = re.compile(r"[!-~]*")

START = {
    "run_id": RUN_ID,
    "parent_run_id": re.compile(rf"|{RUN_ID.pattern}"),
    "host": re.compile(r"[!-~]+"),
    "node": WORD,
    "boot_id": re.compile(r"|[0-9a-f-]{36}"),
    "pid_ns": NUMBER,
    "pid": re.compile(r"[1-9]\d*"),
    "pid_starttime": NUMBER,
    "started_at": INSTANT,
    "shell": WORD,
    "stdout": CAPTURE,
    "stderr": CAPTURE,
    "combined": FLAG,
    "stdout_start": NUMBER,
    "stderr_start": NUMBER,
    "stdout_shared": FLAG,
    "stderr_shared": FLAG,
    "stdout_tee_pid": NUMBER,
    "stderr_tee_pid": NUMBER,
    "max_log_bytes": NUMBER,
    "chain": WORD,
    "attempt": NUMBER,
    "slurm_job_id": WORD,
    "slurm_step_id": WORD,
    "slurm_procid": WORD,
    "previous_run_id": WORD,
    "engine": WORD,
    "slurm_restart_count": NUMBER,
    "slurm_array_job_id": WORD,
    "slurm_array_task_id": WORD,
    "slurm_array_task_count": NUMBER,
    "group": WORD,
    "group_size": NUMBER,
    "group_rank": NUMBER,
    "cgroup": WORD,
    "cgroup_oom_kill": NUMBER,
}
START_REQUIRED = {"run_id", "host", "pid", "pid_starttime", "started_at", "boot_id", "stdout", "stderr"}

EXIT = {
    "status": re.compile(r"\d{1,3}"),
    "signal": NUMBER,
    "timed_out": FLAG,
    "ended_at": INSTANT,
    "stdout_end": NUMBER,
    "stderr_end": NUMBER,
    "cgroup_oom_kill": NUMBER,
}
EXIT_REQUIRED = {"status", "signal", "ended_at"}

OPTION_KEYS = {"to", "attach", "mail", "log", "longer_than_s", "timeout_s", "on_failure", "ping_url"}
FINISHED_FILES = {
    *("format", "argv", "cwd", "name", "options", "engine", "start", "exit", "lock"),
    *("output.log", "stdout.log", "stderr.log", "stdout.path", "stderr.path", ".timed_out"),
}


def parse_record(raw: bytes, known: dict[str, re.Pattern[str]], required: set[str]) -> dict[str, str]:
    """Return the keys of one `key=value` file; fails on anything FORMAT.md does not allow."""
    values: dict[str, str] = {}
    lines = raw.split(b"\n")
    for line in lines[: lines.index(b"end=1")] if b"end=1" in lines else [b"no end=1 line"]:
        match = LINE.fullmatch(line)
        assert match, f"line {line!r} of {raw!r} is not key=value"
        key, value = match[1].decode(), match[2].decode()
        assert key not in values, f"key {key} stands twice in {raw!r}"
        assert key in known, f"key {key} is not in FORMAT.md"
        assert known[key].fullmatch(value), f"{key}={value!r} is malformed"
        values[key] = value
    assert not required - values.keys(), f"{sorted(required - values.keys())} missing in {raw!r}"
    return values


def parse_items(raw: bytes) -> list[bytes]:
    """Return the items of a NUL-terminated file; fails where the last one is cut off."""
    assert raw == b"" or raw.endswith(b"\0"), f"{raw!r} does not end in NUL"
    return raw.split(b"\0")[:-1]


@dataclass(frozen=True)
class RunDir:
    """One run directory, read strictly."""

    path: Path

    @property
    def run_id(self) -> str:
        """The directory's name."""
        return self.path.name

    @cached_property
    def start(self) -> dict[str, str]:
        """The start record."""
        return parse_record((self.path / "start").read_bytes(), START, START_REQUIRED)

    @cached_property
    def exit(self) -> dict[str, str]:
        """The exit record."""
        return parse_record((self.path / "exit").read_bytes(), EXIT, EXIT_REQUIRED)

    @property
    def status(self) -> int:
        """The recorded exit status."""
        return int(self.exit["status"])

    @property
    def signal(self) -> int | None:
        """The recorded signal, None where the shim does not know of one."""
        return int(self.exit["signal"]) if self.exit["signal"] else None

    def items(self, name: str) -> list[bytes]:
        """Return the items of a NUL-terminated file."""
        return parse_items((self.path / name).read_bytes())

    def has(self, name: str) -> bool:
        """Say whether a file of this name is there."""
        return (self.path / name).exists()

    def finish(self) -> RunDir:
        """Wait until the exit record is there and the copying processes are gone."""
        eventually(lambda: self.has("exit"), f"{self.path}/exit to appear")
        for key in ("stdout_tee_pid", "stderr_tee_pid"):
            pid = int(self.start.get(key) or 0)
            eventually(lambda pid=pid: not is_alive(pid), f"{key} {pid} to end")
        return self

    def log(self, name: str = "output") -> bytes:
        """Return what a log holds once it is final."""
        return (self.finish().path / f"{name}.log").read_bytes()

    def adopted(self, stream: str) -> bytes:
        """Return this run's bytes of an adopted stream, through the recorded path and offsets."""
        assert self.start[stream] == "adopt"
        path_of = "stdout" if self.start.get("combined") == "1" else stream
        eventually(lambda: self.has(f"{path_of}.path") and self.items(f"{path_of}.path"), "the adopted file's name")
        (path,) = self.items(f"{path_of}.path")
        whole = Path(path.decode(errors="surrogateescape")).read_bytes()
        return whole[int(self.start[f"{stream}_start"]) : int(self.exit[f"{stream}_end"])]


def runs_in(state: Path) -> list[RunDir]:
    """Return the run directories of a state folder, oldest first (their names sort by second only)."""
    found = [path for path in (state / "runs").glob("*") if (path / "argv").exists()]
    return [RunDir(path) for path in sorted(found, key=lambda path: (path / "argv").stat().st_mtime_ns)]
