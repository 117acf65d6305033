"""A user of the cluster, for tests: submits jobs, waits for their end, finds the runs and reads the messages."""

from __future__ import annotations

import email
import email.policy
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.message import EmailMessage
from pathlib import Path

from outcomes import body, messages

from gpualert.places import shim

from .cluster import Cluster
from .daemons import wait_until

GPUALERT = f"/bin/sh {shim()}"
_UNDER_WAY = ("PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "SUSPENDED", "RESIZING")


@dataclass(frozen=True)
class Accounted:
    """What sacct says of a job: the first word of its state, `exit code:signal`, and where it ran."""

    state: str
    exit_code: str
    nodes: str


@dataclass(frozen=True)
class Told:
    """
    What a message tells, for comparison with the truth.

    Attributes:
        subject: Without how long it took.
        status, failure_class: From the headers.
        why: The line that shows it.
        where: Its file and number; or which signal said it, and the node.
        host, job: Of the table about the run.
    """

    subject: str
    status: str
    failure_class: str
    why: str
    where: str
    host: str
    job: str


def told(mail: EmailMessage) -> Told:
    """Return what a message tells."""
    found = fields(mail)
    return Told(
        subject=re.sub(r" after [0-9][0-9.a-z]*( [0-9]+[a-z]+)*", "", str(mail["Subject"]).strip()),
        status=str(mail["X-Gpualert-Status"]),
        failure_class=str(mail["X-Gpualert-Class"]),
        why=found.get("Why", ""),
        where=found.get("Line", ""),
        host=found.get("Host", ""),
        job=found.get("Job", ""),
    )


def fields(mail: EmailMessage) -> dict[str, str]:
    """Return the labelled lines of a message, `Why   ...`, folded lines as one; the first of each label."""
    found: dict[str, str] = {}
    for block in re.findall(r"^([A-Z][A-Za-z ]*?) {2,}(\S.*(?:\n {4,}\S.*)*)", body(mail), re.MULTILINE):
        found.setdefault(block[0], " ".join(block[1].split()))
    return found


@dataclass
class User:
    """
    One user with a work folder and a state folder of its own.

    Attributes:
        work: The current directory of the jobs; Slurm's output files land here.
        environ: The environment of `sbatch` and `srun`, and so of the jobs.
    """

    cluster: Cluster
    work: Path
    environ: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        home = self.work / "home"
        home.mkdir(parents=True)
        for path in (self.work, home):
            shutil.chown(path, self.cluster.user, self.cluster.user)
        defaults = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(home), "USER": self.cluster.user}
        defaults |= {"LANG": "C.UTF-8", "XDG_CACHE_HOME": str(self.cluster.base / "work/cache")}
        defaults |= {"GPUALERT_HOME": str(self.state), "GPUALERT_PYTHON": str(self.cluster.python)}
        self.environ = {**defaults, **self.environ}

    @property
    def state(self) -> Path:
        """The state folder."""
        return self.work / "state"

    def run(
        self, *words: str | Path, check: bool = True, limit_s: float = 90, environ: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a program as this user, in the work folder."""
        return subprocess.run(
            ["setpriv", "--reuid", self.cluster.user, "--regid", self.cluster.user, "--init-groups", "--", *words],
            cwd=self.work,
            env={**self.environ, **(environ or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=limit_s,
            check=check,
        )

    def gpualert(self, *words: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a command of gpualert as this user, outside any job."""
        return self.run("/bin/sh", shim(), *words, check=check)

    def sbatch(self, script: str, *options: str, name: str = "job", environ: Mapping[str, str] | None = None) -> str:
        """Submit a script (a `#!/bin/bash` line is put before it), and return the job's number."""
        path = self.work / f"{name}.sh"
        path.write_text(f"#!/bin/bash\n{script}\n")
        shutil.chown(path, self.cluster.user)
        return self.run("sbatch", "--parsable", f"--job-name={name}", *options, path, environ=environ).stdout.strip()

    def accounted(self, job: str) -> Accounted | None:
        """Return what sacct says of a job now; None where it does not know it yet."""
        words = ["sacct", "-X", "-n", "-P", "-j", job, "--format=State,ExitCode,NodeList"]
        lines = self.run(*words).stdout.splitlines()
        if not lines:
            return None
        state, exit_code, nodes = lines[-1].split("|")
        return Accounted((state.split() or [""])[0], exit_code, nodes)

    def wait(self, job: str, limit_s: float = 60) -> Accounted:
        """Return what sacct says of a job that has ended, with all it leaves behind."""

        def ended() -> Accounted | None:
            queued = self.run("squeue", "-h", "-j", job, "-o", "%T", check=False).stdout.split()
            if set(queued) & {*_UNDER_WAY, "STOPPED"}:
                return None
            found = self.accounted(job)
            return found if found and found.state not in _UNDER_WAY else None

        found: Accounted = wait_until(ended, limit_s, f"job {job}")
        return found

    def wait_for_output(self, job: str, text: str, limit_s: float = 60) -> None:
        """Wait until a job has written something."""
        wait_until(lambda: text in self.output(job), limit_s, f"'{text}' of job {job}")

    def start_again(self, job: str, limit_s: float = 60) -> None:
        """Let a job that was put back into the queue start at once, not after Slurm's two minutes."""

        def waits() -> bool:
            shown = self.run("squeue", "-h", "-j", job, "-o", "%T %r", check=False).stdout
            return "BeginTime" in shown

        wait_until(waits, limit_s, f"job {job} to wait for its next start")
        self.run("scontrol", "update", f"JobId={job}", "StartTime=now")

    def finish(self, script: str, *options: str, name: str = "job", limit_s: float = 60) -> tuple[str, Accounted]:
        """Submit a script and wait for its end; return the job's number and what sacct says."""
        job = self.sbatch(script, *options, name=name)
        return job, self.wait(job, limit_s)

    def mails(self) -> list[EmailMessage]:
        """Return the messages that have arrived, the oldest first."""
        return messages(self.state)

    def mailed(self, recipient: str, limit_s: float = 60) -> EmailMessage:
        """Return the message that our MailProg sent to somebody, once it is there; no other may have come."""

        def found() -> list[EmailMessage]:
            return [mail for mail in map(_parsed, self.cluster.base.glob("mail/*.eml")) if mail["To"] == recipient]

        wait_until(found, limit_s, f"a message to {recipient}")
        (mail,) = found()
        return mail

    def passed_on(self, recipient: str) -> list[list[str]]:
        """Return the words that our MailProg gave to the system's mail program for somebody."""
        calls = [path.read_text().split("\0")[:-2] for path in self.cluster.base.glob("plain/*.mail")]
        return [words for words in calls if words[-1:] == [recipient]]

    def runs(self) -> list[Path]:
        """Return the run directories, the oldest first."""
        return sorted((self.state / "runs").glob("*"))

    def output(self, job: str) -> str:
        """Return what Slurm's output file of a job holds."""
        path = self.work / f"slurm-{job}.out"
        return path.read_text(errors="replace") if path.exists() else ""


def _parsed(path: Path) -> EmailMessage:
    found = email.message_from_bytes(path.read_bytes(), policy=email.policy.default)
    assert isinstance(found, EmailMessage)
    return found
