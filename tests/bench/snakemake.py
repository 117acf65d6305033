"""
Print what gpualert costs a Snakemake job: workflows of tiny jobs, each way in paired with plain Snakemake.

    python tests/bench/snakemake.py [JOBS] [PAIRS]
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.engines.snakemake_venv import SnakemakeVenv, make

_RULE = 'rule all:\n    input: expand("out/{{n}}", n=range({jobs}))\nrule tiny:\n    output: "out/{{n}}"\n    {body}\n'
_PLAIN = 'shell: "touch {output}"'
_WRAPPER = 'params: command="touch out/{{n}}"\n    wrapper: "file:{folder}"'
_BARE_WRAPPER = 'import os\nos.execvp("bash", ["bash", "-c", "set -euo pipefail; " + snakemake.params.command])\n'
_CORES = 2


def main(jobs: int, pairs: int) -> None:
    with tempfile.TemporaryDirectory(prefix="gpualert-bench-") as scratch:
        folder = Path(scratch)
        venv = make(folder / "venv")
        bare = folder / "bare"
        bare.mkdir()
        (bare / "wrapper.py").write_text(_BARE_WRAPPER)
        (bare / "environment.yaml").write_text("dependencies: []\n")
        plain = _RULE.format(jobs=jobs, body=_PLAIN)
        ways = {
            "wrapper (against a bare wrapper)": (
                _RULE.format(jobs=jobs, body=_WRAPPER.format(folder=bare)),
                _RULE.format(jobs=jobs, body=_WRAPPER.format(folder=venv.files / "wrappers" / "run")),
                [],
            ),
            'include: "gpualert.smk"': (plain, f'include: "{venv.files / "gpualert.smk"}"\n{plain}', []),
            "--logger gpualert": (plain, plain, ["--logger", "gpualert"]),
            "--logger gpualert --logger-gpualert-wrap": (
                plain,
                plain,
                ["--logger", "gpualert", "--logger-gpualert-wrap"],
            ),
        }
        print(f"{jobs} jobs, {_CORES} at a time, {pairs} pairs; load {os.getloadavg()[0]:.1f}\n")
        print("| way | plain, ms a job | more with gpualert | plain, ms of CPU a job | more with gpualert |")
        print("|---|---|---|---|---|")
        for name, (without, with_it, options) in ways.items():
            sides = ((without, []), (with_it, options))
            found = [[_run(venv, folder, *side, jobs) for side in sides] for _ in range(pairs)]
            cells = []
            for what in ("wall_ms", "cpu_ms"):
                pair = [[getattr(cost, what) for cost in costs] for costs in found]
                cells.append(statistics.median(before for before, _ in pair))
                cells.append(statistics.median(after - before for before, after in pair))
            print(f"| `{name}` | {' | '.join(f'{cell:.1f}' for cell in cells)} |", flush=True)


@dataclass(frozen=True)
class Cost:
    """What a job took, in ms; the CPU time tells more where others use the machine."""

    wall_ms: float
    cpu_ms: float


def _run(venv: SnakemakeVenv, folder: Path, snakefile: str, options: Sequence[str], jobs: int) -> Cost:
    """Run a workflow of successful jobs."""
    with tempfile.TemporaryDirectory(prefix="work-", dir=folder) as work:
        (Path(work) / "Snakefile").write_text(snakefile)
        environ = {**os.environ, "GPUALERT_HOME": f"{work}/state", "GPUALERT_POST": "tick"}
        words = [venv.snakemake, "--cores", str(_CORES), "--quiet", "all", *options]
        with Path(work, "log").open("wb") as log:
            began, spent_s = time.perf_counter(), _cpu_s()
            subprocess.run(words, cwd=work, env=environ, stdout=log, stderr=log, check=True)
            cost = Cost((time.perf_counter() - began) / jobs * 1000, (_cpu_s() - spent_s) / jobs * 1000)
        assert len(list(Path(work, "out").iterdir())) == jobs
        left = sum(1 for _ in Path(work, "state").rglob("*")) if Path(work, "state").exists() else 0
        assert left < 50, f"{left} files are left"
    return cost


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main(*(int(word) for word in (sys.argv[1:] + ["200", "3"][len(sys.argv) - 1 :])))
