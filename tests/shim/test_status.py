"""The status the caller sees, and the one that is recorded, are the bare command's."""

from __future__ import annotations

import os
import signal
import stat

import pexpect
import pytest

from .waiting import eventually
from .world import World, shell_argv

STATUSES = [
    0,
    1,
    2,
    3,
    42,
    77,
    100,
    123,
    124,
    125,
    126,
    127,
    128,
    129,
    130,
    131,
    137,
    139,
    141,
    143,
    148,
    165,
    254,
    255,
]
STOPPING = {signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}
SIGNALS = sorted(signal.valid_signals() - STOPPING)
# What each shell itself tells apart from `exit 128+n`; zsh says nothing, yet may find out otherwise.
KNOWN = {
    "dash": {signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGTERM, signal.SIGHUP},
    "bash": {signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS},
    "busybox": {signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGTERM, signal.SIGHUP},
    "zsh": set(),
}


def test_the_exit_status_is_the_jobs_and_no_exit_is_taken_for_a_signal(world: World) -> None:
    for status in STATUSES:
        result = world.run("/bin/sh", "-c", f"exit {status}")
        assert (result.returncode, result.stderr, result.complaints) == (status, b"", ())
        assert (result.recorded.status, result.recorded.signal) == (status, None)


@pytest.mark.shells("dash")  # the arithmetic of a status is the same in all; the rows above run everywhere
def test_all_256_statuses_come_back(world: World) -> None:
    loop = 'i=0; while [ $i -lt 256 ]; do "$@" -c "exit $i"; printf "%s " $?; i=$((i + 1)); done'
    result = world.start(*world.shim, "run", "--", "/bin/sh", via=loop)
    stdout, stderr = result.communicate(timeout=60)
    assert (stdout.split(), stderr) == ([b"%d" % status for status in range(256)], b"")
    assert sorted(run.status for run in world.runs()) == list(range(256))


def test_death_by_any_signal_is_reported_as_the_shell_reports_it(world: World) -> None:
    for number in SIGNALS:
        kill_oneself = ("/bin/sh", "-c", f"printf out; printf err >&2; kill -{number:d} $$")
        pair = world.both(*kill_oneself, via='ulimit -c 0; exec "$@"')
        assert (number, pair.run.status) == (number, pair.bare.status)
        pair.assert_same()
        assert pair.run.recorded.status == pair.bare.status, number
        died_of = -pair.bare.returncode if pair.bare.returncode < 0 else None
        assert pair.run.recorded.signal in (died_of, None), number
        if pair.run.recorded.signal:
            assert pair.run.returncode == pair.bare.returncode, "known, yet not passed on to the caller"


def test_the_signals_a_shell_tells_apart_are_recorded(world: World) -> None:
    """dash misses the name of a job that is dead before it waits; such jobs last longer than that."""
    for number in KNOWN[world.shell]:
        result = world.run("/bin/sh", "-c", f"sleep 0.05; kill -{number:d} $$", via='ulimit -c 0; exec "$@"')
        assert result.recorded.signal == number


def test_a_shell_sees_the_same_status_in_every_kind_of_call(world: World) -> None:
    calls = """
        "$@" -c 'exit 3' || echo $?
        x=$("$@" -c 'echo hi; exit 4'); echo "$? $x"
        if "$@" -c 'kill -9 $$'; then echo yes; else echo $?; fi
        "$@" -c 'exit 5' | cat; echo $?
        "$@" -c 'exit 6' & wait $!; echo $?
        ("$@" -c 'exit 7'); echo $?
    """
    bare = world.start("/bin/sh", via=calls).communicate(timeout=60)
    run = world.start(*world.shim, "run", "--", "/bin/sh", via=calls).communicate(timeout=60)
    assert run[0] == bare[0]
    if world.shell != "zsh":  # which cannot tell `exit 137` from a kill, so its caller has no "Killed" to report
        assert run[1] == bare[1]


def test_the_shim_leaves_no_core_file_of_its_own(world: World) -> None:
    result = world.run("/bin/sh", "-c", "ulimit -c 0; kill -SEGV $$", via='ulimit -c unlimited; exec "$@"')
    assert result.status == 139
    assert list(world.cwd.iterdir()) == []


UNRUNNABLE = {
    "absent": (127, None),
    "./absent": (127, None),
    "plain": (127, None),
    "./plain": (126, 0o644),
    "./folder": (126, None),
    "./bad_interpreter": (127, 0o755),
    "-absent": (127, None),
    "a=b": (127, None),
    "": (127, None),
}


@pytest.mark.parametrize("name", UNRUNNABLE)
def test_a_command_that_cannot_run_has_the_shells_status_and_its_error_in_the_log(world: World, name: str) -> None:
    (world.cwd / "folder").mkdir()
    (world.cwd / "plain").write_text("echo no\n")
    (world.cwd / "bad_interpreter").write_text("#!/no/such/interpreter\n")
    (world.cwd / "bad_interpreter").chmod(0o755)
    result = world.run(name, "argument")
    assert result.returncode in ({126, 127} if name == "./bad_interpreter" else {UNRUNNABLE[name][0]})
    assert result.recorded.status == result.returncode
    assert result.recorded.items("argv") == [name.encode(), b"argument"]
    log = result.recorded.log("stderr")
    assert log and name.encode() in log
    assert log == result.stderr + "".join(f"{line}\n" for line in result.complaints).encode()


def test_a_program_found_only_by_an_odd_name_runs(world: World) -> None:
    for name in ("a=b", "-n", "with space", "run", "if", "test", "printf", "exit"):
        program = world.cwd / name
        program.write_text("#!/bin/sh\nprintf '%s' \"$1\"\nexit 9\n")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        result = world.run(name, "argument", env={"PATH": f"{world.cwd}:/usr/bin:/bin"})
        assert (result.returncode, result.stdout, result.stderr) == (9, b"argument", b""), name


def test_a_script_without_a_first_line_runs_as_a_shell_script(world: World) -> None:
    script = world.cwd / "script"
    script.write_text("echo out; exit 11\n")
    script.chmod(0o755)
    result = world.run(script)
    assert (result.returncode, result.stdout, result.stderr, result.complaints) == (11, b"out\n", b"", ())


LOOP = """
for i in 1 2 3; do
    "$@"
    echo "after $?"
done
echo survived
"""
SLEEPER = ("/bin/sh", "-c", "echo started; exec sleep 60")


def after_interrupt(world: World, caller: str, *prefix: str) -> bytes:
    """Return what a script shows whose loop gets ^C at a terminal while its first command runs."""
    script = world.cwd / "loop.sh"
    script.write_text(LOOP)
    program, *words = [*shell_argv(caller), str(script), *prefix, *SLEEPER]
    terminal = pexpect.spawn(program, words, env=world.environment(), cwd=str(world.cwd), timeout=30)
    terminal.setecho(False)
    terminal.expect_exact(b"started")
    terminal.sendintr()
    terminal.expect(pexpect.EOF)
    terminal.close()
    return bytes(terminal.before).replace(b"^C", b"").strip() + b" %d" % (terminal.exitstatus or -terminal.signalstatus)


@pytest.mark.parametrize("caller", ["dash", "bash"])
def test_after_interrupt_at_a_terminal_a_callers_loop_stops_as_it_would(world: World, caller: str) -> None:
    expected = after_interrupt(world, caller)
    assert b"survived" not in expected
    assert after_interrupt(world, caller, *world.shim, "run", "--") == expected
    run = world.only_run().finish()
    assert run.status == 130
    assert run.signal in (signal.SIGINT, None)


@pytest.mark.parametrize("caller", ["dash", "bash"])
def test_after_interrupt_to_the_group_a_callers_loop_stops_as_it_would(world: World, caller: str) -> None:
    script = world.cwd / "loop.sh"
    script.write_text(LOOP)
    seen = []
    for prefix in ([], [*world.shim, "run", "--"]):
        process = world.start(*shell_argv(caller), script, *prefix, *SLEEPER)
        assert process.stdout and process.stdout.readline() == b"started\n"
        os.killpg(process.pid, signal.SIGINT)
        stdout, _ = process.communicate(timeout=60)
        seen.append((process.returncode, stdout))
    assert seen[0] == seen[1]
    assert b"survived" not in seen[1][1]
    eventually(lambda: not world.processes(), "everything to end")
