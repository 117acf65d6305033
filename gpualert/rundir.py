"""Read a run directory as FORMAT.md describes it: skip what is unknown, refuse what cannot be trusted."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn, TypeVar

from gpualert.errors import RunDirError, UnsafeFileError
from gpualert.files import open_folder, read_regular
from gpualert.model import FORMAT, Capture, Exit, Options, Run, Start, Stream, frozen

# The longest a command line can be on Linux (a quarter of an 8 MiB stack); Source: execve(2).
_TEXT_LIMIT_BYTES = 4 << 20
_RECORD_LIMIT_BYTES = 64 << 10
_RECORD_KEY = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z")
_START_KEYS = frozenset(Start.__dataclass_fields__) - {"extra"}
_EXIT_KEYS = frozenset(Exit.__dataclass_fields__) - {"extra"}

_Value = TypeVar("_Value")


def read_run(path: Path, *, shared: bool = False) -> Run:
    """
    Read the run directory `path`.

    Files that do not exist yet leave their part empty: no `start` means not started, no `exit` not ended.

    Args:
        shared: As `open_folder`.

    Raises:
        RunDirError: It is missing, unreadable, of another format, or a required key is malformed.
    """
    return _read(path, _Reader.run, shared)


def skim_run(path: Path) -> Run:
    """
    Read how the run in `path` started and ended, and no more: for those who count thousands.

    Raises:
        RunDirError: As `read_run`.
    """
    return _read(path, _Reader.skimmed)


def _read(path: Path, part: Callable[[_Reader], Run], shared: bool = False) -> Run:
    try:
        with open_folder(path, shared=shared) as dir_fd:
            return part(_Reader(path, dir_fd))
    except UnsafeFileError as error:
        inside = error.path.parent == path
        raise RunDirError(path, error.path.name if inside else ".", error.reason) from error
    except OSError as error:
        raise RunDirError(path, str(error.filename or "."), error.strerror or str(error)) from error


def has_ended(path: Path) -> bool:
    """Say whether the run directory holds a complete exit record, without reading the rest of it."""
    try:
        with open_folder(path) as dir_fd:
            return _Reader(path, dir_fd).exit() is not None
    except (OSError, UnsafeFileError, RunDirError):
        return False


@dataclass(frozen=True)
class _Reader:
    """
    One open run directory.

    Attributes:
        path: The run directory, for errors.
        dir_fd: Its descriptor; every file is opened relative to it.
    """

    path: Path
    dir_fd: int

    def run(self) -> Run:
        """Read all of it."""
        self._check_format()
        start_record = self._record("start")
        # `exit` is read last: what it closes has been written by then.
        start = self._start(start_record) if start_record else None
        exit_record = self._exit_record()
        return Run(
            path=self.path,
            run_id=start.run_id if start else self.path.name,
            argv=tuple(self._texts("argv")),
            cwd=os.fsdecode(self._item("cwd")),
            name=self._item("name").decode("utf-8", "replace"),
            options=self._options(),
            streams=tuple(self._streams(start_record or _Record(self.path, "start"), exit_record)),
            start=start,
            exit=self._exit(exit_record) if exit_record else None,
            engine=frozen(dict(self._pairs("engine"))),
        )

    def skimmed(self) -> Run:
        """Read both records; everything else is left empty."""
        self._check_format()
        record = self._record("start")
        start = self._start(record) if record else None
        run_id = start.run_id if start else self.path.name
        return Run(self.path, run_id, (), "", "", Options(), (), start, self.exit())

    def exit(self) -> Exit | None:
        """Read the exit record only; None while there is no complete one."""
        record = self._exit_record()
        return self._exit(record) if record else None

    def _check_format(self) -> None:
        found = self._bytes("format", 256)
        if found is None:
            raise RunDirError(self.path, "format", "it is missing; is this a run directory?")
        name = found.split(b"\n", 1)[0][:40].decode("ascii", "replace")
        if name != FORMAT:
            raise RunDirError(self.path, "format", f"{name!r} is not {FORMAT!r}; another version of gpualert wrote it")

    def _bytes(self, name: str, limit_bytes: int = _TEXT_LIMIT_BYTES) -> bytes | None:
        """Return a file's bytes, or None where it does not exist."""
        try:
            return read_regular(name, limit_bytes, dir_fd=self.dir_fd, shown=self.path / name)
        except FileNotFoundError:
            return None

    def _items(self, name: str) -> list[bytes]:
        """Return the NUL-terminated items of a file; one that is cut off is left out."""
        return (self._bytes(name) or b"").split(b"\0")[:-1]

    def _item(self, name: str) -> bytes:
        """Return a file's only item, empty where there is none."""
        return next(iter(self._items(name)), b"")

    def _texts(self, name: str) -> list[str]:
        return [item.decode("utf-8", "replace") for item in self._items(name)]

    def _pairs(self, name: str) -> list[tuple[str, str]]:
        pairs = []
        for text in self._texts(name):
            key, equals, value = text.partition("=")
            if not equals:
                raise RunDirError(self.path, name, f"item {text!r} has no '='")
            pairs.append((key, value))
        return pairs

    def _options(self) -> Options:
        pairs = self._pairs("options")
        record = _Record(self.path, "options", dict(pairs))
        return Options(
            to=tuple(value for key, value in pairs if key == "to"),
            attach=tuple(value for key, value in pairs if key == "attach"),
            mail=record.integer("mail", 1) != 0,
            log=record.integer("log", 1) != 0,
            longer_than_s=record.seconds("longer_than_s"),
            timeout_s=record.seconds("timeout_s"),
            on_failure=tuple(value for key, value in pairs if key == "on_failure"),
            ping_url=record.text("ping_url"),
        )

    def _record(self, name: str) -> _Record | None:
        """Return the keys of a complete record; None where it is missing or its writer has not finished it."""
        data = self._bytes(name, _RECORD_LIMIT_BYTES)
        if data is None:
            return None
        text, end, _ = data.decode("utf-8", "replace").partition("\nend=1\n")
        if not end:
            return None
        values: dict[str, str] = {}
        for number, line in enumerate(text.split("\n"), start=1):
            key, equals, value = line.partition("=")
            if not equals or not _RECORD_KEY.match(key):
                raise RunDirError(self.path, name, f"line {number} is not key=value")
            values[key] = value
        return _Record(self.path, name, values)

    def _exit_record(self) -> _Record | None:
        """Return the exit record: one that was finished but never renamed is as good."""
        return self._record("exit") or self._record(".exit")

    def _start(self, record: _Record) -> Start:
        return Start(
            run_id=record.required("run_id"),
            host=record.text("host"),
            pid=record.required_integer("pid", 1, 1 << 31),
            pid_starttime=record.integer("pid_starttime"),
            started_at=self._instant(record, "started_at"),
            boot_id=record.text("boot_id"),
            pid_ns=record.text("pid_ns"),
            node=record.text("node"),
            parent_run_id=record.text("parent_run_id"),
            shell=record.text("shell"),
            chain=record.text("chain"),
            attempt=record.integer("attempt") or 1,
            engine=record.text("engine"),
            slurm_job_id=record.text("slurm_job_id"),
            slurm_step_id=record.text("slurm_step_id"),
            slurm_procid=record.text("slurm_procid"),
            slurm_restart_count=record.integer("slurm_restart_count") or 0,
            slurm_array_job_id=record.text("slurm_array_job_id"),
            slurm_array_task_id=record.text("slurm_array_task_id"),
            group=record.text("group"),
            group_size=record.integer("group_size"),
            group_rank=record.integer("group_rank"),
            previous_run_id=record.text("previous_run_id"),
            cgroup=record.text("cgroup"),
            cgroup_oom_kill=record.integer("cgroup_oom_kill"),
            max_log_bytes=record.integer("max_log_bytes"),
            extra=record.others(_START_KEYS),
        )

    def _exit(self, record: _Record) -> Exit:
        return Exit(
            status=record.required_integer("status", 0, 255),
            signal=record.integer("signal"),
            timed_out=record.integer("timed_out") == 1,
            ended_at=self._instant(record, "ended_at"),
            cgroup_oom_kill=record.integer("cgroup_oom_kill"),
            extra=record.others(_EXIT_KEYS),
        )

    def _instant(self, record: _Record, key: str) -> float:
        """Return an instant; the file's modification time where the shell had no clock."""
        value = record.seconds(key)
        return os.stat(record.file, dir_fd=self.dir_fd).st_mtime if value is None else value

    def _streams(self, start: _Record, exit_record: _Record | None) -> list[Stream]:
        """Describe the captured streams; before `start`, whatever logs lie there."""
        ends = exit_record or _Record(self.path, "exit")
        names = ["stdout"] if start.integer("combined") == 1 else ["stdout", "stderr"]
        if not start.values:
            logs = ("output", "stdout", "stderr")
            return [Stream(name, Capture.TEE, path) for name in logs if (path := self._log(name))]
        return [self._stream(name, "output" if len(names) == 1 else name, start, ends) for name in names]

    def _stream(self, key: str, name: str, start: _Record, ends: _Record) -> Stream:
        capture = start.required_as(key, Capture)
        adopted = capture is Capture.ADOPT
        began = (start.integer(f"{key}_start") or 0) if adopted else 0
        end = ends.integer(f"{key}_end") if adopted else None
        if end is not None and end < began:
            # Opened to append, once for each stream: through this one the run has written nothing.
            end = None
        return Stream(
            name=name,
            capture=capture,
            path=self._adopted(key) if adopted else self._log(name),
            start=began,
            end=end,
            shared=adopted and start.integer(f"{key}_shared") == 1,
            tee_pid=start.integer(f"{key}_tee_pid"),
        )

    def _log(self, name: str) -> Path | None:
        path = self.path / f"{name}.log"
        return path if os.path.lexists(path) else None

    def _adopted(self, key: str) -> Path | None:
        item = self._item(f"{key}.path")
        return Path(os.fsdecode(item)) if item else None


@dataclass(frozen=True)
class _Record:
    """
    The keys of one `key=value` file.

    An empty value is as good as a missing key: the shell could not find out.
    """

    path: Path
    file: str
    values: Mapping[str, str] = field(default_factory=frozen)

    def text(self, key: str) -> str:
        return self.values.get(key, "")

    def others(self, known: frozenset[str]) -> Mapping[str, str]:
        return frozen({key: value for key, value in self.values.items() if key not in known})

    def required(self, key: str) -> str:
        return self.text(key) or self._refuse(key, "it is missing")

    def required_as(self, key: str, kind: Callable[[str], _Value]) -> _Value:
        value = self.required(key)
        try:
            return kind(value)
        except ValueError:
            return self._refuse(key, f"{value!r} is no {kind.__name__.lower()}")

    def required_integer(self, key: str, low: int, high: int) -> int:
        self.required(key)
        number = self.integer(key) or 0
        if not low <= number <= high:
            self._refuse(key, f"{number} is not within {low} and {high}")
        return number

    def integer(self, key: str, default: int | None = None) -> int | None:
        value = self.text(key)
        if not value:
            return default
        # int() would also take '1_000', ' 1 ' and other scripts' digits.
        if not re.fullmatch(r"-?[0-9]{1,20}", value):
            self._refuse(key, f"{value!r} is no number")
        return int(value)

    def seconds(self, key: str) -> float | None:
        value = self.text(key)
        if not value:
            return None
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not 0 <= number < 1e11:
            self._refuse(key, f"{value!r} is no number of seconds")
        return number

    def _refuse(self, key: str, reason: str) -> NoReturn:
        raise RunDirError(self.path, self.file, reason, key)
