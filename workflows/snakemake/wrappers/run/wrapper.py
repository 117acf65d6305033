"""
Snakemake wrapper: runs `params.command` through `gpualert run`, and ends as it ends.

    rule train:
        output: "model/{sample}.pt"
        log: "logs/train.{sample}.log"
        threads: 8
        resources: attempt=lambda wildcards, attempt: attempt
        params: command="python train.py --sample {sample}"
        wrapper: "file:/…/wrappers/run"

A string is run by bash in Snakemake's strict mode, a list word by word.  `log:` takes the output; with two logs named
`stdout` and `stderr` each takes its stream.  `params.options` are options of `gpualert run`.  Nothing but the standard
library: with conda this is run by another Python.
"""

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

STRICT = "set -euo pipefail; "


def main(job):
    """Become the job's command."""
    command = getattr(job.params, "command", None)
    if not command:
        sys.exit(f"gpualert: rule '{job.rule}': params has no 'command' (a string for bash, or a list of words)")
    words = ["bash", "-c", STRICT + command] if isinstance(command, str) else [str(word) for word in command]
    redirect(job)
    shim = find_shim(job.scriptdir)
    if os.environ.get("GPUALERT_ENGINE_INSIDE"):
        pass  # gpualert.smk has this job in hand already
    elif shim is None:
        print(f"gpualert: rule '{job.rule}' runs unwatched: there is no 'gpualert' on PATH", file=sys.stderr)
    else:
        os.environ.update(facts(job))
        follow(shim)
        options = getattr(job.params, "options", [])
        words = [*shim, "run", *(options.split() if isinstance(options, str) else options), "--", *words]
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execvp(words[0], words)
    except OSError as error:
        sys.exit(f"gpualert: rule '{job.rule}': cannot start '{words[0]}': {error.strerror}")


def find_shim(folder):
    """Return the words that start gpualert: that of this wrapper's own installation, else the one on PATH."""
    folder = Path(str(folder).removeprefix("file://").removeprefix("file:")).resolve()
    beside = folder.parents[3] / "bash" / "gpualert" if len(folder.parents) > 3 else Path()
    found = shutil.which("gpualert")
    if beside.is_file() and importlib.util.find_spec("gpualert"):
        os.environ.setdefault("GPUALERT_PYTHON", sys.executable)
    elif found:
        return [found]
    return ["/bin/sh", str(beside)] if beside.is_file() else None


def redirect(job):
    """Send the output where `log:` says."""
    named = {name: job.log.get(name) for name in ("stdout", "stderr")}
    if not any(named.values()) and job.log:
        named = {"stdout": job.log[0], "stderr": None}
    for (_, path), stream in zip(named.items(), (1, 2), strict=True):
        if path:
            try:
                fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
            except OSError as error:
                sys.exit(f"gpualert: rule '{job.rule}': cannot write log '{path}': {error.strerror}")
            os.dup2(fd, stream)
            os.close(fd)
    if named["stdout"] and not named["stderr"]:
        os.dup2(1, 2)


def facts(job):
    """Return which job this is, as variables; gpualert/engine_attempts.py has the key, too."""
    wildcards = {name: str(value) for name, value in job.wildcards.items()}
    words = [job.rule, *(f"{name}={value}" for name, value in sorted(wildcards.items()))]
    attempt = job.resources.get("gpualert_attempt") or job.resources.get("attempt") or 1
    return {
        "GPUALERT_ENGINE": "snakemake",
        "GPUALERT_ENGINE_WORKFLOW": os.environ.get("GPUALERT_ENGINE_WORKFLOW") or workflow_of(Path.cwd()),
        "GPUALERT_ENGINE_KEY": hashlib.sha256(json.dumps(words).encode("ascii")).hexdigest()[:16],
        "GPUALERT_ENGINE_RULE": job.rule,
        "GPUALERT_ENGINE_WILDCARDS": ",".join(f"{name}={value}" for name, value in wildcards.items()),
        "GPUALERT_ENGINE_ATTEMPT": str(attempt),
        "GPUALERT_ENGINE_LOG": " ".join(map(str, job.log)),
    }


def workflow_of(folder):
    """
    Return what the jobs of one workflow have in common, on every node, where nobody tells us: Snakemake's own log.

    Empty where there is none; the runs then belong to no workflow.
    """
    for place in (folder, *folder.parents):
        logs = sorted((place / ".snakemake" / "log").glob("*.snakemake.log"))
        if logs:
            mark = hashlib.sha256(os.fsencode(place)).hexdigest()[:8]
            return f"{logs[-1].name.removesuffix('.snakemake.log')}-{mark}"
    return ""


def follow(shim):
    """Have somebody send the summary once the workflow has ended; the first of its jobs does."""
    workflow = os.environ["GPUALERT_ENGINE_WORKFLOW"]
    home = os.environ.get("GPUALERT_HOME")
    state = Path(home or Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state", "gpualert"))
    try:
        if not workflow or (state / "workflows" / workflow).exists():
            return
        for folder in (state, state / "workflows", state / "workflows" / workflow):
            if not folder.exists():
                folder.mkdir(mode=0o700, parents=True, exist_ok=folder.name != workflow)
        words = [*shim, "workflow", "--follow", str(driver()), workflow]
        nothing = subprocess.DEVNULL
        subprocess.Popen(words, stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True)
    except FileExistsError:
        pass  # another job of this moment does
    except OSError as error:
        print(f"gpualert: no summary will tell of this workflow: {error}", file=sys.stderr)


def driver():
    """Return the process of the Snakemake that drives all of this; 0 where it is on another machine."""
    found, pid = 0, os.getppid()
    while pid > 1:
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            stat = Path(f"/proc/{pid}/stat").read_bytes()
        except OSError:
            break
        if any(word.rpartition(b"/")[2] == b"snakemake" for word in words[:4]):
            found = pid
            if b"--mode" in words:
                found = 0  # of one job
        pid = int(stat[stat.rindex(b")") + 2 :].split()[1])
    return found


main(snakemake)  # noqa: F821 - Snakemake puts it there
