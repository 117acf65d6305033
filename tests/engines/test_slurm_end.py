"""How jobs end on a real Slurm cluster, and what the message says of it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from outcomes import body

from .jobs import GPUALERT, Accounted, Told, User, fields, told
from .slurm_conf import CONTESTED

pytestmark = pytest.mark.engines

_EAT = 'x = b"a" * 600_000_000\n'
_KILL = "the kernel killed 1 process(es) of this run for memory"


def failed(failure_class: str, why: str, where: str, job: str, *, name: str = "job", suffix: str = "") -> Told:
    """Return what the message of a failed run on n1 tells."""
    subject = f"FAILED {failure_class}{suffix}: {name} on n1"
    return Told(subject, "failed", failure_class, why, where, "n1", f"Slurm {job}")


def test_a_job_that_exits_with_7(user: User) -> None:
    job, end = user.finish(f"{GPUALERT} run --name job -- sh -c 'exit 7'", "-w", "n1")
    (mail,) = user.mails()
    assert end == Accounted("FAILED", "7:0", "n1")
    assert told(mail) == failed("unknown", "exit status 7", "status, on n1", job)
    assert "Its exit status is 7." in fields(mail)["What"]


def test_a_job_that_crashes(user: User) -> None:
    job, end = user.finish(f"exec {GPUALERT} run --name job -- sh -c 'kill -SEGV $$'", "-w", "n1")
    (mail,) = user.mails()
    assert end.state == "FAILED" and "11" in end.exit_code
    assert told(mail) == failed("segfault", "exit status 139 (SIGSEGV)", "status, on n1", job)


@pytest.mark.parametrize("script", ["{run}", "exec {run}", "srun {run}"], ids=["inside", "exec", "a step"])
def test_a_failing_program_is_told_by_its_line_however_it_is_started(user: User, script: str) -> None:
    (user.work / "train.py").write_text("rows = []\nprint(1 / len(rows))\n")
    run = f"{GPUALERT} run --name job -- python3 train.py"
    job, end = user.finish(script.format(run=run), "-w", "n1")
    (mail,) = user.mails()
    assert (end.state, end.exit_code) == ("FAILED", "1:0")
    log = f"slurm-{job}.out" if "srun" not in script else "stderr.log"
    where = f"{log}, line 5; {user.work}/train.py:2 in <module>"
    shown = f"{job}.0" if "srun" in script else job
    assert told(mail) == failed("div_zero", "ZeroDivisionError: division by zero", where, shown)


def test_a_wrapped_command_line(user: User) -> None:
    words = ["--parsable", "-w", "n1", "--wrap", f"{GPUALERT} run --name job -- cat /no/such/file"]
    job = user.run("sbatch", *words).stdout.strip()
    user.wait(job)
    (mail,) = user.mails()
    why = "cat: /no/such/file: No such file or directory"
    assert told(mail) == failed("file_not_found", why, f"slurm-{job}.out, line 1", job)


def test_a_job_that_ends_well_sends_one_message(user: User) -> None:
    job, end = user.finish(f"{GPUALERT} run --name job -- echo done", "-w", "n1")
    (mail,) = user.mails()
    assert end == Accounted("COMPLETED", "0:0", "n1")
    assert told(mail) == Told(
        "OK: job on n1", "succeeded", "success", "done", f"slurm-{job}.out, line 1", "n1", f"Slurm {job}"
    )


def test_a_job_that_the_control_group_kills_for_memory(user: User) -> None:
    (user.work / "eat.py").write_text(_EAT)
    job, end = user.finish(f"{GPUALERT} run --name job -- python3 eat.py", "-w", "n1", "--mem=100")
    (mail,) = user.mails()
    assert end == Accounted("OUT_OF_MEMORY", "0:125", "n1")
    assert told(mail) == failed("oom_killer", _KILL, "cgroup, on n1", job)


def test_a_job_that_exits_with_0_after_a_kill_for_memory_has_failed(user: User) -> None:
    (user.work / "eat.py").write_text(_EAT)
    job, end = user.finish(f"{GPUALERT} run --name job -- sh -c 'python3 eat.py; exit 0'", "-w", "n1", "--mem=100")
    (mail,) = user.mails()
    assert end == Accounted("OUT_OF_MEMORY", "0:125", "n1")
    assert told(mail) == failed("oom_killer", _KILL, "cgroup, on n1", job, suffix=" (exit 0)")
    (run,) = user.runs()
    assert json.loads((run / "verdict.json").read_text())["exited_zero"] is True


@pytest.mark.parametrize("form", ["exec {run}", "srun {run}", "{run}"], ids=["exec", "a step", "neither"])
def test_a_job_cancelled_by_its_owner(user: User, form: str) -> None:
    run = f"{GPUALERT} run --name job -- sh -c 'echo up; exec sleep 300'"
    job = user.sbatch(form.format(run=run), "-w", "n1")
    user.wait_for_output(job, "up")
    user.run("scancel", job)
    end = user.wait(job)
    assert end.state == "CANCELLED"
    # Slurm kills what is left when the batch shell is gone: our report too, where that shell only waited for us.
    lost = form == "{run}"
    assert len(user.mails()) == (0 if lost else 1)
    user.gpualert("tick")
    (mail,) = user.mails()
    who = user.run("id", "-u").stdout.strip()
    why = f"Slurm job {job} CANCELLED by {who} ({user.cluster.user})"
    expected = failed("interrupted", why, "slurm, on n1", f"{job}.0" if "srun" in form else job)
    assert told(mail) == (replace(expected, subject="LOST interrupted: job on n1", status="lost") if lost else expected)


def test_a_job_that_is_signalled_again_while_its_report_is_made_is_told_at_once(user: User) -> None:
    job = user.sbatch(f"exec {GPUALERT} run --name job -- sh -c 'echo up; exec sleep 300'", "-w", "n1")
    user.wait_for_output(job, "up")
    for _ in range(3):
        user.run("scancel", "--signal=TERM", "--full", job, check=False)
    end = user.wait(job)
    (mail,) = user.mails()
    assert end == Accounted("FAILED", "0:15", "n1")
    assert told(mail).subject == "FAILED interrupted: job on n1"


def test_an_attempt_that_slurm_runs_again_is_told_with_the_next(user: User) -> None:
    again = "scontrol requeue $SLURM_JOB_ID; sleep 60"
    script = f"case $SLURM_RESTART_COUNT in '') echo first; {again} ;; *) echo second; exit 3 ;; esac"
    (user.work / "attempt.sh").write_text(script)
    job = user.sbatch(f"exec {GPUALERT} run --name job -- sh attempt.sh", "-w", "n1")
    user.start_again(job)
    end = user.wait(job)
    user.gpualert("tick")
    (mail,) = user.mails()
    assert end == Accounted("FAILED", "3:0", "n1")
    assert told(mail) == failed("unknown", "second", f"slurm-{job}.out, line 1", job)
    assert f"restart 1 of job {job}; attempt 0 ended REQUEUED on n1" in body(mail)
    first, _ = user.runs()
    (kept,) = first.glob("*.kept")
    assert kept.read_text().startswith("first\n"), "Slurm has emptied its own file"


def test_a_job_that_has_to_make_way_for_another(user: User) -> None:
    run = f"exec {GPUALERT} run --name job -- sh -c 'echo up; exec sleep 300'"
    job = user.sbatch(run, "-p", "spare", "-c", "2", "--no-requeue")
    user.wait_for_output(job, "up")
    user.finish("exit 0", "-p", "urgent", "-c", "2", name="urgent")
    end = user.wait(job)
    user.gpualert("tick")
    (mail,) = user.mails()
    assert (end.state, end.nodes) == ("PREEMPTED", CONTESTED)
    found = told(mail)
    assert (found.failure_class, found.host, found.job) == ("preempted", CONTESTED, f"Slurm {job}")
    assert "PREEMPTED" in found.why or "PREEMPTION" in found.why


def test_a_job_that_was_never_wrapped_can_be_waited_for(user: User) -> None:
    job = user.sbatch("sleep 2; echo over; exit 4", "-w", "n1")
    report = user.gpualert("slurm", job, "--wait").stdout
    assert report.startswith("FAILED unknown: job on n1 after ")
    assert "Its exit status is 4." in " ".join(report.split()) and f"Slurm {job}" in report


def test_a_job_whose_output_cannot_be_opened_was_not_launched(user: User) -> None:
    job, end = user.finish(f"{GPUALERT} run -- true", "-w", "n1", "-o", "/no/such/folder/out")
    assert (end.state, end.exit_code) == ("FAILED", "0:53")
    assert user.runs() == []
    report = json.loads(user.gpualert("slurm", "--json", job).stdout)[0]
    assert report["verdict"]["class"] == "launch_failed"


def test_a_script_that_ends_before_its_first_line(user: User) -> None:
    (user.work / "job.sh").write_text(f"#!/no/such/interpreter\n{GPUALERT} run -- true\n")
    job = user.run("sbatch", "--parsable", "-w", "n1", "job.sh").stdout.strip()
    end = user.wait(job)
    assert end == Accounted("FAILED", "2:0", "n1") and user.runs() == []
    report = json.loads(user.gpualert("slurm", "--json", job).stdout)[0]
    assert report["verdict"]["class"] == "command_not_found"
    assert "/no/such/interpreter" in report["verdict"]["evidence"][0]["text"]


def test_a_job_cancelled_before_it_started_has_no_status(user: User) -> None:
    job = user.sbatch(f"{GPUALERT} run -- true", "--hold")
    user.run("scancel", job)
    end = user.wait(job)
    report = json.loads(user.gpualert("slurm", "--json", job).stdout)[0]
    assert end.state == "CANCELLED" and user.runs() == []
    assert report["verdict"]["class"] == "interrupted"
    assert "exit status" not in user.gpualert("slurm", job).stdout
