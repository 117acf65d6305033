"""
Score the classifier on labelled logs: `python tests/score.py FOLDER [FOLDER...] [--misses]`.

A folder holds `labels.jsonl`.  Lines with `class` are labelled in full; lines with `mode` name one of the published
fifteen, and macro-F1 is printed.
"""

from __future__ import annotations

import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpualert.classify import classify
from gpualert.classify.lines import read_line
from gpualert.model import Facts, LogFile, Verdict
from gpualert.rules import load_rules

GROUPS = {"fix": "stop", "bigger": "changed", "elsewhere": "changed", "retry": "restart", "resume": "restart",
          "once": "restart", "none": "none"}  # fmt: skip
CORE = frozenset(
    """
    cuda_oom nccl cuda_runtime ram_oom segfault file_not_found permission missing_module div_zero
    device_mismatch nan_loss oom_killer traceback assertion runtime_error
    """.split()  # noqa: SIM905
)
RECOVERABLE = frozenset(
    """
    nccl gpu_hardware cuda_driver storage_io network port_in_use rendezvous walltime preempted
    node_failure launch_failed hang
    """.split()  # noqa: SIM905
)


def _many(value: Any) -> list[str]:
    return [] if value is None else [str(item) for item in value] if isinstance(value, list) else [str(value)]


def _plain(text: str) -> str:
    content = re.sub(r"\brank\W{0,2}\d+|\d+", "#", read_line(text).content)
    return re.sub(r"\W+", " ", content).strip().lower()


def same_line(shown: str, wanted: str) -> bool:
    """Say whether two lines carry one message; the same on another rank counts."""
    a, b = _plain(shown), _plain(wanted)
    return bool(a and b) and (a == b or (len(b) > 8 and b in a) or (len(a) > 15 and a in b))


@dataclass
class Score:
    """Counts of one folder."""

    total: int = 0
    exact: int = 0
    right: int = 0
    core: int = 0
    core_right: int = 0
    with_evidence: int = 0
    first: int = 0
    third: int = 0
    with_action: int = 0
    action: int = 0
    recoverable: int = 0
    false_stops: int = 0

    def lines(self) -> Iterable[str]:
        """Yield the score as text."""
        for name, part, whole in (
            ("class", self.exact, self.total), ("class or alt", self.right, self.total),
            ("core fifteen", self.core_right, self.core),
            ("evidence first", self.first, self.with_evidence), ("evidence in three", self.third, self.with_evidence),
            ("action group", self.action, self.with_action), ("false stops", self.false_stops, self.recoverable),
        ):  # fmt: skip
            yield f"{name:18} {part:4} of {whole:4}  {100 * part / max(whole, 1):5.1f} %"


def score_full(folder: Path, rows: list[Mapping[str, Any]], misses: bool) -> Score:
    """Score logs labelled with class, evidence and action."""
    score, rules = Score(), load_rules()
    for row in rows:
        path = folder / row.get("log_path", f"{row['id']}.log")
        verdict = classify([LogFile(path.name, path)], Facts(status=row.get("exit_code")), rules)
        complaint = _count(score, row, verdict)
        if misses and complaint:
            print(f"{row['id']}: {complaint}")
            for item in verdict.evidence[:3]:
                print(f"      {item.line}: {item.text.strip()[:160]}")
            for runner in verdict.runners_up[:3]:
                print(f"      - {runner.failure_class} {runner.evidence.line}: {runner.evidence.text.strip()[:110]}")
    return score


def _count(score: Score, row: Mapping[str, Any], verdict: Verdict) -> str:
    complaints = []
    classes = [row["class"], *_many(row.get("class_alt"))]
    right = verdict.failure_class in classes
    score.total += 1
    score.exact += verdict.failure_class == row["class"]
    score.right += right
    if row["class"] in CORE:
        score.core += 1
        score.core_right += right
    if not right:
        complaints.append(f"class {verdict.failure_class} instead of {'|'.join(classes)}")
    wanted = [*_many(row.get("evidence")), *_many(row.get("evidence_alt"))]
    if wanted:
        hits = [any(same_line(item.text, text) for text in wanted) for item in verdict.evidence[:3]]
        score.with_evidence += 1
        score.first += bool(hits[:1] and hits[0])
        score.third += any(hits)
        if not any(hits):
            complaints.append(f"evidence; wanted {' || '.join(wanted)[:330]}")
    actions = {GROUPS[action] for action in _many(row.get("action"))}
    if actions:
        mine = GROUPS[verdict.action.value]
        score.with_action += 1
        score.action += mine in actions
        if mine not in actions:
            complaints.append(f"action {verdict.action.value} instead of {'|'.join(_many(row.get('action')))}")
        if row["class"] in RECOVERABLE and "stop" not in actions:
            score.recoverable += 1
            score.false_stops += mine in ("stop", "none")
    return "; ".join(complaints)


def score_paper(folder: Path, rows: list[Mapping[str, Any]], misses: bool) -> float:
    """Return macro-F1 on the published fifteen, by `paper_class`."""
    rules = load_rules()
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for row in rows:
        path = folder / row["log_path"]
        verdict = classify([LogFile(path.name, path)], Facts(status=row.get("true_exit_code")), rules)
        mine, truth = verdict.paper_class or verdict.failure_class, row["mode"]
        counts[truth][0] += mine == truth
        if mine != truth:
            counts[truth][2] += 1
            counts[mine][1] += 1
            if misses:
                first = verdict.evidence[0].text if verdict.evidence else ""
                print(f"{row['id']}: {mine} ({verdict.failure_class}): {first}"[:300])
    scores = [
        2 * hit / max(2 * hit + false + missed, 1) for mode, (hit, false, missed) in counts.items() if mode in CORE
    ]
    return sum(scores) / len(scores)


def main(words: list[str]) -> None:
    """Score each folder named."""
    misses = "--misses" in words
    for word in (w for w in words if not w.startswith("--")):
        folder = Path(word)
        rows = [json.loads(line) for line in (folder / "labels.jsonl").read_text().splitlines() if line.strip()]
        if "mode" in rows[0]:
            print(f"{folder.name}: macro-F1 {score_paper(folder, rows, misses):.4f} on {len(rows)} logs")
        else:
            score = score_full(folder, rows, misses)
            print(f"{folder.name}:", *score.lines(), sep="\n  ")


if __name__ == "__main__":
    main(sys.argv[1:])
