"""Labelled logs: a corpus of run directories, or a folder of logs with one `labels.jsonl`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gpualert.classify import classify
from gpualert.errors import GpualertError, UsageError
from gpualert.group.verdict import suspicion, with_evidence_of
from gpualert.jsonfiles import read_json
from gpualert.model import Evidence, Facts, LogFile, Run, frozen
from gpualert.rules import load_rules
from gpualert.rundir import read_run
from gpualert.settle import readable_logs

LABEL = "label.yaml"


@dataclass(frozen=True)
class Case:
    """
    One job whose cause of death is known.

    Attributes:
        logs: Its logs, one or one a rank.
        facts: What was known beside them when it ended.
        classes: The class, then those that are as good an answer.
        by_paper: The class is one of the published fifteen, and an answer counts by its `paper_class`.
        evidence: The line that shows the cause, then lines that show it as well; empty where none is labelled.
        actions: Retry decisions that are right; empty where none is labelled.
        first_rank: The rank that failed first; None where that is not labelled.
        suspect: The rank of the run that a group's verdict would name where no line tells; None for a single run.
        origin, framework: `produced` or `reconstructed`, `pytorch` ...; "" where not labelled.
    """

    id: str
    corpus: str
    logs: tuple[LogFile, ...]
    facts: Facts
    classes: tuple[str, ...]
    by_paper: bool = False
    evidence: tuple[str, ...] = ()
    actions: frozenset[str] = frozenset()
    first_rank: int | None = None
    suspect: int | None = None
    origin: str = ""
    framework: str = ""


def read_cases(folder: Path) -> list[Case]:
    """
    Read every case of a corpus, in the order of their names.

    Args:
        folder: One with `labels.jsonl`, or one whose subfolders, at any depth, hold a `label.yaml` each.

    Raises:
        UsageError: There is no labelled log, or a label is wrong; the file and the key are named.
    """
    rows = folder / "labels.jsonl"
    cases = list(_listed(folder, rows) if rows.is_file() else _labelled(folder))
    if not cases:
        raise UsageError(f"cannot evaluate '{folder}': no labels.jsonl, and no {LABEL} in any folder below")
    return cases


def _listed(folder: Path, rows: Path) -> Iterator[Case]:
    for number, line in enumerate(rows.read_text("utf-8").splitlines(), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            path = folder / row.get("log_path", f"{row['id']}.log")
            yield _case(row, folder.name, [LogFile(path.name, path)], Facts(status=_status(row)))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UsageError(f"cannot use '{rows}', line {number}: {_reason(error)}") from error


def _status(row: Mapping[str, Any]) -> int | None:
    value = row.get("exit_code", row.get("true_exit_code"))
    # subprocess writes a death by signal as a negative number.
    return None if value is None else int(value) if int(value) >= 0 else 128 - int(value)


def _labelled(folder: Path) -> Iterator[Case]:
    import yaml

    for path in sorted(folder.rglob(LABEL)):
        try:
            row = {"id": path.parent.name, **yaml.safe_load(path.read_text("utf-8"))}
            logs, facts, suspect = _read_runs(path.parent)
            yield replace(_case(row, folder.name, logs, facts), suspect=suspect)
        except (ValueError, KeyError, TypeError, AttributeError, OSError, yaml.YAMLError, GpualertError) as error:
            raise UsageError(f"cannot use '{path}': {_reason(error)}") from error


def _read_runs(folder: Path) -> tuple[list[LogFile], Facts, int | None]:
    """
    Read a run directory; or those in `folder`, the ranks of one job, which are put in order as a group's are.

    Returns:
        The logs, the facts, and of several runs the rank of the first.
    """
    paths = [folder] if (folder / "format").is_file() else sorted(path.parent for path in folder.glob("*/format"))
    runs = [read_run(path, shared=True) for path in paths]
    if not runs:
        raise GpualertError("there is no run directory beside it")
    logs = {
        run.run_id: [replace(log, name=_name(run, log, len(runs))) for log in readable_logs(run).files] for run in runs
    }
    facts = {run.run_id: _facts(run) for run in runs}
    if len(runs) > 1:
        runs.sort(key=lambda run: _suspicion(run, logs[run.run_id], facts[run.run_id]))
    first, *others = [facts[run.run_id] for run in runs]
    suspect = runs[0].start.group_rank if others and runs[0].start else None
    return [log for run in runs for log in logs[run.run_id]], with_evidence_of(first, others), suspect


def _suspicion(run: Run, logs: Sequence[LogFile], facts: Facts) -> tuple[bool, bool, bool, float]:
    return suspicion(classify(logs, facts, load_rules()), run.exit, is_bad=facts.status != 0)


def _name(run: Run, log: LogFile, of: int) -> str:
    rank = run.start.group_rank if run.start else None
    return log.name if of == 1 or rank is None else f"rank{rank}/{log.name}"


def _facts(run: Run) -> Facts:
    """Return what was known of a run beside its logs, as it stands in its records: nothing of this machine."""
    facts = Facts(
        status=run.exit.status if run.exit else None,
        signal=run.exit.signal if run.exit else None,
        timed_out=bool(run.exit and run.exit.timed_out),
    )
    if not (run.path / "evidence.json").is_file():
        return facts
    known = read_json(run.path / "evidence.json")["facts"]
    return replace(
        facts,
        oom_kills=known.get("oom_kills"),
        scheduler_state=str(known.get("scheduler_state") or ""),
        gpu_allotted=known.get("gpu_allotted"),
        evidence=tuple(_evidence(item) for item in known.get("evidence", ())),
    )


def _evidence(item: Mapping[str, Any]) -> Evidence:
    return Evidence(
        source=str(item["source"]),
        file="",
        line=0,
        text=str(item["text"]),
        host=str(item.get("host", "")),
        parameters=frozen(item.get("parameters")),
    )


def _case(row: Mapping[str, Any], corpus: str, logs: Iterable[LogFile], facts: Facts) -> Case:
    rank = re.search(r"\d+", str(row.get("first_rank", "")))  # 3, or rank3
    return Case(
        id=str(row["id"]),
        corpus=corpus,
        logs=tuple(logs),
        facts=facts,
        classes=(str(row["mode"] if "mode" in row else row["class"]), *_many(row.get("class_alt"))),
        by_paper="mode" in row,
        evidence=(*_many(row.get("evidence")), *_many(row.get("evidence_alt"))),
        actions=frozenset(_many(row.get("action"))),
        first_rank=int(rank[0]) if rank else None,
        origin=str(row.get("origin") or row.get("source") or ""),
        framework=str(row.get("framework") or ""),
    )


def _many(value: object) -> list[str]:
    return [] if value is None else [str(item) for item in value] if isinstance(value, list) else [str(value)]


def _reason(error: Exception) -> str:
    return f"key {error} is missing" if isinstance(error, KeyError) else " ".join(str(error).split())
