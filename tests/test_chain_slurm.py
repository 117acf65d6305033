"""Attempts that hand a job to Slurm, by what its programs answer; the real cluster has tests of its own."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from chains import write_started
from outcomes import messages, tick_once
from rundirs import RunBuilder, gone_pid
from slurm_fakes import FakeSlurm

from gpualert.chains.read import read_story
from gpualert.chains.record import Chain, Started, Story, Watch
from gpualert.chains.store import make_chain
from gpualert.decide import RetryPolicy
from gpualert.model import ChainEnd
from gpualert.signals.process import this_machine

HOUR_S = 3600.0
INSIDE_ID = "20261129T145200Z-n3-00000001"


@pytest.fixture
def handed_over(make_run: RunBuilder, state: Path, fake_slurm: FakeSlurm) -> Callable[..., Path]:
    """Return what makes a chain whose first attempt has handed over a job some time ago, and waits for its end."""

    def make(job_id: str, ago_s: float = HOUR_S) -> Path:
        path = state / "chains" / "nightly"
        # Never tried again here: what is asked is how the attempt ended.
        policy = RetryPolicy(max_attempts=1, max_resumes=0)
        environ = {b"PATH": os.fsencode(fake_slurm.folder)}
        make_chain(Chain(path, 1.0, (b"sbatch", b"job.sh"), b"/", environ, 0o077, {}, (), policy, Watch()))
        fake_slurm.program("sbatch", "#!/bin/sh\nexit 9\n")
        here, then = this_machine(), time.time() - ago_s
        write_started(path, Started(1, here.host, here.boot_id, here.pid_ns, gone_pid(), 1, then))
        make_run(
            argv=["sbatch", "--parsable", "job.sh"],
            log=f"sbatch: warning: slow\n{job_id}\n".encode(),
            start={"chain": "nightly", "attempt": 1, "started_at": then},
            exit={"status": 0, "ended_at": then},
        )
        return path

    return make


def story(chain: Path) -> Story:
    assert tick_once(chain.parent.parent) == []
    return read_story(chain)


def test_an_attempt_waits_for_its_job_even_where_slurm_runs_it_again(handed_over: Callable[..., Path]) -> None:
    chain = handed_over("49")
    assert story(chain).running == story(chain).running == 1
    assert messages(chain.parent.parent) == []


@pytest.mark.parametrize(
    ("job_id", "failure_class", "end"),
    [
        ("23", "walltime", ChainEnd.GAVE_UP),
        ("50", "preempted", ChainEnd.GAVE_UP),
        ("21", "interrupted", ChainEnd.STOPPED),
        ("20", "oom_killer", ChainEnd.NEEDS_PERSON),
    ],
)
def test_an_attempt_ends_as_its_job_did(
    handed_over: Callable[..., Path], job_id: str, failure_class: str, end: ChainEnd
) -> None:
    chain = handed_over(job_id)
    found = story(chain)
    assert (found.ended[1].attempt.failure_class, found.end) == (failure_class, end)
    (mail,) = messages(chain.parent.parent)
    assert failure_class in str(mail["Subject"])
    assert story(chain) == found and len(messages(chain.parent.parent)) == 1


def test_a_job_that_slurm_does_not_know_yet_is_waited_for(handed_over: Callable[..., Path]) -> None:
    assert story(handed_over("999", 60.0)).running == 1


@pytest.mark.parametrize(
    "answer", ["echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1", "exit 1"]
)
def test_while_slurm_does_not_answer_its_job_may_be_running(
    handed_over: Callable[..., Path], fake_slurm: FakeSlurm, answer: str
) -> None:
    chain = handed_over("999")
    for name in ("sacct", "scontrol"):
        fake_slurm.program(name, f"#!/bin/sh\n{answer}\n")
    assert story(chain).running == story(chain).running == 1


def test_a_job_that_slurm_has_forgotten_ended_as_the_run_inside_it(
    handed_over: Callable[..., Path], make_run: RunBuilder
) -> None:
    chain = handed_over("999")
    start = {"run_id": INSIDE_ID, "chain": "nightly", "attempt": 1, "slurm_job_id": "999", "host": "n3", "node": "n3"}
    make_run(INSIDE_ID, start=start, log=b"FileNotFoundError: [Errno 2] No such file or directory: 'train.json'\n")
    attempt = story(chain).ended[1].attempt
    assert (attempt.failure_class, attempt.node) == ("file_not_found", "n3")
    assert len(messages(chain.parent.parent)) == 1  # the run inside sends none


def test_a_job_that_slurm_has_forgotten_and_that_left_nothing_ended_for_an_unknown_cause(
    handed_over: Callable[..., Path],
) -> None:
    found = story(handed_over("999"))
    assert found.ended[1].attempt.failure_class == "unknown"
    assert found.end is ChainEnd.GAVE_UP
