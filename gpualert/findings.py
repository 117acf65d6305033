"""What was found out about a run: its verdict and the machine, from the evidence or as stored in the run directory."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gpualert.bounded import within
from gpualert.collect import collect, evidence_json, machine_rows
from gpualert.config import SYSTEM_FILE, user_file
from gpualert.errors import GpualertError, RuleError
from gpualert.jsonfiles import read_json, write_json
from gpualert.model import Action, Confidence, Domain, Facts, LogFile, Outlook, Role, Run, RunStatus, Verdict
from gpualert.settle import Logs
from gpualert.standing import Standing
from gpualert.verdict_json import verdict_from_json, verdict_to_json

_CLASSIFY_LIMIT_S = 120.0
_STATUSES = {Standing.LOST: RunStatus.LOST, Standing.UNKNOWN: RunStatus.UNKNOWN}


@dataclass(frozen=True)
class Findings:
    """
    What was found out about a run.

    Attributes:
        machine: Host and GPUs, as pairs of label and value.
        evidence: What `evidence.json` holds.
    """

    verdict: Verdict
    machine: tuple[tuple[str, str], ...]
    evidence: Mapping[str, Any]

    @property
    def gpu_allotted(self) -> bool | None:
        """Whether the run had a GPU to use; None where that is not known."""
        facts = self.evidence.get("facts")
        found = facts.get("gpu_allotted") if isinstance(facts, Mapping) else None
        return found if isinstance(found, bool) else None

    @property
    def again(self) -> str:
        """That the scheduler runs the job again, in one sentence; "" where it does not, or is not known to."""
        said = self.evidence.get("slurm")
        return str(said.get("again", "")) if isinstance(said, Mapping) else ""


def find_out(
    run: Run, standing: Standing, logs: Logs, environ: Mapping[str, str] | None = None, *, read_logs: bool = True
) -> Findings:
    """
    Look at a run and judge it.

    Args:
        environ: The job's environment; None where it is not known.
        read_logs: False judges without reading the logs: the last resort for one that no reader survives.
    """
    collected = collect(run, standing, logs, environ)
    if read_logs:
        verdict = judge(logs.files, collected.facts)
    else:
        verdict = unjudged(collected.facts, "the logs: reading them has failed before")
    verdict = replace(verdict, notes=(*verdict.notes, *collected.notes))
    if standing in _STATUSES:
        verdict = replace(verdict, status=_STATUSES[standing], exited_zero=False)
    node, gpu = first_of(verdict, collected.facts, environ)
    verdict = replace(verdict, first_node=node, first_gpu=gpu)
    return Findings(verdict, tuple(machine_rows(collected)), evidence_json(collected))


def first_of(verdict: Verdict, facts: Facts, environ: Mapping[str, str] | None = None) -> tuple[str, str]:
    """
    Return node and GPU of what failed first, as far as they are known; "" for what is not, and for a success.

    Args:
        environ: The job's environment: of a single card it saw, that is the one.
    """
    if verdict.status is RunStatus.SUCCEEDED:
        return "", ""
    if verdict.failure_class == "node_failure":
        node = _failed_node(verdict, facts)
    else:
        node = next((item.host for item in verdict.evidence if item.host), facts.host)
    values = [item.parameters.get(key) for key in ("pci", "gpu") for item in verdict.evidence]
    gpu = next((str(value) for value in values if value is not None), "")
    visible = (environ or {}).get("CUDA_VISIBLE_DEVICES", "").strip()
    return node, gpu or ("" if "," in visible or visible == "-1" else visible)


def _failed_node(verdict: Verdict, facts: Facts) -> str:
    """Return the node that failed: not every node of a job did, so where none is named none is blamed."""
    named = (re.search(r"\bnode failure on ([\w.-]+)", item.text, re.IGNORECASE) for item in verdict.evidence)
    told = [item.host for item in facts.evidence if item.source in ("slurm", "host", "kernel")]
    by_log = next((found[1] for found in named if found), "")
    return by_log or next(filter(None, told), "") or ("" if told else facts.host)


def judge(logs: Sequence[LogFile], facts: Facts) -> Verdict:
    """Classify; whatever goes wrong, there is a verdict, and it says so."""
    try:
        return within(_CLASSIFY_LIMIT_S, lambda: _classify(logs, facts))
    except Exception as error:  # a message without a cause is better than none
        return unjudged(facts, f"the logs: {type(error).__name__}: {error}")


def _classify(logs: Sequence[LogFile], facts: Facts) -> Verdict:
    from gpualert.classify import classify  # with the rules, 50 ms
    from gpualert.rules import load_rules

    try:
        rules, note = load_rules(rule_folders()), ""
    except RuleError as error:
        rules, note = load_rules(), f"the site's own rules were left out: {error}"
    verdict = classify(logs, facts, rules)
    return replace(verdict, notes=(*verdict.notes, note)) if note else verdict


def rule_folders(environ: Mapping[str, str] = os.environ) -> list[Path]:
    """Return the folders of a site's and a user's own rules, whether or not they exist."""
    return [SYSTEM_FILE.parent / "rules", user_file(environ).parent / "rules"]


def unjudged(facts: Facts, reason: str) -> Verdict:
    """Return the verdict on a run whose logs could not be judged."""
    succeeded = facts.status == 0
    return Verdict(
        status=RunStatus.SUCCEEDED if succeeded else RunStatus.FAILED,
        exited_zero=False,
        failure_class="success" if succeeded else "unknown",
        paper_class="",
        role=Role.ROOT,
        outlook=Outlook.UNKNOWN,
        action=Action.NONE if succeeded else Action.ONCE,
        title="It ended well" if succeeded else "It failed, and its logs could not be judged",
        advice="" if succeeded else "Read the log.",
        confidence=Confidence.LOW,
        domain=Domain.UNKNOWN,
        not_read=(*facts.not_read, reason),
    )


def save(run: Run, findings: Findings) -> None:
    """
    Write `evidence.json` and `verdict.json`.

    Raises:
        OSError: The disk is full.
    """
    write_json(run.path / "evidence.json", findings.evidence)
    write_json(run.path / "verdict.json", verdict_to_json(findings.verdict, run.run_id))


def load(run_path: Path) -> Findings | None:
    """Return what is stored in a run directory; None where there is nothing, or it is damaged."""
    try:
        verdict = verdict_from_json(read_json(run_path / "verdict.json"))
    except (OSError, ValueError, KeyError, TypeError, GpualertError):
        return None
    try:
        evidence = read_json(run_path / "evidence.json")
        machine = tuple((str(label), str(value)) for label, value in evidence["machine"])
    except (OSError, ValueError, KeyError, TypeError, GpualertError):
        evidence, machine = {}, ()
    return Findings(verdict, machine, evidence)
