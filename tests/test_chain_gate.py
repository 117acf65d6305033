"""The gate that new attempts wait at, with every shell that /bin/sh may be."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from shim.waiting import eventually

from gpualert.chains.gate import Gate
from gpualert.places import shim

SHELLS = (["dash"], ["bash"], ["busybox", "ash"], ["zsh"])


@pytest.fixture(params=SHELLS, ids=[words[-1] for words in SHELLS])
def attempt(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[int], subprocess.Popen[bytes]]:
    """Return what starts the shim of a shell as attempt 1, whose job makes the file `ran`."""

    def spawn(standard_input: int) -> subprocess.Popen[bytes]:
        record = ["--attempt", str(tmp_path / "1.json"), '{"number": 1,']
        words = [*request.param, str(shim()), *record, "run", "--", "mkdir", str(tmp_path / "ran")]
        environ = {"PATH": "/usr/bin:/bin", "GPUALERT_HOME": str(tmp_path / "state"), "GPUALERT_POST": "tick"}
        return subprocess.Popen(words, stdin=standard_input, env=environ)

    return spawn


def test_an_attempt_is_started_once_and_sets_off_when_the_gate_opens(
    attempt: Callable[[int], subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    with Gate() as gate:
        assert gate.admit(attempt)
        assert not gate.admit(attempt)
        assert '"pid":' in (tmp_path / "1.json").read_text()
    eventually((tmp_path / "ran").is_dir, "the job")


def test_a_gate_that_nobody_opens_holds_no_attempt_for_long(
    attempt: Callable[[int], subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    gate = Gate()
    assert gate.admit(attempt)
    eventually((tmp_path / "ran").is_dir, "the job")
    gate.__exit__()
