"""The hooks that Slurm starts, without Slurm: forms of call, what goes wrong, who reads what they leave."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from rundirs import RunBuilder

from gpualert.cli.setup import scrontab_lines
from gpualert.places import place, shim
from gpualert.post import post
from gpualert.signals.epilog import read_epilog

HOOKS = place("hooks") / "slurm"

ENDED = "Slurm Job_id=42 Name=train Ended, Run time 00:00:00, COMPLETED, ExitCode 0"
FAILED = "Slurm Job_id=42 Name=train Failed, Run time 00:00:00, FAILED, ExitCode 3"
BEGAN = "Slurm Job_id=42 Name=train Began, Queued time 00:00:01"


def eventually(condition: Callable[[], Any], limit_s: float = 30.0) -> Any:
    """Wait until `condition` gives something true, and return it."""
    ends = time.monotonic() + limit_s
    while not (found := condition()):
        assert time.monotonic() < ends, "it never came true"
        time.sleep(0.02)
    return found


class Site:
    """An installation whose `gpualert` and mail program write down how they were called."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.hook = base / "hooks/slurm/mailprog"
        self.hook.parent.mkdir(parents=True)
        shutil.copy(HOOKS / "mailprog", self.hook)
        self.program("bash/gpualert", 'record report "$@"')
        self.program("mail", 'record plain "$@"; cat >>"$0.stdin"')
        self.environ = {"PATH": "/usr/bin:/bin", "TMPDIR": str(base), "GPUALERT_MAIL_PROGRAM": str(base / "mail")}

    def program(self, name: str, script: str) -> None:
        """Make a program that may `record NAME WORD...`."""
        path = self.base / name
        path.parent.mkdir(exist_ok=True)
        log = f'record() {{ for word; do printf "%s\\0" "$word"; done >"{self.base}/$1.$$"; }}'
        path.write_text(f"#!/bin/sh\n{log}\n{script}\n")
        path.chmod(0o755)

    def call(self, *words: str, given: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
        """Call it as slurmctld would."""
        return subprocess.run(
            [self.hook, *words],
            env={**self.environ, **environ},
            input=given,
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )

    def calls(self, who: str) -> list[list[str]]:
        """Return how `report` or `plain` was called."""
        return [path.read_text().split("\0")[1:-1] for path in self.base.glob(f"{who}.[0-9]*")]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Return an installation."""
    return Site(tmp_path / "site")


@pytest.mark.parametrize(
    ("subject", "job"),
    [
        pytest.param(FAILED, "42", id="failed"),
        pytest.param(ENDED, "42", id="ended"),
        pytest.param("Slurm Array Summary Job_id=8_* (8) Name=x Failed, Mixed, ExitCode [0-2]", "8", id="array"),
        pytest.param("Slurm Array Task Job_id=9_2 (11) Name=x Ended, COMPLETED, ExitCode 0", "9_2", id="array task"),
        pytest.param("Slurm Job_id=7 Name=$(touch x);`touch y` Failed, Run time 1", "7", id="a name with code in it"),
        pytest.param("Slurm Job_id=7 Name=a\nJob_id=8 Failed, Run time 1", "7", id="a name with a number in it"),
    ],
)
def test_the_end_of_a_job_becomes_a_report(site: Site, subject: str, job: str) -> None:
    assert site.call("-s", subject, "ann@example.org").returncode == 0
    assert eventually(lambda: site.calls("report")) == [["slurm", job, "--wait", "--mail", "ann@example.org"]]
    assert site.calls("plain") == [] and not list(site.base.rglob("[xy]"))


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["-s", BEGAN, "ann"], id="began"),
        pytest.param(["-s", "Slurm Job_id=42 Name=train Reached time limit", "ann"], id="time limit"),
        pytest.param(["-s", "Slurm Job_id=42 Name=train Requeued", "ann"], id="requeued"),
        pytest.param(["-s", "minutes of the meeting, Failed, Run time", "ann"], id="not Slurm's"),
        pytest.param(["-s", "Slurm Job_id=4x2 Name=train Failed, Run time 1", "ann"], id="no number"),
        pytest.param(["-s", "Slurm Job_id= Name=train Failed, Run time 1", "ann"], id="empty number"),
        pytest.param(["-s", FAILED, "ann", "bob"], id="two recipients"),
        pytest.param(["-s", FAILED], id="no recipient"),
        pytest.param(["-v", FAILED, "ann"], id="another option"),
        pytest.param(["ann"], id="recipient alone"),
        pytest.param([], id="nothing"),
    ],
)
def test_anything_else_goes_to_the_mail_program_untouched(site: Site, words: list[str]) -> None:
    assert site.call(*words, given="text\n").returncode == 0
    assert site.calls("plain") == [words] and site.calls("report") == []
    assert (site.base / "mail.stdin").read_text() == "text\n"


def test_the_type_that_slurm_gives_is_believed_before_a_name(site: Site) -> None:
    subject = "Slurm Job_id=42 Name=x Failed, y Began, Queued time 00:00:01"
    site.call("-s", subject, "ann", SLURM_JOB_MAIL_TYPE="Began")
    assert site.calls("plain") == [["-s", subject, "ann"]]


@pytest.mark.parametrize(
    "script",
    [
        pytest.param("exit 1", id="it fails"),
        pytest.param("kill -KILL $$", id="it is killed"),
        pytest.param("sleep 300", id="it hangs"),
        pytest.param(None, id="it is not there"),
    ],
)
def test_where_no_report_can_be_sent_slurms_own_line_is(site: Site, script: str | None) -> None:
    if script:
        site.program("bash/gpualert", script)
    else:
        (site.base / "bash/gpualert").unlink()
    site.call("-s", FAILED, "ann", GPUALERT_MAILPROG_LIMIT_S="1")
    assert eventually(lambda: site.calls("plain")) == [["-s", FAILED, "ann"]]


def test_slurmctld_does_not_wait_and_may_kill_what_is_left_of_the_group(site: Site) -> None:
    gate = site.base / "gate"
    os.mkfifo(gate)
    site.program("bash/gpualert", f'cat "{gate}" >/dev/null; record report "$@"')
    started = subprocess.Popen([site.hook, "-s", FAILED, "ann"], env=site.environ, start_new_session=True)
    assert started.wait(20) == 0
    with suppress(ProcessLookupError):  # nothing is left of it
        os.killpg(started.pid, signal.SIGKILL)
    assert site.calls("report") == []
    gate.write_text("go\n")
    eventually(lambda: site.calls("report"))


def test_without_a_mail_program_it_says_so(site: Site, tmp_path: Path) -> None:
    if any(Path(path).exists() for path in ("/bin/mail", "/usr/bin/mail", "/usr/bin/mailx")):
        pytest.skip("this machine has a mail program")
    done = site.call("-s", BEGAN, "ann", GPUALERT_MAIL_PROGRAM="/no/such")
    assert done.returncode == 1
    assert done.stderr == f"gpualert: cannot send '{BEGAN}' to 'ann': no mail program here; set GPUALERT_MAIL_PROGRAM\n"


def test_installed_it_takes_the_command_beside_its_python(tmp_path: Path) -> None:
    site = Site(tmp_path / "venv/lib/python3.11/site-packages/gpualert/_files")
    (tmp_path / "venv/bin").mkdir()
    shutil.copy(site.base / "bash/gpualert", tmp_path / "venv/bin/gpualert")
    (site.base / "bash/gpualert").unlink()
    site.call("-s", FAILED, "ann")
    eventually(lambda: site.calls("report"))


# --- The epilog --------------------------------------------------------------

KILL = (
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/slurm/uid_1001/job_{job},"
    "task_memcg=/slurm/uid_1001/job_{job}/step_batch/task_0,task=python3,pid={pid},uid=1001"
)
KILLED = "Memory cgroup out of memory: Killed process {pid} (python3) total-vm:1kB"
XID = "NVRM: Xid (PCI:0000:65:00): 79, pid=1234, GPU has fallen off the bus."


@pytest.fixture
def epilog(tmp_path: Path) -> Callable[..., list[str]]:
    """Return a call of the epilog with what `dmesg` prints; it returns the texts that the reader then finds."""
    tools, folder = tmp_path / "tools", tmp_path / "site/kernel"
    tools.mkdir()

    def program(name: str, script: str) -> None:
        (tools / name).write_text(f"#!/bin/sh\n{script}\n")
        (tools / name).chmod(0o755)

    def call(lines: Iterable[tuple[float, str]], job: str = "4711", dmesg: str = "cat", **environ: str) -> list[str]:
        (tmp_path / "dmesg.txt").write_text("".join(f"[{at:12.6f}] {text}\n" for at, text in lines))
        program("dmesg", f"{dmesg} <{tmp_path}/dmesg.txt")
        program("scontrol", f'echo "JobId={job} JobName=x StartTime={int(time.time()) - 60} EndTime=Unknown"')
        uid = str(os.getuid())
        told = {"SLURM_JOB_ID": job, "SLURM_JOB_UID": uid, "SLURMD_NODENAME": "n7.site", **environ}
        environment = {"PATH": f"{tools}:/usr/bin:/bin", "GPUALERT_KERNEL_DIR": str(folder), **told}
        done = subprocess.run([HOOKS / "epilog"], env=environment, capture_output=True, timeout=30, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
        found, trouble = read_epilog(job, folder)
        assert trouble == "" and {line.node for line in found} <= {"n7.site"}
        return [line.text for line in found]

    return call


def now_s() -> float:
    """Return the time since boot, as the kernel's log counts."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def test_the_epilog_keeps_the_kills_of_its_own_job(epilog: Callable[..., list[str]]) -> None:
    own, other, kin = ((KILL.format(job=job, pid=pid)) for job, pid in ((4711, 11), (4712, 12), (47110, 13)))
    killed = [KILLED.format(pid=pid) for pid in (11, 12, 13)]
    lines = [(now_s(), text) for text in ("noise", own, killed[0], other, killed[1], kin, killed[2])]
    assert epilog(lines) == [own, killed[0]]


def test_what_the_epilog_keeps_is_for_the_jobs_user_alone_and_says_when(
    epilog: Callable[..., list[str]], tmp_path: Path
) -> None:
    before = time.time()
    epilog([(now_s(), KILL.format(job=4711, pid=11))])
    (path,) = (tmp_path / "site/kernel").glob("*")
    assert path.name == "4711.n7.site"
    assert path.stat().st_mode & 0o777 == 0o440 and path.stat().st_uid == os.getuid()
    (line,), _ = read_epilog("4711", path.parent)
    assert abs(line.at - before) < 60


@pytest.mark.parametrize(
    ("age_s", "environ", "kept"),
    [
        pytest.param(10, {"SLURM_JOB_GPUS": "0"}, True, id="in its time"),
        pytest.param(600, {"SLURM_JOB_GPUS": "0"}, False, id="before its start"),
        pytest.param(10, {}, False, id="without a GPU"),
        pytest.param(300, {"SLURM_JOB_GPUS": "0", "SLURM_JOB_START_TIME": "early"}, False, id="start is no number"),
    ],
)
def test_the_epilog_keeps_xids_while_a_job_with_a_gpu_ran(
    epilog: Callable[..., list[str]], age_s: float, environ: dict[str, str], kept: bool
) -> None:
    assert epilog([(now_s() - age_s, XID)], **environ) == ([XID] if kept else [])


@pytest.mark.parametrize(
    ("job_gpus", "kept"), [("0", [0]), ("1", [1]), ("0,1", [0, 1]), ("2", [0, 1]), ("0-1", [0, 1])]
)
def test_the_epilog_keeps_xids_of_the_jobs_own_gpus_where_it_can_tell(
    epilog: Callable[..., list[str]], tmp_path: Path, job_gpus: str, kept: list[int]
) -> None:
    for minor, address in enumerate(("0000:65:00.0", "0000:b1:00.0")):
        (tmp_path / "gpus" / address).mkdir(parents=True)
        text = f"Model: \t\t NVIDIA H100\nDevice Minor: \t {minor}\nGPU Firmware: \t 550\n"
        (tmp_path / "gpus" / address / "information").write_text(text)
    lines = [XID, XID.replace("0000:65:00", "0000:B1:00")]
    told = {"SLURM_JOB_GPUS": job_gpus, "GPUALERT_NVIDIA_GPUS": str(tmp_path / "gpus")}
    assert epilog([(now_s() - 10, line) for line in lines], **told) == [lines[number] for number in kept]


@pytest.mark.parametrize("awk", ["mawk", "gawk", "busybox"])
def test_the_epilog_does_with_any_awk(epilog: Callable[..., list[str]], tmp_path: Path, awk: str) -> None:
    if not (found := shutil.which(awk)):
        pytest.skip(f"no {awk} here")
    (tmp_path / "tools/awk").symlink_to(found)
    own, killed = KILL.format(job=4711, pid=11), KILLED.format(pid=11)
    lines = [own, KILLED.format(pid=12), killed, XID]
    assert epilog([(now_s(), line) for line in lines], SLURM_JOB_GPUS="0") == [own, killed, XID]


def test_the_start_that_slurm_tells_the_epilog_is_taken(epilog: Callable[..., list[str]]) -> None:
    started = str(int(time.time()) - 1000)
    assert epilog([(now_s() - 900, XID)], SLURM_JOB_GPUS="0", SLURM_JOB_START_TIME=started) == [XID]


@pytest.mark.parametrize("dmesg", ["exit 1; cat", "yes | head -c 100000; cat", "printf '\\377\\000\\n[x] ]'; cat"])
def test_the_epilog_never_fails_and_writes_nothing_for_nothing(
    epilog: Callable[..., list[str]], dmesg: str, tmp_path: Path
) -> None:
    assert epilog([], dmesg=dmesg) == []
    assert not (tmp_path / "site").exists()


def test_a_site_folder_that_cannot_be_made_costs_only_the_lines(
    epilog: Callable[..., list[str]], tmp_path: Path
) -> None:
    (tmp_path / "site").write_text("a file stands where the folder should be")
    assert epilog([(now_s(), KILL.format(job=4711, pid=11))]) == []


def test_the_epilog_writes_nothing_where_others_may_write(epilog: Callable[..., list[str]], tmp_path: Path) -> None:
    folder = tmp_path / "site/kernel"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    epilog([(now_s(), KILL.format(job=4711, pid=11))])
    assert list(folder.iterdir()) == []


def test_a_folder_that_others_may_write_in_is_not_believed(epilog: Callable[..., list[str]], tmp_path: Path) -> None:
    epilog([(now_s(), KILL.format(job=4711, pid=11))])
    folder = tmp_path / "site/kernel"
    folder.chmod(0o777)
    assert read_epilog("4711", folder) == ([], f"{folder} can be changed by others")


@pytest.mark.parametrize(
    "content",
    [b"", b"gpualert-kernel/2\nend=1\n1.0 x\n", b"gpualert-kernel/1\njob_id=4711\n1.0 x\n", b"\xff\xfe\x00"],
    ids=["empty", "another format", "cut off", "no text"],
)
def test_a_file_that_the_epilog_did_not_write_whole_holds_no_lines(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "4711.n1").write_bytes(content)
    tmp_path.chmod(0o755)
    assert read_epilog("4711", tmp_path) == ([], "")


def test_lines_without_a_time_are_left_out_and_links_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "4711.n1").write_text("gpualert-kernel/1\nend=1\nsoon x\n12.5 y\n")
    assert [(line.at, line.text, line.node) for line in read_epilog("4711", tmp_path)[0]] == [(12.5, "y", "n1")]
    (tmp_path / "4711.n2").symlink_to("/etc/passwd")
    found, trouble = read_epilog("4711", tmp_path)
    assert found == [] and "symbolic link" in trouble
    assert read_epilog("../4711", tmp_path) == ([], "") == read_epilog("*", tmp_path)


# --- The task prolog ---------------------------------------------------------


def prolog(hook: Path, settings: Path, **environ: str) -> list[str]:
    """Return the lines that a task prolog prints."""
    environment = {"PATH": "/usr/bin:/bin", "USER": "ann", "GPUALERT_TASK_SETTINGS": str(settings), **environ}
    done = subprocess.run([hook], env=environment, capture_output=True, text=True, timeout=20, check=True)
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_the_task_prolog_gives_the_sites_settings_and_leaves_the_users(tmp_path: Path) -> None:
    settings = tmp_path / "task.env"
    settings.write_text(
        "# ours\nGPUALERT_HOME=/scratch/%u/gpualert\nGPUALERT_TO=$(touch x)\nPATH=/evil\nGPUALERT_A b=1\n"
    )
    path = f"export PATH=/usr/bin:/bin:{HOOKS.parents[1]}/bash"
    given = ["export GPUALERT_HOME=/scratch/ann/gpualert", "export GPUALERT_TO=$(touch x)", path]
    assert prolog(HOOKS / "task_prolog", settings) == given
    assert prolog(HOOKS / "task_prolog", settings, GPUALERT_HOME="") == given[1:]


def test_the_task_prolog_adds_no_path_where_the_command_is_found(tmp_path: Path) -> None:
    (tmp_path / "gpualert").write_text("#!/bin/sh\n")
    (tmp_path / "gpualert").chmod(0o755)
    assert prolog(HOOKS / "task_prolog", tmp_path / "none", PATH=f"/usr/bin:/bin:{tmp_path}") == []


def test_the_task_prolog_of_an_installation_names_its_python(tmp_path: Path) -> None:
    files = tmp_path / "venv/lib/python3.11/site-packages/gpualert/_files"
    (tmp_path / "venv/bin").mkdir(parents=True)
    (tmp_path / "venv/bin/python3").symlink_to("/bin/sh")
    shutil.copytree(HOOKS, files / "hooks/slurm")
    (files / "bash").mkdir()
    shutil.copy(HOOKS.parents[1] / "bash/gpualert", files / "bash")
    assert prolog(files / "hooks/slurm/task_prolog", tmp_path / "none") == [
        f"export PATH=/usr/bin:/bin:{files}/bash",
        f"export GPUALERT_PYTHON={tmp_path}/venv/bin/python3",
    ]


# --- scrontab ----------------------------------------------------------------


def test_scrontabs_lines_are_options_and_one_entry_that_works_in_an_empty_environment(
    make_run: RunBuilder, state: Path
) -> None:
    post(make_run())
    *options, entry = scrontab_lines(shim(), Path(sys.executable), state)
    assert options and all(option.startswith("#SCRON --") for option in options)
    assert f"#SCRON --output={state}/scron.log" in options
    assert entry.startswith("*/5 * * * * env ")
    command = entry.removeprefix("*/5 * * * * ")
    done = subprocess.run(["/bin/sh", "-c", command], env={}, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert (state / "locks/ticked").exists()


def test_a_percent_sign_in_a_path_is_no_pattern_for_slurm_and_stays_in_the_command() -> None:
    *options, entry = scrontab_lines(Path("/a b/gpualert"), Path("/x%y/python"), Path("/st%ate"))
    assert "#SCRON --output=/st%%ate/scron.log" in options
    assert "GPUALERT_PYTHON=/x%y/python" in entry and "'/a b/gpualert' tick" in entry


@pytest.mark.parametrize("name", ["mailprog", "epilog", "task_prolog"])
def test_the_hooks_are_clean_shell(name: str) -> None:
    for words in (["shellcheck", "--enable=all"], ["shfmt", "-d", "-ln", "posix", "-i", "4", "-s"]):
        if not shutil.which(words[0]):
            pytest.skip(f"no {words[0]} here")
        assert subprocess.run([*words, HOOKS / name], check=False).returncode == 0
