"""Fixtures for tests with real engines."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .cluster import Cluster, missing
from .jobs import User
from .snakemake_venv import SnakemakeVenv, make
from .snakemake_venv import missing as no_snakemake


@pytest.fixture(scope="session")
def slurm() -> Iterator[Cluster]:
    """Have a Slurm cluster up: started here, by another worker of this test run, or by hand before it."""
    if reason := missing():
        pytest.skip(f"no Slurm cluster: {reason}")
    cluster = Cluster()
    with cluster.used():
        yield cluster


@pytest.fixture(scope="session")
def make_user(slurm: Cluster) -> Callable[[], User]:
    """Return a maker of users of the cluster, each with folders of its own that all nodes see."""

    def make() -> User:
        folder = Path(tempfile.mkdtemp(prefix="user-", dir=slurm.base / "work"))
        folder.chmod(0o755)
        return User(slurm, folder / "project")

    return make


@pytest.fixture
def user(make_user: Callable[[], User]) -> User:
    """Return a user of the cluster."""
    return make_user()


@pytest.fixture(scope="session")
def snakemake(tmp_path_factory: pytest.TempPathFactory) -> SnakemakeVenv:
    """Return an environment with Snakemake and this checkout, the same for all workers of this test run."""
    if reason := no_snakemake():
        pytest.skip(reason)
    base = tmp_path_factory.getbasetemp()
    return make((base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base) / "snakemake-venv")
