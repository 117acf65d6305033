"""Fixtures of the terminal's tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.register_assert_rewrite("terminal.desk", "terminal.emulator")

from .desk import Desk, Sides  # noqa: E402

SHELLS = ("dash", "bash", "busybox", "zsh")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker that narrows a test's interactive shells."""
    config.addinivalue_line("markers", "callers(*names): the only interactive shells in which it could break")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """
    Run a test that asks for `shell` with the shim in each shell, one that asks for `caller` from each shell.

    One that asks for both runs with the shim in dash from each caller, and from bash with the shim in each.
    """
    asked = os.environ.get("GPUALERT_TEST_SHELLS", " ".join(SHELLS)).split()
    marker = metafunc.definition.get_closest_marker("callers")
    callers = [caller for caller in asked if not marker or caller in marker.args]
    if {"shell", "caller"} <= set(metafunc.fixturenames):
        pairs = [(shell, caller) for shell in asked for caller in callers if shell == "dash" or caller == "bash"]
        metafunc.parametrize("shell,caller", pairs)
    elif "shell" in metafunc.fixturenames:
        metafunc.parametrize("shell", asked)
    elif "caller" in metafunc.fixturenames:
        metafunc.parametrize("caller", callers)


def _shell_of(request: pytest.FixtureRequest) -> str:
    """Return the shell that runs the shim: dash where the test does not ask for others."""
    return str(request.getfixturevalue("shell")) if "shell" in request.fixturenames else "dash"


@pytest.fixture
def sides(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Sides]:
    """Return the same desk twice: bare and wrapped."""
    both = Sides(tmp_path, _shell_of(request))
    yield both
    both.close()


@pytest.fixture
def desk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Desk]:
    """Return a desk where each command is wrapped."""
    one = Desk(tmp_path / "desk", _shell_of(request)).dress(("gpualert", "run", "--"))
    yield one
    one.close()
