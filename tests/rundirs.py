"""Run directories for tests, with sensible defaults."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from gpualert.signals.process import this_machine

NOW = 1_795_964_000.0  # 2026-11-29 14:53:20 UTC
RUN_ID = "20261129T145138Z-node03-3f9a1c2e"


class RunBuilder:
    """Makes run directories as the shim would leave them; call it with what differs from a failed `python train.py`."""

    def __init__(self, state: Path) -> None:
        self.state = state

    def __call__(
        self,
        run_id: str = RUN_ID,
        *,
        argv: Iterable[str | bytes] = ("python", "train.py"),
        cwd: str | bytes | None = None,
        log: bytes | None = b"ValueError: bad value\n",
        options: Mapping[str, object] | Iterable[tuple[str, object]] = (),
        start: Mapping[str, object] | None = None,
        exit: Mapping[str, object] | None = None,
        started: bool = True,
        ended: bool = True,
    ) -> Path:
        """
        Make one run directory and return its path.

        Args:
            log: Content of `output.log`; None makes no log.
            start, exit: Keys that differ from the defaults; None as a value leaves the key out.
            started, ended: Whether those records exist.
        """
        path = self.state / "runs" / run_id
        path.mkdir(parents=True, mode=0o700)
        for folder in (self.state, self.state / "runs", path):
            folder.chmod(0o700)
        (path / "format").write_text("gpualert-run/1\n")
        (path / "argv").write_bytes(items(argv))
        (path / "cwd").write_bytes(items([cwd or str(self.state.parent)]))
        (path / "lock").touch()
        pairs = options.items() if isinstance(options, Mapping) else options
        if words := [f"{key}={value}" for key, value in pairs]:
            (path / "options").write_bytes(items(words))
        if log is not None:
            (path / "output.log").write_bytes(log)
        here = this_machine()
        if started:
            defaults = {"run_id": run_id, "host": here.host, "boot_id": here.boot_id, "pid_ns": here.pid_ns}
            defaults |= {"pid": gone_pid(), "pid_starttime": 1, "started_at": NOW - 100, "shell": "dash", "combined": 1}
            defaults |= {"stdout": "tee", "stderr": "tee", "stdout_tee_pid": gone_pid()}
            (path / "start").write_bytes(record({**defaults, **(start or {})}))
        if ended:
            defaults = {"status": 1, "signal": "", "timed_out": "", "ended_at": NOW}
            (path / "exit").write_bytes(record({**defaults, **(exit or {})}))
        return path


def items(words: Iterable[str | bytes]) -> bytes:
    """Return words as a file of NUL-terminated items."""
    return b"".join(os.fsencode(word) + b"\0" for word in words)


def record(values: Mapping[str, object]) -> bytes:
    """Return a complete `key=value` file."""
    lines = [f"{key}={value}" for key, value in values.items() if value is not None]
    return ("\n".join([*lines, "end=1"]) + "\n").encode()


def gone_pid() -> int:
    """Return the number of a process that does not exist."""
    return int(Path("/proc/sys/kernel/pid_max").read_text()) - 1
