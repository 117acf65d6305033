"""The node ledger on disk: a line for each attempt that a node is to blame for, and for each node that was cleared."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpualert.blame import Blame, Clearance, Suspect, blamed, check_node, suspects
from gpualert.errors import GpualertError, UnsafeFileError
from gpualert.files import make_private_folder, read_regular, write_atomically
from gpualert.jsonfiles import append_line, read_lines
from gpualert.model import SCHEMA, Run, Verdict
from gpualert.settings import Settings
from gpualert.state import state_of

_LAST_INSTANT = 1e11  # as in a run's records


@dataclass(frozen=True)
class Ledger:
    """
    What stands in the ledger of one or more state folders.

    Attributes:
        troubles: What could not be read, each with file, line, key and reason.
    """

    blames: tuple[Blame, ...]
    clearances: tuple[Clearance, ...]
    troubles: tuple[str, ...] = ()

    def suspects(self, now: float, settings: Settings) -> tuple[Suspect, ...]:
        """Return the nodes with strikes that count, the worst first."""
        policy = settings.ledger
        return suspects(self.blames, self.clearances, now, strikes=policy.strikes, expires_s=policy.expires_s)

    def excluded(self, now: float, settings: Settings) -> tuple[str, ...]:
        """Return the nodes that every chain leaves out now, in order of their names."""
        return tuple(sorted(suspect.node for suspect in self.suspects(now, settings) if suspect.excluded))

    def is_cleared(self, node: str, at: float) -> bool:
        """Say whether a person has cleared a node of what it was blamed for at an instant."""
        return any(each.node == node and each.until >= at for each in self.clearances)


def blame(state: Path, node: str, gpu: str, failure_class: str, xid: int | None, run_id: str, at: float) -> None:
    """
    Write down that a node is to blame for a run; a run that is written down twice counts once.

    Raises:
        NodeNameError: That is no node name.
        OSError, UnsafeFileError: The line cannot be written.
    """
    check_node(node, "the node ledger")
    what = {"node": node, "gpu": gpu, "class": failure_class, "xid": xid, "run_id": run_id}
    _add(state, {"schema": SCHEMA, "what": "blame", **what, "at": at})


def blame_for(run: Run, verdict: Verdict, gpu_allotted: bool | None, at: float) -> None:
    """
    Write down what a node is to blame for, if it is; see `blamed`.

    Raises:
        NodeNameError, OSError, UnsafeFileError: As `blame`.
    """
    found = blamed(run, verdict, gpu_allotted, at)
    if found:
        blame(state_of(run.path), found.node, found.gpu, found.failure_class, found.xid, found.run_id, found.at)


def clear(state: Path, node: str, now: float) -> None:
    """
    Write down that what a node was blamed for counts no more.

    Raises:
        NodeNameError, OSError, UnsafeFileError: As `blame`.
    """
    check_node(node, "gpualert ledger clear")
    # A clock that was ahead may have written of times to come.
    until = max([now, *(entry.at for entry in read(state).blames if entry.node == node)])
    _add(state, {"schema": SCHEMA, "what": "clear", "node": node, "until": until})


def read(*states: Path) -> Ledger:
    """
    Read the ledgers of state folders; empty where there is none.

    A file or line that cannot be trusted is left out, and said among the troubles.
    """
    blames: list[Blame] = []
    clearances: list[Clearance] = []
    troubles: list[str] = []
    for path in (path for state in states for path in sorted((state / "ledger").glob("*.jsonl"))):
        try:
            for number, line in read_lines(path):
                try:
                    found = _entry(line, f"cannot use '{path}', line {number}")
                except GpualertError as error:
                    troubles.append(str(error))
                    continue
                if isinstance(found, Blame):
                    blames.append(found)
                elif found:
                    clearances.append(found)
        except (OSError, UnsafeFileError) as error:
            troubles.append(f"cannot read '{path}': {error}")
    return Ledger(tuple(blames), tuple(clearances), tuple(troubles))


def news(state: Path) -> tuple[str, ...]:
    """
    Return the troubles of a ledger, unless they were returned before; nothing for none.

    Raises:
        OSError: What was returned cannot be remembered.
    """
    troubles, memory = read(state).troubles, state / "ledger" / "complaints"
    data = "\n".join(troubles).encode("utf-8", "backslashreplace")
    try:
        known = read_regular(memory, len(data) + 1)
    except (OSError, UnsafeFileError):
        known = b""
    if data == known:
        return ()
    write_atomically(memory, data)
    return troubles


def _add(state: Path, line: Mapping[str, Any]) -> None:
    folder = state / "ledger"
    make_private_folder(folder)
    append_line(folder / f"{_host_label()}.jsonl", line)


def _host_label() -> str:
    """Each host has a file of its own: appending to one from several is not safe on NFS.  Source: open(2), O_APPEND."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", os.uname().nodename.partition(".")[0])[:32] or "host"


def _entry(line: Mapping[str, Any] | None, where: str) -> Blame | Clearance | None:
    """
    Return what a line says; None where a newer version says what we do not know.

    Raises:
        GpualertError: It cannot be trusted; the sentence names file, line, key and reason.
    """
    if line is None:
        raise GpualertError(f"{where}: it was cut off, or is no object")
    if line.get("what") not in ("blame", "clear"):
        return None
    try:
        node = check_node(_text(line, "node"), f"{where}, key 'node'")
        if line["what"] == "clear":
            return Clearance(node, _instant(line, "until"))
        gpu, xid = str(line.get("gpu") or ""), _code(line, "xid")
        return Blame(node, gpu, _text(line, "class"), xid, _text(line, "run_id"), _instant(line, "at"))
    except ValueError as error:
        raise GpualertError(f"{where}, {error}") from error


def _text(line: Mapping[str, Any], key: str) -> str:
    value = line.get(key)
    if not isinstance(value, str):
        raise ValueError(f"key '{key}': " + ("it is missing" if value is None else f"{value!r} is no text"))
    return value


def _code(line: Mapping[str, Any], key: str) -> int | None:
    value = line.get(key)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise ValueError(f"key '{key}': {value!r} is no number")
    return value


def _instant(line: Mapping[str, Any], key: str) -> float:
    value = line.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < _LAST_INSTANT:
        raise ValueError(f"key '{key}': " + ("it is missing" if value is None else f"{value!r} is no time"))
    return float(value)
