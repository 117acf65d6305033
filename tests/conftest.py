"""What tests share: a state folder of their own, and run directories with sensible defaults."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from rundirs import RunBuilder
from slurm_fakes import FakeSlurm
from smtp_server import MailServer


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder for compiled rules, which all tests share."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def no_locks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build what takes the locks away; return the library."""
    if not shutil.which("gcc"):
        pytest.skip("no C compiler to take the locks away")
    library = tmp_path_factory.mktemp("no_locks") / "flock.so"
    source = Path(__file__).parent / "no_locks" / "flock.c"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
    return library


@pytest.fixture(autouse=True)
def private_world(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep every test away from the user's own state, settings and runs."""
    for name in [name for name in os.environ if name.startswith("GPUALERT_")]:
        monkeypatch.delenv(name)
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    monkeypatch.setenv("GPUALERT_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("TMPDIR", str(scratch))
    monkeypatch.setenv("GPUALERT_DIGEST_KEEPER", "no")  # nothing of ours stays behind
    monkeypatch.setattr("gpualert.state.FALLBACK_PLACES", ())


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Return the state folder; nothing in it exists yet."""
    return tmp_path / "state"


@pytest.fixture
def make_run(state: Path) -> RunBuilder:
    """Return a builder of run directories in the state folder."""
    return RunBuilder(state)


@pytest.fixture
def fake_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    """Return programs that stand in for `sacct` and `scontrol`, found before real ones."""
    found = FakeSlurm(tmp_path / "slurm-bin", tmp_path / "project")
    monkeypatch.setenv("PATH", f"{found.folder}:/usr/bin:/bin")
    monkeypatch.setattr("gpualert.signals.slurm._PLACES", ())
    return found


@pytest.fixture(scope="session")
def running_server() -> Iterator[MailServer]:
    """Have a mail server that all tests share."""
    with MailServer().running() as server:
        yield server


@pytest.fixture
def server(running_server: MailServer) -> MailServer:
    """Return a mail server without encryption or login, which has got nothing and takes everything."""
    running_server.forget()
    return running_server
