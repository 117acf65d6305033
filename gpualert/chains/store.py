"""Chains on disk, as CHAINS.md describes them: one folder each, made in one step."""

from __future__ import annotations

import json
import re
import secrets
import shutil
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from gpualert.chains.record import FORMAT, Chain, Ended, Order, Started
from gpualert.errors import UsageError
from gpualert.files import make_private_folder, write_atomically
from gpualert.jsonfiles import plain, write_json
from gpualert.model import SCHEMA

# Made once nothing more is to be done about a chain: ticks look no further.
OVER = "over"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}")


class NoSuchChainError(UsageError):
    """
    No chain has the name that was asked for.

    Attributes:
        name: What was asked for.
    """

    def __init__(self, name: str, known: Sequence[str]) -> None:
        self.name = name
        near = f"; there are: {', '.join(known[:10])}" if known else ""
        super().__init__(f"cannot find chain '{name}'{near} (see: gpualert chain list)")


def check_name(name: str) -> str:
    """
    Return a chain's name as it is.

    Raises:
        UsageError: It cannot be a folder's name and an id in a record.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(f"a chain cannot be called '{name}': use at most 60 letters, digits, '.', '_' and '-'")
    return name


def chain_path(name: str, states: Iterable[Path]) -> Path | None:
    """Return the folder of the chain that a record names; None where there is none, or that can be no name."""
    if not _NAME.fullmatch(name):
        return None
    return next((path for state in states if (path := state / "chains" / name).is_dir()), None)


def chain_paths(states: Iterable[Path]) -> list[Path]:
    """Return the folder of every chain of the state folders, by name; nothing where there is none."""
    found = [path for state in states for path in (state / "chains").glob("[!.]*") if path.is_dir()]
    return sorted(found, key=lambda path: path.name)


def find_chain(name: str, states: Iterable[Path]) -> Path:
    """
    Return the folder of the chain of that name.

    Raises:
        NoSuchChainError: There is none.
    """
    paths = chain_paths(states)
    found = next((path for path in paths if path.name == name), None)
    if found is None:
        raise NoSuchChainError(name, [path.name for path in paths])
    return found


def make_chain(chain: Chain) -> None:
    """
    Write a new chain; it is there as a whole or not at all.

    Raises:
        UsageError: There is one of that name.
        OSError: The disk is full.
    """
    make_private_folder(chain.path.parent)
    new = chain.path.parent / f".new-{secrets.token_hex(8)}"
    try:
        make_private_folder(new / "attempts")
        _write_chain(new, chain)
        new.rename(chain.path)  # refused where a folder of that name holds something
    except FileExistsError:
        raise _taken(chain) from None
    except OSError as error:
        raise (_taken(chain) if chain.path.exists() else error) from None
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _taken(chain: Chain) -> UsageError:
    return UsageError(f"there is a chain '{chain.id}' already; choose another --name (or: gpualert chain resume)")


def _write_chain(folder: Path, chain: Chain) -> None:
    values = {
        "schema": SCHEMA,
        "created_at": chain.created_at,
        "umask": f"{chain.umask:04o}",
        "limits": {name: list(pair) for name, pair in chain.limits.items()},
        "policy": plain(chain.policy),
        "watch": plain(chain.watch),
    }
    write_atomically(folder / "format", f"{FORMAT}\n".encode())
    write_atomically(folder / "command", _items(chain.command))
    write_atomically(folder / "cwd", _items([chain.cwd]))
    write_atomically(folder / "options", _items(chain.options))
    write_atomically(folder / "env", _items(name + b"=" + value for name, value in chain.environ.items()))
    write_json(folder / "chain.json", values)


def _items(words: Iterable[bytes]) -> bytes:
    return b"".join(word + b"\0" for word in words)


def started_path(folder: Path, number: int) -> Path:
    """
    Return the file that says that an attempt is started.

    The very process that is about to become the shim makes it, and only one process can: this is what makes each
    attempt start once.
    """
    return folder / "attempts" / f"{number}.json"


def started_facts(started: Started) -> bytes:
    """Return what such a file holds, up to the process, which it adds itself."""
    facts = {"schema": SCHEMA, **plain(started)}
    known = {key: value for key, value in facts.items() if key not in ("pid", "pid_starttime")}
    return json.dumps(known).encode("ascii").removesuffix(b"}") + b","


def is_started(folder: Path, number: int) -> bool:
    """Say whether somebody has started an attempt."""
    return started_path(folder, number).exists()


def write_ended(path: Path, ended: Ended) -> None:
    """
    Write down the end of an attempt and what was decided.

    Raises:
        OSError: The disk is full.
    """
    write_json(path / "attempts" / f"{ended.attempt.number}.end.json", {"schema": SCHEMA, **plain(ended)})


def write_order(path: Path, order: Order) -> None:
    """
    Have the chain go on after an attempt, whatever was decided then.

    Raises:
        OSError: The disk is full.
    """
    write_json(path / "order.json", {"schema": SCHEMA, **plain(order)})


def output_path(path: Path, number: int) -> Path:
    """Return the file that the output of an attempt goes to."""
    return path / "attempts" / f"{path.name}-{number}.out"


def remove_over(state: Path, before: float) -> None:
    """Remove the chains of a state folder that were over before an instant, with the output of their attempts."""
    for path in chain_paths([state]):
        with suppress(OSError):
            if (path / OVER).stat().st_mtime < before:
                # Renamed first: nobody meets half a chain.
                path.rename(hidden := path.with_name(f".removed-{path.name}"))
                shutil.rmtree(hidden, ignore_errors=True)
    for left in (state / "chains").glob(".removed-*"):
        shutil.rmtree(left, ignore_errors=True)
