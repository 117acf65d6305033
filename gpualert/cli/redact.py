"""`gpualert redact`: what would be removed from a file before it is sent."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import click

from gpualert.display import shorten, visible
from gpualert.errors import UsageError
from gpualert.redact import redact
from gpualert.redact.blocks import BLOCK_BYTES, whole_lines

_SHOWN_CHARACTERS = 400
_GZIP = b"\x1f\x8b"


@dataclass
class _Counts:
    """How much was found so far."""

    secrets: int = 0
    altered: int = 0
    lines: int = 0


@click.command(name="redact")
@click.option("--diff", "as_diff", is_flag=True, help="Show altered lines before, secrets and all, and after.")
@click.option("--counts", "only_counts", is_flag=True, help="Show only how many.")
@click.option("--text", "as_text", is_flag=True, help="Print the whole text as it would be sent.")
@click.argument("files", nargs=-1, type=click.Path(path_type=Path, allow_dash=True))
def redact_files(as_diff: bool, only_counts: bool, as_text: bool, files: Sequence[Path]) -> None:
    """
    Show which secrets would be removed from a log, or any text, before it is sent.

    Prints each altered line as it would be sent.  Reads standard input when no FILE is named, or for '-'; gzip is read.
    The file stays as it is.  Exit status: 0 where secrets were found, 1 where there are none, 2 for bad input.
    """
    total = 0
    for file in files or (Path("-"),):
        counts = _Counts()
        try:
            with _opened(file) as stream:
                for before, after in _altered(stream, counts, everything=as_text):
                    _show(before, after, counts, as_diff=as_diff, as_text=as_text, only_counts=only_counts)
        except (OSError, EOFError) as error:
            reason = getattr(error, "strerror", None) or error
            raise UsageError(f"cannot read '{visible(str(file))}': {reason}") from error
        click.echo(_summary(file, counts), err=as_text)
        total += counts.secrets
    sys.exit(0 if total else 1)


@contextmanager
def _opened(file: Path) -> Iterator[IO[bytes]]:
    """Open a file, or standard input; what is compressed is unpacked while it is read."""
    if str(file) == "-":
        yield sys.stdin.buffer
        return
    with file.open("rb") as stream:
        packed = stream.peek(2).startswith(_GZIP)
        yield gzip.GzipFile(fileobj=stream) if packed else stream  # type: ignore[misc]


def _altered(stream: IO[bytes], counts: _Counts, *, everything: bool) -> Iterator[tuple[bytes, bytes]]:
    """Yield each altered line, or every one, before and after; `counts` grows on the way."""
    for piece in whole_lines(iter(lambda: stream.read(BLOCK_BYTES), b"")):
        found = redact(piece)
        counts.secrets += found.count
        if not found.count and not everything:
            counts.lines += piece.count(b"\n") + (not piece.endswith(b"\n"))
            continue
        for before, after in zip(_lines(piece), _lines(found.data), strict=True):
            counts.lines += 1
            counts.altered += before != after
            if everything or before != after:
                yield before, after


def _lines(text: bytes) -> list[bytes]:
    """Return lines with their ends, as the log's lines are counted: a carriage return ends none."""
    return [line + b"\n" for line in text.split(b"\n")[:-1]] + [last for last in text.split(b"\n")[-1:] if last]


def _show(before: bytes, after: bytes, counts: _Counts, *, as_diff: bool, as_text: bool, only_counts: bool) -> None:
    if as_text:
        sys.stdout.buffer.write(after)
    elif as_diff:
        click.echo(f"{counts.lines}\n- {_readable(before)}\n+ {_readable(after)}")
    elif not only_counts:
        click.echo(f"{counts.lines}: {_readable(after)}")


def _readable(line: bytes) -> str:
    return shorten(visible(line.rstrip(b"\r\n").decode("utf-8", "backslashreplace")), _SHOWN_CHARACTERS)


def _summary(file: Path, counts: _Counts) -> str:
    name = "standard input" if str(file) == "-" else visible(str(file))
    what = "no secret" if not counts.secrets else "one secret" if counts.secrets == 1 else f"{counts.secrets:,} secrets"
    return f"{name}: {what} in {counts.altered:,} of {counts.lines:,} lines"
