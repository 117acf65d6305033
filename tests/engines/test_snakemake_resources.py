"""Snakemake asks for an attempt's resources, and gets what the cause of the last one calls for."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from .cluster import Cluster
from .jobs import User
from .snakemake_venv import SnakemakeVenv

pytestmark = [pytest.mark.engines, pytest.mark.timeout(300)]

HEAD = """
from gpualert.workflow import escalate, excluded_nodes
"""
# A job that fails as its name says, while it lacks what the name says.
RAM = """
rule ram:
    output: "out/ram.{s}"
    resources: mem_mb=escalate("mem_mb", 100)
    shell: "python3 -c '{resources.mem_mb} >= 400 or bytearray(1 << 60)' && echo {resources.mem_mb} >{output}"
"""
BATCH = """
rule batch:
    output: "out/batch.{s}"
    resources:
        batch=escalate("batch", 64, factor=0.5, on="cuda_oom"),
        gpu_mem_mb=escalate("gpu_mem_mb", 10000, limit=15000),
    shell:
        "test {resources.batch} -le 32 || {{ echo 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate "
        "2.50 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.12 GiB is free.' >&2; exit 1; }}; "
        "echo {resources.batch} {resources.gpu_mem_mb} >{output}"
"""
MISSING = """
rule missing:
    output: "out/missing.{s}"
    resources: mem_mb=escalate("mem_mb", 100)
    shell: "echo x >>missing.tried; python3 -c 'open(\\"no-such.csv\\")' && touch {output}"
"""
FLAKY = """
rule flaky:
    output: "out/flaky.{s}"
    resources: mem_mb=escalate("mem_mb", 100)
    shell: "test -e flaky.tried || {{ touch flaky.tried; exit 3; }}; echo {resources.mem_mb} >{output}"
"""
NODE = """
rule node:
    output: "out/node.{s}"
    resources: slurm_extra=excluded_nodes()
    shell:
        "test -n '{resources.slurm_extra}' || "
        "{{ echo 'RuntimeError: CUDA error: uncorrectable ECC error encountered' >&2; exit 1; }}; "
        "echo {resources.slurm_extra} >{output}"
"""


class Pipeline:
    """A Snakefile in a folder of its own, and its runs."""

    def __init__(self, venv: SnakemakeVenv, folder: Path, rules: str, environ: Mapping[str, str]) -> None:
        self.venv, self.folder, self.environ = venv, folder, dict(environ)
        (folder / "Snakefile").write_text(HEAD + f'include: "{venv.files}/gpualert.smk"\n' + rules)

    def run(self, *words: str, **environ: str) -> str:
        """Run it and return what it printed."""
        command = [self.venv.snakemake, *words]
        done = subprocess.run(
            command,
            cwd=self.folder,
            env={**self.environ, **environ},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=240,
        )
        return done.stdout

    def result(self, name: str) -> str:
        """Return what a job wrote in the end; "" where it never passed."""
        path = self.folder / "out" / name
        return path.read_text().strip() if path.exists() else ""


def local(venv: SnakemakeVenv, tmp_path: Path, rules: str) -> Pipeline:
    return Pipeline(venv, tmp_path, rules, {**os.environ, "PATH": f"{venv.folder}/bin:{os.environ['PATH']}"})


def test_a_retry_gets_more_of_what_ran_out_and_only_that(snakemake: SnakemakeVenv, tmp_path: Path) -> None:
    pipeline = local(snakemake, tmp_path, RAM + BATCH + FLAKY + NODE)
    targets = ["out/ram.A", "out/batch.A", "out/flaky.A", "out/node.A"]
    said = pipeline.run("--cores", "2", "--keep-going", "--retries", "3", *targets)
    assert pipeline.result("ram.A") == "400", said
    assert pipeline.result("batch.A") == "32 15000"
    assert pipeline.result("flaky.A") == "100"
    assert pipeline.result("node.A") == f"--exclude={os.uname().nodename}"
    told = re.findall(r"gpualert: rule \w+ \(s=A\): .*", said)
    assert sorted(told) == [
        "gpualert: rule batch (s=A): attempt 1 ended with cuda_oom: now batch is 32",
        "gpualert: rule batch (s=A): attempt 1 ended with cuda_oom: now gpu_mem_mb is 15000",
        f"gpualert: rule node (s=A): attempt 2 keeps off {os.uname().nodename}",
        "gpualert: rule ram (s=A): attempt 1 ended with ram_oom: now mem_mb is 200",
        "gpualert: rule ram (s=A): attempt 2 ended with ram_oom: now mem_mb is 400",
    ]


@pytest.mark.parametrize(("gate", "tries"), [("stop", 1), ("advise", 3), ("", 3)])
def test_what_only_a_person_can_mend_is_not_tried_again_where_the_gate_is_shut(
    snakemake: SnakemakeVenv, tmp_path: Path, gate: str, tries: int
) -> None:
    pipeline = local(snakemake, tmp_path, MISSING + FLAKY)
    targets = ["out/missing.A", "out/flaky.A"]
    said = pipeline.run("--cores", "2", "--keep-going", "--retries", "2", *targets, GPUALERT_GATE=gate)
    assert (tmp_path / "missing.tried").read_text() == "x\n" * tries, said
    assert pipeline.result("flaky.A") == "100", "other jobs are untouched"
    assert "attempt 1 ended with file_not_found, which no further attempt mends" in said
    assert said.count("gpualert: not tried again") == (2 if gate == "stop" else 0)


def test_a_profile_can_hold_such_a_resource(snakemake: SnakemakeVenv, tmp_path: Path) -> None:
    pipeline = local(snakemake, tmp_path, RAM.replace('    resources: mem_mb=escalate("mem_mb", 100)\n', ""))
    (tmp_path / "profile").mkdir()
    (tmp_path / "profile/config.yaml").write_text(
        "retries: 2\ncores: 2\nset-resources:\n  ram:\n    mem_mb: \"__import__('gpualert.workflow').workflow."
        "escalate('mem_mb', 100, factor=4, rule='ram')(wildcards, attempt)\"\n"
    )
    said = pipeline.run("--workflow-profile", "profile", "out/ram.A")
    assert pipeline.result("ram.A") == "400", said


def test_where_no_job_is_recorded_resources_stay_and_that_is_said(snakemake: SnakemakeVenv, tmp_path: Path) -> None:
    pipeline = local(snakemake, tmp_path, RAM)
    (tmp_path / "Snakefile").write_text(HEAD + RAM)  # nothing tells the shell which job it is
    said = pipeline.run("--cores", "1", "--retries", "1", "out/ram.A")
    assert pipeline.result("ram.A") == ""
    assert "gpualert: rule ram (s=A): nothing is known of why attempt 1 failed: its resources stay as they are" in said


ON_SLURM = """
rule memory:
    output: "out/memory.{s}"
    resources: mem_mb=escalate("mem_mb", 700)
    shell: "python3 -c 'x = bytearray(1 << 30)' && echo {resources.mem_mb} >{output}"

rule node:
    output: "out/node.{s}"
    resources: slurm_extra=excluded_nodes(), mem_mb=700
    shell:
        "test -e bad || echo $SLURMD_NODENAME >bad; test $(cat bad) != $SLURMD_NODENAME || "
        "{{ echo 'RuntimeError: CUDA error: uncorrectable ECC error encountered' >&2; exit 1; }}; "
        "echo $SLURMD_NODENAME >{output}"
"""


def test_on_slurm_a_killed_job_gets_more_memory_and_a_bad_node_is_left(
    snakemake: SnakemakeVenv, slurm: Cluster, user: User
) -> None:
    environ = {**os.environ, "PATH": f"{snakemake.folder}/bin:{os.environ['PATH']}", "GPUALERT_HOME": str(user.state)}
    pipeline = Pipeline(snakemake, user.work, ON_SLURM, environ)
    words = ["--executor", "slurm", "--jobs", "4", "--keep-going", "--retries", "1", "--latency-wait", "20"]
    words += ["--slurm-init-seconds-before-status-checks", "2"]
    words += ["--default-resources", "slurm_account=ci", "slurm_partition=main", "runtime=5"]
    said = pipeline.run(*words, "--", "out/memory.A", "out/node.A")
    assert "rule memory (s=A): attempt 1 ended with oom_killer: now mem_mb is 1400" in said, said
    assert pipeline.result("memory.A") == "1400"
    bad = (user.work / "bad").read_text().strip()
    assert f"rule node (s=A): attempt 2 keeps off {bad}" in said
    assert pipeline.result("node.A") not in ("", bad)
