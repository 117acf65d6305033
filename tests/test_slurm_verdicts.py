"""What Slurm says has its weight in a verdict: more than a bare signal, less than a log that explains more."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from rundirs import RunBuilder, record
from slurm_fakes import FakeSlurm

from gpualert.collect import collect
from gpualert.findings import Findings, find_out, judge, load, save
from gpualert.model import Action, Facts, LogFile, Role, RunStatus, Verdict
from gpualert.report import build_report
from gpualert.rundir import read_run
from gpualert.settle import Logs, readable_logs
from gpualert.signals.slurm_facts import said_of
from gpualert.signals.slurm_records import Job, JobRecord, Step
from gpualert.standing import Standing, standing

RECORD = JobRecord("4711", "4711", "FAILED", nodes="n3", uid=1000, started_at=10.0, elapsed_s=60, time_limit="01:00:00")
ROOT = "Traceback (most recent call last):\nFileNotFoundError: [Errno 2] No such file or directory: '/data/x'\n"


def judged(tmp_path: Path, log: str, job: JobRecord, **facts: object) -> Verdict:
    path = tmp_path / "a.log"
    path.write_text(log)
    said = said_of(Job((job,)))
    known = Facts(scheduler_state=said.state, evidence=said.evidence, **facts)  # type: ignore[arg-type]
    return judge([LogFile("a.log", path)], known)


ENDS = {
    "time limit": ({"state": "TIMEOUT"}, {"status": 143}, "walltime", Action.RESUME),
    "deadline": ({"state": "DEADLINE"}, {"status": 143}, "walltime", Action.RESUME),
    "preempted": ({"state": "PREEMPTED"}, {"status": 143}, "preempted", Action.RESUME),
    "requeued": ({"state": "REQUEUED"}, {}, "preempted", Action.RESUME),
    "node": ({"state": "NODE_FAIL", "code": "0:0"}, {}, "node_failure", Action.ELSEWHERE),
    "memory": ({"state": "OUT_OF_MEMORY", "code": "0:125"}, {"status": 137}, "oom_killer", Action.BIGGER),
    "cancelled by the owner": ({"state": "CANCELLED by 1000"}, {"status": 143}, "interrupted", Action.NONE),
    "cancelled by root": ({"state": "CANCELLED by 0"}, {}, "interrupted", Action.NONE),
    "boot": ({"state": "BOOT_FAIL"}, {}, "launch_failed", Action.RETRY),
    "no output file": ({"state": "FAILED", "code": "0:53"}, {}, "launch_failed", Action.FIX),
    "never started": (
        {"state": "CANCELLED by 1000", "started_at": 10.0, "elapsed_s": 0, "nodes": "", "reason": "Priority"},
        {},
        "interrupted",
        Action.NONE,
    ),
    "could never start": (
        {"state": "CANCELLED", "elapsed_s": 0, "nodes": "", "reason": "Dependency"},
        {},
        "launch_failed",
        Action.FIX,
    ),
}


@pytest.mark.parametrize(("job", "facts", "failure_class", "action"), ENDS.values(), ids=ENDS.keys())
def test_a_silent_log_leaves_the_word_to_slurm(
    tmp_path: Path, job: dict[str, object], facts: dict[str, object], failure_class: str, action: Action
) -> None:
    verdict = judged(tmp_path, "hello\n", replace(RECORD, **job), **facts)  # type: ignore[arg-type]
    assert (verdict.failure_class, verdict.action, verdict.status) == (failure_class, action, RunStatus.FAILED)
    assert [item.source for item in verdict.evidence].count("slurm") == 1
    assert verdict.evidence[0].text.startswith("Slurm job 4711 ")
    assert not verdict.exited_zero


@pytest.mark.parametrize("state", ["TIMEOUT", "PREEMPTED", "NODE_FAIL", "CANCELLED by 1000"])
def test_a_log_that_ended_well_does_not_make_a_job_succeed_that_slurm_ended(tmp_path: Path, state: str) -> None:
    verdict = judged(tmp_path, "Training finished.\n", replace(RECORD, state=state))
    assert verdict.status is RunStatus.FAILED


@pytest.mark.parametrize("state", ["TIMEOUT", "CANCELLED by 1000", "PREEMPTED"])
def test_a_log_that_explains_more_is_believed_first(tmp_path: Path, state: str) -> None:
    verdict = judged(tmp_path, ROOT, replace(RECORD, state=state), status=1)
    assert verdict.failure_class == "file_not_found"
    assert verdict.runners_up[0].evidence.source == "slurm"


def test_a_memory_kill_explains_what_the_program_says_of_it(tmp_path: Path) -> None:
    log = "RuntimeError: DataLoader worker (pid 17) is killed by signal: Killed.\n"
    assert judged(tmp_path, log, replace(RECORD, state="OUT_OF_MEMORY"), status=1).failure_class == "oom_killer"


def test_for_slurm_a_job_out_of_memory_failed_however_well_its_script_ended(tmp_path: Path) -> None:
    verdict = judged(tmp_path, "Training finished.\n", replace(RECORD, state="OUT_OF_MEMORY"), status=0)
    assert (verdict.failure_class, verdict.exited_zero, verdict.status) == ("oom_killer", True, RunStatus.FAILED)


def test_a_task_that_was_ended_because_another_failed_is_a_cascade(tmp_path: Path) -> None:
    step = Step("0", "FAILED", exit_status=1)
    [evidence] = said_of(Job((replace(RECORD, steps=(step,)),)), 0, "0", signal=9).evidence
    path = tmp_path / "a.log"
    path.write_text("hello\n")
    verdict = judge([LogFile("a.log", path)], Facts(status=137, signal=9, evidence=(evidence,)))
    assert (verdict.failure_class, verdict.role) == ("interrupted", Role.CASCADE)
    assert "another task failed" in verdict.evidence[0].text


@pytest.mark.parametrize("job", [RECORD, replace(RECORD, state="COMPLETED"), replace(RECORD, state="A_NEW_ONE")])
def test_a_state_that_says_no_more_than_the_exit_status_is_no_evidence(job: JobRecord) -> None:
    assert said_of(Job((job,))).evidence == ()


def test_while_the_job_runs_its_state_says_nothing() -> None:
    said = said_of(Job((replace(RECORD, state="RUNNING"),)))
    assert (said.state, said.evidence, said.again) == ("", (), "")
    assert said.row == "4711, n3, time limit 01:00:00"


def test_attempts_before_are_told_and_an_attempt_that_runs_again_says_so() -> None:
    died = replace(RECORD, state="NODE_FAIL")
    job = Job((died, replace(RECORD, state="REQUEUED", nodes="n4"), replace(RECORD, state="FAILED")))
    assert said_of(job, 2).notes == (
        "restart 1 of job 4711; attempt 0 ended NODE_FAIL on n3",
        "restart 2 of job 4711; attempt 1 ended REQUEUED on n4",
    )
    assert said_of(job, 2).again == ""
    assert said_of(job, 0).again == "Slurm runs job 4711 again: attempt 0 ended NODE_FAIL on n3"


def test_of_several_nodes_none_is_blamed() -> None:
    [evidence] = said_of(Job((replace(RECORD, state="NODE_FAIL", nodes="n[1-3]"),))).evidence
    assert (evidence.host, "n[1-3]" in evidence.text) == ("", True)


ENDED_AT = 1795976699 + 3  # of job 23


def test_of_several_nodes_the_one_that_is_down_is_blamed() -> None:
    job = Job((replace(RECORD, state="NODE_FAIL", nodes="n[1-3]"),))
    [evidence] = said_of(job, failed_nodes=["n2"]).evidence
    assert (evidence.host, evidence.text.endswith("of n[1-3]; down is n2")) == ("n2", True)
    [evidence] = said_of(job, failed_nodes=["n2", "n3"]).evidence
    assert evidence.host == ""


@pytest.mark.parametrize(
    ("sinfo", "log", "node"),
    [
        ("echo n1 idle; echo n2 'down*'; echo n3 mix", b"", "n2"),
        ("echo n1 idle; echo n2 idle", b"", ""),
        ("exit 1", b"", ""),
        ("exit 1", b"srun: error: Node failure on n3\n", "n3"),
    ],
    ids=["down", "back again", "nobody knows", "the log names it"],
)
def test_a_node_is_blamed_only_where_it_is_known_to_have_failed(
    make_run: RunBuilder, fake_slurm: FakeSlurm, sinfo: str, log: bytes, node: str
) -> None:
    fake_slurm.program("sinfo", f"#!/bin/sh\n{sinfo}\n")
    fake_slurm.add("60¦60¦NODE_FAIL¦0:0¦None¦n[1-3]¦01:00:00¦9¦¦1G¦1795976613¦1795976613¦1795976622¦@UID@¦ann¦x¦¦¦¦\n")
    run = read_run(make_run(start={"slurm_job_id": "60", "node": "n1"}, ended=False, log=b"training\n" + log))
    verdict = find_out(run, Standing.LOST, readable_logs(run)).verdict
    assert (verdict.failure_class, verdict.action, verdict.first_node) == ("node_failure", Action.ELSEWHERE, node)


def found(make_run: RunBuilder, job_id: str, *, status: int | None = 1, **start: object) -> Findings:
    """Judge a run in a job of the fake Slurm."""
    path = make_run(
        start={"slurm_job_id": job_id, "node": "n4", **start},
        exit={"status": status, "ended_at": ENDED_AT} if status is not None else None,
        ended=status is not None,
        log=b"hello\n",
    )
    run = read_run(path)
    findings = find_out(run, standing(run), readable_logs(run), {})
    save(run, findings)
    return load(path) or findings


def test_a_run_that_failed_asks_slurm_and_tells_it(make_run: RunBuilder, fake_slurm: FakeSlurm) -> None:
    findings = found(make_run, "23", status=143)
    assert findings.verdict.failure_class == "walltime"
    assert dict(findings.machine)["Slurm"] == "23 TIMEOUT 0:0, n5, 1m 26s of 00:01:00, 3304K of 200M memory"


def test_a_run_that_failed_long_before_the_job_was_ended_was_not_ended_with_it(
    make_run: RunBuilder, fake_slurm: FakeSlurm
) -> None:
    run = read_run(make_run(start={"slurm_job_id": "23"}, exit={"ended_at": ENDED_AT - 60}, log=b"hello\n"))
    verdict = find_out(run, Standing.ENDED, readable_logs(run)).verdict
    assert (verdict.failure_class, verdict.evidence[-1].source) == ("unknown", "status")


def test_a_run_that_succeeded_asks_nobody(make_run: RunBuilder, fake_slurm: FakeSlurm) -> None:
    assert found(make_run, "23", status=0).verdict.status is RunStatus.SUCCEEDED
    assert fake_slurm.asked == []


def test_a_restarted_run_that_succeeded_tells_of_the_attempts_before(
    make_run: RunBuilder, fake_slurm: FakeSlurm
) -> None:
    verdict = found(make_run, "49", status=0, slurm_restart_count=1).verdict
    assert verdict.status is RunStatus.SUCCEEDED
    assert verdict.notes == ("restart 1 of job 49; attempt 0 ended PREEMPTED on n10",)


def test_an_attempt_that_runs_again_is_known_as_such(make_run: RunBuilder, fake_slurm: FakeSlurm) -> None:
    findings = found(make_run, "49", status=None)
    assert (findings.verdict.failure_class, findings.verdict.status) == ("preempted", RunStatus.LOST)
    assert findings.again == "Slurm runs job 49 again: attempt 0 ended PREEMPTED on n10"
    assert findings.again in findings.verdict.notes


def test_a_run_outside_slurm_asks_nobody(make_run: RunBuilder, fake_slurm: FakeSlurm) -> None:
    assert found(make_run, "").again == ""
    assert fake_slurm.asked == []


def test_a_scheduler_that_cannot_be_asked_is_said(make_run: RunBuilder, fake_slurm: FakeSlurm) -> None:
    for name in ("sacct", "scontrol"):
        fake_slurm.program(name, "#!/bin/sh\necho 'error: no connection' >&2; exit 1\n")
    verdict = found(make_run, "23").verdict
    assert (verdict.failure_class, verdict.status) == ("unknown", RunStatus.FAILED)
    assert "sacct: no connection" in verdict.not_read


def test_a_memory_kill_in_a_slurm_job_fails_it_even_with_status_zero(
    make_run: RunBuilder, fake_slurm: FakeSlurm
) -> None:
    path = make_run(
        start={"slurm_job_id": "20", "cgroup": "/slurm/uid_0/job_20/step_batch/task_0", "cgroup_oom_kill": 2},
        exit={"status": 0, "cgroup_oom_kill": 3},
        log=b"Training finished.\n",
    )
    run = read_run(path)
    verdict = find_out(run, Standing.ENDED, readable_logs(run)).verdict
    assert (verdict.failure_class, verdict.exited_zero, verdict.first_node) == (
        "oom_killer",
        True,
        run.start and run.start.host,
    )
    assert fake_slurm.asked == []


def test_the_verdict_names_node_and_gpu_of_the_first_failure(make_run: RunBuilder, fake_slurm: FakeSlurm) -> None:
    log = b"[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 2 has a total capacity of 79.15 GiB\n"  # noqa: E501
    run = read_run(make_run(start={"node": "n4"}, log=log))
    verdict = find_out(run, Standing.ENDED, readable_logs(run), {"CUDA_VISIBLE_DEVICES": "0,1,2"}).verdict
    assert (verdict.first_rank, verdict.first_node, verdict.first_gpu) == (3, "n4", "2")


@pytest.mark.parametrize(
    ("rank", "node", "gpu", "row"),
    [
        (3, "n7", "0000:4f:00", "rank 3, on n7, GPU 0000:4f:00"),
        (None, "n4", "2", "on n4, GPU 2"),
        (None, "n7", "", "on n7"),
        (3, "n4", "", None),
        (3, "n4.cluster", "", None),
        (None, "", "", None),
    ],
)
def test_the_report_shows_what_failed_first_where_that_is_more_than_the_host(
    make_run: RunBuilder, rank: int | None, node: str, gpu: str, row: str | None
) -> None:
    run = read_run(make_run(start={"node": "n4"}))
    verdict = replace(judge([], Facts(status=1)), first_rank=rank, first_node=node, first_gpu=gpu)
    assert dict(build_report(run, verdict).facts).get("Failed") == row


@pytest.mark.parametrize(("visible", "gpu"), [("5", "5"), ("0,1", ""), ("-1", ""), ("", "")])
def test_a_single_card_is_the_one(make_run: RunBuilder, visible: str, gpu: str) -> None:
    run = read_run(make_run())
    verdict = find_out(run, Standing.ENDED, readable_logs(run), {"CUDA_VISIBLE_DEVICES": visible}).verdict
    assert verdict.first_gpu == gpu


def test_slurms_words_cannot_break_a_report(make_run: RunBuilder) -> None:
    hostile = "x\x1b[31m\r\nBcc: evil@example.org\u202e<script>"
    run = read_run(make_run())
    said = said_of(Job((replace(RECORD, state="TIMEOUT", label=hostile, nodes=hostile, reason=hostile),)))
    collected = collect(run, Standing.ENDED, Logs(()))
    verdict = judged(run.path, "hello\n", replace(RECORD, state="TIMEOUT", label=hostile))
    report = build_report(run, verdict, machine=[("Slurm", said.row)])
    shown = f"{report.why} {report.machine} {report.subject}"
    assert collected.slurm is None
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "\nBcc" not in shown


def test_a_run_on_another_host_is_lost_when_slurm_says_that_its_job_has_ended(
    make_run: RunBuilder, fake_slurm: FakeSlurm
) -> None:
    start = {"host": "elsewhere", "boot_id": "another", "slurm_job_id": "21"}
    path = make_run(start=start, ended=False)
    assert standing(read_run(path)) is Standing.UNKNOWN
    assert fake_slurm.asked == []
    assert standing(read_run(path), ask_scheduler=True) is Standing.LOST
    (path / "start").write_bytes(
        record({"run_id": "x", "pid": 1, "stdout": "tee", "combined": 1, **start, "slurm_job_id": "99"})
    )
    assert standing(read_run(path), ask_scheduler=True) is Standing.UNKNOWN
