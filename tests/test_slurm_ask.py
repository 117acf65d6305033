"""Slurm is asked for seconds only, in as few calls as can be, and whatever goes wrong is said in one sentence."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from slurm_fakes import FakeSlurm

from gpualert.bounded import answer_of
from gpualert.errors import UsageError
from gpualert.model import Start
from gpualert.signals.slurm import ask, ask_one, ended_runs, has_ended
from gpualert.signals.slurm_wanted import NoSuchJobError, find, parse


def test_several_jobs_are_one_call(fake_slurm: FakeSlurm) -> None:
    found = ask(["18", "20", "21"])
    assert (sorted(found.jobs), found.not_read) == (["18", "20", "21"], ())
    [call] = fake_slurm.asked
    assert call.endswith("--jobs=18,20,21")


def test_an_older_slurm_is_asked_for_what_it_knows(fake_slurm: FakeSlurm) -> None:
    assert find([parse("18")])[0].last.state == "FAILED"
    assert [call.split()[0] for call in fake_slurm.asked] == ["--duplicates", "--helpformat", "--duplicates", "show"]


def test_what_is_no_job_id_is_never_asked_for(fake_slurm: FakeSlurm) -> None:
    assert ask(["", "0", "x", "-1", "5;rm", "5\n"]).jobs == {}
    assert fake_slurm.asked == []


def test_a_job_that_nobody_knows_is_missing(fake_slurm: FakeSlurm) -> None:
    assert ask(["99"]) == ask(["99", "99"])
    assert ask(["99"]).jobs == {}


GARBAGE = {
    "text": ("echo hello", "no record"),
    "bytes": ("head -c 3000 /dev/urandom", "no record"),
    "off": ("echo 'Slurm accounting storage is disabled' >&2; exit 1", "storage is disabled"),
    "down": ("echo 'sacct: error: Problem talking to the database: Connection refused' >&2; exit 1", "refused"),
    "only a complaint": ("echo 'sacct: error: slurmdbd: Sending PersistInit msg' >&2", "PersistInit"),
    "silent failure": ("exit 3", "status 3"),
    "killed": ("kill -9 $$", "status -9"),
    "colours": ("printf '\\033[31mx\\n' >&2; exit 1", "x"),
}


@pytest.mark.parametrize(("script", "reason"), GARBAGE.values(), ids=GARBAGE.keys())
def test_an_accounting_that_answers_with_something_else_is_said(
    fake_slurm: FakeSlurm, script: str, reason: str
) -> None:
    fake_slurm.program("sacct", f"#!/bin/sh\n{script}\n")
    found = ask(["20"])
    assert found.jobs == {}
    assert found.not_read[0].startswith("sacct: ")
    assert reason in found.not_read[0]
    assert "\x1b" not in found.not_read[0]


def test_with_accounting_switched_off_the_controller_answers(fake_slurm: FakeSlurm) -> None:
    fake_slurm.program("sacct", "#!/bin/sh\necho 'Slurm accounting storage is disabled' >&2; exit 1\n")
    found = ask(["18"])
    assert (found.jobs["18"].last.state, len(found.not_read)) == ("FAILED", 1)


def test_a_program_that_hangs_is_killed_with_its_children(fake_slurm: FakeSlurm) -> None:
    fake_slurm.program("sacct", f"#!/bin/sh\nsleep 600 & echo $! >'{fake_slurm.folder}/child'; wait\n")
    fake_slurm.program("scontrol", "#!/bin/sh\nexec sleep 600\n")
    began = time.monotonic()
    assert ask(["18"], limit_s=0.5).not_read == ("sacct: no answer within 0.5 s", "scontrol: no answer within 0.5 s")
    assert time.monotonic() - began < 60
    child = int((fake_slurm.folder / "child").read_text())
    with pytest.raises(ProcessLookupError):
        for _ in range(500):
            os.kill(child, 0)
            time.sleep(0.01)


def test_a_program_that_leaves_a_child_with_the_pipe_is_not_waited_for(fake_slurm: FakeSlurm) -> None:
    fake_slurm.program("sacct", "#!/bin/sh\nsleep 600 &\n")
    assert "no answer within 0.5 s" in ask(["99"], limit_s=0.5).not_read[0]


def test_a_program_that_never_stops_talking_is_stopped() -> None:
    with pytest.raises(OverflowError, match="more than 100000 bytes"):
        answer_of(["yes"], 60.0, 100_000, os.environ)


def test_no_slurm_at_all_is_said(tmp_path: Path, fake_slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert ask(["18"]).not_read == ("sacct: no such program here", "scontrol: no such program here")


def test_a_preempted_job_that_goes_back_into_the_queue_is_known_at_once(fake_slurm: FakeSlurm) -> None:
    rows = fake_slurm.rows.read_text().splitlines(keepends=True)
    fake_slurm.rows.write_text("".join(row for row in rows if "PENDING" not in row))  # the accounting lags
    job = ask_one("49").jobs["49"]
    assert [attempt.word for attempt in job.attempts] == ["PREEMPTED", "PENDING"]


def a_start(run_id: str, job_id: str, restarts: int = 0) -> Start:
    return Start(run_id, "n1", 1, None, 0.0, slurm_job_id=job_id, slurm_restart_count=restarts)


LATER = 1795976802.0 + 3600


def test_the_runs_of_ended_jobs_are_found_in_one_call(fake_slurm: FakeSlurm) -> None:
    starts = [a_start("a", "18"), a_start("b", "20"), a_start("c", "49"), a_start("d", "49", 1), a_start("e", "99")]
    assert ended_runs([*starts, a_start("f", "")], LATER) == {"a", "b", "c"}
    assert [call for call in fake_slurm.asked if "--jobs=" in call] == fake_slurm.asked[:1]


def test_a_job_that_has_ended_just_now_may_still_write_its_record(fake_slurm: FakeSlurm) -> None:
    assert ended_runs([a_start("c", "49")], 1795976802.0 + 5) == frozenset()


def test_an_attempt_that_slurm_does_not_tell_of_has_not_ended(fake_slurm: FakeSlurm) -> None:
    assert has_ended(a_start("a", "18"))
    assert not has_ended(a_start("a", "18", 3))


def test_where_slurm_cannot_be_asked_nothing_has_ended(fake_slurm: FakeSlurm) -> None:
    fake_slurm.program("sacct", "#!/bin/sh\nexit 1\n")
    assert not has_ended(a_start("a", "20"))
    assert ended_runs([a_start("a", "20"), a_start("b", "21")], LATER) == frozenset()


def test_nobody_is_asked_about_nothing(fake_slurm: FakeSlurm) -> None:
    assert ended_runs([a_start("a", "")], LATER) == frozenset()
    assert fake_slurm.asked == []


@pytest.mark.parametrize(
    ("word", "job_id", "tasks"),
    [
        ("4711", "4711", None),
        ("4711.batch", "4711", None),
        ("4711+1", "4711", None),
        ("19_3", "19", {3}),
        ("19_[1-3,6]", "19", {1, 2, 3, 6}),
        ("19_[0-6:3%2]", "19", {0, 3, 6}),
    ],
)
def test_a_job_id_as_users_write_it(word: str, job_id: str, tasks: set[int] | None) -> None:
    wanted = parse(word)
    assert (wanted.job_id, wanted.tasks) == (job_id, tasks)


@pytest.mark.parametrize(
    "word",
    ["", "0", "x", "-5", "4711_", "19_x", "19_[]", "19_[3-1]", "19_[1-99999999]", "1;rm", "1 2", "1\n", "१", "19_[1,]"],
)
def test_what_is_no_job_id_is_refused(word: str) -> None:
    with pytest.raises(UsageError, match="no Slurm job id"):
        parse(word)


def test_an_arrays_number_means_all_its_tasks(fake_slurm: FakeSlurm) -> None:
    labels = [job.last.label for job in find([parse("19")])]
    assert labels == [f"19_{task}" for task in range(1, 7)]
    assert [job.last.label for job in find([parse("19_[4,2]"), parse("18"), parse("19_2")])] == ["19_2", "19_4", "18"]


def test_an_unknown_job_is_said_with_the_reason(fake_slurm: FakeSlurm) -> None:
    with pytest.raises(NoSuchJobError, match="neither its accounting nor its controller knows it"):
        find([parse("18"), parse("99")])
    fake_slurm.program("sacct", "#!/bin/sh\nexit 1\n")
    with pytest.raises(NoSuchJobError, match="sacct: it ended with status 1"):
        find([parse("99")])


def test_the_controller_knows_where_the_output_went(fake_slurm: FakeSlurm) -> None:
    [job] = find([parse("18")])
    assert job.last.stdout == f"{fake_slurm.work}/out-unwrapped-18.log"
    assert job.last.steps  # and the accounting what it used


def test_a_young_record_of_the_accounting_is_put_right_by_the_controller(fake_slurm: FakeSlurm) -> None:
    rows = fake_slurm.rows.read_text()
    young = f"18¦18¦RUNNING¦0:0¦None¦n1¦Partition_Limit¦0¦¦16?¦1795976613¦1795976613¦Unknown¦{os.geteuid() + 1}¦¦allocation¦¦¦¦\n"  # noqa: E501
    fake_slurm.rows.write_text("".join(row for row in rows.splitlines(keepends=True) if not row.startswith("18")))
    fake_slurm.add(young)
    [job] = find([parse("18")])
    assert (job.last.name, job.last.state, job.last.user, job.last.uid) == ("unwrapped", "FAILED", "ann", os.geteuid())
