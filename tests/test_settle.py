"""Waiting for logs: not at all where nobody can write any more, and never for ever."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from rundirs import RUN_ID, RunBuilder, items

from gpualert.rundir import read_run
from gpualert.settle import readable_logs, settle

WRITER = """
import os, sys, time
os.write(1, b"ready\\n")
sys.stdin.readline()
os.write(1, b"last words\\n")
time.sleep(float(sys.argv[1]))
"""


def started(stdout: object, lives_s: float) -> subprocess.Popen[bytes]:
    """Start a process of the run that writes a line when told to, and another when it is told again."""
    environ = {**os.environ, "GPUALERT_RUN_ID": RUN_ID}
    command = [sys.executable, "-c", WRITER, str(lives_s)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=stdout, env=environ)  # type: ignore[call-overload, no-any-return]


def told(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin
    process.stdin.write(b"\n")
    process.stdin.flush()


def until(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(0.01)


def test_a_log_whose_copier_is_gone_is_complete_at_once(make_run: RunBuilder) -> None:
    run = read_run(make_run(log=b"abc\n"))
    before = time.monotonic()
    (log,) = settle(run, limit_s=60, quiet_s=60).files
    assert time.monotonic() - before < 60
    assert (log.name, log.start, log.end) == ("output.log", 0, 4)


def test_what_the_copier_still_writes_belongs_to_the_log(make_run: RunBuilder) -> None:
    path = make_run(log=b"")
    with (path / "output.log").open("wb") as log, started(log, 0.0) as process:
        start = (path / "start").read_text()
        (path / "start").write_text(start.replace("stdout_tee_pid=", f"stdout_tee_pid={process.pid}\nwas="))
        until(lambda: (path / "output.log").stat().st_size > 0)
        told(process)
        (found,) = settle(read_run(path), limit_s=60, quiet_s=60).files
        assert found.end == len(b"ready\nlast words\n")


def test_a_writer_left_behind_is_waited_for_until_it_is_quiet(make_run: RunBuilder, tmp_path: Path) -> None:
    adopted = tmp_path / "slurm.out"
    path = make_run(log=None, start={"stdout": "adopt"}, exit={"stdout_end": 6})
    (path / "stdout.path").write_bytes(items([bytes(adopted)]))
    with adopted.open("wb") as log, started(log, 600.0) as process:
        until(lambda: adopted.stat().st_size == 6)
        told(process)
        (found,) = settle(read_run(path), limit_s=60, quiet_s=0.5).files
        process.kill()
    assert found.end == len(b"ready\nlast words\n")


def test_a_range_that_others_share_is_not_extended(make_run: RunBuilder, tmp_path: Path) -> None:
    adopted = tmp_path / "slurm.out"
    path = make_run(log=None, start={"stdout": "adopt", "stdout_shared": 1}, exit={"stdout_end": 6})
    (path / "stdout.path").write_bytes(items([bytes(adopted)]))
    with adopted.open("wb") as log, started(log, 600.0) as process:
        until(lambda: adopted.stat().st_size == 6)
        (found,) = settle(read_run(path), limit_s=60, quiet_s=0.1).files
        process.kill()
    assert found.end == 6


def test_a_writer_that_is_never_quiet_is_not_waited_for_longer_than_the_limit(make_run: RunBuilder) -> None:
    path = make_run(log=b"")
    with (path / "output.log").open("wb") as log:
        script = "import sys, time\nwhile True: print('x', flush=True); time.sleep(0.01)"
        with subprocess.Popen([sys.executable, "-c", script], stdout=log) as process:
            start = (path / "start").read_text()
            (path / "start").write_text(start.replace("stdout_tee_pid=", f"stdout_tee_pid={process.pid}\nwas="))
            until(lambda: (path / "output.log").stat().st_size > 0)
            (found,) = settle(read_run(path), limit_s=0.3, quiet_s=60).files
            process.kill()
    assert found.end


def test_bytes_after_an_adopted_logs_end_are_not_the_runs(make_run: RunBuilder, tmp_path: Path) -> None:
    adopted = tmp_path / "slurm.out"
    adopted.write_bytes(b"before\nmine\nafter\n")
    path = make_run(log=None, start={"stdout": "adopt", "stdout_start": 7}, exit={"stdout_end": 12})
    (path / "stdout.path").write_bytes(items([bytes(adopted)]))
    (found,) = settle(read_run(path)).files
    assert (found.path, found.start, found.end) == (adopted, 7, 12)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("missing", "No such file or directory"),
        ("link", "it is a symbolic link"),
        ("fifo", "it is not a regular file"),
        ("cut", "it was cut off after the run: 3 bytes, and the run's begin at 7"),
    ],
)
def test_a_log_that_cannot_be_read_is_said(make_run: RunBuilder, tmp_path: Path, kind: str, reason: str) -> None:
    adopted = tmp_path / "slurm.out"
    if kind == "link":
        adopted.symlink_to("/etc/passwd")
    elif kind == "fifo":
        os.mkfifo(adopted)
    elif kind == "cut":
        adopted.write_bytes(b"abc")
    path = make_run(log=None, start={"stdout": "adopt", "stdout_start": 7}, exit={"stdout_end": 12})
    (path / "stdout.path").write_bytes(items([bytes(adopted)]))
    found = readable_logs(read_run(path))
    assert (found.files, found.not_read) == ((), (f"slurm.out: {reason}",))


def test_streams_without_a_log_and_a_capped_copy_are_said(make_run: RunBuilder) -> None:
    start = {"combined": "", "stderr": "none", "max_log_bytes": 4}
    path = make_run(log=None, start=start)
    (path / "stdout.log").write_bytes(b"abcd")
    found = readable_logs(read_run(path))
    assert found.not_read == (
        "stderr: it was not captured",
        "stdout: the middle of our copy was left out: it holds 4 bytes (--max-log)",
    )


def test_the_log_of_an_engines_job_is_read_too(make_run: RunBuilder, tmp_path: Path) -> None:
    path = make_run(cwd=str(tmp_path))
    (tmp_path / "rule.log").write_text("Error\n")
    (path / "engine").write_bytes(items(["rule=train", "log=rule.log missing.log"]))
    assert [log.name for log in readable_logs(read_run(path)).files] == ["output.log", str(tmp_path / "rule.log")]
