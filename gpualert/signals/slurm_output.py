"""
Where a Slurm job wrote its output: the patterns of `--output` and `--error` resolved, pure.

Source: sbatch(1), "filename pattern".
"""

from __future__ import annotations

import re
from pathlib import Path

from gpualert.signals.slurm_records import JobRecord

_SYMBOL = re.compile(r"%(\d{0,2})([%AaJjNnstuxb])")
_NO_TASK = "4294967294"  # how Slurm prints the index of a job that is no array's
_OPTION = r"(?:^|\s)(?:{short}[ =]?|{long}[ =])(?P<path>[^\s=]\S*)"
_WHERE = {
    "stdout": re.compile(_OPTION.format(short="-o", long="--output")),
    "stderr": re.compile(_OPTION.format(short="-e", long="--error")),
}
_DIRECTIVE = re.compile(r"^#SBATCH\s+(.*?)(?:\s#.*)?$", re.MULTILINE)


def output_paths(record: JobRecord, script: str = "") -> list[Path]:
    """
    Return where a job's output may lie, the likeliest first for each of its streams; empty for one without a folder.

    Args:
        script: The batch script, where Slurm has kept it; its `#SBATCH` lines count.
    """
    directives = "\n".join(_DIRECTIVE.findall(script))
    default = "slurm-%A_%a.out" if record.array_task_id else "slurm-%j.out"
    if record.stdout:
        outs = [record.stdout]
    else:
        outs = [found for text in (record.submit_line, directives) if (found := _option("stdout", text))]
        outs.append(default)
    errors = (
        [record.stderr]
        if record.stderr
        else [found for text in (record.submit_line, directives) if (found := _option("stderr", text))]
    )
    paths = [Path(record.folder or "/", resolved(pattern, record)) for pattern in (*outs, *errors)]
    return [path for path in dict.fromkeys(paths) if record.folder or path != Path("/", path.name)]


def _option(stream: str, text: str) -> str:
    found = _WHERE[stream].search(text)
    return found["path"].strip("'\"") if found else ""


def resolved(pattern: str, record: JobRecord) -> str:
    """Return a file name with its symbols replaced, as for the batch script; a backslash in it turns that off."""
    if "\\" in pattern:
        return pattern.replace("\\", "")
    return _SYMBOL.sub(lambda found: _value(found[2], int(found[1] or 0), record), pattern)


def _value(symbol: str, width: int, record: JobRecord) -> str:
    task = record.array_task_id if record.array_task_id.isdigit() else ""
    numbers = {
        "A": record.array_job_id or record.job_id,
        "a": task or _NO_TASK,
        "b": str(int(task or _NO_TASK) % 10),
        "j": record.job_id,
        "n": "0",
        "t": "0",
    }
    texts = {"%": "%", "J": record.job_id, "s": "batch", "N": first_node(record.nodes), "u": record.user}
    return numbers[symbol].zfill(min(width, 10)) if symbol in numbers else texts.get(symbol, record.name)


def first_node(nodes: str) -> str:
    """Return the first of `n[01-03,7],m1`: `n01`; "" for none."""
    found = re.match(r"([^\[,]*)(?:\[([0-9]+)[^\]]*\])?([^\[,]*)", nodes)
    return f"{found[1]}{found[2] or ''}{found[3]}" if found else ""
