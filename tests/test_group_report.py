"""The table of ranks in a message."""

from __future__ import annotations

import pytest
from reports import HOSTILE, a_report, a_success

from gpualert.render import html, text
from gpualert.report import Rank


def ranks(count: int, first: int = 5) -> list[Rank]:
    """Return ranks of which one failed first, the next one was drawn along, and the others ended well."""
    outcomes = {first: "FAILED cuda_oom", first + 1: "FAILED nccl"}
    return [
        Rank(
            f"rank {n}",
            f"n{n}",
            outcomes.get(n, "OK"),
            60.0 + n,
            f"/runs/{n}",
            first=f"rank {n}" if n == first else "",
            succeeded=n not in outcomes,
        )
        for n in range(count)
    ]


def test_the_subject_counts_nodes_and_names_the_first() -> None:
    assert a_report(ranks=ranks(8)).subject == "FAILED cuda_oom: train.py on 8 nodes after 3h 12m (rank 5 on n5 first)"


def test_of_very_many_ranks_those_that_failed_are_shown_and_the_others_counted() -> None:
    report = a_report(ranks=ranks(1000, first=900))
    labels = [row[0] for row in report.ranks]
    assert len(labels) == 40
    assert labels[-2:] == ["rank 900, first", "rank 901"]
    assert report.ranks_left_out == "and 960 more, of which 960 ended well"
    assert report.ranks_left_out in text(report) and report.ranks_left_out in html(report)


def test_the_columns_are_aligned() -> None:
    shown = text(a_report(ranks=ranks(8)))
    rows = [line for line in shown.splitlines() if line.startswith("rank ")]
    assert len({row.index("/runs/") for row in rows}) == 1 and len(rows) == 8


def test_text_of_strangers_in_the_table_is_made_visible_and_escaped() -> None:
    rows = [Rank("rank 0", HOSTILE, HOSTILE, None, f"/{HOSTILE}", first="rank 0")]
    report = a_report(ranks=rows)
    assert "\x1b" not in text(report) and "<script>" not in html(report)
    assert text(report).isprintable() or all(line.isprintable() for line in text(report).splitlines())


@pytest.mark.parametrize(
    ("silent", "subject"),
    [(0, "OK: train.py on 4 nodes after 3h 12m"), (2, "OK: train.py on 2 nodes after 3h 12m (2 of 4 did not report)")],
)
def test_a_success_says_how_many_did_not_report(silent: int, subject: str) -> None:
    well = [Rank(f"rank {n}", f"n{n}", "OK", 1.0, "/r", succeeded=True) for n in range(4 - silent)]
    absent = [Rank(f"rank {n}", "", "never started", None, "", reported=False) for n in range(4 - silent, 4)]
    assert a_report(verdict=a_success(), ranks=[*well, *absent]).subject == subject
