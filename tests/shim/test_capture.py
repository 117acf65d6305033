"""The log is there before the job, holds its bytes exactly, and costs it nothing."""

from __future__ import annotations

import hashlib
import os
import select
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from .waiting import eventually, settled
from .world import World, opened

BOTH_STREAMS = ("/bin/sh", "-c", "printf 1; printf 2 >&2; printf 3; printf 4 >&2; printf 5")
ALL_BYTES = bytes(range(256)) * 3 + b"no final newline"
TO_FILE = os.O_WRONLY | os.O_CREAT


def read_until(descriptor: int, wanted: bytes, deadline_s: float = 30.0) -> bytes:
    """Return what comes out of a pipe, up to and including `wanted`."""
    seen = b""
    while wanted not in seen:
        assert select.select([descriptor], [], [], deadline_s)[0], f"only {seen!r} came in {deadline_s:g} s"
        chunk = os.read(descriptor, 65536)
        assert chunk, f"only {seen!r} came before the end"
        seen += chunk
    return seen


def test_everything_is_on_disk_before_the_job_runs(world: World) -> None:
    look = 'cd "$1"/runs/*/ && ls -A && cat format && stat -c "%n %a" . .exit argv start'
    listing = world.run("/bin/sh", "-c", look, "sh", world.state).stdout.decode().split("\n")
    assert {"format", "argv", "cwd", "start", "stdout.log", "stderr.log", ".exit", "lock"} <= set(listing)
    assert "exit" not in listing
    assert "gpualert-run/1" in listing
    assert {". 700", ".exit 600", "argv 600", "start 600"} <= set(listing)


def test_two_pipes_have_two_logs(world: World) -> None:
    pair = world.both(*BOTH_STREAMS)
    pair.assert_same()
    run = pair.run.recorded
    assert (run.log("stdout"), run.log("stderr")) == (b"135", b"24")
    assert (run.start["stdout"], run.start["stderr"], run.start.get("combined") or "0") == ("tee", "tee", "0")
    assert not run.has("output.log")


def test_one_pipe_has_one_log_in_the_exact_order(world: World) -> None:
    many = ("/bin/sh", "-c", "i=0; while [ $i -lt 300 ]; do echo o$i; echo e$i >&2; i=$((i + 1)); done")
    pair = world.both(*many, stderr=subprocess.STDOUT)
    pair.assert_same()
    run = pair.run.recorded
    assert run.log("output") == pair.bare.stdout
    assert run.start["combined"] == "1"
    assert not run.has("stdout.log") and not run.has("stderr.log")


def test_every_byte_value_comes_through_and_into_the_log(world: World) -> None:
    pair = world.both("/bin/cat", stdin=ALL_BYTES)
    pair.assert_same()
    assert pair.run.stdout == ALL_BYTES
    assert pair.run.recorded.log("stdout") == ALL_BYTES


def copied_hash(world: World, size_mib: int) -> None:
    """Send `size_mib` of pseudo-random bytes through the shim and compare the hashes at both ends."""
    writer = f"""
import hashlib, os, sys
block, seen = os.urandom(1 << 20), hashlib.sha256()
for number in range({size_mib}):
    part = number.to_bytes(8, "big") + block[8:]
    seen.update(part)
    sys.stdout.buffer.write(part)
sys.stderr.write(seen.hexdigest())
"""
    process = world.start_run(sys.executable, "-I", "-S", "-c", writer)
    assert process.stdout and process.stderr
    arrived = hashlib.sha256()
    while block := process.stdout.read(1 << 20):
        arrived.update(block)
    assert process.stderr.read().decode() == arrived.hexdigest()
    assert process.wait(60) == 0
    with (world.only_run().finish().path / "stdout.log").open("rb") as log:
        logged = hashlib.sha256()
        while block := log.read(1 << 20):
            logged.update(block)
    assert logged.hexdigest() == arrived.hexdigest()


@pytest.mark.shells("dash", "bash")  # tee copies; the shell never sees the bytes
def test_64_mib_arrive_unchanged(world: World) -> None:
    copied_hash(world, 64)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_1_gib_arrives_unchanged(world: World) -> None:
    copied_hash(world, 1024)


def test_output_is_live(world: World) -> None:
    process = world.start_run("/bin/sh", "-c", "printf first; read go; printf second", stdin=subprocess.PIPE)
    assert process.stdout and process.stdin
    assert read_until(process.stdout.fileno(), b"first") == b"first"
    log = world.only_run().path / "stdout.log"
    eventually(lambda: log.read_bytes() == b"first", "the first word in the log")
    process.stdin.write(b"go\n")
    process.stdin.close()
    assert read_until(process.stdout.fileno(), b"second") == b"second"
    assert process.wait(30) == 0


def test_a_background_process_that_keeps_the_pipe_does_not_hold_the_wrapper(world: World) -> None:
    leave = '(while ! [ -e "$1" ]; do sleep 0.02; done; printf late; printf err >&2) & printf early'
    process = world.start_run("/bin/sh", "-c", leave, "sh", world.cwd / "go")
    assert process.stdout
    assert process.wait(30) == 0
    assert read_until(process.stdout.fileno(), b"early") == b"early"
    run = world.only_run()
    assert run.status == 0
    (world.cwd / "go").touch()
    assert process.stdout.read() == b"late"
    assert (run.log("stdout"), run.log("stderr")) == (b"earlylate", b"err")


def test_a_file_is_adopted_and_nothing_is_copied(world: World) -> None:
    target = world.cwd / "out put\n.txt"
    with opened(target, TO_FILE) as file:
        result = world.run(*BOTH_STREAMS, stdout=file)
    run = result.recorded.finish()
    assert (target.read_bytes(), result.stderr) == (b"135", b"24")
    assert run.start["stdout"] == "adopt" and run.adopted("stdout") == b"135"
    assert run.items("stdout.path") == [os.fsencode(target)]
    assert run.log("stderr") == b"24"
    assert not run.has("stdout.log")


def test_both_streams_in_one_file_are_adopted_together(world: World) -> None:
    target = world.cwd / "out"
    with opened(target, TO_FILE) as file:
        run = world.run(*BOTH_STREAMS, stdout=file, stderr=file).recorded.finish()
    assert target.read_bytes() == b"12345"
    assert run.start["combined"] == "1"
    assert run.adopted("stdout") == b"12345"
    assert not run.has("stderr.path") and not list(run.path.glob("*.log"))


@pytest.mark.parametrize("job", ["echo out; echo err >&2", "echo err >&2", "echo err >&2; echo out", "echo out"])
def test_a_file_opened_once_for_each_stream_is_the_runs_up_to_its_last_word(world: World, job: str) -> None:
    (world.cwd / "log").write_text("before\n")
    result = world.run("/bin/sh", "-c", job, via='exec "$@" >>log 2>>log')
    words = (world.cwd / "log").read_bytes().removeprefix(b"before\n")
    assert sorted(words.split()) == sorted(word.encode() for word in ("out", "err") if word in job)
    assert result.recorded.finish().adopted("stdout") == words
    assert result.recorded.start["combined"] == "1"


def test_two_files_are_adopted_each_by_itself(world: World) -> None:
    with opened(world.cwd / "out", TO_FILE) as out, opened(world.cwd / "err", TO_FILE) as err:
        run = world.run(*BOTH_STREAMS, stdout=out, stderr=err).recorded.finish()
    assert (run.adopted("stdout"), run.adopted("stderr")) == (b"135", b"24")
    assert (run.start.get("combined") or "0") == "0"


def test_a_piped_stdout_beside_an_adopted_stderr_is_teed(world: World) -> None:
    with opened(world.cwd / "err", TO_FILE) as err:
        result = world.run(*BOTH_STREAMS, stderr=err)
    run = result.recorded
    assert (result.stdout, run.log("stdout"), run.adopted("stderr")) == (b"135", b"135", b"24")


def test_what_stood_in_a_file_opened_to_append_is_not_this_runs(world: World) -> None:
    target = world.cwd / "out"
    target.write_bytes(b"the last attempt\n")
    with opened(target, TO_FILE | os.O_APPEND) as file:
        run = world.run("/bin/echo", "this one", stdout=file).recorded.finish()
    assert target.read_bytes() == b"the last attempt\nthis one\n"
    assert run.adopted("stdout") == b"this one\n"
    assert run.start["stdout_shared"] == "1"


def test_an_adopted_file_is_written_on_where_the_caller_stands(world: World) -> None:
    target = world.cwd / "out"
    with opened(target, TO_FILE) as file:
        os.write(file, b"before ")
        first = world.run("/bin/echo", "one", stdout=file).recorded.finish()
        second = world.run("/bin/echo", "two", stdout=file).recorded.finish()
        os.write(file, b"after")
    assert target.read_bytes() == b"before one\ntwo\nafter"
    assert (first.adopted("stdout"), second.adopted("stdout")) == (b"one\n", b"two\n")
    assert (second.start.get("stdout_shared") or "0") == "0"


def test_an_adopted_file_that_was_deleted_does_no_harm(world: World) -> None:
    target = world.cwd / "out"
    with opened(target, os.O_RDWR | os.O_CREAT) as file:
        target.unlink()
        result = world.run("/bin/echo", "hi", stdout=file)
        assert os.pread(file, 100, 0) == b"hi\n"
    assert (result.returncode, result.recorded.status, result.stderr) == (0, 0, b"")


def test_output_to_dev_null_is_kept_in_the_log(world: World) -> None:
    result = world.run(*BOTH_STREAMS, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    assert result.recorded.log("output") == b"12345"
    result = world.run(*BOTH_STREAMS, stdout=subprocess.DEVNULL)
    assert (result.recorded.log("stdout"), result.stderr) == (b"135", b"24")


CLOSED = {"stdin": "<&-", "stdout": ">&-", "stderr": "2>&-", "both": ">&- 2>&-", "all": "<&- >&- 2>&-"}


@pytest.mark.parametrize("which", CLOSED)
def test_a_closed_stream_stays_closed_and_the_job_runs(world: World, which: str) -> None:
    report = world.root / "report"
    look = f'for fd in 0 1 2; do [ -e /proc/$$/fd/$fd ] && printf "$fd "; done >{report} 2>&1 9>&-; exit 5'
    seen = []
    for start in (world.bare, world.run):
        result = start("/bin/bash", "-c", look.replace("$$", "$BASHPID"), via=f'exec "$@" {CLOSED[which]}')
        assert result.returncode == 5, result
        seen.append(report.read_bytes())
    assert seen[0] == seen[1]
    run = result.recorded.finish()
    assert run.status == 5
    for stream in ("stdout", "stderr"):
        if which in (stream, "both", "all"):
            assert run.start[stream] == "closed"


def test_a_socket_is_teed(world: World) -> None:
    ours, theirs = socket.socketpair()
    process = world.start_run(*BOTH_STREAMS, stdin=theirs.fileno(), stdout=theirs.fileno())
    theirs.close()
    _, stderr = process.communicate(timeout=30)
    received = b"".join(iter(lambda: ours.recv(4096), b""))
    ours.close()
    assert (process.returncode, received, stderr) == (0, b"135", b"24")
    assert world.only_run().log("stdout") == b"135"


def test_a_reader_that_leaves_ends_the_job(world: World) -> None:
    pipe = '"$@" | head -n 1'
    process = world.start(*world.shim, "run", "--", "/usr/bin/yes", via=pipe)
    assert process.communicate(timeout=30) == (b"y\n", b"")
    run = world.only_run().finish()
    assert (run.status, run.signal) in ((141, None), (141, 13))


def test_a_job_whose_caller_ignores_sigpipe_gets_epipe(world: World) -> None:
    pipe = "trap '' PIPE; { \"$@\"; printf %s $? >status; } | head -n 1"
    report = world.cwd / "status"
    seen = []
    for words in (["/usr/bin/yes"], [*world.shim, "run", "--", "/usr/bin/yes"]):
        stdout, stderr = world.start(*words, via=pipe).communicate(timeout=30)
        seen.append((stdout, b"Broken pipe" in stderr, report.read_text()))
    assert seen[1] == seen[0] == (b"y\n", True, "1")


def test_a_capped_log_is_marked_and_the_user_gets_everything(world: World) -> None:
    line = "x" * 99
    text = f"i=0; while [ $i -lt 5000 ]; do echo {line}; i=$((i + 1)); done; exit 3"
    result = world.run("/bin/sh", "-c", text, options=("--max-log", "100000"))
    assert (result.returncode, result.stdout) == (3, f"{line}\n".encode() * 5000)
    run = result.recorded
    assert run.start["max_log_bytes"] == "100000"
    kept = run.log("stdout")
    assert kept.startswith(f"{line}\n".encode() * 100)
    assert 50_000 <= len(kept) <= 110_000
    assert b"gpualert" in kept or result.complaints, "the log is cut and nobody says so"


def test_max_log_with_a_reader_that_leaves_still_ends_the_job(world: World) -> None:
    words = [*world.shim, "run", "--max-log", "1000", "--", "/usr/bin/yes"]
    process = world.start(*words, via='"$@" | head -n 1')
    assert process.communicate(timeout=30)[0] == b"y\n"
    assert world.only_run().finish().status == 141


def test_no_helper_process_is_left_behind(world: World) -> None:
    world.run(*BOTH_STREAMS).recorded.finish()
    settled(world.processes)
    assert world.processes() == set()


def test_the_fifos_are_gone_once_the_post_processor_was_there(world: World) -> None:
    run = world.run(*BOTH_STREAMS, env={"GPUALERT_POST": "wait", "GPUALERT_PYTHON": sys.executable}).recorded.finish()
    assert not [path for path in run.path.iterdir() if path.is_fifo()]


def test_logs_stay_apart_when_a_job_closes_or_redirects_its_own_streams(world: World) -> None:
    shuffle = "printf a; exec 3>&1 1>&2 2>&3 3>&-; printf b; printf c >&2; exec >&-; exec 2>&-; exit 2"
    pair = world.both("/bin/sh", "-c", shuffle)
    pair.assert_same()
    assert (pair.run.recorded.log("stdout"), pair.run.recorded.log("stderr")) == (b"ac", b"b")


def test_capture_none_leaves_the_streams_untouched(world: World) -> None:
    seen = world.run("/bin/readlink", "/proc/self/fd/1", options=("--capture", "none"))
    assert seen.stdout.startswith(b"pipe:[")
    assert (seen.recorded.start["stdout"], seen.recorded.start["stderr"]) == ("none", "none")
    assert not list(seen.recorded.path.glob("*.log"))


def test_a_log_path_with_newlines_and_quotes_is_recorded_raw(world: World) -> None:
    odd = Path(os.fsdecode(os.fsencode(world.cwd) + b'/it\'s "a"\n\xff file'))
    with opened(odd, TO_FILE) as file:
        run = world.run("/bin/echo", "x", stdout=file).recorded.finish()
    assert run.items("stdout.path") == [os.fsencode(odd)]
    assert run.adopted("stdout") == b"x\n"
