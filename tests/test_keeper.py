"""Where no tick runs, a process stays until what was collected has been told; where one runs, none does."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest
from outcomes import messages, tick_once
from rundirs import RunBuilder

from gpualert.keeper import start_keeper
from gpualert.places import python_command
from gpualert.post import post


def end_twice(make_run: RunBuilder) -> None:
    for number in range(2):
        run_id = f"2026112{number}T145138Z-node03-3f9a1c2e"
        post(make_run(run_id, start={"run_id": run_id}))


def eventually(state: Path, count: int) -> None:
    ends = time.monotonic() + 60
    while len(messages(state)) < count:
        assert time.monotonic() < ends
        time.sleep(0.05)


def test_what_was_collected_is_told_although_nobody_comes_by(
    make_run: RunBuilder, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUALERT_DIGEST_KEEPER", "yes")
    monkeypatch.setenv("GPUALERT_DIGEST_WINDOW_S", "1")
    end_twice(make_run)
    eventually(state, 2)


def test_a_keeper_leaves_when_there_is_nothing_to_keep(state: Path) -> None:
    subprocess.run(python_command("outbox", "wait", str(state)), check=True, timeout=60)
    assert not state.exists()


def test_a_keeper_leaves_where_a_tick_runs(make_run: RunBuilder, state: Path) -> None:
    assert tick_once(state) == []
    end_twice(make_run)
    assert tick_once(state) == []
    subprocess.run(python_command("outbox", "wait", str(state)), check=True, timeout=60)
    assert len(messages(state)) == 1


def test_none_is_started_for_nothing(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "Popen", pytest.fail)
    start_keeper(state)
