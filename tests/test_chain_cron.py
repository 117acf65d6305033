"""Chains under Debian's own cron, with its one-minute ticks: minutes of waiting, so `pytest -m long`."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from chains import Chains, detached_environ, job
from shim.namespaces import UNSHARE
from shim.waiting import eventually

from gpualert.model import ChainEnd

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

# A cron of our own, that sees nothing of the machine's: its tables, its lock and its log are in a private mount.
CRON = """
set -e
mount --make-rprivate /
for folder in /var/spool/cron /run /etc/cron.d; do mount -t tmpfs none "$folder"; done
mkdir -m 1730 /var/spool/cron/crontabs
install -m 600 "$1" /var/spool/cron/crontabs/root
exec cron -f
"""


@pytest.fixture
def chains(state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Chains:
    for name, value in detached_environ().items():
        monkeypatch.setenv(name, value)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return Chains(state)


@pytest.fixture
def cron(chains: Chains, tmp_path: Path) -> Iterator[Path]:
    """Have cron run the line that `gpualert crontab` prints; yield the file that its ticks complain to."""
    if not shutil.which("cron") or os.geteuid() != 0:
        pytest.skip("needs Debian's cron, and root to start one of our own")
    table, complaints = tmp_path / "crontab", tmp_path / "complaints"
    line = chains.run("crontab").strip()
    home = os.environ["HOME"]
    table.write_text(f'MAILTO=""\nHOME={home}\n{line} >>{complaints} 2>&1\n')
    Path(home).mkdir(exist_ok=True)
    daemon = subprocess.Popen([*UNSHARE, "/bin/sh", "-c", CRON, "sh", str(table)], start_new_session=True)
    try:
        yield complaints
        assert daemon.poll() is None, "cron has ended"
    finally:
        os.killpg(daemon.pid, signal.SIGKILL)
        daemon.wait()


def test_four_chains_come_to_their_ends_under_cron(chains: Chains, cron: Path) -> None:
    look = 'printf "%s|" "$CONDA_PREFIX" "$GPUALERT_EXCLUDE_NODES" "$*"; pwd'
    environ = {"CONDA_PREFIX": "/opt/conda", "SLURMD_NODENAME": "n1"}
    chains.start("fetch", job("network", "network", "success", more=look), environ=environ)
    chains.start("typo", job("file_not_found", more=look), environ=environ)
    save = f'{look}; echo weights >"step-$GPUALERT_ATTEMPT.pt"'
    resume = [*job("walltime", "success", more=save), "sh", "--resume={resume}"]
    chains.start("long", resume, "--early", "0", "--checkpoint", "step-*.pt", environ=environ)
    chains.start("moves", job("gpu_hardware", "success", more=look), environ=environ)
    ends = {"fetch": ChainEnd.SAVED, "typo": ChainEnd.NEEDS_PERSON, "long": ChainEnd.SAVED, "moves": ChainEnd.SAVED}
    eventually(lambda: {name: chains.story(name).end for name in ends} == ends, "the ends of all chains", 600)
    assert {name: chains.story(name).last for name in ends} == {"fetch": 3, "typo": 1, "long": 2, "moves": 2}
    here = Path.cwd()
    for name, number, said in [
        ("fetch", 3, f"/opt/conda|||{here}"),
        ("long", 2, f"/opt/conda||--resume={here}/step-1.pt|{here}"),
        ("moves", 2, f"/opt/conda|n1||{here}"),
    ]:
        assert chains.run("chain", "log", "--attempt", str(number), name).splitlines()[0] == said
    assert {subject.partition(":")[0] for subject in chains.subjects(4)} == {"OK", "FAILED file_not_found"}
    eventually(lambda: all((chains.path(name) / "over").exists() for name in ends), "the last tick", 120)
    assert len(chains.subjects(4)) == 4
    assert not cron.exists() or cron.read_text() == ""
