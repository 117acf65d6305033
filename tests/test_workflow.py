"""Resources that follow the cause: what a Snakefile imports, called as Snakemake calls it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from engine_runs import KEY, WILDCARDS, WORKFLOW, engine_run
from rundirs import RunBuilder

from gpualert import workflow
from gpualert.engine_attempts import FailedAttempt
from gpualert.errors import UsageError
from gpualert.post import post
from gpualert.workflow import escalate, excluded_nodes, workflow_id


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Be the process that drives the workflow, which has said nothing yet and waits for no slow disk."""
    monkeypatch.setenv("GPUALERT_ENGINE_WORKFLOW", WORKFLOW)
    monkeypatch.delenv("GPUALERT_ENGINE_KEY", raising=False)
    monkeypatch.setattr(workflow, "_said", set())
    monkeypatch.setattr(workflow, "_WAIT_S", 0.0)
    monkeypatch.setattr(workflow, "_patience_s", 60.0)


def failed(make_run: RunBuilder, *classes: str, **changes: Any) -> None:
    """Let the attempts of the job fail with these classes; "" leaves no record."""
    for number, failure_class in enumerate(classes, start=1):
        if failure_class:
            post(engine_run(make_run, number, failure_class, **changes), until_verdict=True)


def ask(resource: Any, attempt: int, rule: str = "train", **wildcards: str) -> Any:
    """Evaluate a resource for an attempt, with all that Snakemake offers."""
    return resource(wildcards or WILDCARDS, attempt=attempt, rulename=rule, input=["a.csv"], threads=4)


def asked(resource: Any, attempts: int) -> list[Any]:
    return [ask(resource, number) for number in range(1, attempts + 1)]


def test_a_resource_grows_only_for_want_of_it(make_run: RunBuilder) -> None:
    failed(make_run, "ram_oom", "file_not_found", "ram_oom")
    assert asked(escalate("mem_mb", 8000), 4) == [8000, 16000, 16000, 32000]
    assert asked(escalate("gpu_mem_mb", 8000), 4) == [8000] * 4
    assert asked(escalate("mem_mb", 8000, factor=1.5, on="file_not_found"), 4) == [8000, 8000, 12000, 12000]
    assert asked(escalate("anything", 0.5, on=("ram_oom", "cuda_oom")), 4) == [0.5, 1.0, 1.0, 2.0]


def test_a_batch_shrinks_to_its_limit_and_never_to_nothing(make_run: RunBuilder) -> None:
    failed(make_run, "cuda_oom", "cuda_oom", "cuda_oom")
    assert asked(escalate("batch_size", 10, factor=0.5), 4) == [10, 5, 2, 1]
    assert asked(escalate("batch_size", 10, factor=0.5, limit=4), 4) == [10, 5, 4, 4]
    assert asked(escalate("gpu_mem_mb", 10, limit=25), 4) == [10, 20, 25, 25]
    assert asked(escalate("gpu_mem_mb", 30, limit=25), 2) == [30, 30]
    assert ask(escalate("batch_size", 1, factor=0.5), 4) == 1


def test_other_jobs_of_the_workflow_and_other_workflows_are_as_they_were(
    make_run: RunBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed(make_run, "ram_oom")
    memory = escalate("mem_mb", 100)
    assert ask(memory, 2) == 200
    assert ask(memory, 2, sample="B") == ask(memory, 2, rule="test") == 100
    monkeypatch.setenv("GPUALERT_ENGINE_WORKFLOW", "another")
    assert ask(memory, 2) == 100


def test_where_the_rule_is_not_given_it_can_be_named(make_run: RunBuilder) -> None:
    failed(make_run, "ram_oom")
    assert escalate("mem_mb", 100, rule="train")(WILDCARDS, 2) == 200
    assert escalate("mem_mb", 100)(WILDCARDS, 2) == 100


def test_the_first_attempt_may_get_what_a_function_says(make_run: RunBuilder) -> None:
    failed(make_run, "ram_oom")
    memory = escalate("mem_mb", lambda wildcards, input, threads: 100 * threads + len(input) + len(wildcards["sample"]))
    assert asked(memory, 2) == [402, 804]
    assert ask(escalate("mem_mb", lambda wildcards, **offered: offered["attempt"]), 1) == 1
    assert ask(escalate("mem_mb", lambda wildcards: "<TBD>"), 2) == "<TBD>"


def test_without_a_verdict_the_resource_stays_and_that_is_said_once(
    make_run: RunBuilder, capsys: pytest.CaptureFixture[str]
) -> None:
    failed(make_run, "ram_oom", "")
    assert ask(escalate("mem_mb", 100), 3) == 200
    assert ask(escalate("gpu_mem_mb", 100), 3) == 100
    assert ask(excluded_nodes(), 3) == ""
    assert capsys.readouterr().err.splitlines() == [
        "gpualert: rule train (sample=A): nothing is known of why attempt 2 failed: its resources stay as they are",
    ]


def test_what_grows_and_what_is_in_vain_is_said(make_run: RunBuilder, capsys: pytest.CaptureFixture[str]) -> None:
    failed(make_run, "ram_oom", "file_not_found")
    assert asked(escalate("mem_mb", 100), 3) == [100, 200, 200]
    assert capsys.readouterr().err.splitlines() == [
        "gpualert: rule train (sample=A): attempt 1 ended with ram_oom: now mem_mb is 200",
        "gpualert: rule train (sample=A): attempt 2 ended with file_not_found, which no further attempt mends",
    ]


def test_attempts_that_a_gate_ends_are_not_missed(
    make_run: RunBuilder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GPUALERT_GATE", "stop")
    monkeypatch.setattr(workflow, "_WAIT_S", 600.0)
    failed(make_run, "file_not_found", "", "")
    assert asked(escalate("mem_mb", 100), 4) == [100] * 4
    (said,) = capsys.readouterr().err.splitlines()
    assert said.endswith("attempt 1 ended with file_not_found, which no further attempt mends")


def test_a_record_that_comes_late_is_waited_for(
    make_run: RunBuilder, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workflow, "_WAIT_S", 60.0)
    reads = []
    read = workflow.read_attempts

    def slow_disk(*words: Any) -> tuple[tuple[FailedAttempt, ...], tuple[str, ...]]:
        reads.append(words)
        if len(reads) == 3:
            failed(make_run, "ram_oom")
        return read(*words)

    monkeypatch.setattr(workflow, "read_attempts", slow_disk)
    assert ask(escalate("mem_mb", 100), 2) == 200
    assert len(reads) == 3


def test_where_jobs_leave_no_records_there_is_no_waiting_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workflow, "_WAIT_S", 600.0)
    monkeypatch.setattr(workflow, "_patience_s", 0.1)
    memory = escalate("mem_mb", 100)
    assert [ask(memory, 2, sample=str(number)) for number in range(200)] == [100] * 200


def test_a_half_written_record_is_said_and_changes_nothing(
    make_run: RunBuilder, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    failed(make_run, "ram_oom")
    path = state / "workflows" / WORKFLOW / f"{KEY}.jsonl"
    path.write_bytes(path.read_bytes()[:-40])
    assert ask(escalate("mem_mb", 100), 2) == 100
    said = capsys.readouterr().err.splitlines()
    assert said[0] == f"gpualert: rule train (sample=A): line 1 of '{path}' is no record"
    assert "nothing is known of why attempt 1 failed" in said[1]


def test_a_job_is_kept_off_the_nodes_that_failed_it(make_run: RunBuilder) -> None:
    failed(make_run, "gpu_hardware", start={"node": "n1"})
    failed(make_run, "", "gpu_hardware", start={"node": "n2"})
    failed(make_run, "", "", "cuda_oom", start={"node": "n3"})
    assert asked(excluded_nodes(), 4) == ["", "--exclude=n1", "--exclude=n1,n2", "--exclude=n1,n2"]
    assert asked(excluded_nodes("--gres=gpu:1", limit=1), 3)[::2] == ["--gres=gpu:1", "--gres=gpu:1 --exclude=n2"]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        pytest.param(lambda: escalate("mem_mb", 100, factor=1), "factor 1 changes nothing", id="factor 1"),
        pytest.param(lambda: escalate("mem_mb", 100, factor=-2), "factor -2 changes nothing", id="factor below 0"),
        pytest.param(lambda: escalate("mem", "8GB"), "base '8GB' is no number", id="text"),
        pytest.param(lambda: escalate("mem_mb", True), "base True is no number", id="truth"),
        pytest.param(lambda: escalate("wombats", 1), "name the failure classes", id="unknown resource"),
        pytest.param(lambda: excluded_nodes("--exclude=n1"), "of two such", id="excludes already"),
        pytest.param(lambda: excluded_nodes("-x n1"), "of two such", id="excludes already, in short"),
    ],
)
def test_a_mistake_is_an_error_before_anything_runs(wrong: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        wrong()


def test_a_class_that_may_be_misspelt_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    escalate("mem_mb", 100, on="oom_kiler")
    escalate("mem_mb", 100, on=("ours_alone", "ram_oom"))
    assert capsys.readouterr().err.splitlines() == [
        "gpualert: escalate('mem_mb'): 'oom_kiler' is no failure class of gpualert's own; did you mean 'oom_killer'?",
        "gpualert: escalate('mem_mb'): 'ours_alone' is no failure class of gpualert's own",
    ]


def test_a_workflow_has_one_id_that_all_it_starts_share() -> None:
    environ: dict[str, str] = {}
    first = workflow_id(environ)
    assert workflow_id(environ) == first == environ["GPUALERT_ENGINE_WORKFLOW"]
    assert workflow_id({}) != first


def test_a_workflow_within_a_job_of_another_has_an_id_of_its_own() -> None:
    environ = {"GPUALERT_ENGINE_WORKFLOW": "outer", "GPUALERT_ENGINE_KEY": KEY}
    inner = workflow_id(environ)
    assert inner != "outer" and workflow_id(environ) == inner


def test_a_snakefile_pays_little_for_the_import() -> None:
    heavy = ["yaml", "jinja2", "click", "rich", "hyperscan", "email", "gpualert.classify", "gpualert.config"]
    script = f"import gpualert.workflow, sys; print([name for name in {heavy} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, check=True).stdout == b"[]\n"
