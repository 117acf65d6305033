"""Fixtures for tests with real engines."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from .cluster import Cluster, missing
from .jobs import User


@pytest.fixture(scope="session")
def slurm() -> Iterator[Cluster]:
    """Have a Slurm cluster up: started here, by another worker of this test run, or by hand before it."""
    if reason := missing():
        pytest.skip(f"no Slurm cluster: {reason}")
    cluster = Cluster()
    with cluster.used():
        yield cluster


@pytest.fixture
def user(slurm: Cluster) -> User:
    """Return a user of the cluster, with folders of its own that all nodes see."""
    folder = Path(tempfile.mkdtemp(prefix="user-", dir=slurm.base / "work"))
    folder.chmod(0o755)
    return User(slurm, folder / "project")
