"""A pipeline for tests: a Snakefile in a folder of its own, and what gpualert has to say of it."""

from __future__ import annotations

import json
import os
import subprocess
import textwrap
import time
from dataclasses import dataclass, field
from email.message import EmailMessage
from pathlib import Path
from typing import Any

from outcomes import messages

from .snakemake_venv import SnakemakeVenv

# The ways in: what goes before the rules, and options of snakemake.
INCLUDE, LOGGER, WRAP, PATH = "include", "logger", "logger and wrap", "logger and PATH"
SHIMMED = (INCLUDE, WRAP, PATH)


@dataclass(frozen=True)
class Ended:
    """What a program left: its status, and both its streams in one."""

    status: int
    output: str

    @property
    def complaints(self) -> list[str]:
        """What gpualert itself said."""
        return [line for line in self.output.splitlines() if line.startswith("gpualert: ")]


@dataclass
class Pipeline:
    """A Snakefile in a folder of its own."""

    venv: SnakemakeVenv
    folder: Path
    environ: dict[str, str] = field(default_factory=dict)

    @property
    def state(self) -> Path:
        """The state folder."""
        return self.folder / "state"

    def write(self, snakefile: str, way: str = "") -> None:
        """Write the Snakefile, with the line that a way asks for."""
        first = f'include: "{self.venv.files / "gpualert.smk"}"\n' if way == INCLUDE else ""
        wrappers = f'WRAPPERS = "file:{self.venv.files / "wrappers"}"\n'
        (self.folder / "Snakefile").write_text(first + wrappers + textwrap.dedent(snakefile))

    def run(self, way: str = "", *options: str, limit_s: float = 100, **environ: str) -> Ended:
        """Run it."""
        environ = self.environment() | environ
        asked = ["--logger", "gpualert"] if way in (LOGGER, WRAP, PATH) else []
        if way == WRAP:
            asked.append("--logger-gpualert-wrap")
        if way == PATH:
            environ["PATH"] = f"{self.venv.files / 'bin'}:{environ['PATH']}"
        return self._run([self.venv.snakemake, "--cores", "4", *asked, *options], environ, limit_s)

    def gpualert(self, *words: str) -> Ended:
        """Run a command of gpualert."""
        return self._run([self.venv.gpualert, *words], self.environment(), 60)

    def environment(self) -> dict[str, str]:
        """Return the variables that programs get."""
        return {**os.environ, "GPUALERT_HOME": str(self.state), "GPUALERT_POST": "wait", **self.environ}

    def _run(self, words: list[str], environ: dict[str, str], limit_s: float) -> Ended:
        done = subprocess.run(
            words,
            cwd=self.folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=limit_s,
            check=False,
        )
        return Ended(done.returncode, done.stdout)

    def story(self) -> dict[str, Any]:
        """Return what is known of the workflow that ran last."""
        found = self.gpualert("workflow", "--json")
        assert found.status == 0, found.output
        story: dict[str, Any] = json.loads(found.output)
        return story

    def wait_for_mail(self) -> None:
        """Wait until a message has come: where only wrappers watch, it comes a little after the end."""
        ends = time.monotonic() + 60
        while not self.mails():
            assert time.monotonic() < ends, "no message came"
            time.sleep(0.1)

    def mails(self) -> list[EmailMessage]:
        """Return the messages that were sent."""
        return messages(self.state)


def told(story: dict[str, Any]) -> dict[str, list[tuple[Any, ...]]]:
    """Return each job that failed as `outcome rule wildcards`, with class, exit status and line of its attempts."""
    return {
        " ".join(filter(None, (job["outcome"], job["rule"], job["wildcards"]))): [
            (one["class"], one["exit_status"], one["line"]) for one in job["attempts"]
        ]
        for job in story["jobs"]
    }
