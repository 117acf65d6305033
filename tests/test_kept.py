"""What a requeue would empty is kept, and read where the file holds something else."""

from __future__ import annotations

from pathlib import Path

import pytest
from rundirs import RunBuilder, items

from gpualert import kept
from gpualert.model import Run
from gpualert.rundir import read_run
from gpualert.settle import readable_logs, settle


def adopted(
    make_run: RunBuilder, output: Path, *, job: str = "4711", status: int | None = 143, end: int | None = None
) -> Run:
    """Return a run whose output went to a file, from its beginning."""
    end = output.stat().st_size if end is None else end
    path = make_run(
        log=None,
        start={"slurm_job_id": job, "stdout": "adopt", "stderr": "adopt", "stdout_start": 0, "stdout_tee_pid": None},
        exit={"status": status, "stdout_end": end} if status is not None else None,
        ended=status is not None,
    )
    (path / "stdout.path").write_bytes(items([str(output)]))
    return read_run(path)


@pytest.fixture
def output(tmp_path: Path) -> Path:
    path = tmp_path / "slurm-4711.out"
    path.write_bytes(b"attempt 0\nValueError: first\n")
    return path


def text(run: Run) -> tuple[str, bytes, tuple[str, ...]]:
    """Return name and content of a run's only log as read now, and what could not be read."""
    logs = readable_logs(run)
    [log] = logs.files
    return log.name, log.path.read_bytes()[log.start : log.end], logs.not_read


@pytest.mark.parametrize("status", [143, 1, None])
def test_what_a_requeue_overwrites_is_read_from_our_copy(
    make_run: RunBuilder, output: Path, status: int | None
) -> None:
    run = adopted(make_run, output, status=status)
    before = settle(run)
    assert (before.files[0].path, before.not_read) == (output, ())
    output.write_bytes(b"attempt 1, and it says much more than the one before\n" * 9)
    name, content, not_read = text(run)
    assert (name, content) == ("slurm-4711.out", b"attempt 0\nValueError: first\n")
    assert not_read == ("output: its file holds something else by now; our copy was read",)


@pytest.mark.parametrize("change", [b"attempt 0\nValueError: ", b""])
def test_a_file_that_was_cut_off_is_read_from_our_copy(make_run: RunBuilder, output: Path, change: bytes) -> None:
    run = adopted(make_run, output)
    settle(run)
    output.write_bytes(change)
    assert text(run)[1] == b"attempt 0\nValueError: first\n"


def test_a_file_that_is_gone_is_read_from_our_copy(make_run: RunBuilder, output: Path) -> None:
    run = adopted(make_run, output)
    settle(run)
    output.unlink()
    assert text(run)[1] == b"attempt 0\nValueError: first\n"


@pytest.mark.parametrize("status", [143, None])
def test_a_file_that_others_only_added_to_is_read_itself(
    make_run: RunBuilder, output: Path, status: int | None
) -> None:
    run = adopted(make_run, output, status=status)
    settle(run)
    with output.open("ab") as file:
        file.write(b"attempt 1\n")
    name, content, not_read = text(run)
    assert (name, content.startswith(b"attempt 0\nValueError: first\n"), not_read) == ("slurm-4711.out", True, ())
    assert readable_logs(run).files[0].path == output


@pytest.mark.parametrize(("job", "status"), [("", 1), ("4711", 0)], ids=["outside Slurm", "ended well"])
def test_only_what_slurm_may_run_again_is_kept(make_run: RunBuilder, output: Path, job: str, status: int) -> None:
    run = adopted(make_run, output, job=job, status=status)
    settle(run)
    assert not list(run.path.glob("*.kept"))


def test_of_much_output_beginning_and_end_are_kept(
    make_run: RunBuilder, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "KEPT_BYTES", 100)
    output.write_bytes(b"first line\n" + b"x" * 5000 + b"\nlast line\n")
    run = adopted(make_run, output)
    settle(run)
    copy = (run.path / "output.kept").read_bytes()
    assert (copy[:11], copy[-10:], len(copy) < 300) == (b"first line\n", b"last line\n", True)
    assert b"[gpualert left out what stood here: 4822 bytes]" in copy
    assert readable_logs(run).files[0].path == output
    output.write_bytes(b"first line\n" + b"y" * 6000)
    assert readable_logs(run).files[0].path == run.path / "output.kept"


def test_the_first_copy_stays(make_run: RunBuilder, output: Path) -> None:
    run = adopted(make_run, output)
    settle(run)
    output.write_bytes(b"attempt 1\n")
    settle(run)
    assert (run.path / "output.kept").read_bytes() == b"attempt 0\nValueError: first\n"


def test_a_copy_that_cannot_be_kept_is_said(make_run: RunBuilder, output: Path, tmp_path: Path) -> None:
    run = adopted(make_run, output)
    output.rename(tmp_path / "elsewhere")
    output.symlink_to(tmp_path / "elsewhere")
    assert any("no copy could be kept: it is a symbolic link" in said for said in settle(run).not_read)


def test_the_copy_is_private(make_run: RunBuilder, output: Path) -> None:
    run = adopted(make_run, output)
    settle(run)
    assert (run.path / "output.kept").stat().st_mode & 0o077 == 0
