"""The reader of run directories: what it understands, and what it refuses."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rundirs import NOW, RUN_ID, RunBuilder, items, record

from gpualert.errors import RunDirError
from gpualert.model import Capture, Options
from gpualert.rundir import has_ended, read_run

RECORD_LINES = [
    *(b"run_id=r", b"host=h", b"pid=1", b"pid=-1", b"started_at=1.5", b"started_at=1e999", b"stdout=tee", b"stderr=x"),
    *(
        b"combined=1",
        b"status=0",
        b"status=999999999999999999999999",
        b"signal=",
        b"ended_at=inf",
        b"=",
        b"a",
        b"\xff=\0",
    ),
]


def test_a_finished_run_is_read_completely(make_run: RunBuilder) -> None:
    path = make_run(
        argv=["python", "train.py", "--name", "a b\nc"],
        cwd="/data/job",
        start={"slurm_job_id": "4711", "attempt": 2, "cgroup": "/x", "cgroup_oom_kill": 3, "new_key": "kept"},
        exit={"status": 137, "signal": 9, "cgroup_oom_kill": 4},
    )
    run = read_run(path)
    assert run.run_id == RUN_ID
    assert run.argv == ("python", "train.py", "--name", "a b\nc")
    assert run.cwd == "/data/job"
    assert run.start and run.exit
    assert (run.start.slurm_job_id, run.start.attempt, run.start.cgroup_oom_kill) == ("4711", 2, 3)
    assert run.start.started_at == NOW - 100
    assert (run.exit.status, run.exit.signal, run.exit.timed_out, run.exit.cgroup_oom_kill) == (137, 9, False, 4)
    assert dict(run.start.extra)["new_key"] == "kept"


def test_both_streams_in_one_place_are_one_log(make_run: RunBuilder) -> None:
    (stream,) = read_run(make_run()).streams
    assert (stream.name, stream.capture, stream.path and stream.path.name) == ("output", Capture.TEE, "output.log")


def test_an_adopted_stream_has_its_path_and_range(make_run: RunBuilder, tmp_path: Path) -> None:
    start = {"combined": "", "stdout": "adopt", "stdout_start": 10, "stdout_shared": 1, "stderr": "none"}
    path = make_run(log=None, start=start, exit={"stdout_end": 20})
    (path / "stdout.path").write_bytes(items([tmp_path / "slurm.out"]))  # type: ignore[list-item]
    out, err = read_run(path).streams
    assert (out.path, out.start, out.end, out.shared) == (tmp_path / "slurm.out", 10, 20, True)
    assert (err.capture, err.path) == (Capture.NONE, None)


def test_an_adopted_stream_that_ends_before_it_begins_has_no_known_end(make_run: RunBuilder) -> None:
    start = {"stdout": "adopt", "stderr": "adopt", "stdout_start": 2369, "stdout_shared": 1}
    (stream,) = read_run(make_run(log=None, start=start, exit={"stdout_end": 0})).streams
    assert (stream.start, stream.end) == (2369, None)


def test_an_adopted_stream_whose_path_is_not_written_yet_has_no_path(make_run: RunBuilder) -> None:
    (stream,) = read_run(make_run(log=None, start={"stdout": "adopt"}, ended=False)).streams
    assert stream.path is None


def test_options_may_repeat(make_run: RunBuilder) -> None:
    options = [("to", "a@b.c"), ("to", "d@e.f"), ("attach", "*.png"), ("mail", 0), ("log", 0), ("longer_than_s", 90)]
    assert read_run(make_run(options=options)).options == Options(
        to=("a@b.c", "d@e.f"), attach=("*.png",), mail=False, log=False, longer_than_s=90.0
    )


def test_bytes_that_are_no_utf8_are_read_and_a_path_keeps_them(make_run: RunBuilder) -> None:
    run = read_run(make_run(argv=[b"echo", b"\xff"], cwd=b"/data/\xff"))
    assert run.argv == ("echo", "�")
    assert os.fsencode(run.cwd) == b"/data/\xff"


def test_an_item_that_is_cut_off_is_left_out(make_run: RunBuilder) -> None:
    path = make_run()
    (path / "argv").write_bytes(b"python\0train")
    assert read_run(path).argv == ("python",)


def test_an_exit_record_that_was_never_renamed_is_as_good(make_run: RunBuilder) -> None:
    path = make_run()
    (path / "exit").rename(path / ".exit")
    assert has_ended(path)
    assert read_run(path).exit


def test_bytes_after_the_end_are_padding(make_run: RunBuilder) -> None:
    path = make_run()
    (path / "exit").write_bytes(record({"status": 3, "ended_at": NOW}) + b"\0" * 100 + b"\nno key\n")
    run = read_run(path)
    assert run.exit and run.exit.status == 3


@pytest.mark.parametrize("content", [b"", b"status=1\n", b"status=1\nend=1", b" " * 200], ids=repr)
def test_a_record_without_its_end_is_not_there_yet(make_run: RunBuilder, content: bytes) -> None:
    path = make_run()
    (path / "exit").write_bytes(content)
    assert read_run(path).exit is None
    assert not has_ended(path)


def test_where_the_shell_had_no_clock_the_files_time_serves(make_run: RunBuilder) -> None:
    path = make_run(start={"started_at": ""}, exit={"ended_at": ""})
    os.utime(path / "start", (NOW, NOW - 7.0))
    os.utime(path / "exit", (NOW, NOW + 7.0))
    run = read_run(path)
    assert run.start and run.exit
    assert (run.start.started_at, run.exit.ended_at) == (NOW - 7.0, NOW + 7.0)


def test_a_launch_without_start_shows_what_logs_there_are(make_run: RunBuilder) -> None:
    run = read_run(make_run(started=False, ended=False))
    assert run.start is None
    assert [stream.name for stream in run.streams] == ["output"]


@pytest.mark.parametrize(
    ("file", "content", "key", "reason"),
    [
        ("start", {"run_id": ""}, "run_id", "it is missing"),
        ("start", {"pid": ""}, "pid", "it is missing"),
        ("start", {"pid": "x"}, "pid", "'x' is no number"),
        ("start", {"pid": "0"}, "pid", "0 is not within"),
        ("start", {"pid_starttime": "1_000"}, "pid_starttime", "'1_000' is no number"),
        ("start", {"attempt": "²"}, "attempt", "'²' is no number"),
        ("start", {"started_at": "yesterday"}, "started_at", "is no number of seconds"),
        ("start", {"started_at": "nan"}, "started_at", "is no number of seconds"),
        ("start", {"stdout": "teee"}, "stdout", "'teee' is no capture"),
        ("start", {"stdout": ""}, "stdout", "it is missing"),
        ("exit", {"status": ""}, "status", "it is missing"),
        ("exit", {"status": "256"}, "status", "256 is not within 0 and 255"),
        ("exit", {"status": "-1"}, "status", "-1 is not within 0 and 255"),
        ("exit", {"signal": "KILL"}, "signal", "'KILL' is no number"),
        ("exit", {"ended_at": "-5"}, "ended_at", "is no number of seconds"),
    ],
    ids=lambda value: str(value),
)
def test_a_malformed_key_is_refused_by_name(
    make_run: RunBuilder, file: str, content: dict[str, object], key: str, reason: str
) -> None:
    path = make_run(**{file: content})  # type: ignore[arg-type]
    with pytest.raises(RunDirError) as caught:
        read_run(path)
    assert (caught.value.file, caught.value.key) == (file, key)
    assert reason in caught.value.reason
    assert str(path) in str(caught.value)


def test_a_line_that_is_no_key_and_value_is_refused(make_run: RunBuilder) -> None:
    path = make_run()
    (path / "start").write_bytes(b"run_id=x\nrm -rf\nend=1\n")
    with pytest.raises(RunDirError, match="file 'start': line 2 is not key=value"):
        read_run(path)


def test_another_format_is_refused(make_run: RunBuilder) -> None:
    path = make_run()
    (path / "format").write_text("gpualert-run/2\n")
    with pytest.raises(RunDirError, match="file 'format': 'gpualert-run/2'"):
        read_run(path)


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunDirError, match="file 'format': it is missing"):
        read_run(tmp_path)


@pytest.mark.parametrize("name", ["format", "argv", "cwd", "options", "start", "exit"])
@pytest.mark.parametrize("kind", ["link", "fifo", "folder"])
def test_nothing_but_a_regular_file_is_opened(make_run: RunBuilder, tmp_path: Path, name: str, kind: str) -> None:
    path = make_run()
    (path / name).unlink(missing_ok=True)
    if kind == "link":
        (tmp_path / "elsewhere").write_text("secret\n")
        (path / name).symlink_to(tmp_path / "elsewhere")
    elif kind == "fifo":
        os.mkfifo(path / name)
    else:
        (path / name).mkdir()
    with pytest.raises(RunDirError) as caught:
        read_run(path)
    assert caught.value.file == name


def test_a_run_directory_that_is_a_link_is_refused(make_run: RunBuilder, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(make_run())
    with pytest.raises(RunDirError, match="symbolic link"):
        read_run(tmp_path / "link")


def test_a_run_directory_that_others_may_change_is_refused(make_run: RunBuilder) -> None:
    path = make_run()
    path.chmod(0o777)
    with pytest.raises(RunDirError, match="others may write in it"):
        read_run(path)


def test_a_missing_run_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunDirError, match="No such file or directory"):
        read_run(tmp_path / "none")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make another user's file")
def test_another_users_file_is_refused(make_run: RunBuilder) -> None:
    path = make_run()
    os.chown(path / "exit", 12345, 12345)
    with pytest.raises(RunDirError, match="belongs to user 12345"):
        read_run(path)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(
        ["format", "argv", "cwd", "name", "options", "engine", "start", "exit", ".exit", "stdout.path"]
    ),
    content=st.one_of(
        st.binary(max_size=300),
        st.lists(st.sampled_from(RECORD_LINES)).map(lambda lines: b"\n".join([*lines, b"end=1", b""])),
    ),
)
def test_whatever_lies_in_a_run_directory_is_read_or_refused_by_name(
    tmp_path_factory: pytest.TempPathFactory, name: str, content: bytes
) -> None:
    path = RunBuilder(tmp_path_factory.mktemp("state"))()
    (path / name).write_bytes(content)
    try:
        run = read_run(path)
    except RunDirError as error:
        assert error.file == name and error.reason
    else:
        assert run.path == path
