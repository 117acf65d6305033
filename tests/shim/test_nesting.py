"""A run is nested only while its parent runs, on the same host, in the same scheduler job."""

from __future__ import annotations

from pathlib import Path

import pytest

from .records import RunDir
from .waiting import eventually
from .world import World

ENDED = "20200101T000000Z-elsewhere-0123abcd"


def parent_of_run(run: RunDir) -> str:
    """Return the recorded parent, empty where there is none."""
    return run.finish().start.get("parent_run_id") or ""


def nested(world: World, inner: str = '"$@"', **how: object) -> tuple[RunDir, RunDir]:
    """Run a job that runs the shim again, by a line of sh; returns the outer and the inner run."""
    script = f"echo $GPUALERT_RUN_ID; {inner}"
    job = ("/bin/sh", "-c", script, "sh", *world.shim, "run", "--", "/bin/sh", "-c", "echo $GPUALERT_RUN_ID; exit 3")
    result = world.run(*job, **how)  # type: ignore[arg-type]
    assert (result.returncode, result.complaints) == (3, ()), result
    outer, inner_id = result.stdout.decode().split()
    runs = {run.run_id: run for run in world.runs()}
    assert runs.keys() == {outer, inner_id}
    return runs[outer], runs[inner_id]


def test_a_run_inside_a_run_names_its_parent_and_its_job_sees_its_own_id(world: World) -> None:
    outer, inner = nested(world)
    assert (parent_of_run(outer), parent_of_run(inner)) == ("", outer.run_id)
    assert (outer.status, inner.status) == (3, 3)


def test_a_run_inside_a_run_of_another_scheduler_job_is_not_nested(world: World) -> None:
    _, inner = nested(world, 'SLURM_JOB_ID=2 "$@"', env={"SLURM_JOB_ID": "1"})
    assert parent_of_run(inner) == ""


def test_a_run_inside_a_run_of_the_same_scheduler_job_is_nested(world: World) -> None:
    outer, inner = nested(world, env={"SLURM_JOB_ID": "1"})
    assert parent_of_run(inner) == outer.run_id


def test_a_job_submitted_from_inside_a_run_is_not_nested(world: World) -> None:
    _, inner = nested(world, 'SLURM_JOB_ID=7 "$@"')
    assert parent_of_run(inner) == ""


def test_a_process_that_outlives_its_run_starts_runs_of_its_own(world: World) -> None:
    late = '(while ! [ -e go ]; do sleep 0.02; done; "$@") >late 2>&1 & echo left'
    words = ("/bin/sh", "-c", late, "sh", *world.shim, "run", "--", "/bin/sh", "-c", "echo $GPUALERT_RUN_ID >id")
    outer = world.run(*words)
    assert outer.returncode == 0 and outer.recorded.finish().status == 0
    (world.cwd / "go").touch()
    eventually(lambda: (world.cwd / "id").exists() and (world.cwd / "id").read_text().strip(), "the late run")
    late_run = next(run for run in world.runs() if run.run_id == (world.cwd / "id").read_text().strip())
    assert parent_of_run(late_run) == ""


def pretend_parent(world: World, **changes: str) -> str:
    """Put a running run on disk that never was, with changes to its start record; returns its id."""
    real = world.run("/bin/true").recorded.finish()
    folder = real.path.with_name(ENDED)
    folder.mkdir(0o700)
    record = (real.path / "start").read_text()
    for key, value in {"run_id": ENDED, **changes}.items():
        record = "".join(
            f"{key}={value}\n" if line.startswith(f"{key}=") else line for line in record.splitlines(keepends=True)
        )
    (folder / "start").write_text(record)
    return ENDED


def test_a_parent_on_another_host_is_none(world: World) -> None:
    parent = pretend_parent(world, host="another-host")
    child = world.run("/bin/echo", "inner", env={"GPUALERT_RUN_ID": parent})
    runs = [run for run in world.runs() if run.run_id != ENDED]
    assert (child.stdout, [parent_of_run(run) for run in runs]) == (b"inner\n", ["", ""])


@pytest.mark.parametrize(
    "value", ["", "../..", "/etc", "a\nb=c", "x" * 5000, "$(touch made)", "*", ENDED], ids=range(8)
)
def test_a_parent_that_is_none_or_hostile_is_ignored(world: World, value: str) -> None:
    result = world.run("/bin/echo", "x", env={"GPUALERT_RUN_ID": value})
    assert (result.returncode, result.stdout, result.complaints) == (0, b"x\n", ())
    assert parent_of_run(result.recorded) == ""
    assert list(world.cwd.iterdir()) == []


def test_a_failed_inner_run_is_recorded_beside_an_outer_that_succeeds(world: World) -> None:
    words = ("/bin/sh", "-c", '"$@" || true', "sh", *world.shim, "run", "--", "/bin/false")
    assert world.run(*words).returncode == 0
    assert sorted(run.finish().status for run in world.runs()) == [0, 1]
    assert Path(world.state / "runs").is_dir()
