"""The command demo: a real training loop that dies, through everything."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click

from gpualert.cli.common import say
from gpualert.config import load_settings
from gpualert.display import visible
from gpualert.errors import GpualertError
from gpualert.files import read_regular
from gpualert.places import shim
from gpualert.post import post
from gpualert.state import run_paths

SCRIPT = Path(__file__).parent.parent / "demo" / "train.py"


@click.command()
@click.option("--no-mail", is_flag=True, help="Send no message.")
def demo(no_mail: bool) -> int:
    """
    Run a small failing job through everything, print its report and where that lies.

    The job fits a line by gradient descent with a learning rate that is too large.  Status 0 when its failure was
    reported.
    """
    settings = load_settings()
    before = set(run_paths([settings.home]))
    words = ["--name", "demo", *(["--no-mail"] if no_mail else [])]
    command = ["/bin/sh", str(shim()), "run", *words, "--", sys.executable, str(SCRIPT)]
    say(f"$ gpualert run {' '.join(words)} -- python {SCRIPT.name}\n")
    environ = {**os.environ, "GPUALERT_HOME": str(settings.home.absolute()), "GPUALERT_PYTHON": sys.executable}
    environ.pop("GPUALERT_RUN_ID", None)
    sys.stdout.flush()
    status = subprocess.run(command, env={**environ, "GPUALERT_POST": "wait"}, check=False).returncode
    found = sorted(set(run_paths([settings.home])) - before)
    if not found:
        raise GpualertError(f"the demo's run was not recorded in '{settings.home}'; see: gpualert doctor")
    post(found[-1])  # where the shim could not
    _print_report(found[-1], status)
    return 0


def _print_report(path: Path, status: int) -> None:
    from gpualert.cli.look import print_report

    say(f"\nThe command's exit status, {status}, is the job's own.  The report:\n")
    print_report(path)
    message = path / "message.eml"
    say(f"\nThe run is in   {visible(str(path))}")
    if message.exists():
        say(f"The message is  {visible(str(message))}")
    for trouble in _troubles(path):
        say(f"Trouble:        {visible(trouble)}")
    say("Look around:    gpualert runs; gpualert show; gpualert log")


def _troubles(path: Path) -> list[str]:
    """Return what went wrong in reporting, a server that did not take the message perhaps."""
    try:
        return read_regular(path / "post.log", 10_000).decode("utf-8", "replace").splitlines()
    except (OSError, GpualertError):
        return []
