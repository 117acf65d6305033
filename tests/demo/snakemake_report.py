"""Make docs/snakemake-report.png: Snakemake's report on a failed workflow, with a verdict opened.

python tests/demo/snakemake_report.py
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

_CHECKOUT = Path(__file__).parents[2]
sys.path.insert(0, str(_CHECKOUT))
from tests.engines.report_browser import EYE, take_picture  # noqa: E402
from tests.engines.snakemake_venv import make  # noqa: E402


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="gpualert-report-") as scratch:
        folder = Path(scratch)
        venv = make(folder / "venv")
        run = [venv.snakemake, "--snakefile", str(venv.files / "examples/report/Snakefile"), "--cores", "2"]
        for words in (["--keep-going"], ["failures"], ["--report", "report.html", "--", "failures"]):
            subprocess.run([*run, *words], cwd=folder, check=False)
        picture = _CHECKOUT / "docs/snakemake-report.png"
        take_picture(folder / "report.html", folder, ["Results", "Failures", "B", EYE], picture)


if __name__ == "__main__":
    main()
