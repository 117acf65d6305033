"""Snakemake on Slurm: the true status, node and class of each job reach the summary, and retries follow the cause."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from outcomes import body

from .cluster import Cluster
from .pipeline import INCLUDE, PATH, Pipeline, told
from .snakemake_venv import SnakemakeVenv

pytestmark = [pytest.mark.engines, pytest.mark.timeout(400)]

SETUP = [
    "--default-resources",
    "slurm_account=ci",
    "slurm_partition=main",
    "mem_mb=700",
    "runtime=5",
    "cpus_per_task=1",
]
PLUGIN = ["--executor", "slurm", "--slurm-init-seconds-before-status-checks", "2", "--jobs", "8", "--keep-going"]
# A program that needs 900 MB; 700 are too few.
EATER = "x = bytearray(900 << 20); print(len(x))"

STORY = """
    from gpualert.workflow import escalate, excluded_nodes
    rule all:
        input: "good.A", "trained.txt", "eaten.txt", "sample.x", "moved.txt"
    rule good:
        output: "good.{name}"
        shell: "touch {output}"
    rule train:
        output: "trained.txt"
        log: "logs/train.log"
        resources: batch=escalate("batch", 64, factor=0.5)
        shell:
            "[ {resources.batch} -gt 32 ] || {{ touch {output}; exit; }}; "
            "echo 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB.' > {log}; exit 3"
    rule eat:
        output: "eaten.txt"
        log: "logs/eat.log"
        resources: mem_mb=escalate("mem_mb", 700, factor=2, on=("oom_killer", "ram_oom"))
        shell: "python3 eat.py > {log} 2>&1; touch {output}"
    rule prepare:
        output: "sample.{name}"
        log: "logs/prepare.{name}.log"
        shell: "python3 -c \\"open('nowhere.json')\\" 2> {log}"
    rule move:
        output: "moved.txt"
        log: "logs/move.log"
        resources: slurm_extra=lambda wildcards, attempt: FIRST if attempt == 1 else quoted(wildcards, attempt)
        shell:
            "[ $SLURMD_NODENAME = n1 ] || {{ touch {output}; exit; }}; "
            "echo 'RuntimeError: CUDA error: uncorrectable ECC error encountered' > {log}; exit 5"
    FIRST = "'--nodelist=n1'"
    elsewhere = excluded_nodes(rule="move")
    def quoted(wildcards, attempt):
        return f"'{elsewhere(wildcards, attempt=attempt)}'"
"""


@pytest.fixture
def pipeline(slurm: Cluster, snakemake: SnakemakeVenv, tmp_path: Path) -> Pipeline:
    folder = tmp_path / "pipeline"
    folder.mkdir()
    (folder / "eat.py").write_text(EATER)
    return Pipeline(snakemake, folder, {"GPUALERT_POST": "auto"})


def accounted(job: str) -> tuple[str, str]:
    """Return the state and the node of a job as Slurm has them."""
    words = ["sacct", "-X", "-n", "-P", "-j", job, "--format=State,NodeList"]
    line = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()[0]
    state, node = line.split("|")
    return state.split()[0], node


def assert_slurm_agrees(story: dict[str, Any]) -> None:
    """Compare each attempt's node with what Slurm says of its job."""
    for job in story["jobs"]:
        for one in job["attempts"]:
            state, node = accounted(one["external_job"].removeprefix("Slurm ").partition(".")[0])
            assert (node, state in ("FAILED", "OUT_OF_MEMORY")) == (one["node"], True), one


def test_on_slurm_each_job_is_told_with_its_status_node_and_class_and_retried_by_its_cause(pipeline: Pipeline) -> None:
    pipeline.write(STORY, INCLUDE)
    ended = pipeline.run(INCLUDE, *PLUGIN, *SETUP, "--retries", "1", limit_s=350, GPUALERT_GATE="stop")
    assert ended.status == 1, ended.output
    story = pipeline.story()
    found = told(story)
    assert found.pop("recovered eat") in ([("oom_killer", 137, line)] for line in range(9)), found
    assert found == {
        "recovered train": [("cuda_oom", 3, 1)],
        "failed prepare name=x": [("file_not_found", 1, 3)],
        "recovered move": [("gpu_hardware", 5, 1)],
    }
    assert_slurm_agrees(story)
    move = next(job for job in story["jobs"] if job["rule"] == "move")
    assert move["attempts"][0]["node"] == "n1"
    (mail,) = pipeline.mails()
    text = " ".join(body(mail).split())
    assert str(mail["Subject"]).endswith("1 of 6 jobs failed (file_not_found), 3 recovered")
    for job in story["jobs"]:
        last = job["attempts"][-1]
        assert f"on {last['node']}, {last['external_job']}, exit status {last['exit_status']}" in text
    assert "exit status 1, 1 attempt, and not tried again: a person must mend it" in text


def test_cluster_generic_tells_the_same(pipeline: Pipeline) -> None:
    status = pipeline.folder / "status.sh"
    status.write_text(
        "#!/bin/bash\n"
        'case $(sacct -X -n -P -j "$1" --format=State | head -n 1) in\n'
        "COMPLETED) echo success ;; PENDING | RUNNING | COMPLETING | '') echo running ;; *) echo failed ;; esac\n"
    )
    status.chmod(0o755)
    submit = "sbatch --parsable -A ci -p main --mem={resources.mem_mb} -o {rule}-%j.out"
    generic = ["--executor", "cluster-generic", "--cluster-generic-submit-cmd", submit]
    generic += ["--cluster-generic-status-cmd", str(status), "--jobs", "8", "--keep-going"]
    pipeline.write(
        """
        rule all:
            input: "good.A", "bad.txt"
        rule good:
            output: "good.{name}"
            shell: "touch {output}"
        rule bad:
            output: "bad.txt"
            run:
                shell("echo 'ZeroDivisionError: division by zero' >&2; exit 42")
        """,
    )
    ended = pipeline.run(PATH, *generic, *SETUP, limit_s=300)
    assert ended.status == 1, ended.output
    story = pipeline.story()
    ((name, (attempt,)),) = told(story).items()
    assert (name, *attempt[:2]) == ("failed bad", "div_zero", 42)
    assert_slurm_agrees(story)
    assert len(pipeline.mails()) == 1


def test_a_job_that_slurm_ended_before_our_shim_is_told_by_what_slurm_says(pipeline: Pipeline) -> None:
    pipeline.write('rule all:\n    output: "x"\n    resources: mem_mb=30\n    shell: "touch x"\n', INCLUDE)
    ended = pipeline.run(INCLUDE, *PLUGIN, *SETUP, limit_s=300)
    assert ended.status == 1, ended.output
    (job,) = pipeline.story()["jobs"]
    (attempt,) = job["attempts"]
    assert attempt["run_id"] == "" and attempt["external_job"].startswith("Slurm ")
    assert attempt["class"] == "oom_killer", attempt
    assert os.fspath(attempt["logs"][-1]["path"]).endswith(".log")


def test_of_a_group_only_the_job_that_failed_is_called_failed(pipeline: Pipeline) -> None:
    pipeline.write(
        """
        rule all:
            input: "third"
        rule first:
            output: "first"
            group: "one"
            shell: "touch {output}"
        rule second:
            input: "first"
            output: "second"
            group: "one"
            shell: "echo 'KeyError: 7' >&2; exit 21"
        rule third:
            input: "second"
            output: "third"
            group: "one"
            shell: "touch {output}"
        """,
        INCLUDE,
    )
    ended = pipeline.run(INCLUDE, *PLUGIN, *SETUP, limit_s=300)
    assert ended.status == 1, ended.output
    story = pipeline.story()
    ((name, (attempt,)),) = told(story).items()
    assert (name, *attempt[:2]) == ("failed second", "traceback", 21)
    assert_slurm_agrees(story)
