"""Fixtures: each test that asks for `person` runs in every shell, unless it names some."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from .shells import GUESTS, SHELLS, SYSTEM_PATH, Person


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test once a shell; the marker `rc_shells` narrows them."""
    if "shell" in metafunc.fixturenames:
        marker = metafunc.definition.get_closest_marker("rc_shells")
        guests = [name for name in GUESTS if shutil.which(name, path=SYSTEM_PATH)]
        metafunc.parametrize("shell", list(marker.args) if marker else [*SHELLS, *guests])


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", "rc_shells(*names): the only shells in which this promise could break")


@pytest.fixture
def person(tmp_path: Path, shell: str) -> Person:
    """Return a person who uses `shell`."""
    return Person(tmp_path / "person", shell)
