"""
Jobs on a real Slurm cluster, that of the tests: nodes n1 to n10 on one machine, started where it is not up already.

It takes root and Debian's packages slurm-wlm, slurmdbd, munge and mariadb-server.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

from corpus.make.recipe import Recipe, World
from corpus.make.sandbox import BoxError
from corpus.make.slurm_user import User
from gpualert.errors import GpualertError
from gpualert.rundir import read_run
from tests.engines.cluster import Cluster, missing
from tests.engines.daemons import silently, wait_until
from tests.engines.slurm_conf import ALL_NODES, CONTESTED, DOOMED

# Two partitions of our own: one across two nodes of which one may die, one whose jobs are told before they make way.
_WITNESS = "n7"
_PARTITIONS = (
    f"PartitionName=wide Nodes={_WITNESS},{DOOMED} MaxTime=60 PreemptMode=OFF",
    f"PartitionName=grace Nodes={CONTESTED} MaxTime=60 PriorityTier=1 PreemptMode=CANCEL GraceTime=12",
)
_KEPT_NAMES = {DOOMED: "n8", CONTESTED: "n7", f"n[{_WITNESS[1:]},{DOOMED[1:]}]": "n[7-8]"}


# What happens to a job, by its number, from outside.
Act = Callable[[User, str], None]


@dataclass(frozen=True)
class Batch:
    """
    A job for the cluster.

    Attributes:
        script: Lines of bash, in which `gpualert run` starts what is told of.
        options: Of sbatch; None where the script is run on the login node, where it calls srun itself.
        act: What happens to it.
        attempt: The attempt whose runs are kept, where Slurm runs it more than once.
        is_doomed: It uses the node that may die, one job at a time.
    """

    script: str
    options: str | None = ""
    files: Mapping[str, str] = field(default_factory=dict)
    act: Act | None = None
    attempt: int = 0
    is_doomed: bool = False
    limit_s: float = 200.0


def submitted(name: str, how: str, evidence: str, script: str, options: str | None = "", **more: Any) -> Recipe:
    """
    Return the recipe of a job on the cluster.

    Args:
        more: Fields of `Recipe` and of `Batch`.
    """
    of_job = {key: more.pop(key) for key in Batch.__dataclass_fields__ if key in more}
    more = {"framework": "slurm", "uses": ("sbatch",), **more}
    return Recipe(name, partial(_play, Batch(script, options, **of_job)), how, evidence, **more)


# --- What happens to jobs ----------------------------------------------------


def cancelled(*options: str) -> Act:
    """Have somebody cancel or signal it."""

    def act(user: User, job: str) -> None:
        user.wait_for(job)
        user.run("scancel", *options, job)

    return act


def preempted(then: Act | None = None) -> Act:
    """Have another job take its place."""

    def act(user: User, job: str) -> None:
        user.wait_for(job)
        user.run("sbatch", "--partition=urgent", "--cpus-per-task=2", "--output=/dev/null", "--wrap=exit 0")
        if then:
            then(user, job)

    return act


def started_again(user: User, job: str) -> None:
    """Let it start again, once it has been put back into the queue."""
    user.start_again(job)


def dropped(user: User, job: str) -> None:
    """Let it go, once it has been put back into the queue."""
    user.start_again(job)
    user.run("scancel", job)


def node_dies(user: User, job: str) -> None:
    """Let the node die as by a power cut; it comes back when the job has ended."""
    user.wait_for(job)
    user.cluster.kill_node(DOOMED)
    (user.project / "node-is-dead").touch()
    try:
        user.wait(job)
    finally:
        # After a job of two nodes Slurm calls a node partly used that is not, until it has had another.
        user.run("sbatch", "--partition=doomed", "--output=/dev/null", "--wrap=exit 0")
        user.cluster.start_node(DOOMED)


def node_is_set_down(user: User, job: str) -> None:
    """Have an administrator say that the node is down."""
    user.wait_for(job)
    if not silently("scontrol", "update", f"NodeName={DOOMED}", "State=DOWN", "Reason=power supply"):
        raise BoxError(f"node {DOOMED} cannot be set down")
    try:
        user.wait(job)
    finally:
        silently("scontrol", "update", f"NodeName={DOOMED}", "State=RESUME")  # refused once it is back already
        ask = ["sinfo", "-h", "-n", DOOMED, "-o", "%t"]
        wait_until(lambda: set(user.run(*ask).split()) == {"idle"}, 60, f"node {DOOMED}")


# --- How it is run -----------------------------------------------------------


def _play(batch: Batch, world: World) -> Mapping[str, str]:
    """Run a job; its run directories, and the files that they speak of, lie in the world afterwards."""
    cluster = _cluster()
    home = Path(tempfile.mkdtemp(prefix="corpus-", dir=cluster.base / "work"))
    home.chmod(0o755)
    user = User(cluster, home)
    try:
        user.project.mkdir()
        for name, text in {**batch.files, "chatter.py": Path(__file__).with_name("chatter.py").read_text()}.items():
            (user.project / name).write_text(text)
        for path in (home, user.project):
            shutil.chown(path, cluster.user, cluster.user)
        with _turn(cluster) if batch.is_doomed else ExitStack():
            _run_batch(user, batch)
        _hand_over(user, batch, world)
        return _replaced(user)
    except (TimeoutError, OSError) as error:
        raise BoxError(f"{error}; the job wrote\n{_printed(user)}") from error
    finally:
        if os.environ.get("CORPUS_SHOW"):
            print(_printed(user))
        shutil.rmtree(home, ignore_errors=True)


def _run_batch(user: User, batch: Batch) -> None:
    if batch.options is None:
        user.run_job(batch.script, batch.limit_s)
    else:
        job = user.submit(batch.script, batch.options)
        try:
            if batch.act:
                batch.act(user, job)
            user.wait(job, batch.limit_s)
        finally:
            silently("scancel", job)
    runs = user.home / ".local/state/gpualert/runs"
    if not runs.is_dir():
        raise BoxError(f"it left no run directory; it wrote\n{_printed(user)}")

    def told() -> bool:
        user.try_to("gpualert", "tick")
        return all((run / "evidence.json").exists() for run in runs.iterdir())

    wait_until(told, 120, "what is known of each run")


def _printed(user: User) -> str:
    return "\n".join(path.read_text(errors="replace")[-2000:] for path in sorted(user.project.glob("*.out")))


def _hand_over(user: User, batch: Batch, world: World) -> None:
    """Copy what a reader needs, as files of our own."""
    for path in user.project.rglob("*"):
        if path.is_file() and not path.is_symlink():
            _copy(path, world.project / path.relative_to(user.project))
    for run in (user.home / ".local/state/gpualert/runs").iterdir():
        target = world.state / "runs" / run.name
        for path in run.iterdir():
            if path.is_file() and not path.is_symlink():
                _copy(path, target / path.name)
        for path in target.glob("*.path"):
            path.write_bytes(path.read_bytes().replace(os.fsencode(user.project), os.fsencode(world.project)))
        start = read_run(target).start
        if start and start.slurm_restart_count != batch.attempt:
            shutil.rmtree(target)
    if not any((world.state / "runs").iterdir()):
        raise GpualertError(f"no run is of attempt {batch.attempt}")


def _copy(path: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, target)
    shutil.copystat(path, target)


def _replaced(user: User) -> dict[str, str]:
    """Return what must not stand in the case, and what stands there instead; longest first."""
    base = user.cluster.base
    spools = {f"{base}/spool/{node}": "/var/spool/slurmd" for node in ALL_NODES}
    # Where several nodes are one machine the step daemon's name, and its control group's, tell which it is for.
    daemons = {f"{name}{node}": name[:-1] for node in ALL_NODES for name in ("slurmstepd-", "slurm_")}
    groups = {line.rpartition(":")[2] for line in Path("/proc/self/cgroup").read_text().splitlines()} - {"/"}
    folders = {f"{base}/python": "/opt/venv", str(user.home): "/home/user", str(base): "/var/lib/slurm"}
    folders |= dict.fromkeys(groups, "/user.slice")  # of what is run on the login node
    return {**spools, **daemons, **folders, user.cluster.user: "user", **_KEPT_NAMES}


@contextmanager
def _turn(cluster: Cluster) -> Iterator[None]:
    """Have the node that may die for oneself, as the tests do."""
    with Path(f"{cluster.base}.{DOOMED}").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        yield


@cache
def _cluster() -> Cluster:
    """Return the cluster, which is up until this process ends."""
    if why := missing():
        raise BoxError(f"not installed: {why.removeprefix('not installed: ')}")
    cluster, stack = Cluster(), ExitStack()
    stack.enter_context(cluster.used())
    atexit.register(stack.close)
    if cluster.user == "root":
        raise BoxError("no ordinary user can run a Python that has what gpualert needs")
    for words in _PARTITIONS:
        silently("scontrol", "create", *words.split())  # they may be there already
    return cluster
