"""One user's desk: shells on terminals, with and without `gpualert run` before each command."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from shim.waiting import eventually
from shim.world import GPUALERT, SYSTEM_PATH, World, shell_argv

from .emulator import Terminal

JOBS = Path(__file__).with_name("jobs")

# How each shell starts with nothing but our own start-up file, which $ENV, --rcfile or $ZDOTDIR names.
CALLERS = {
    "bash": ["bash", "--noprofile", "--rcfile", "{home}/.rc", "-i"],
    "zsh": ["zsh", "-d", "-i"],
    "dash": ["dash", "-i"],
    "busybox": ["busybox", "ash", "-i"],
}
# W comes before each command: nothing, or `gpualert run --`.  What is typed is then the same on both sides, and
# so are the screens.
RC = {
    "zsh": "W=({prefix})\nPS1='[%?]> '\nunsetopt PROMPT_SP PROMPT_CR BEEP NOMATCH BG_NICE\nunset HISTFILE\n",
    "bash": "W='{prefix}'\nPS1='[$?]> '\nunset HISTFILE\n",
}

T = TypeVar("T")


class Desk(World):
    """A World in which commands run on terminals, each behind the words of `prefix`."""

    prefix: tuple[str, ...] = ()

    def dress(self, prefix: tuple[str, ...]) -> Desk:
        """Put `gpualert` (in this world's shell) on PATH, and write the shells' start-up files."""
        self.prefix = prefix
        self.bin.mkdir(exist_ok=True)
        program = self.bin / "gpualert"
        words = shlex.join([*shell_argv(self.shell), str(GPUALERT)])
        program.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        program.chmod(0o755)
        for name in ("bash", "zsh"):
            text = RC[name].format(prefix=" ".join(prefix))
            (self.home / {"bash": ".rc", "zsh": ".zshrc"}[name]).write_text(text)
        return self

    bin = property(lambda self: self.root / "bin")

    def environment(self, changes: dict[Any, Any] | None = None) -> dict[bytes, bytes]:
        """Return the environment of a login on a terminal."""
        values = {
            "PATH": f"{self.bin}:{SYSTEM_PATH}",
            "TERM": "xterm-256color",
            "ENV": self.home / ".rc",
            "ZDOTDIR": self.home,
            "P": sys.executable,
            "J": JOBS,
            "GPUALERT_PYTHON": sys.executable,
        }
        return super().environment(values | (changes or {}))

    def terminal(self, *words: Any, env: dict[Any, Any] | None = None, **size: int) -> Terminal:
        """Start these very words on a terminal."""
        return Terminal(words, self.environment(env), self.cwd, **size)

    def command(self, *words: Any, **how: Any) -> Terminal:
        """Start a command on a terminal, behind the prefix."""
        prefix = (self.bin / self.prefix[0], *self.prefix[1:]) if self.prefix else ()
        return self.terminal(*prefix, *words, **how)

    def job(self, name: str, *words: Any, **how: Any) -> Terminal:
        """Start one of the programs in jobs/ on a terminal, behind the prefix."""
        return self.command(sys.executable, JOBS / name, *map(str, words), **how)

    def sit_down(self, caller: str = "bash", **how: Any) -> Terminal:
        """Start an interactive shell and wait for its prompt; `$W` before a command is the prefix."""
        words = [word.format(home=self.home) for word in CALLERS[caller]]
        term = self.terminal(*words, **how)
        term.prompt()
        return term

    def file(self, name: str) -> str:
        """Wait for a file that a job writes; return its text once its last line is complete."""
        path = self.cwd / name
        text = eventually(lambda: path.exists() and path.read_text().endswith("\n") and path.read_text(), str(path))
        return str(text)

    def relay(self) -> int:
        """Return the process id of the only run's relay."""
        return int(self.only_run().start["stdout_tee_pid"])

    def log(self, name: str = "output") -> bytes:
        """Return the final log of the only run."""
        return self.only_run().log(name)


class Sides:
    """The same desk twice: bare, and with `gpualert run --` before each command."""

    def __init__(self, root: Path, shell: str, options: tuple[str, ...] = ()) -> None:
        self.bare = Desk(root / "bare", shell).dress(())
        self.wrapped = Desk(root / "with", shell).dress(("gpualert", "run", *options, "--"))

    def same(self, observe: Callable[[Desk], T]) -> T:
        """Fail unless the observer sees the same on both sides; return what it saw."""
        bare = observe(self.bare)
        wrapped = observe(self.wrapped)
        assert wrapped == bare
        return bare

    def close(self) -> None:
        """End what the test left behind."""
        self.bare.close()
        self.wrapped.close()


def python(*words: Any) -> str:
    """Return a shell line that runs one of jobs/ with Python, behind the prefix."""
    name, *rest = map(str, words)
    return " ".join(["$W $P $J/" + name, *map(shlex.quote, rest)])
