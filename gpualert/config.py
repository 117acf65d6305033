"""
The settings, read from files and variables, each value with its origin.

Defaults < /etc/gpualert/config.yaml < ~/.config/gpualert/config.yaml < `GPUALERT_*` < flags.
"""

from __future__ import annotations

import os
import signal
import stat
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpualert.errors import ConfigError
from gpualert.model import frozen
from gpualert.nearby import near
from gpualert.settings import OPTIONS, Attach, Option, Prune, Sendmail, Settings, Smtp

__all__ = ["OPTIONS", "Attach", "Option", "Prune", "Sendmail", "Settings", "Smtp"]

SYSTEM_FILE = Path("/etc/gpualert/config.yaml")
DEFAULT = "default"
_MAX_FILE_BYTES = 1 << 20


def load_settings(environ: Mapping[str, str] = os.environ) -> Settings:
    """
    Read the settings of the machine, the user and the environment.

    Raises:
        ConfigError: A file or variable holds an unknown key or a value that makes no sense.
    """
    settings = _bare(environ)
    for file in (SYSTEM_FILE, user_file(environ)):
        settings = _apply(settings, _read_file(file), str(file))
    for option in OPTIONS.values():
        if environ.get(option.variable):
            settings = _set(settings, option, environ[option.variable], option.variable, option.variable)
    if settings.mail == "apprise" and not settings.apprise:
        raise ConfigError(settings.origins["mail"], "is apprise, but the setting 'apprise' names no service", "mail")
    return settings


def load_settings_or_defaults(environ: Mapping[str, str] = os.environ) -> tuple[Settings, ConfigError | None]:
    """
    Read the settings; where they are broken return the defaults and the error.

    A broken file never costs the verdict; but nothing may be sent by these defaults, for they name another channel.
    """
    try:
        return load_settings(environ), None
    except ConfigError as error:
        return _bare(environ), error


def value_of(settings: Settings, option: Option) -> object:
    """Return the value that `settings` holds for `option`."""
    value: object = settings
    for name in option.attributes:
        value = getattr(value, name)
    return value


def shown(settings: Settings) -> list[tuple[Option, str, str]]:
    """Return each setting with its value as text and its origin; a secret's value is only said to be set."""
    rows = []
    for option in OPTIONS.values():
        value = value_of(settings, option)
        printed = (
            ", ".join(map(str, value))
            if isinstance(value, tuple)
            else f"{value:.12g}"
            if isinstance(value, float)
            else str(value)
        )
        if option.secret and value:
            printed = "(set)"
        rows.append((option, printed, settings.origins.get(option.key, DEFAULT)))
    return rows


def user_file(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the path of the user's own settings, whether or not it exists."""
    return _xdg(environ, "XDG_CONFIG_HOME", ".config") / "config.yaml"


def state_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the state folder that the environment names, whether or not it can be used."""
    if environ.get("GPUALERT_HOME"):
        return Path(environ["GPUALERT_HOME"])
    return _xdg(environ, "XDG_STATE_HOME", ".local/state")


def read_password(smtp: Smtp, timeout_s: float = 10.0) -> str:
    """
    Return the password for the mail server; empty where none is set.

    `password_command` is run by the shell, with nothing on its standard input; its first line counts.

    Raises:
        ConfigError: The command failed, printed nothing or took longer than `timeout_s`.
    """
    if smtp.password or not smtp.password_command:
        return smtp.password
    import subprocess  # only where a command is set

    key = "smtp.password_command"
    command = ["/bin/sh", "-c", smtp.password_command]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    ) as process:
        try:
            printed, _ = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise ConfigError(key, f"printed no password within {timeout_s:g} s") from None
    password = printed.decode(errors="surrogateescape").split("\n", 1)[0].rstrip("\r")
    if process.returncode or not password:
        raise ConfigError(key, f"ended with status {process.returncode} and printed {len(printed)} bytes")
    return password


# What the functions of `gpualert init` read and tell: no settings, though one's name is near to a setting's.
_SHELL_VARIABLES = {"GPUALERT_WRAP", "GPUALERT_LONGER_THAN", "GPUALERT_FUNCTION"}


def unknown_variables(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return each `GPUALERT_*` variable that looks like a mistyped setting, with the name it is near to."""
    known = {option.variable for option in OPTIONS.values()}
    candidates = [name for name in environ if name.startswith("GPUALERT_") and name not in known | _SHELL_VARIABLES]
    return {name: near for name in candidates if (near := _near(name, known, 0.85))}


def _xdg(environ: Mapping[str, str], variable: str, default: str) -> Path:
    # Source: XDG Base Directory Specification: a relative path in these variables is to be ignored.
    base = environ.get(variable, "")
    if base.startswith("/"):
        return Path(base, "gpualert")
    return Path(environ.get("HOME") or Path("~").expanduser(), default, "gpualert")


def _bare(environ: Mapping[str, str]) -> Settings:
    origin = {"home": "GPUALERT_HOME"} if environ.get("GPUALERT_HOME") else {}
    return Settings(home=state_folder(environ), origins=frozen(origin))


def _apply(settings: Settings, written: Mapping[str, object], source: str) -> Settings:
    for key, raw in written.items():
        option = OPTIONS.get(key)
        if option is None:
            near = _near(key, OPTIONS)
            raise ConfigError(source, "no such setting" + (f"; did you mean '{near}'?" if near else ""), key)
        if option.variable_only:
            raise ConfigError(source, f"can only be set by the variable {option.variable}", key)
        if raw not in ("", "~", "null"):
            settings = _set(settings, option, raw, source, key)
    return settings


def _set(settings: Settings, option: Option, raw: object, origin: str, named: str) -> Settings:
    try:
        value = option.parse(raw)
    except ValueError as error:
        raise ConfigError(origin, str(error), "" if named == origin else named) from None
    origins = frozen({**settings.origins, option.key: origin})
    *section, name = option.attributes
    if not section:
        return replace(settings, origins=origins, **{name: value})
    changed = replace(getattr(settings, section[0]), **{name: value})
    return replace(settings, origins=origins, **{section[0]: changed})


def _read_file(file: Path) -> dict[str, object]:
    """Return the keys that `file` sets, dotted; empty where there is no such file."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise ConfigError(str(file), error.strerror or str(error)) from None
    with os.fdopen(descriptor, "rb") as stream:
        found = os.fstat(descriptor)
        _refuse_untrusted(file, found)
        written = _flatten(_parse_yaml(file, stream.read(_MAX_FILE_BYTES + 1)), str(file))
    for option in OPTIONS.values():
        if option.secret and written.get(option.key) and found.st_mode & 0o077:
            raise ConfigError(str(file), f"others may read this file: chmod 600 {file}", option.key)
    return written


def _refuse_untrusted(file: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise ConfigError(str(file), "is not a regular file")
    if found.st_uid not in (0, os.geteuid()):
        raise ConfigError(str(file), f"belongs to user {found.st_uid}")
    if found.st_mode & stat.S_IWOTH:
        raise ConfigError(str(file), f"anybody may change this file: chmod o-w {file}")
    if found.st_size > _MAX_FILE_BYTES:
        raise ConfigError(str(file), f"has {found.st_size} bytes; {_MAX_FILE_BYTES} is the most")


def _parse_yaml(file: Path, data: bytes) -> object:
    import yaml  # costs 10 ms, and most machines have no file

    try:
        # Every scalar stays text: `on` is no boolean, and a file's words are parsed as a variable's are.
        loader = yaml.BaseLoader(data)  # builds only str, list and dict
        node = loader.get_single_node()
        _refuse_repetition(file, node)
        return loader.construct_document(node) if node else None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        reason = getattr(error, "problem", None) or str(error) or type(error).__name__
        raise ConfigError(str(file), (f"line {mark.line + 1}: " if mark else "") + f"is no YAML: {reason}") from None


def _refuse_repetition(file: Path, node: Any) -> None:
    """YAML takes the last of two equal keys without a word."""
    seen = set()
    for key, value in node.value if getattr(node, "id", "") == "mapping" else ():
        name = str(key.value)
        if name in seen:
            raise ConfigError(str(file), f"line {key.start_mark.line + 1}: set twice", name)
        seen.add(name)
        _refuse_repetition(file, value)


def _flatten(parsed: object, source: str, prefix: str = "") -> dict[str, object]:
    if parsed is None or parsed == "":
        return {}
    if not isinstance(parsed, dict):
        raise ConfigError(source, "must hold keys and values, not " + _kind(parsed), prefix.rstrip("."))
    flat: dict[str, object] = {}
    sections = {option.attributes[0] for option in OPTIONS.values() if len(option.attributes) > 1}
    for key, value in parsed.items():
        name = f"{prefix}{key}"
        flat.update(_flatten(value, source, name + ".") if name in sections else {name: value})
    return flat


def _kind(parsed: object) -> str:
    return "a list" if isinstance(parsed, list) else f"'{parsed}'"


def _near(name: str, known: Mapping[str, Any] | set[str], cutoff: float = 0.6) -> str:
    last = {key.rsplit(".", 1)[-1]: key for key in known}
    return next(iter(near(name, known, 1, cutoff)), "") or last.get(name, "")
