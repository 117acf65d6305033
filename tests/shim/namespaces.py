"""Stages that need a mount namespace of their own: full and read-only folders, tools that are not there."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

UNSHARE = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--mount", "--map-root-user"]


def require_namespaces() -> None:
    """Skip where the kernel gives none; continuous integration runs as root, where this is a failure."""
    made = subprocess.run([*UNSHARE, "true"], capture_output=True, check=False)
    if made.returncode and os.geteuid() != 0 and "CI" not in os.environ:
        pytest.skip(f"no mount namespace for this user: {made.stderr.decode(errors='replace').strip()}")
    assert made.returncode == 0, made.stderr


def stage(*preparations: str, afterwards: str = "") -> str:
    """Return a `via` line that prepares a namespace of its own, runs the command in it and keeps its status."""
    inner = "\n".join(["set -e", *preparations, "set +e", '"$@"', "status=$?", afterwards or ":", "exit $status"])
    return f'exec {" ".join(UNSHARE)} /bin/sh -c {shlex.quote(inner)} sh "$@"'


def small_disk(folder: Path, *options: str) -> str:
    """Return the preparation that mounts a small tmpfs over a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    return f"mount -t tmpfs -o mode=700,{','.join(options)} none {shlex.quote(str(folder))}"


def full_disk(folder: Path) -> str:
    """Return the preparation that puts a full disk in place of a folder."""
    return f"{small_disk(folder, 'size=64k')}; cat /dev/zero >{folder}/ballast 2>/dev/null || :"


def no_inodes(folder: Path) -> str:
    """Return the preparation that puts a disk without free inodes in place of a folder."""
    return f"{small_disk(folder, 'nr_inodes=4')}; : >{folder}/a; : >{folder}/b; (: >{folder}/c) 2>/dev/null || :"


def read_only(folder: Path) -> str:
    """Return the preparation that makes a folder read-only."""
    return small_disk(folder, "ro")


def hidden(*tools: str) -> str:
    """Return the preparation that makes tools impossible to run, wherever they are looked for."""
    places = [f"{folder}/{tool}" for tool in tools for folder in ("/usr/bin", "/bin", "/usr/sbin", "/sbin")]
    found = [place for place in dict.fromkeys(os.path.realpath(place) for place in places) if Path(place).exists()]
    names = [place for place in places if Path(place).exists() and Path(place).is_symlink()]
    assert found, f"{tools} are not on this machine"
    mounts = [f'mount --bind "$plain" {place}' for place in dict.fromkeys(found)]
    assert not [name for name in names if Path(name).resolve().name not in tools], f"{names} are links to other tools"
    return "; ".join(["plain=$(mktemp)", "chmod 644 $plain", *mounts])


def old_env(folder: Path) -> str:
    """Return the preparation that puts an older env(1) in place: one that cannot set signals (coreutils < 8.31)."""
    program = folder / "old-env"
    real = shutil.copy("/usr/bin/env", folder / "real-env")
    program.write_text(
        '#!/bin/sh\ncase ${1-} in --*-signal*) echo "env: unrecognized option" >&2; exit 125 ;; esac\n'
        f'exec {shlex.quote(str(real))} "$@"\n'
    )
    program.chmod(0o755)
    return f"mount --bind {shlex.quote(str(program))} /usr/bin/env"
