"""Make a case of a run directory: only what a reader needs, and nothing that tells whose machine it was."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import shutil
import socket
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from corpus.make.recipe import Recipe, Text, World
from corpus.make.sandbox import CHECKOUT, PROJECT
from gpualert.jsonfiles import read_json
from gpualert.model import Run
from gpualert.rundir import read_run
from gpualert.settle import readable_logs

_GZIP_FROM_BYTES = 32 << 10
_KEPT = ("format", "argv", "cwd", "name", "options")
_FACTS = ("oom_kills", "scheduler_state", "gpu_allotted", "evidence")
# Keys of `start` that name the maker's machine, and what stands in their place.
_FIXED = {"boot_id": "00000000-0000-0000-0000-000000000000", "pid_ns": "4026531836"}
_ADOPTED = re.compile(r"(stdout|stderr)_(start|end|shared)=")


def replacements(world: World | None = None) -> dict[str, str]:
    """Return what must not stand in a case, text by text, and what stands there instead; longest first."""
    found = {
        str(CHECKOUT): "/opt/gpualert",
        sys.prefix: "/opt/venv",
        str(Path(sys.base_prefix).resolve()): "/usr/local",
        os.path.expanduser("~"): "/home/user",  # noqa: PTH111
        socket.gethostname(): "node01",
    }
    if world:
        found |= {str(world.project): PROJECT, str(world.state): "/home/user/.local/state/gpualert"}
    found.pop("/usr", None)
    return dict(sorted(found.items(), key=lambda pair: -len(pair[0])))


def keep(runs: Path, case: Path, recipe: Recipe, replace: Mapping[str, str]) -> None:
    """
    Write the run directories below `runs` as the case `case`: itself one, or one a rank below it.

    Raises:
        GpualertError: One of them cannot be read.
    """
    found = [read_run(path) for path in sorted(runs.iterdir())]
    ranked = sorted(found, key=_rank)
    for number, run in enumerate(ranked):
        target = case if len(ranked) == 1 else case / f"rank{_rank(run) or number}"
        target.mkdir(parents=True, exist_ok=True)
        _keep_one(run, target, _Cleaner(replace, run.run_id, _run_id(recipe.name, number)))


def _rank(run: Run) -> int:
    return run.start.group_rank or 0 if run.start else 0


def _run_id(name: str, number: int) -> str:
    return f"20260101T000000Z-node01-{hashlib.sha256(f'{name} {number}'.encode()).hexdigest()[:8]}"


class _Cleaner:
    """Replaces what must not be told; a word such as a host's name only where it stands alone."""

    def __init__(self, replace: Mapping[str, str], run_id: str, fixed_id: str) -> None:
        self._table = {old.encode(): new.encode() for old, new in {run_id: fixed_id, **replace}.items() if old}
        words = b"|".join(re.escape(old) for old in self._table)
        self._pattern = re.compile(rb"(?<![\w-])(?:" + words + rb")(?![\w-])")

    def __call__(self, data: bytes) -> bytes:
        return self._pattern.sub(lambda match: self._table[match[0]], data)


def _keep_one(run: Run, target: Path, clean: _Cleaner) -> None:
    for name in _KEPT:
        if (run.path / name).is_file():
            (target / name).write_bytes(clean((run.path / name).read_bytes()))
    logs = {stream.name: stream for stream in run.streams}
    for log in readable_logs(run).files:
        stream = next((item.name for item in logs.values() if item.path == log.path), "output")
        with log.path.open("rb") as file:
            file.seek(log.start)
            write_log(target / f"{stream}.log", clean(file.read((log.end or 0) - log.start)))
    for name in ("start", "exit"):
        if (run.path / name).is_file():
            lines = (run.path / name).read_text().partition("\nend=1\n")[0].split("\n")
            text = "\n".join([line for line in map(_plain_record, lines) if line] + ["end=1", ""])
            (target / name).write_bytes(clean(text.encode()))
    if (run.path / "evidence.json").is_file():
        write_facts(target, read_json(run.path / "evidence.json")["facts"], clean)


def _plain_record(line: str) -> str:
    """Return a line of a record; an adopted stream becomes one of our own, whose file lies here."""
    key, _, value = line.partition("=")
    if _ADOPTED.match(line) or not value:
        return ""
    if key in ("stdout", "stderr") and value == "adopt":
        return f"{key}=tee"
    return f"{key}={_FIXED.get(key, value)}"


def write_log(path: Path, data: bytes) -> None:
    """Write a log; a large one compressed, under the same name."""
    path.write_bytes(gzip.compress(data, 9, mtime=0) if len(data) > _GZIP_FROM_BYTES else data)


def read_log(path: Path) -> bytes:
    """Return the bytes of a log, unpacked."""
    data = path.read_bytes()
    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data


def write_facts(target: Path, facts: Mapping[str, object], clean: _Cleaner | None = None) -> None:
    """Write those of the facts that an evaluation reads, where there are any."""
    known = {name: facts[name] for name in _FACTS if facts.get(name) not in (None, "", [], ())}
    if not known:
        return
    data = json.dumps({"schema": 1, "facts": known}, indent=1).encode() + b"\n"
    (target / "evidence.json").write_bytes(clean(data) if clean else data)


def write_texts(case: Path, recipe: Recipe, texts: Iterable[Text]) -> None:
    """Write runs that nobody has had as the shim would have recorded them."""
    texts = list(texts)
    for number, text in enumerate(texts):
        target = case if len(texts) == 1 else case / f"rank{text.rank if text.rank is not None else number}"
        target.mkdir(parents=True, exist_ok=True)
        _write_text(target, text, _run_id(recipe.name, number), len(texts))


def _write_text(target: Path, text: Text, run_id: str, of: int) -> None:
    began = 1_767_225_600
    start = {"run_id": run_id, "host": text.host, "pid": 4711, "pid_starttime": 1, "started_at": began}
    start |= {"shell": "dash", "stdout": "tee", "stderr": "tee", "combined": 1, **_FIXED}
    if of > 1:
        start |= {"group": "step", "group_size": of, "group_rank": text.rank}
    ended: dict[str, object] = {"status": text.status, "ended_at": began + 3600}
    ended |= {"signal": text.signal} if text.signal else {}
    ended |= {"timed_out": 1} if text.timed_out else {}
    (target / "format").write_text("gpualert-run/1\n")
    (target / "argv").write_bytes("".join(f"{word}\0" for word in text.command.split()).encode())
    (target / "cwd").write_text(PROJECT + "\0")
    (target / "start").write_text(_record(start))
    if text.status is not None:
        (target / "exit").write_text(_record(ended))
    write_log(target / "output.log", text.log.encode("utf-8", "surrogateescape"))
    write_facts(target, text.facts)


def _record(values: Mapping[str, object]) -> str:
    return "".join(f"{key}={value}\n" for key, value in values.items()) + "end=1\n"


def empty(folder: Path) -> None:
    """Have an empty folder of that name."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
