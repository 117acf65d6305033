"""Turn what was found out about a run into its report and its message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from email.message import EmailMessage
from email.policy import SMTP
from pathlib import Path

from gpualert.artifacts import collect as collect_artifacts
from gpualert.config import Settings
from gpualert.excerpt import read_windows
from gpualert.findings import Findings, find_out, load
from gpualert.group import group_of
from gpualert.group.launcher import membership
from gpualert.group.report import look_at
from gpualert.model import Artifact, RetryDecision, Run, RunStatus, Verdict
from gpualert.nesting import inner_runs
from gpualert.notify.message import compose, envelope, message_id
from gpualert.report import Rank, Report, build_report
from gpualert.settle import Logs, readable_logs
from gpualert.standing import Standing, standing
from gpualert.wording import outcome

_SUCCESSES = (RunStatus.SUCCEEDED, RunStatus.RUNNING)


@dataclass(frozen=True)
class Told:
    """
    A composed message.

    Attributes:
        data: The message as it goes over the wire.
        artifacts: The files it speaks of.
    """

    data: bytes
    artifacts: tuple[Artifact, ...]


def tell(
    run: Run,
    findings: Findings,
    logs: Logs,
    inner: Sequence[tuple[Run, Verdict]],
    settings: Settings,
    decision: RetryDecision | None,
    date_s: float,
    ranks: Sequence[Rank] = (),
) -> Told:
    """
    Compose the message about a run; the same findings give the same bytes, but for what changed on disk.

    Args:
        ranks: The runs that `run` stands for, where it stands for a group.
    """
    failed = findings.verdict.status not in _SUCCESSES
    artifacts = collect_artifacts(run, logs.files, settings, failed=failed)
    report = report_of(run, findings, logs, inner, settings, decision, artifacts, ranks)
    sent_by = envelope(settings, run.options.to)
    named = message_id(run.run_id, findings.verdict.status)
    return Told(compose(report, artifacts, sent_by, named, date_s), artifacts)


def report_of(
    run: Run,
    findings: Findings,
    logs: Logs,
    inner: Sequence[tuple[Run, Verdict]],
    settings: Settings,
    decision: RetryDecision | None = None,
    artifacts: Sequence[Artifact] = (),
    ranks: Sequence[Rank] = (),
) -> Report:
    """Gather what is said about a run."""
    verdict = findings.verdict
    root = next((item for item in verdict.evidence if item.line), None)  # a signal has no line to show
    windows, unreadable = read_windows(logs.files, root, settings.log_lines)
    return build_report(
        run,
        replace(verdict, not_read=(*verdict.not_read, *unreadable)),
        windows=windows,
        artifacts=artifacts,
        inner=inner,
        ranks=ranks,
        group=_membership_text(run, ranks),
        machine=findings.machine,
        decision=decision,
        redactions=sum(artifact.redactions for artifact in artifacts),
    )


def failed_inside(run: Run) -> list[tuple[Run, Verdict]]:
    """Return the runs inside this one that failed, each with its verdict; one that nobody judged yet is judged now."""
    found: list[tuple[Run, Verdict | None]] = []
    groups: dict[Path, None] = {}
    for inner in inner_runs(run):
        if group := group_of(inner):
            groups[group] = None  # told once, not rank by rank
        else:
            found.append((inner, verdict_of(inner)))
    for joint, findings in map(look_at, groups):
        found.append((joint.run, findings.verdict))
    return [(inner, verdict) for inner, verdict in found if verdict and verdict.status not in _SUCCESSES]


def verdict_of(run: Run) -> Verdict | None:
    """Return the verdict on a run, stored or made now; None while it is under way, or where nothing can be said."""
    found = findings_of(run)
    return found.verdict if found else None


def findings_of(run: Run) -> Findings | None:
    """Return what is known of a run, stored or found out now; None while it is under way."""
    state = standing(run)
    if state not in (Standing.ENDED, Standing.LOST):
        return None
    stored = load(run.path)
    # A run that was given up as lost may have ended after all.
    if stored and (state is Standing.LOST or stored.verdict.status not in (RunStatus.LOST, RunStatus.UNKNOWN)):
        return stored
    return find_out(run, state, readable_logs(run))


def _membership_text(run: Run, ranks: Sequence[Rank]) -> str:
    """Say which of how many runs this is, and what became of all; "" of one that stands alone."""
    if ranks:
        return f"{len(ranks)} runs, {run.path.name}"
    mine, folder = membership(run), group_of(run)
    if not mine or not folder:
        return ""
    told = load(folder)
    first = f", first on {told.verdict.first_node}" if told and told.verdict.first_node else ""
    of_all = f": {outcome(told.verdict)}{first}" if told else ", which is not judged yet"
    return f"{mine.label or 'one'} of {mine.size or 'several'} in {folder.name}{of_all}"


def bare_message(run: Run, verdict: Verdict, trouble: str, settings: Settings, date_s: float) -> Told:
    """Compose the least that can be said, for when the report itself fails: nothing of the job but names and places."""
    from email.utils import formatdate

    sent_by = envelope(settings, run.options.to)
    named = message_id(run.run_id, verdict.status)
    mail = EmailMessage(policy=SMTP)
    mail["From"], mail["To"] = sent_by.header_from, ", ".join(sent_by.to)
    mail["Subject"] = f"{verdict.status.value.upper()} {verdict.failure_class}: run {run.path.name}"
    mail["Date"], mail["Message-ID"], mail["Auto-Submitted"] = formatdate(date_s), named, "auto-generated"
    status = run.exit.status if run.exit else "not known"
    mail.set_content(
        f"Run {run.path.name} is {verdict.status.value} ({verdict.failure_class}); its exit status is {status}.\n"
        f"Its full report could not be made: {trouble}.\n\nLook closer: gpualert show {run.path.name}\n",
        cte="quoted-printable",
    )
    return Told(bytes(mail), ())
