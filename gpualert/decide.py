"""What a verdict means for another try, in words; chains of retries build on it."""

from __future__ import annotations

from gpualert.model import Action, RunStatus, Verdict

_WORDS = {
    Action.FIX: "Do not run it again unchanged: a person must mend it first.",
    Action.RETRY: "Run it again; an unchanged retry may succeed.",
    Action.ELSEWHERE: "Run it again on another node; leave out {node}.",
    Action.BIGGER: "Run it again only with more of what ran out.",
    Action.RESUME: "Resume it from the last checkpoint; the failure was not its own.",
    Action.ONCE: "Run it once more to see whether it fails the same way; if so, it needs mending.",
    Action.NONE: "Nothing to do.",
}


def next_step(verdict: Verdict) -> str:
    """Return the sentence that tells the reader what to do next; for a run that failed with status 0, never a retry."""
    if verdict.status is RunStatus.FAILED and verdict.exited_zero:
        return "It reported status 0 although it failed: look at its results before you use them."
    node = next((item.host for item in verdict.evidence if item.host), "the node it ran on")
    return _WORDS[verdict.action].format(node=node)
