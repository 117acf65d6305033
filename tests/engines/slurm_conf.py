"""
What a test cluster is configured with: Slurm's files, and the programs that Slurm starts.

Source: slurm.conf(5), cgroup.conf(5), slurmdbd.conf(5), of Slurm 22.05.
"""

from __future__ import annotations

import shutil
import socket
from pathlib import Path

from .daemons import read

# n1 to n8 are for everyone, n9 is there to die, and on n10 jobs of `urgent` push out those of `spare`.
NODES, DOOMED, CONTESTED = 8, "n9", "n10"
ALL_NODES = [f"n{number}" for number in range(1, NODES + 3)]
DATABASE = "gpualert_tests"
_FIRST_PORT = 17000
_HOOKS = Path(__file__).resolve().parents[2] / "hooks/slurm"


def configure(base: Path, python: Path) -> None:
    """Write all of it below `base`; the hooks get `python`."""
    host = socket.gethostname().split(".")[0]
    count = len(ALL_NODES)
    values = {"base": base, "host": host, "nodes": NODES, "doomed": DOOMED, "contested": CONTESTED, "count": count}
    values |= {"first_port": _FIRST_PORT + 1, "last_port": _FIRST_PORT + count}
    _put(base / "etc/slurm.conf", _SLURM_CONF.format(**values))
    _put(base / "etc/slurmdbd.conf", _DBD_CONF.format(base=base, host=host, database=DATABASE), 0o600, "slurm")
    _put(base / "etc/cgroup.conf", _CGROUP_CONF.format(plugin=cgroup_plugin()))
    for name, text in _PROGRAMS.items():
        _put(base / "bin" / name, text.format(base=base, hook=_HOOKS / name, python=python), 0o755)


def cgroup_plugin() -> str:
    """Return the plugin for the control groups of this machine: the second version where it holds the memory."""
    return "cgroup/v2" if "memory" in read(Path("/sys/fs/cgroup/cgroup.controllers")) else "cgroup/v1"


def cgroup_folders() -> list[Path]:
    """Return where Slurm makes its control groups."""
    kinds = [""] if cgroup_plugin() == "cgroup/v2" else ["freezer", "memory"]
    return [Path("/sys/fs/cgroup", kind) for kind in kinds]


def _put(path: Path, text: str, mode: int = 0o644, owner: str | None = None) -> None:
    path.write_text(text)
    path.chmod(mode)
    if owner:
        shutil.chown(path, owner, owner)


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
NodeName=n[1-{count}] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{first_port}-{last_port}]
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
StorageUser={database}
StoragePass={database}
StorageLoc={database}
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

_PROGRAMS = {
    "mailprog": _HOOK,
    "epilog": _HOOK,
    "task_prolog": _TASK_PROLOG,
    "mail": _PLAIN_MAIL,
    "sendmail": _SENDMAIL,
}
