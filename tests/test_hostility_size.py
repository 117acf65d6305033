"""What is huge, or pretends to be small, is read within bounds."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from pathlib import Path

import pytest
from rundirs import RunBuilder

pytestmark = pytest.mark.long

GIB = 1 << 30
SMALLER = GIB >> 5
MEMORY_BYTES = 400 << 20  # of our own, beside the mapped log
PATIENCE_S = 110
BOUND = "import resource, runpy, sys; resource.setrlimit(resource.RLIMIT_DATA, ({0}, {0})); sys.argv = ['gpualert', *sys.argv[1:]]; runpy.run_module('gpualert', run_name='__main__')"  # noqa: E501


def bounded(*words: str) -> str:
    """Run a command of ours in little memory; return what it says."""
    done = subprocess.run(
        [sys.executable, "-c", BOUND.format(MEMORY_BYTES), *words],
        capture_output=True,
        timeout=PATIENCE_S,
        stdin=subprocess.DEVNULL,
    )
    assert b"Traceback" not in done.stderr, done.stderr[-2000:]
    assert b"MemoryError" not in done.stderr
    return done.stdout.decode("utf-8", "replace")


def one_line(path: Path, size_bytes: int = GIB) -> None:
    """Write one line, most of it a hole, and the cause after it."""
    with path.open("wb") as file:
        file.write(b"begin ")
        file.seek(size_bytes)
        file.write(b" end\nValueError: bad value\n")


def test_one_line_of_a_gib_is_told_with_the_cause_after_it(make_run: RunBuilder, state: Path) -> None:
    run = make_run(log=None)
    one_line(run / "output.log")
    bounded("post", str(run))
    (mail,) = (state / "mail" / "new").iterdir()
    assert b"ValueError: bad value" in mail.read_bytes()
    assert mail.stat().st_size < 20_000_000


@pytest.mark.parametrize(
    ("command", "size_bytes"), [(["classify"], GIB), (["redact", "--counts"], SMALLER)], ids=["classify", "redact"]
)
def test_one_huge_line_is_looked_at_within_bounds(command: list[str], size_bytes: int, tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    one_line(log, size_bytes)
    assert bounded(*command, str(log))


def bomb(path: Path, members: int = 128) -> None:
    """Write an archive of a few kilobytes a member that unpacks to 16 MiB each."""
    member = gzip.compress(b"\0" * (1 << 24), 9)
    path.write_bytes(gzip.compress(b"first\n") + member * members + gzip.compress(b"\nValueError: bad value\n"))


def test_a_log_that_explodes_when_unpacked_is_told_within_bounds(make_run: RunBuilder, state: Path) -> None:
    run = make_run(log=None)
    bomb(run / "output.log")
    bounded("post", str(run))
    (mail,) = (state / "mail" / "new").iterdir()
    assert mail.stat().st_size < 20_000_000


def test_an_attachment_that_explodes_when_unpacked_goes_within_bounds(
    make_run: RunBuilder, state: Path, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    member = gzip.compress(b"step 1 loss 0.3\n" * (1 << 20), 9)
    (work / "x.log.gz").write_bytes(member * 64)
    run = make_run(cwd=str(work), options={"attach": "*.gz"}, start={"started_at": 0}, exit={"ended_at": 4e9})
    bounded("post", str(run))
    (mail,) = (state / "mail" / "new").iterdir()
    assert mail.stat().st_size < 20_000_000


def test_artifacts_of_ten_gigabytes_are_named_and_not_read(make_run: RunBuilder, state: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    for name in ("model.bin", "asked.txt", "unasked.json"):
        (work / name).touch()
        os.truncate(work / name, 10_000_000_000)
    run = make_run(cwd=str(work), options={"attach": "asked.txt"}, start={"started_at": 0}, exit={"ended_at": 4e9})
    bounded("post", str(run))
    (mail,) = (state / "mail" / "new").iterdir()
    assert mail.stat().st_size < 1_000_000
    assert b"asked.txt" in (run / "artifacts.json").read_bytes()
