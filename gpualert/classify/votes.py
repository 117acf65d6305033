"""What is known beside the logs: exit status, signal, scheduler state, cgroup. Each is one vote, never the verdict."""

from __future__ import annotations

from dataclasses import dataclass

from gpualert.model import Action, Evidence, Facts, Role, frozen

# Slurm's words for how a job ended. Source: https://slurm.schedmd.com/sacct.html#SECTION_JOB-STATE-CODES
_STATES = {
    "TIMEOUT": "walltime",
    "DEADLINE": "walltime",
    "OUT_OF_MEMORY": "oom_killer",
    "PREEMPTED": "preempted",
    "NODE_FAIL": "node_failure",
    "REQUEUED": "preempted",
    "BOOT_FAIL": "launch_failed",
    "LAUNCH_FAILED": "launch_failed",
    "RECONFIG_FAIL": "launch_failed",
    "CANCELLED": "interrupted",
}

_SIGNALS = {
    2: "interrupted",
    15: "interrupted",
    1: "interrupted",
    11: "segfault",
    7: "segfault",
    4: "segfault",
    8: "segfault",
    6: "segfault",
}
# Signals that the kernel sends for what a program did itself.
CRASHES = (4, 7, 8, 11)
_NAMES = {
    1: "SIGHUP",
    2: "SIGINT",
    4: "SIGILL",
    6: "SIGABRT",
    7: "SIGBUS",
    8: "SIGFPE",
    9: "SIGKILL",
    11: "SIGSEGV",
    15: "SIGTERM",
}


@dataclass(frozen=True)
class Vote:
    """
    The class that something beside the logs speaks for.

    Attributes:
        role: A cascade where what it tells follows from another's failure.
        action: What to do, where that is not what the class says.
    """

    failure_class: str
    evidence: Evidence | None = None
    role: Role = Role.ROOT
    action: Action | None = None


def scheduler_vote(facts: Facts) -> Vote | None:
    """Return the class that the scheduler or the cgroup names, with its line; None when they say nothing."""
    if facts.oom_kills:
        text = f"the kernel killed {facts.oom_kills} process(es) of this run for memory"
        return Vote("oom_killer", Evidence("cgroup", "", 0, text, host=facts.host))
    said = next((item for item in facts.evidence if item.source == "slurm"), None)
    state = str(said.parameters.get("state", "")) if said else facts.scheduler_state
    words = state.upper().split()
    named = _STATES.get(words[0].rstrip("+")) if words else None
    if said is None:
        text = f"the scheduler says {facts.scheduler_state}"
        return Vote(named, Evidence("slurm", "", 0, text, host=facts.host)) if named else None
    if said.parameters.get("by") == "sibling":
        return Vote("interrupted", said, Role.CASCADE)
    if said.parameters.get("launched") == 0 and (named != "interrupted" or _was_refused(said)):
        return Vote("launch_failed", said, action=Action.FIX)
    return Vote(named, said) if named else None


def _was_refused(said: Evidence) -> bool:
    """Say whether a job was cancelled before its start because it could never have started."""
    return "Dependency" in str(said.parameters.get("reason", ""))


def status_vote(facts: Facts) -> Vote | None:
    """Return the class that the exit status hints at, for when nothing else is known; None for no hint."""
    if facts.timed_out:
        return Vote("hang", Evidence("status", "", 0, "the run's own time limit ended it", host=facts.host))
    if facts.status is None:
        return None
    signal = facts.signal or (facts.status - 128 if 128 < facts.status < 160 else None)
    text = f"exit status {facts.status}" + (f" ({_NAMES.get(signal, f'signal {signal}')})" if signal else "")
    parameters: dict[str, int] = {"exit_status": facts.status, **({"signal": signal} if signal else {})}
    evidence = Evidence("status", "", 0, text, host=facts.host, parameters=frozen(parameters))
    return Vote(_class_of(facts.status, signal), evidence)


def _class_of(status: int, signal: int | None) -> str:
    if signal in _SIGNALS:
        return _SIGNALS[signal]
    return {124: "hang", 126: "command_not_found", 127: "command_not_found"}.get(status, "unknown")
