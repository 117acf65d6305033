"""What came of runs, chains and nodes: as text, JSON, or a file for Prometheus."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from gpualert.census import take_census
from gpualert.cli.common import folders, print_json, print_table, say, table
from gpualert.display import duration, instant, visible
from gpualert.spread import QUARTILE_METHOD, Quartiles
from gpualert.stats import TOP_NODES, Row, Statistics
from gpualert.values import duration as seconds_of

_ENDS = {"saved": "saved", "gave_up": "given up", "needs_person": "waiting for a person", "stopped": "stopped by hand"}


class _Span(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic since click 8.2
    """A span of time: `30d`, `12h`."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            return value if isinstance(value, float) else seconds_of(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


@click.command()
@click.option("--since", type=_Span(), default="30d", show_default=True, help="How far to look back: 12h, 7d, 52w.")
@click.option("--rows", default=15, show_default=True, type=click.IntRange(0), help="Lines a table; 0 for all.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "--prometheus", "file", type=click.Path(path_type=Path, dir_okay=False), help="Write a file for node_exporter."
)
def stats(since: float, rows: int, as_json: bool, file: Path | None) -> int:
    """
    Count runs and failures by class and node, and say how chains of retries fared.

    Status 1 when there is nothing to count.
    """
    until = time.time()
    census = take_census(folders(), until - since)
    found = census.statistics(until - since, until)
    for trouble in census.troubles:
        click.echo(f"gpualert: {visible(trouble)}", err=True)
    if file:
        from gpualert.exposition import write_exposition

        write_exposition(file, found)
    elif as_json:
        print_json(_as_json(found))
    else:
        _print(found, rows or None)
    return 0 if found.total.runs or found.total.chains or found.total.exclusions else 1


def _print(found: Statistics, rows: int | None) -> None:
    say(f"{duration(found.until - found.since)} to {instant(found.until)}\n")
    say(table(list(_overview(found))))
    classes = [(visible(row.name), *_cells(row)) for row in found.by_class]
    bad = [row for row in found.by_node if row.failures or row.exclusions or row.attempts]
    nodes = [(visible(row.name), str(row.runs), *_cells(row)) for row in bad]
    _print_rows(("CLASS", *_HEADINGS), classes, rows)
    _print_rows(("NODE", "RUNS", *_HEADINGS), nodes, rows)


def _print_rows(headings: Sequence[str], cells: Sequence[Sequence[str]], rows: int | None) -> None:
    """Print a table without the columns that say nothing; nothing where there are no rows."""
    if not cells:
        return
    telling = [column for column in range(len(headings)) if any(line[column] for line in cells)]
    say("")
    print_table([[line[column] for column in telling] for line in cells[:rows]], [headings[c] for c in telling])
    if rows and len(cells) > rows:
        say(f"... and {len(cells) - rows} more (see: --rows)")


def _overview(found: Statistics) -> Iterator[tuple[str, str]]:
    total = found.total
    yield "Runs", f"{total.runs}, of which {total.failures} failed{_share(total.failures, total.runs)}"
    if found.unjudged:
        yield "", f"{found.unjudged} more have not ended, or are not judged yet"
    yield "Time lost", f"{duration(total.time_lost_s)} in runs that failed"
    if total.chains:
        ends = [f"{count} {_ENDS.get(end, end)}" for end, count in found.chain_ends]
        yield "Chains", f"{total.chains} with a failure: {', '.join(ends)}"
        if total.chain_success is not None:
            yield "", f"{total.chain_success:.1%} of the {total.chains_ended} that ended by themselves were saved"
        yield "Attempts", f"{found.chain_attempts}, of which {total.attempts} failed"
        yield "", f"{total.attempts_saved} not made, because the chain stopped early"
        yield "Interval", _interval(total.interval_s)
    if found.top_share is not None and found.gini is not None:
        share = f"{found.top_share:.1%} of that on {min(TOP_NODES, found.nodes)} of the {found.nodes} nodes seen"
        yield "Blamed", f"nodes, in {total.exclusions} runs, {share}; Gini coefficient {found.gini:.3f}"


def _share(part: int, whole: int) -> str:
    return f" ({part / whole:.1%})" if whole else ""


def _interval(found: Quartiles | None) -> str:
    if found is None:
        return "none"
    lower, median, upper = map(duration, (found.lower, found.median, found.upper))
    return f"median {median}, quartiles {lower} and {upper} (of {found.count})"


_HEADINGS = ("FAILED", "TIME LOST", "CHAINS", "SAVED", "ATTEMPTS", "NOT MADE", "INTERVAL", "BLAMED")


def _cells(row: Row) -> Sequence[str]:
    saved = "" if row.chain_success is None else f"{row.chains_saved} of {row.chains_ended}"
    interval = "" if row.interval_s is None else duration(row.interval_s.median)
    counts = (row.attempts, row.attempts_saved)
    return (
        str(row.failures),
        duration(row.time_lost_s) if row.failures else "",
        str(row.chains or ""),
        saved,
        *(str(count or "") for count in counts),
        interval,
        str(row.exclusions or ""),
    )


def _as_json(found: Statistics) -> dict[str, Any]:
    return {
        **asdict(found),
        "chain_ends": dict(found.chain_ends),
        "total": _row_json(found.total),
        "by_class": [_row_json(row) for row in found.by_class],
        "by_node": [_row_json(row) for row in found.by_node],
        "top_nodes": TOP_NODES,
        "quartile_method": QUARTILE_METHOD,
    }


def _row_json(row: Row) -> dict[str, Any]:
    return {**asdict(row), "chain_success": row.chain_success}
