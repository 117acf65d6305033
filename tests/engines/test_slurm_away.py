"""A Slurm job whose surroundings are broken ends as it would have, and is told later."""

from __future__ import annotations

import shutil

import pytest
from smtp_server import MailServer, closed_port

from .jobs import GPUALERT, Accounted, User, told

pytestmark = pytest.mark.engines
_FAILING = f"{GPUALERT} run --name job --to ann@example.org -- python3 -c 'import no_such_module'"


def test_a_message_waits_for_a_mail_server_that_cannot_be_reached_and_arrives_once(user: User) -> None:
    port = closed_port()
    smtp = {"GPUALERT_MAIL": "smtp", "GPUALERT_SMTP_HOST": "127.0.0.1", "GPUALERT_SMTP_PORT": str(port)}
    user.environ |= {**smtp, "GPUALERT_SMTP_SECURITY": "none"}
    job, end = user.finish(_FAILING, "-w", "n3")
    assert end == Accounted("FAILED", "1:0", "n3")
    with MailServer(port=port).running() as server:
        user.gpualert("tick")  # keeps the pause that the failure asked for
        user.gpualert("outbox", "retry")
        user.gpualert("tick")
        user.gpualert("tick")
    (received,) = server.received
    assert received.to == ["ann@example.org"]
    assert b"Subject: FAILED missing_module: job on n3" in received.content and job.encode() in received.content


def test_with_accounting_switched_off_the_cause_is_found_and_the_report_says_what_was_not_read(user: User) -> None:
    # What a client sees where slurm.conf names no accounting: its own copy says so.
    folder = user.work / "etc"
    folder.mkdir()
    lines = (user.cluster.base / "etc/slurm.conf").read_text().splitlines()
    kept = [line for line in lines if not line.startswith(("AccountingStorage", "AccountingStore"))]
    (folder / "slurm.conf").write_text("\n".join([*kept, ""]))
    shutil.copy(user.cluster.base / "etc/cgroup.conf", folder)
    script = f"export SLURM_CONF={folder}/slurm.conf\n{_FAILING}"
    job, end = user.finish(script, "-w", "n3")
    assert end == Accounted("FAILED", "1:0", "n3")
    (mail,) = user.mails()
    found = told(mail)
    assert found.subject == "FAILED missing_module: job on n3"
    assert found.why == "ModuleNotFoundError: No module named 'no_such_module'"
    off = {"SLURM_CONF": str(folder / "slurm.conf")}
    asked = user.run("sacct", "-j", job, check=False, environ=off)
    assert "disabled" in asked.stderr
    report = user.run("/bin/sh", GPUALERT.split()[1], "slurm", job, environ=off).stdout
    assert "FAILED missing_module: job on n3" in report


@pytest.mark.parametrize("word", ["seven", "0", "-1", "12;rm -rf .", "99999999", "4711_", "9" * 40])
def test_a_number_that_is_no_job_is_said_in_one_sentence(user: User, word: str) -> None:
    done = user.gpualert("slurm", "--", word, check=False)
    assert done.returncode in (1, 2)
    assert done.stdout == ""
    assert done.stderr.startswith("gpualert: ") and done.stderr.count("\n") == 1


def test_output_that_is_gone_is_said(user: User) -> None:
    job, _ = user.finish("exit 4", "-w", "n3")
    (user.work / f"slurm-{job}.out").unlink()
    report = user.gpualert("slurm", job).stdout
    assert report.startswith("FAILED unknown: job on n3")
    assert f"slurm-{job}.out: there is no such file" in " ".join(report.split())


def test_a_state_folder_that_cannot_be_written_costs_the_job_nothing(user: User) -> None:
    user.environ["GPUALERT_HOME"] = "/proc/no/such"
    job, end = user.finish(f"{GPUALERT} run -- sh -c 'echo out; exit 5'", "-w", "n3", "--export=ALL,TMPDIR=/proc")
    assert end == Accounted("FAILED", "5:0", "n3")
    assert "out\n" in user.output(job) and "gpualert: " in user.output(job)
