"""
Tells the shell of each job which job it is, as environment variables, and has that shell be ours.

Snakemake offers no such thing, so a private method of it is replaced; `wrap` tries whether that works before any job.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any

from gpualert.places import place
from gpualert.workflow import job_key, workflow_id

_TRIAL_KEY = "trial"
_trying = False
_complained = False
_jobs: dict[int, Any] = {}


def bash_folder() -> Path:
    """Return the folder that holds our `bash`."""
    return place("snakemake") / "bin"


def is_wrapping_asked() -> bool:
    """Say whether our `bash` comes first on PATH."""
    found, ours = shutil.which("bash"), bash_folder() / "bash"
    return found is not None and ours.exists() and ours.samefile(found)


def wrap(bash: Path, *, trial: bool) -> str:
    """
    Pass every shell command that Snakemake starts in this process through our `bash`.

    Args:
        trial: Run one command that way first.

    Returns:
        Why the jobs run unwrapped; "" where they do not.
    """
    from snakemake.shell import shell

    usual = shell.get_executable()
    if not usual or Path(usual).name != "bash":
        return f"their shell is '{usual}', not bash"
    if not os.access(bash, os.X_OK):
        return f"'{bash}' is missing or cannot be executed"
    if getattr(shell, "_gpualert_bash", None):
        return ""
    trouble = _unlike(shell)
    if trouble:
        return trouble
    original = shell._get_process_prefix

    def get_process_prefix(cls: Any, shell_exec: str | None = None) -> Any:
        _tell_job(sys._getframe(1), shell_exec or cls.get_executable())
        return original(shell_exec)

    shell._get_process_prefix = classmethod(get_process_prefix)
    shell._gpualert_bash = str(bash)
    shell.executable(str(bash))
    trouble = _try(shell) if trial else ""
    if trouble:
        shell.executable(usual)
        shell._get_process_prefix = original
        shell._gpualert_bash = None
    return trouble


def _unlike(shell: Any) -> str:
    """Say in what this Snakemake differs from those that we know; "" where it does not."""
    code = shell.__new__.__code__
    known = "kwargs" in code.co_varnames and "_get_process_prefix" in code.co_names
    if known and "additional_envvars" in code.co_consts:
        return ""
    from snakemake import __version__

    return f"Snakemake {__version__} starts its shell in a way that this version of gpualert does not know"


def _try(shell: Any) -> str:
    """Run one harmless command as a job; say what is wrong with that."""
    global _trying
    kept = {name: os.environ.get(name) for name in ("GPUALERT_HOME", "GPUALERT_POST")}
    folder = tempfile.mkdtemp(prefix="gpualert-trial-")
    try:
        _trying = True
        os.environ.update(GPUALERT_HOME=folder, GPUALERT_POST="tick")
        printed = shell("printf '%s' \"$GPUALERT_ENGINE_KEY\"", read=True)
        if printed != _TRIAL_KEY:
            return f"a trial command printed {printed!r}: is '{bash_folder()}' whole?"
        return "" if Path(folder, "history.jsonl").exists() else "a trial command left no record"
    except Exception as error:
        return f"a trial command failed: {error}"
    finally:
        _trying = False
        for name, value in kept.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        shutil.rmtree(folder, ignore_errors=True)


def _tell_job(caller: FrameType | None, executable: str) -> None:
    """Add to the variables of the command that `caller` is about to start; leave them where anything is unusual."""
    global _complained
    try:
        from snakemake.shell import shell

        kwargs = caller.f_locals["kwargs"] if caller else None
        if executable != shell._gpualert_bash or kwargs is None:
            return
        facts = {"GPUALERT_ENGINE": "snakemake", "GPUALERT_ENGINE_KEY": _TRIAL_KEY} if _trying else _job_of(caller)
        asked = kwargs.get("additional_envvars", {})
        if facts and isinstance(asked, dict):
            python = {} if os.environ.get("GPUALERT_PYTHON") else {"GPUALERT_PYTHON": sys.executable}
            kwargs["additional_envvars"] = {**python, **facts, **asked}
    except Exception as error:
        if not _complained:
            print(f"gpualert: some commands run unwrapped: {type(error).__name__}: {error}", file=sys.stderr)
        _complained = True


def _job_of(frame: FrameType | None) -> Mapping[str, str] | None:
    """Return what is known of the job whose command is started in `frame`; None where there is no job."""
    while frame is not None:
        if frame.f_code.co_name == "run_wrapper" and frame.f_globals.get("__name__") == "snakemake.executors.local":
            return _facts(frame.f_locals)
        frame = frame.f_back
    return None


def _facts(known: Mapping[str, Any]) -> dict[str, str]:
    rule = known["job_rule"]
    wildcards = {name: str(value) for name, value in known["wildcards"].items()}
    return {
        "GPUALERT_ENGINE": "snakemake",
        "GPUALERT_ENGINE_WORKFLOW": workflow_id(),
        "GPUALERT_ENGINE_KEY": job_key(rule.name, wildcards),
        "GPUALERT_ENGINE_RULE": rule.name,
        "GPUALERT_ENGINE_WILDCARDS": ",".join(f"{name}={value}" for name, value in wildcards.items()),
        "GPUALERT_ENGINE_JOBID": str(known["jobid"]),
        "GPUALERT_ENGINE_ATTEMPT": str(_attempt(rule.workflow, known["jobid"])),
        "GPUALERT_ENGINE_LOG": " ".join(map(str, known["log"])),
    }


def _attempt(workflow: Any, jobid: int) -> int:
    """Return the number of a job's attempt; the DAG may have grown since we looked, and has new jobs then."""
    global _jobs
    known = workflow.dag._jobid
    job = _jobs.get(jobid)
    if job is None or known.get(job) != jobid:
        _jobs = {number: job for job, number in list(known.items())}  # in one step: jobs start in several threads
        job = _jobs.get(jobid)
    return int(job.attempt if job is not None else workflow.attempt)
