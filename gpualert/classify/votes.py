"""What is known beside the logs: exit status, signal, scheduler state, cgroup. Each is one vote, never the verdict."""

from __future__ import annotations

from gpualert.model import Evidence, Facts, frozen

# Slurm's words for how a job ended. Source: https://slurm.schedmd.com/sacct.html#SECTION_JOB-STATE-CODES
_STATES = {
    "TIMEOUT": "walltime",
    "DEADLINE": "walltime",
    "OUT_OF_MEMORY": "oom_killer",
    "PREEMPTED": "preempted",
    "NODE_FAIL": "node_failure",
    "BOOT_FAIL": "launch_failed",
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


def scheduler_vote(facts: Facts) -> tuple[str, Evidence] | None:
    """Return the class that the scheduler or the cgroup names, with its line; None when they say nothing."""
    if facts.oom_kills:
        text = f"the kernel killed {facts.oom_kills} process(es) of this run for memory"
        return "oom_killer", Evidence("cgroup", "", 0, text, host=facts.host)
    words = facts.scheduler_state.upper().split()
    if words and words[0].rstrip("+") in _STATES:
        return _STATES[words[0].rstrip("+")], Evidence(
            "slurm", "", 0, f"the scheduler says {facts.scheduler_state}", host=facts.host
        )
    return None


def status_vote(facts: Facts) -> tuple[str, Evidence] | None:
    """Return the class that the exit status hints at, for when nothing else is known; None for no hint."""
    if facts.timed_out:
        return "hang", Evidence("status", "", 0, "the run's own time limit ended it", host=facts.host)
    if facts.status is None:
        return None
    signal = facts.signal or (facts.status - 128 if 128 < facts.status < 160 else None)
    text = f"exit status {facts.status}" + (f" ({_NAMES.get(signal, f'signal {signal}')})" if signal else "")
    parameters: dict[str, int] = {"exit_status": facts.status, **({"signal": signal} if signal else {})}
    evidence = Evidence("status", "", 0, text, host=facts.host, parameters=frozen(parameters))
    if signal in _SIGNALS:
        return _SIGNALS[signal], evidence
    if facts.status in (126, 127):
        return "command_not_found", evidence
    if facts.status == 124:
        return "hang", evidence
    return "unknown", evidence
