"""
A task as Nextflow's local executor runs it, as far as gpualert touches that.

Written from what Nextflow documents of a task's folder and from what its wrapper was seen to do: .command.run
sources beforeScript under `set -e`, runs the script by process.shell with both streams through tee, perhaps by way of
a second bash that measures it, then afterScript, and last writes .exitcode.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .language import Directives

_RUN = """#!/bin/bash
set -eu
cd {folder}
measured() {{
    {launch} &
    local task=$!
    wait $task
}}
ended() {{
    status=${{nxf_main_ret:=$?}}
    printf $status >.exitcode
    exit $status
}}
main() {{
    trap ended EXIT
    trap '' USR1
    set +u
{before}
    set -u
    set +e
    (set -o pipefail; ({outer} | tee .command.out) 3>&1 1>&2 2>&3 | tee .command.err) &
    wait $! || nxf_main_ret=$?
{after}
}}
${{1:-main}}
"""


@dataclass
class Task:
    """
    One attempt of a task.

    Attributes:
        folder: Its work folder.
        script: What .command.sh holds; `#!/bin/bash` is put before it.
        shell: process.shell.
        traced: Whether Nextflow measures it.
        container: Whether the script runs where gpualert is not to be seen.
    """

    directives: Directives
    folder: Path
    script: str
    attempt: int = 1
    shell: Sequence[str] = ("/bin/bash", "-ue")
    traced: bool = False
    container: bool = False
    name: str = "TRAIN (A)"
    ext: Mapping[str, str] = field(default_factory=dict)

    @property
    def known(self) -> dict[str, Any]:
        """What Nextflow's `task` holds of it."""
        process, _, tag = self.name.partition(" (")
        tag = tag.removesuffix(")")
        digest = hashlib.md5(str(self.folder).encode()).hexdigest()
        exit_file = self.folder / ".exitcode"
        return {
            "name": self.name,
            "process": process,
            "tag": tag or None,
            "hash": digest,
            "attempt": self.attempt,
            "workDir": str(self.folder),
            "exitStatus": int(exit_file.read_text()) if exit_file.exists() else 2**31 - 1,
            "ext": dict(self.ext),
        }

    def run(self, environ: Mapping[str, str]) -> int:
        """Run it to its end, and return what .exitcode says."""
        self.start(environ).wait(timeout=120)
        return int((self.folder / ".exitcode").read_text())

    def start(self, environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
        """Write its files and start it."""
        self.folder.mkdir(parents=True)
        (self.folder / ".command.sh").write_text(f"#!/bin/bash -ue\n{self.script}\n")
        shell = shlex.join(self.shell)
        launch = f"{shell} {shlex.quote(str(self.folder / '.command.sh'))}"
        if self.container:
            launch = f"env -u BASH_ENV {launch}"
        outer = f"{shell} {shlex.quote(str(self.folder / '.command.run'))} measured" if self.traced else launch
        (self.folder / ".command.run").write_text(
            _RUN.format(
                folder=shlex.quote(str(self.folder)),
                launch=launch,
                outer=outer,
                before=self.directives.value("beforeScript", **self.known),
                after=self.directives.value("afterScript", **self.known),
            )
        )
        with (self.folder / ".command.log").open("wb") as log:
            command = ["/bin/bash", str(self.folder / ".command.run")]
            return subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, **environ}
            )

    def strategy(self) -> str:
        """Return what errorStrategy says after it has failed."""
        return str(self.directives.value("errorStrategy", **self.known))

    def text(self, name: str) -> str:
        """Return a file of its folder; "" where there is none."""
        path = self.folder / name
        return path.read_text() if path.exists() else ""
