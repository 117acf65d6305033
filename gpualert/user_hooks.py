"""Programs of the user's own that hear of each verdict; whatever they do changes nothing but `post.log`."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpualert.bounded import fed
from gpualert.config import SYSTEM_FILE, user_file
from gpualert.display import shorten, visible
from gpualert.errors import UnsafeFileError
from gpualert.files import read_regular
from gpualert.model import Run, RunStatus, Verdict
from gpualert.wording import host_of, run_name

_VERDICT_BYTES = 16 << 20
_SAID_LIMIT = 2000
_ENDED_BADLY = (RunStatus.FAILED, RunStatus.LOST)


@dataclass(frozen=True)
class Hook:
    """One program, and what `post.log` calls it."""

    called: str
    command: tuple[str, ...]


def hooks_for(run: Run, verdict: Verdict, environ: Mapping[str, str] = os.environ) -> list[Hook]:
    """
    Return the hooks that hear of a verdict.

    They are the programs in `hooks/on-verdict.d` of the machine's and the user's config folder, in the order of their
    names, and, where the run failed, the commands of `--on-failure`.
    """
    hooks = [Hook(f"hook '{path}'", (str(path),)) for path in hooks_in(environ)]
    if verdict.status in _ENDED_BADLY:
        hooks += [Hook(f"--on-failure '{line}'", ("/bin/sh", "-c", line)) for line in run.options.on_failure]
    return hooks


def run_hooks(
    hooks: Sequence[Hook], run: Run, verdict: Verdict, limit_s: float, environ: Mapping[str, str] = os.environ
) -> Iterator[str]:
    """
    Run hooks, one after the other, in the run's working directory; `verdict.json` is their input.

    Yields:
        A sentence for each that printed something or went wrong.

    Args:
        limit_s: The longest time for all of them.
        environ: The environment they get, with facts of the run added.
    """
    ends = time.monotonic() + limit_s
    try:
        given = read_regular(run.path / "verdict.json", _VERDICT_BYTES)
    except (OSError, UnsafeFileError) as error:
        yield f"no hook was run: {error}"
        return
    world = {**environ, **facts_of(run, verdict)}
    for hook in hooks:
        if said := _told(hook.command, given, ends - time.monotonic(), world, run.cwd):
            yield f"{visible(hook.called)}: {said}"


def hooks_in(environ: Mapping[str, str] = os.environ) -> Iterator[Path]:
    """Yield the programs that hear of each verdict: those that only we or root may change, and that may be run."""
    for config in (SYSTEM_FILE.parent, user_file(environ).parent):
        try:
            found = sorted((config / "hooks" / "on-verdict.d").iterdir())
        except OSError:
            continue
        yield from (path for path in found if not path.name.startswith(".") and _is_trusted(path))


def _is_trusted(path: Path) -> bool:
    try:
        found = path.stat()
    except OSError:
        return False
    ours = found.st_uid in (0, os.geteuid()) and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return stat.S_ISREG(found.st_mode) and ours and os.access(path, os.X_OK)


def facts_of(run: Run, verdict: Verdict) -> dict[str, str]:
    """Return what hooks find in their environment."""
    facts = {
        "RUN": run.run_id,
        "RUN_DIR": str(run.path),
        "RUN_NAME": run_name(run),
        "RUN_STATUS": verdict.status.value,
        "RUN_CLASS": verdict.failure_class,
        "RUN_ACTION": verdict.action.value,
        "RUN_EXIT_STATUS": str(run.exit.status) if run.exit else "",
        "RUN_HOST": host_of(run),
        "RUN_CHAIN": run.start.chain if run.start else "",
        "RUN_ATTEMPT": str(run.start.attempt) if run.start else "",
    }
    return {f"GPUALERT_{key}": value.replace("\0", "") for key, value in facts.items()}


def _told(command: Sequence[str], given: bytes, limit_s: float, environ: Mapping[str, str], cwd: str) -> str:
    """Run one hook; return what it said or what went wrong, or ""."""
    if limit_s <= 0:
        return "not run: those before took all the time"
    try:
        status, printed = fed(command, given, limit_s, environ=environ, cwd=cwd if Path(cwd).is_dir() else "/")
    except TimeoutError as error:
        return f"killed: {error}"
    except OSError as error:
        return f"cannot be run: {error.strerror or error}"
    said = shorten(visible(printed.decode("utf-8", "replace").strip()), _SAID_LIMIT)
    ended = f"exit status {status}" if status else ""
    return ": ".join(filter(None, (ended, said)))
