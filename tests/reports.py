"""Runs, verdicts and reports for tests, with sensible defaults."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta, timezone
from pathlib import Path
from typing import Any

from gpualert.model import (
    Action,
    Artifact,
    Capture,
    Confidence,
    Domain,
    Evidence,
    Exit,
    Options,
    Outlook,
    Role,
    Run,
    RunStatus,
    Start,
    Stream,
    Verdict,
)
from gpualert.report import Report, build_report

NOW = 1_796_000_000.0  # 2026-11-30 00:53:20 UTC
RUN_ID = "20261130T005320Z-node03-3f9a1c2e"
CET = timezone(timedelta(hours=1), "CET")
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB."
HOSTILE = (
    "a\r\nBcc: evil@example.org\n\n<script>alert(1)</script>\x1b[31m\x1b]0;title\x07\u202egnp.exe\u2028"
    "=?utf-8?q?=0d=0aCc:_x@y?="
)


def a_run(**changes: Any) -> Run:
    """Return a failed `python train.py` that took 3 h 12 min on node03."""
    path = Path("/home/ann/.local/state/gpualert/runs", RUN_ID)
    run = Run(
        path=path,
        run_id=RUN_ID,
        argv=("python", "-u", "train.py", "--lr", "3e-4"),
        cwd="/home/ann/project",
        name="",
        options=Options(),
        streams=(Stream("output", Capture.TEE, path / "output.log"),),
        start=Start(RUN_ID, "node03", 4711, 1, NOW),
        exit=Exit(1, None, False, NOW + 3 * 3600 + 12 * 60),
    )
    return replace(run, **changes)


def an_evidence(**changes: Any) -> Evidence:
    """Return line 3 of the log, which says that the GPU ran out of memory."""
    evidence = Evidence("log", "output.log", 3, OOM, rank=3, host="node03", frame="train.py:61 in main")
    return replace(evidence, **changes)


def a_verdict(**changes: Any) -> Verdict:
    """Return the verdict on a run that failed with `cuda_oom`."""
    verdict = Verdict(
        status=RunStatus.FAILED,
        exited_zero=False,
        failure_class="cuda_oom",
        paper_class="cuda_oom",
        role=Role.ROOT,
        outlook=Outlook.CANNOT_RECOVER,
        action=Action.BIGGER,
        title="The GPU ran out of memory",
        advice="Lower the batch size,\nor ask for a larger card.\n",
        confidence=Confidence.HIGH,
        domain=Domain.RESOURCES,
        evidence=(an_evidence(),),
        first_rank=3,
    )
    return replace(verdict, **changes)


def a_success() -> Verdict:
    """Return the verdict on a run that ended well."""
    return a_verdict(
        status=RunStatus.SUCCEEDED,
        failure_class="success",
        title="It ended well",
        advice="",
        action=Action.NONE,
        evidence=(),
    )


def a_report(run: Run | None = None, verdict: Verdict | None = None, **more: Any) -> Report:
    """Return the report about `run`."""
    return build_report(run or a_run(), verdict or a_verdict(), zone=CET, **more)


def an_artifact(**changes: Any) -> Artifact:
    """Return a small attached file."""
    artifact = Artifact("metrics.csv", Path("/home/ann/project/metrics.csv"), 12, True, content=b"step,loss\n1,2\n")
    return replace(artifact, **changes)
