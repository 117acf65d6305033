"""
A whole Slurm cluster on one machine: munge, MariaDB, slurmdbd, slurmctld and ten slurmd.

    python -m tests.engines.cluster up [BASE]      start it and leave it up: the tests then use it, and leave it
    python -m tests.engines.cluster down [BASE]

It needs root and Debian's packages slurm-wlm, slurmdbd, munge and mariadb-server.  There can be one on a machine,
because Slurm's configuration, the database's socket and munge's are at fixed places.
"""

from __future__ import annotations

import fcntl
import os
import pwd
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from .daemons import Daemons, processes_on, silently, wait_until
from .slurm_conf import ALL_NODES, DATABASE, cgroup_folders, configure

BASE = Path("/tmp/gpualert-slurm")
USER = "gpualert-ci"
PROGRAMS = ("slurmctld", "slurmd", "slurmdbd", "munged", "mariadbd", "sbatch", "useradd")
_REPOSITORY = Path(__file__).resolve().parents[2]
_CONF = Path("/etc/slurm/slurm.conf")
_DATABASE_SOCKET = Path("/run/mysqld/mysqld.sock")
_MINOR = tuple(sys.version_info[:2])


def missing() -> str:
    """Say what keeps a cluster from running here; "" where nothing does."""
    lacks = [program for program in PROGRAMS if not shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin")]
    if lacks:
        return f"not installed: {', '.join(lacks)}"
    if os.geteuid() != 0:
        return "a cluster's daemons need root"
    closed = [folder for folder in cgroup_folders() if not os.access(folder, os.W_OK)]
    return f"no control groups can be made in {closed[0]}" if closed else ""


class Cluster:
    """
    One cluster, whose files lie in `base`.

    Attributes:
        base: `etc`, `log`, `bin` (the hooks as Slurm starts them), `mail` (what our MailProg delivers),
            `plain` (what it passed on to the system's mail program), `kernel` (the epilog's site folder).
    """

    def __init__(self, base: Path = BASE) -> None:
        self.base = base
        self._daemons = Daemons(base)

    @contextmanager
    def used(self) -> Iterator[None]:
        """Have it up: start it unless somebody did, and stop it unless somebody else uses it or it is to be left."""
        with Path(f"{self.base}.users").open("w") as users:
            with self._lock():
                fcntl.flock(users, fcntl.LOCK_SH)
                self.up()
            try:
                yield
            finally:
                with self._lock():
                    if not (self.base / "keep").exists() and _alone(users):
                        self.down()

    @contextmanager
    def _lock(self) -> Iterator[None]:
        with Path(f"{self.base}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def up(self) -> None:
        """Start what does not run yet; about 5 s from nothing."""
        if self.is_up():
            return
        if reason := missing():
            raise RuntimeError(f"no Slurm cluster here: {reason}")
        self.down()
        shutil.rmtree(self.base, ignore_errors=True)
        self.base.mkdir(mode=0o755)
        for name in ("etc", "log", "run", "bin", "db", "dbd", "state", "spool", "mail", "plain", "kernel", "work"):
            (self.base / name).mkdir(mode=0o755)
        (self.base / "work").chmod(0o1777)
        for name in ("log", "run", "dbd", "state", "mail", "plain"):
            shutil.chown(self.base / name, "slurm", "slurm")
        try:
            self._make_user()
            self._make_python()
            self._munge()
            self._database()
            self._configure()
            self._start_slurm()
        except BaseException:
            self.down()
            raise

    def is_up(self) -> bool:
        """Say whether the controller answers and is the one of this folder."""
        if not _CONF.is_symlink() or _CONF.readlink() != self.base / "etc/slurm.conf":
            return False
        # Its nodes may die: a test kills one.
        servers = [daemon for daemon in self._daemons.all() if not daemon.name.startswith("slurmd.")]
        return all(daemon.lives for daemon in servers) and silently("scontrol", "ping")

    def down(self) -> None:
        """Stop what `up` started, Slurm first; each by its process number."""
        daemons = self._daemons.all()
        slurm = [daemon for daemon in daemons if daemon.name.startswith(("slurmctld", "slurmd."))]
        self._daemons.stop(slurm)
        for daemon in reversed([daemon for daemon in daemons if daemon not in slurm]):
            self._daemons.stop([daemon])
        if _CONF.is_symlink() and _CONF.readlink() == self.base / "etc/slurm.conf":
            _CONF.unlink()

    def kill_node(self, node: str) -> None:
        """Let a node die as by a power cut: its daemon and what that started, all at once."""
        (daemon,) = [daemon for daemon in self._daemons.all() if daemon.name == f"slurmd.{node}"]
        daemon.signal(signal.SIGKILL)
        for pid in processes_on(node):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def start_node(self, node: str) -> None:
        """Start a node's daemon (again), and wait until the node can take jobs."""
        self._start(f"slurmd.{node}", ["slurmd", "-D", "-N", node])
        wait_until(lambda: _node_is_idle(node), 60, f"node {node}")

    # --- The parts -----------------------------------------------------------

    def _make_user(self) -> None:
        with suppress(KeyError):
            pwd.getpwnam(USER)
            return
        subprocess.run(["useradd", "--create-home", "--shell", "/bin/bash", USER], check=True)

    def _make_python(self) -> None:
        """Make a Python that the user may run: the one of these tests often lies in root's home."""
        packages = [str(_REPOSITORY), *(path for path in sys.path if path.endswith("site-packages"))]
        for base in (sys.executable, "/usr/bin/python3"):
            shutil.rmtree(self.base / "python", ignore_errors=True)
            if not silently(base, "-m", "venv", "--without-pip", str(self.base / "python")):
                continue
            for folder in self.base.glob("python/lib/python*/site-packages"):
                (folder / "gpualert-tests.pth").write_text("\n".join(packages) + "\n")
            words = [str(self.python), "-c", f"import sys, gpualert.cli; sys.exit(sys.version_info[:2] != {_MINOR})"]
            if silently("runuser", "-u", USER, "--", *words):
                return
        shutil.rmtree(self.base / "python", ignore_errors=True)

    @property
    def python(self) -> Path:
        """The Python of the jobs and hooks."""
        made = self.base / "python/bin/python3"
        return made if made.exists() else Path(sys.executable)

    @property
    def user(self) -> str:
        """Who submits jobs: an ordinary user; root where such a one can run no Python that has what we need."""
        return USER if self.python.is_relative_to(self.base) else "root"

    def _munge(self) -> None:
        if silently("munge", "-n"):
            return
        key = Path("/etc/munge/munge.key")
        if not key.exists():
            key.touch(mode=0o600)
            key.write_bytes(os.urandom(128))
            shutil.chown(key, "munge", "munge")
        for path, mode in (("/run/munge", 0o755), ("/var/lib/munge", 0o700), ("/var/log/munge", 0o700)):
            Path(path).mkdir(exist_ok=True)
            Path(path).chmod(mode)
            shutil.chown(path, "munge", "munge")
        self._start("munged", ["munged", "--foreground", "--force"], "munge")
        wait_until(lambda: silently("munge", "-n"), 15, "munge")

    def _database(self) -> None:
        ask = ["mariadb", f"--socket={_DATABASE_SOCKET}", "-e"]
        if not silently(*ask, "SELECT 1"):  # slurmdbd looks nowhere else, so one that is there must do
            self._start_database()
            wait_until(lambda: silently(*ask, "SELECT 1"), 30, "the database")
        made = f"DROP DATABASE IF EXISTS {DATABASE}; CREATE DATABASE {DATABASE};"
        user = f"'{DATABASE}'@'localhost'"
        grant = f"CREATE OR REPLACE USER {user} IDENTIFIED BY '{DATABASE}'; GRANT ALL ON {DATABASE}.* TO {user}"
        subprocess.run([*ask, f"{made} {grant}"], check=True)

    def _start_database(self) -> None:
        data = self.base / "db"
        _DATABASE_SOCKET.parent.mkdir(exist_ok=True)
        for path in (_DATABASE_SOCKET.parent, data):
            shutil.chown(path, "mysql", "mysql")
        # For tests only: what a power cut would lose is of no use after it.
        options = ["--no-defaults", "--user=mysql", f"--datadir={data}"]
        options += ["--innodb-flush-method=nosync", "--innodb-log-file-size=8M"]
        made = ["mariadb-install-db", *options, "--skip-test-db", "--auth-root-authentication-method=socket"]
        with (self.base / "log/mariadb-install.log").open("wb") as log:
            subprocess.run(made, stdout=log, stderr=log, check=True)
        options += [f"--socket={_DATABASE_SOCKET}", "--skip-networking", "--innodb-buffer-pool-size=64M"]
        options += ["--innodb-flush-log-at-trx-commit=0", "--innodb-lock-wait-timeout=900"]
        # Its process file must be where it may write, or it dies of a segmentation fault.
        self._start("mariadbd", ["mariadbd", *options, f"--pid-file={_DATABASE_SOCKET.parent}/mariadbd.pid"])

    def _configure(self) -> None:
        configure(self.base, self.python)
        _CONF.parent.mkdir(exist_ok=True)
        if _CONF.exists() and not _CONF.is_symlink():
            raise RuntimeError(f"{_CONF} is there already: this machine has a Slurm of its own")
        # The variable SLURM_CONF alone is not enough: some programs remove all of SLURM_* before they call srun.
        _CONF.unlink(missing_ok=True)
        _CONF.symlink_to(self.base / "etc/slurm.conf")

    def _start_slurm(self) -> None:
        self._start("slurmdbd", ["slurmdbd", "-D"], "slurm")
        wait_until(lambda: silently("sacctmgr", "-n", "list", "cluster"), 60, "slurmdbd")
        self._start("slurmctld", ["slurmctld", "-D"], "slurm")
        wait_until(lambda: silently("scontrol", "ping"), 60, "slurmctld")
        for node in ALL_NODES:
            (self.base / "spool" / node).mkdir()
            self._start(f"slurmd.{node}", ["slurmd", "-D", "-N", node])
        wait_until(lambda: all(map(_node_is_idle, ALL_NODES)), 60, "the nodes")
        for words in (["account", "ci"], ["user", "root", "Account=ci"], ["user", USER, "Account=ci"]):
            subprocess.run(["sacctmgr", "-i", "add", *words], check=True, stdout=subprocess.DEVNULL)

    def _start(self, name: str, words: Sequence[str], user: str | None = None) -> None:
        # The daemons look for cgroup.conf and slurmdbd.conf beside the file that this variable names.
        self._daemons.start(name, words, {"SLURM_CONF": str(self.base / "etc/slurm.conf")}, user)


def _alone(users: Any) -> bool:
    """Say whether nobody else holds the file of the users."""
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _node_is_idle(node: str) -> bool:
    done = subprocess.run(["sinfo", "-h", "-n", node, "-o", "%t"], capture_output=True, text=True, check=False)
    return set(done.stdout.split()) == {"idle"}


def main(words: Sequence[str]) -> int:
    """Start or stop a cluster by hand."""
    what, *rest = words or [""]
    cluster = Cluster(Path(rest[0]) if rest else BASE)
    if what not in ("up", "down"):
        print(__doc__, file=sys.stderr)
        return 2
    with cluster._lock():
        if what == "up":
            cluster.up()
            (cluster.base / "keep").touch()
        else:
            cluster.down()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
