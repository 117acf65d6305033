"""What an installed gpualert prints reaches the functions: a wheel, an editable install, a link as pipx makes it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
PARTS = ("pyproject.toml", "README.md", "LICENSE", "gpualert", "bash", "hooks", "workflows")


@pytest.fixture(scope="module", params=["wheel", "editable"])
def installed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the script of an installation in a folder of its own."""
    pytest.importorskip("hatchling", reason="the build backend is not installed: pip install hatchling")
    pytest.importorskip("editables", reason="hatchling builds no editable wheel without it: pip install editables")
    root = tmp_path_factory.mktemp(request.param)
    source = root / "source"
    for part in PARTS:
        path = CHECKOUT / part
        if path.is_dir():
            shutil.copytree(path, source / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            source.mkdir(exist_ok=True)
            shutil.copy(path, source / part)
    how = ["-e"] if request.param == "editable" else []
    words = ["install", "-q", "--no-deps", "--no-build-isolation", "--no-index", "--ignore-installed"]
    subprocess.run(
        [sys.executable, "-m", "pip", *words, "--prefix", root / "prefix", *how, source], check=True, timeout=100
    )
    return root / "prefix" / "bin" / "gpualert"


@pytest.mark.parametrize(("word", "program"), [("bash", "bash"), ("zsh", "zsh"), ("sh", "dash")])
@pytest.mark.parametrize("linked", [False, True], ids=["direct", "through a link"])
def test_the_rc_line_of_an_installation_works(
    installed: Path, tmp_path: Path, word: str, program: str, linked: bool
) -> None:
    script = installed
    if linked:
        script = tmp_path / "gpualert"
        script.symlink_to(installed)
    text = f'set -eu; eval "$(\'{script}\' init {word})"; gpualert run --help; echo "$__gpualert_script"'
    done = subprocess.run([program, "-c", text], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Usage: gpualert run") and done.stdout.endswith(f"\n{script}\n")


def test_the_functions_lie_beside_the_installation(installed: Path) -> None:
    line = subprocess.run([installed, "init", "sh"], capture_output=True, text=True, check=True).stdout
    assert f"'{installed.parent.parent}/share/gpualert'/rc.sh" in line
