"""The one message about a workflow: its jobs as runs, the engine and their logs tell them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from outcomes import body, messages, tick_once
from rundirs import NOW, RunBuilder, items

from gpualert.cli import main
from gpualert.config import load_settings
from gpualert.engine_attempts import job_key
from gpualert.history import remember
from gpualert.model import RunStatus
from gpualert.workflow_folder import FailedJob, WorkflowFolder, begin
from gpualert.workflow_report import status_of
from gpualert.workflow_story import Story
from gpualert.workflow_summary import gather, tell_workflow

ID = "20261129T145000Z-3f9a1c2e"
OOM = b"step 1\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB.\n"
LOST = b"FileNotFoundError: [Errno 2] No such file or directory: 'x.json'\n"


class World:
    """A state folder with one workflow."""

    def __init__(self, state: Path, make_run: RunBuilder, *, is_counted: bool = True) -> None:
        self.state, self.make_run, self.number = state, make_run, 0
        self.folder: WorkflowFolder = begin(
            state, ID, engine="snakemake", name="/work/Snakefile", started_at=NOW - 100, is_counted=is_counted
        )

    def run(self, log: bytes, *, attempt: int = 1, rule: str = "train", status: int = 1, ended_s: float = -50) -> Path:
        """Add the run of a job."""
        self.number += 1
        exit_record = {"status": status, "ended_at": NOW + ended_s}
        path = self.make_run(f"20261129T145138Z-n1-{self.number:08d}", log=log, exit=exit_record)
        engine = {"name": "snakemake", "workflow": ID, "key": job_key(rule, {"s": "A"}), "rule": rule}
        engine |= {"wildcards": "s=A", "jobid": "1", "attempt": attempt, "log": ""}
        (path / "engine").write_bytes(items(f"{key}={value}" for key, value in engine.items()))
        return path

    def engine_tells(
        self, *, attempt: int = 1, rule: str = "train", said: str = "", logs: tuple[str, ...] = ()
    ) -> None:
        """Add a failure that the engine told of."""
        key = job_key(rule, {"s": "A"})
        job = FailedJob(NOW - 49 + attempt, key, rule, "s=A", "1", attempt, None, "", said, logs)
        self.folder.add_failed(self.folder.keep_logs(job))

    def story(self) -> Story:
        """Return what happened."""
        return gather(self.folder, [self.state])[0]

    def send(self) -> list[str]:
        """Send the summary; return the subjects of all messages."""
        tell_workflow(self.folder, [self.state], load_settings())
        return [str(mail["Subject"]) for mail in messages(self.state)]


@pytest.fixture
def world(state: Path, make_run: RunBuilder) -> World:
    return World(state, make_run)


def test_a_job_that_fails_in_a_run_and_in_the_engines_words_failed_once(world: World) -> None:
    world.run(OOM, status=3)
    world.engine_tells(said="Command returned non-zero exit status 3.")
    world.folder.end(NOW, 4, 6)
    story = world.story()
    (job,) = story.failed
    (attempt,) = job.attempts
    assert (attempt.verdict.failure_class, attempt.exit_status, attempt.run_id != "") == ("cuda_oom", 3, True)
    assert status_of(story) is RunStatus.FAILED


def test_the_engines_failure_without_a_run_is_judged_by_a_copy_of_the_log(world: World, tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_bytes(OOM)
    world.engine_tells(logs=(str(log),))
    log.write_bytes(b"")
    world.folder.end(NOW, 0, 1)
    (job,) = world.story().failed
    assert job.last.verdict.failure_class == "cuda_oom"
    assert job.last.logs == ((str(log), 0),)


def test_a_run_judged_after_its_log_was_overwritten_is_judged_by_the_copy(world: World, tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_bytes(OOM)
    world.run(b"", status=3)
    world.engine_tells(logs=(str(log),))
    log.write_bytes(b"")
    world.folder.end(NOW, 0, 1)
    (job,) = world.story().failed
    assert (job.last.verdict.failure_class, job.last.exit_status, job.last.run_id != "") == ("cuda_oom", 3, True)


def test_without_a_telling_log_the_engines_words_are_the_evidence(world: World) -> None:
    world.engine_tells(said="MissingOutputException in rule a in file x, line 1:\nJob 1 completed, but:\nout")
    world.folder.end(NOW, 0, 1)
    (job,) = world.story().failed
    assert job.last.verdict.evidence[0].text == "Job 1 completed, but: out"


def test_a_job_that_passed_later_is_recovered(world: World) -> None:
    world.run(OOM)
    world.engine_tells()
    world.folder.add_passed(job_key("train", {"s": "A"}), NOW)
    world.folder.end(NOW, 2, 2)
    story = world.story()
    assert (len(story.failed), len(story.recovered), story.recovered[0].tries) == (0, 1, 2)
    assert status_of(story) is RunStatus.SUCCEEDED


def test_a_run_that_failed_in_a_job_that_the_engine_does_not_call_failed_is_no_failure(world: World) -> None:
    world.run(OOM)
    world.folder.end(NOW, 2, 2)
    assert world.story().failed == ()


@pytest.mark.parametrize(("key", "failed"), [("train", 0), ("other", 1)])
def test_where_nobody_counts_a_later_success_in_the_history_is_the_jobs(
    state: Path, make_run: RunBuilder, key: str, failed: int
) -> None:
    world = World(state, make_run, is_counted=False)
    world.run(OOM)
    remember(state, "r", {"status": "succeeded", "workflow": ID, "key": job_key(key, {"s": "A"}), "ended_at": NOW})
    assert len(world.story().failed) == failed


def test_what_was_in_the_history_before_is_not_read(state: Path, make_run: RunBuilder) -> None:
    state.mkdir(mode=0o700)
    remember(state, "r", {"status": "succeeded", "workflow": ID, "key": job_key("train", {"s": "A"}), "ended_at": NOW})
    world = World(state, make_run, is_counted=False)
    world.run(OOM)
    assert len(world.story().failed) == 1


def test_a_job_behind_a_gate_was_not_tried_again(
    state: Path, make_run: RunBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUALERT_GATE", "stop")
    world = World(state, make_run)
    world.run(LOST)
    gate = state / "gates" / ID / job_key("train", {"s": "A"})
    gate.parent.mkdir(parents=True)
    gate.write_text("1\n")
    for attempt in (1, 2, 3):
        world.engine_tells(attempt=attempt)
    world.folder.end(NOW, 0, 1)
    (job,) = world.story().failed
    assert (job.tries, job.is_gated) == (1, True)


def test_one_message_is_sent_once_and_tells_each_job(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.run(OOM, status=3)
    world.run(LOST, rule="prepare", ended_s=-40)
    world.run(LOST, rule="prepare", attempt=2, ended_s=-30)
    for rule, attempt in (("train", 1), ("prepare", 1), ("prepare", 2)):
        world.engine_tells(rule=rule, attempt=attempt)
    world.folder.add_passed(job_key("train", {"s": "A"}), NOW)
    world.folder.end(NOW, 5, 7)
    subjects = world.send()
    host = world.folder.read().host
    assert subjects == [f"FAILED: Snakefile on {host} after 1m 40s, 1 of 7 jobs failed (file_not_found), 1 recovered"]
    (mail,) = messages(world.state)
    text = " ".join(body(mail).split())
    assert f"file_not_found: prepare s=A: on {host}, exit status 1, 2 attempts" in text
    assert f"cuda_oom: train s=A: on {host}, exit status 3, passed at attempt 2" in text
    assert "1 was never done" in text
    assert world.send() == subjects and main(["workflow", "--send", ID]) == 0
    assert len(messages(world.state)) == 1
    assert "1 of 7 jobs failed (file_not_found), 1 recovered; more: gpualert workflow" in capsys.readouterr().out


def test_secrets_and_markup_of_a_job_do_not_leave(world: World) -> None:
    world.run(b"ValueError: token=ghp_0123456789abcdefghijklmnopqrstuvwxyz <b>\x1b[31m\n", rule="<script>")
    world.engine_tells(rule="<script>", said="password=hunter2hunter2")
    world.folder.end(NOW, 0, 1)
    world.send()
    (mail,) = messages(world.state)
    html = mail.get_body(("html",))
    assert html is not None
    for shown in (body(mail), str(html.get_content())):
        assert "ghp_0123" not in shown and "hunter2" not in shown and "\x1b" not in shown
    assert "<script>" not in str(html.get_content())


@pytest.mark.parametrize(
    ("setting", "value"),
    [("ON", "failure"), ("MAIL", "none"), ("LONGER_THAN_S", "600")],
    ids=["on", "mail", "longer_than"],
)
def test_the_settings_say_whether_a_workflow_that_went_well_is_told(
    world: World, monkeypatch: pytest.MonkeyPatch, setting: str, value: str
) -> None:
    world.folder.end(NOW, 2, 2)
    monkeypatch.setenv(f"GPUALERT_{setting}", value)
    assert world.send() == [] and world.folder.is_told


def test_a_half_written_verdict_is_named_with_its_rule_and_the_job_is_judged_once_more(world: World) -> None:
    path = world.run(OOM)
    (path / "verdict.json").write_text('{"schema": 1, "status": "fai')
    world.engine_tells()
    world.folder.end(NOW, 0, 1)
    story = world.story()
    assert story.failed[0].last.verdict.failure_class == "cuda_oom"
    assert story.not_read == (f"rule 'train': '{path}/verdict.json' is damaged; its logs were judged once more",)


def test_a_workflow_under_way_is_not_told(world: World) -> None:
    assert world.send() == [] and not world.folder.is_told
    assert status_of(world.story()) is RunStatus.RUNNING


def test_a_tick_tells_of_a_workflow_whose_process_was_killed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.run(OOM)
    world.engine_tells()
    record = world.folder.path / "workflow.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), "pid_starttime": 1}))  # another process by now
    monkeypatch.setattr("gpualert.workflow_folder._GRACE_S", -1)
    assert tick_once(world.state) == []
    assert [str(mail["Subject"]).partition(":")[0] for mail in messages(world.state)] == ["LOST"]
    assert tick_once(world.state) == [] and len(messages(world.state)) == 1


def test_the_command_shows_a_workflow_and_says_what_is_missing(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.run(OOM, status=3)
    world.engine_tells()
    world.folder.end(NOW, 0, 1)
    (world.folder.path / "jobs.jsonl").open("a").write("{\n")
    assert main(["workflow"]) == 0
    shown = capsys.readouterr().out
    assert "cuda_oom: train s=A" in shown and "line 2 of" in shown and f"gpualert workflow {ID}" in shown
    assert main(["workflow", "--json", ID]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [job["attempts"][0]["class"] for job in found["jobs"]] == ["cuda_oom"]
    assert main(["workflow", "nowhere"]) == 1
    assert "cannot use workflow 'nowhere': none has that name" in capsys.readouterr().err
