"""`gpualert slurm`: report jobs that were never wrapped, from Slurm's accounting and their output."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from gpualert.cli.common import folders, print_json, print_table, say
from gpualert.config import Settings, load_settings_or_defaults
from gpualert.display import duration, shorten, visible
from gpualert.errors import UsageError
from gpualert.report import Report
from gpualert.signals.slurm_records import Job
from gpualert.signals.slurm_wanted import NoSuchJobError, Wanted, find, parse
from gpualert.slurm_job import Looked, causes, look, ranks_of, to_json

_FIRST_WAIT_S, _LONGEST_WAIT_S = 1.0, 15.0
_MOST_FAILURES = 20  # of questions in a row, some minutes
_MOST_REPORTS = 5


@click.command()
@click.option("--wait", is_flag=True, help="Wait until all of them have ended.")
@click.option("--classify", "brief", is_flag=True, help="Judge the output anew, and print the verdict only.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: the jobs and their verdicts.")
@click.option("--mail", "to", metavar="ADDRESS", help="Send the report instead of printing it.")
@click.argument("jobs", metavar="JOBID...", nargs=-1, required=True)
def slurm(jobs: tuple[str, ...], wait: bool, brief: bool, as_json: bool, to: str | None) -> int:
    """
    Report Slurm jobs, wrapped or not: 4711, 4711_3, 4711_[1-4] or all tasks of the array 4711.

    Several jobs are listed, with one report for each distinct cause.  With --classify the exit status is 0 when a cause
    is named and 1 when it is unknown.
    """
    if to is not None:
        _check_address(to)
    wanted = [parse(word) for word in jobs]
    found = _ended(wanted) if wait else find(wanted)
    with tempfile.TemporaryDirectory(prefix="gpualert-") as scratch:
        looked = [look(job, folders(), Path(scratch), anew=brief) for job in found]
        if to is not None:
            return _mail(looked, to)
        if as_json:
            print_json(to_json(looked))
        elif brief:
            return _print_verdicts(looked)
        else:
            _print(looked)
    return 0


def _check_address(to: str) -> None:
    from gpualert.notify.addresses import is_address

    if not is_address(to):
        raise UsageError(f"'{to}' is no mail address")


def _ended(wanted: Sequence[Wanted]) -> list[Job]:
    """Ask until all jobs have ended; a server that is away for a while does not end the wait."""
    pause_s, failures = _FIRST_WAIT_S, 0
    while True:
        try:
            jobs, failures = find(wanted), 0
            if all(job.last.has_ended for job in jobs):
                return jobs
        except NoSuchJobError as error:
            failures += 1
            if failures > _MOST_FAILURES or (not error.reasons and failures > 3):
                raise
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.5, _LONGEST_WAIT_S)


def _print(looked: Sequence[Looked]) -> None:
    if len(looked) == 1:
        say(_text(looked[0]))
        return
    headings = ("JOB", "STATE", "EXIT", "NODE", "TOOK", "CAUSE", "WHY")
    print_table([_row(item) for item in looked], headings)
    groups = causes(looked)
    for group in groups[:_MOST_REPORTS]:
        labels = ", ".join(item.record.label for item in group)
        say(f"\n=== {len(group)} of {len(looked)}: {shorten(visible(labels), 200)}\n")
        say(_text(group[0]))
    if len(groups) > _MOST_REPORTS:
        say(f"\n{len(groups) - _MOST_REPORTS} more causes: name those jobs alone to see their reports")


def _row(item: Looked) -> tuple[str, ...]:
    record = item.record
    verdict = item.findings.verdict if item.findings else None
    why = verdict.evidence[0].text if verdict and verdict.evidence else ""
    cells = (record.label, record.state, record.code, record.nodes)
    took = "" if record.elapsed_s is None else duration(record.elapsed_s)
    return (*map(visible, cells), took, verdict.failure_class if verdict else "", shorten(visible(why.strip()), 80))


def _text(item: Looked) -> str:
    """Return the report on one job, or one line while it has not ended."""
    from gpualert.render import text

    if item.findings is None:
        reason = f" ({item.record.reason})" if item.record.reason else ""
        where = f" on {item.record.nodes}" if item.record.nodes else ""
        return visible(f"{item.record.state}{reason}: {item.record.name} (Slurm job {item.record.label}){where}")
    return text(_report(item, load_settings_or_defaults()[0]))


def _report(item: Looked, settings: Settings, looked: Sequence[Looked] = ()) -> Report:
    from gpualert.tell import report_of

    assert item.findings
    ranks = ranks_of(looked, item) if len(looked) > 1 else ()
    report = report_of(item.run, item.findings, item.logs, (), settings, ranks=ranks)
    return replace(report, look=f"gpualert slurm {item.record.array_job_id or item.record.label}")


def _print_verdicts(looked: Sequence[Looked]) -> int:
    from gpualert.cli.cause import lines_of

    for item in looked:
        if len(looked) > 1:
            say(f"{item.record.label}:")
        say("\n".join(lines_of(item.findings.verdict)) if item.findings else _text(item))
    judged = [item.findings.verdict.failure_class for item in looked if item.findings]
    return 1 if not judged or "unknown" in judged else 0


def _mail(looked: Sequence[Looked], to: str) -> int:
    """Send one report on all the jobs now; whoever started us does something else where that fails."""
    from gpualert.notify.direct import send_now
    from gpualert.notify.message import compose, envelope, message_id

    ended = [item for item in looked if item.findings]
    if not ended:
        raise UsageError("nothing to send: " + "; ".join(_text(item) for item in looked))
    groups = causes(ended)
    first = min(groups[0], key=lambda item: item.record.ended_at or 0.0) if groups else ended[0]
    assert first.findings
    settings, _ = load_settings_or_defaults()
    job = f"slurm-{first.record.array_job_id or first.record.label}.{first.job.restarts}"
    named, sent_by = message_id(job, first.findings.verdict.status), envelope(settings, (to,))
    send_now(compose(_report(first, settings, looked), (), sent_by, named, time.time()), named, sent_by, settings)
    return 0
