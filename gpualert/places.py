"""Where the files that are no Python lie: beside the package in a checkout, inside it once installed."""

from __future__ import annotations

import sys
from pathlib import Path

from gpualert.errors import GpualertError

_PACKAGE = Path(__file__).resolve().parent

# What a user calls it, and where it lies in a checkout.
PLACES = {
    "bash": "bash",
    "hooks": "hooks",
    "snakemake": "workflows/snakemake",
    "nextflow": "workflows/nextflow",
    "format": "gpualert/FORMAT.md",
}


def place(what: str) -> Path:
    """
    Return the folder (or file) of that name.

    Raises:
        GpualertError: This installation lacks it.
    """
    inside = _PACKAGE / "_files" / PLACES[what]
    candidates = [_PACKAGE / "FORMAT.md"] if what == "format" else [inside, _PACKAGE.parent / PLACES[what]]
    found = next((path for path in candidates if path.exists()), None)
    if found is None:
        raise GpualertError(f"cannot find '{what}': this installation lacks {inside}; install gpualert-shim again")
    return found


def python_command(*words: str) -> list[str]:
    """
    Return the command that starts this very installation with `words`.

    -E and a sys.path without the working directory: the job's PYTHONPATH, or a json.py that lies about, cannot stop us.
    """
    main = "import sys; sys.path[:1] = [sys.argv.pop(1)]; from gpualert.__main__ import main; sys.exit(main())"
    return [sys.executable, "-E", "-c", main, str(_PACKAGE.parent), *words]


def shim() -> Path:
    """
    Return the shell script that runs jobs.

    Raises:
        GpualertError: As `place`.
    """
    return place("bash") / "gpualert"
