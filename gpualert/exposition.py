"""
Statistics for Prometheus, in the text exposition format, as node_exporter's textfile collector reads it.

Source: Prometheus, "Exposition formats", text-based format, version 0.0.4; node_exporter, "Textfile Collector".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from gpualert.files import write_atomically
from gpualert.stats import TOP_NODES, Row, Statistics

_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_Sample = tuple[Mapping[str, str], float | None]


@dataclass(frozen=True)
class _Metric:
    """
    One metric: all are gauges, for what is older than the window leaves it.

    Attributes:
        samples: Labels and value of each; one without a value is left out.
    """

    name: str
    help: str
    samples: tuple[_Sample, ...]


def exposition(found: Statistics) -> str:
    """Return the statistics as lines; each name is preceded by its HELP and TYPE, and the last line ends too."""
    return "".join(line for metric in _metrics(found) for line in _lines(metric))


def write_exposition(path: Path, found: Statistics) -> None:
    """
    Write the statistics to a file that node_exporter may read; the collector takes those named `*.prom`.

    Raises:
        OSError: The folder is missing, not ours to write, or the disk is full.
    """
    write_atomically(path, exposition(found).encode(), mode=0o644)


def _lines(metric: _Metric) -> Iterator[str]:
    samples = [(labels, value) for labels, value in metric.samples if value is not None]
    if not samples:
        return
    yield f"# HELP {metric.name} {metric.help}\n"
    yield f"# TYPE {metric.name} gauge\n"
    for labels, value in samples:
        written = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
        yield f"{metric.name}{{{written}}} {value:.17g}\n" if written else f"{metric.name} {value:.17g}\n"


def _escaped(text: str) -> str:
    """Return a label's value; bytes that are no UTF-8 are spelled out."""
    return text.encode("utf-8", "backslashreplace").decode().translate(_ESCAPES)


def _metrics(found: Statistics) -> Iterator[_Metric]:
    total = found.total
    yield _one("gpualert_window_seconds", "Span of time that all others are about.", found.until - found.since)
    yield _one("gpualert_runs", "Runs that have been judged.", total.runs)
    yield _one("gpualert_runs_unjudged", "Runs under way or not judged yet.", found.unjudged)
    yield from _of("gpualert_class", "class", found.by_class)
    yield from _of("gpualert_node", "node", found.by_node)
    yield _Metric(
        "gpualert_node_runs",
        "Runs on a node.",
        tuple(({"node": row.name}, float(row.runs)) for row in found.by_node),
    )
    ends = tuple(({"end": end}, float(count)) for end, count in found.chain_ends)
    yield _Metric("gpualert_chains", "Chains of retries with a failure, by how they ended.", ends)
    yield _one("gpualert_chain_success_ratio", "Share of the ended chains that was saved.", total.chain_success)
    yield _one("gpualert_chain_attempts", "Attempts of these chains.", found.chain_attempts)
    yield _one("gpualert_chain_attempts_failed", "Attempts of these chains that failed.", total.attempts)
    yield _one(
        "gpualert_chain_attempts_saved", "Attempts not made because a chain stopped early.", total.attempts_saved
    )
    yield _quartiles(total)
    yield _one("gpualert_exclusions", "Failed runs that a node is to blame for.", total.exclusions)
    top = (({"top": str(TOP_NODES)}, found.top_share),)
    yield _Metric("gpualert_exclusion_share", "Share of the exclusions on the most excluded nodes.", top)
    yield _one("gpualert_exclusion_gini", "Gini coefficient of the exclusions over the nodes seen.", found.gini)


def _one(name: str, help: str, value: float | None) -> _Metric:
    return _Metric(name, help, (({}, value),))


def _of(prefix: str, label: str, rows: Iterable[Row]) -> Iterator[_Metric]:
    """Describe what classes and nodes have in common."""
    rows = tuple(rows)
    for name, help, values in (
        ("failed_runs", "Runs that failed or were lost", [float(row.failures) for row in rows]),
        ("time_lost_seconds", "How long the failed runs had run", [row.time_lost_s for row in rows]),
        ("chain_attempts_failed", "Failed attempts in chains", [float(row.attempts) for row in rows]),
        ("exclusions", "Failed runs that a node is to blame for", [float(row.exclusions) for row in rows]),
    ):
        samples = tuple(({label: row.name}, value) for row, value in zip(rows, values, strict=True))
        yield _Metric(f"{prefix}_{name}", f"{help}, by {label}.", samples)


def _quartiles(total: Row) -> _Metric:
    found = total.interval_s
    shares = {"0.25": found.lower, "0.5": found.median, "0.75": found.upper} if found else {}
    samples = tuple(({"quantile": share}, value) for share, value in shares.items())
    return _Metric("gpualert_retry_interval_seconds", "Wait between the attempts of a chain, its quartiles.", samples)
