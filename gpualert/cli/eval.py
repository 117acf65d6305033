"""`gpualert eval`: how often verdicts are right, on logs whose cause is known."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from gpualert.cli.common import print_json, say, table
from gpualert.display import visible
from gpualert.errors import UsageError
from gpualert.evaluate.cases import Case, read_cases
from gpualert.evaluate.measuring import OURS, SPLITS, measure, report
from gpualert.rules import load_rules


@click.command(name="eval")
@click.argument("corpus", nargs=-1, required=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@click.option("--by", type=click.Choice(sorted(SPLITS)), help="Also a row for each of these.")
@click.option("--holdout", type=click.Choice(sorted(SPLITS)), help="Each of these alone, against all the others.")
@click.option("--classes", is_flag=True, help="Also a row for each class.")
@click.option("--misses", is_flag=True, help="Also each case that is judged wrong.")
@click.option("--confusion", type=click.Path(dir_okay=False, path_type=Path), help="Draw the confusion as a PNG.")
def evaluate(
    corpus: tuple[Path, ...],
    as_json: bool,
    by: str | None,
    holdout: str | None,
    classes: bool,
    misses: bool,
    confusion: Path | None,
) -> int:
    """
    Score verdicts on CORPUS: folders of logs with labels.jsonl, or of run directories with label.yaml.

    The same is counted for three baselines: a search for keywords, the last traceback, and the exit status.
    """
    rules = load_rules()
    reports = []
    for folder in corpus:
        measured = measure(folder.resolve().name, read_cases(folder), rules, _progress)
        reports.append(report(measured, by or "", holdout or ""))
        if confusion:
            _draw(measured.ours, _numbered(confusion, len(reports), len(corpus)))
    if as_json:
        print_json(reports)
        return 0
    for number, found in enumerate(reports):
        say(("\n" if number else "") + "\n".join(_lines(found, classes, misses)))
    return 0


@contextlib.contextmanager
def _progress(cases: Sequence[Case]) -> Iterator[Iterator[Case]]:
    """Show on a terminal how far it is; standard output is for the result."""
    if not sys.stderr.isatty():
        yield iter(cases)
        return
    with click.progressbar(cases, file=sys.stderr, label="classifying") as bar:
        yield iter(bar)


def _lines(found: dict[str, Any], classes: bool, misses: bool) -> Iterator[str]:
    ours = found["figures"][OURS]
    yield f"{visible(found['corpus'])}: {ours['cases']} cases; each rate with its 95 % interval and what it proves"
    yield table([_rate(name, row) for name, row in ours.items() if name != "cases"])
    yield ""
    rows = [
        [
            name,
            _percent(row["class"]),
            _percent(row["class or alternative"]),
            f"{row['macro-F1']['rate']:.4f}",
            f"{row['macro-F1']['low']:.3f} to {row['macro-F1']['high']:.3f}",
            _chance(found["mcnemar"].get(name)),
        ]
        for name, row in found["figures"].items()
    ]
    yield table(rows, ["", "class", "or alternative", "macro-F1", "95 % interval", "differs from gpualert (McNemar)"])
    for title, parts in (("by", found.get("by")), ("held out", found.get("holdout"))):
        if parts:
            yield ""
            yield table(list(_part_rows(title, parts)), ["", "cases", "class or alternative", "macro-F1", "the others"])
    if classes:
        yield ""
        scores = [
            [name, str(row["cases"]), f"{row['precision']:.3f}", f"{row['recall']:.3f}", f"{row['f1']:.3f}"]
            for name, row in found["classes"].items()
        ]
        yield table(scores, ["class", "cases", "precision", "recall", "F1"])
    if found["confusion"]:
        yield ""
        yield table(
            [[row["label"], row["said"], str(row["cases"])] for row in found["confusion"]],
            ["labelled", "taken for", "cases"],
        )
    if misses:
        yield from (visible(f"{row['case']}: {row['said']} instead of {row['label']}") for row in found["misses"])


def _rate(name: str, row: dict[str, Any]) -> list[str]:
    if "hits" not in row:
        return [name, "", f"{row['rate']:.4f}", f"{row['low']:.4f} to {row['high']:.4f}", ""]
    if not row["of"]:
        return [name, "none labelled", "", "", ""]
    word = "at most" if name in ("false stops", "abstentions") else "at least"
    return [
        name,
        f"{row['hits']} of {row['of']}",
        f"{100 * row['rate']:.1f} %",
        f"{100 * row['low']:.1f} to {100 * row['high']:.1f} %",
        f"proves {word} {100 * row['proven']:.1f} %",
    ]


def _percent(row: dict[str, Any]) -> str:
    return f"{100 * row['rate']:.1f} %" if row["of"] else ""


def _chance(row: dict[str, float] | None) -> str:
    return f"{row['only gpualert']:.0f} to {row['only baseline']:.0f}, p = {row['p']:.2g}" if row else ""


def _part_rows(title: str, parts: dict[str, Any]) -> Iterator[list[str]]:
    for name, part in parts.items():
        alone = part.get("held out", part)
        others = part.get("the others")
        yield [
            f"{title} {visible(name)}",
            str(alone["cases"]),
            _percent(alone["class or alternative"]),
            f"{alone['macro-F1']['rate']:.4f}",
            _percent(others["class or alternative"]) if others else "",
        ]


def _numbered(path: Path, number: int, of: int) -> Path:
    return path if of == 1 else path.with_name(f"{path.stem}-{number}{path.suffix}")


def _draw(outcomes: Sequence[Any], path: Path) -> None:
    try:
        from gpualert.evaluate.plotting import draw_confusion
    except ImportError as error:
        hint = "pip install 'gpualert-shim[plot]'"
        raise UsageError(f"cannot draw the confusion: matplotlib is missing; {hint}") from error
    draw_confusion(outcomes, path)
