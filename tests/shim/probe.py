# pathlib would double the start of this program.
# ruff: noqa: PTH109, PTH115, PTH123, PTH208
"""The job of many tests: writes what it sees of the world to the file named by its first argument, as JSON."""

import hashlib
import json
import os
import resource
import sys


def slurp(path):
    """Return a file's bytes as text that keeps every byte."""
    with open(path, "rb") as file:
        return file.read().decode("latin-1")


def descriptors():
    """Return what each open descriptor above 2 points to, with its offset and flags."""
    seen = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue  # the descriptor that listed the folder
        if int(name) > 2:
            seen[name] = [target, slurp(f"/proc/self/fdinfo/{name}").split("mnt_id")[0]]
    return seen


def working_directory():
    """Return the working directory, None where it was deleted."""
    try:
        return os.getcwd()
    except OSError:
        return None


fds = descriptors()
status = dict(line.split(":\t", 1) for line in slurp("/proc/self/status").splitlines() if ":\t" in line)
umask = os.umask(0)
os.umask(umask)
seen = {
    "environ": sorted(slurp("/proc/self/environ").split("\0")),
    "argv": slurp("/proc/self/cmdline").split("\0"),
    "fds": fds,
    "cwd": working_directory(),
    "umask": umask,
    "limits": slurp("/proc/self/limits"),
    "blocked": status["SigBlk"],
    "cpus": status["Cpus_allowed_list"],
    "groups": status["Groups"],
    "capabilities": [status["CapInh"], status["CapPrm"], status["CapEff"], status["CapBnd"]],
    "no_new_privs": status["NoNewPrivs"],
    "oom_score_adj": slurp("/proc/self/oom_score_adj"),
    "cgroup": slurp("/proc/self/cgroup"),
    "nice": os.getpriority(os.PRIO_PROCESS, 0),
    "core": resource.getrlimit(resource.RLIMIT_CORE),
    "pid": os.getpid(),
    "ppid": os.getppid(),
    "pgid": os.getpgid(0),
    "sid": os.getsid(0),
    "starttime": slurp("/proc/self/stat").rpartition(")")[2].split()[19],
    "stdin": hashlib.sha256(sys.stdin.buffer.read()).hexdigest() if sys.stdin else None,
}
with open(sys.argv[1], "w") as file:
    json.dump(seen, file)
