"""The hooks as Slurm starts them: MailProg, epilog, task prolog, and scrontab's lines."""

from __future__ import annotations

import pytest
from outcomes import body

from gpualert.signals.epilog import read_epilog

from .daemons import wait_until
from .jobs import GPUALERT, Told, User, fields, told

pytestmark = pytest.mark.engines


@pytest.fixture
def recipient(user: User) -> str:
    """Return an address that nobody else gets mail at."""
    return f"{user.work.parent.name}@example.org"


def test_slurms_mail_about_a_failure_is_the_whole_report(user: User, recipient: str) -> None:
    (user.work / "train.py").write_text("print('step 1')\n{}['missing']\n")
    asked = ("--mail-type=BEGIN,END,FAIL", f"--mail-user={recipient}")
    job, _ = user.finish("python3 train.py", "-w", "n4", *asked)
    where = f"slurm-{job}.out, line 6; {user.work}/train.py:2 in <module>"
    assert told(user.mailed(recipient)) == Told(
        "FAILED traceback: job on n4", "failed", "traceback", "KeyError: 'missing'", where, "n4", f"Slurm {job}"
    )
    began = wait_until(lambda: user.passed_on(recipient), 20, "Slurm's line about the start")
    assert [words[1].partition(" Name=")[0] for words in began] == [f"Slurm Job_id={job}"]


def test_slurms_mail_about_an_array_is_one_report_on_all_tasks(user: User, recipient: str) -> None:
    script = 'case $SLURM_ARRAY_TASK_ID in 1) echo ok ;; *) python3 -c "import no_such_module" ;; esac'
    asked = ("--mail-type=END,FAIL", f"--mail-user={recipient}")
    job, _ = user.finish(script, "--array=1-3", *asked, limit_s=90)
    mail = user.mailed(recipient)
    assert "missing_module" in str(mail["Subject"])
    text = body(mail)
    assert "ModuleNotFoundError: No module named 'no_such_module'" in text
    assert all(f"task {number}" in text for number in (1, 2, 3))
    assert fields(mail)["Job"].startswith(f"Slurm {job}")


def test_slurms_mail_does_not_send_what_the_jobs_user_may_not_read(user: User, recipient: str) -> None:
    secret = user.cluster.base / "etc/slurmdbd.conf"
    (user.work / "link").symlink_to(secret)
    user.finish("exit 3", "-w", "n4", f"--mail-user={recipient}", "--mail-type=FAIL", "-o", str(user.work / "link"))
    mail = user.mailed(recipient)
    assert "StoragePass" not in mail.as_string()


def test_slurms_mail_says_what_it_could_not_read(user: User, recipient: str) -> None:
    job, _ = user.finish(
        "chmod 600 slurm-$SLURM_JOB_ID.out; exit 3", "-w", "n4", f"--mail-user={recipient}", "--mail-type=FAIL"
    )
    mail = user.mailed(recipient)
    assert told(mail).subject == "FAILED unknown: job on n4" and "Its exit status is 3." in fields(mail)["What"]
    if user.cluster.user != "root":
        assert f"slurm-{job}.out: Permission denied" in " ".join(body(mail).split())


def test_the_epilog_keeps_a_kill_for_memory_for_the_jobs_user(user: User) -> None:
    (user.work / "eat.py").write_text('x = b"a" * 600_000_000\n')
    job, end = user.finish("python3 eat.py", "-w", "n4", "--mem=100")
    assert end.state == "OUT_OF_MEMORY"
    kept = user.cluster.base / "kernel" / f"{job}.n4"
    wait_until(kept.exists, 20, "the epilog's file")
    lines, trouble = read_epilog(job, kept.parent)
    assert trouble == "" and any(f"/job_{job}/" in line.text for line in lines)
    assert kept.owner() == user.cluster.user and kept.stat().st_mode & 0o777 == 0o440
    found = user.run("/bin/sh", GPUALERT.split()[1], "slurm", job, environ={"GPUALERT_KERNEL_DIR": str(kept.parent)})
    assert found.stdout.startswith("FAILED oom_killer: job on n4")
    assert "Killed process" in found.stdout


def test_the_task_prolog_gives_every_task_the_command_and_the_sites_settings(user: User) -> None:
    settings = user.cluster.base / "etc/task.env"
    settings.write_text("GPUALERT_SITE_TEST=of %u\n")
    try:
        user.environ["PATH"] = "/usr/bin:/bin"
        script = "command -v gpualert; echo batch $GPUALERT_SITE_TEST; srun sh -c 'echo step $GPUALERT_SITE_TEST'"
        job, _ = user.finish(script, "-w", "n4")
    finally:
        settings.unlink()
    command, batch, step = user.output(job).splitlines()
    assert command.endswith("/bash/gpualert")
    assert (batch, step) == (f"batch of {user.cluster.user}", f"step of {user.cluster.user}")
