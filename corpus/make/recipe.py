"""What a recipe is: a label, and how the logs come to be."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# Each class and the retry decision that is right for it, unless a case's label says otherwise.
ACTIONS: Mapping[str, str] = {
    name: action
    for action, names in {
        "bigger": "cuda_oom ram_oom oom_killer disk_full shm_exhausted",
        "retry": "nccl storage_io network port_in_use rendezvous hang launch_failed",
        "elsewhere": "gpu_hardware cuda_driver node_failure",
        "resume": "walltime preempted",
        "once": "cuda_runtime segfault nan_loss cublas_cudnn dataloader_worker unknown",
        "none": "interrupted success",
        "fix": "file_not_found permission missing_module div_zero device_mismatch traceback assertion runtime_error"
        " cuda_arch auth checkpoint_corrupt checkpoint_mismatch shape_mismatch dtype_mismatch config_error"
        " syntax_error library_abi command_not_found too_many_files thread_limit",
    }.items()
    for name in names.split()
}
# The published taxonomy, of which the corpus holds twice as many cases.
PUBLISHED = frozenset(
    (
        *("cuda_oom", "nccl", "cuda_runtime", "ram_oom", "segfault", "file_not_found", "permission", "missing_module"),
        *("div_zero", "device_mismatch", "nan_loss", "oom_killer", "traceback", "assertion", "runtime_error"),
    )
)
LICENCE = "CC0-1.0"


@dataclass(frozen=True)
class World:
    """
    Where a job of our own making runs, when it does not run in the box.

    Attributes:
        project: Where its files lie; in the case this is `/home/user/project`.
        state: Its GPUALERT_HOME, where its run directories are looked for afterwards.
        shim: The command `gpualert`.
        python: The interpreter for the job and for gpualert.
    """

    project: Path
    state: Path
    shim: Path
    python: Path


# Runs the job; returns what must be replaced in the logs, beyond what the workshop knows of: text by text.
Play = Callable[[World], Mapping[str, str]]


@dataclass(frozen=True)
class Job:
    """
    A job that is run for real, in a box of its own: an ordinary user `user` on a host `node01` without a network.

    Attributes:
        command: A line of sh; it is run as `gpualert run [options] -- COMMAND` in `/home/user/project`, as one
            program with its arguments.  What needs a shell says so: `sh job.sh`.
        options: Of `gpualert run`.
        prepare: Lines of sh that root runs in the project folder before: mounts, modes, compilers.
        launch: Lines of sh in place of `gpualert run [options] -- COMMAND`, where there is more to do than that.
        split: Standard output and standard error go to two places, so that there are two logs.
        as_root: The job runs as root, which also sees the kernel's log.
        memory_mib, pids: What its control groups allow.
        shm_mib: The size of its /dev/shm.
        limit_s: It must have ended by then.
    """

    command: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    options: str = ""
    prepare: str = ""
    launch: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    split: bool = False
    as_root: bool = False
    memory_mib: int = 4096
    pids: int = 1024
    shm_mib: int = 512
    limit_s: float = 120.0


@dataclass(frozen=True)
class Text:
    """
    A run as it would have been recorded, where nobody can have it for real.

    Attributes:
        log: The bytes of both streams.
        command: The command line.
        facts: What was known beside the log: keys of `facts` in evidence.json, such as scheduler_state, oom_kills,
            gpu_allotted, evidence (objects with source, text, and perhaps host and parameters).
        rank, host: Of one of several runs of one job.
    """

    log: str
    command: str = "python train.py"
    status: int | None = 1
    signal: int | None = None
    timed_out: bool = False
    facts: Mapping[str, object] = field(default_factory=dict)
    rank: int | None = None
    host: str = "node01"


@dataclass(frozen=True)
class Recipe:
    """
    One case of the corpus.

    Attributes:
        name: `<class>/<case>`; no two have the same.
        job: One that is run, one that somebody else runs, or texts: one, or one a rank.
        how: How it was made, in a sentence; of a reconstructed one also its source.
        evidence: What the line contains that shows the cause; "" where no line does.
        evidence_alt: What lines contain that show it as well.
        class_alt: Other classes that are as good an answer.
        action: The right retry decision, where it is not the class's.
        first_rank: The rank that failed first.
        uses: Python distributions and programs that it needs, and whose versions are noted.
        settled: Where a second labeller, without sight of the first label, said otherwise: what was decided, and why.
    """

    name: str
    job: Job | Play | Text | tuple[Text, ...]
    how: str
    evidence: str = ""
    evidence_alt: tuple[str, ...] = ()
    class_alt: tuple[str, ...] = ()
    action: str = ""
    first_rank: int | None = None
    framework: str = "python"
    uses: tuple[str, ...] = ()
    settled: str = ""

    @property
    def failure_class(self) -> str:
        """The class, which is also the folder."""
        return self.name.partition("/")[0]

    @property
    def origin(self) -> str:
        """`produced` by a job that was run, or `reconstructed`."""
        return "reconstructed" if isinstance(self.job, (Text, tuple)) else "produced"

    @property
    def actions(self) -> str:
        """The right retry decision."""
        return self.action or ACTIONS[self.failure_class]


def check(recipes: Iterable[Recipe]) -> list[str]:
    """Return what is wrong with recipes, in a sentence each."""
    wrong, seen = [], set()
    for recipe in recipes:
        kind, _, case = recipe.name.partition("/")
        unknown = [name for name in (kind, *recipe.class_alt) if name not in ACTIONS]
        if unknown:
            wrong.append(f"{recipe.name}: there is no class {', '.join(unknown)}")
        if not case or recipe.name in seen:
            wrong.append(f"{recipe.name}: the case's name is missing or taken")
        seen.add(recipe.name)
    return wrong


def produced(name: str, how: str, evidence: str, command: str = "", **more: Any) -> Recipe:
    """
    Return the recipe of a job that is run in the box.

    Args:
        more: Fields of `Recipe` and of `Job`; and `text`, the content of the program's only file, whose name is the
            first word of `command` that ends as a file's does.
    """
    if "text" in more:
        name_of_file = next(word for word in re.split(r"[\s'\";]+", command) if re.search(r"\w\.[a-z]+$", word))
        more["files"] = {name_of_file.removeprefix("./"): more.pop("text"), **more.get("files", {})}
    of_job = {key: more.pop(key) for key in Job.__dataclass_fields__ if key in more}
    return Recipe(name, Job(command, **of_job), how, evidence, **more)


def compiled(name: str, how: str, evidence: str, source: str, **more: Any) -> Recipe:
    """
    Return the recipe of a program in C that is compiled before and run under its own name, `./solve`.

    Args:
        more: As for `produced`; also `flags` of the compiler, and `command` in place of `./solve`.
    """
    command, flags = more.pop("command", "./solve"), more.pop("flags", "-g -O0")
    prepare = f"gcc {flags} -w -o solve solve.c -lm -lpthread\n{more.pop('prepare', '')}"
    files = {"solve.c": source, **more.pop("files", {})}
    more = {"framework": "c", "uses": ("gcc",), **more}
    return produced(name, how, evidence, command, prepare=prepare, files=files, **more)
