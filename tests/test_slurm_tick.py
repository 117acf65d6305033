"""A tick asks Slurm seldom, about all runs at once, and reports as lost those whose job has ended."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from rundirs import RunBuilder
from slurm_fakes import FakeSlurm

from gpualert.config import load_settings
from gpualert.listing import entry
from gpualert.standing import Standing
from gpualert.state import run_paths
from gpualert.tick import _is_finished, find_due, tick


def elsewhere(make_run: RunBuilder, number: int, job_id: str, *, silent_s: float = 3600.0, restarts: int = 0) -> Path:
    """Return a run on another host, that has given no sign for a while."""
    start = {"host": "n7", "boot_id": "another", "node": "n7", "slurm_job_id": job_id, "slurm_restart_count": restarts}
    at = time.time() - silent_s
    path = make_run(f"20261129T18233{number}Z-n7-3f9a1c2e", start={**start, "started_at": at}, ended=False)
    for item in (*path.iterdir(), path):
        os.utime(item, (at, at))
    return path


@pytest.fixture
def complaints() -> list[str]:
    return []


def test_ended_jobs_are_found_with_one_question(
    make_run: RunBuilder, fake_slurm: FakeSlurm, state: Path, complaints: list[str]
) -> None:
    (state / "locks").mkdir(parents=True, mode=0o700)
    lost = [elsewhere(make_run, 1, "21"), elsewhere(make_run, 2, "50"), elsewhere(make_run, 3, "49")]
    elsewhere(make_run, 4, "49", restarts=1)
    elsewhere(make_run, 5, "21", silent_s=10.0)
    elsewhere(make_run, 6, "")
    due = find_due(state, complaints.append)
    assert [(item.run.path, item.standing) for item in due] == [(path, Standing.LOST) for path in lost]
    assert len(fake_slurm.asked) == 1
    assert complaints == []


def test_it_is_not_asked_again_for_a_while(
    make_run: RunBuilder, fake_slurm: FakeSlurm, state: Path, complaints: list[str]
) -> None:
    (state / "locks").mkdir(parents=True, mode=0o700)
    elsewhere(make_run, 1, "49", restarts=1)
    for _ in range(3):
        assert find_due(state, complaints.append) == []
    assert len(fake_slurm.asked) == 1


def test_without_runs_of_slurm_nobody_is_asked(
    make_run: RunBuilder, fake_slurm: FakeSlurm, state: Path, complaints: list[str]
) -> None:
    elsewhere(make_run, 1, "")
    make_run()
    find_due(state, complaints.append)
    assert fake_slurm.asked == []


def test_a_lost_run_is_reported_once_and_one_that_runs_again_is_not_mailed(
    make_run: RunBuilder, fake_slurm: FakeSlurm, state: Path, complaints: list[str]
) -> None:
    cancelled, requeued = elsewhere(make_run, 1, "21"), elsewhere(make_run, 3, "49")
    settings = load_settings()
    for _ in range(2):
        tick([state], settings, complaints.append)
        (state / "locks" / "asked").unlink(missing_ok=True)
    assert complaints == []
    messages = [path.read_text() for path in (state / "mail" / "new").iterdir()]
    assert len(messages) == 1
    assert "Subject: LOST interrupted: train.py on n7" in messages[0]
    assert [(entry(path).status, entry(path).failure_class) for path in (cancelled, requeued)] == [
        ("lost", "interrupted"),
        ("lost", "preempted"),
    ]
    assert all(_is_finished(path, set()) for path in run_paths([state]))
