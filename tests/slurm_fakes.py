"""Programs that answer as `sacct` and `scontrol` do: with what real ones printed, or with whatever a test wants."""

from __future__ import annotations

import os
import stat
from pathlib import Path

DATA = Path(__file__).parent / "data" / "slurm"
# An accounting as old as 22.05 does not know these.
_SACCT = """#!/bin/sh
echo "$*" >>"{folder}/asked"
jobs='' delimiter=''
for word; do
    case $word in
    --helpformat) echo "{known}"; exit ;;
    --format=*StdOut*) [ -n "{new}" ] || { echo 'sacct: fatal: Invalid field requested: "StdOut"' >&2; exit 1; } ;;
    --delimiter=*) delimiter=${word#*=} ;;
    --jobs=*) jobs=,${word#*=}, ;;
    esac
done
while IFS= read -r line; do
    id=${line%%¦*} label=${line#*¦} label=${label%%¦*}
    case $jobs in
    *,"${id%%.*}",* | *,"${label%%[_.]*}",*) printf '%s\\n' "$line" | sed "s/¦/$delimiter/g" ;;
    esac
done <"{rows}"
"""
_SCONTROL = """#!/bin/sh
echo "$*" >>"{folder}/asked"
[ -f "{folder}/scontrol-$3" ] || { echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1; }
cat "{folder}/scontrol-$3"
"""
_KNOWN = "JobIDRaw JobID State ExitCode Reason NodeList Timelimit ElapsedRaw MaxRSS ReqMem Submit Start End UID User JobName Comment WorkDir SubmitLine"  # noqa: E501


class FakeSlurm:
    """A folder on PATH with the two programs."""

    def __init__(self, folder: Path, work: Path) -> None:
        self.folder, self.work = folder, work
        folder.mkdir()
        work.mkdir()
        (folder / "asked").touch()
        self.rows = folder / "rows"
        self.rows.write_text(self._filled((DATA / "sacct.txt").read_text()))
        for path in DATA.glob("scontrol-*.txt"):
            (folder / path.stem).write_text(self._filled(path.read_text()))
        values = {"{folder}": str(folder), "{rows}": str(self.rows), "{known}": _KNOWN, "{new}": ""}
        for name, script in (("sacct", _SACCT), ("scontrol", _SCONTROL)):
            for mark, value in values.items():
                script = script.replace(mark, value)
            self.program(name, script)

    def program(self, name: str, script: str) -> None:
        """Put a program there, in place of the other."""
        path = self.folder / name
        path.write_text(script)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def forget(self, name: str) -> None:
        """Remove a program."""
        (self.folder / name).unlink()

    def add(self, text: str) -> None:
        """Add rows to the accounting."""
        with self.rows.open("a") as file:
            file.write(self._filled(text))

    @property
    def asked(self) -> list[str]:
        """What the programs were asked, call by call."""
        return (self.folder / "asked").read_text().splitlines()

    def _filled(self, text: str) -> str:
        return text.replace("@UID@", str(os.geteuid())).replace("@FOLDER@", str(self.work))
