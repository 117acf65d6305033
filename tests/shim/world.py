"""A scratch world in which one command runs bare and through the shim, under the same conditions."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from .records import RunDir, runs_in
from .waiting import eventually, is_alive, stat_fields

GPUALERT = Path(__file__).parents[2] / "bash" / "gpualert"
PROBE = Path(__file__).with_name("probe.py")
SHELLS = {"dash": ["dash"], "bash": ["bash"], "busybox": ["busybox", "ash"], "zsh": ["zsh", "--emulate", "sh"]}
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
DEADLINE_S = 30.0

Bytes = bytes | IO[bytes] | int | None


def shell_argv(name: str) -> list[str]:
    """Return the words that start a shell, its program as an absolute path."""
    program, *words = SHELLS[name]
    found = shutil.which(program, path=SYSTEM_PATH)
    assert found, f"{program} is not installed; every shell is required (GPUALERT_TEST_SHELLS narrows them)"
    return [found, *words]


def shell_status(returncode: int) -> int:
    """Return what a shell's $? would be."""
    return returncode if returncode >= 0 else 128 - returncode


@dataclass(frozen=True)
class Result:
    """
    What became of one command.

    Attributes:
        returncode: As `subprocess` reports it: minus the signal where it died of one.
        stderr: The job's own, without the shim's lines.
        complaints: The shim's lines on stderr.
        run: The run directory, where the shim made one in the state folder.
    """

    pid: int
    returncode: int
    stdout: bytes
    stderr: bytes
    complaints: tuple[str, ...] = ()
    run: RunDir | None = None

    @property
    def status(self) -> int:
        """What a shell's $? would be."""
        return shell_status(self.returncode)

    @property
    def recorded(self) -> RunDir:
        """The run directory; fails where there is none."""
        assert self.run, f"no run directory; status {self.returncode}, stderr {self.stderr!r} {self.complaints}"
        return self.run


@dataclass(frozen=True)
class Pair:
    """One command, run bare and through the shim."""

    bare: Result
    run: Result

    def assert_same(self) -> None:
        """Fail unless status, stdout and stderr are equal and the shim said nothing."""
        self.assert_same_job()
        assert self.run.complaints == ()

    def assert_same_job(self) -> None:
        """Fail unless status, stdout and stderr of the job are equal, whatever the shim had to say."""
        assert self.run.status == self.bare.status, self.run
        assert self.run.stdout == self.bare.stdout
        assert self.run.stderr == self.bare.stderr


def split_complaints(stderr: bytes) -> tuple[bytes, tuple[str, ...]]:
    """Return the job's stderr and the shim's own lines in it."""
    lines = stderr.splitlines(keepends=True)
    ours = [line for line in lines if line.startswith(b"gpualert: ")]
    theirs = [line for line in lines if not line.startswith(b"gpualert: ")]
    return b"".join(theirs), tuple(line.decode(errors="replace").rstrip("\n") for line in ours)


@dataclass
class World:
    """HOME, TMPDIR, state and working folder of one test, and the shell that runs the shim."""

    root: Path
    shell: str
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)
    known: set[Path] = field(default_factory=set)
    script: Path = GPUALERT

    def __post_init__(self) -> None:
        for folder in (self.home, self.tmp, self.cwd):
            folder.mkdir(parents=True, exist_ok=True)

    home = property(lambda self: self.root / "home")
    tmp = property(lambda self: self.root / "tmp")
    cwd = property(lambda self: self.root / "cwd")
    state = property(lambda self: self.root / "state")

    @property
    def shim(self) -> list[str]:
        """The words that start the shim in this world's shell."""
        return [*shell_argv(self.shell), str(self.script)]

    def environment(self, changes: dict[Any, Any] | None = None) -> dict[bytes, bytes]:
        """Return the environment of the caller; a change to None takes a name away."""
        values: dict[Any, Any] = {
            "HOME": str(self.home),
            "PATH": SYSTEM_PATH,
            "TMPDIR": str(self.tmp),
            "LC_ALL": "C.UTF-8",
            "GPUALERT_HOME": str(self.state),
            "GPUALERT_POST": "tick",
            "GPUALERT_TEST_WORLD": str(self.root),
        }
        values |= changes or {}
        return {os.fsencode(key): os.fsencode(value) for key, value in values.items() if value is not None}

    def start(
        self,
        *words: Any,
        env: dict[Any, Any] | None = None,
        via: str = "",
        stdin: Bytes = subprocess.DEVNULL,
        stdout: Bytes = subprocess.PIPE,
        stderr: Bytes = subprocess.PIPE,
        cwd: Path | None = None,
        **how: Any,
    ) -> subprocess.Popen[bytes]:
        """
        Start a command in a session of its own.

        Args:
            via: A line of sh that sets the stage and then runs `"$@"`, the command.
            how: More of `subprocess.Popen`: pass_fds, preexec_fn ...
        """
        argv = [os.fsencode(word) for word in words]
        if via:
            argv = [b"/bin/sh", b"-c", via.encode(), b"sh", *argv]
        process = subprocess.Popen(
            argv,
            env=self.environment(env),
            stdin=subprocess.PIPE if isinstance(stdin, bytes) else stdin,
            stdout=stdout,  # type: ignore[arg-type]
            stderr=stderr,  # type: ignore[arg-type]
            cwd=cwd or self.cwd,
            start_new_session=True,
            **how,
        )
        self.started.append(process)
        return process

    def start_run(self, *command: Any, options: tuple[Any, ...] = (), **how: Any) -> subprocess.Popen[bytes]:
        """Start a command through the shim."""
        return self.start(*self.shim, "run", *options, "--", *command, **how)

    def bare(self, *command: Any, **how: Any) -> Result:
        """Run a command without the shim."""
        process, stdout, stderr = self._finish(self.start(*command, **how), how.get("stdin"))
        return Result(process.pid, process.returncode, stdout, stderr)

    def run(self, *command: Any, options: tuple[Any, ...] = (), **how: Any) -> Result:
        """Run a command through the shim."""
        return self.collect(self.start_run(*command, options=options, **how), how.get("stdin"))

    def both(self, *command: Any, options: tuple[Any, ...] = (), **how: Any) -> Pair:
        """Run a command bare, then through the shim, in the same way."""
        return Pair(self.bare(*command, **how), self.run(*command, options=options, **how))

    def call(self, *words: Any, **how: Any) -> Result:
        """Run the shim with these very words."""
        return self.collect(self.start(*self.shim, *words, **how), how.get("stdin"))

    def collect(self, process: subprocess.Popen[bytes], stdin: Bytes = None) -> Result:
        """Return what became of a process that runs the shim; its run is the newest of those not seen before."""
        process, stdout, stderr = self._finish(process, stdin)
        theirs, ours = split_complaints(stderr)
        runs = [run for run in self.runs() if run.path not in self.known]
        self.known.update(run.path for run in runs)
        return Result(process.pid, process.returncode, stdout, theirs, ours, runs[-1] if runs else None)

    def _finish(self, process: subprocess.Popen[bytes], stdin: Bytes) -> tuple[subprocess.Popen[bytes], bytes, bytes]:
        given = stdin if isinstance(stdin, bytes) else None
        stdout, stderr = process.communicate(given, timeout=DEADLINE_S)
        return process, stdout or b"", stderr or b""

    def runs(self) -> list[RunDir]:
        """Return the run directories of the state folder, oldest first."""
        return runs_in(self.state)

    def only_run(self) -> RunDir:
        """Return the run directory once there is one with a start record; fails where there are more."""
        eventually(lambda: any(run.has("start") for run in self.runs()), "a run to start")
        (run,) = self.runs()
        return run

    def probe(self, *words: Any, **how: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return what a job sees bare and what it sees through the shim."""
        report = self.root / "probe.json"
        seen = []
        for start in (self.bare, self.run):
            report.unlink(missing_ok=True)
            result = start(sys.executable, "-I", "-S", PROBE, report, *words, **how)
            assert report.exists(), result
            seen.append(json.loads(report.read_text()) | {"caller": result.pid})
        return seen[0], seen[1]

    def processes(self) -> set[int]:
        """Return the live processes of this world, known by a mark in their environment."""
        mark = b"GPUALERT_TEST_WORLD=" + os.fsencode(self.root)
        found = set()
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    if mark in (entry / "environ").read_bytes().split(b"\0") and is_alive(int(entry.name)):
                        found.add(int(entry.name))
        return found

    def close(self) -> None:
        """End what the test left behind."""
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in self.started:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream:
                    with contextlib.suppress(OSError):
                        stream.close()


@contextlib.contextmanager
def opened(path: Path, flags: int, mode: int = 0o600) -> Iterator[int]:
    """Open a descriptor for the length of a block."""
    descriptor = os.open(path, flags, mode)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def group_of(pgid: int) -> list[int]:
    """Return the live processes of a process group, oldest first."""
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return sorted(pid for pid in pids if is_alive(pid) and stat_fields(pid)[2:3] == [str(pgid)])


def parent_of(pid: int) -> int:
    """Return the parent's process id."""
    return int(stat_fields(pid)[1])
