"""
Snakemake wrapper: log in, verdict out, as JSON and as a page for Snakemake's report.

    rule explain:
        input: "logs/train.{sample}.log"
        output:
            json="verdicts/{sample}.json",
            html=report("verdicts/{sample}.html", category="Failures", labels={"sample": "{sample}"}),
        wrapper: "file:/…/wrappers/classify"
"""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path


def main(job):
    """Write the verdict; a log that cannot be read fails this job and names rule and file."""
    if not job.input:
        sys.exit(f"gpualert: rule '{job.rule}': there is no log among its input")
    words = ["classify", "--json"]
    status = job.params.get("status")
    if status is not None:
        words += ["--status", str(status)]
    html = job.output.get("html")
    if html:
        words += ["--html", html]
    found = subprocess.run([*find_gpualert(job.scriptdir), *words, "--", *job.input], capture_output=True, check=False)
    # 1 is a verdict, too: the cause is not known.
    if found.returncode not in (0, 1) or not found.stdout:
        reason = found.stderr.decode("utf-8", "backslashreplace").strip().removeprefix("gpualert: ")
        sys.exit(f"gpualert: rule '{job.rule}': {reason}")
    Path(job.output.get("json") or job.output[0]).write_bytes(found.stdout)


def find_gpualert(folder):
    """Return the words that start gpualert: that of this Python, else the one on PATH, else that beside us."""
    if importlib.util.find_spec("gpualert"):
        return [sys.executable, "-m", "gpualert"]
    found = shutil.which("gpualert")
    folder = Path(str(folder).removeprefix("file://").removeprefix("file:")).resolve()
    return [found] if found else ["/bin/sh", str(folder.parents[3] / "bash" / "gpualert")]


main(snakemake)  # noqa: F821 - Snakemake puts it there
