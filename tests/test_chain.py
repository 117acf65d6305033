"""Chains of retries with real parts: the command line sets them up, ticks drive them, the shim runs each attempt."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from chains import Chains, detached_environ, job
from outcomes import body, messages
from shim.waiting import eventually, is_alive

from gpualert.chains.read import read_chain
from gpualert.model import ChainEnd, RunStatus
from gpualert.places import python_command


@pytest.fixture
def chains(state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Chains:
    """Return a world of chains; commands run in a folder of their own."""
    for name, value in detached_environ().items():
        monkeypatch.setenv(name, value)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return Chains(state)


def outputs(chains: Chains, name: str) -> list[str]:
    """Return what each attempt printed."""
    paths = sorted((chains.path(name) / "attempts").glob("*.out"), key=lambda path: int(path.stem.rpartition("-")[2]))
    return [path.read_text() for path in paths]


def test_a_network_that_fails_twice_is_saved_on_the_third_attempt_and_told_once(chains: Chains) -> None:
    chains.start("fetch", job("network", "network", "success"))
    story = chains.carry_on("fetch")
    assert story.end is ChainEnd.SAVED
    assert [each.failure_class for each in story.all_attempts] == ["network", "network", "success"]
    (subject,) = chains.subjects(1)
    assert subject.startswith("OK: fetch on ") and subject.endswith(", saved at attempt 3")
    text = body(messages(chains.state)[0])
    assert "attempt 1: network on " in text and "attempt 2: network on " in text
    assert chains.tick() == chains.tick() == ""
    assert chains.story("fetch").last == 3 and len(messages(chains.state)) == 1


def test_a_saved_chain_is_told_although_successes_are_not_but_one_that_never_failed_is_not(
    chains: Chains, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUALERT_ON", "failure")
    monkeypatch.setenv("GPUALERT_LONGER_THAN_S", "1h")
    chains.start("smooth", job("success"))
    chains.start("rough", job("network", "success"))
    for name in ("smooth", "rough"):
        assert chains.carry_on(name).end is ChainEnd.SAVED
    eventually(lambda: len(list((chains.state / "runs").glob("*/claims/ended-done"))) == 3, "all reports")
    (subject,) = chains.subjects(1)
    assert subject.startswith("OK: rough on ")


def test_a_missing_file_stops_at_once_and_says_what_to_do(chains: Chains) -> None:
    chains.start("typo", job("file_not_found"))
    assert chains.carry_on("typo").end is ChainEnd.NEEDS_PERSON
    (subject,) = chains.subjects(1)
    assert subject.startswith("FAILED file_not_found: typo on ") and subject.endswith(", needs you")
    assert "It is not tried again: file_not_found would end the next attempt" in " ".join(
        body(messages(chains.state)[0]).split()
    )
    assert chains.tick() == "" and chains.story("typo").last == 1


def test_what_the_scheduler_ended_is_resumed_from_its_newest_checkpoint_and_costs_no_attempt(chains: Chains) -> None:
    command = job("walltime", "walltime", "success", more='echo "got: $*"; echo saved >"step-$GPUALERT_ATTEMPT.pt"')
    options = ("--max-attempts", "1", "--early", "0", "--checkpoint", "step-*.pt")
    chains.start("long", [*command, "sh", "--resume={resume}"], *options)
    story = chains.carry_on("long")
    assert story.end is ChainEnd.SAVED
    assert [each.progress for each in story.all_attempts] == [True, True, True]
    said = [text.splitlines()[0] for text in outputs(chains, "long")]
    here = Path.cwd()
    assert said == ["got: ", f"got: --resume={here}/step-1.pt", f"got: --resume={here}/step-2.pt"]


def test_a_bad_node_is_left_out_from_then_on(chains: Chains) -> None:
    command = [*job("gpu_hardware", "network", "success", more='echo "$*; $GPUALERT_EXCLUDE_NODES"'), "sh"]
    chains.start("moves", [*command, "--exclude={exclude}"], environ={"SLURMD_NODENAME": "n1"})
    story = chains.carry_on("moves")
    assert story.end is ChainEnd.SAVED
    assert [text.splitlines()[0] for text in outputs(chains, "moves")] == ["; ", *["--exclude=n1; n1"] * 2]
    assert story.ended[1].decision.exclude == ("n1",)


def test_a_node_that_a_person_has_cleared_is_used_again(chains: Chains) -> None:
    command = [*job("gpu_hardware", "network", "success", more='echo "$*"'), "sh", "{exclude}"]
    chains.start("mended", command, environ={"SLURMD_NODENAME": "n1"})
    chains.ended("mended", 1)
    chains.tick()
    chains.ended("mended", 2)
    chains.run("ledger", "clear", "n1")
    chains.carry_on("mended")
    assert [text.splitlines()[0] for text in outputs(chains, "mended")] == ["", "n1", ""]


def test_an_attempt_gets_the_folder_the_environment_the_umask_and_the_limits_of_the_day_it_was_set_up(
    chains: Chains,
) -> None:
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 7
    look = 'pwd; umask; ulimit -n; printf "%s\\n" "$CONDA_PREFIX" "$ODD"; trap; ps -o sid= -p $$ | tr -d " "; cat'
    command = ["/bin/bash", "-c", job("network", "success", more=look)[2]]
    environ = {"CONDA_PREFIX": "/opt/conda", "ODD": "two\nlines"}
    words = ["chain", "start", "--name", "same", "--interval", "0", "--", *command]
    script = f'umask 0027; ulimit -S -n {soft}; exec "$@"'
    subprocess.run(["bash", "-c", script, "sh", *python_command(*words)], env={**os.environ, **environ}, check=True)
    chains.carry_on("same")
    for text in outputs(chains, "same"):
        lines = text.splitlines()
        assert lines[:6] == [str(Path.cwd()), "0027", str(soft), "/opt/conda", "two", "lines"]
        assert int(lines[6]) != os.getsid(0)
    chain = read_chain(chains.path("same"))
    assert chain.environ[b"CONDA_PREFIX"] == b"/opt/conda"
    assert (chains.path("same") / "env").stat().st_mode & 0o777 == 0o600


def test_the_record_of_an_attempt_names_chain_attempt_and_the_run_before(chains: Chains) -> None:
    chains.start("named", job("network", "success"))
    first, second = chains.carry_on("named").all_attempts
    start = (chains.state / "runs" / second.run_id / "start").read_text().splitlines()
    assert {"chain=named", "attempt=2", f"previous_run_id={first.run_id}", "parent_run_id="} <= set(start)
    retry = json.loads((chains.state / "runs" / first.run_id / "retry.json").read_text())
    assert (retry["retry"], retry["chain"], retry["attempt"]) == (True, "named", 1)


def test_a_run_inside_an_attempt_decides_nothing_and_tells_nothing(chains: Chains) -> None:
    inner = f'env -u GPUALERT_RUN_ID sh "{Path(__file__).parents[1]}/bash/gpualert" run -- sh -c "exit 3"; true'
    chains.start("nested", job("network", "success", more=inner))
    story = chains.carry_on("nested")
    assert [each.failure_class for each in story.all_attempts] == ["network", "success"]
    eventually(lambda: len(list((chains.state / "runs").glob("*/claims/ended-done"))) == 4, "all reports")
    assert len(messages(chains.state)) == 1


def test_more_is_asked_for_when_something_ran_out(chains: Chains) -> None:
    command = job("cuda_oom", "cuda_oom", "success", more='echo "batch $BATCH_SIZE"')
    chains.start("smaller", command, "--bigger", "env:BATCH_SIZE=/2", environ={"BATCH_SIZE": "33"})
    assert chains.carry_on("smaller").end is ChainEnd.SAVED
    assert [text.splitlines()[0] for text in outputs(chains, "smaller")] == ["batch 33", "batch 16", "batch 8"]


def test_numbers_that_grow_are_progress_and_those_that_stay_are_none(chains: Chains) -> None:
    more = 'echo "step $((GPUALERT_ATTEMPT < 3 ? GPUALERT_ATTEMPT * 100 : 150)) loss 0.5"'
    chains.start("steps", job("network", more=more), "--progress", r"step (\d+)")
    story = chains.carry_on("steps")
    assert [each.progress for each in story.all_attempts] == [True, True, False, False]
    assert story.end is ChainEnd.GAVE_UP  # the second got further: three in a row from there
    assert chains.subjects(1)[0].endswith(", given up after 4 attempts")


def test_a_stopped_chain_starts_nothing_until_it_is_resumed(chains: Chains) -> None:
    chains.start("pause", job("network", "network", "network", "success"))
    chains.ended("pause", 1)
    chains.run("chain", "stop", "pause")
    assert chains.tick() == "" and chains.story("pause").last == 1
    assert chains.story("pause").end is ChainEnd.STOPPED
    assert "attempt 2 is started" in chains.run("chain", "resume", "pause")
    assert chains.carry_on("pause").end is ChainEnd.SAVED  # what failed before the stop counts no more


def test_a_chain_that_is_stopped_while_it_runs_can_be_ended_with_its_attempt(chains: Chains) -> None:
    chains.start("endless", ["sleep", "600"])
    run = eventually(lambda: list((chains.state / "runs").glob("*/start")), "the run")[0]
    eventually(lambda: "end=1" in run.read_text(), "its record")
    pid = int(next(line for line in run.read_text().splitlines() if line.startswith("pid=")).partition("=")[2])
    assert chains.attempt("chain", "retry-now", "endless").returncode == 1
    assert "was sent SIGTERM" in chains.run("chain", "stop", "--kill", "endless")
    assert chains.ended("endless", 1).end is ChainEnd.STOPPED
    assert not is_alive(pid)


def test_retry_now_does_not_wait_for_the_interval(chains: Chains) -> None:
    chains.start("later", job("network", "success"), "--interval", "1h")
    chains.ended("later", 1)
    assert chains.tick() == "" and chains.story("later").last == 1
    assert "waits" in chains.run("chain", "list")
    chains.run("chain", "retry-now", "later")
    assert chains.carry_on("later").end is ChainEnd.SAVED


def test_what_a_person_has_mended_is_tried_again_afresh(chains: Chains) -> None:
    chains.start("mended", job("file_not_found", "success"))
    assert chains.carry_on("mended").end is ChainEnd.NEEDS_PERSON
    chains.run("chain", "resume", "mended")
    assert chains.carry_on("mended").end is ChainEnd.SAVED


def test_chains_are_listed_and_shown(chains: Chains) -> None:
    chains.start("seen", job("network", "success"))
    chains.carry_on("seen")
    chains.tick()
    assert chains.attempt("chain", "list").returncode == 1  # none goes on
    assert "saved" in chains.run("chain", "list", "--all")
    shown = chains.run("chain", "show", "seen")
    assert "attempt 1: network on " in shown and "it succeeded at attempt 2" in shown
    assert json.loads(chains.run("chain", "show", "--json", "seen"))["state"] == "saved"
    assert chains.run("chain", "log", "seen") == "all done\n"
    first = chains.story("seen").all_attempts[0].run_id
    assert "It is tried again now: attempt 2 of 6." in " ".join(chains.run("show", first).split())
    assert "ConnectionError" in chains.run("chain", "log", "--attempt", "1", "seen")


def test_a_chain_that_has_long_been_over_is_removed_and_one_that_goes_on_is_not(chains: Chains) -> None:
    chains.start("over", job("success"))
    chains.carry_on("over")
    chains.start("stays", job("network"), "--interval", "1h")
    chains.ended("stays", 1)
    chains.tick()
    for path in [*chains.path("over").rglob("*"), *chains.path("stays").rglob("*")]:
        os.utime(path, (1, 1))
    chains.run("prune")
    assert [path.name for path in (chains.state / "chains").iterdir()] == ["stays"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--bigger", "mem=x2"], "only a chain of sbatch"),
        (["--bigger", "gpu=x2"], "'gpu=x2' is neither mem=x2 nor env:NAME=/2"),
        (["--bigger", "env:BATCH=/2"], "the variable is '', which is no number"),
        (["--interval", "soon"], "cannot use settings of '--interval'"),
        (["--backoff", "slow"], "'slow' is none of fixed, exponential"),
        (["--max-attempts", "0"], "0 is not between 1 and 1000"),
        (["--progress", "("], "no regular expression"),
        (["--name", "two words"], "a chain cannot be called 'two words'"),
        (["--policy", "nowhere.yaml"], "cannot use settings of 'nowhere.yaml': No such file"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_written(chains: Chains, words: list[str], said: str) -> None:
    done = chains.attempt("chain", "start", *words, "--", "true")
    assert done.returncode == 2 and said in done.stderr
    assert not (chains.state / "chains").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--array=1-3", "job.sh"], "not an array"),
        (["--clusters", "other", "job.sh"], "only follow jobs on this cluster"),
    ],
)
def test_jobs_that_a_chain_cannot_follow_are_refused(chains: Chains, words: list[str], said: str) -> None:
    done = chains.attempt("chain", "start", "--", "sbatch", *words)
    assert done.returncode == 2 and said in done.stderr


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        ("actions: {network: restart}", "key 'actions.network': 'restart' is none of fix, retry"),
        ("actions: {netwrok: retry}", "key 'actions.netwrok': there is no such failure class"),
        ("actions: [network]", "key 'actions': it is no mapping"),
        ("interval: eleven", "key 'interval': 'eleven' is no duration"),
        ("intervall: 11m", "key 'intervall': there is no such key"),
        ("- never", "it is no mapping"),
        ("{", "while parsing"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused_by_file_and_key(chains: Chains, policy: str, said: str) -> None:
    Path("policy.yaml").write_text(policy)
    done = chains.attempt("chain", "start", "--policy", "policy.yaml", "--", "true")
    assert done.returncode == 2 and "'policy.yaml'" in done.stderr and said in done.stderr


def test_a_policy_file_is_followed_and_flags_win(chains: Chains) -> None:
    Path("policy.yaml").write_text("max_attempts: 9\ninterval: 20m\nactions:\n  network: fix\nbigger: [env:N=x2]\n")
    chains.start("strict", job("network"), "--policy", "policy.yaml", environ={"N": "1"})
    assert chains.carry_on("strict").end is ChainEnd.NEEDS_PERSON
    policy = read_chain(chains.path("strict")).policy
    assert (policy.max_attempts, policy.interval_s, len(policy.bigger)) == (9, 0.0, 1)


def test_a_chain_inside_a_chain_is_refused(chains: Chains) -> None:
    done = chains.attempt("chain", "start", "--", "true", environ={**os.environ, "GPUALERT_CHAIN": "outer"})
    assert done.returncode == 2 and "a chain cannot start inside a chain: this is part of 'outer'" in done.stderr


def test_a_name_is_taken_once(chains: Chains) -> None:
    chains.start("once", ["true"])
    done = chains.attempt("chain", "start", "--name", "once", "--", "true")
    assert done.returncode == 2 and "there is a chain 'once' already" in done.stderr


def test_a_chain_of_another_host_is_left_alone(chains: Chains) -> None:
    chains.start("there", job("network", "success"))
    chains.ended("there", 1)
    file = chains.path("there") / "chain.json"
    values = json.loads(file.read_text())
    values["policy"]["host"] = "another"
    file.write_text(json.dumps(values))
    assert chains.tick() == "" and chains.story("there").last == 1


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("chain.json", b'{"schema": 1, "crea', "file 'chain.json': it is no JSON, or was cut off"),
        ("chain.json", b'{"schema": 1}', "file 'chain.json', key 'created_at': it is missing"),
        ("command", b"", "file 'command': it is empty, or was cut off"),
        ("command", b"sh\0-c", "file 'command': its last item was cut off"),
        ("attempts/1.end.json", b'{"attempt": {"status": "fine"}, "decision": {}}', "key 'attempt.status': 'fine'"),
        ("attempts/1.json", b'{"host": 5', "file 'attempts/1.json': it is no JSON"),
        ("format", b"gpualert-chain/9\n", "file 'format': it is not 'gpualert-chain/1'"),
    ],
)
def test_a_damaged_chain_is_complained_about_once_by_file_and_key_and_others_go_on(
    chains: Chains, file: str, content: bytes, said: str
) -> None:
    chains.start("b-sound", job("network", "success"))
    chains.ended("b-sound", 1)
    shutil.copytree(chains.path("b-sound"), chains.path("a-damaged"))
    (chains.path("a-damaged") / file).write_bytes(content)
    complaint = chains.tick()
    assert complaint.startswith("gpualert: cannot use chain 'a-damaged': ") and said in complaint
    assert chains.tick() == ""
    assert chains.ended("b-sound", 2).end is ChainEnd.SAVED
    assert "unreadable" in chains.run("chain", "list", "--all")


@pytest.mark.parametrize(
    ("part", "key", "value"), [("attempt", "faulty_node", "n 1"), ("decision", "exclude", ["n1", "--mem=0 n2"])]
)
def test_a_node_that_can_be_none_is_complained_about_by_file_and_key(
    chains: Chains, part: str, key: str, value: object
) -> None:
    chains.start("odd", job("gpu_hardware", "success"), environ={"SLURMD_NODENAME": "n1"})
    chains.ended("odd", 1)
    file = chains.path("odd") / "attempts" / "1.end.json"
    values = json.loads(file.read_text())
    values[part][key] = value
    file.write_text(json.dumps(values))
    assert f"file 'attempts/1.end.json', key '{part}.{key}': {value!r} makes no sense" in chains.tick()
    assert not (chains.path("odd") / "attempts" / "2.json").exists()


def test_a_clock_that_was_set_back_makes_a_chain_wait_anew_and_says_so_once(chains: Chains) -> None:
    chains.start("early", job("network", "success"), "--interval", "1s")
    chains.ended("early", 1)
    file = chains.path("early") / "attempts" / "1.end.json"
    values = json.loads(file.read_text())
    values["attempt"]["ended_at"] = time.time() + 7200
    file.write_text(json.dumps(values))
    complaint = chains.tick()
    assert "file 'attempts/1.end.json', key 'attempt.ended_at'" in complaint and "was set back" in complaint

    def second() -> bool:
        assert chains.tick() == ""
        return chains.story("early").last == 2

    eventually(second, "the second attempt")
    assert chains.carry_on("early").end is ChainEnd.SAVED


def test_an_attempt_whose_folder_is_gone_is_complained_about_and_given_up_after_three(chains: Chains) -> None:
    Path("gone").mkdir()
    os.chdir("gone")
    chains.start("homeless", job("network", "success"))
    chains.ended("homeless", 1)
    os.chdir("..")
    Path("gone").rmdir()
    assert "cannot start attempt 2 of chain 'homeless': No such file or directory" in chains.tick()
    complaint = ""
    while chains.story("homeless").end is None:
        complaint = chains.tick()
    assert "chain 'homeless' has ended: launch_failed ended 3 attempts in a row" in complaint
    assert chains.story("homeless").end is ChainEnd.GAVE_UP and chains.story("homeless").last == 4


def test_an_attempt_on_another_host_that_left_no_record_is_not_started_again(chains: Chains) -> None:
    chains.start("away", job("network", "success"), "--host", "any")
    chains.ended("away", 1)
    marker = chains.path("away") / "attempts" / "2.json"
    started = json.loads((chains.path("away") / "attempts" / "1.json").read_text())
    marker.write_text(json.dumps({**started, "host": "n9"}))
    assert chains.tick() == "" and chains.story("away").running == 2
    marker.write_text(json.dumps({**started, "host": "n9", "started_at": time.time() - 25 * 3600}))
    assert "chain 'away' has ended: nobody can say whether it still runs" in chains.tick()
    assert chains.tick() == "" and chains.story("away").last == 2


def test_an_attempt_that_is_killed_with_all_that_looks_after_it_is_tried_again(chains: Chains) -> None:
    chains.start("shot", ["/bin/sh", "-c", '[ "$GPUALERT_ATTEMPT" -gt 1 ] || exec sleep 600'])
    started = eventually(lambda: chains.story("shot").started, "the attempt")[1]
    eventually(lambda: [path for path in (chains.state / "runs").glob("*/start") if path.stat().st_size], "the record")
    assert chains.tick() == "" and chains.story("shot").running == 1
    os.killpg(started.pid, signal.SIGKILL)
    eventually(lambda: chains.tick() == "" and chains.story("shot").running is None, "the end of what was killed")
    assert chains.carry_on("shot").end is ChainEnd.SAVED
    assert chains.story("shot").ended[1].attempt.status is RunStatus.LOST


def test_an_attempt_that_left_no_record_is_tried_again(chains: Chains) -> None:
    chains.start("lost", job("network", "success"))
    chains.ended("lost", 1)
    marker = chains.path("lost") / "attempts" / "2.json"
    started = json.loads((chains.path("lost") / "attempts" / "1.json").read_text())
    marker.write_text(json.dumps({**started, "started_at": time.time() - 61, "boot_id": "before"}))
    assert chains.tick() == ""
    assert chains.story("lost").ended[2].attempt.failure_class == "launch_failed"
    assert chains.carry_on("lost").end is ChainEnd.SAVED
