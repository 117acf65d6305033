"""The sentences a message is made of: what a run is called, how it ended, what to do next."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from itertools import pairwise
from pathlib import PurePath

from gpualert.decide import prospect
from gpualert.display import duration, size
from gpualert.model import Artifact, ChainEnd, Evidence, RetryDecision, Run, RunStatus, Verdict

WORDS = {
    RunStatus.SUCCEEDED: "OK",
    RunStatus.FAILED: "FAILED",
    RunStatus.LOST: "LOST",
    RunStatus.UNKNOWN: "UNKNOWN",
    RunStatus.RUNNING: "RUNNING",
}

_CHAIN_ENDS = {
    ChainEnd.SAVED: "Its chain of retries is done: ",
    ChainEnd.GAVE_UP: "Its chain of retries gave up: ",
    ChainEnd.NEEDS_PERSON: "It is not tried again: ",
    ChainEnd.STOPPED: "It is not tried again: ",
}

# Programs that only start another one; the message names the other one.
_LAUNCHERS = frozenset(
    [
        *("accelerate", "deepspeed", "horovodrun", "mpiexec", "mpirun", "numactl", "srun", "torchrun"),
        *("bash", "dash", "ksh", "poetry", "python", "python2", "python3", "sh", "uv", "zsh"),
        *("env", "ionice", "nice", "nohup", "setsid", "stdbuf", "time", "timeout"),
    ]
)
_SCRIPTS = (".py", ".sh", ".bash", ".pl", ".R", ".jl", ".ipynb", ".lua")


def command_name(argv: Sequence[str]) -> str:
    """
    Return what a person would call a command: the script or module it runs, else its program.

    `python -u train.py --lr 1` is `train.py`, `torchrun -m pkg.train` is `pkg.train`, `bash -c 'cd x; ./run.sh 1'`
    is `run.sh`; "" for no words.
    """
    words = [word for word in argv if word]
    if not words:
        return ""
    program = PurePath(words[0]).name
    if program not in _LAUNCHERS:
        return program
    for before, word in pairwise(words):
        if before in ("-m", "--module"):
            return word
        if before == "-c":
            return _name_in_script(word) or program
        if word.endswith(_SCRIPTS) and not word.startswith("-"):
            return PurePath(word).name
    return program


def _name_in_script(text: str) -> str:
    """Return the first script that a shell or Python text names, else its first word that is no assignment."""
    words = [word for word in re.split(r"[\s;&|()'\"]+", text[:4096]) if word and "=" not in word]
    return next((PurePath(word).name for word in words if word.endswith(_SCRIPTS)), words[0] if words else "")


def run_name(run: Run) -> str:
    """Return what a person would call the run: its name, its workflow rule, or its command."""
    rule = " ".join(filter(None, (run.engine.get("rule", ""), run.engine.get("wildcards", ""))))
    return run.name or rule or command_name(run.argv) or run.run_id


def host_of(run: Run) -> str:
    """Return the host as the scheduler calls it, else as it calls itself; "" where it never started."""
    return (run.start.node or run.start.host) if run.start else ""


def first_failure(run: Run, verdict: Verdict) -> str:
    """Say what failed first, `rank 3, on n4, GPU 0000:4f:00`; "" where that is no more than the run's own host."""
    same = verdict.first_node.partition(".")[0] in ("", host_of(run).partition(".")[0])
    if same and not verdict.first_gpu:
        return ""
    rank = "" if verdict.first_rank is None else f"rank {verdict.first_rank}"
    node = f"on {verdict.first_node}" if verdict.first_node else ""
    return ", ".join(filter(None, [rank, node, verdict.first_gpu and f"GPU {verdict.first_gpu}"]))


def _duration_s(run: Run) -> float | None:
    """Return how long the run took; None where that is not known, or the clock was set back meanwhile."""
    if not run.start or not run.exit or run.exit.ended_at < run.start.started_at:
        return None
    return run.exit.ended_at - run.start.started_at


def outcome(verdict: Verdict) -> str:
    """Say how it ended in a word or three: `FAILED cuda_oom`, `FAILED oom_killer (exit 0)`, `OK`."""
    words = [WORDS[verdict.status]]
    failed, lost = verdict.status is RunStatus.FAILED, verdict.status is RunStatus.LOST
    if failed or (lost and verdict.failure_class not in ("success", "unknown")):
        words.append(verdict.failure_class)
    if verdict.exited_zero:
        words.append("(exit 0)")
    return " ".join(words)


def whereabouts(run: Run, name: str, host: str = "") -> str:
    """Say which run it was, where, and how long it took: `train.py on node03 after 3h 12m`."""
    host, took_s = host or host_of(run), _duration_s(run)
    on = f" on {host}" if host else ""
    return name + on + (f" after {duration(took_s)}" if took_s is not None else "")


def what_happened(run: Run, verdict: Verdict, who: str = "") -> str:
    """Say what the failure is called, how sure that is, and how the process ended; `who` was it, of several ranks."""
    sure = f" ({verdict.failure_class}, {verdict.confidence.value} confidence)"
    known = verdict.status is not RunStatus.SUCCEEDED and verdict.failure_class
    return f"{verdict.title.rstrip('.')}{sure if known else ''}. {_ending(run, verdict, who)}"


def _ending(run: Run, verdict: Verdict, who: str) -> str:
    """Say in one sentence how the process ended."""
    it, its = (who.capitalize(), f"{who.capitalize()}'s") if who else ("It", "Its")
    if run.exit is None:
        if run.start is None:
            return f"{it} never started."
        return run.engine.get("ended") or "No exit record was written."
    if run.exit.timed_out:
        limit = f" of {run.options.timeout_s:g} s" if run.options.timeout_s else ""
        return f"{it} was stopped at its time limit{limit} (--timeout)."
    if run.exit.signal:
        return f"{it} was killed by {_signal_name(run.exit.signal)} (exit status {run.exit.status})."
    although = ", although it failed" if verdict.exited_zero else ""
    return f"{its} exit status is {run.exit.status}{although}."


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def next_step(verdict: Verdict, decision: RetryDecision | None) -> str:
    """Say what to do, and what gpualert does."""
    advice = " ".join(verdict.advice.split())
    if decision is None:
        return " ".join(filter(None, (advice, prospect(verdict))))
    delay = f"in {duration(decision.delay_s)}" if decision.delay_s else "now"
    what = _CHAIN_ENDS[decision.end] if decision.end else f"It is tried again {delay}: "
    return " ".join(filter(None, (advice, what + decision.reason.rstrip(".") + ".")))


def chain_end(decision: RetryDecision | None) -> str:
    """Say in a few words how a chain of retries ended; "" where it did not, or nothing was tried again."""
    count = len(decision.history) if decision else 0
    after = f" after {count} attempts" if count > 1 else ""
    if decision is None or decision.end in (None, ChainEnd.STOPPED):
        return ""
    if decision.end is ChainEnd.SAVED:
        return f"saved at attempt {count}" if count > 1 else ""
    return ("given up" if decision.end is ChainEnd.GAVE_UP else "needs you") + after


def log_places(run: Run, artifacts: Sequence[Artifact]) -> str:
    """Say where the log lies, how large it is and whether it is attached."""
    paths = dict.fromkeys(stream.path for stream in run.streams if stream.path)
    known = {artifact.path: artifact for artifact in artifacts}
    shown = []
    for path in paths:
        remarks = []
        if path in known:
            remarks = [size(known[path].size_bytes), "attached" if known[path].attached else "not attached"]
        shown.append(f"{path}" + (f" ({', '.join(remarks)})" if remarks else ""))
    return ", ".join(shown) or str(run.path)


def where(item: Evidence) -> str:
    """Say where evidence stands: `output.log, line 4711, rank 3, on node03`."""
    parts = [item.file or item.source]
    if item.line:
        parts.append(f"line {item.line}")
    if item.rank is not None:
        parts.append(f"rank {item.rank}")
    if item.host:
        parts.append(f"on {item.host}")
    return ", ".join(parts)


def job_of(run: Run) -> str:
    """Return the scheduler's job, or "" outside one."""
    if not run.start or not run.start.slurm_job_id:
        return ""
    step = f".{run.start.slurm_step_id}" if run.start.slurm_step_id else ""
    return f"Slurm {run.start.slurm_job_id}{step}"
