"""Whatever is missing or broken, the job runs, its status is right, and one line says what is not recorded."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from .namespaces import full_disk, hidden, no_inodes, old_env, read_only, require_namespaces, small_disk, stage
from .records import RunDir, runs_in
from .world import GPUALERT, World, shell_argv

JOB = ("/bin/sh", "-c", 'IFS= read -r word; printf %s "$word"; printf out; printf err >&2; exit 7')
FALLBACK = f"gpualert-{os.geteuid()}"


def same_job(world: World, **how: object) -> tuple[tuple[str, ...], list[RunDir]]:
    """Run the job bare and through the shim; returns the shim's lines and what is in the state folder."""
    pair = world.both(*JOB, stdin=b"input ", **how)  # type: ignore[arg-type]
    pair.assert_same_job()
    assert (pair.run.returncode, pair.run.stdout, pair.run.stderr) == (7, b"input out", b"err")
    return pair.run.complaints, world.runs()


def one_line(complaints: tuple[str, ...]) -> str:
    """Return the one line on stderr; fails where there are none or more."""
    assert len(complaints) == 1, complaints
    return complaints[0]


def in_fallback(where: Path) -> RunDir:
    """Return the only run of a fallback folder, which must be private."""
    folder = where / FALLBACK
    assert folder.stat().st_mode & 0o7777 == 0o700
    (run,) = runs_in(folder)
    assert run.finish().status == 7
    return run


@pytest.fixture
def outside_tmp(shell: str) -> Iterator[World]:
    """A world that is not under /tmp, and a shim that is not, so that /tmp itself can be replaced."""
    folder = Path(tempfile.mkdtemp(prefix="gpualert-test-", dir="/var/tmp"))
    scratch = World(folder, shell)
    scratch.script = Path(shutil.copy(scratch.script, folder / "gpualert"))
    yield scratch
    scratch.close()
    shutil.rmtree(folder)


UNUSABLE = {
    "read_only": read_only,
    "full": full_disk,
    "no_inodes": no_inodes,
}


@pytest.mark.parametrize("kind", UNUSABLE)
def test_a_state_folder_that_cannot_be_written_is_replaced_by_a_private_one(world: World, kind: str) -> None:
    require_namespaces()
    complaints, _ = same_job(world, via=stage(UNUSABLE[kind](world.state)))
    assert str(world.tmp / FALLBACK) in one_line(complaints)
    in_fallback(world.tmp)


@pytest.mark.parametrize("place", ["file", "file/below", "/proc/nowhere", "/dev/null", "dangling"])
def test_a_state_folder_that_is_none_is_replaced_by_a_private_one(world: World, place: str) -> None:
    (world.root / "file").touch()
    (world.root / "dangling").symlink_to("/proc/nowhere")
    complaints, _ = same_job(world, env={"GPUALERT_HOME": str(world.root / place)})
    assert str(world.tmp / FALLBACK) in one_line(complaints)
    in_fallback(world.tmp)


FOREIGN = {
    "link": lambda path: path.symlink_to(path.with_name("elsewhere")),
    "file": lambda path: path.touch(),
    "open_to_others": lambda path: (path.mkdir(), path.chmod(0o777)),
    "anothers": lambda path: (path.mkdir(0o700), os.chown(path, 12345, 12345)),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_fallback_folder_that_is_not_ours_alone_is_refused(outside_tmp: World, kind: str) -> None:
    require_namespaces()
    if kind == "anothers" and os.geteuid() != 0:
        pytest.skip("only root can make a folder that is another's")
    world = outside_tmp
    FOREIGN[kind](world.tmp / FALLBACK)
    (world.tmp / "elsewhere").mkdir()
    instead = world.root / "instead"
    instead.mkdir()
    prepared = stage(f"mount --bind {instead} /tmp")
    complaints, _ = same_job(world, via=prepared, env={"GPUALERT_HOME": "/proc/nowhere"})
    assert f"/tmp/{FALLBACK}" in one_line(complaints)
    in_fallback(instead)
    assert list((world.tmp / "elsewhere").iterdir()) == []


def test_without_any_usable_folder_the_job_runs_unrecorded(outside_tmp: World) -> None:
    require_namespaces()
    world = outside_tmp
    everything = [read_only(Path(place)) for place in (world.state, world.tmp, "/tmp", "/dev/shm")]
    complaints, runs = same_job(world, via=stage(*everything))
    assert "not recorded" in one_line(complaints)
    assert runs == []


def test_the_state_folder_follows_xdg_then_home(world: World) -> None:
    for env, place in (
        ({"GPUALERT_HOME": None}, world.home / ".local/state/gpualert"),
        ({"GPUALERT_HOME": None, "XDG_STATE_HOME": str(world.root / "xdg")}, world.root / "xdg/gpualert"),
        ({"GPUALERT_HOME": ""}, world.home / ".local/state/gpualert"),
    ):
        before = len(runs_in(place))
        complaints, _ = same_job(world, env=env)
        assert complaints == ()
        assert len(runs_in(place)) == before + 1


@pytest.mark.parametrize("home", [None, "", "/proc/nowhere"])
def test_without_a_home_the_run_is_kept_in_the_private_folder(world: World, home: str | None) -> None:
    complaints, _ = same_job(world, env={"HOME": home, "GPUALERT_HOME": None})
    assert str(world.tmp / FALLBACK) in one_line(complaints)
    in_fallback(world.tmp)


def test_a_disk_that_fills_during_the_run_costs_only_our_copy(world: World) -> None:
    require_namespaces()
    kept = world.root / "kept"
    kept.mkdir()
    job = ("/bin/sh", "-c", "i=0; while [ $i -lt 10000 ]; do echo " + "x" * 99 + "; i=$((i + 1)); done; exit 7")
    prepared = stage(small_disk(world.state, "size=256k"), afterwards=f"cp -a {world.state}/. {kept} 2>/dev/null")
    pair = world.both(*job, via=prepared)
    pair.assert_same_job()
    assert (pair.run.returncode, len(pair.run.stdout)) == (7, 1_000_000)
    (run,) = runs_in(kept)
    assert run.status == 7
    assert 0 < (run.path / "stdout.log").stat().st_size < 256 * 1024


@pytest.mark.parametrize("path", [None, "", "/nowhere", "."])
def test_without_a_useful_path_the_job_runs(world: World, path: str | None) -> None:
    pair = world.both("/bin/sh", "-c", "exit 7", env={"PATH": path})
    pair.assert_same_job()
    assert len(pair.run.complaints) <= 1
    assert pair.run.complaints or pair.run.recorded.status == 7


def test_in_a_deleted_working_directory_the_job_runs(world: World) -> None:
    """Each shell that starts there says so itself, on stderr; nothing can be done about that."""
    result = world.run(*JOB, stdin=b"x", via='mkdir gone; cd gone; rmdir ../gone; exec "$@"')
    assert (result.returncode, result.stdout, result.stderr[-3:]) == (7, b"xout", b"err")
    assert all(b"getcwd" in line for line in result.stderr.splitlines()[:-1])
    assert result.complaints == ()
    assert result.recorded.finish().status == 7


@pytest.mark.parametrize("blocks", [0, 1, 8])
def test_under_a_small_limit_on_file_sizes_the_user_gets_everything(world: World, blocks: int) -> None:
    job = ("/bin/sh", "-c", "i=0; while [ $i -lt 500 ]; do echo " + "x" * 99 + "; i=$((i + 1)); done; exit 7")
    pair = world.both(*job, via=f'ulimit -f {blocks}; exec "$@"')
    pair.assert_same_job()
    assert (pair.run.returncode, len(pair.run.stdout)) == (7, 50_000)
    assert len(pair.run.complaints) <= 1
    if world.runs() and world.runs()[-1].has("exit"):
        assert world.runs()[-1].status == 7
    else:
        one_line(pair.run.complaints)


@pytest.mark.parametrize("count", [16, 20, 32])
def test_with_few_descriptors_the_job_runs(world: World, count: int) -> None:
    complaints, _ = same_job(world, via=f'ulimit -n {count}; exec "$@"')
    assert len(complaints) <= 1


TOOLS = ("mkfifo", "flock", "tee", "setsid", "mv", "mkdir", "env", "stat", "readlink", "cat", "rm", "date", "id", "dd")


@pytest.mark.parametrize("tool", TOOLS)
def test_without_a_tool_the_job_runs(world: World, tool: str) -> None:
    require_namespaces()
    for _ in range(2):  # what the first run found out is kept: the second takes another way
        before = len(world.runs())
        complaints, _ = same_job(world, via=stage(hidden(tool)))
        assert len(complaints) <= 1
        recorded = [run for run in world.runs()[before:] if run.has("exit")]
        assert complaints or [run.finish().status for run in recorded] == [7]


def test_without_any_tool_the_job_runs(world: World) -> None:
    require_namespaces()
    pair = world.both(
        "/bin/sh", "-c", "printf out; exit 7", via=stage(hidden("sleep", *TOOLS, *{"bash"} - {world.shell}))
    )
    pair.assert_same_job()
    assert pair.run.returncode == 7
    one_line(pair.run.complaints)


BROKEN_PYTHONS = {
    "absent": None,
    "fails": "#!/bin/sh\necho noise; echo noise >&2; exit 3\n",
    "dies": "#!/bin/sh\nkill -SEGV $$\n",
    "no_program": "\0\0\0not a program",
}


@pytest.mark.parametrize("post", ["detach", "wait"])
@pytest.mark.parametrize("kind", BROKEN_PYTHONS)
def test_with_a_missing_or_broken_python_the_status_is_the_jobs(world: World, kind: str, post: str) -> None:
    python = world.root / "python"
    if BROKEN_PYTHONS[kind] is not None:
        python.write_text(BROKEN_PYTHONS[kind] or "")
        python.chmod(0o755)
    complaints, runs = same_job(world, env={"GPUALERT_POST": post, "GPUALERT_PYTHON": str(python)})
    assert len(complaints) <= 1
    assert runs[-1].finish().status == 7


HIJACK = "() {  builtin printf 'HIJACKED %s\\n' \"${FUNCNAME:-?}\" >&2; return 1\n}"
USUAL = ("tee", "printf", "command", "test", "[", "mkdir", "mv", "cat", "true", "cd", "kill", "read", "wait")
SPECIAL = ("exec", "trap", "set", "exit", "export", "unset", "eval", "shift", "return", ":", ".")


@pytest.mark.parametrize("names", [USUAL, SPECIAL], ids=["usual", "special"])
def test_functions_a_bash_exports_shadow_nothing(world: World, names: tuple[str, ...]) -> None:
    job = ("/bin/dash", "-c", "cat; printf out; printf err >&2; exit 7")
    pair = world.both(*job, stdin=b"x", env={f"BASH_FUNC_{name}%%": HIJACK for name in names})
    pair.assert_same()
    assert pair.run.recorded.finish().status == 7


OPTIONS = {
    "strict": "errexit:nounset:pipefail",
    "tracing": "xtrace:verbose",
    "odd": "noclobber:noglob:allexport:posix:keyword",
    "jobs": "monitor:notify",
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options_a_bash_exports_change_nothing(world: World, name: str) -> None:
    job = ("/bin/dash", "-c", "cat; printf out; printf err >&2; exit 7")
    pair = world.both(*job, stdin=b"x", env={"SHELLOPTS": OPTIONS[name]})
    assert (pair.run.returncode, pair.run.stdout) == (7, b"xout")
    assert pair.run.recorded.finish().status == 7
    if name != "tracing" or world.shell != "bash":  # bash itself shows its lines before the script can stop it
        pair.assert_same()


def test_a_start_up_file_that_spoils_the_shell_does_no_harm(world: World) -> None:
    spoiled = world.home / "spoiled"
    spoiled.write_text(
        "set -eu -o noclobber; IFS=gpe0; umask 0777; alias printf=false exec=false\n"
        "tee() { false; }; mkdir() { false; }\n"
        "trap : DEBUG 2>/dev/null; trap false ERR EXIT 2>/dev/null; trap '' TERM\n"
    )
    for name in ("BASH_ENV", "ENV"):
        result = world.run(*JOB, stdin=b"x", env={name: str(spoiled)})
        assert (result.returncode, result.stdout) == (7, b"xout"), name


CALLERS = {
    "strict": "set -eu",
    "noclobber": "set -C",
    "no_glob": "set -f",
    "ifs": "IFS=gpu0123456789/; export IFS",
    "empty_ifs": "IFS=; export IFS",
    "umask": "umask 0777",
    "traps": "trap 'echo trapped' EXIT TERM CHLD",
    "cdpath": "CDPATH=/usr:/; export CDPATH; GLOBIGNORE='*'; export GLOBIGNORE",
    "posix": "POSIXLY_CORRECT=1; export POSIXLY_CORRECT",
    "aliases": "alias tee=false printf=false exec=false",
}


@pytest.mark.parametrize("kind", CALLERS)
def test_a_caller_in_any_state_gets_what_the_bare_command_gives(world: World, kind: str) -> None:
    script = f'{CALLERS[kind]}\n"$@" || echo "status $?"'
    seen = []
    for words in (JOB, (*world.shim, "run", "--", *JOB)):
        caller = world.start(*shell_argv(world.shell), "-c", script, "caller", *words, stdin=b"input ")
        seen.append(caller.communicate(b"input ", timeout=60))
    assert seen[1] == seen[0]
    assert world.only_run().finish().status == 7


@pytest.mark.parametrize("place", ["arguments", "environment"])
def test_a_command_of_almost_the_kernels_limit_runs(world: World, place: str) -> None:
    large = [f"{number:0100000d}" for number in range(12)]
    arguments = large if place == "arguments" else []
    env = {f"LARGE_{number}": value for number, value in enumerate(large)} if place == "environment" else {}
    world.both("/bin/sh", "-c", "printf out; exit 7", *arguments, env=env).assert_same()


def test_called_through_a_link_and_through_path_it_works(world: World) -> None:
    link = world.root / "bin" / "gpualert"
    link.parent.mkdir()
    link.symlink_to(GPUALERT)
    result = world.start("gpualert", "run", "--", *JOB, via=f'PATH={link.parent}:$PATH; exec "$@"')
    assert result.communicate(timeout=60) == (b"out", b"err")
    assert result.returncode == 7
    assert world.only_run().finish().status == 7


USAGE = {
    "no_command": ["run"],
    "nothing_after_the_separator": ["run", "--"],
    "unknown_option": ["run", "--no-such-option", "--", "/usr/bin/touch", "made"],
    "option_without_value": ["run", "--name"],
    "bad_capture": ["run", "--capture", "video", "--", "/usr/bin/touch", "made"],
    "bad_max_log": ["run", "--max-log", "lots", "--", "/usr/bin/touch", "made"],
}


@pytest.mark.parametrize("kind", USAGE)
def test_a_usage_error_is_one_line_status_2_and_no_job(world: World, kind: str) -> None:
    result = world.call(*USAGE[kind])
    assert (result.returncode, result.stdout, result.stderr, len(result.complaints)) == (2, b"", b"", 1)
    assert not (world.cwd / "made").exists()
    assert world.runs() == []


@pytest.mark.parametrize("without", [(), ("perl",)], ids=["perl", "python"])
def test_an_old_env_serves_every_run_and_not_only_the_first(world: World, without: tuple[str, ...]) -> None:
    # What env(1) can do is looked up once and kept: the runs after the first take another way through the shim.
    require_namespaces()
    prepared = stage(old_env(world.root), *([hidden(*without)] if without else []))
    environment = {"GPUALERT_PYTHON": sys.executable}
    for _ in range(3):
        result = world.run("/bin/sh", "-c", "printf out; exit 7", via=prepared, env=environment)
        assert (result.status, result.stdout, result.complaints) == (7, b"out", ())
