"""An ordinary user of a Slurm cluster: submits jobs, waits for what they do, and speaks to Slurm."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpus.make.sandbox import CHECKOUT, BoxError
from tests.engines.cluster import Cluster
from tests.engines.daemons import wait_until

# Printed by a job from when on somebody may end it.
MARK = "epoch 2 begins"
_UNDER_WAY = frozenset(
    ("PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "SUSPENDED", "STOPPED")
)


@dataclass(frozen=True)
class User:
    """
    An ordinary user of the cluster.

    Attributes:
        home: The home folder, which all nodes see; jobs run in `project` below it.
    """

    cluster: Cluster
    home: Path

    @property
    def project(self) -> Path:
        """Where the jobs run, and their output lands."""
        return self.home / "project"

    def run(self, *words: str, limit_s: float = 90) -> str:
        """
        Run a program in the project; return what it prints.

        Raises:
            BoxError: It failed, or did not end in time.
        """
        done = self.try_to(*words, limit_s=limit_s)
        if done.returncode:
            raise BoxError(f"{words[0]} ended with status {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def try_to(self, *words: str, limit_s: float = 90) -> subprocess.CompletedProcess[str]:
        """Run a program in the project, however it ends."""
        return self._run(words, limit_s, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run_job(self, line: str, limit_s: float) -> None:
        """Run a line of bash as on a login node; what it prints goes to `login.out`, and its end is its own affair."""
        with (self.project / "login.out").open("ab") as out:
            self._run(["bash", "-c", line], limit_s, stdout=out, stderr=out)

    def _run(self, words: Any, limit_s: float, **more: Any) -> subprocess.CompletedProcess[Any]:
        name = self.cluster.user
        path = f"{self.cluster.python.parent}:/usr/local/bin:/usr/bin:/bin:{CHECKOUT / 'bash'}"
        environ = {"PATH": path, "HOME": str(self.home), "USER": name, "LOGNAME": name, "LANG": "C.UTF-8"}
        environ |= {"GPUALERT_MAIL": "none", "GPUALERT_PYTHON": str(self.cluster.python)}
        environ |= {"XDG_CACHE_HOME": str(self.cluster.base / "work/cache"), "PYTHONDONTWRITEBYTECODE": "1"}
        try:
            return subprocess.run(
                ["setpriv", "--reuid", name, "--regid", name, "--init-groups", "--", *words],
                cwd=self.project,
                env=environ,
                stdin=subprocess.DEVNULL,
                timeout=limit_s,
                check=False,
                **more,
            )
        except subprocess.TimeoutExpired as error:
            raise BoxError(f"{words[0]} did not end within {limit_s:g} s") from error

    def submit(self, script: str, options: str) -> str:
        """Submit lines of bash; return the job's number."""
        (self.project / "job.sh").write_text(f"#!/bin/bash\n{script}\n")
        return self.run("sbatch", "--parsable", *options.split(), "job.sh").strip()

    def wait_for(self, job: str, text: str = MARK, limit_s: float = 90) -> None:
        """Wait until a job has written something."""
        out = self.project / f"slurm-{job}.out"
        wait_until(lambda: out.exists() and text in out.read_text(errors="replace"), limit_s, f"'{text}' of job {job}")

    def wait(self, job: str, limit_s: float = 200) -> None:
        """Wait until a job has ended, with all it leaves behind."""
        wait_until(lambda: not self._states(job) & _UNDER_WAY, limit_s, f"the end of job {job}")

    def _states(self, job: str) -> set[str]:
        queued = self.try_to("squeue", "-h", "-j", job, "-o", "%T").stdout.split()
        told = self.run("sacct", "-X", "-n", "-P", "-j", job, "--format=State").split()
        return {*queued, *(told[:1] or ["PENDING"])}

    def start_again(self, job: str) -> None:
        """Let a job that was put back into the queue start at once, not after Slurm's two minutes."""
        ask = ["squeue", "-h", "-j", job, "-o", "%T %r"]
        wait_until(lambda: "BeginTime" in self.run(*ask), 90, f"job {job} to wait for its next start")
        self.run("scontrol", "update", f"JobId={job}", "StartTime=now")
