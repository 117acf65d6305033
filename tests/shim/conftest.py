"""Fixtures of the shim's tests: each test that asks for `shell` or `world` runs in every shell."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from .world import SHELLS, World


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker that names the shells of a test."""
    config.addinivalue_line("markers", "shells(*names): the only shells in which this promise could break")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test once a shell; GPUALERT_TEST_SHELLS narrows them, the marker `shells` too."""
    if "shell" not in metafunc.fixturenames:
        return
    asked = os.environ.get("GPUALERT_TEST_SHELLS", " ".join(SHELLS)).split()
    marker = metafunc.definition.get_closest_marker("shells")
    fitting = marker.args if marker else tuple(SHELLS)
    metafunc.parametrize("shell", [name for name in asked if name in fitting])


@pytest.fixture
def world(tmp_path: Path, shell: str) -> Iterator[World]:
    """A scratch world in which the shim runs in `shell`."""
    scratch = World(tmp_path / "world", shell)
    yield scratch
    scratch.close()
