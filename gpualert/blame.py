"""Which failure is a node's fault, and which nodes to leave out: strikes that expire and can be cleared."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from gpualert.errors import UsageError
from gpualert.model import Action, Domain, Run, RunStatus, Verdict

# What cannot be mistaken for a list, a range or an option.  Source: Slurm, "Node Hostlist Expressions"; RFC 1123, 2.1.
_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")
# Runs that one fault ends together (the ranks of a job, the jobs of a node) are one strike.
ONE_INCIDENT_S = 300.0


class NodeNameError(UsageError):
    """
    A name is none that a node can have.

    Attributes:
        name: What was given.
        where: The command, or the file, line and key, it stands in.
    """

    def __init__(self, name: str, where: str) -> None:
        self.name, self.where = name, where
        super().__init__(f"{where}: '{name}' is no node name; it may hold letters, digits, '.', '_' and '-' only")


@dataclass(frozen=True)
class Blame:
    """
    One failed attempt that a node is to blame for.

    Attributes:
        gpu: The GPU that failed, by index or PCI address; "" where it is not known.
        xid: NVIDIA's code, where there was one.
        at: Seconds since 1970 UTC.
    """

    node: str
    gpu: str
    failure_class: str
    xid: int | None
    run_id: str
    at: float


@dataclass(frozen=True)
class Clearance:
    """A person cleared a node: what it was blamed for until then counts no more."""

    node: str
    until: float


@dataclass(frozen=True)
class Suspect:
    """
    A node with strikes that count.

    Attributes:
        strikes: Incidents, not runs.
        blames: The runs behind them, oldest first.
        free_at: When it is no longer left out, at the latest, if nothing more happens; where it is not left out, when
            its last strike expires.
        excluded: Whether every chain leaves it out.
    """

    node: str
    strikes: int
    blames: tuple[Blame, ...]
    free_at: float
    excluded: bool


def check_node(name: str, where: str) -> str:
    """
    Return a node's name as it is.

    Raises:
        NodeNameError: It holds spaces or other characters that no node's name has.
    """
    if not _NODE.fullmatch(name):
        raise NodeNameError(name, where)
    return name


def blamed(run: Run, verdict: Verdict, gpu_allotted: bool | None, at: float) -> Blame | None:
    """
    Return what a node is to blame for; None for the many failures that are no node's fault.

    Only a failure that another node would not have had counts: its action is `elsewhere`.  The user's code is never a
    node's fault, nor is a missing GPU where the run had not been given one.

    Args:
        gpu_allotted: Whether the run had a GPU to use; None where that is not known.

    Raises:
        NodeNameError: What the evidence calls the node is no node name.
    """
    if verdict.status not in (RunStatus.FAILED, RunStatus.LOST) or verdict.action is not Action.ELSEWHERE:
        return None
    if verdict.domain is Domain.USER_CODE or (verdict.failure_class == "cuda_driver" and gpu_allotted is not True):
        return None
    node = _node_of(run, verdict)
    if not node:
        return None
    parameters = [item.parameters for item in verdict.evidence]
    xid = next((found["xid"] for found in parameters if isinstance(found.get("xid"), int)), None)
    told = (str(found[key]) for found in parameters for key in ("pci", "gpu") if key in found)
    return Blame(
        node=check_node(node, f"the evidence of run '{run.run_id}'"),
        gpu=(verdict.first_gpu or next(told, ""))[:64],
        failure_class=verdict.failure_class,
        xid=xid if isinstance(xid, int) else None,
        run_id=run.run_id,
        at=at,
    )


def _node_of(run: Run, verdict: Verdict) -> str:
    """Return the node that failed, by the name the scheduler knows it; "" where it is not known."""
    own = (run.start.node or run.start.host) if run.start else ""
    said = verdict.first_node or next((item.host for item in verdict.evidence if item.host), "")
    same = said.partition(".")[0] == own.partition(".")[0]  # `n3` and `n3.cluster.example` are one
    return own if not said or same else said


def suspects(
    blames: Iterable[Blame], clearances: Iterable[Clearance], now: float, *, strikes: int, expires_s: float
) -> tuple[Suspect, ...]:
    """
    Return the nodes with strikes that count, the worst first; nothing for none.

    Args:
        strikes: How many incidents exclude a node.
        expires_s: The age at which one counts no more.
    """
    cleared: dict[str, float] = {}
    for clearance in clearances:
        cleared[clearance.node] = max(clearance.until, cleared.get(clearance.node, clearance.until))
    runs: dict[tuple[str, str], Blame] = {}  # a run counts once, by its first line
    for blame in sorted(blames, key=lambda blame: blame.at):
        runs.setdefault((blame.node, blame.run_id), blame)
    by_node: dict[str, list[Blame]] = {}
    for blame in runs.values():
        if now - blame.at < expires_s and blame.at > cleared.get(blame.node, float("-inf")):
            by_node.setdefault(blame.node, []).append(blame)
    found = [_suspect(node, counting, strikes, expires_s) for node, counting in by_node.items()]
    return tuple(sorted(found, key=lambda suspect: (-suspect.strikes, -suspect.free_at, suspect.node)))


def _suspect(node: str, blames: list[Blame], strikes: int, expires_s: float) -> Suspect:
    incidents: list[list[Blame]] = []
    for blame in blames:
        if not incidents or blame.at - incidents[-1][0].at > ONE_INCIDENT_S:
            incidents.append([])
        incidents[-1].append(blame)
    excluded = len(incidents) >= strikes
    # It is left out until fewer than `strikes` of them are left.
    last_needed = incidents[-strikes if excluded else -1]
    return Suspect(node, len(incidents), tuple(blames), last_needed[-1].at + expires_s, excluded)
