"""
What the kernel said of a Slurm job on its nodes, as the site's epilog kept it: one file for each job and node.

Format: hooks/slurm/README.md.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

from gpualert.errors import UnsafeFileError
from gpualert.files import open_regular
from gpualert.signals.kernel import KernelLine

FOLDER = Path("/var/spool/gpualert/kernel")
_FORMAT = "gpualert-kernel/1"
_LIMIT_BYTES = 1 << 20
_JOB_ID = re.compile(r"[0-9]{1,12}")


def read_epilog(job_id: str, folder: Path | None = None) -> tuple[list[KernelLine], str]:
    """
    Return the kernel's lines about a job, node by node.

    Args:
        folder: The site's folder; by default the one that the epilog takes.

    Returns:
        The lines, none where no epilog of ours runs or it had nothing to tell; and what could not be read or "".
    """
    folder = folder or Path(os.environ.get("GPUALERT_KERNEL_DIR") or FOLDER)
    if not _JOB_ID.fullmatch(job_id):
        return [], ""
    try:
        found = sorted(folder.glob(f"{job_id}.*"))
        trouble = f"{folder} can be changed by others" if found and not _is_sites_own(folder) else ""
        return [] if trouble else [line for path in found for line in _lines_of(path)], trouble
    except (OSError, UnsafeFileError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        return [], f"what the epilog kept of job {job_id} in {folder}: {reason}"


def _is_sites_own(folder: Path) -> bool:
    """Say whether only root, or we, can have put files there."""
    found = folder.stat()
    return found.st_uid in (0, os.geteuid()) and not found.st_mode & 0o022


def _lines_of(path: Path) -> list[KernelLine]:
    """Return what one node's file holds; nothing of a format that we do not know."""
    with os.fdopen(open_regular(path, owner=path.lstat().st_uid), "rb") as file:
        first, *lines = file.read(_LIMIT_BYTES).decode("utf-8", "replace").split("\n")
    if first != _FORMAT or "end=1" not in lines:
        return []
    told = (line.partition(" ") for line in lines[lines.index("end=1") + 1 :])
    found = []
    for at, _, text in told:
        with suppress(ValueError):
            found.append(KernelLine(float(at), text, path.name.partition(".")[2]))
    return found
