"""The experiments' scripts run, at their smallest size, and print what they found."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPTS = Path(__file__).parent / "experiments"


def table(name: str, *words: str) -> dict[str, list[str]]:
    """Run a script; return the cells of each row by its first cell, tables with the same rows side by side."""
    done = subprocess.run([sys.executable, SCRIPTS / name, *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    rows: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        if line.startswith("| "):
            first, *cells = (cell.strip() for cell in line.strip("|").split(" | "))
            rows.setdefault(first, []).extend(cells)
    return rows


def test_survival_finds_our_log_complete_when_the_wrapper_is_killed_and_tees_cut_short() -> None:
    rows = table("survival.py", "--lines", "4", "--situations", "missing,killed", "--ways", "tee,dash")
    log, status, told, job = (slice(at, at + 2) for at in range(0, 8, 2))
    ours = rows["gpualert run (dash)"]
    assert ours[log] == ["says why", "all of 4"]
    assert ours[status] == ["127", "3"]
    assert "nobody" not in ours[told]
    assert ours[job][1] == "to its end"
    assert rows["`cmd 2>&1 \\| tee log`"][job][1] == "**ended: Broken pipe**"


def test_overhead_is_measured_for_each_wrapper() -> None:
    rows = table("overhead_peers.py", "--pairs", "1", "--long-pairs", "0", "--shells", "dash")
    assert {"nohup", "gpualert run (dash)"} <= set(rows)
    assert len(rows["gpualert run (dash)"]) == 4


def test_isolation_keeps_every_status_and_tells_all_in_the_end() -> None:
    rows = table("isolation.py", "--seconds", "0", "--classes", "segfault,success", "--conditions", "refused")
    kept, _, _, *told = rows["refused"]
    assert (kept, told) == ("2 of 2", ["0 of 2", "2 of 2"])


def test_artifacts_says_what_became_of_an_output() -> None:
    kind, default, asked, *_ = table("artifacts.py", "--sizes", "10KB", "--kinds", "bytes")["10KB"]
    assert (kind, default) == ("bytes", "left out: not attached by default; --attach sends it")
    assert asked.startswith("`array.npz`, 10.0 kB")
