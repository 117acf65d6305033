"""A virtual environment with Snakemake and gpualert in it, not editable: Snakemake would not find the plugin."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

_CHECKOUT = Path(__file__).parents[2]
_PACKAGES = ["snakemake>=9", "snakemake-executor-plugin-slurm", "snakemake-executor-plugin-cluster-generic", "pygments"]
# One that is ready, for trying things out: gpualert in it may be older than the checkout.
_READY = "GPUALERT_TEST_SNAKEMAKE"


@dataclass(frozen=True)
class SnakemakeVenv:
    """A virtual environment with Snakemake and gpualert."""

    folder: Path

    @property
    def snakemake(self) -> str:
        """The program."""
        return str(self.folder / "bin" / "snakemake")

    @property
    def gpualert(self) -> str:
        """The program."""
        return str(self.folder / "bin" / "gpualert")

    @property
    def files(self) -> Path:
        """What `gpualert path snakemake` prints."""
        return next(self.folder.glob("lib/python3*/site-packages/gpualert/_files/workflows/snakemake"))


def missing() -> str:
    """Say why there cannot be one here; "" where there can."""
    return "" if sys.version_info >= (3, 11) else "Snakemake 9 needs Python 3.11"


def make(folder: Path) -> SnakemakeVenv:
    """Return the environment in `folder`, made by whoever of several processes comes first."""
    if ready := os.environ.get(_READY):
        return SnakemakeVenv(Path(ready))
    venv = SnakemakeVenv(folder)
    with FileLock(f"{folder}.lock"):
        if not (folder / "done").exists():
            subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
            pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
            subprocess.run([*pip, *_PACKAGES, str(_CHECKOUT)], check=True)
            (folder / "done").touch()
    return venv
