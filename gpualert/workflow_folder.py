"""
What is kept of a workflow while it runs: one folder, written by the process that drives it, read by the summary.

    workflows/<workflow>/workflow.json   which workflow it is, and which process drives it
    workflows/<workflow>/jobs.jsonl      a line for each failure the engine told of, and for each job that passed later
    workflows/<workflow>/logs/           copies of the failed jobs' logs: the next attempt overwrites them
    workflows/<workflow>/end.json        how many jobs it did of how many; missing where its process was killed
    workflows/<workflow>/told            its summary is on its way
    workflows/<workflow>/<key>.jsonl     see engine_attempts.py
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gpualert.errors import GpualertError, UnsafeFileError
from gpualert.files import make_private_folder, open_regular, write_atomically
from gpualert.history import end_of_history
from gpualert.jsonfiles import append_line, plain, read_json, read_lines, write_json
from gpualert.model import SCHEMA
from gpualert.signals.process import is_alive, starttime_of, this_machine

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")
# Others are read where they are; the next attempt may have overwritten them by then.
_COPY_LIMIT_BYTES, _MOST_COPIES = 2 << 20, 200
# So long the process that sends the summary at the end may take.
_GRACE_S = 90.0


class WorkflowError(GpualertError):
    """
    A workflow's folder cannot be used.

    Attributes:
        path: The folder or file.
        reason: Why.
    """

    def __init__(self, path: Path, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(f"cannot use workflow '{path}': {reason}; see: gpualert workflow")


@dataclass(frozen=True)
class FailedJob:
    """
    A failure that the engine told of.

    Attributes:
        key: The job's name within its workflow, see `engine_attempts.job_key`.
        attempt: Its number from 1.
        exit_status: As the engine told it; None where it did not.
        external_job: The scheduler's number of it, or "".
        said: The engine's words.
        logs: The job's log files.
        copies: Copies of them, those that could be made, by the path of the log.
    """

    at: float
    key: str
    rule: str
    wildcards: str
    jobid: str
    attempt: int
    exit_status: int | None
    external_job: str
    said: str
    logs: tuple[str, ...]
    copies: Mapping[str, Path] | None = None


@dataclass(frozen=True)
class Workflow:
    """
    A workflow that is or was followed.

    Attributes:
        name: Its file, such as a Snakefile.
        pid, pid_starttime: The process that drives it; 0 where it is on another machine.
        history_end: Where the history ended when it began: what it did comes after.
        is_counted: Whether that process tells of every job and of its own end.
        is_gated: Whether jobs that only a person can mend are not tried again (GPUALERT_GATE=stop).
        ended_at: None until its end was told, or noticed.
        done, total: How many jobs it did of how many; None where nobody counted.
    """

    path: Path
    workflow: str
    engine: str
    name: str
    cwd: str
    host: str
    boot_id: str
    pid_ns: str
    pid: int
    pid_starttime: int | None
    started_at: float
    history_end: tuple[int, int]
    is_counted: bool
    is_gated: bool
    ended_at: float | None = None
    done: int | None = None
    total: int | None = None


@dataclass(frozen=True)
class WorkflowFolder:
    """The folder of one workflow."""

    path: Path

    def keep_logs(self, job: FailedJob) -> FailedJob:
        """Keep what the logs of a failed job say now; one that cannot be read or is large is left where it is."""
        copies = {}
        for number, log in enumerate(job.logs):
            with suppress(OSError, UnsafeFileError):
                name = f"{job.key}-{job.attempt}-{number}"
                if self._copy(Path(log), name):
                    copies[log] = self.path / "logs" / name
        return replace(job, copies=copies)

    def add_failed(self, job: FailedJob) -> None:
        """
        Write down a failure.

        Raises:
            OSError: The disk is full.
        """
        copies = {log: path.name for log, path in (job.copies or {}).items()}
        append_line(
            self.path / "jobs.jsonl", {"schema": SCHEMA, "event": "failed", **plain(job), "copies": plain(copies)}
        )

    def add_passed(self, key: str, at: float) -> None:
        """Write down that a job that had failed passed."""
        append_line(self.path / "jobs.jsonl", {"schema": SCHEMA, "event": "passed", "key": key, "at": at})

    def end(self, at: float, done: int | None = None, total: int | None = None) -> None:
        """Write down that the workflow has ended; without counts where its end was only noticed."""
        write_json(self.path / "end.json", {"schema": SCHEMA, "ended_at": at, "done": done, "total": total})

    def _copy(self, log: Path, name: str) -> bool:
        folder = self.path / "logs"
        with os.fdopen(open_regular(log), "rb") as file:
            make_private_folder(folder)
            if os.fstat(file.fileno()).st_size > _COPY_LIMIT_BYTES or len(list(folder.iterdir())) >= _MOST_COPIES:
                return False
            write_atomically(folder / name, file.read(_COPY_LIMIT_BYTES))
        return True

    def read(self) -> Workflow:
        """
        Read which workflow it is, and how it ended.

        Raises:
            WorkflowError: It is missing or malformed.
        """
        try:
            known = read_json(self.path / "workflow.json")
            with suppress(FileNotFoundError):
                known |= read_json(self.path / "end.json")
            return Workflow(
                path=self.path,
                workflow=self.path.name,
                **{name: str(known.get(name, "")) for name in ("engine", "name", "cwd", "host", "boot_id", "pid_ns")},
                pid=int(known["pid"]),
                pid_starttime=known.get("pid_starttime"),
                started_at=float(known["started_at"]),
                history_end=(int(known.get("history_inode", 0)), int(known.get("history_bytes", 0))),
                is_counted=bool(known.get("is_counted", True)),
                is_gated=bool(known.get("is_gated", False)),
                ended_at=known.get("ended_at"),
                done=known.get("done"),
                total=known.get("total"),
            )
        except (OSError, UnsafeFileError) as error:
            raise WorkflowError(self.path, getattr(error, "strerror", None) or str(error)) from error
        except (KeyError, TypeError, ValueError) as error:
            raise WorkflowError(self.path / "workflow.json", f"{type(error).__name__}: {error}") from error

    def failures(self) -> tuple[list[FailedJob], dict[str, float], list[str]]:
        """Return the failures that the engine told of, when a job passed after all, and what could not be read."""
        failed, passed, troubles = [], {}, []
        try:
            for number, line in read_lines(self.path / "jobs.jsonl"):
                try:
                    if line is None:
                        raise ValueError("it is no object")
                    if line["event"] == "passed":
                        passed[str(line["key"])] = float(line["at"])
                    elif line["event"] == "failed":
                        failed.append(self._failed(line))
                except (KeyError, TypeError, ValueError) as error:
                    troubles.append(f"line {number} of '{self.path / 'jobs.jsonl'}': {type(error).__name__}: {error}")
        except (OSError, UnsafeFileError) as error:
            troubles.append(f"'{self.path / 'jobs.jsonl'}': {error}")
        return failed, passed, troubles

    def _failed(self, line: Mapping[str, Any]) -> FailedJob:
        copies = {str(log): self.path / "logs" / Path(str(name)).name for log, name in line.get("copies", {}).items()}
        return FailedJob(
            at=float(line["at"]),
            **{name: str(line[name]) for name in ("key", "rule", "wildcards", "jobid", "external_job", "said")},
            attempt=int(line["attempt"]),
            exit_status=None if line["exit_status"] is None else int(line["exit_status"]),
            logs=tuple(map(str, line["logs"])),
            copies=copies,
        )

    def last_sign_at(self) -> float:
        """Return when something was last written here."""
        return max(path.lstat().st_mtime for path in (self.path, *self.path.glob("*.json*")))

    @property
    def is_told(self) -> bool:
        """Whether the summary is on its way."""
        return (self.path / "told").exists()

    def mark_told(self) -> None:
        """Remember that it is."""
        write_atomically(self.path / "told", b"")


def begin(
    state: Path,
    workflow: str,
    *,
    engine: str,
    name: str,
    started_at: float,
    pid: int | None = None,
    is_counted: bool = True,
) -> WorkflowFolder:
    """
    Make the folder of a workflow that has just begun.

    Args:
        pid: The process that drives it; this one by default, 0 where it is on another machine.
        is_counted: Whether that process will tell of every job and of its own end.

    Raises:
        OSError: It cannot be written.
    """
    here, pid = this_machine(), os.getpid() if pid is None else pid
    folder = WorkflowFolder(state / "workflows" / workflow)
    make_private_folder(folder.path)
    inode, n_bytes = end_of_history(state)
    write_json(
        folder.path / "workflow.json",
        {
            "schema": SCHEMA,
            "engine": engine,
            "name": name,
            "cwd": str(Path.cwd()),
            **plain(here),
            "pid": pid,
            "pid_starttime": starttime_of(pid) if pid else None,
            "started_at": started_at,
            "is_counted": is_counted,
            "is_gated": os.environ.get("GPUALERT_GATE") == "stop",
            "history_inode": inode,
            "history_bytes": n_bytes,
        },
    )
    return folder


def has_ended(workflow: Workflow) -> bool | None:
    """Say whether a workflow has ended; None where nobody here can say."""
    if workflow.ended_at is not None:
        return True
    if not workflow.pid:
        return _is_unlocked(Path(workflow.cwd))
    here = this_machine()
    if here.host != workflow.host:
        return None
    if here.boot_id != workflow.boot_id:
        return True
    if here.pid_ns != workflow.pid_ns:
        return None
    alive = is_alive(workflow.pid, workflow.pid_starttime)
    return None if alive is None else not alive


def _is_unlocked(folder: Path) -> bool | None:
    """Say whether Snakemake has left a working directory; None where that cannot be seen."""
    try:
        return not any((folder / ".snakemake" / "locks").iterdir())
    except OSError:
        return None


def find_workflow(word: str, folders: Iterable[Path]) -> WorkflowFolder:
    """
    Return the workflow that a user means: `last`, its id, or the beginning of that.

    Raises:
        WorkflowError: There is none, or more than one.
    """
    known = list(workflows(folders))
    exact = [folder for folder in known if folder.path.name == word]
    found = known[-1:] if word == "last" else exact or [folder for folder in known if folder.path.name.startswith(word)]
    if len(found) == 1:
        return found[0]
    names = ", ".join(folder.path.name for folder in (found or known)[-5:])
    raise WorkflowError(
        Path(word), f"{'more than one' if found else 'none'} has that name" + (f"; there are {names}" if names else "")
    )


def workflows(folders: Iterable[Path]) -> Iterator[WorkflowFolder]:
    """Yield the workflows that were followed, the oldest first."""
    paths = [path.parent for state in folders for path in (state / "workflows").glob("*/workflow.json")]
    for path in sorted(paths, key=lambda path: path.name):
        if _NAME.fullmatch(path.name) and not path.is_symlink():
            yield WorkflowFolder(path)


def untold(state: Path, now: float) -> Iterator[WorkflowFolder]:
    """Yield the workflows whose end nobody has told: their process was killed, or the one that sends the summary."""
    for folder in workflows([state]):
        try:
            if folder.is_told or now - folder.last_sign_at() < _GRACE_S or not has_ended(folder.read()):
                continue
        except (OSError, WorkflowError):
            continue
        yield folder
