"""What Slurm does to a job some time after its start: its time limit, the signal before it, a node that dies."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from .jobs import GPUALERT, Accounted, Told, User, told
from .slurm_conf import DOOMED

pytestmark = [pytest.mark.engines, pytest.mark.timeout(240)]

# Counts USR1 until some time after the first, so that a second would be seen.
_COUNTER = """\
import signal, time
count = 0
def caught(number, frame):
    global count
    count += 1
signal.signal(signal.SIGUSR1, caught)
print("up", flush=True)
for _ in range(4000):
    time.sleep(0.02)
    if count:
        time.sleep(1)
        print("caught", count, flush=True)
        raise SystemExit(9)
"""
_COUNT = f"{GPUALERT} run --name job -- python3 counter.py"
_LAST = f"{GPUALERT} run --name job -- sh -c 'echo step 12; exec sleep 300'"
_TO_BATCH, _TO_STEPS = "--signal=B:USR1@50", "--signal=USR1@50"
# Slurm looks about every half minute, so they are all submitted at once.
_SCRIPTS = {
    "exec": (f"exec {_COUNT}", _TO_BATCH),
    "trap": (f'{_COUNT} & job=$!; trap "kill -USR1 $job" USR1; wait $job; wait $job', _TO_BATCH),
    "neither": (f"{_COUNT}; echo after", _TO_BATCH),
    "step": (f"srun {_COUNT}", _TO_STEPS),
    "limit": (f"exec {_LAST}",),
    "limit of a step": (f"srun {_LAST}",),
    "limit, neither": (_LAST,),
    "limit, mailed": ("echo step 12; exec sleep 300", "--mail-type=END,FAIL", "--mail-user={recipient}"),
}


@dataclass(frozen=True)
class Slow:
    """A job that was submitted at the start, and its user."""

    user: User
    job: str

    def end(self) -> Accounted:
        """Wait for its end."""
        return self.user.wait(self.job, 180)

    def statuses(self) -> list[int]:
        """Return the exit statuses that the verdicts rest on."""
        found = [json.loads((run / "evidence.json").read_text()) for run in self.user.runs()]
        return [evidence["facts"]["status"] for evidence in found]


@pytest.fixture(scope="module")
def slow(make_user: Callable[[], User]) -> dict[str, Slow]:
    """Submit all that takes its time."""

    def submitted(script: str, *options: str) -> Slow:
        user = make_user()
        (user.work / "counter.py").write_text(_COUNTER)
        options = tuple(option.format(recipient=f"{user.work.parent.name}@example.org") for option in options)
        return Slow(user, user.sbatch(script, "-t", "1", *options))

    return {name: submitted(*words) for name, words in _SCRIPTS.items()}


@pytest.mark.parametrize("form", ["exec", "trap", "step"])
def test_the_signal_before_the_time_limit_reaches_the_job_once(slow: dict[str, Slow], form: str) -> None:
    job = slow[form]
    assert job.end().exit_code == "9:0"
    assert "caught 1\n" in job.user.output(job.job)
    assert job.statuses() == [9]


def test_without_exec_a_signal_to_the_batch_shell_ends_it_and_the_page_says_so(slow: dict[str, Slow]) -> None:
    job = slow["neither"]
    assert job.end().state == "FAILED"
    assert "after" not in job.user.output(job.job) and "caught" not in job.user.output(job.job)
    assert "exec gpualert run" in (Path(__file__).parents[2] / "docs/slurm.md").read_text()


@pytest.mark.parametrize(
    ("form", "status"), [("limit", "failed"), ("limit of a step", "failed"), ("limit, neither", "lost")]
)
def test_a_job_that_reaches_its_time_limit(slow: dict[str, Slow], form: str, status: str) -> None:
    job = slow[form]
    end = job.end()
    assert end.state == "TIMEOUT"
    job.user.gpualert("tick")
    (mail,) = job.user.mails()
    found = told(mail)
    assert (found.subject, found.status, found.failure_class) == (
        f"{status.upper()} walltime: job on {end.nodes}",
        status,
        "walltime",
    )
    assert (found.host, found.job.split(".")[0]) == (end.nodes, f"Slurm {job.job}")
    assert "TIME LIMIT" in found.why or "TIMEOUT" in found.why


def test_slurms_mail_about_a_time_limit_is_a_report(slow: dict[str, Slow]) -> None:
    job = slow["limit, mailed"]
    end = job.end()
    assert end.state == "TIMEOUT"
    found = told(job.user.mailed(f"{job.user.work.parent.name}@example.org"))
    assert (found.subject, found.status) == (f"FAILED walltime: job on {end.nodes}", "failed")
    assert (found.host, found.job) == (end.nodes, f"Slurm {job.job}")


def test_a_job_whose_node_dies_is_reported_as_lost(user: User) -> None:
    with Path(f"{user.cluster.base}.{DOOMED}").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        script = f"exec {GPUALERT} run --name job -- sh -c 'echo up; exec sleep 300'"
        job = user.sbatch(script, "-p", "doomed", "--no-requeue")
        user.wait_for_output(job, "up")
        user.cluster.kill_node(DOOMED)
        try:
            end = user.wait(job, 120)
        finally:
            user.cluster.start_node(DOOMED)
    assert end == Accounted("NODE_FAIL", "0:0", DOOMED)
    user.gpualert("tick")
    (mail,) = user.mails()
    why = f"Slurm job {job} State=NODE_FAIL: a node failed, of {DOOMED}"
    subject, where = f"LOST node_failure: job on {DOOMED}", f"slurm, on {DOOMED}"
    assert told(mail) == Told(subject, "lost", "node_failure", why, where, DOOMED, f"Slurm {job}")
