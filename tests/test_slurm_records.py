"""What Slurm's programs print, read into records: every field, every form, and nothing believed that is none."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slurm_fakes import DATA

from gpualert.signals.slurm_output import first_node, output_paths, resolved
from gpualert.signals.slurm_records import (
    FIELDS,
    GarbledError,
    Job,
    JobRecord,
    exit_of,
    instant,
    jobs_of,
)
from gpualert.signals.slurm_shown import shown_records

ROWS = (DATA / "sacct.txt").read_text().replace("@UID@", "1000")


def jobs(text: str = ROWS) -> dict[str, Job]:
    return {job.last.label: job for job in jobs_of(text, FIELDS, "¦")}


def a_row(**values: str) -> str:
    defaults = {"JobIDRaw": "1", "JobID": "1", "State": "FAILED", "ExitCode": "7:0"}
    found = {**defaults, **values}
    return "".join(found.get(field, "") + "¦" for field in FIELDS) + "\n"


def test_a_job_is_read_with_its_steps() -> None:
    record = jobs()["20"].last
    assert (record.state, record.code, record.exit_status, record.nodes) == ("OUT_OF_MEMORY", "0:125", None, "n4")
    assert (record.max_rss, record.requested_memory, record.uid, record.user) == ("3392K", "150M", 1000, "ann")
    assert (record.started_at, record.elapsed_s, record.steps[0].step_id) == (1795976613.0, 0, "batch")


def test_an_arrays_tasks_are_jobs_of_their_own() -> None:
    found = [jobs()[f"19_{task}"].last for task in range(1, 7)]
    assert [record.array_task_id for record in found] == ["1", "2", "3", "4", "5", "6"]
    assert {record.array_job_id for record in found} == {"19"}
    assert found[5].job_id == "19"  # the last task bears the array's number


def test_attempts_are_in_order_and_the_last_one_counts() -> None:
    job = jobs()["49"]
    assert [attempt.word for attempt in job.attempts] == ["PREEMPTED", "PENDING"]
    assert job.runs_again(0)
    assert not job.runs_again(1)
    assert job.attempts[0].steps[0].max_rss == "9168K"
    assert [job.attempt(number) for number in (-1, 0, 1, 2)] == [None, *job.attempts, None]


def test_of_a_job_that_only_the_controller_knows_the_newest_attempt_is_known() -> None:
    job = Job((JobRecord("1", "1", "RUNNING", restarts=2),))
    assert [job.attempt(number) for number in range(4)] == [None, None, job.last, None]
    assert [job.runs_again(number) for number in range(3)] == [True, True, False]


@pytest.mark.parametrize(
    ("state", "code", "expected"),
    [
        ("FAILED", "7:0", (7, None)),
        ("FAILED", "0:11", (139, 11)),
        ("COMPLETED", "0:0", (0, None)),
        ("TIMEOUT", "0:0", (None, None)),
        ("NODE_FAIL", "0:0", (None, None)),
        ("CANCELLED by 1000", "0:0", (None, None)),
        ("CANCELLED", "0:15", (143, 15)),
        ("OUT_OF_MEMORY", "0:125", (None, None)),
        ("FAILED", "0:53", (None, None)),
        ("FAILED", "", (None, None)),
        ("FAILED", "x:y", (None, None)),
    ],
)
def test_an_exit_code_means_something_only_where_the_state_says_so(
    state: str, code: str, expected: tuple[int | None, int | None]
) -> None:
    assert exit_of(state, code) == expected


@pytest.mark.parametrize("state", ["", "RUNNING", "PENDING", "COMPLETING", "SUSPENDED", "A_NEW_ONE"])
def test_a_state_that_is_none_of_the_ends_is_no_end_and_is_kept_as_said(state: str) -> None:
    record = jobs(a_row(State=state))["1"].last
    assert (record.state, record.has_ended) == (state, False)


@pytest.mark.parametrize("state", ["OUT_OF_MEMORY", "CANCELLED by 7", "REQUEUED", "DEADLINE"])
def test_an_end_is_an_end(state: str) -> None:
    assert jobs(a_row(State=state))["1"].last.has_ended


def test_a_name_may_hold_line_ends_and_the_usual_delimiter() -> None:
    record = jobs(a_row(JobName="a|b\n2|2|COMPLETED|", WorkDir="/x y"))["1"].last
    assert (record.name, record.folder) == ("a|b\n2|2|COMPLETED|", "/x y")


@pytest.mark.parametrize(
    "printed",
    [
        "hello\n",
        "1¦2¦\n",
        "\0" * 40,
        a_row(JobIDRaw="x"),
        a_row(JobIDRaw=""),
        a_row() + "trailing\n",
        "¦" * len(FIELDS),
    ],
)
def test_garbage_is_refused(printed: str) -> None:
    with pytest.raises(GarbledError):
        jobs(printed)


def test_nothing_is_no_job() -> None:
    assert jobs("") == jobs("\n") == {}


@pytest.mark.parametrize(
    ("text", "at"),
    [("1795976613", 1795976613.0), ("Unknown", None), ("None", None), ("", None), ("9" * 40, None), ("soon", None)],
)
def test_an_instant_is_seconds_or_none(text: str, at: float | None) -> None:
    assert instant(text) == at


def test_an_instant_may_be_local_time(monkeypatch: pytest.MonkeyPatch) -> None:
    assert instant("2026-11-29T18:23:33") is not None


def test_the_controllers_words_are_read() -> None:
    [record] = shown_records((DATA / "scontrol-18.txt").read_text().replace("@UID@", "1000"))
    assert (record.job_id, record.name, record.state, record.exit_status) == ("18", "unwrapped", "FAILED", 1)
    assert (record.uid, record.user, record.restarts) == (1000, "ann", 0)
    assert record.stdout == "@FOLDER@/out-unwrapped-18.log"


def test_a_job_that_waits_has_not_started_whatever_start_it_is_promised() -> None:
    [record] = shown_records((DATA / "scontrol-49.txt").read_text())
    assert (record.state, record.started_at, record.ended_at) == ("PENDING", None, None)


@pytest.mark.parametrize(
    "name",
    ["x\n   UserId=root(0) GroupId=root(0)", "x\n   StdOut=/etc/shadow", "x\n   JobState=COMPLETED Reason=None"],
)
def test_a_name_cannot_forge_what_the_controller_says(name: str) -> None:
    printed = (DATA / "scontrol-18.txt").read_text().replace("JobName=unwrapped", f"JobName={name}")
    with pytest.raises(GarbledError):
        shown_records(printed)


@pytest.mark.parametrize("printed", ["hello", "JobId=x JobState=FAILED", "JobId=5 JobName=JobState=FAILED"])
def test_what_is_no_job_is_refused(printed: str) -> None:
    with pytest.raises(GarbledError):
        shown_records(printed)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("slurm-%j.out", "slurm-25.out"),
        ("slurm-%A_%a.out", "slurm-19_1.out"),
        ("%x-%u-%N-%n-%t-%s-%J", "arr.sh-ann-n1-0-0-batch-25"),
        ("%5j_%3a_%b", "00025_001_1"),
        ("%%j", "%j"),
        (r"a\%j", "a%j"),
        ("%y", "%y"),
        ("plain.log", "plain.log"),
    ],
)
def test_an_output_pattern_is_resolved(pattern: str, expected: str) -> None:
    assert resolved(pattern, jobs()["19_1"].last) == expected


def test_without_an_array_the_index_is_slurms_word_for_none() -> None:
    assert resolved("%A-%a", jobs()["18"].last) == "18-4294967294"


@pytest.mark.parametrize(
    ("record", "script", "expected"),
    [
        (JobRecord("5", "5", "FAILED", folder="/w"), "", ["/w/slurm-5.out"]),
        (JobRecord("5", "5", "FAILED", folder="/w", stdout="/o/%j"), "", ["/o/5"]),
        (JobRecord("5", "5", "FAILED", folder="/w", stdout="a", stderr="b"), "", ["/w/a", "/w/b"]),
        (
            JobRecord("5", "5", "FAILED", folder="/w", submit_line="sbatch -o x-%j.log --error=e t.sh"),
            "",
            ["/w/x-5.log", "/w/slurm-5.out", "/w/e"],
        ),
        (
            JobRecord("5", "5", "FAILED", folder="/w"),
            "#!/bin/sh\n#SBATCH --output=logs/%j.o # here\n#SBATCH -e logs/%j.e\n",
            ["/w/logs/5.o", "/w/slurm-5.out", "/w/logs/5.e"],
        ),
        (JobRecord("5", "5", "FAILED"), "", []),
    ],
)
def test_output_is_looked_for_where_slurm_says_and_else_where_it_usually_is(
    record: JobRecord, script: str, expected: list[str]
) -> None:
    assert list(map(str, output_paths(record, script))) == expected


@pytest.mark.parametrize(
    ("nodes", "first"),
    [("n1", "n1"), ("n[1-3]", "n1"), ("n[01-03,7],m1", "n01"), ("gpu-a[3,5]-ib", "gpu-a3-ib"), ("a,b", "a"), ("", "")],
)
def test_the_first_of_several_nodes(nodes: str, first: str) -> None:
    assert first_node(nodes) == first


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from([*"¦\n=. ,[]%", "JobId=", "JobState=", "UserId=", "1", "_", "\0", "é", "   "])))
def test_whatever_is_printed_is_a_record_or_refused(pieces: list[str]) -> None:
    text = "".join(pieces)
    for read in (lambda: jobs_of(text, FIELDS, "¦"), lambda: shown_records(text)):
        with suppress(GarbledError):
            read()
    resolved(text, JobRecord(text, text, text, nodes=text))
    exit_of(text, text)
    instant(text)
