"""The rule wrappers: one runs a command as a rule would, the other explains logs; both name rule and file."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from outcomes import body

from .pipeline import INCLUDE, Pipeline, told
from .report_browser import CHROMIUM, EYE, look
from .snakemake_venv import SnakemakeVenv

pytestmark = [pytest.mark.engines, pytest.mark.timeout(400)]  # the first makes an environment

RUN = """
    rule all:
        input: "good.A", "list.txt", "trained.txt", "sample.x"
    rule good:
        output: "good.{name}"
        log: "logs/good.{name}.log"
        threads: 3
        resources: tmpdir="scratch"
        params: command=lambda w, threads: f"echo $OMP_NUM_THREADS {threads} $TMPDIR; touch good.{w.name}"
        wrapper: WRAPPERS + "/run"
    rule words:
        output: "list.txt"
        log: stdout="logs/list.out", stderr="logs/list.err"
        params:
            command=["sh", "-c", "echo to out; echo to err >&2; echo \\"$1\\" > list.txt", "sh", "two  words"],
            options="--timeout 60"
        wrapper: WRAPPERS + "/run"
    rule train:
        output: "trained.txt"
        log: "logs/train.log"
        resources: attempt=lambda wildcards, attempt: attempt
        params:
            command="[ -e once ] && touch trained.txt && exit; touch once; "
            "echo 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB.'; exit 3"
        wrapper: WRAPPERS + "/run"
    rule prepare:
        output: "sample.{name}"
        log: "logs/prepare.{name}.log"
        params: command="python3 -c \\"open('nowhere.json')\\"; touch never"
        wrapper: WRAPPERS + "/run"
"""


@pytest.fixture
def pipeline(snakemake: SnakemakeVenv, tmp_path: Path) -> Pipeline:
    folder = tmp_path / "pipeline"
    (folder / "scratch").mkdir(parents=True)
    return Pipeline(snakemake, folder)


def test_the_wrapper_runs_the_command_and_one_message_tells_of_all_its_jobs(pipeline: Pipeline) -> None:
    pipeline.write(RUN)
    ended = pipeline.run("", "--keep-going", "--retries", "1")
    assert ended.status == 1
    assert (pipeline.folder / "logs" / "good.A.log").read_text() == "3 3 scratch\n"
    assert (pipeline.folder / "logs" / "list.out").read_text() == "to out\n"
    assert (pipeline.folder / "logs" / "list.err").read_text() == "to err\n"
    assert (pipeline.folder / "list.txt").read_text() == "two  words\n"
    assert not (pipeline.folder / "never").exists()
    pipeline.wait_for_mail()
    story = pipeline.story()
    assert story["status"] == "failed"
    assert told(story) == {
        "recovered train": [("cuda_oom", 3, 1)],
        "failed prepare name=x": [("file_not_found", 1, 3), ("file_not_found", 1, 3)],
    }
    assert [one["attempt"] for job in story["jobs"] for one in job["attempts"]].count(2) == 0  # prepare does not tell
    (mail,) = pipeline.mails()
    assert str(mail["Subject"]).endswith("1 job failed (file_not_found), 1 recovered")
    assert "file_not_found: prepare name=x: on " in " ".join(body(mail).split())


def test_with_the_one_line_the_wrapper_makes_no_run_within_the_run(pipeline: Pipeline) -> None:
    pipeline.write(RUN, INCLUDE)
    assert pipeline.run(INCLUDE, "--keep-going").status == 1
    assert told(pipeline.story())["failed prepare name=x"] == [("file_not_found", 1, 3)]
    assert len(list((pipeline.state / "runs").iterdir())) == 2
    assert len(pipeline.mails()) == 1


def test_a_signal_that_kills_the_command_is_its_status(pipeline: Pipeline) -> None:
    pipeline.write('rule all:\n    output: "x"\n    params: command="kill -SEGV $$"\n    wrapper: WRAPPERS + "/run"\n')
    assert pipeline.run("").status == 1
    pipeline.wait_for_mail()
    assert told(pipeline.story()) == {"failed all": [("segfault", 139, 0)]}


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("", "gpualert: rule 'bad': params has no 'command'"),
        ('    params: command=["/no/such/program"]\n', "/no/such/program"),
    ],
    ids=["no command", "no program"],
)
def test_what_a_rule_gets_wrong_is_said_with_its_name_and_the_workflow_goes_on(
    pipeline: Pipeline, rule: str, words: str
) -> None:
    good = 'rule good:\n    output: "good"\n    params: command="touch good"\n    wrapper: WRAPPERS + "/run"\n'
    bad = f'rule bad:\n    output: "bad"\n{rule}    wrapper: WRAPPERS + "/run"\n'
    pipeline.write(f'rule all:\n    input: "bad", "good"\n{bad}{good}')
    ended = pipeline.run("", "--keep-going")
    assert ended.status == 1 and words in ended.output, ended.output
    assert (pipeline.folder / "good").exists()


def test_without_any_gpualert_the_wrapper_runs_the_command_and_says_so(pipeline: Pipeline) -> None:
    shutil.copytree(pipeline.venv.files / "wrappers" / "run", pipeline.folder / "a" / "b" / "run")
    pipeline.write('rule all:\n    output: "x"\n    params: command="touch x"\n    wrapper: "file:a/b/run"\n')
    ended = pipeline.run("", PATH="/usr/bin:/bin")
    assert ended.status == 0, ended.output
    assert "gpualert: rule 'all' runs unwatched: there is no 'gpualert' on PATH" in ended.output


EXPLAIN = """
    rule all:
        input: expand("verdicts/{name}.html", name=["x"])
    rule explain:
        input: "logs/{name}.log"
        output:
            json="verdicts/{name}.json",
            html=report("verdicts/{name}.html", category="Failures", labels={"sample": "{name}"}),
        params: status=1
        wrapper: WRAPPERS + "/classify"
"""


def test_the_classify_wrapper_writes_the_verdict_and_a_page(pipeline: Pipeline) -> None:
    pipeline.write(EXPLAIN)
    (pipeline.folder / "logs").mkdir()
    (pipeline.folder / "logs" / "x.log").write_text("step 1\nValueError: <b>bad</b>\n")
    ended = pipeline.run("")
    assert ended.status == 0, ended.output
    verdict = json.loads((pipeline.folder / "verdicts" / "x.json").read_text())
    assert (verdict["class"], verdict["evidence"][0]["line"]) == ("traceback", 2)
    page = (pipeline.folder / "verdicts" / "x.html").read_text()
    assert "FAILED traceback" in page and "&lt;b&gt;bad&lt;/b&gt;" in page and "<b>bad" not in page


def test_a_log_that_cannot_be_read_is_named_with_its_rule(pipeline: Pipeline) -> None:
    pipeline.write(EXPLAIN)
    (pipeline.folder / "logs" / "x.log").mkdir(parents=True)  # a folder in place of a log
    ended = pipeline.run("", "--keep-going")
    assert ended.status == 1
    assert "gpualert: rule 'explain': cannot read log 'logs/x.log'" in ended.output, ended.output


@pytest.mark.skipif(not CHROMIUM, reason="no Chromium here")
def test_snakemakes_report_shows_the_failures_of_a_failed_workflow(pipeline: Pipeline, tmp_path: Path) -> None:
    example = ("--snakefile", str(pipeline.venv.files / "examples" / "report" / "Snakefile"))
    assert pipeline.run("", *example, "--keep-going").status == 1
    ended = pipeline.run("", *example, "failures")
    assert ended.status == 0, ended.output
    ended = pipeline.run("", *example, "--report", "report.html", "--", "failures")
    assert ended.status == 0, ended.output
    shown = look(pipeline.folder / "report.html", tmp_path, ["Results", "Failures", "C", EYE])
    assert "FAILED file_not_found" in shown
    assert "No such file or directory: &#39;data/C.json&#39;" in shown
