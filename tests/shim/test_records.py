"""The records obey FORMAT.md, whatever the command, its options and the folder are called."""

from __future__ import annotations

import calendar
import os
import re
import socket
import stat
import sys
import time
from pathlib import Path

import pytest

from .records import FINISHED_FILES, OPTION_KEYS, RUN_ID
from .world import World, parent_of

BOOT_ID = Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def test_a_finished_run_holds_the_documented_files_and_no_others(world: World) -> None:
    run = world.run("/bin/true", options=("--name", "n", "--timeout", "100")).recorded.finish()
    assert {path.name for path in run.path.iterdir()} <= FINISHED_FILES | {".live", ".stdout", ".stderr", ".wait"}
    assert (run.path / "format").read_bytes() == b"gpualert-run/1\n"
    assert {path.name for path in world.state.iterdir()} <= {"runs", "hosts"}


def test_the_id_names_time_and_host_and_is_what_the_job_sees(world: World) -> None:
    before = int(time.time())
    result = world.run("/bin/sh", "-c", "printf %s $GPUALERT_RUN_ID")
    run = result.recorded
    assert RUN_ID.fullmatch(run.run_id), run.run_id
    assert result.stdout.decode() == run.run_id == run.start["run_id"]
    moment, rest = run.run_id.split("Z-", 1)
    taken = time.strptime(moment + "UTC", "%Y%m%dT%H%M%S%Z")
    assert before - 1 <= calendar.timegm(taken) <= time.time() + 1
    label = socket.gethostname().split(".")[0]
    assert rest.rpartition("-")[0] == re.sub(r"[^A-Za-z0-9_-]", "", label)[:32]


def test_ids_sort_by_time(world: World) -> None:
    names = [world.call("run", "/bin/sh", "-c", "printf %s $GPUALERT_RUN_ID").stdout for _ in range(3)]
    assert [name[:15] for name in names] == sorted(name[:15] for name in names)


def test_the_start_record_tells_the_truth(world: World) -> None:
    before = time.time()
    run = world.run("/bin/true").recorded.finish()
    start = run.start
    assert (start["host"], start["boot_id"]) == (socket.gethostname(), BOOT_ID)
    namespace = str(Path("/proc/self/ns/pid").readlink())
    assert start.get("pid_ns") in ("", re.sub(r"\D", "", namespace))
    started = float(start["started_at"] or (run.path / "start").stat().st_mtime)
    ended = float(run.exit["ended_at"] or (run.path / "exit").stat().st_mtime)
    slack = 0.6 if start["shell"] == "ash" else 0.05  # busybox's date knows no parts of a second
    assert before - slack <= started <= ended + 0.02 <= time.time() + slack
    assert start.get("slurm_job_id", "") == "" and start.get("parent_run_id", "") == ""


def test_the_start_record_is_there_before_the_first_instruction_of_the_job(world: World) -> None:
    result = world.run("/bin/sh", "-c", 'cat "$1"/runs/*/start; echo $$', "sh", world.state)
    record, _, pid = result.stdout.decode().rstrip().rpartition("\n")
    assert f"\npid={pid}\n" in record and record.endswith("end=1")


def test_the_cgroup_is_the_jobs(world: World) -> None:
    run = world.run("/bin/cat", "/proc/self/cgroup")
    recorded = run.recorded.start.get("cgroup") or ""
    assert recorded == "" or recorded in run.stdout.decode()


def test_the_schedulers_variables_are_recorded(world: World) -> None:
    slurm = {
        "SLURM_JOB_ID": "4711",
        "SLURM_STEP_ID": "3",
        "SLURM_PROCID": "12",
        "SLURM_RESTART_COUNT": "2",
        "SLURMD_NODENAME": "gpu-node-03",
    }
    start = world.run("/bin/true", env=slurm).recorded.start
    assert (start["slurm_job_id"], start["slurm_step_id"], start["slurm_procid"]) == ("4711", "3", "12")
    assert (start["slurm_restart_count"], start["node"]) == ("2", "gpu-node-03")


@pytest.mark.parametrize("value", ["a\nend=1\nstatus=0", "a b", "\x1b[31m", "é", "$(id)", "x" * 10_000], ids=range(6))
def test_hostile_values_of_the_environment_cannot_forge_a_record(world: World, value: str) -> None:
    names = ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_PROCID", "SLURM_RESTART_COUNT", "SLURMD_NODENAME", "HOSTNAME")
    more = ("GPUALERT_CHAIN", "GPUALERT_ATTEMPT", "GPUALERT_GROUP", "GPUALERT_NAME", "GPUALERT_ENGINE", "HOST", "SHELL")
    result = world.run("/bin/sh", "-c", "exit 5", env=dict.fromkeys((*names, *more), value))
    run = result.recorded.finish()
    assert (result.returncode, run.status, run.start["host"]) == (5, 5, socket.gethostname())


def test_options_are_recorded_raw(world: World) -> None:
    odd = "it's <b> $(id) \xe9 \\n * \x1b[31m"
    options = ("--to", "a@example.org", "--to", odd, "--attach", "*.png", "--attach", odd, "--name", odd)
    more = ("--no-mail", "--no-log", "--longer-than", "60", "--timeout", "100")
    run = world.run("/bin/true", options=options + more).recorded.finish()
    items = run.items("options")
    raw = odd.encode()
    assert [item for item in items if item.startswith(b"to=")] == [b"to=a@example.org", b"to=" + raw]
    assert [item for item in items if item.startswith(b"attach=")] == [b"attach=*.png", b"attach=" + raw]
    assert {b"mail=0", b"log=0", b"longer_than_s=60", b"timeout_s=100"} <= set(items)
    assert {item.split(b"=")[0].decode() for item in items} <= OPTION_KEYS
    assert run.items("name") == [raw]


def test_without_options_none_are_recorded(world: World) -> None:
    run = world.run("/bin/true").recorded
    assert not run.has("name") and not run.has("engine")
    assert not run.has("options") or run.items("options") == []


def test_the_folder_is_recorded_raw(world: World) -> None:
    folder = Path(os.fsdecode(os.fsencode(world.root) + b"/new\nline \xff 'quote' $(id)"))
    folder.mkdir()
    assert world.run("/bin/true", cwd=folder).recorded.items("cwd") == [os.fsencode(folder)]


def test_an_odd_state_folder_is_used_as_it_is_called(world: World) -> None:
    state = Path(os.fsdecode(os.fsencode(world.root) + b"/st\nate \xff 'q' $(id) *"))
    result = world.run("/bin/sh", "-c", "echo x; exit 3", env={"GPUALERT_HOME": state})
    assert (result.returncode, result.stdout, result.stderr, result.complaints) == (3, b"x\n", b"", ())
    (run,) = (state / "runs").iterdir()
    assert (run / "exit").read_bytes().startswith(b"status=3\n")


def test_a_state_folder_made_by_us_is_private_down_to_the_last_file(world: World) -> None:
    world.run("/bin/true", via='umask 000; exec "$@"').recorded.finish()
    for folder, _, names in os.walk(world.state):
        assert stat.S_IMODE(Path(folder).stat().st_mode) == 0o700, folder
        for name in names:
            assert stat.S_IMODE((Path(folder) / name).stat().st_mode) == 0o600, name


def test_the_exit_record_is_reserved_before_the_launch_and_padded(world: World) -> None:
    result = world.run("/bin/sh", "-c", 'cd "$1"/runs/*/ && stat -c %s .exit && ls exit', "sh", world.state)
    reserved = int(result.stdout)
    written = (result.recorded.path / "exit").read_bytes()
    record, _, padding = written.partition(b"end=1\n")
    assert reserved >= len(record) + len(b"end=1\n")
    assert padding.strip(b"\n \0#") == b""


def test_the_recorder_is_the_jobs_parent(world: World) -> None:
    process = world.start_run("/bin/sh", "-c", "echo up; read go", stdin=-1)
    assert process.stdout and process.stdout.readline() == b"up\n" and process.stdin
    parent = parent_of(int(world.only_run().start["pid"]))
    assert parent in world.processes()
    process.stdin.close()
    process.wait(30)


def test_a_run_directory_is_never_reused(world: World) -> None:
    for _ in range(3):
        world.run("/bin/true")
    assert len(world.runs()) == 3


def test_a_python_job_is_not_told_apart(world: World) -> None:
    result = world.run(sys.executable, "-c", "import sys; print(1); sys.exit('sorry')")
    assert (result.returncode, result.stdout, result.stderr) == (1, b"1\n", b"sorry\n")
    assert result.recorded.log("stderr") == b"sorry\n"
