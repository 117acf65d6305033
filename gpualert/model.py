"""The words everyone speaks: frozen data, no behaviour beyond small conversions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import Any

FORMAT = "gpualert-run/1"
SCHEMA = 1

Parameter = str | int | float


def frozen(mapping: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
    """Return a read-only copy of `mapping`; empty for None."""
    return MappingProxyType(dict(mapping or {}))


class RunStatus(str, Enum):
    """How a run stands."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    LOST = "lost"
    UNKNOWN = "unknown"
    RUNNING = "running"


class Role(str, Enum):
    """What a line does in a failure: start it, follow from it, or support it."""

    ROOT = "root"
    CASCADE = "cascade"
    CONFIRMATION = "confirmation"


class Outlook(str, Enum):
    """Whether an unchanged retry could succeed."""

    CANNOT_RECOVER = "cannot_recover"
    MAY_RECOVER = "may_recover"
    UNKNOWN = "unknown"


class Action(str, Enum):
    """The default retry decision of a failure class."""

    FIX = "fix"
    RETRY = "retry"
    ELSEWHERE = "elsewhere"
    BIGGER = "bigger"
    RESUME = "resume"
    ONCE = "once"
    NONE = "none"


class Domain(str, Enum):
    """Whose trouble it is."""

    USER_CODE = "user_code"
    RESOURCES = "resources"
    NODE = "node"
    SCHEDULER = "scheduler"
    SERVICE = "service"
    UNKNOWN = "unknown"


class Confidence(str, Enum):
    """How sure a verdict is."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Capture(str, Enum):
    """What the shim did with a stream of the job."""

    TEE = "tee"
    ADOPT = "adopt"
    PTY = "pty"
    NONE = "none"
    CLOSED = "closed"


@dataclass(frozen=True)
class Stream:
    """
    One captured stream.

    Attributes:
        name: `output` (both streams in one place), `stdout` or `stderr`.
        capture: What the shim did with it.
        path: The file that holds the bytes; None where there is none.
        start: First byte of this run in `path`.
        end: One past its last byte; None where it is not known (yet).
        shared: Whether other writers may have written in the same range.
        tee_pid: The process that copies the stream, or None.
    """

    name: str
    capture: Capture
    path: Path | None
    start: int = 0
    end: int | None = None
    shared: bool = False
    tee_pid: int | None = None


@dataclass(frozen=True)
class Start:
    """The record written by the forked child just before it became the job (file `start`)."""

    run_id: str
    host: str
    pid: int
    pid_starttime: int | None
    started_at: float
    boot_id: str = ""
    pid_ns: str = ""
    node: str = ""
    parent_run_id: str = ""
    shell: str = ""
    chain: str = ""
    attempt: int = 1
    engine: str = ""
    slurm_job_id: str = ""
    slurm_step_id: str = ""
    slurm_procid: str = ""
    slurm_restart_count: int = 0
    slurm_array_job_id: str = ""
    slurm_array_task_id: str = ""
    group: str = ""
    group_size: int | None = None
    group_rank: int | None = None
    previous_run_id: str = ""
    cgroup: str = ""
    cgroup_oom_kill: int | None = None
    max_log_bytes: int | None = None
    extra: Mapping[str, str] = field(default_factory=frozen)


@dataclass(frozen=True)
class Exit:
    """The record written by the recorder at the job's death (file `exit`)."""

    status: int
    signal: int | None
    timed_out: bool
    ended_at: float
    cgroup_oom_kill: int | None = None
    extra: Mapping[str, str] = field(default_factory=frozen)


@dataclass(frozen=True)
class Options:
    """What the user asked of one run (file `options`)."""

    to: tuple[str, ...] = ()
    attach: tuple[str, ...] = ()
    mail: bool = True
    log: bool = True
    longer_than_s: float | None = None
    timeout_s: float | None = None
    on_failure: tuple[str, ...] = ()
    ping_url: str = ""


@dataclass(frozen=True)
class Run:
    """
    One execution, as its run directory tells it.

    Attributes:
        path: The run directory.
        argv: The command's words; empty only when the launch was abandoned before they were written.
        start: None when the job was never started.
        exit: None when it has not ended, or nobody saw it end.
    """

    path: Path
    run_id: str
    argv: tuple[str, ...]
    cwd: str
    name: str
    options: Options
    streams: tuple[Stream, ...]
    start: Start | None
    exit: Exit | None
    engine: Mapping[str, str] = field(default_factory=frozen)


@dataclass(frozen=True)
class Evidence:
    """
    One line that speaks.

    Attributes:
        source: `log` or the signal it came from (`slurm`, `kernel`, `cgroup`, `status`).
        file: The log's name, or "" for a signal.
        line: Line number from 1 in that log, as an editor counts; 0 when there is none.
        text: The original line without its line end, at most 2,000 characters.
        rank: The rank that wrote it, or None.
        host: The host that wrote it, or "".
        parameters: Typed values: xid, pci, errno, signal, step, bytes, path, port ...
        frame: The last frame of the user's own code beside a Python exception, or "".
    """

    source: str
    file: str
    line: int
    text: str
    rank: int | None = None
    host: str = ""
    parameters: Mapping[str, Parameter] = field(default_factory=frozen)
    frame: str = ""


@dataclass(frozen=True)
class RunnerUp:
    """A class that was considered and lost."""

    failure_class: str
    evidence: Evidence


@dataclass(frozen=True)
class Verdict:
    """
    What ended a run.

    Attributes:
        exited_zero: The status was 0 although the run failed.
        paper_class: The published fifteen's name for the class, or "" where it has none.
        evidence: Most telling first; empty for `unknown` and some `success`.
        first_rank: The rank that failed first, or None.
        first_node: The node it was on, or "".
        first_gpu: Its GPU: a PCI address where one is known, else its number on that node, or "".
        not_read: What could not be looked at, each with its reason.
        fingerprint: Equal for the same fault in another run.
    """

    status: RunStatus
    exited_zero: bool
    failure_class: str
    paper_class: str
    role: Role
    outlook: Outlook
    action: Action
    title: str
    advice: str
    confidence: Confidence
    domain: Domain
    evidence: tuple[Evidence, ...] = ()
    first_rank: int | None = None
    runners_up: tuple[RunnerUp, ...] = ()
    not_read: tuple[str, ...] = ()
    fingerprint: str = ""
    notes: tuple[str, ...] = ()
    first_node: str = ""
    first_gpu: str = ""


@dataclass(frozen=True)
class Facts:
    """
    What is known of a run beside its logs; each fact is one vote.

    Attributes:
        status: The exit status, or None where nobody saw the end.
        signal: The signal that killed the job, or None where it is not known or there was none.
        timed_out: Our own `--timeout` ended it.
        oom_kills: Kills by the kernel in the run's own cgroup while it ran, or None where not read.
        duration_s: How long it ran, or None.
        scheduler_state: The scheduler's own word (`TIMEOUT`, `OUT_OF_MEMORY`, ...), or "".
        host: The node the run was on, or "".
        gpu_allotted: Whether the run had a GPU to use; None where not known.
        evidence: Lines that signals (kernel, scheduler, cgroup) contribute.
        not_read: What could not be read, each with its reason.
    """

    status: int | None = None
    signal: int | None = None
    timed_out: bool = False
    oom_kills: int | None = None
    duration_s: float | None = None
    scheduler_state: str = ""
    host: str = ""
    gpu_allotted: bool | None = None
    evidence: tuple[Evidence, ...] = ()
    not_read: tuple[str, ...] = ()


@dataclass(frozen=True)
class LogFile:
    """
    One log to classify.

    Attributes:
        name: What the evidence calls it.
        path: Where its bytes are; gzip is recognised by content.
        start: First byte to read.
        end: One past the last byte to read; None reads to the end.
    """

    name: str
    path: Path
    start: int = 0
    end: int | None = None


class ChainEnd(str, Enum):
    """How a chain of retries came to its end."""

    SAVED = "saved"
    GAVE_UP = "gave_up"
    NEEDS_PERSON = "needs_person"
    STOPPED = "stopped"


@dataclass(frozen=True)
class RetryDecision:
    """
    Whether a run is tried again, after how long, and why.

    Attributes:
        end: How the chain ends; None where it goes on.
        exclude: The nodes that the next attempt must avoid.
        history: What each attempt so far came to, in a sentence each, for the message.
    """

    retry: bool
    delay_s: float
    reason: str
    end: ChainEnd | None = None
    exclude: tuple[str, ...] = ()
    history: tuple[str, ...] = ()


@dataclass(frozen=True)
class Artifact:
    """
    One file the message speaks of.

    Attributes:
        name: What the attachment is called.
        path: Where it lies.
        size_bytes: Its size on disk.
        attached: Whether its content goes along.
        reason: Why it does not, or how it was shortened; "" for a file sent whole.
        content: The bytes to attach (already redacted and perhaps compressed); empty when not attached.
        omitted_lines: How many lines were left out of the middle.
        redactions: How many secrets were taken out of `content`.
    """

    name: str
    path: Path
    size_bytes: int
    attached: bool
    reason: str = ""
    content: bytes = b""
    media_type: str = "application/octet-stream"
    omitted_lines: int = 0
    redactions: int = 0
