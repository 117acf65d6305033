"""
The Nextflow profile: read by Nextflow's own parser, evaluated by its Groovy, and run as its local executor runs a task.

Nextflow itself is not run: there is none to be had from a package registry.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from outcomes import body, messages

from gpualert.engine_attempts import read_attempts
from gpualert.history import read_history
from gpualert.places import place, shim
from gpualert.rundir import read_run

from .nextflow import language
from .nextflow.language import Directives
from .nextflow.simulation import Task

pytestmark = [pytest.mark.engines, pytest.mark.timeout(240)]

FOLDER = place("nextflow")
# Nextflow is a run itself, which tells of its end: nobody else has to.
QUIET = {"GPUALERT_RUN_ID": "outer"}
PYTHON_OOM = "python3 -c 'bytearray(1 << 60)'"
MISSING_FILE = "python3 -c 'open(\"no-such.csv\")'"
SEGV = "kill -SEGV $$"


@pytest.fixture(scope="session")
def jar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the language server's jar, the same for all workers of this test run."""
    if reason := language.missing():
        pytest.skip(reason)
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base) / "nextflow-language-server"
    return language.jar_in(folder)


@pytest.fixture(scope="session")
def directives(jar: Path) -> Iterator[Directives]:
    """Return the profile's directives, evaluated where GPUALERT_NEXTFLOW is set as the documentation says."""
    found = Directives(jar, FOLDER / "gpualert.config", "gpualert", {**QUIET, "GPUALERT_NEXTFLOW": str(FOLDER)})
    yield found
    found.close()


@pytest.fixture(scope="session")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a place for a copy of the profile's files."""
    return tmp_path_factory.mktemp("copy") / "it's here"


@pytest.fixture(scope="session")
def elsewhere(jar: Path, copy: Path) -> Iterator[Directives]:
    """Return the profile's directives where its other files are the copy."""
    found = Directives(jar, FOLDER / "gpualert.config", "gpualert", {**QUIET, "GPUALERT_NEXTFLOW": str(copy)})
    yield found
    found.close()


@pytest.fixture
def environ(state: Path, tmp_path: Path) -> dict[str, str]:
    """Return the environment of tasks, with gpualert on PATH."""
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    (bin_folder / "gpualert").symlink_to(shim())
    path = f"{bin_folder}:{os.environ['PATH']}"
    return {"PATH": path, "GPUALERT_PYTHON": sys.executable, "GPUALERT_HOME": str(state)}


@pytest.fixture
def make_task(directives: Directives, tmp_path: Path) -> Callable[..., Task]:
    """Return a maker of tasks, each attempt in a folder of its own."""

    def make(script: str, attempt: int = 1, **changes: Any) -> Task:
        return Task(directives, tmp_path / "work" / f"ab/12cd3{attempt}", script, attempt, **changes)

    return make


def runs(state: Path) -> list[Path]:
    return sorted((state / "runs").glob("*"))


def test_the_official_parser_finds_nothing_wrong_and_would(jar: Path, tmp_path: Path) -> None:
    config, module = (FOLDER / name for name in ("gpualert.config", "gpualert.nf"))
    files = {"gpualert.config": config.read_text(), "gpualert.nf": module.read_text()}
    files["used.nf"] = (
        "include { escalate } from './gpualert.nf'\n\nprocess TRAIN {\n    memory { escalate(task, 8.GB) }\n\n"
        "    script:\n    'train'\n}\n\nworkflow {\n    TRAIN()\n}\n"
    )
    files["broken.config"] = files["gpualert.config"].replace("maxRetries = 3", "maxRetriez = 3")
    files["cut.config"] = files["gpualert.config"][:-20]
    files["unknown.config"] = files["gpualert.config"].replace("quoted.call(folder)", "quoted(folder)")
    found = language.diagnostics(jar, files, tmp_path)
    assert (found["gpualert.config"], found["gpualert.nf"]) == ([], [])
    assert [text for text in found["used.nf"] if "Closure is no longer required" not in text] == []
    assert any("maxRetriez" in text for text in found["broken.config"])
    assert found["cut.config"] and any("`quoted` is not defined" in text for text in found["unknown.config"])


@pytest.mark.parametrize("traced", [False, True], ids=["plain", "traced"])
@pytest.mark.parametrize(
    ("script", "status"), [("echo fine", 0), ("exit 3", 3), (SEGV, 139), ("false; echo on", 1), ('echo "$nothing"', 1)]
)
def test_a_task_ends_with_the_status_of_its_script(
    make_task: Callable[..., Task], environ: dict[str, str], script: str, status: int, traced: bool
) -> None:
    assert make_task(script, traced=traced).run(environ) == status


def test_the_shell_keeps_the_options_that_the_pipeline_gives_it(
    make_task: Callable[..., Task], environ: dict[str, str]
) -> None:
    task = make_task("false | true; echo on", shell=["bash", "-C", "-e", "-u", "-o", "pipefail"])
    assert task.run(environ) == 1
    plain = make_task("echo $-; false | true; shopt -o pipefail; echo on", attempt=2, shell=["bash", "-C", "-e"])
    assert plain.run(environ) == 1
    assert plain.text(".command.out").split()[0] == "ehBC"


def test_output_stays_apart_and_as_it_is(make_task: Callable[..., Task], environ: dict[str, str]) -> None:
    task = make_task("printf 'a\\0b\\n'; echo warning >&2; cat; echo $0 >&2")
    assert task.run(environ) == 0
    assert task.text(".command.out") == "a\0b\n"
    assert task.text(".command.err") == f"warning\n{task.folder}/.command.sh\n"


@pytest.mark.parametrize("traced", [False, True], ids=["plain", "traced"])
def test_a_failed_task_is_one_run_that_knows_its_task(
    make_task: Callable[..., Task], environ: dict[str, str], state: Path, traced: bool
) -> None:
    task = make_task(f"bash -c true; {PYTHON_OOM}", attempt=2, traced=traced, name='FLOW:TRAIN (it\'s "A")')
    assert task.run(environ) == 1
    (path,) = runs(state)
    run = read_run(path)
    assert run.engine["name"] == "nextflow" and run.engine["workflow"].startswith("nf-")
    assert (run.engine["rule"], run.engine["wildcards"]) == ("FLOW:TRAIN", 'it\'s "A"')
    assert (run.engine["attempt"], run.engine["log"]) == ("2", f"{task.folder}/.command.err")
    digest = task.known["hash"]
    assert run.engine["jobid"] == f"{digest[:2]}/{digest[2:8]}"
    assert [Path(word).name for word in run.argv] == ["bash", "-ue", ".command.sh"]
    (attempt,), troubles = read_attempts([state], run.engine["workflow"], run.engine["key"])
    assert (attempt.attempt, attempt.failure_class, troubles) == (2, "ram_oom", ())


def test_a_good_task_leaves_one_line_of_history(
    make_task: Callable[..., Task], environ: dict[str, str], state: Path
) -> None:
    task = make_task("echo fine", traced=True)
    assert task.run(environ) == 0
    assert runs(state) == [] and not (task.folder / ".gpualert").exists()
    (line,) = read_history(state)
    assert (line["engine"], line["rule"], line["status"]) == ("nextflow", "TRAIN", "succeeded")


@pytest.mark.parametrize("container", [False, True], ids=["shim", "container"])
@pytest.mark.parametrize(
    ("script", "verdict", "strategies"),
    [
        pytest.param(PYTHON_OOM, "bigger ram_oom high", ["retry", "retry", "retry"], id="memory"),
        pytest.param(MISSING_FILE, "fix file_not_found high", ["finish", "finish", "finish"], id="missing file"),
        pytest.param("echo gone >&2; exit 3", "once unknown low", ["retry", "finish", "finish"], id="nobody knows"),
    ],
)
def test_the_verdict_decides_whether_a_task_is_tried_again(
    make_task: Callable[..., Task],
    environ: dict[str, str],
    container: bool,
    script: str,
    verdict: str,
    strategies: list[str],
) -> None:
    for attempt, strategy in enumerate(strategies, start=1):
        task = make_task(script, attempt, container=container)
        assert task.run(environ) != 0
        assert task.text(".gpualert") == verdict + "\n"
        assert task.strategy() == strategy


def test_gpu_memory_is_no_reason_to_ask_for_host_memory(directives: Directives, tmp_path: Path) -> None:
    (tmp_path / ".gpualert").write_text("bigger cuda_oom high\n")
    task = {"workDir": str(tmp_path), "exitStatus": 1, "attempt": 1}
    assert directives.value("errorStrategy", **task) == "finish"
    before = {"workdir": str(tmp_path), "memory": 100}
    assert directives.value("memory", attempt=2, previousTrace=before) == 100


@pytest.mark.parametrize(
    ("verdict", "status", "attempt", "strategy"),
    [
        ("retry nccl medium", 1, 3, "retry"),
        ("elsewhere gpu_hardware high", 1, 3, "retry"),
        ("resume preempted high", 143, 3, "retry"),
        ("once segfault high", 139, 1, "retry"),
        ("once segfault high", 139, 2, "finish"),
        ("fix traceback high", 1, 1, "finish"),
        ("fix traceback medium", 1, 1, "retry"),
        ("fix traceback medium", 1, 2, "finish"),
        ("bigger disk_full high", 1, 1, "finish"),
        ("none interrupted high", 130, 1, "finish"),
        (None, 1, 1, "finish"),
        (None, 137, 3, "retry"),
        (None, 2**31 - 1, 1, "retry"),
        ("", 1, 1, "finish"),
        ("half", 137, 1, "retry"),
        ("weird words here and more", 1, 1, "finish"),
    ],
)
def test_each_verdict_has_its_strategy(
    directives: Directives, tmp_path: Path, verdict: str | None, status: int, attempt: int, strategy: str
) -> None:
    if verdict is not None:
        (tmp_path / ".gpualert").write_text(verdict)
    assert directives.value("errorStrategy", workDir=str(tmp_path), exitStatus=status, attempt=attempt) == strategy


def test_memory_grows_after_want_of_memory_and_only_then(directives: Directives, tmp_path: Path) -> None:
    before = {"workdir": str(tmp_path), "memory": 100}
    memory = [directives.value("memory", attempt=1), directives.value("memory", attempt=1, ext={"memory": "4 GB"})]
    assert memory == [None, "4 GB"]
    assert directives.value("memory", attempt=2, previousTrace=before) == 100
    (tmp_path / ".gpualert").write_text("bigger oom_killer high\n")
    assert directives.value("memory", attempt=2, previousTrace=before) == 200
    assert directives.value("memory", attempt=2, previousTrace={**before, "memory": None}) is None
    assert directives.value("memory", attempt=2) is None, "a Nextflow that tells nothing of the attempt before"


def test_a_background_process_of_ours_keeps_no_task_waiting(
    make_task: Callable[..., Task], environ: dict[str, str], state: Path, tmp_path: Path
) -> None:
    """The report is slow (a Python that waits for us): the task has ended all the same, its streams closed."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    slow = tmp_path / "python"
    slow.write_text(f'#!/bin/sh\ncase "$*" in *" --wait "*) exit 1 ;; *" post "*) read -r x <{gate} ;; esac\n')
    slow.chmod(0o755)
    task = make_task("exit 3", container=False)
    assert task.run({**environ, "GPUALERT_PYTHON": str(slow), "GPUALERT_POST": "detach"}) == 3
    with gate.open("w") as opened:  # succeeds because the reader is still there
        opened.write("go\n")


def test_a_signal_to_the_task_ends_the_script(
    make_task: Callable[..., Task], environ: dict[str, str], state: Path
) -> None:
    task = make_task("echo started; exec sleep 600")
    process = task.start(environ)
    until(lambda: "started" in task.text(".command.out"))
    (path,) = runs(state)
    start = until(lambda: read_run(path).start)
    os.kill(start.pid, signal.SIGTERM)
    process.wait(timeout=60)
    assert task.text(".exitcode") == "143"
    assert task.text(".gpualert").split()[1] == "interrupted"


@pytest.mark.parametrize("missing", ["", "gpualert", "wrap.bash", "after.sh", "before.bash"])
def test_a_task_runs_whatever_is_missing(
    make_task: Callable[..., Task], environ: dict[str, str], elsewhere: Directives, copy: Path, missing: str
) -> None:
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(FOLDER, copy, ignore=shutil.ignore_patterns(missing))
    if missing == "gpualert":
        environ["PATH"] = "/usr/bin:/bin"
    good, bad = make_task("echo fine"), make_task("exit 3", attempt=2)
    good.directives = bad.directives = elsewhere
    assert good.run(environ) == 0 and good.text(".command.out") == "fine\n"
    assert bad.run(environ) == 3
    assert bool(bad.text(".gpualert")) == (missing == "")
    said = "gpualert: this task is not watched" in good.text(".command.log")
    assert said == (missing in ("gpualert", "wrap.bash"))


def test_without_its_variable_the_profile_says_so_and_leaves_tasks_alone(
    make_task: Callable[..., Task], environ: dict[str, str], jar: Path, state: Path
) -> None:
    bare = Directives(jar, FOLDER / "gpualert.config", "gpualert", {"GPUALERT_NEXTFLOW": ""})
    try:
        task = make_task("exit 3", ext={"beforeScript": "echo mine", "afterScript": "echo mine too"})
        task.directives = bare
        assert task.run(environ) == 3
    finally:
        bare.close()
    assert "GPUALERT_NEXTFLOW is not set" in task.text(".command.log")
    assert runs(state) == []


def test_a_sites_own_scripts_run_too(make_task: Callable[..., Task], environ: dict[str, str]) -> None:
    mine = {"beforeScript": "export MINE=1", "afterScript": "echo after $nxf_main_ret"}
    task = make_task("echo $MINE; exit 3", ext=mine)
    assert task.run(environ) == 3
    assert task.text(".command.out") == "1\n"
    assert "after 3" in task.text(".command.log") and task.text(".gpualert")


def test_a_users_own_bash_env_is_read_by_each_bash(
    make_task: Callable[..., Task], environ: dict[str, str], tmp_path: Path
) -> None:
    own = tmp_path / "own.bash"
    own.write_text("module() { echo module $1; }\n")
    before = {"beforeScript": "bash -c 'module conda'"}
    task = make_task("module load; bash -c 'module purge'; echo ${BASH_ENV##*/}", traced=True, ext=before)
    assert task.run({**environ, "BASH_ENV": str(own)}) == 0
    assert task.text(".command.out") == "module load\nmodule purge\nown.bash\n"
    assert task.text(".command.log").startswith("module conda\n")


def test_a_failing_after_script_of_ours_fails_no_good_task(
    make_task: Callable[..., Task], environ: dict[str, str], directives: Directives
) -> None:
    assert directives.value("afterScript").endswith("|| true")
    task = make_task("echo fine")
    assert task.run({**environ, "HOME": "/nonexistent", "GPUALERT_HOME": "/proc/none"}) == 0
    bad = make_task("exit 3", attempt=2)
    assert bad.run({**environ, "HOME": "/nonexistent", "GPUALERT_HOME": "/proc/none"}) == 3


def test_a_pipeline_run_through_gpualert_is_one_message_that_names_the_failed_task(
    make_task: Callable[..., Task], environ: dict[str, str], state: Path
) -> None:
    task = make_task(PYTHON_OOM)
    task.start({**environ, "PATH": "/nonexistent"}).wait()  # only to have its files written
    for file in (".exitcode", ".command.out", ".command.err", ".gpualert"):
        (task.folder / file).unlink(missing_ok=True)
    nextflow = f"bash {task.folder}/.command.run; echo 'ERROR ~ Error executing process > TRAIN (A)' >&2; exit 1"
    command = ["/bin/sh", str(shim()), "run", "--name", "pipeline", "--", "bash", "-c", nextflow]
    outer = {**os.environ, **environ, "GPUALERT_POST": "wait"}
    assert subprocess.run(command, env=outer, capture_output=True).returncode == 1
    (mail,) = messages(state)
    assert "pipeline" in str(mail["Subject"])
    assert "ram_oom" in body(mail) and "MemoryError" in body(mail)


@pytest.mark.parametrize("container", [False, True], ids=["shim", "container"])
def test_the_end_of_a_workflow_is_told_in_one_message(
    jar: Path, environ: dict[str, str], state: Path, tmp_path: Path, container: bool
) -> None:
    nextflow = Directives(jar, FOLDER / "gpualert.config", "gpualert", {**environ, "GPUALERT_NEXTFLOW": str(FOLDER)})
    try:
        for attempt, script in enumerate([PYTHON_OOM, "echo fine"], start=1):
            Task(nextflow, tmp_path / f"a{attempt}", script, attempt, container=container).run(environ)
        Task(nextflow, tmp_path / "b", MISSING_FILE, name="SCORE (B)").run(environ)
        assert messages(state) == []
    finally:
        nextflow.close()
    (mail,) = until(lambda: messages(state))
    subject = str(mail["Subject"]).strip()
    assert subject.startswith("FAILED: nextflow on ")
    assert subject.endswith(", 1 job failed (file_not_found), 1 recovered")
    assert "SCORE" in body(mail) and "file_not_found" in body(mail) and "no-such.csv" in body(mail)
    assert "TRAIN" in body(mail) and "ram_oom" in body(mail)


def until(condition: Callable[[], Any], limit_s: float = 60.0) -> Any:
    """Wait until `condition` gives something true, and return it."""
    ends = time.monotonic() + limit_s
    while not (found := condition()):
        assert time.monotonic() < ends, "it never came true"
        time.sleep(0.02)
    return found


def test_the_scripts_pass_the_linters() -> None:
    scripts = [*FOLDER.glob("*.sh"), *FOLDER.glob("*.bash")]
    assert len(scripts) == 5
    for script in scripts:
        dialect = ["--shell=sh", "--enable=all"] if script.suffix == ".sh" else ["--shell=bash"]
        found = subprocess.run(["shellcheck", "--norc", "-f", "json", *dialect, str(script)], capture_output=True)
        assert json.loads(found.stdout) == []
        style = subprocess.run(["shfmt", "-d", "-i", "4", "-s", str(script)], capture_output=True)
        assert style.stdout == b""
