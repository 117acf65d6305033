"""
Read chains as CHAINS.md describes them.

Keys that are not known are skipped; what cannot be trusted is refused with an error that names file and key.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from gpualert.blame import NodeNameError, check_node
from gpualert.chains.record import FORMAT, Chain, Ended, Order, Started, Story, Watch
from gpualert.decide import Attempt, Escalation, RetryPolicy
from gpualert.errors import GpualertError, UnsafeFileError
from gpualert.files import read_regular
from gpualert.jsonfiles import read_json
from gpualert.model import Action, ChainEnd, Domain, RetryDecision, RunStatus, frozen

# The longest environment there can be on Linux.  Source: execve(2).
_TEXT_LIMIT_BYTES = 8 << 20
_ATTEMPT_FILE = re.compile(r"([1-9][0-9]{0,5})(\.end)?\.json")

_Value = TypeVar("_Value")


class ChainError(GpualertError):
    """
    A chain's folder cannot be trusted.

    Attributes:
        path: The chain's folder.
        file: The file in it, relative.
        key: The key in that file, or "".
        reason: Why it was refused.
    """

    def __init__(self, path: Path, file: str, reason: str, key: str = "") -> None:
        self.path, self.file, self.key, self.reason = path, file, key, reason
        where = f"file '{file}'" + (f", key '{key}'" if key else "")
        super().__init__(f"cannot use chain '{path.name}': {where}: {reason} (in '{path}')")


def read_chain(path: Path) -> Chain:
    """
    Read what a chain is.

    Raises:
        ChainError: A file is missing, half written, or holds what makes no sense.
    """
    reader = _Reader(path)
    if reader.data("format").split(b"\n")[0].decode("ascii", "replace") != FORMAT:
        raise ChainError(path, "format", f"it is not {FORMAT!r}; another version of gpualert wrote it")
    values = reader.json("chain.json")
    command, cwd = reader.items("command"), reader.items("cwd")
    if not command or not cwd:
        raise ChainError(path, "cwd" if command else "command", "it is empty, or was cut off")
    pairs = [item.partition(b"=") for item in reader.items("env")]
    return Chain(
        path=path,
        created_at=values.take("created_at", float),
        command=command,
        cwd=cwd[0],
        environ=MappingProxyType({name: value for name, equals, value in pairs if equals}),
        umask=values.take("umask", lambda raw: int(raw, 8)),
        limits=MappingProxyType(values.take("limits", _limits)),
        options=reader.items("options"),
        policy=_policy(values.inside("policy")),
        watch=Watch(**values.inside("watch").present({"pattern": str, "checkpoint": str})),
    )


def read_story(path: Path) -> Story:
    """
    Read what has come of a chain.

    Raises:
        ChainError: As `read_chain`.
    """
    reader = _Reader(path)
    started: dict[int, Started] = {}
    ended: dict[int, Ended] = {}
    lost: set[int] = set()
    for name in _names(path / "attempts"):
        match = _ATTEMPT_FILE.fullmatch(name)
        if not match:
            continue
        number, file = int(match.group(1)), f"attempts/{name}"
        if match.group(2):
            ended[number] = _ended(reader.json(file), number)
        elif (path / file).stat().st_size == 0:
            lost.add(number)
        else:
            started[number] = _started(reader.json(file), number)
    order = _order(reader.json("order.json")) if (path / "order.json").exists() else None
    return Story(
        MappingProxyType(started), MappingProxyType(ended), order, (path / "stopped").exists(), frozenset(lost)
    )


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 (names are all that is wanted)
    except OSError as error:
        raise ChainError(folder.parent, folder.name, error.strerror or str(error)) from error


class _Reader:
    """Reads the files of one chain; whatever is wrong with one is a ChainError."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def data(self, name: str) -> bytes:
        try:
            return read_regular(self.path / name, _TEXT_LIMIT_BYTES)
        except UnsafeFileError as error:
            raise ChainError(self.path, name, error.reason) from error
        except OSError as error:
            raise ChainError(self.path, name, error.strerror or str(error)) from error

    def items(self, name: str) -> tuple[bytes, ...]:
        """Return the NUL-terminated items of a file; one that is cut off is refused."""
        *items, rest = self.data(name).split(b"\0")
        if rest:
            raise ChainError(self.path, name, "its last item was cut off")
        return tuple(items)

    def json(self, name: str) -> _Keys:
        try:
            return _Keys(self.path, name, "", read_json(self.path / name))
        except UnsafeFileError as error:
            raise ChainError(self.path, name, error.reason) from error
        except ValueError as error:
            raise ChainError(self.path, name, f"it is no JSON, or was cut off: {error}") from error
        except OSError as error:
            raise ChainError(self.path, name, error.strerror or str(error)) from error


class _Keys:
    """The keys of one JSON object; a missing or malformed one is a ChainError that names it."""

    def __init__(self, path: Path, file: str, prefix: str, values: Mapping[str, Any]) -> None:
        self.path, self.file, self.prefix, self.values = path, file, prefix, values

    def take(self, key: str, parse: Callable[[Any], _Value]) -> _Value:
        """Return what `parse` makes of a key's value."""
        if key not in self.values:
            raise ChainError(self.path, self.file, "it is missing", self.prefix + key)
        value = self.values[key]
        try:
            return parse(value)
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
            raise ChainError(self.path, self.file, f"{value!r} makes no sense", self.prefix + key) from None

    def inside(self, key: str) -> _Keys:
        """Return the keys of an object inside."""
        return _Keys(self.path, self.file, f"{self.prefix}{key}.", self.take(key, dict))

    def present(self, parsers: Mapping[str, Callable[[Any], Any]]) -> dict[str, Any]:
        """Return what the parsers make of those keys that are there; the others keep their defaults."""
        return {key: self.take(key, parse) for key, parse in parsers.items() if key in self.values}


def _maybe(parse: Callable[[Any], _Value]) -> Callable[[Any], _Value | None]:
    return lambda raw: None if raw is None else parse(raw)


def _flag(raw: Any) -> bool:
    if not isinstance(raw, bool):
        raise ValueError(raw)
    return raw


def _limits(raw: Any) -> dict[str, tuple[int, int]]:
    return {str(name): (int(soft), int(hard)) for name, (soft, hard) in dict(raw).items()}


def _node(raw: Any) -> str:
    try:
        return check_node(raw, "") if raw else ""
    except NodeNameError as error:
        raise ValueError(raw) from error


def _nodes(raw: Any) -> tuple[str, ...]:
    if not isinstance(raw, list):
        raise ValueError(raw)
    return tuple(map(_node, raw))


_POLICY: Mapping[str, Callable[[Any], Any]] = {
    "max_attempts": int,
    "interval_s": float,
    "backoff": str,
    "early_s": float,
    "max_resumes": int,
    "on_sigterm": str,
    "never": _flag,
    "retry_exit_0": _flag,
    "actions": lambda raw: frozen({str(name): Action(action) for name, action in dict(raw).items()}),
    "bigger": lambda raw: tuple(Escalation(str(each["what"]), float(each["factor"])) for each in raw),
    "host": str,
}
_STARTED: Mapping[str, Callable[[Any], Any]] = {
    "host": str,
    "boot_id": str,
    "pid_ns": str,
    "pid": int,
    "pid_starttime": _maybe(int),
    "started_at": float,
    "exclude": _nodes,
}
_ATTEMPT: Mapping[str, Callable[[Any], Any]] = {
    "status": RunStatus,
    "failure_class": str,
    "action": Action,
    "domain": Domain,
    "fingerprint": str,
    "run_id": str,
    "node": str,
    "faulty_node": _node,
    "exited_zero": _flag,
    "sigterm": _flag,
    "progress": _maybe(_flag),
    "duration_s": _maybe(float),
    "ended_at": float,
}


def _policy(keys: _Keys) -> RetryPolicy:
    return RetryPolicy(**keys.present(_POLICY))


def _started(keys: _Keys, number: int) -> Started:
    return Started(number=number, **{key: keys.take(key, parse) for key, parse in _STARTED.items()})


def _ended(keys: _Keys, number: int) -> Ended:
    attempt, decision = keys.inside("attempt"), keys.inside("decision")
    return Ended(
        Attempt(number=number, **{key: attempt.take(key, parse) for key, parse in _ATTEMPT.items()}),
        RetryDecision(
            retry=decision.take("retry", _flag),
            delay_s=decision.take("delay_s", float),
            reason=decision.take("reason", str),
            end=decision.take("end", _maybe(ChainEnd)),
            exclude=decision.take("exclude", _nodes),
        ),
        keys.take("mark", _maybe(float)),
    )


def _order(keys: _Keys) -> Order:
    return Order(keys.take("after", int), keys.take("due_at", float), keys.take("forget", int))
