"""A case on disk: its label, what gpualert says of it, and whether a new one differs from an old one."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import yaml

from corpus.make.cleaning import read_log
from corpus.make.recipe import LICENCE, Recipe
from gpualert.classify import classify
from gpualert.evaluate.cases import LABEL, read_cases
from gpualert.evaluate.scoring import same_line
from gpualert.jsonfiles import read_json
from gpualert.rules import load_rules
from gpualert.ruleset import RuleSet

_NO_PYTHON = frozenset(("c", "c++", "bash", "make", "perl", "awk", "mpi", "java", "node"))


class LabelError(Exception):
    """A job did not do what its label says; the sentence says what is missing."""


@dataclass(frozen=True)
class Looks:
    """
    What a case looks like, without what differs each time: process numbers, times, addresses.

    Attributes:
        said: The class that gpualert names.
        shown: Its first line of evidence.
        lines: How many lines the logs have.
        statuses: The exit status of each run.
        commands: The command line of each run.
    """

    said: str
    shown: str
    lines: int
    statuses: tuple[str, ...]
    commands: tuple[str, ...]

    def differs(self, other: Looks) -> list[str]:
        """Return what is not the same, as `name: old -> new`."""
        changes = [
            f"{name}: {getattr(other, name)!r} -> {getattr(self, name)!r}"
            for name in ("said", "statuses", "commands")
            if getattr(self, name) != getattr(other, name)
        ]
        # A job that is killed has got as far as it has got.
        if abs(self.lines - other.lines) > max(self.lines, other.lines) / 10:
            changes.append(f"lines: {other.lines} -> {self.lines}")
        if self.shown != other.shown and not same_line(self.shown, other.shown):
            changes.append(f"shown: {other.shown!r} -> {self.shown!r}")
        return changes


def look(case: Path) -> Looks:
    """Return what a labelled case looks like."""
    found = read_cases(case)[0]
    verdict = classify(found.logs, found.facts, _rules())
    lines = sum(read_log(path).count(b"\n") for path in case.rglob("*.log"))
    statuses = tuple(re.findall(r"^status=(\d+)$", path.read_text(), re.M)[0] for path in sorted(case.rglob("exit")))
    commands = tuple(path.read_text("utf-8", "replace") for path in sorted(case.rglob("argv")))
    shown = verdict.evidence[0].text if verdict.evidence else ""
    return Looks(verdict.failure_class, shown, lines, statuses, commands)


@cache
def _rules() -> RuleSet:
    return load_rules()


def write_label(case: Path, recipe: Recipe) -> None:
    """
    Write `label.yaml`; the evidence is the whole line that contains what the recipe names.

    Raises:
        LabelError: No line does.
    """
    lines = list(_lines(case))
    alternatives = [_find(lines, text) for text in recipe.evidence_alt]
    label: dict[str, Any] = {
        "id": recipe.name,
        "class": recipe.failure_class,
        "class_alt": list(recipe.class_alt),
        "action": recipe.actions,
        "evidence": _find(lines, recipe.evidence) if recipe.evidence else "",
        "evidence_alt": alternatives,
        "first_rank": recipe.first_rank,
        "origin": recipe.origin,
        "framework": recipe.framework,
        "versions": versions(recipe) if recipe.origin == "produced" else {},
        "how": " ".join(recipe.how.split()),
        "settled": recipe.settled,
        "licence": LICENCE,
    }
    kept = {key: value for key, value in label.items() if value not in ("", [], {}, None)}
    (case / LABEL).write_text(yaml.safe_dump(kept, sort_keys=False, allow_unicode=True, width=110), "utf-8")


def _lines(case: Path) -> Iterator[str]:
    """Yield what can be evidence: the lines of the logs, and those of the kernel, the scheduler and others."""
    for path in sorted(case.rglob("*.log")):
        yield from (line.decode("utf-8", "replace") for line in re.split(rb"[\r\n]+", read_log(path)))
    for path in sorted(case.rglob("evidence.json")):
        yield from (item["text"] for item in read_json(path)["facts"].get("evidence", ()))


def _find(lines: list[str], text: str) -> str:
    holding = [line.strip() for line in lines if text in line]
    if not holding:
        end = "\n  | ".join(line[:160] for line in lines[-12:])
        raise LabelError(f"no line contains {text!r}; the last are\n  | {end}")
    # The message itself rather than the line of a program that raises it.
    return next((line for line in holding if line.startswith(text)), holding[0])


def versions(recipe: Recipe) -> dict[str, str]:
    """Return the versions of what a recipe uses; those of programs as they tell them."""
    own = () if recipe.framework in _NO_PYTHON else ("python",)
    return {name: version for name in (*own, *recipe.uses) if (version := _version(name))}


@cache
def _version(name: str) -> str:
    if name == "python":
        return ".".join(map(str, sys.version_info[:3]))
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        pass
    if not shutil.which(name):
        return ""
    said = subprocess.run([name, "--version"], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    found = re.search(r"\d+(?:\.\d+)+\S*", said.stdout + said.stderr)
    return found[0].strip("(),") if found else "as installed"


def lacking(recipe: Recipe) -> list[str]:
    """Return what a recipe uses and this machine does not have."""
    return [name for name in recipe.uses if not _version(name)]


def publish(made: Path, case: Path, recipe: Recipe) -> list[str]:
    """
    Put a new case in the place of an old one, unless it looks the same; return what has changed.

    A new label alone changes nothing but the label.
    """
    if not (case / LABEL).is_file():
        new = look(made)
        shutil.rmtree(case, ignore_errors=True)
        shutil.copytree(made, case)
        return [f"new: said {new.said}, {new.lines} lines", f"shown: {new.shown!r}"]
    new, old = look(made), look(case)
    changes = new.differs(old)
    if changes:
        shutil.rmtree(case)
        shutil.copytree(made, case)
    elif _relabelled(made, case):
        write_label(case, recipe)  # its lines are those of the logs that stay
        changes = ["label"]
    return changes


def _relabelled(made: Path, case: Path) -> bool:
    """Say whether two labels differ in more than in numbers of their lines and versions of what was used."""
    new, old = (yaml.safe_load((folder / LABEL).read_text("utf-8")) for folder in (made, case))
    lines = ("evidence", "evidence_alt", "versions")
    same = all(
        same_line(a, b) for key in lines[:2] for a, b in zip(_many(new.get(key)), _many(old.get(key)), strict=False)
    )
    rest = [{key: value for key, value in label.items() if key not in lines} for label in (new, old)]
    counts = [[len(_many(label.get(key))) for key in lines[:2]] for label in (new, old)]
    return rest[0] != rest[1] or counts[0] != counts[1] or not same


def _many(value: object) -> list[str]:
    return [] if value is None else list(value) if isinstance(value, list) else [str(value)]
