"""Whatever order the runs of a group end in: one message, and a second only where a success turns into a failure."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from outcomes import messages
from ranks import GROUP, Ranks
from rundirs import RunBuilder

from gpualert.group.post import report_group
from gpualert.post import report_run

SIZE = 4


@st.composite
def schedules(draw: st.DrawFn) -> list[tuple[int, bool, bool]]:
    """Return ranks in the order of their reports: whether each failed, and whether somebody looks at the group then."""
    order = draw(st.permutations(range(SIZE)))
    return [(rank, draw(st.booleans()), draw(st.booleans())) for rank in order[: draw(st.integers(1, SIZE))]]


@settings(max_examples=8, deadline=None)
@given(schedule=schedules())
def test_a_group_is_told_once_and_corrected_once_at_most(schedule: list[tuple[int, bool, bool]]) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        state = Path(folder) / "state"
        patch.setattr("gpualert.group.post._PATIENCE_S", 0.0)
        patch.setenv("GPUALERT_HOME", str(state))
        ranks = Ranks(RunBuilder(state), size=SIZE)
        told: list[str] = []
        for rank, fails, looks in schedule:
            report_run(ranks.failed(rank) if fails else ranks(rank))
            if looks:
                report_group(state / "groups" / GROUP)
                told.append("failed" if any(bad for n, bad, _ in schedule if n in reported(state)) else "succeeded")
        report_group(state / "groups" / GROUP)
        told.append("failed" if any(bad for _, bad, _ in schedule) else "succeeded")
        found = sorted(str(mail["X-Gpualert-Status"]) for mail in messages(state))
        assert found == sorted(set(told))


def reported(state: Path) -> set[int]:
    return {int(link.name) for link in (state / "groups" / GROUP / "members").iterdir()}
