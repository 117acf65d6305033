"""JSON of a run directory: written in one step, in ASCII, and read with suspicion."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from gpualert.files import read_regular, write_atomically

_LIMIT_BYTES = 16 << 20


def plain(value: Any) -> Any:
    """Return frozen data as JSON knows it; bytes of a path that are no UTF-8 are spelled out."""
    if isinstance(value, Path) or type(value) is str:
        return str(value).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [plain(item) for item in value]
    return value


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """
    Write a JSON file in one step; it is ASCII, whatever strangers put into it.

    Raises:
        OSError: As `write_atomically`.
    """
    write_atomically(path, json.dumps(plain(value), indent=1, ensure_ascii=True).encode("ascii") + b"\n")


def read_json(path: Path) -> dict[str, Any]:
    """
    Return the object in a JSON file of a run directory.

    Raises:
        OSError, UnsafeFileError, ValueError: It is missing, unsafe or no object.
    """
    try:
        found = json.loads(read_regular(path, _LIMIT_BYTES))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(found, dict):
        raise ValueError("it is no object")
    return found
