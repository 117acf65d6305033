"""Chains of retries whose attempts are Slurm jobs: an attempt ends with its job, and the next one avoids bad nodes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from .daemons import wait_until
from .jobs import GPUALERT, User

pytestmark = pytest.mark.engines


class SlurmChain:
    """One chain of a user of the cluster."""

    def __init__(self, user: User, name: str) -> None:
        self.user, self.name = user, name

    def start(self, script: str, *options: str, words: tuple[str, ...] = ()) -> None:
        """Start a chain of a batch script."""
        path = self.user.work / f"{self.name}.sh"
        path.write_text(f"#!/bin/bash\n{script}\n")
        chain = ["chain", "start", "--name", self.name, "--interval", "0", *options]
        self.user.gpualert(*chain, "--", "sbatch", *words, path)

    def carry_on(self, limit_s: float = 60) -> tuple[str, list[dict[str, Any]]]:
        """Tick until it has ended; return how, and its attempts."""

        def ended() -> dict[str, Any] | None:
            ticked = self.user.gpualert("tick")
            assert ticked.stderr == ""
            shown: dict[str, Any] = json.loads(self.user.gpualert("chain", "show", "--json", self.name).stdout)
            return None if shown["state"] in ("due", "running", "running, then stops") else shown

        shown = wait_until(ended, limit_s, f"the end of chain {self.name}")
        return shown["state"], [shown["ended"][number]["attempt"] for number in sorted(shown["ended"])]


FAILS_ON_ITS_FIRST_NODE = f"""
{GPUALERT} run -- /bin/sh -c '
echo "attempt $GPUALERT_ATTEMPT, not on: $GPUALERT_EXCLUDE_NODES"
[ "$GPUALERT_ATTEMPT" != 1 ] || {{ echo "RuntimeError: CUDA error: uncorrectable ECC error encountered" >&2; exit 1; }}'
"""


def test_a_chain_moves_off_a_bad_node_and_is_told_once(user: User) -> None:
    chain = SlurmChain(user, "moves")
    chain.start(FAILS_ON_ITS_FIRST_NODE)
    state, (first, second) = chain.carry_on()
    assert state == "saved"
    assert (first["failure_class"], first["faulty_node"]) == ("gpu_hardware", first["node"])
    assert first["node"] and second["node"] and second["node"] != first["node"]
    outputs = [path.read_text() for path in sorted(user.work.glob("slurm-*.out"))]
    assert f"attempt 2, not on: {first['node']}\n" in outputs[-1]
    wait_until(lambda: user.mails(), 30, "the message")
    user.gpualert("tick")
    (mail,) = user.mails()
    assert str(mail["Subject"]).endswith(", saved at attempt 2")


def test_the_verdict_on_a_job_without_runs_is_slurms(user: User) -> None:
    chain = SlurmChain(user, "plain")
    chain.start("echo \"FileNotFoundError: [Errno 2] No such file or directory: 'train.json'\" >&2; exit 1")
    state, (attempt,) = chain.carry_on()
    assert (state, attempt["failure_class"]) == ("needs person", "file_not_found")
    (mail,) = user.mails()
    assert "needs you" in str(mail["Subject"])


def test_more_memory_is_asked_for_after_the_kernel_killed_for_it(user: User) -> None:
    chain = SlurmChain(user, "grows")
    eats = "python3 -c \"import os; held = bytearray(os.urandom(1 << 20)) * 96; print(len(held), 'held')\""
    chain.start(f"#SBATCH --mem=64M\n{eats}", "--bigger", "mem=x4")
    state, attempts = chain.carry_on()
    assert state == "saved"
    assert [each["failure_class"] for each in attempts] == ["oom_killer", "success"]


def test_a_cancelled_job_ends_its_chain(user: User) -> None:
    chain = SlurmChain(user, "cancelled")
    chain.start("sleep 600")
    wait_until(lambda: user.run("squeue", "-h", "-o", "%T", "--me").stdout.strip() == "RUNNING", 60, "the job")
    user.gpualert("chain", "stop", "--kill", "cancelled")
    state, (attempt,) = chain.carry_on()
    assert (state, attempt["failure_class"]) == ("stopped", "interrupted")
