"""How many cases there are, class by class."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from corpus.make.cleaning import read_log
from corpus.make.recipe import ACTIONS, PUBLISHED
from gpualert.evaluate.cases import LABEL

_NOISY_LINES = 1000


@dataclass(frozen=True)
class Counted:
    """
    One case, as far as it is counted.

    Attributes:
        lines: Of all its logs together.
        ranked: The rank that failed first is labelled.
    """

    failure_class: str
    produced: bool
    lines: int
    ranked: bool
    size_bytes: int


def wanted(failure_class: str) -> int:
    """Return how many cases a class shall have."""
    return 40 if failure_class == "success" else 12 if failure_class in PUBLISHED else 6


def table(corpus: Path) -> Iterator[str]:
    """Yield the lines of a table; a class that has fewer cases than it shall have is marked."""
    cases = [_counted(path.parent) for path in sorted(corpus.glob(f"*/*/{LABEL}"))]
    yield f"{'':22}{'cases':>7}{'produced':>10}{'> 1,000 lines':>15}{'first rank':>12}{'KB':>8}"
    for name in sorted(ACTIONS):
        yield _row(name, [case for case in cases if case.failure_class == name], wanted(name))
    yield _row("all", cases, 0)


def _counted(folder: Path) -> Counted:
    label = yaml.safe_load((folder / LABEL).read_text("utf-8"))
    return Counted(
        failure_class=label["class"],
        produced=label["origin"] == "produced",
        lines=sum(read_log(path).count(b"\n") for path in folder.rglob("*.log")),
        ranked=label.get("first_rank") is not None,
        size_bytes=sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()),
    )


def _row(name: str, cases: list[Counted], least: int) -> str:
    noisy, ranked = sum(case.lines > _NOISY_LINES for case in cases), sum(case.ranked for case in cases)
    produced, kilobytes = sum(case.produced for case in cases), sum(case.size_bytes for case in cases) // 1000
    mark = f"  of {least}" if len(cases) < least else ""
    return f"{name:22}{len(cases):7}{produced:10}{noisy:15}{ranked:12}{kilobytes:8}{mark}"
