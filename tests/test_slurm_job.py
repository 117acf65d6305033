"""`gpualert slurm`: jobs that were never wrapped, told as runs are."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from email import message_from_bytes
from email.policy import default
from pathlib import Path

import pytest
from rundirs import RunBuilder
from slurm_fakes import FakeSlurm
from smtp_server import MailServer

from gpualert.cli import main

ERROR = 'starting\nTraceback (most recent call last):\n  File "<stdin>", line 1, in <module>\nValueError: bad batch\n'
CUDA = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB.\n"
MISSING = "FileNotFoundError: [Errno 2] No such file or directory: '/data/x'\n"


@pytest.fixture
def jobs(fake_slurm: FakeSlurm) -> FakeSlurm:
    """Return a Slurm whose jobs have left their output."""
    work = fake_slurm.work
    (work / "out-unwrapped-18.log").write_text(ERROR)
    (work / "slurm-23.out").write_text("training\n")
    for task, text in enumerate((CUDA, MISSING, "Training finished.\n", CUDA, "ok\n", "ok\n"), start=1):
        (work / f"slurm-19_{task}.out").write_text(text)
    for path in work.iterdir():
        os.utime(path, (1795976613, 1795976613))
    return fake_slurm


def slurm(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = main(["slurm", *words])
    said = capsys.readouterr()
    return status, said.out, said.err


def test_a_job_is_reported_as_a_run_is(jobs: FakeSlurm, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = slurm(capsys, "18")
    assert status == 0
    assert out.startswith("FAILED traceback: unwrapped on n1")
    for line in ("Why   ValueError: bad batch", "Line  out-unwrapped-18.log, line 4", "Job        Slurm 18"):
        assert line in out
    assert "18 FAILED 1:0 (NonZeroExitCode)" in out or "18 FAILED 1:0, n1" in out
    assert out.rstrip().endswith("Look closer: gpualert slurm 18")
    assert str(jobs.work / "out-unwrapped-18.log") in out


def test_an_array_is_a_line_a_task_and_a_report_a_cause(jobs: FakeSlurm, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = slurm(capsys, "19")
    lines = out.splitlines()
    assert [line.split()[0] for line in lines[1:7]] == [f"19_{task}" for task in range(1, 7)]
    assert [line for line in lines if line.startswith("===")] == ["=== 2 of 6: 19_1, 19_4", "=== 1 of 6: 19_2"]
    assert out.count("FAILED cuda_oom: ") == 1


def test_some_tasks_may_be_named(jobs: FakeSlurm, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = slurm(capsys, "19_[2-3]", "18")
    assert [line.split()[0] for line in out.splitlines()[1:4]] == ["19_2", "19_3", "18"]


def test_json_holds_job_and_verdict(jobs: FakeSlurm, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = slurm(capsys, "--json", "18", "49")
    first, second = json.loads(out)
    assert (first["job"], first["state"], first["verdict"]["class"]) == ("18", "FAILED", "traceback")
    assert first["verdict"]["first_node"] == "n1"
    assert (second["state"], second["restarts"], second["verdict"]) == ("PENDING", 1, None)


@pytest.mark.parametrize(("word", "status"), [("18", 0), ("20", 0), ("49", 1)])
def test_classify_prints_the_verdict_and_its_status_says_whether_a_cause_is_known(
    jobs: FakeSlurm, capsys: pytest.CaptureFixture[str], word: str, status: int
) -> None:
    found, out, _ = slurm(capsys, "--classify", word)
    assert (found, len(out) > 0) == (status, True)


def test_a_job_that_has_not_ended_is_one_line(jobs: FakeSlurm, capsys: pytest.CaptureFixture[str]) -> None:
    assert slurm(capsys, "49") == (0, "PENDING (BeginTime): spare.sh (Slurm job 49)\n", "")


@pytest.mark.parametrize(
    ("word", "outcome", "why"),
    [
        ("6", "FAILED launch_failed", "its script was not started"),
        ("20", "FAILED oom_killer", "State=OUT_OF_MEMORY: it asked for 150M"),
        ("21", "FAILED interrupted", "by=owner"),
        ("22", "FAILED interrupted", "before it started"),
        ("23", "FAILED walltime", "it reached its time limit of 00:01:00"),
        ("24", "FAILED launch_failed", "before it started (Dependency)"),
        ("50", "FAILED preempted", "a job of higher priority took its place"),
    ],
)
def test_each_end_has_its_words(
    jobs: FakeSlurm, capsys: pytest.CaptureFixture[str], word: str, outcome: str, why: str
) -> None:
    _, out, _ = slurm(capsys, word)
    assert out.startswith(outcome)
    assert why in " ".join(out.split())


def test_no_status_is_invented_for_a_job_that_never_started(
    jobs: FakeSlurm, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, _ = slurm(capsys, "22")
    assert "It never started." in " ".join(out.split())
    assert "exit status" not in out
    assert "Could not be read" not in out


def test_output_that_is_gone_is_said(jobs: FakeSlurm, capsys: pytest.CaptureFixture[str]) -> None:
    (jobs.work / "out-unwrapped-18.log").unlink()
    status, out, _ = slurm(capsys, "18")
    assert status == 0
    assert f"{jobs.work}/out-unwrapped-18.log: there is no such file" in " ".join(out.split())


def test_output_that_was_written_to_much_later_is_said(jobs: FakeSlurm, capsys: pytest.CaptureFixture[str]) -> None:
    os.utime(jobs.work / "out-unwrapped-18.log", (1795976613 + 9000, 1795976613 + 9000))
    assert "written to after the job's end" in " ".join(slurm(capsys, "18")[1].split())


def test_a_link_in_place_of_the_output_is_not_followed(jobs: FakeSlurm, capsys: pytest.CaptureFixture[str]) -> None:
    (jobs.work / "out-unwrapped-18.log").rename(jobs.work / "moved")
    (jobs.work / "out-unwrapped-18.log").symlink_to(jobs.work / "moved")
    assert "it is a symbolic link" in " ".join(slurm(capsys, "18")[1].split())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_another_users_output_is_read_and_a_third_ones_is_not(
    jobs: FakeSlurm, capsys: pytest.CaptureFixture[str]
) -> None:
    path = jobs.folder / "scontrol-18"
    path.write_text(path.read_text().replace("UserId=ann(0)", "UserId=ann(4242)"))
    log = jobs.work / "out-unwrapped-18.log"
    assert "it belongs to user 0" in " ".join(slurm(capsys, "18")[1].split())
    os.chown(log, 4242, 4242)
    _, out, _ = slurm(capsys, "18")
    assert "Why   ValueError: bad batch" in out
    assert f"Log   {log}" in out


def test_of_a_wrapped_job_the_run_tells(
    jobs: FakeSlurm, make_run: RunBuilder, capsys: pytest.CaptureFixture[str]
) -> None:
    start = {"slurm_job_id": "18", "node": "n1", "started_at": 1795976613}
    make_run("20261129T182333Z-n1-3f9a1c2e", start=start, exit={"ended_at": 1795976614}, log=CUDA.encode())
    _, out, _ = slurm(capsys, "18")
    assert out.startswith("FAILED cuda_oom")
    assert "20261129T182333Z-n1-3f9a1c2e" in out
    assert "18 FAILED 1:0" in out
    _, out, _ = slurm(capsys, "--classify", "18")
    assert out.startswith("FAILED traceback")  # the output, judged anew


def test_a_run_of_another_attempt_or_another_job_does_not_tell(
    jobs: FakeSlurm, make_run: RunBuilder, capsys: pytest.CaptureFixture[str]
) -> None:
    make_run("20261129T182333Z-n1-3f9a1c2e", start={"slurm_job_id": "20"}, log=CUDA.encode())
    make_run("20261128T182333Z-n1-3f9a1c2e", start={"slurm_job_id": "18"}, log=CUDA.encode())
    assert slurm(capsys, "18")[1].startswith("FAILED traceback")


BAD = {
    "no id": (("x",), 2, "no Slurm job id"),
    "none": ((), 2, "Missing argument"),
    "range": (("19_[4-1]",), 2, "no range of tasks"),
    "unknown": (("99",), 1, "cannot find Slurm job '99'"),
    "no task": (("19_77",), 1, "cannot find Slurm job '19_77'"),
    "address": (("18", "--mail", "no body@"), 2, "no mail address"),
    "unended": (("49", "--mail", "a@example.org"), 2, "nothing to send"),
}


@pytest.mark.parametrize(("words", "status", "said"), BAD.values(), ids=BAD.keys())
def test_bad_input_is_said_in_one_line(
    jobs: FakeSlurm, capsys: pytest.CaptureFixture[str], words: Sequence[str], status: int, said: str
) -> None:
    found, out, err = slurm(capsys, *words)
    assert (found, out, err.count("\n")) == (status, "", 1)
    assert said in err


def test_an_accounting_that_prints_garbage_is_said_in_one_line(
    jobs: FakeSlurm, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs.program("sacct", "#!/bin/sh\nhead -c 2000 /dev/urandom\n")
    found, out, err = slurm(capsys, "20")
    assert (found, out, err.count("\n")) == (1, "", 1)
    assert "no record of a job" in err


def test_with_accounting_switched_off_the_controller_tells(jobs: FakeSlurm, capsys: pytest.CaptureFixture[str]) -> None:
    jobs.program("sacct", "#!/bin/sh\necho 'Slurm accounting storage is disabled' >&2; exit 1\n")
    assert slurm(capsys, "18")[1].startswith("FAILED traceback: unwrapped on n1")


def wait_for(condition: Callable[[], object], limit_s: float = 60.0) -> None:
    """Return once the condition holds."""
    ends = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < ends, "it never happened"
        time.sleep(0.01)


def test_wait_waits_for_the_end(jobs: FakeSlurm) -> None:
    ended = jobs.rows.read_text()
    jobs.rows.write_text(ended.replace("21¦21¦CANCELLED by", "21¦21¦RUNNING by"))
    command = [sys.executable, "-m", "gpualert", "slurm", "--wait", "21"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as waiting:
        wait_for(lambda: len([call for call in jobs.asked if "--jobs=21" in call]) > 2)
        (jobs.folder / "new").write_text(ended)
        (jobs.folder / "new").rename(jobs.rows)
        out, _ = waiting.communicate(timeout=60)
    assert (waiting.returncode, out.startswith("FAILED interrupted")) == (0, True)


def test_waiting_can_be_interrupted(jobs: FakeSlurm) -> None:
    command = [sys.executable, "-m", "gpualert", "slurm", "--wait", "49"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as waiting:
        wait_for(lambda: jobs.asked)
        waiting.send_signal(signal.SIGINT)
        _, err = waiting.communicate(timeout=60)
    assert (waiting.returncode, "Traceback" in err) == (130, False)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[MailServer]:
    """Return a mail server that the settings name."""
    with MailServer().running() as running:
        values = {"MAIL": "smtp", "SMTP_HOST": "127.0.0.1", "SMTP_PORT": str(running.port), "SMTP_SECURITY": "none"}
        for name, value in values.items():
            monkeypatch.setenv(f"GPUALERT_{name}", value)
        yield running


def test_the_report_can_be_mailed(jobs: FakeSlurm, server: MailServer, capsys: pytest.CaptureFixture[str]) -> None:
    assert slurm(capsys, "18", "--mail", "ann@example.org") == (0, "", "")
    [mail] = server.received
    message = message_from_bytes(mail.content, policy=default)
    assert (mail.to, message["Message-ID"]) == (["ann@example.org"], "<slurm-18_0.failed@gpualert.invalid>")
    assert str(message["Subject"]).startswith("FAILED traceback: unwrapped on n1")
    assert "gpualert slurm 18" in str(message.get_body(("plain",)).get_content())  # type: ignore[union-attr]


def test_an_array_is_one_mail(jobs: FakeSlurm, server: MailServer, capsys: pytest.CaptureFixture[str]) -> None:
    assert slurm(capsys, "19", "--mail", "ann@example.org")[0] == 0
    [mail] = server.received
    message = message_from_bytes(mail.content, policy=default)
    body = str(message.get_body(("plain",)).get_content())  # type: ignore[union-attr]
    assert str(message["Subject"]).startswith("FAILED cuda_oom: arr.sh on 4 nodes")
    for task, outcome in enumerate(("cuda_oom", "file_not_found", "OK", "cuda_oom", "OK", "OK"), start=1):
        assert [line for line in body.splitlines() if line.startswith(f"task {task}") and outcome in line]


def test_a_mail_that_is_not_taken_is_said_and_its_status_tells(
    jobs: FakeSlurm, server: MailServer, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    server.answer("DATA", "451 come back later")
    status, out, err = slurm(capsys, "18", "--mail", "ann@example.org")
    assert (status, out, "come back later" in err) == (1, "", True)
    assert not (tmp_path / "state").exists()  # whoever asked does something else


def test_without_a_channel_that_leaves_the_house_the_mail_program_is_used(
    jobs: FakeSlurm, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs.program("sendmail", f"#!/bin/sh\necho \"$@\" >'{jobs.folder}/sent'; cat >>'{jobs.folder}/sent'\n")
    assert slurm(capsys, "18", "--mail", "ann@example.org")[0] == 0
    sent = (jobs.folder / "sent").read_text()
    assert sent.splitlines()[0].endswith("-- ann@example.org")
    assert "Subject: FAILED traceback" in sent
