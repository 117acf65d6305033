"""Make a new chain of what a person asks for: from a policy file and flags, with everything that cron will lack."""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from gpualert.chains.command import has_option, memory_asked, placeholders, scaled
from gpualert.chains.launch import limits_here
from gpualert.chains.record import Chain, Watch
from gpualert.chains.store import check_name
from gpualert.decide import Escalation, RetryPolicy
from gpualert.errors import ConfigError, UsageError
from gpualert.model import Action, frozen
from gpualert.signals.process import this_machine
from gpualert.values import choice, duration, flag, integer, text
from gpualert.wording import command_name

_FILE_LIMIT_BYTES = 1 << 20
_ESCALATION = re.compile(r"(mem|env:[A-Za-z_][A-Za-z0-9_]*)=([x/])([0-9]+(?:\.[0-9]+)?)")


def escalation(raw: object) -> Escalation:
    """
    Return what `mem=x2` or `env:BATCH_SIZE=/2` says.

    Raises:
        ValueError: It is neither.
    """
    match = _ESCALATION.fullmatch(text(raw))
    factor = float(match.group(3)) if match else 0.0
    if not match or not factor or factor == 1.0:
        raise ValueError(f"'{raw}' is neither mem=x2 nor env:NAME=/2")
    return Escalation(match.group(1), factor if match.group(2) == "x" else 1 / factor)


def _escalations(raw: object) -> tuple[Escalation, ...]:
    return tuple(escalation(each) for each in (raw if isinstance(raw, (list, tuple)) else [raw]))


def _pattern(raw: object) -> str:
    try:
        re.compile(text(raw).encode())
    except re.error as error:
        raise ValueError(f"'{raw}' is no regular expression: {error}") from None
    return text(raw)


# What may stand in a policy file, and how: the flags of `chain start` are called the same.
KEYS: Mapping[str, tuple[str, Callable[[object], Any]]] = {
    "max_attempts": ("max_attempts", integer(1, 1000)),
    "interval": ("interval_s", duration),
    "backoff": ("backoff", choice("fixed", "exponential")),
    "early": ("early_s", duration),
    "max_resumes": ("max_resumes", integer(0, 1000)),
    "on_sigterm": ("on_sigterm", choice("resume", "stop")),
    "never": ("never", flag),
    "retry_exit_0": ("retry_exit_0", flag),
    "bigger": ("bigger", _escalations),
    "progress": ("pattern", _pattern),
    "checkpoint": ("checkpoint", text),
}


@dataclass(frozen=True)
class Wish:
    """
    What a person asks of a new chain.

    Attributes:
        flags: Keys of a policy, as written; None where nothing was.
        policy_file: A YAML file of such keys, and `actions`; flags win.
        any_host: Whether the ticks of other hosts may start its attempts too.
        options: Words for `gpualert run`.
    """

    command: Sequence[str]
    name: str
    flags: Mapping[str, object]
    policy_file: Path | None
    any_host: bool
    options: Sequence[str]


def new_chain(wish: Wish, state: Path, known_classes: Callable[[], Sequence[str]]) -> Chain:
    """
    Return the chain that is asked for; nothing is written yet.

    Args:
        known_classes: Gives the failure classes that there are; asked only where a policy names some.

    Raises:
        UsageError, ConfigError: What is asked for makes no sense.
    """
    if os.environ.get("GPUALERT_CHAIN"):
        raise UsageError(f"a chain cannot start inside a chain: this is part of '{os.environ['GPUALERT_CHAIN']}'")
    written = _read_policy(wish.policy_file, known_classes) if wish.policy_file else {}
    for key, value in wish.flags.items():
        if value is not None:
            written[KEYS[key][0]] = _parsed(f"--{key.replace('_', '-')}", "", KEYS[key][1], value)
    watch = Watch(**{each.name: written.pop(each.name) for each in fields(Watch) if each.name in written})
    here = this_machine()
    chain = Chain(
        path=state / "chains" / check_name(wish.name or _invented_name(wish.command)),
        created_at=time.time(),
        command=tuple(map(os.fsencode, wish.command)),
        cwd=os.fsencode(_folder()),
        environ=dict(os.environb),
        umask=_umask(),
        limits=limits_here(),
        options=tuple(map(os.fsencode, [*(["--name", wish.name] if wish.name else []), *wish.options])),
        policy=RetryPolicy(**written),
        watch=watch,
    )
    anywhere = wish.any_host or chain.submits
    chain = replace(chain, policy=replace(chain.policy, host="" if anywhere else here.host))
    _check(chain)
    return chain


def _read_policy(file: Path, known_classes: Callable[[], Sequence[str]]) -> dict[str, Any]:
    """Return the values of a policy file, by the names of the fields they set."""
    import yaml

    try:
        with file.open("rb") as opened:
            found = yaml.safe_load(opened.read(_FILE_LIMIT_BYTES))
    except (OSError, yaml.YAMLError) as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise ConfigError(str(file), reason) from error
    if not isinstance(found, dict):
        raise ConfigError(str(file), "it is no mapping of keys to values")
    values: dict[str, Any] = {}
    for key, value in found.items():
        if key == "actions":
            values["actions"] = frozen(_actions(str(file), value, known_classes()))
        elif key in KEYS:
            values[KEYS[key][0]] = _parsed(str(file), key, KEYS[key][1], value)
        else:
            raise ConfigError(str(file), f"there is no such key; there are: {', '.join([*KEYS, 'actions'])}", str(key))
    return values


def _actions(file: str, raw: object, known: Sequence[str]) -> dict[str, Action]:
    if not isinstance(raw, dict):
        raise ConfigError(file, "it is no mapping of failure classes to actions", "actions")
    actions = {}
    for name, action in raw.items():
        if name not in known:
            raise ConfigError(file, "there is no such failure class (see: gpualert rules list)", f"actions.{name}")
        actions[str(name)] = _parsed(file, f"actions.{name}", lambda raw: Action(_ACTION(raw)), action)
    return actions


_ACTION = choice(*(action.value for action in Action))


def _parsed(source: str, key: str, parse: Callable[[object], Any], value: object) -> Any:
    try:
        return parse(value)
    except ValueError as error:
        raise ConfigError(source, str(error), key) from None


def _folder() -> str:
    """Return the working directory by the name the user knows it by: links and all."""
    named, real = os.environ.get("PWD", ""), os.getcwd()  # noqa: PTH109
    try:
        return named if os.path.samefile(named, real) and os.path.isabs(named) else real  # noqa: PTH117, PTH121
    except OSError:
        return real


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _invented_name(command: Sequence[str]) -> str:
    """Return a name that tells which command it is, and that no other chain has."""
    named = re.sub(r"[^A-Za-z0-9_-]+", "-", command_name(command).partition(".")[0]).strip("-_")[:40]
    return f"{named or 'chain'}-{secrets.token_hex(2)}"


def _check(chain: Chain) -> None:
    """
    Refuse what could not be started later.

    Raises:
        UsageError: With what is wrong.
    """
    if "resume" in placeholders(chain.command) and not chain.watch.checkpoint:
        raise UsageError("the placeholder {resume} needs --checkpoint GLOB, which says where to look")
    folder = Path(os.fsdecode(chain.cwd))
    if chain.submits and has_option(chain.command, folder, "--array", "-a"):
        raise UsageError("a chain retries one job, not an array: its tasks fail for causes of their own")
    if chain.submits and has_option(chain.command, folder, "--clusters", "-M"):
        raise UsageError("a chain can only follow jobs on this cluster: leave out --clusters")
    for step in chain.policy.bigger:
        kind, _, name = step.what.partition(":")
        if kind == "env":
            _check_variable(name, os.fsdecode(chain.environ.get(os.fsencode(name), b"")), step.factor)
        elif not chain.submits:
            raise UsageError("--bigger mem=...: only a chain of sbatch can ask for more memory; else use env:NAME")
        else:
            memory_asked(chain.command, folder)


def _check_variable(name: str, value: str, factor: float) -> None:
    try:
        scaled(value, factor)
    except ValueError:
        raise UsageError(f"--bigger env:{name}: the variable is '{value}', which is no number") from None
