"""The `bash` that Snakemake starts: hands a job to the shim, and is bash for all else."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpualert.places import place, shim

BASH = place("snakemake") / "bin" / "bash"
JOB = {
    "GPUALERT_ENGINE": "snakemake",
    "GPUALERT_ENGINE_WORKFLOW": "w-1",
    "GPUALERT_ENGINE_KEY": "0123456789abcdef",
    "GPUALERT_ENGINE_RULE": "train",
    "GPUALERT_ENGINE_ATTEMPT": "1",
    "GPUALERT_POST": "tick",
    "GPUALERT_PYTHON": sys.executable,
}


def bash(*words: str, bash: Path = BASH, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(bash), *words], env={**os.environ, **environ}, capture_output=True, text=True, timeout=60, check=False
    )


def history(state: Path) -> list[dict[str, Any]]:
    path = state / "history.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_a_job_is_a_run_and_its_words_reach_bash_as_they_are(state: Path) -> None:
    done = bash("-c", 'printf "<%s>" "$0" "$@"; exit 7', "a b", "*", "", **JOB)
    assert (done.returncode, done.stdout, done.stderr) == (7, "<a b><*><>", "")
    (run,) = (state / "runs").iterdir()
    assert b"rule=train\0" in (run / "engine").read_bytes()


def test_without_a_job_it_is_bash_and_leaves_nothing(state: Path) -> None:
    done = bash("-c", "echo $BASH; exit 3")
    assert (done.returncode, done.stdout) == (3, f"{shutil.which('bash')}\n")
    assert not state.exists()


def test_a_bash_within_the_job_is_no_run_of_its_own(state: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.sh"
    script.write_text("#!/usr/bin/env bash\necho within\n")
    script.chmod(0o755)
    path = f"{BASH.parent}:{os.environ['PATH']}"
    # As for a command of more than 64 kB, and as a script of the user's does.
    done = bash("-c", f'"{BASH}" "{script}" && "{script}" && bash -c "echo more"', PATH=path, **JOB)
    assert (done.returncode, done.stdout) == (0, "within\nwithin\nmore\n")
    assert len(history(state)) == 1


def test_another_job_within_the_job_is_a_run(state: Path) -> None:
    inner = f"GPUALERT_ENGINE_KEY=fedcba9876543210 {BASH} -c 'exit 4'"
    assert bash("-c", f"{inner}; exit 5", **JOB).returncode == 5
    assert len(list((state / "runs").iterdir())) == 2


def test_it_takes_the_next_bash_on_the_path(tmp_path: Path) -> None:
    (tmp_path / "bash").write_text("#!/bin/sh\necho another bash: $1\n")
    (tmp_path / "bash").chmod(0o755)
    path = f"{BASH.parent}:{tmp_path}:/usr/bin:/bin"
    assert bash("-c", PATH=path).stdout == "another bash: -c\n"
    assert bash("-c", PATH=path, **JOB).stdout == "another bash: -c\n"


@pytest.mark.parametrize("broken", ["missing", "empty"])
def test_without_a_shim_the_job_runs(tmp_path: Path, state: Path, broken: str) -> None:
    copy = tmp_path / "workflows" / "snakemake" / "bin" / "bash"
    copy.parent.mkdir(parents=True)
    shutil.copy(BASH, copy)
    (tmp_path / "bash").mkdir()
    if broken == "empty":
        (tmp_path / "bash" / "gpualert").touch()
    done = bash("-c", "echo ran; exit 6", bash=copy, **JOB)
    assert (done.returncode, done.stdout) == (6, "ran\n")
    assert not state.exists()
    shutil.copy(shim(), tmp_path / "bash" / "gpualert")
    assert bash("-c", "exit 6", bash=copy, **JOB).returncode == 6
    assert len(list((state / "runs").iterdir())) == 1


def test_jobs_side_by_side_into_one_file_keep_their_own_output(tmp_path: Path, state: Path) -> None:
    with (tmp_path / "out").open("wb") as out:
        for number in range(3):
            words = [str(BASH), "-c", f"echo job {number}; exit 1"]
            subprocess.run(
                words, env={**os.environ, **JOB, "GPUALERT_ENGINE_KEY": f"k{number}"}, stdout=out, check=False
            )
    logs = sorted(path.read_text() for path in (state / "runs").glob("*/stdout.log"))
    assert logs == ["job 0\n", "job 1\n", "job 2\n"]
    assert (tmp_path / "out").read_text() == "".join(logs)


@pytest.mark.parametrize("jobs", [20, pytest.param(5000, marks=[pytest.mark.long, pytest.mark.timeout(1500)])])
def test_jobs_that_went_well_leave_a_line_each_and_no_files(state: Path, jobs: int) -> None:
    loop = f"for key in $(seq {jobs}); do GPUALERT_ENGINE_KEY=$key {BASH} -c :; done"
    subprocess.run(["/bin/sh", "-c", loop], env={**os.environ, **JOB}, check=True, timeout=1400)
    assert len(history(state)) == jobs
    assert len(list(state.rglob("*"))) < 10


@pytest.mark.skipif(not shutil.which("shellcheck"), reason="no shellcheck")
def test_shellcheck_has_nothing_to_say() -> None:
    done = subprocess.run(
        ["shellcheck", "--norc", "--enable=all", str(BASH)], capture_output=True, text=True, check=False
    )
    assert done.stdout == ""
