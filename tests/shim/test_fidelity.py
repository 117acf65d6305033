"""What the job is given is what it would be given without the shim."""

from __future__ import annotations

import os
import resource
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from .world import World, opened

ARGUMENTS = {
    "none": [],
    "empty": ["", "", ""],
    "spaces": [" ", "a  b", "\t", "\n", "line\nline\n"],
    "globs": ["*", "?", "[a]", "~", "$HOME", "`id`", "$(id)", "\\", "\\n", "%s", "!!"],
    "quotes": ["'", '"', "'\\''", '"$x"'],
    "dashes": ["--", "-", "--", "--name", "x", "-e", "-n"],
    "bytes": [b"\xff\xfe", b"caf\xc3\xa9", b"\x1b[31m", bytes(range(1, 256))],
    "long": ["x" * 100_000],
    "many": [str(number) for number in range(5000)],
}


@pytest.mark.parametrize("kind", ARGUMENTS)
def test_the_words_of_the_command_arrive_and_are_recorded(world: World, kind: str) -> None:
    words = [sys.executable, "-I", "-S", "-c", "import os,sys; os.write(1, open('/proc/self/cmdline','rb').read())"]
    words += ARGUMENTS[kind]
    pair = world.both(*words)
    pair.assert_same()
    raw = [os.fsencode(word) for word in words]
    assert pair.run.recorded.items("argv") == raw
    if kind != "many":  # more than one write into the pipe may be cut by os.write; the record above has them all
        assert pair.run.stdout.split(b"\0")[:-1] == raw


def test_the_command_needs_no_separator_and_keeps_its_own(world: World) -> None:
    for words in (["/bin/echo", "--", "-n"], ["/bin/echo", "run", "--name", "x"]):
        result = world.call("run", *words)
        assert result.recorded.items("argv") == [word.encode() for word in words]
        assert result.stdout == " ".join(words[1:]).encode() + b"\n"


INVISIBLE = {"pid", "ppid", "starttime", "caller", "fds", "argv", "environ", "pgid", "sid"}


def test_the_job_finds_the_process_it_would_find(world: World) -> None:
    bare, run = world.probe(stdin=b"some input")
    assert {key: run[key] for key in run.keys() - INVISIBLE} == {key: bare[key] for key in bare.keys() - INVISIBLE}
    assert (bare["pgid"], bare["sid"]) == (bare["caller"], bare["caller"])
    assert (run["pgid"], run["sid"]) == (run["caller"], run["caller"])
    assert run["fds"] == bare["fds"]


def test_the_record_names_the_jobs_own_process(world: World) -> None:
    _, run = world.probe()
    start = world.runs()[-1].start
    assert (int(start["pid"]), start["pid_starttime"]) == (run["pid"], run["starttime"])


@pytest.mark.parametrize("numbers", [[3], [3, 4, 5, 6, 7, 8, 9], [9, 10, 11, 12], [20, 63, 64, 100, 251, 255]], ids=str)
def test_open_descriptors_are_the_callers_and_no_more(world: World, numbers: list[int]) -> None:
    files = []
    try:
        for number in numbers:
            (world.cwd / str(number)).write_bytes(b"0123456789")
            file = os.open(world.cwd / str(number), os.O_RDWR)
            os.lseek(file, number % 7, os.SEEK_SET)
            files.append(file)
        renumber = "".join(f" {number}<&{file}" for number, file in zip(numbers, files, strict=True))
        # bash, for sh may know only the descriptors 0 to 9; what it does not need it closes
        close = "".join(f" {file}<&-" for file in files if file not in numbers)
        stage = f'exec{renumber}; exec{close or " 0<&0"}; exec "$@"'
        bare, run = world.probe("/dev/null", via=f"exec /bin/bash -c '{stage}' bash \"$@\"", pass_fds=files)
        assert run["fds"] == bare["fds"]
        assert {int(number) for number in run["fds"]} >= set(numbers)
    finally:
        for file in files:
            os.close(file)


@pytest.mark.parametrize("numbers", [(3, 4), (3, 9)], ids=["make", "make_and_a_lock"])
def test_a_run_under_make_and_a_lock_is_recorded_whole(world: World, numbers: tuple[int, ...]) -> None:
    """`make -j` gives its jobs two descriptors, `exec 9>lock; flock 9` one."""
    stage = f'exec{"".join(f" {number}</dev/null" for number in numbers)}; exec "$@"'
    result = world.run("/bin/sh", "-c", "printf out; printf err >&2", via=stage)
    assert (result.stdout, result.stderr, result.complaints) == (b"out", b"err", ())
    assert (result.recorded.log("stdout"), result.recorded.log("stderr")) == (b"out", b"err")


def test_a_read_on_standard_input_moves_the_callers_file(world: World) -> None:
    text = world.cwd / "in"
    text.write_bytes(b"0123456789" * 10)
    with opened(text, os.O_RDONLY) as file:
        os.lseek(file, 5, os.SEEK_SET)
        result = world.run("/usr/bin/head", "-c", "10", stdin=file)
        assert result.stdout == b"5678901234"
        assert os.lseek(file, 0, os.SEEK_CUR) == 15


def test_standard_input_that_nobody_reads_stays_in_the_pipe(world: World) -> None:
    reader, writer = os.pipe()
    os.write(writer, b"for the next command")
    os.close(writer)
    assert world.run("/bin/true", stdin=reader).returncode == 0
    assert os.read(reader, 100) == b"for the next command"
    os.close(reader)


def test_standard_input_of_each_kind_is_the_callers(world: World) -> None:
    payload = bytes(range(256)) * 4096
    file = world.cwd / "in"
    file.write_bytes(payload)
    ours, theirs = socket.socketpair()
    for stdin in (payload, file.open("rb"), subprocess.DEVNULL):
        pair = world.both("/usr/bin/sha256sum", stdin=stdin)
        if not isinstance(stdin, bytes) and not isinstance(stdin, int):
            stdin.seek(0)
            again = world.run("/usr/bin/sha256sum", stdin=stdin)
            stdin.close()
            assert again.stdout == pair.bare.stdout
        else:
            pair.assert_same()
    ours.sendall(b"through a socket")
    ours.shutdown(socket.SHUT_WR)
    assert world.run("/bin/cat", stdin=theirs.fileno()).stdout == b"through a socket"
    ours.close()
    theirs.close()


@pytest.mark.parametrize("umask", ["000", "022", "077", "0777", "027"])
def test_the_umask_is_the_callers_and_our_files_are_private_all_the_same(world: World, umask: str) -> None:
    make = "umask; : >made; stat -c %a made; rm -f made; exit 3"
    pair = world.both("/bin/sh", "-c", make, via=f'umask {umask}; exec "$@"')
    pair.assert_same()
    run = pair.run.recorded.finish()
    assert (run.path.stat().st_mode & 0o777, world.state.stat().st_mode & 0o777) == (0o700, 0o700)
    for file in run.path.iterdir():
        assert file.stat().st_mode & 0o777 == 0o600, file.name


LIMITS = {
    "cores": (resource.RLIMIT_CORE, 4096),
    "cores_unlimited": (resource.RLIMIT_CORE, resource.RLIM_INFINITY),
    "files": (resource.RLIMIT_NOFILE, 64),
    "file_size": (resource.RLIMIT_FSIZE, 1 << 20),
    "stack": (resource.RLIMIT_STACK, 4 << 20),
    "memory": (resource.RLIMIT_AS, 1 << 30),
    "cpu": (resource.RLIMIT_CPU, 300),
}


@pytest.mark.parametrize("name", LIMITS)
def test_limits_are_the_callers(world: World, name: str) -> None:
    kind, value = LIMITS[name]

    def stage() -> None:
        resource.setrlimit(kind, (value, resource.getrlimit(kind)[1]))

    pair = world.both("/bin/cat", "/proc/self/limits", preexec_fn=stage)
    pair.assert_same()


def test_niceness_and_the_cpus_are_the_callers(world: World) -> None:
    def stage() -> None:
        os.nice(3)
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

    bare, run = world.probe(preexec_fn=stage)
    assert (run["nice"], run["cpus"]) == (bare["nice"], bare["cpus"])


def test_the_working_directory_is_the_callers_links_and_all(world: World) -> None:
    real = world.root / "real\nfolder"
    real.mkdir()
    link = world.root / "link"
    link.symlink_to(real)
    pair = world.both("/bin/sh", "-c", "pwd; pwd -P; pwd -L", cwd=link, env={"PWD": str(link)})
    pair.assert_same()
    assert pair.run.recorded.items("cwd") == [os.fsencode(link)]


SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGPIPE)
MORE_SIGNALS = (signal.SIGXFSZ, signal.SIGALRM, signal.SIGTSTP, signal.SIGTTIN)  # a shell needs CHLD for itself
IGNORED = {
    "none": (),
    **{number.name: (number,) for number in (*SIGNALS, *MORE_SIGNALS)},
    "in_the_background": (signal.SIGINT, signal.SIGQUIT),
    "all": SIGNALS,
}


@pytest.mark.parametrize("name", IGNORED)
def test_ignored_signals_stay_ignored_and_the_others_stay_default(world: World, name: str) -> None:
    # zsh itself ignores QUIT: all that can be told is that a caller who ignores INT (`&`) ignores QUIT as well.
    ignored = IGNORED["in_the_background" if world.shell == "zsh" and name in ("SIGINT", "SIGQUIT") else name]

    def stage() -> None:
        for number in ignored:
            signal.signal(number, signal.SIG_IGN)

    look = ("/bin/grep", "-E", "^Sig(Blk|Ign|Cgt)", "/proc/self/status")
    world.both(*look, preexec_fn=stage).assert_same()


def test_the_job_has_no_sibling_it_could_wait_for(world: World) -> None:
    wait_for_any = "import os\ntry:\n os.wait()\nexcept ChildProcessError:\n print('none')"
    world.both(sys.executable, "-I", "-S", "-c", wait_for_any).assert_same()


def test_a_job_in_the_background_of_a_script_works(world: World) -> None:
    script = '"$@" -c "cat; echo done" <in & wait $!; echo $?'
    (world.cwd / "in").write_bytes(b"input\n")
    process = world.start(*world.shim, "run", "--", "/bin/sh", via=script)
    assert process.communicate(timeout=30) == (b"input\ndone\n0\n", b"")


def test_an_inherited_lock_is_free_once_the_job_ends(world: World, tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    script = 'exec 9>"$LOCK"; flock 9; "$@"; exec 9>&-; flock -n "$LOCK" echo free'
    process = world.start(*world.shim, "run", "--", "/bin/true", via=script, env={"LOCK": str(lock)})
    assert process.communicate(timeout=30) == (b"free\n", b"")
