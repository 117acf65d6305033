"""What works in this installation on this host, and what to do where it does not."""

from __future__ import annotations

import fcntl
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from gpualert import __version__
from gpualert.check import Check, Mark
from gpualert.config import Settings, load_settings
from gpualert.display import duration, size
from gpualert.errors import GpualertError
from gpualert.files import make_private_folder
from gpualert.places import shim
from gpualert.rccheck import check_rc
from gpualert.rundir import read_run
from gpualert.signals.nvml import snapshot_gpus
from gpualert.state import run_paths, state_folders
from gpualert.ticking import TICK_AGE_S, is_ticking, ticked_at

_TRIAL_LIMIT_S = 20.0
_LITTLE_SPACE_BYTES = 100 << 20

# What the shim uses, and what is lost without it.
_TOOLS = {
    "mkfifo": "output is not captured",
    "tee": "output is not captured",
    "flock": "a run whose recorder is killed may be taken for running until its job ends",
    "setsid": "the report may be stopped with the terminal",
    "env": "signals that the shell ignores stay ignored in the job",
}


def check_all() -> Iterator[Check]:
    """Look at everything, one after the other; a check that breaks is a failed one."""
    settings: Settings | None = None
    try:
        settings = load_settings()
        yield Check(Mark.OK, "settings", f"{len(settings.origins)} set, the others at their default")
    except GpualertError as error:
        yield Check(Mark.FAIL, "settings", str(error), "until then the defaults are used: correct it")
    checks: list[Callable[[], Iterator[Check]]] = [_python, _shell, _proc, _trial, _rules, _nvml]
    if settings:
        home, chosen = settings.home, settings
        checks[3:3] = [
            lambda: _rc(home),
            lambda: _state(home),
            lambda: _locks(home),
            lambda: _mail(chosen),
            lambda: _tick(home),
        ]
    for check in checks:
        try:
            yield from check()
        except (GpualertError, OSError) as error:
            yield Check(Mark.FAIL, check.__name__.strip("_"), str(error))


def _python() -> Iterator[Check]:
    version = ".".join(map(str, sys.version_info[:3]))
    yield Check(Mark.OK, "python", f"{sys.executable} {version}, gpualert {__version__}")


def _shell() -> Iterator[Check]:
    missing = [f"{tool} ({loss})" for tool, loss in _TOOLS.items() if not shutil.which(tool)]
    shell = Path("/bin/sh").resolve().name
    if missing:
        yield Check(Mark.WARN, "shell", f"/bin/sh is {shell}; missing: {', '.join(missing)}", "install them")
    else:
        yield Check(Mark.OK, "shell", f"/bin/sh is {shell}; all tools are there")


def _rc(home: Path) -> Iterator[Check]:
    return check_rc(home)


def _proc() -> Iterator[Check]:
    if Path("/proc/self/stat").exists():
        yield Check(Mark.OK, "/proc", "there")
    else:
        lost = "start times, boot id and control group are not recorded: a killed run is not told from a running one"
        yield Check(Mark.WARN, "/proc", f"missing; {lost}", "nothing, where the system has none")


def _state(home: Path) -> Iterator[Check]:
    make_private_folder(home)
    mode = home.stat().st_mode & 0o777
    space = os.statvfs(home)
    free_bytes = space.f_bavail * space.f_frsize
    found = f"{home}, {size(free_bytes)} free, runs: {len(run_paths([home]))}"
    if home.stat().st_uid != os.geteuid() or mode & 0o077:
        yield Check(Mark.FAIL, "state folder", f"{home} is open to others (mode {mode:o})", f"chmod 700 {home}")
    elif free_bytes < _LITTLE_SPACE_BYTES or (space.f_files and space.f_favail < 1000):
        yield Check(Mark.WARN, "state folder", found + "; that is little", "gpualert prune, or set GPUALERT_HOME")
    else:
        yield Check(Mark.OK, "state folder", found)
    for folder in state_folders(home)[1:]:
        if count := len(run_paths([folder])):
            advice = "they were recorded while the state folder could not be used; gpualert runs lists them"
            yield Check(Mark.WARN, "state folder", f"runs in {folder}: {count}", advice)


def _locks(home: Path) -> Iterator[Check]:
    """Try whether one lock keeps another out."""
    make_private_folder(home / "locks")
    path = home / "locks" / "doctor"
    with path.open("ab") as first, path.open("ab") as second:
        try:
            fcntl.flock(first, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            slow = "a process that is killed keeps others out for 15 minutes"
            advice = "set GPUALERT_HOME to a disk with locks, or mount it with them"
            yield Check(Mark.WARN, "locks", f"{home}: {error.strerror}; files take their place, and {slow}", advice)
            return
        try:
            fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield Check(Mark.OK, "locks", "one process keeps another out")
            return
    yield Check(Mark.FAIL, "locks", f"{home}: two hold one lock", "set GPUALERT_HOME to a local disk")


def _mail(settings: Settings) -> Iterator[Check]:
    from gpualert.notify.message import envelope

    sent_by = envelope(settings)
    where = {
        "maildir": f"kept in {settings.home / 'mail'}",
        "smtp": f"by {settings.smtp.host}:{settings.smtp.port} ({settings.smtp.security}) to {', '.join(sent_by.to)}",
        "sendmail": f"by sendmail to {', '.join(sent_by.to)}",
        "apprise": "by other services only",
        "none": "no messages are sent",
    }[settings.mail]
    advice = "" if settings.mail in ("maildir", "none") else "try it: gpualert doctor --mail ADDRESS"
    if sent_by.refused:
        yield Check(Mark.WARN, "mail", f"{where}; {'; '.join(sent_by.refused)}", "correct the settings to and from")
    elif settings.deliver == "tick" and not is_ticking(settings.home):
        yield Check(Mark.WARN, "mail", f"{where}, by a tick (deliver: tick); none runs", "see: gpualert crontab")
    else:
        yield Check(Mark.OK, "mail", where, advice)
    if settings.apprise:
        yield _services(settings.apprise)
    yield from _outbox(settings.home)


def _services(urls: Sequence[str]) -> Check:
    from gpualert.notify.services import label_of

    if importlib.util.find_spec("apprise") is None:
        return Check(Mark.FAIL, "services", "apprise is not installed", "pip install 'gpualert-shim[apprise]'")
    return Check(Mark.OK, "services", ", ".join(map(label_of, urls)))


def _outbox(home: Path) -> Iterator[Check]:
    """Say what has not been delivered."""
    from gpualert.notify.listing import entries
    from gpualert.notify.spool import Spool

    if not (home / "outbox").is_dir():
        return
    found = list(entries(Spool.of(home)))
    waiting = [entry for entry in found if entry.standing == "waiting" and entry.reason]
    if waiting:
        advice = "a tick tries them again; at once: gpualert outbox retry"
        yield Check(Mark.WARN, "outbox", f"waiting messages: {len(waiting)}; the last: {waiting[-1].reason}", advice)
    given_up = [entry for entry in found if entry.standing == "given up"]
    if given_up:
        advice = "gpualert outbox list; then retry NAME, or drop --given-up"
        yield Check(Mark.WARN, "outbox", f"messages given up: {len(given_up)}; the last: {given_up[-1].reason}", advice)


def _tick(home: Path) -> Iterator[Check]:
    last_at = ticked_at(home)
    age_s = float("inf") if last_at is None else time.time() - last_at
    if age_s < TICK_AGE_S:
        yield Check(Mark.OK, "tick", f"last ran {duration(age_s)} ago")
    else:
        last = "never ran" if age_s == float("inf") else f"last ran {duration(age_s)} ago"
        lost = "runs that are killed with their recorder, and mail that had to wait, are not reported until it does"
        yield Check(Mark.WARN, "tick", f"{last}: {lost}", "(crontab -l; gpualert crontab) | crontab -")


def _trial() -> Iterator[Check]:
    """Run `true` through the shim, in a state folder of its own."""
    with tempfile.TemporaryDirectory(prefix="gpualert-doctor-") as folder:
        environ = {**os.environ, "GPUALERT_HOME": folder, "GPUALERT_POST": "tick", "GPUALERT_PYTHON": sys.executable}
        environ.pop("GPUALERT_RUN_ID", None)
        command = ["/bin/sh", str(shim()), "run", "--no-mail", "--", "true"]
        before = time.monotonic()
        done = subprocess.run(
            command, env=environ, stdin=subprocess.DEVNULL, capture_output=True, timeout=_TRIAL_LIMIT_S, check=False
        )
        took_ms = (time.monotonic() - before) * 1000
        paths = run_paths([Path(folder)])
        recorded = bool(paths) and read_run(paths[0]).exit is not None
    if done.returncode == 0 and recorded:
        yield Check(Mark.OK, "trial run", f"recorded, in {took_ms:.0f} ms")
    else:
        said = done.stderr.decode("utf-8", "replace").strip() or f"status {done.returncode}, no record"
        yield Check(Mark.FAIL, "trial run", said, "jobs run all the same, but are not recorded")


def _rules() -> Iterator[Check]:
    from gpualert.findings import rule_folders
    from gpualert.rules import load_rules

    rules = load_rules(rule_folders())
    try:
        import hyperscan  # noqa: F401

        fast = "with hyperscan"
    except ImportError:
        fast = "in plain Python (pip install 'gpualert-shim[fast]' is faster on large logs)"
    yield Check(Mark.OK, "rules", f"{len(rules.rules)} failure classes, {fast}")


def _nvml() -> Iterator[Check]:
    found = snapshot_gpus()
    if found.absent:
        broken = (
            "" if found.absent.startswith("no NVIDIA driver") else "reports will lack the GPUs: see dmesg, nvidia-smi"
        )
        yield Check(Mark.WARN if broken else Mark.OK, "GPUs", found.absent, broken)
    else:
        yield Check(Mark.OK, "GPUs", f"{len(found.gpus)} with driver {found.driver}, CUDA {found.cuda}")
