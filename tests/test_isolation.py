"""Whatever is broken around it, a job of every class ends with its own status, and its caller sees its words."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from worlds import CONDITIONS, broken, job, jobs

from gpualert.places import shim


@pytest.mark.parametrize("condition", CONDITIONS)
def test_the_status_is_the_jobs(condition: str, tmp_path: Path) -> None:
    with broken(condition, tmp_path) as changes:
        environ = {**os.environ, **changes}
        for name in jobs(published=True):
            bare = subprocess.run(job(name), capture_output=True, check=False, env=environ)
            wrapped = ["/bin/sh", str(shim()), "run", "--", *job(name)]
            run = subprocess.run(wrapped, capture_output=True, check=False, env=environ)
            assert (name, run.returncode, run.stdout) == (name, bare.returncode, bare.stdout)
            own = [line for line in run.stderr.splitlines() if not line.startswith(b"gpualert: ")]
            assert (name, own) == (name, bare.stderr.splitlines())
