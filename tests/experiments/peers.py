"""What the experiments compare: ways to run a job, as a user would type them, and the set-up that each needs."""

from __future__ import annotations

import argparse
import logging
import os
import platform
import shlex
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "bench"), str(TESTS.parent)]

from overhead import GPUALERT, MARK, SYSTEM_PATH  # noqa: E402 (found only now)
from smtp_server import MailServer  # noqa: E402

OURS = "gpualert run"
_CONFIG = """\
[smtp]
server = "127.0.0.1"
port = {port}
use_tls = false
username = "me"

[email]
from_address = "me@example.org"
to_addresses = ["me@example.org"]
"""


@dataclass(frozen=True)
class Way:
    """
    One way to run a job and keep what it prints.

    Attributes:
        line: What is typed in sh; `"$@"` is the job, `$log` the file that a person would name.
        logs: Where the job's output then is: patterns of paths in the trial's folder.
        records: Files that may tell the exit status; `status` finds it there.
        program: What must be installed; "" for the shell alone.
        wrapper: Whether a process of its own stands between the shell and the job.
        mails: Whether it sends messages by itself.
    """

    name: str
    line: str
    logs: str = "disk/log"
    records: str = ""
    status: bytes = b""
    program: str = ""
    wrapper: bool = True
    mails: bool = False

    @property
    def is_ours(self) -> bool:
        """Whether it is this project's."""
        return self.name.startswith(OURS)

    @property
    def missing(self) -> str:
        """What it lacks on this machine; "" where it can be tried."""
        return "" if not self.program or shutil.which(self.program, path=SYSTEM_PATH) else self.program


PLAIN = (
    Way("`cmd > log 2>&1`", '"$@" >"$log" 2>&1', wrapper=False),
    Way("`nohup cmd > log 2>&1`", 'nohup "$@" >"$log" 2>&1', program="nohup", wrapper=False),
    Way("`cmd 2>&1 \\| tee log`", '"$@" 2>&1 | tee "$log"', program="tee"),
    Way(
        "`chronic -v cmd > log 2>&1`",
        'chronic -v "$@" >"$log" 2>&1',
        records="disk/log",
        status=rb"RETVAL: (\d+)",
        program="chronic",
    ),
    Way(
        "`script -qec cmd log`",
        'script -qec "$job" "$log"',
        records="disk/log",
        status=rb'COMMAND_EXIT_CODE="(\d+)"',
        program="script",
    ),
)


def ours(shell: str) -> Way:
    """Return this project's wrapper in a shell."""
    program = shutil.which(shell, path=SYSTEM_PATH) or shell
    line = f'{shlex.join([program, str(GPUALERT)])} run -- "$@"'
    logs, records = "**/runs/*/*.log", "**/runs/*/exit"
    return Way(f"{OURS} ({shell})", line, logs, records, rb"(?m)^status=(\d+)$", shell, mails=True)


def ours_under_nohup() -> Way:
    """Return `nohup gpualert run`, its output in a file: nothing is copied then, the run says where it is."""
    way = ours("dash")
    return replace(way, name=f"{OURS}, under nohup", line=f'nohup {way.line} >"$log" 2>&1', logs="disk/log")


def published(venv: Path) -> Way:
    """Return the package that PyPI calls gpualert, in a virtual environment of its own; it is only run, never read."""
    line = f'{shlex.quote(str(venv / "bin" / "gpualert"))} run -- "$@"'
    logs = "disk/home/.gpualert/logs/*/combined.log"
    return Way("published wrapper", line, logs, logs, rb"Exit code: (-?\d+)", mails=True)


def ways(peer: Path | None) -> list[Way]:
    """Return all ways that can be tried here, and say on standard error which cannot, and why."""
    found = [*PLAIN, *([published(peer)] if peer else []), ours("dash"), ours("bash"), ours_under_nohup()]
    for way in found:
        if way.missing:
            print(f"left out: {way.name}: {way.missing} is not installed", file=sys.stderr)
    if not peer:
        print("left out: the published wrapper: name its virtual environment with --peer", file=sys.stderr)
    return [way for way in found if not way.missing]


def add_peer(parser: argparse.ArgumentParser) -> None:
    """Add the option that names the published wrapper's virtual environment."""
    text = "virtual environment with the package that PyPI calls gpualert (pip install 'gpualert<1')"
    parser.add_argument("--peer", type=Path, metavar="VENV", help=text)


def environment(way: Way, folder: Path, port: int, job: Sequence[str] = ()) -> dict[str, str]:
    """
    Return the environment of a trial in `folder`, with messages going to a server on loopback.

    Its home, state and log lie in `folder/disk`, its compiled rules where other trials find them.  Whatever it starts
    carries a mark that `bench/overhead.py` finds.
    """
    disk, home, temporary = folder / "disk", folder / "disk" / "home", folder / "tmp"
    for path in (home, temporary):
        path.mkdir(parents=True, exist_ok=True)
    values = {"PATH": SYSTEM_PATH, "HOME": str(home), "LANG": "C.UTF-8", "TMPDIR": str(temporary), MARK: str(folder)}
    if way.is_ours:
        values |= MailServer(port=port).environ | {"GPUALERT_HOME": str(disk / "state"), "GPUALERT_POST": "detach"}
        values["XDG_CACHE_HOME"] = os.environ.get("XDG_CACHE_HOME", str(folder.parent / "cache"))  # of compiled rules
        values |= {"GPUALERT_PYTHON": sys.executable, "GPUALERT_DIGEST_WINDOW_S": "0", "GPUALERT_DIGEST_KEEPER": "no"}
    elif way.mails:
        values["GPUALERT_EMAIL_PASSWORD"] = "secret"
        config = home / ".gpualert" / "config.toml"
        config.parent.mkdir(mode=0o700, exist_ok=True)
        config.write_text(_CONFIG.format(port=port))
        config.chmod(0o600)
    return {**values, "log": str(disk / "log"), "job": shlex.join(job)}


@contextmanager
def mail_server(size_limit: int | None = None) -> Iterator[MailServer]:
    """Have a server that takes messages with or without a login, on which the published wrapper insists."""
    logging.getLogger("mail.log").setLevel(logging.ERROR)
    with MailServer(size_limit=size_limit).running() as server:
        server.user, server.password = "me", "secret"
        yield server


def markdown(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines) + "\n"


def conditions(load: float | None = None) -> str:
    """Say on what machine, and under what load, something was measured."""
    before = "" if load is None else f"{load:.2f} to "
    return f"{os.cpu_count()} cores, load {before}{os.getloadavg()[0]:.2f}, Linux {platform.release()}"
