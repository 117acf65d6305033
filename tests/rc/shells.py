"""A person's shell with the rc line in it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

BASH_FOLDER = Path(__file__).parents[2] / "bash"
GPUALERT = BASH_FOLDER / "gpualert"
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# How a shell is started, and the word for `gpualert init`.
SHELLS = {
    "dash": (["dash"], "sh"),
    "bash": (["bash", "--norc"], "bash"),
    "bash-posix": (["bash", "--posix"], "bash"),
    "bash-aliases": (["bash", "-O", "expand_aliases"], "bash"),
    "busybox": (["busybox", "ash"], "sh"),
    "zsh": (["zsh", "-f"], "zsh"),
    "zsh-sh": (["zsh", "--emulate", "sh"], "sh"),
}
# Not required: shells whose users may source the sh form.
GUESTS = {"mksh": (["mksh"], "sh"), "ksh": (["ksh"], "sh")}


@dataclass(frozen=True)
class Said:
    """What a shell printed, and its status."""

    status: int
    out: str
    err: str


class Person:
    """
    A home folder, programs on PATH, and a shell.

    Attributes:
        shell: A key of SHELLS or GUESTS.
        bin: A folder on PATH.
    """

    def __init__(self, root: Path, shell: str) -> None:
        self.shell, self.root = shell, root
        self.home, self.bin, self.state = root / "home", root / "bin", root / "state"
        self.home.mkdir(parents=True)
        self.bin.mkdir()

    @property
    def environ(self) -> dict[str, str]:
        """The environment of the shell."""
        return {
            "HOME": str(self.home),
            "PATH": f"{self.bin}:{SYSTEM_PATH}",
            "GPUALERT_HOME": str(self.state),
            "GPUALERT_POST": "tick",
            "GPUALERT_PYTHON": sys.executable,
            "TMPDIR": str(self.root),
            "LC_ALL": "C.UTF-8",
            "TERM": "xterm",
        }

    def line(self, script: Path = GPUALERT) -> str:
        """Return the rc line."""
        return f"eval \"$('{script}' init {({**SHELLS, **GUESTS})[self.shell][1]})\"\n"

    def program(self, name: str, status: int = 0) -> None:
        """Put a program on PATH that prints its words."""
        path = self.bin / name
        path.write_text(f'#!/bin/sh\nprintf "[{name}"\nprintf " <%s>" "$@"\nprintf "]\\n"\nexit {status}\n')
        path.chmod(0o755)

    def run(self, text: str, **variables: str) -> Said:
        """Have the shell read a file."""
        words, _ = ({**SHELLS, **GUESTS})[self.shell]
        program = shutil.which(words[0], path=SYSTEM_PATH)
        assert program, f"{words[0]} is not installed"
        script = self.root / "script"
        script.write_text(text)
        done = subprocess.run(
            [program, *words[1:], script],
            env={**self.environ, **variables},
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            check=False,
            start_new_session=True,
        )
        return Said(done.returncode, done.stdout.decode(), done.stderr.decode())

    def runs(self) -> list[tuple[list[str], list[str]]]:
        """Return the words and the options of each recorded run, oldest first."""
        found = []
        for path in sorted((self.state / "runs").glob("*"), key=os.path.getmtime):
            options = path / "options"
            found.append((_items(path / "argv"), _items(options) if options.exists() else []))
        return found


def _items(path: Path) -> list[str]:
    return path.read_text().split("\0")[:-1]
