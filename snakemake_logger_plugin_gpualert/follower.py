"""
Follows one workflow by what Snakemake logs, and writes what is worth keeping into its folder.

Records come in threads that Snakemake waits for: what is done there is quick, the rest is for a thread of ours.
"""

from __future__ import annotations

import os
import queue
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from logging import LogRecord
from pathlib import Path
from typing import Any

from gpualert.config import state_folder
from gpualert.workflow import job_key, workflow_id
from gpualert.workflow_folder import FailedJob, WorkflowFolder, begin

_END_LIMIT_S, _TOLD_LIMIT_S = 10.0, 20.0
# Source: Python's subprocess.CalledProcessError, whose words Snakemake prints.
_STATUS = re.compile(r"returned non-zero exit status (\d{1,3})\b")
# Source: Snakemake's MissingOutputException.
_WITHOUT_OUTPUT = re.compile(r"^Job (\d+) +completed successfully, but some output files are missing", re.MULTILINE)
_SIGNAL = re.compile(r"died with <Signals\.(\w+): (\d{1,2})>")


@dataclass
class _Job:
    """A job that has been started and has not finished."""

    rule: str
    wildcards: dict[str, str]
    log: tuple[str, ...]
    attempts: int = 0
    last_failed: int = 0  # the attempt; 0 where none has


class Follower:
    """What is known of the workflow that this process drives."""

    def __init__(self) -> None:
        self.workflow = workflow_id()
        self.began_at = time.time()
        self.snakefile = ""
        self.jobs: dict[int, _Job] = {}
        self.started = False
        self.done, self.total = 0, 0
        self.said: dict[str, str] = {}  # the last exception of each thread; its job's error follows
        self.grouped: dict[int, str] = {}  # the scheduler's job that a group of jobs failed in
        self.folder: WorkflowFolder | None = None
        self.writer = _Writer()
        self.lock = threading.Lock()

    def hear(self, record: LogRecord) -> None:
        """Take one record of Snakemake's log."""
        event = str(getattr(record, "event", "") or "")
        handle = _HANDLERS.get(event.rpartition(".")[2].lower())
        if handle is None:
            return
        with self.lock:
            failed = handle(self, record)
        if failed and self.folder:
            # At once: the next attempt overwrites its logs.
            folder, kept = self.folder, self.folder.keep_logs(failed)
            self.writer.do(lambda: folder.add_failed(kept))

    def _workflow_started(self, record: LogRecord) -> None:
        self.snakefile = str(getattr(record, "snakefile_main", "") or "")

    def _run_info(self, record: LogRecord) -> None:
        stats = getattr(record, "stats", None) or {}
        self.total = max(self.total, int(stats.get("total", 0)))

    def _job_started(self, record: LogRecord) -> None:
        if not self.started:
            self.started = True
            state, name = state_folder(), self.snakefile
            self.folder = begin(state, self.workflow, engine="snakemake", name=name, started_at=self.began_at)

    def _job_info(self, record: LogRecord) -> None:
        found: Any = record
        job = self.jobs.get(found.jobid)
        if job is None:
            wildcards = {str(name): str(value) for name, value in (found.wildcards or {}).items()}
            job = self.jobs[found.jobid] = _Job(found.rule_name, wildcards, tuple(map(str, found.log or ())))
        job.attempts += 1

    def _error(self, record: LogRecord) -> FailedJob | None:
        said = record.getMessage()
        if found := _WITHOUT_OUTPUT.search(said):
            # There is no other record of this failure.
            return self._failed(int(found[1]), record.created, said)
        self.said[record.threadName or ""] = said
        return None

    def _job_error(self, record: LogRecord) -> FailedJob | None:
        found: Any = record
        said = self.said.pop(record.threadName or "", "") or str(getattr(found, "rule_msg", "") or "")
        # A job whose first record we missed has no wildcards here.
        self.jobs.setdefault(found.jobid, _Job(found.rule_name, {}, (), 1))
        aux = getattr(found, "aux", None) or {}
        external_job = str(aux.get("external_jobid", "") or "") or self.grouped.pop(found.jobid, "")
        return self._failed(found.jobid, record.created, said, found.log, external_job)

    def _group_error(self, record: LogRecord) -> None:
        found: Any = record
        external_job = str(getattr(found, "external_jobid", "") or "")
        self.grouped |= {int(info["jobid"]): external_job for info in found.job_error_info if external_job}

    def _failed(
        self, jobid: int, at: float, said: str, log: Iterable[str] = (), external_job: str = ""
    ) -> FailedJob | None:
        job = self.jobs.get(jobid)
        if job is None or job.last_failed == job.attempts:
            return None  # some versions tell of a failure twice
        job.last_failed = job.attempts
        return FailedJob(
            at=at,
            key=job_key(job.rule, job.wildcards),
            rule=job.rule,
            wildcards=",".join(f"{name}={value}" for name, value in job.wildcards.items()),
            jobid=str(jobid),
            attempt=job.attempts,
            exit_status=_exit_status(said),
            external_job=external_job,
            said=said[-2000:],
            logs=tuple(str(Path(path).absolute()) for path in log or job.log),
        )

    def _job_finished(self, record: LogRecord) -> None:
        found: Any = record
        self.done += 1
        job = self.jobs.pop(found.job_id, None)
        folder = self.folder
        if job and job.last_failed and folder:
            key, at = job_key(job.rule, job.wildcards), record.created
            self.writer.do(lambda: folder.add_passed(key, at))

    def finish(self) -> None:
        """Write down that the workflow has ended, and have its summary sent."""
        folder = self.folder
        if folder is None:
            return
        ended_at, done, total = time.time(), self.done, max(self.total, self.done)
        self.writer.do(lambda: folder.end(ended_at, done, total))
        self.writer.close(_END_LIMIT_S)
        for trouble in self.writer.troubles:
            print(f"gpualert: {trouble}", file=sys.stderr)
        os.environ.pop("GPUALERT_ENGINE_WORKFLOW", None)  # this process may drive another one
        _tell(self.workflow)


_HANDLERS: dict[str, Callable[[Follower, LogRecord], FailedJob | None]] = {
    "workflow_started": Follower._workflow_started,
    "run_info": Follower._run_info,
    "job_started": Follower._job_started,
    "job_info": Follower._job_info,
    "error": Follower._error,
    "job_error": Follower._job_error,
    "group_error": Follower._group_error,
    "job_finished": Follower._job_finished,
}


def _exit_status(said: str) -> int | None:
    """Return the exit status that Snakemake's words hold, as a shell would report it; None where they hold none."""
    if found := _STATUS.search(said):
        return int(found[1]) & 255
    if found := _SIGNAL.search(said):
        return 128 + int(found[2])
    return None


def _tell(workflow: str) -> None:
    """Have the summary made by a process of its own, which goes on where it takes long."""
    import subprocess

    from gpualert.places import python_command

    process = subprocess.Popen(
        python_command("workflow", "--send", workflow),
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr.fileno() if _has_descriptor(sys.stderr) else subprocess.DEVNULL,
        start_new_session=True,
    )
    with suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
        process.wait(_TOLD_LIMIT_S)


def _has_descriptor(stream: Any) -> bool:
    try:
        return bool(stream.fileno() >= 0)
    except (AttributeError, OSError, ValueError):
        return False


class _Writer:
    """The thread that writes; it ends once nothing more can come."""

    def __init__(self) -> None:
        self.troubles: list[str] = []
        self._waiting: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def do(self, work: Callable[[], None]) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="gpualert", daemon=True)
            self._thread.start()
        self._waiting.put(work)

    def close(self, limit_s: float) -> None:
        self._waiting.put(None)
        if self._thread:
            self._thread.join(limit_s)

    def _work(self) -> None:
        while work := self._waiting.get():
            try:
                work()
            except Exception as error:
                trouble = f"the summary will lack something: {type(error).__name__}: {error}"
                if trouble not in self.troubles:
                    self.troubles.append(trouble)
