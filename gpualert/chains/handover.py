"""Which run is an attempt that hands a job to Slurm; asked about every run, so it costs next to nothing."""

from __future__ import annotations

import os
import re

from gpualert.chains.store import chain_path
from gpualert.errors import UnsafeFileError
from gpualert.files import read_regular
from gpualert.model import Run
from gpualert.state import state_of

# With --parsable, on a cluster of several, and without.  Source: sbatch(1).
_JOB_ID = re.compile(rb"^(?:Submitted batch job )?([1-9][0-9]{0,11})(?:;\S+| on cluster \S+)?$", re.MULTILINE)
_OUTPUT_BYTES = 1 << 20


def job_id_of(run: Run) -> str:
    """Return the number of the Slurm job that a run, an attempt of a chain, has handed over; "" for any other run."""
    start = run.start
    if not start or not start.chain or not run.argv or os.path.basename(run.argv[0]) != "sbatch":  # noqa: PTH119
        return ""
    if not chain_path(start.chain, [state_of(run.path)]):
        return ""
    for stream in run.streams:
        try:
            found = _JOB_ID.findall(read_regular(stream.path, _OUTPUT_BYTES)) if stream.path else []
        except (OSError, UnsafeFileError):
            continue
        if found:
            return bytes(found[-1]).decode("ascii")
    return ""
