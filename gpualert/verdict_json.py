"""A verdict as JSON and back, the content of `verdict.json`, schema 1; and back what `evidence.json` holds of facts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpualert.model import (
    SCHEMA,
    Action,
    Confidence,
    Domain,
    Evidence,
    Facts,
    Outlook,
    Role,
    RunnerUp,
    RunStatus,
    Verdict,
    frozen,
)


def verdict_to_json(verdict: Verdict, run_id: str = "") -> dict[str, Any]:
    """Return what `verdict.json` holds; `run_id` is "" for a log that belongs to no run."""
    return {
        "schema": SCHEMA,
        "run_id": run_id,
        "fingerprint": verdict.fingerprint,
        "status": verdict.status.value,
        "exited_zero": verdict.exited_zero,
        "class": verdict.failure_class,
        "paper_class": verdict.paper_class,
        "role": verdict.role.value,
        "outlook": verdict.outlook.value,
        "action": verdict.action.value,
        "title": verdict.title,
        "advice": verdict.advice,
        "confidence": verdict.confidence.value,
        "domain": verdict.domain.value,
        "evidence": [_evidence_to_json(item) for item in verdict.evidence],
        "first_rank": verdict.first_rank,
        "first_node": verdict.first_node,
        "first_gpu": verdict.first_gpu,
        "runners_up": [
            {"class": other.failure_class, "evidence": _evidence_to_json(other.evidence)}
            for other in verdict.runners_up
        ],
        "not_read": list(verdict.not_read),
        "notes": list(verdict.notes),
    }


def verdict_from_json(data: Mapping[str, Any]) -> Verdict:
    """
    Return the verdict that `data` holds; unknown keys are skipped.

    Raises:
        KeyError: A required key is missing.
        ValueError: A value is none of its kind.
        TypeError: A value has the wrong type.
    """
    return Verdict(
        status=RunStatus(data["status"]),
        exited_zero=bool(data["exited_zero"]),
        failure_class=str(data["class"]),
        paper_class=str(data["paper_class"]),
        role=Role(data["role"]),
        outlook=Outlook(data["outlook"]),
        action=Action(data["action"]),
        title=str(data["title"]),
        advice=str(data["advice"]),
        confidence=Confidence(data["confidence"]),
        domain=Domain(data["domain"]),
        evidence=tuple(evidence_from_json(item) for item in data["evidence"]),
        first_rank=None if data["first_rank"] is None else int(data["first_rank"]),
        runners_up=tuple(
            RunnerUp(str(other["class"]), evidence_from_json(other["evidence"])) for other in data["runners_up"]
        ),
        not_read=tuple(map(str, data["not_read"])),
        fingerprint=str(data["fingerprint"]),
        notes=tuple(map(str, data.get("notes", ()))),
        first_node=str(data.get("first_node", "")),
        first_gpu=str(data.get("first_gpu", "")),
    )


def facts_from_json(data: Mapping[str, Any]) -> Facts:
    """
    Return the facts that `data` holds; unknown keys are skipped, missing ones have their defaults.

    Raises:
        KeyError, ValueError, TypeError: A piece of evidence is malformed.
    """
    known = {key: data[key] for key in Facts.__dataclass_fields__ if key in data}
    known["evidence"] = tuple(evidence_from_json(item) for item in data.get("evidence", ()))
    known["not_read"] = tuple(map(str, data.get("not_read", ())))
    return Facts(**known)


def _evidence_to_json(item: Evidence) -> dict[str, Any]:
    return {
        "source": item.source,
        "file": item.file,
        "line": item.line,
        "text": item.text,
        "rank": item.rank,
        "host": item.host,
        "frame": item.frame,
        "parameters": dict(item.parameters),
    }


def evidence_from_json(data: Mapping[str, Any]) -> Evidence:
    """Return the piece of evidence that `data` holds; see `verdict_from_json`."""
    return Evidence(
        source=str(data["source"]),
        file=str(data["file"]),
        line=int(data["line"]),
        text=str(data["text"]),
        rank=None if data.get("rank") is None else int(data["rank"]),
        host=str(data.get("host", "")),
        parameters=frozen(data.get("parameters")),
        frame=str(data.get("frame", "")),
    )
