"""`gpualert classify` and `gpualert rules`: why did a log end as it did, and what do the rules say."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpualert.classify import classify_opened, read
from gpualert.classify.judge import Tier, judge, tier
from gpualert.decide import prospect
from gpualert.display import visible
from gpualert.errors import UsageError
from gpualert.findings import rule_folders
from gpualert.model import Facts, LogFile, Verdict
from gpualert.nearby import near
from gpualert.rules import load_rules, read_rule, rule_files
from gpualert.scan import Log, open_log, open_stream
from gpualert.verdict_json import verdict_to_json

if TYPE_CHECKING:
    from gpualert.ruleset import Rule


@click.command(name="classify")
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as JSON.")
@click.option("--html", type=click.Path(path_type=Path, dir_okay=False), help="Write the verdict as a page, too.")
@click.option("--status", type=click.IntRange(0, 255), help="The exit status of the job, if it is known.")
@click.argument("files", nargs=-1, type=click.Path(path_type=Path, allow_dash=True))
def classify(as_json: bool, html: Path | None, status: int | None, files: tuple[Path, ...]) -> None:
    """
    Say why the job behind a log ended.

    Reads standard input when no FILE is named, or for '-'.  Several files are read together, as of one job: one a rank.
    gzip is read.  Exit status: 0 when a cause is named (or all went well), 1 when it is unknown, 2 for bad input.
    """
    with ExitStack() as stack:
        logs = _open_all(files or (Path("-"),), stack)
        verdict = classify_opened(logs, Facts(status=status), load_rules(rule_folders()))
    if html:
        _write_page(html, files, verdict)
    click.echo(json.dumps(verdict_to_json(verdict), indent=2) if as_json else "\n".join(lines_of(verdict)))
    sys.exit(1 if verdict.failure_class == "unknown" else 0)


def _write_page(page: Path, files: Sequence[Path], verdict: Verdict) -> None:
    """Write what a message would say of the logs, with the lines around the cause."""
    from gpualert.excerpt import read_windows
    from gpualert.log_report import build_log_report
    from gpualert.render import html

    logs = [LogFile(str(file), file, 0, file.stat().st_size) for file in files if str(file) != "-"]
    root = next((item for item in verdict.evidence if item.line), None)
    windows, _ = read_windows(logs, root, 0)
    page.write_text(html(build_log_report(logs, verdict, windows)), encoding="utf-8")


def _open_all(files: Sequence[Path], stack: ExitStack) -> list[Log]:
    logs = []
    for file in files:
        try:
            if str(file) == "-":
                log = open_stream("standard input", sys.stdin.buffer)
            else:
                log = open_log(LogFile(str(file), file))
        except (OSError, ValueError) as error:
            raise UsageError(
                f"cannot read log '{visible(str(file))}': {getattr(error, 'strerror', None) or error}"
            ) from error
        for holder in log.holders:
            stack.callback(holder.close)
        logs.append(log)
    return logs


def lines_of(verdict: Verdict) -> Iterator[str]:
    """Yield a verdict as lines for a terminal."""
    named = verdict.failure_class + (" (exit 0)" if verdict.exited_zero else "")
    yield f"{verdict.status.value.upper()} {named}: {verdict.title} ({verdict.confidence.value} confidence)"
    if verdict.first_rank is not None:
        yield f"first rank: {verdict.first_rank}"
    for item in verdict.evidence:
        where = f"{item.file}:{item.line}" if item.line else item.source
        yield f"  {visible(where)}: {visible(item.text.strip())}"
        if item.frame:
            yield f"      in your code: {visible(item.frame)}"
    yield f"next: {prospect(verdict)}"
    if verdict.advice and verdict.failure_class != "success":
        yield f"      {' '.join(verdict.advice.split())}"
    for other in verdict.runners_up:
        yield f"also considered: {other.failure_class} ({visible(other.evidence.file)}:{other.evidence.line})"
    yield from (f"note: {visible(note)}" for note in verdict.notes)
    yield from (f"could not read: {visible(trouble)}" for trouble in verdict.not_read)


@click.group(name="rules", invoke_without_command=True)
@click.pass_context
def rules(ctx: click.Context) -> None:
    """Look at the rules that name a failure's cause."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


@rules.command(name="list")
def list_rules() -> None:
    """List the failure classes, in the order in which rules compete for a line."""
    for rule in load_rules(rule_folders()).rules:
        click.echo(f"{rule.number:3} {rule.id:20} {rule.action.value:10} {rule.outlook.value:15} {rule.title}")


@rules.command(name="explain")
@click.argument("failure_class")
def explain(failure_class: str) -> None:
    """Explain one class: what it means, what to do, how it looks, and what it is not."""
    files = {path.stem.partition("-")[2]: path for path in rule_files(rule_folders())}
    if failure_class not in files:
        hint = f" (near: {', '.join(names)})" if (names := near(failure_class, files, 3)) else ""
        raise UsageError(f"there is no failure class '{visible(failure_class)}'{hint}; see 'gpualert rules list'")
    click.echo("\n".join(_explained(read_rule(files[failure_class]))))


def _explained(rule: Rule) -> Iterator[str]:
    yield f"{rule.id}: {rule.title}"
    yield f"outlook {rule.outlook.value}, default action {rule.action.value}, domain {rule.domain.value}"
    yield from ("", rule.advice, "", "Looks like:")
    yield from (f"  {log.strip()}   [{seen}]" for log, seen in rule.examples)
    yield "Is not:"
    yield from (f"  {log.strip()}   [{why}]" for log, why in rule.counterexamples)
    yield "Sources:"
    yield from (f"  {source}" for source in rule.sources)
    yield f"File: {rule.source}"


@rules.command(name="try")
@click.option("--status", type=click.IntRange(0, 255), help="The exit status of the job, if it is known.")
@click.argument("log", type=click.Path(path_type=Path, allow_dash=True))
def try_rules(log: Path, status: int | None) -> None:
    """Show every line of LOG that a rule knows, which one won, and why the others lost."""
    known = load_rules(rule_folders())
    with ExitStack() as stack:
        logs = _open_all((log,), stack)
        reading = read(logs, Facts(status=status), known)
        verdict = classify_opened(logs, Facts(status=status), known)
        root = judge(reading.events, status).root
        for event in reading.events:
            number = logs[event.log].number(event.offset)
            outcome = "WON" if event is root else _why_lost(event, root)
            click.echo(f"{number:7} {event.failure_class:20} {outcome:34} {visible(event.text.strip())[:160]}")
    click.echo(f"verdict: {verdict.failure_class} ({verdict.confidence.value} confidence)")


def _why_lost(event: object, root: object) -> str:
    from gpualert.classify.events import Event

    assert isinstance(event, Event)
    if event.settled:
        return event.settled
    names = {
        Tier.GENERIC: "generic",
        Tier.TALK: "only a warning",
        Tier.CASCADE: "follows from another",
        Tier.SUMMARY: "a summary",
        Tier.MENTION: "only mentioned",
        Tier.SUPPORT: "supports",
    }
    if isinstance(root, Event):
        if event.failure_class == root.failure_class:
            return "the same cause, later"
        if tier(event) == tier(root):
            return "later than the root"
    return names.get(tier(event), "a root")
