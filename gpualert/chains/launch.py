"""Start an attempt through the shim: detached, as it was set up, and once whoever is killed meanwhile."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from gpualert.chains.command import fill, placeholders, sbatch_words, scaled
from gpualert.chains.gate import Gate
from gpualert.chains.progress import newest_checkpoint
from gpualert.chains.record import Chain, Started, Story
from gpualert.chains.store import is_started, output_path, started_facts, started_path
from gpualert.decide import escalations
from gpualert.errors import GpualertError, UnsafeFileError
from gpualert.files import open_append
from gpualert.places import shim
from gpualert.signals.process import this_machine

# What belongs to a run or an attempt, and is never handed on to the next.
_OURS = re.compile(rb"GPUALERT_(?:RUN_ID|CHAIN|ATTEMPT|PREVIOUS_RUN_ID|EXCLUDE_NODES|LAST_CLASS|GATE|ENGINE.*)")
_DEFAULTS = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM)


class NotStartedError(GpualertError):
    """
    An attempt could not be started.

    Attributes:
        chain: The chain's name.
        number: The attempt.
        reason: Why.
    """

    def __init__(self, chain: str, number: int, reason: str) -> None:
        self.chain, self.number, self.reason = chain, number, reason
        super().__init__(f"cannot start attempt {number} of chain '{chain}': {reason}")


@dataclass(frozen=True)
class Launch:
    """
    Everything about an attempt that is to be started.

    Attributes:
        words: The whole command: the shim, its options, the job.
    """

    words: tuple[bytes, ...]
    environ: Mapping[bytes, bytes]
    exclude: tuple[str, ...]


def plan(chain: Chain, story: Story, exclude: Sequence[str]) -> Launch:
    """
    Say what the next attempt of a chain is started with.

    Args:
        exclude: The nodes that it must avoid.

    Raises:
        GpualertError: What is to be made bigger is not there, or this installation lacks the shim.
    """
    number = story.last + 1
    factors = escalations(story.all_attempts, chain.policy)
    nodes = ",".join(exclude)
    resume = newest_checkpoint(chain) if "resume" in placeholders(chain.command) else ""
    words = fill(chain.command, {"attempt": str(number), "exclude": nodes, "resume": resume})
    if chain.submits:
        words = sbatch_words(words, exclude, factors.get("mem", 1.0), Path(os.fsdecode(chain.cwd)))
    last = story.ended.get(story.last)
    ours = {
        "GPUALERT_HOME": str(chain.state),
        "GPUALERT_CHAIN": chain.id,
        "GPUALERT_ATTEMPT": str(number),
        "GPUALERT_PREVIOUS_RUN_ID": last.attempt.run_id if last else "",
        "GPUALERT_EXCLUDE_NODES": nodes,
        "GPUALERT_LAST_CLASS": last.attempt.failure_class if last else "",
        **_escalated(chain, factors),
    }
    run = [b"/bin/sh", os.fsencode(shim()), b"run", *chain.options, b"--chain", os.fsencode(chain.id), b"--"]
    return Launch(
        (*run, *words),
        {
            b"GPUALERT_PYTHON": os.fsencode(sys.executable),
            **{name: value for name, value in chain.environ.items() if not _OURS.fullmatch(name)},
            **{os.fsencode(name): os.fsencode(value) for name, value in ours.items()},
        },
        tuple(exclude),
    )


def _escalated(chain: Chain, factors: Mapping[str, float]) -> dict[str, str]:
    """Return the variables that are made bigger or smaller."""
    changed = {}
    for what, factor in factors.items():
        kind, _, name = what.partition(":")
        if kind == "env":
            value = os.fsdecode(chain.environ.get(os.fsencode(name), b""))
            changed[name] = scaled(value, factor)
    return changed


def start(gate: Gate, chain: Chain, number: int, launch: Launch, now: float) -> bool:
    """
    Start an attempt that nobody has started.

    The process that becomes the shim writes down that it is started, by making a file that must not exist: killed
    anywhere, there is at most one such process, and without one the next tick starts it.

    Returns:
        Whether it was us who started it.

    Raises:
        NotStartedError: Its folder is gone, or there are no processes or no disk left.
    """
    here = this_machine()
    about = Started(number, here.host, here.boot_id, here.pid_ns, 0, None, now, launch.exclude)
    try:
        with os.fdopen(open_append(output_path(chain.path, number)), "ab") as output:
            words = _marked(launch.words, chain, about)
            if gate.admit(lambda standard_input: _spawn(chain, words, launch.environ, standard_input, output)):
                return True
    except (OSError, subprocess.SubprocessError, UnsafeFileError) as error:
        raise NotStartedError(chain.id, number, getattr(error, "strerror", None) or str(error)) from error
    if is_started(chain.path, number):
        return False
    raise NotStartedError(chain.id, number, "it could not write that it is started: is the disk full?")


def _marked(words: Sequence[bytes], chain: Chain, about: Started) -> list[bytes]:
    """Return the words that have the shim (the second) write down first that it is the attempt."""
    file = started_path(chain.path, about.number)
    return [*words[:2], b"--attempt", os.fsencode(file), started_facts(about), *words[2:]]


def _spawn(
    chain: Chain, words: Sequence[bytes], environ: Mapping[bytes, bytes], standard_input: int, output: IO[bytes]
) -> subprocess.Popen[bytes]:
    here = limits_here()
    limits = {name: pair for name, pair in chain.limits.items() if pair != here.get(name)}
    return subprocess.Popen(
        words,
        stdin=standard_input,
        stdout=output,
        stderr=output,
        cwd=chain.cwd,
        env=environ,
        umask=chain.umask,
        start_new_session=True,
        # Where nothing is to be done, Python need not fork, which costs many times as much.
        preexec_fn=(lambda: _prepare(limits)) if limits or _ignored() else None,
    )


def _ignored() -> list[signal.Signals]:
    """Return the signals that our caller had us ignore, and that no job should."""
    return [number for number in _DEFAULTS if signal.getsignal(number) is signal.SIG_IGN]


def _prepare(limits: Mapping[str, tuple[int, int]]) -> None:
    """Give this new process, which is about to be the shim, what the chain's user had."""
    for number in _ignored():
        signal.signal(number, signal.SIG_DFL)
    for name, pair in limits.items():
        _limit(name, pair)


def limits_here() -> dict[str, tuple[int, int]]:
    """Return the limits of this process by name, soft and hard."""
    names = [name for name in dir(resource) if name.startswith("RLIMIT_")]
    return {name.removeprefix("RLIMIT_"): resource.getrlimit(getattr(resource, name)) for name in names}


def _limit(name: str, limits: tuple[int, int]) -> None:
    """Set a limit of this process; a hard one that is lower here stays as low."""
    number = getattr(resource, f"RLIMIT_{name}", None)
    if number is None:
        return
    try:
        resource.setrlimit(number, limits)
    except (OSError, ValueError):
        _, most = resource.getrlimit(number)
        soft = limits[0] if most == -1 or 0 <= limits[0] <= most else most
        with suppress(OSError, ValueError):
            resource.setrlimit(number, (soft, most))
