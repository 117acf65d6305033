"""The command that prints a run's log."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import click

from gpualert.cli.common import RUN, run_path, say
from gpualert.display import visible
from gpualert.files import open_regular
from gpualert.model import LogFile
from gpualert.rundir import read_run
from gpualert.settle import readable_logs
from gpualert.standing import Standing, standing

_STEP_BYTES = 1 << 20
_LOOK_EVERY_S = 0.2
_SILENT_S = 600.0


@click.command()
@RUN
@click.option("--raw", is_flag=True, help="The bytes as the job wrote them.")
@click.option("--path", "only_path", is_flag=True, help="Only where the logs lie.")
@click.option("--follow", is_flag=True, help="Go on printing while the run goes on.")
def log(run: str, raw: bool, only_path: bool, follow: bool) -> int:
    """
    Print the log of a RUN (default: the last one).

    Lines painted over with carriage returns are shown as they last were, and control characters spelled out.
    """
    path = run_path(run)
    found = readable_logs(read_run(path))
    for reason in found.not_read:
        click.echo(f"gpualert: {visible(reason)}", err=True)
    if not found.files:
        return 1
    if follow and not only_path:
        _follow(path, found.files, raw)
        return 0
    for file in found.files:
        if only_path:
            say(visible(str(file.path)))
        else:
            _print_log(file, raw, titled=len(found.files) > 1)
    return 0


def _print_log(file: LogFile, raw: bool, titled: bool) -> None:
    out = sys.stdout.buffer
    if titled and not raw:
        out.write(f"==> {visible(file.name)} <==\n".encode())
    with os.fdopen(open_regular(file.path), "rb") as source:
        if raw:
            for piece in _pieces(source, file):
                out.write(piece)
        else:
            for line in _lines(source, file):
                out.write(_as_seen(line).encode() + b"\n")
    out.flush()


def _follow(run: Path, files: Sequence[LogFile], raw: bool) -> None:
    """Print what the logs hold and what comes, until the run has ended; several logs come as they grow."""
    sources = [os.fdopen(open_regular(file.path), "rb") for file in files]
    for source, file in zip(sources, files, strict=True):
        source.seek(file.start)
    rests = [b""] * len(sources)
    ended = False
    while not ended:
        ended = _is_over(run, files)  # before the last look at the logs, not after it
        for number, source in enumerate(sources):
            rests[number] = _print_new(source, rests[number], raw, last=ended)
        sys.stdout.buffer.flush()
        if not ended:
            time.sleep(_LOOK_EVERY_S)


def _is_over(path: Path, files: Sequence[LogFile]) -> bool:
    """Say whether nothing more will come; where nobody can see the run, whether nothing has come for a while."""
    state = standing(read_run(path))
    if state is Standing.UNKNOWN:
        return all(time.time() - file.path.stat().st_mtime > _SILENT_S for file in files)
    return state in (Standing.ENDED, Standing.LOST, Standing.ABANDONED)


def _print_new(source: BinaryIO, rest: bytes, raw: bool, *, last: bool) -> bytes:
    """Print what a log has got; return the start of a line that is not complete yet."""
    out = sys.stdout.buffer
    while piece := source.read(_STEP_BYTES):
        if raw:
            out.write(piece)
            continue
        lines, rest = _cut(rest + piece)
        out.writelines(_as_seen(line).encode() + b"\n" for line in lines)
    if last and rest:
        out.write(_as_seen(rest).encode() + b"\n")
        return b""
    return rest


def _as_seen(line: bytes) -> str:
    """Return what a terminal would still show of a line; parts painted over with carriage returns are gone."""
    parts = line.rstrip(b"\r").split(b"\r")
    last = next((part for part in reversed(parts) if part.strip()), parts[-1])
    return visible(last.decode("utf-8", "surrogateescape"))


def _pieces(source: BinaryIO, file: LogFile) -> Iterator[bytes]:
    """Yield the run's own bytes."""
    source.seek(file.start)
    left = (file.end if file.end is not None else os.fstat(source.fileno()).st_size) - file.start
    while left > 0 and (piece := source.read(min(left, _STEP_BYTES))):
        left -= len(piece)
        yield piece


def _lines(source: BinaryIO, file: LogFile) -> Iterator[bytes]:
    """Yield the run's own lines, without their ends; one that is endless comes in pieces."""
    rest = b""
    for piece in _pieces(source, file):
        lines, rest = _cut(rest + piece)
        yield from lines
    if rest:
        yield rest


def _cut(data: bytes) -> tuple[list[bytes], bytes]:
    """Return the complete lines of `data` and the start of the next one; one that is endless comes in pieces."""
    *lines, rest = data.split(b"\n")
    return (lines, rest) if len(rest) <= _STEP_BYTES else ([*lines, rest], b"")
