"""Small JSON files of the spool: written in one step, read with suspicion."""

from __future__ import annotations

import json
from dataclasses import MISSING, asdict, fields
from pathlib import Path
from typing import Any, TypeVar

from gpualert.errors import GpualertError, UnsafeFileError
from gpualert.files import read_regular
from gpualert.model import SCHEMA

_RECORD_BYTES = 1 << 20
_Record = TypeVar("_Record")


class SpoolError(GpualertError):
    """
    A file of the spool cannot be trusted.

    Attributes:
        path: The file.
        reason: Why it was refused.
        lasting: Whether it will be as bad the next time; a file server that is away for a moment is not.
    """

    def __init__(self, path: Path, reason: str, *, lasting: bool = True) -> None:
        self.path, self.reason, self.lasting = path, reason, lasting
        super().__init__(f"cannot use '{path}': {reason}")


def encoded(record: Any) -> bytes:
    """Return a record (a flat dataclass) as JSON."""
    return (json.dumps({"schema": SCHEMA, **asdict(record)}, indent=1) + "\n").encode()


def read_bytes(path: Path, limit_bytes: int) -> bytes:
    """
    Return at most the first `limit_bytes` of a file.

    Raises:
        SpoolError: It is unsafe or unreadable.
    """
    try:
        return read_regular(path, limit_bytes)
    except UnsafeFileError as error:
        raise SpoolError(path, error.reason) from error
    except OSError as error:
        gone = isinstance(error, FileNotFoundError)
        raise SpoolError(path, error.strerror or str(error), lasting=gone) from error


def read_record(path: Path, kind: type[_Record]) -> _Record:
    """
    Read a record: known keys of the right type, unknown ones skipped, none missing that has no default.

    Raises:
        SpoolError: It is unreadable or malformed.
    """
    try:
        values = json.loads(read_bytes(path, _RECORD_BYTES))
    except (ValueError, RecursionError) as error:
        raise SpoolError(path, f"it is no JSON: {error}") from None
    if not isinstance(values, dict) or values.get("schema") != SCHEMA:
        raise SpoolError(path, f"it is no record of schema {SCHEMA}")
    known: dict[str, Any] = {}
    for field in fields(kind):  # type: ignore[arg-type]  # any dataclass
        if field.name in values:
            known[field.name] = _checked(path, field.name, str(field.type), values[field.name])
        elif field.default is MISSING:
            raise SpoolError(path, f"key '{field.name}' is missing")
    return kind(**known)


def _checked(path: Path, key: str, kind: str, value: object) -> object:
    """Return `value` as the type called `kind`."""
    if kind == "tuple[str, ...]" and isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(value)
    if kind == "tuple[float, ...]" and isinstance(value, list) and all(_is_number(item) for item in value):
        return tuple(map(float, value))
    if kind == "float" and _is_number(value):
        return float(value)  # type: ignore[arg-type]
    if type(value).__name__ == kind:
        return value
    raise SpoolError(path, f"key '{key}': {value!r} is no {kind}")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
