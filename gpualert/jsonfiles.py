"""JSON on disk: written in one step, in ASCII, and read with suspicion; files of one object a line."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, BinaryIO

from gpualert.files import open_append, open_regular, read_regular, write_atomically

_LIMIT_BYTES = 16 << 20
_LINE_BYTES = 1 << 20  # a longer line is none of ours


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


def append_line(path: Path, value: Mapping[str, Any]) -> None:
    """
    Add one object as a line of its own to a file, in one write: lines of two processes do not mix.

    It is on disk when this returns.  A line that a full disk cut off before is ended first.

    Raises:
        OSError, UnsafeFileError: It cannot be written, or only a part of it; that part is no line for readers.
    """
    line = json.dumps(plain(value), ensure_ascii=True, separators=(",", ":")).encode("ascii") + b"\n"
    fd = open_append(path)
    try:
        whole = line if _ends_in_a_line(path) else b"\n" + line
        if os.write(fd, whole) != len(whole):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        os.fsync(fd)
    finally:
        os.close(fd)


def _ends_in_a_line(path: Path) -> bool:
    with os.fdopen(open_regular(path), "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - 1, 0))
        return file.read(1) in (b"", b"\n")


def bounded_lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of a file; of one that is longer than 1 MiB only the beginning, and nothing after it."""
    while line := file.readline(_LINE_BYTES):
        yield line
        if len(line) == _LINE_BYTES and not line.endswith(b"\n"):
            return


def read_lines(path: Path) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """
    Yield the number of each line, from 1, and the object in it; None where a line was cut off or is none.

    Nothing where there is no file.

    Raises:
        OSError, UnsafeFileError: It cannot be read.
    """
    try:
        file = os.fdopen(open_regular(path), "rb")
    except FileNotFoundError:
        return
    with file:
        for number, line in enumerate(bounded_lines(file), start=1):
            try:
                found = json.loads(line)
            except (ValueError, RecursionError):
                found = None
            if line.strip():
                yield number, found if isinstance(found, dict) else None
