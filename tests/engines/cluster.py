"""
A whole Slurm cluster on one machine: munge, MariaDB, slurmdbd, slurmctld and ten slurmd.

    python -m tests.engines.cluster up [BASE]      start it and leave it up: the tests then use it, and leave it
    python -m tests.engines.cluster down [BASE]

It needs root and Debian's packages slurm-wlm, slurmdbd, munge and mariadb-server.  There can be one on a machine,
because Slurm's configuration, the database's socket and munge's are at fixed places.

Source: slurm.conf(5), cgroup.conf(5), slurmdbd.conf(5), of Slurm 22.05.
"""

from __future__ import annotations

import fcntl
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

BASE = Path("/tmp/gpualert-slurm")
USER = "gpualert-ci"
# n1 to n8 are for everyone, n9 is there to die, and on n10 jobs of `urgent` push out those of `spare`.
NODES, DOOMED, CONTESTED = 8, "n9", "n10"
PROGRAMS = ("slurmctld", "slurmd", "slurmdbd", "munged", "mariadbd", "sbatch", "useradd")
_REPOSITORY = Path(__file__).resolve().parents[2]
_CONF = Path("/etc/slurm/slurm.conf")
_DATABASE_SOCKET = Path("/run/mysqld/mysqld.sock")
_FIRST_PORT = 17000
_MINOR = tuple(sys.version_info[:2])


def missing() -> str:
    """Say what keeps a cluster from running here; "" where nothing does."""
    lacks = [program for program in PROGRAMS if not shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin")]
    if lacks:
        return f"not installed: {', '.join(lacks)}"
    return "" if os.geteuid() == 0 else "a cluster's daemons need root"


def wait_until(condition: Callable[[], Any], limit_s: float, what: str) -> Any:
    """Return the first true value of `condition`; TimeoutError after `limit_s`."""
    ends = time.monotonic() + limit_s
    while not (found := condition()):
        if time.monotonic() > ends:
            raise TimeoutError(f"waited {limit_s:g} s for {what}")
        time.sleep(0.1)
    return found


class Cluster:
    """
    One cluster, whose files lie in `base`.

    Attributes:
        base: `etc`, `log`, `bin` (the hooks as Slurm starts them), `mail` (what our MailProg delivers),
            `plain` (what it passed on to the system's mail program), `kernel` (the epilog's site folder).
    """

    def __init__(self, base: Path = BASE) -> None:
        self.base = base

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
            self._daemons()
        except BaseException:
            self.down()
            raise

    def is_up(self) -> bool:
        """Say whether the controller answers and is the one of this folder."""
        if not _CONF.is_symlink() or _CONF.readlink() != self.base / "etc/slurm.conf":
            return False
        servers = [
            process for process in self._processes() if not process["name"].startswith("slurmd.")
        ]  # nodes may die
        return all(map(_lives, servers)) and _silently("scontrol", "ping")

    def down(self) -> None:
        """Stop what `up` started, Slurm first; each by its process number."""
        processes = self._processes()
        groups = [[p for p in processes if p["name"].startswith(("slurmctld", "slurmd."))]]
        groups += [[p] for p in reversed(processes) if p not in groups[0]]
        for group in groups:
            for process in group:
                _stop(process, signal.SIGTERM)
            for process in group:
                with suppress(TimeoutError):
                    wait_until(lambda p=process: not _lives(p), 10, process["name"])  # type: ignore[misc]
                _stop(process, signal.SIGKILL)
        (self.base / "run/processes.json").unlink(missing_ok=True)
        if _CONF.is_symlink() and _CONF.readlink() == self.base / "etc/slurm.conf":
            _CONF.unlink()

    def kill_node(self, node: str) -> None:
        """Let a node die as by a power cut: its daemon and what that started, all at once."""
        (process,) = [process for process in self._processes() if process["name"] == f"slurmd.{node}"]
        _stop(process, signal.SIGKILL)
        for pid in _processes_on(node):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def start_node(self, node: str) -> None:
        """Start a node's daemon (again), and wait until the node can take jobs."""
        kept = [process for process in self._processes() if process["name"] != f"slurmd.{node}"]
        self._write(kept)
        self._start(f"slurmd.{node}", ["slurmd", "-D", "-N", node])
        if not _node_is_idle(node):
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
            if not _silently(base, "-m", "venv", "--without-pip", str(self.base / "python")):
                continue
            for folder in self.base.glob("python/lib/python*/site-packages"):
                (folder / "gpualert-tests.pth").write_text("\n".join(packages) + "\n")
            words = [str(self.python), "-c", f"import sys, gpualert.cli; sys.exit(sys.version_info[:2] != {_MINOR})"]
            if _silently("runuser", "-u", USER, "--", *words):
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
        if _silently("munge", "-n"):
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
        self._start("munged", ["munged", "--foreground", "--force"], user="munge")
        wait_until(lambda: _silently("munge", "-n"), 15, "munge")

    def _database(self) -> None:
        if _silently("mariadb-admin", f"--socket={_DATABASE_SOCKET}", "ping"):
            raise RuntimeError(f"another database server is at {_DATABASE_SOCKET}, where slurmdbd looks for its own")
        data = self.base / "db"
        _DATABASE_SOCKET.parent.mkdir(exist_ok=True)
        for path in (_DATABASE_SOCKET.parent, data):
            shutil.chown(path, "mysql", "mysql")
        made = ["mariadb-install-db", "--user=mysql", f"--datadir={data}", "--skip-test-db"]
        with (self.base / "log/mariadb-install.log").open("wb") as log:
            subprocess.run([*made, "--auth-root-authentication-method=socket"], stdout=log, stderr=log, check=True)
        # Its process file must be where it may write, or it dies of a segmentation fault.
        options = ["--no-defaults", "--user=mysql", f"--datadir={data}", f"--socket={_DATABASE_SOCKET}"]
        options += ["--skip-networking", "--innodb-buffer-pool-size=64M", "--innodb-flush-log-at-trx-commit=0"]
        options += ["--innodb-lock-wait-timeout=900", f"--pid-file={_DATABASE_SOCKET.parent}/mariadbd.pid"]
        self._start("mariadbd", ["mariadbd", *options])
        ask = ["mariadb", f"--socket={_DATABASE_SOCKET}", "-e"]
        wait_until(lambda: _silently(*ask, "SELECT 1"), 30, "the database")
        grant = "CREATE USER 'slurm'@'localhost' IDENTIFIED BY 'slurm'; GRANT ALL ON slurm.* TO 'slurm'@'localhost'"
        subprocess.run([*ask, f"CREATE DATABASE slurm; {grant}"], check=True)

    def _configure(self) -> None:
        etc = self.base / "etc"
        _put(etc / "slurmdbd.conf", _DBD_CONF.format(base=self.base, host=_host()), 0o600, "slurm")
        _put(etc / "cgroup.conf", _CGROUP_CONF.format(plugin=_cgroup_plugin()))
        values = {"base": self.base, "host": _host(), "nodes": NODES, "doomed": DOOMED, "contested": CONTESTED}
        last = NODES + 2
        values |= {"last": last, "first_port": _FIRST_PORT + 1, "last_port": _FIRST_PORT + last}
        _put(etc / "slurm.conf", _SLURM_CONF.format(**values))
        hooks = _REPOSITORY / "hooks/slurm"
        for hook in ("mailprog", "epilog"):
            _put(self.base / "bin" / hook, _HOOK.format(base=self.base, hook=hooks / hook, python=self.python), 0o755)
        text = _TASK_PROLOG.format(base=self.base, hook=hooks / "task_prolog")
        _put(self.base / "bin/task_prolog", text, 0o755)
        for name, text in (("mail", _PLAIN_MAIL), ("sendmail", _SENDMAIL)):
            _put(self.base / "bin" / name, text.format(base=self.base), 0o755)
        _CONF.parent.mkdir(exist_ok=True)
        if _CONF.exists() and not _CONF.is_symlink():
            raise RuntimeError(f"{_CONF} is there already: this machine has a Slurm of its own")
        # The variable SLURM_CONF alone is not enough: some programs remove all of SLURM_* before they call srun.
        _CONF.unlink(missing_ok=True)
        _CONF.symlink_to(etc / "slurm.conf")

    def _daemons(self) -> None:
        self._start("slurmdbd", ["slurmdbd", "-D"], user="slurm")
        wait_until(lambda: _silently("sacctmgr", "-n", "list", "cluster"), 60, "slurmdbd")
        self._start("slurmctld", ["slurmctld", "-D"], user="slurm")
        wait_until(lambda: _silently("scontrol", "ping"), 60, "slurmctld")
        nodes = [f"n{number}" for number in range(1, NODES + 3)]
        for node in nodes:
            (self.base / "spool" / node).mkdir()
            self._start(f"slurmd.{node}", ["slurmd", "-D", "-N", node])
        wait_until(lambda: all(map(_node_is_idle, nodes)), 60, "the nodes")
        for words in (["account", "ci"], ["user", "root", "Account=ci"], ["user", USER, "Account=ci"]):
            subprocess.run(["sacctmgr", "-i", "add", *words], check=True, stdout=subprocess.DEVNULL)

    # --- Processes -----------------------------------------------------------

    def _start(self, name: str, words: Sequence[str], *, user: str | None = None) -> None:
        path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        # The daemons look for cgroup.conf and slurmdbd.conf beside the file that this variable names.
        environ = {"PATH": path, "LANG": "C.UTF-8", "SLURM_CONF": str(self.base / "etc/slurm.conf")}
        program = shutil.which(words[0], path=path)
        assert program, f"no program {words[0]}"
        with (self.base / f"log/{name}.out").open("wb") as log:
            started = subprocess.Popen(
                [program, *words[1:]],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env=environ,
                start_new_session=True,
                user=user,
                group=user,
                extra_groups=[] if user else None,
            )
        self._write([*self._processes(), {"name": name, "pid": started.pid, "started": _started(started.pid)}])

    def _processes(self) -> list[dict[str, Any]]:
        """Return what was started and not stopped, in order."""
        with suppress(OSError, ValueError):
            found = json.loads((self.base / "run/processes.json").read_text())
            return list(found)
        return []

    def _write(self, processes: Sequence[Mapping[str, Any]]) -> None:
        path = self.base / "run/processes.json"
        path.with_suffix(".new").write_text(json.dumps(list(processes)))
        path.with_suffix(".new").replace(path)


def _alone(users: Any) -> bool:
    """Say whether nobody else holds the file of the users."""
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _host() -> str:
    return socket.gethostname().split(".")[0]


def _put(path: Path, text: str, mode: int = 0o644, owner: str | None = None) -> None:
    path.write_text(text)
    path.chmod(mode)
    if owner:
        shutil.chown(path, owner, owner)


def _silently(*words: str) -> bool:
    """Say whether a program ends well within a few seconds."""
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _node_is_idle(node: str) -> bool:
    done = subprocess.run(["sinfo", "-h", "-n", node, "-o", "%t"], capture_output=True, text=True, check=False)
    return set(done.stdout.split()) == {"idle"}


def _cgroup_plugin() -> str:
    """Return the plugin for the control groups of this machine: the second version where it holds the memory."""
    return "cgroup/v2" if "memory" in _read("/sys/fs/cgroup/cgroup.controllers") else "cgroup/v1"


def _read(path: str) -> str:
    with suppress(OSError):
        return Path(path).read_text()
    return ""


def _started(pid: int) -> str:
    """Return when a process started, in ticks since boot; "" for one that is gone or a zombie."""
    fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return fields[19] if fields and fields[0] != "Z" else ""


def _lives(process: Mapping[str, Any]) -> bool:
    return _started(process["pid"]) == process["started"] != ""


def _stop(process: Mapping[str, Any], number: int) -> None:
    if _lives(process):
        with suppress(ProcessLookupError):
            os.kill(process["pid"], number)


def _processes_on(node: str) -> list[int]:
    """Return the step daemons of a node and all that runs below them, by their control groups."""
    marks = (f"/slurm_{node}/", f"/{node}_slurmstepd.scope/")
    paths = Path("/proc").glob("[0-9]*/cgroup")
    return [int(path.parent.name) for path in paths if any(mark in _read(str(path)) for mark in marks)]


# SlurmUser is `slurm`, as on a real site: MailProg then may not read what users own.
_SLURM_CONF = """\
ClusterName=ci
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort=6817
SlurmUser=slurm
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
DefMemPerCPU=200
SchedulerParameters=batch_sched_delay=0,sched_min_interval=100000,bf_interval=2
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
ReturnToService=2
SlurmdParameters=config_overrides
SlurmctldPidFile={base}/run/slurmctld.pid
SlurmctldLogFile={base}/log/slurmctld.log
SlurmdPidFile={base}/run/slurmd.%n.pid
SlurmdLogFile={base}/log/slurmd.%n.log
SlurmdSpoolDir={base}/spool/%n
StateSaveLocation={base}/state
SlurmdTimeout=20
KillWait=10
MinJobAge=300
InactiveLimit=0
CompleteWait=0
OverTimeLimit=0
JobRequeue=1
MailProg={base}/bin/mailprog
Epilog={base}/bin/epilog
TaskProlog={base}/bin/task_prolog
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoreFlags=job_comment,job_script,job_env
NodeName=DEFAULT CPUs=2 RealMemory=2800 State=UNKNOWN
NodeName=n[1-{last}] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{first_port}-{last_port}]
PartitionName=DEFAULT MaxTime=60 State=UP PreemptMode=OFF
PartitionName=main Nodes=n[1-{nodes}] Default=YES
PartitionName=doomed Nodes={doomed}
PartitionName=spare Nodes={contested} PriorityTier=1 PreemptMode=REQUEUE
PartitionName=urgent Nodes={contested} PriorityTier=10
"""

_DBD_CONF = """\
AuthType=auth/munge
DbdHost={host}
DbdAddr=127.0.0.1
SlurmUser=slurm
DebugLevel=info
LogFile={base}/log/slurmdbd.log
PidFile={base}/dbd/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=slurm
StoragePass=slurm
StorageLoc=slurm
"""

_CGROUP_CONF = """\
CgroupPlugin={plugin}
CgroupMountpoint=/sys/fs/cgroup
CgroupAutomount=no
IgnoreSystemd=yes
ConstrainCores=no
ConstrainRAMSpace=yes
ConstrainSwapSpace=no
AllowedRAMSpace=100
"""

# A site sets these in /etc/gpualert/config.yaml, which a test must not write.
_HOOK = """\
#!/bin/sh
[ -x {hook} ] || exit 0
export GPUALERT_PYTHON={python} GPUALERT_MAIL=sendmail GPUALERT_SENDMAIL_PATH={base}/bin/sendmail
export GPUALERT_KERNEL_DIR={base}/kernel GPUALERT_MAIL_PROGRAM={base}/bin/mail TMPDIR={base}/mail
exec {hook} "$@"
"""

_TASK_PROLOG = """\
#!/bin/sh
[ ! -x {hook} ] || GPUALERT_TASK_SETTINGS={base}/etc/task.env exec {hook}
"""

_PLAIN_MAIL = """\
#!/bin/sh
# The system's mail program, for tests: one file a mail, its words and then what came in, each ended by a NUL.
file=$(mktemp {base}/plain/XXXXXXXX)
{{ printf '%s\\0' "$@"; cat; printf '\\0'; }} >"$file" && mv "$file" "$file.mail"
"""


_SENDMAIL = """\
#!/bin/sh
file=$(mktemp {base}/mail/XXXXXXXX) && cat >"$file" && mv "$file" "$file.eml"
"""


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
