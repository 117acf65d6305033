"""Snakemake: each way in tells the truth about each job, in one message, and harms none."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import time
from pathlib import Path

import pytest
from outcomes import body, messages

from .pipeline import INCLUDE, LOGGER, PATH, SHIMMED, WRAP, Pipeline, told
from .snakemake_venv import SnakemakeVenv

pytestmark = [pytest.mark.engines, pytest.mark.timeout(400)]  # the first makes an environment

# A good job, one that is saved by its second attempt, one that never is, one that nobody could run after it.
STORY = """
    rule all:
        input: "good.A", "trained.txt", "sample.x", "late.txt"
    rule good:
        output: "good.{name}"
        log: "logs/good.{name}.log"
        shell: "echo fine > {log}; touch {output}"
    rule train:
        output: "trained.txt"
        log: "logs/train.log"
        shell:
            "if [ -e once ]; then touch {output}; exit; fi; touch once; echo step 1 > {log}; "
            "echo 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB.' >> {log}; exit 3"
    rule prepare:
        output: "sample.{name}"
        log: "logs/prepare.{name}.log"
        shell: "python3 -c \\"open('nowhere.json')\\" 2> {log}"
    rule after:
        input: "sample.x"
        output: "late.txt"
        shell: "touch {output}"
"""
LOST_FILE = "FileNotFoundError: [Errno 2] No such file or directory: 'nowhere.json'"


@pytest.fixture
def pipeline(snakemake: SnakemakeVenv, tmp_path: Path) -> Pipeline:
    folder = tmp_path / "pipeline"
    folder.mkdir()
    return Pipeline(snakemake, folder)


@pytest.mark.parametrize("way", [INCLUDE, LOGGER, WRAP, PATH])
def test_the_summary_tells_the_truth_about_every_job(pipeline: Pipeline, way: str) -> None:
    pipeline.write(STORY, way)
    ended = pipeline.run(way, "--keep-going", "--retries", "1")
    assert ended.status == 1
    story = pipeline.story()
    assert told(story) == {
        "recovered train": [("cuda_oom", 3, 2)],
        "failed prepare name=x": [("file_not_found", 1, 3), ("file_not_found", 1, 3)],
    }
    assert (story["status"], story["done"], story["total"]) == ("failed", 2, 5)
    prepare = next(job for job in story["jobs"] if job["rule"] == "prepare")
    last, log = prepare["attempts"][-1], pipeline.folder / "logs" / "prepare.x.log"
    assert (prepare["tries"], last["attempt"], last["evidence"]) == (2, 2, LOST_FILE)
    assert last["node"] == os.uname().nodename
    assert last["logs"][0] == {"path": str(log), "size_bytes": log.stat().st_size}
    assert bool(last["run_id"]) == (way in SHIMMED)


@pytest.mark.parametrize("way", [INCLUDE, LOGGER])
def test_one_message_tells_of_the_whole_workflow(pipeline: Pipeline, way: str) -> None:
    pipeline.write(STORY, way)
    ended = pipeline.run(way, "--keep-going", "--retries", "1")
    (line,) = ended.complaints
    assert line.startswith("gpualert: 1 of 5 jobs failed (file_not_found), 1 recovered; more: gpualert workflow 2")
    (mail,) = pipeline.mails()
    assert str(mail["Subject"]).startswith(f"FAILED: Snakefile on {os.uname().nodename} after ")
    assert str(mail["Subject"]).endswith("1 of 5 jobs failed (file_not_found), 1 recovered")
    text = " ".join(body(mail).split())
    log = pipeline.folder / "logs" / "prepare.x.log"
    for words in (
        "2 were never done.",  # `after`, and the target itself
        LOST_FILE,
        f"file_not_found: prepare name=x: on {os.uname().nodename}, exit status 1, 2 attempts",
        f"line 3 of {log} ({log.stat().st_size} B)",
        f"cuda_oom: train: on {os.uname().nodename}, exit status 3, passed at attempt 2",
    ):
        assert words in text


KINDS = """
    rule all:
        input: "shell.txt", "run.txt", "script.txt", "shadow.txt", "wrapper.txt", "piped.txt", "checked.txt"
    rule shell_rule:
        output: "shell.txt"
        shell: "exit 11"
    rule run_rule:
        output: "run.txt"
        run:
            shell("true")
            shell("exit 12")
    rule script_rule:
        output: "script.txt"
        script: "script.py"
    rule shadow_rule:
        output: "shadow.txt"
        shadow: "minimal"
        shell: "exit 14"
    rule wrapper_rule:
        output: "wrapper.txt"
        wrapper: "file:plain"
    rule source:
        output: pipe("source.pipe")
        shell: "echo x > {output}"
    rule piped:
        input: "source.pipe"
        output: "piped.txt"
        shell: "cat {input}; exit 16"
    checkpoint check:
        output: directory("parts")
        shell: "mkdir {output}; touch {output}/a {output}/b"
    rule part:
        input: "parts/{part}"
        output: "done.{part}"
        shell: "[ {wildcards.part} = a ] || exit 17; touch {output}"
    rule checked:
        input: lambda wildcards: [f"done.{part.name}" for part in Path(checkpoints.check.get().output[0]).glob("[ab]")]
        output: "checked.txt"
        shell: "touch {output}"
"""


@pytest.mark.parametrize("way", SHIMMED)
def test_every_kind_of_rule_passes_the_shim_with_its_true_status(pipeline: Pipeline, way: str) -> None:
    (pipeline.folder / "script.py").write_text("from snakemake.shell import shell\nimport os\nos._exit(13)\n")
    (pipeline.folder / "plain").mkdir()
    (pipeline.folder / "plain" / "wrapper.py").write_text("import sys\nsys.exit(15)\n")
    (pipeline.folder / "plain" / "environment.yaml").write_text("dependencies: []\n")
    pipeline.write("    from pathlib import Path\n" + KINDS, way)
    assert pipeline.run(way, "--keep-going").status == 1
    statuses = {name: attempts[-1][1] for name, attempts in told(pipeline.story()).items() if "source" not in name}
    assert statuses == {
        "failed shell_rule": 11,
        "failed run_rule": 12,
        "failed script_rule": 13,
        "failed shadow_rule": 14,
        "failed wrapper_rule": 15,
        "failed piped": 16,
        "failed part part=b": 17,
    }


def test_jobs_side_by_side_are_not_taken_for_each_other(pipeline: Pipeline) -> None:
    pipeline.write(
        """
        rule all:
            input: expand("out.{n}", n=range(24))
        rule one:
            output: "out.{n}"
            shell:
                "[ $(({wildcards.n} % 4)) != 0 ] || {{ echo \\"KeyError: 'n{wildcards.n}'\\" >&2; "
                "exit $((10 + {wildcards.n})); }}; touch {output}"
        """,
        INCLUDE,
    )
    assert pipeline.run(INCLUDE, "--keep-going", "--jobs", "8").status == 1
    story = pipeline.story()
    found = {
        job["wildcards"]: (job["attempts"][0]["exit_status"], job["attempts"][0]["evidence"]) for job in story["jobs"]
    }
    assert found == {f"n={n}": (10 + n, f"KeyError: 'n{n}'") for n in range(0, 24, 4)}
    assert story["done"] == 18


@pytest.mark.parametrize("way", SHIMMED)
@pytest.mark.parametrize(
    "command", ["false | true", "echo $NOWHERE", "false; touch {output}"], ids=["pipe", "unset", "first"]
)
def test_strict_mode_is_kept(pipeline: Pipeline, way: str, command: str) -> None:
    pipeline.write(f'rule all:\n    output: "x"\n    shell: "{command}; touch {{output}}"\n', way)
    ended = pipeline.run(way)
    assert ended.status == 1 and not (pipeline.folder / "x").exists()


def test_a_command_of_more_than_64_kb_runs_once(pipeline: Pipeline) -> None:
    pipeline.write(
        """
        LONG = "x" * 70_000
        rule all:
            output: "out"
            params: LONG
            shell: "echo {params} | wc -c >> {output}; exit 5"
        """,
        INCLUDE,
    )
    assert pipeline.run(INCLUDE, "--keep-incomplete").status == 1
    assert (pipeline.folder / "out").read_text() == "70001\n"
    assert told(pipeline.story()) == {"failed all": [("unknown", 5, 0)]}
    assert len(list((pipeline.state / "runs").iterdir())) == 1


def test_in_a_container_the_images_own_bash_runs_the_job(pipeline: Pipeline) -> None:
    tools = pipeline.folder / "tools"
    tools.mkdir()
    # `apptainer exec ... image.sif bash -c COMMAND`, in an image that is this machine.
    fake = """#!/bin/bash
        case $1 in --version) echo apptainer version 1.3.0; exit ;; esac
        while [ "$1" != bash ] && [ "$#" -gt 1 ]; do shift; done
        echo "in the image: $1" >&2; PATH=/usr/bin:/bin exec "$@"
    """
    (tools / "apptainer").write_text("\n".join(line.strip() for line in fake.splitlines()))
    (tools / "apptainer").chmod(0o755)
    (pipeline.folder / "image.sif").touch()
    pipeline.write('container: "image.sif"\nrule all:\n    output: "x"\n    shell: "touch {output}; exit 6"\n', INCLUDE)
    ended = pipeline.run(INCLUDE, "--sdm", "apptainer", PATH=f"{tools}:{os.environ['PATH']}")
    assert "in the image: bash" in ended.output, ended.output
    assert told(pipeline.story())["failed all"][0][:2] == ("unknown", 6)


def installed_twice(venv: SnakemakeVenv, folder: Path) -> Path:
    """Return a copy of gpualert and its plugin that comes before the installed one on PYTHONPATH."""
    site = venv.files.parents[3]
    for name in ("gpualert", "snakemake_logger_plugin_gpualert"):
        subprocess.run(["cp", "-r", str(site / name), str(folder)], check=True)
    return folder / "gpualert" / "_files"


@pytest.mark.parametrize("broken", ["missing", "not executable", "cut off", "no shim", "empty shim", "shim cut off"])
def test_with_a_broken_shim_the_pipeline_runs_unwrapped_and_says_so_once(
    pipeline: Pipeline, tmp_path: Path, broken: str
) -> None:
    library = tmp_path / "library"
    library.mkdir()
    files = installed_twice(pipeline.venv, library)
    bash, shim = files / "workflows" / "snakemake" / "bin" / "bash", files / "bash" / "gpualert"
    if broken in ("missing", "no shim"):
        (bash if broken == "missing" else shim).unlink()
    elif broken == "not executable":
        bash.chmod(bash.stat().st_mode & ~(stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH))
    else:
        path = bash if broken == "cut off" else shim
        path.write_bytes(path.read_bytes()[: 0 if broken == "empty shim" else path.stat().st_size // 2])
    pipeline.write(
        'rule all:\n    input: "a", "b"\nrule one:\n    output: "{n}"\n    shell: "echo hi > {output}"\n', INCLUDE
    )
    ended = pipeline.run(INCLUDE, PYTHONPATH=str(library))
    assert ended.status == 0, ended.output
    assert (pipeline.folder / "a").read_text() == (pipeline.folder / "b").read_text() == "hi\n"
    assert len([line for line in ended.complaints if "run unwrapped" in line]) == 1, ended.output


def test_a_snakemake_with_other_internals_runs_unwrapped_and_is_told_so_once(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    # What starts a shell in another way: `kwargs` is not what holds its variables.
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib\n"
        "module = importlib.import_module('snakemake.shell')\n"
        "class Other(module.shell):\n"
        "    def __new__(cls, cmd, *args, **named):\n"
        "        import subprocess\n"
        "        frame = __import__('inspect').currentframe().f_back.f_locals\n"
        "        return subprocess.run(cmd.format(**frame), shell=True, check=True)\n"
        "module.shell = Other\n"
    )
    pipeline.write('rule all:\n    output: "x"\n    shell: "touch x"\n', INCLUDE)
    ended = pipeline.run(INCLUDE, PYTHONPATH=str(tmp_path))
    assert ended.status == 0 and (pipeline.folder / "x").exists(), ended.output
    (complaint,) = ended.complaints
    assert "the jobs run unwrapped: Snakemake 9" in complaint


def test_another_logger_hears_all_it_would_hear_without_us(pipeline: Pipeline, tmp_path: Path) -> None:
    package = tmp_path / "snakemake_logger_plugin_second"
    package.mkdir()
    (package / "__init__.py").write_text(
        "import os\n"
        "from snakemake_interface_logger_plugins.base import LogHandlerBase\n"
        "class LogHandler(LogHandlerBase):\n"
        "    writes_to_stream = writes_to_file = needs_rulegraph = False\n"
        "    has_filter = has_formatter = True\n"
        "    def emit(self, record):\n"
        "        with open(os.environ['HEARD'], 'a') as file:\n"
        "            print(getattr(record, 'event', ''), file=file)\n"
    )
    pipeline.write(STORY)
    heard = {}
    for loggers in (["second"], ["gpualert", "second"], ["second", "gpualert"]):
        name = tmp_path / "-".join(loggers)
        again = ("--keep-going", "--retries", "1", "--forceall", "--logger", *loggers)
        (pipeline.folder / "once").unlink(missing_ok=True)
        pipeline.run("", *again, PYTHONPATH=str(tmp_path), HEARD=str(name))
        heard[tuple(loggers)] = sorted(name.read_text().split())
    assert heard[("gpualert", "second")] == heard[("second", "gpualert")] == heard[("second",)]
    assert "job_error" in heard[("second",)]
    assert len(pipeline.mails()) == 2


def test_whatever_goes_wrong_in_our_logger_the_workflow_ends_as_ever(pipeline: Pipeline) -> None:
    pipeline.write('rule all:\n    output: "x"\n    shell: "touch x"\n')
    pipeline.state.write_text("no folder")
    ended = pipeline.run(LOGGER)
    assert ended.status == 0, ended.output
    (complaint,) = ended.complaints
    assert "not followed any further" in complaint


def test_quiet_hides_nothing_from_us(pipeline: Pipeline) -> None:
    pipeline.write(STORY)
    pipeline.run(LOGGER, "--keep-going", "--quiet", "all")
    assert set(told(pipeline.story())) == {"failed train", "failed prepare name=x"}


def test_a_workflow_with_nothing_to_do_and_a_dry_run_leave_nothing(pipeline: Pipeline) -> None:
    pipeline.write('rule all:\n    output: "x"\n    shell: "touch x"\n', INCLUDE)
    assert pipeline.run(WRAP, "--dry-run").status == 0
    (pipeline.folder / "x").touch()
    assert pipeline.run(WRAP).status == 0
    assert not pipeline.state.exists()


def test_a_workflow_that_went_well_is_told_unless_only_failures_are_wanted(pipeline: Pipeline) -> None:
    pipeline.write('rule all:\n    output: "x"\n    shell: "touch x"\n', INCLUDE)
    assert pipeline.run(INCLUDE).complaints == []
    (mail,) = pipeline.mails()
    assert str(mail["Subject"]).startswith("OK: Snakefile on ") and str(mail["Subject"]).endswith("1 of 1 jobs done")
    (pipeline.folder / "x").unlink()
    assert pipeline.run(INCLUDE, GPUALERT_ON="failure").status == 0
    assert len(pipeline.mails()) == 1


def test_a_failed_command_that_its_rule_answers_is_no_failed_job(pipeline: Pipeline) -> None:
    pipeline.write(
        """
        rule all:
            output: "x"
            run:
                try:
                    shell("exit 3")
                except Exception:
                    shell("touch {output}")
        """,
        INCLUDE,
    )
    assert pipeline.run(INCLUDE).status == 0
    story = pipeline.story()
    assert story["status"] == "succeeded"
    assert told(story) == {"recovered all": [("unknown", 3, 0)]}


def test_a_job_without_its_output_is_told_in_snakemakes_own_words(pipeline: Pipeline) -> None:
    pipeline.write('rule all:\n    output: "x"\n    shell: "true"\n', INCLUDE)
    assert pipeline.run(INCLUDE, "--latency-wait", "0").status == 1
    (job,) = pipeline.story()["jobs"]
    assert (job["outcome"], job["rule"], job["tries"]) == ("failed", "all", 1)
    assert "completed successfully, but some output files are missing" in job["attempts"][0]["evidence"]
    assert "completed successfully, but some output files are missing" in " ".join(body(*pipeline.mails()).split())


def test_a_snakemake_inside_a_job_is_a_workflow_of_its_own(pipeline: Pipeline) -> None:
    (pipeline.folder / "inner").mkdir()
    include = f'include: "{pipeline.venv.files / "gpualert.smk"}"\n'
    (pipeline.folder / "inner" / "Snakefile").write_text(
        f'{include}rule inner:\n    output: "y"\n    shell: "exit 9"\n'
    )
    pipeline.write(
        f'rule all:\n    output: "x"\n    shell: "cd inner && {pipeline.venv.snakemake} --cores 1"\n', INCLUDE
    )
    assert pipeline.run(INCLUDE).status == 1
    outcomes = sorted(path.name for path in (pipeline.state / "workflows").iterdir())
    assert len(outcomes) == 2
    stories = [pipeline.gpualert("workflow", name).output for name in outcomes]
    assert "all: on " in stories[0] and "inner: on " in stories[1]


def test_two_hundred_jobs_leave_fewer_than_fifty_files(pipeline: Pipeline) -> None:
    pipeline.write(
        """
        rule all:
            input: expand("o/{n}", n=range(200))
        rule one:
            output: "o/{n}"
            shell: "touch {output}"
        """,
        INCLUDE,
    )
    assert pipeline.run(INCLUDE, "--quiet", "all").status == 0
    assert len((pipeline.state / "history.jsonl").read_text().splitlines()) == 200
    assert len(list(pipeline.state.rglob("*"))) < 50


def test_a_snakemake_that_was_killed_is_told_by_a_tick(pipeline: Pipeline) -> None:
    pipeline.write(
        """
        rule all:
            input: "a", "b"
        rule one:
            output: "{n}"
            shell: "[ {wildcards.n} = a ] && exit 3; sleep 60"
        """,
        INCLUDE,
    )
    words = [pipeline.venv.snakemake, "--cores", "4", "--keep-going"]
    with (pipeline.folder / "log").open("wb") as log:
        process = subprocess.Popen(
            words, cwd=pipeline.folder, env=pipeline.environment(), stdout=log, stderr=log, start_new_session=True
        )
        ends = time.monotonic() + 60
        while not list(pipeline.state.glob("workflows/*/jobs.jsonl")):
            assert time.monotonic() < ends
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    (folder,) = (pipeline.state / "workflows").iterdir()
    # The first tick finds the job that was killed, too; the second that nothing more has come for a while.
    for _ in range(2):
        long_ago = time.time() - 1000
        for path in (*folder.iterdir(), folder):
            os.utime(path, (long_ago, long_ago))
        assert pipeline.gpualert("tick").status == 0
    mails = [mail for mail in messages(pipeline.state) if "Snakefile" in str(mail["Subject"])]
    assert [str(mail["Subject"]).split(":")[0] for mail in mails] == ["LOST"]
