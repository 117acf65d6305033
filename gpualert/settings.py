"""Every setting: one table that is the documentation, drives parsing and `gpualert config`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar

from gpualert.model import frozen
from gpualert.values import (
    WORTH,
    MessageRule,
    Parser,
    choice,
    duration,
    flag,
    integer,
    message_rules,
    path,
    size,
    text,
    words,
)

T = TypeVar("T")


@dataclass(frozen=True)
class Option:
    """
    One setting as the table declares it.

    Attributes:
        key: Its name in a file, with dots for nesting.
        parse: Turns what was written into the value; raises ValueError with the reason.
        help: One line for people.
        variable: The environment variable that sets it.
        secret: Never shown; refused from a file that others may read.
        variable_only: The shell part reads it too, and that reads no files.
    """

    key: str
    attributes: tuple[str, ...]
    default: object
    parse: Parser[Any]
    help: str
    variable: str
    secret: bool = False
    variable_only: bool = False


def _option(default: T, parse: Parser[T], help: str, **extra: Any) -> T:
    """Declare one setting; `extra` may give `key`, `secret`, `variable_only`."""
    metadata = {"parse": parse, "help": help, **extra}
    return field(default=default, repr=not extra.get("secret"), metadata=metadata)


@dataclass(frozen=True)
class Smtp:
    """The mail server to hand messages to."""

    host: str = _option("localhost", text, "SMTP server")
    port: int = _option(587, integer(1, 65535), "its port: 587 for starttls, 465 for tls, 25 for none")
    security: str = _option("starttls", choice("starttls", "tls", "none"), "how the connection is protected")
    user: str = _option("", text, "name to log in with; empty: no login")
    password: str = _option("", text, "password; better from GPUALERT_SMTP_PASSWORD or password_command", secret=True)
    password_command: str = _option("", text, "shell command that prints the password")
    timeout_s: float = _option(20.0, duration, "longest wait for the server's next answer")


@dataclass(frozen=True)
class Sendmail:
    """The local mail program."""

    path: str = _option("", path, "sendmail program; empty: the first found on PATH, /usr/sbin, /usr/lib")


@dataclass(frozen=True)
class Attach:
    """What goes along with a message."""

    max_file_bytes: int = _option(10_000_000, size, "most that one attachment may take, encoded for mail")
    max_total_bytes: int = _option(20_000_000, size, "most that all attachments may take together, encoded for mail")
    unasked_bytes: int = _option(1_000_000, size, "larger files go along only when --attach or attach.globs names them")
    globs: tuple[str, ...] = _option((), words, "files that always go along when the run changed them")


@dataclass(frozen=True)
class Digests:
    """When messages are told together."""

    window_s: float = _option(
        900.0,
        duration,
        "what is like a message just sent is told with its like after that long, then twice as long; 0: each by itself",
    )
    keeper: bool = _option(
        True, flag, "where no tick runs, whether a process stays until what was collected has been told"
    )


@dataclass(frozen=True)
class Prune:
    """How long finished runs are kept."""

    succeeded_s: float = _option(7 * 86400.0, duration, "age at which a successful run is removed")
    failed_s: float = _option(90 * 86400.0, duration, "age at which a failed run is removed")
    max_bytes: int = _option(20_000_000_000, size, "most that all runs may take on disk; the oldest go first")
    max_inodes: int = _option(200_000, integer(100), "most files that all runs may have together")


@dataclass(frozen=True)
class Ledger:
    """When a node that failed is left out by every chain."""

    strikes: int = _option(2, integer(1), "faults of a node, at different times, after which every chain leaves it out")
    expires_s: float = _option(7 * 86400.0, duration, "age at which a node's fault counts no more")


@dataclass(frozen=True)
class Stats:
    """What a tick tells a monitoring system."""

    prometheus: str = _option("", path, "file *.prom that a tick writes for node_exporter's textfile collector")
    since_s: float = _option(30 * 86400.0, duration, "how far its statistics look back")


@dataclass(frozen=True)
class Settings:
    """
    Every setting.  This table is the documentation, drives parsing and `gpualert config`.

    Attributes:
        origins: For each key that is not at its default: the file, the variable or `command line`.
    """

    home: Path = _option(Path(), lambda raw: Path(path(raw)), "state folder", variable_only=True)  # noqa: RUF009 (a Path is immutable)
    post: str = _option(
        "auto", choice("auto", "detach", "wait", "tick"), "when the run is looked at after its end", variable_only=True
    )
    python: str = _option("", text, "Python that the shell part starts", variable_only=True)
    mail: str = _option("maildir", choice("maildir", "smtp", "sendmail", "apprise", "none"), "channel messages go to")
    to: tuple[str, ...] = _option((), words, "addresses that messages go to")
    sender: str = _option("", text, "address in the From header; empty: user@host", key="from")
    envelope_from: str = _option("", text, "address that bounces go to; empty: that of from")
    on: str = _option(
        "always", choice(*WORTH), "which ends are worth a message; recovery: failures, and the first success after one"
    )
    messages: tuple[MessageRule, ...] = _option(
        (), message_rules, "the same by the names of runs; the first that fits counts: [{name: 'sweep-*', on: failure}]"
    )
    longer_than_s: float = _option(0.0, duration, "shorter runs send no message")
    apprise: tuple[str, ...] = _option(
        (), words, "URLs of other services that messages also go to (with mail: apprise, only there)", secret=True
    )
    ping_url: str = _option(
        "",
        text,
        "URL of an outside alarm (healthchecks) that hears of each run's end; of its start with --ping",
        secret=True,
    )
    deliver: str = _option("here", choice("here", "tick"), "who sends: the report itself where it is made, or a tick")
    messages_per_minute: int = _option(30, integer(0), "most messages that are sent within a minute; 0: no limit")
    hook_limit_s: float = _option(
        60.0, duration, "longest time for the programs in hooks/on-verdict.d and --on-failure"
    )
    log_lines: int = _option(40, integer(0, 1000), "lines of the log's end that a message shows")
    lock_timeout_s: float = _option(10.0, duration, "longest wait for a lock")
    smtp: Smtp = field(default_factory=Smtp)
    sendmail: Sendmail = field(default_factory=Sendmail)
    attach: Attach = field(default_factory=Attach)
    digest: Digests = field(default_factory=Digests)
    prune: Prune = field(default_factory=Prune)
    ledger: Ledger = field(default_factory=Ledger)
    stats: Stats = field(default_factory=Stats)
    origins: Mapping[str, str] = field(default_factory=frozen)


def _declared(owner: type, prefix: tuple[str, ...] = ()) -> Iterator[Option]:
    for declared in fields(owner):
        if isinstance(declared.default_factory, type) and is_dataclass(declared.default_factory):
            yield from _declared(declared.default_factory, (*prefix, declared.name))
        elif "parse" in declared.metadata:
            extra = dict(declared.metadata)
            key = ".".join((*prefix, extra.pop("key", declared.name)))
            variable = "GPUALERT_" + key.upper().replace(".", "_")
            yield Option(key, (*prefix, declared.name), declared.default, variable=variable, **extra)


OPTIONS: Mapping[str, Option] = frozen({option.key: option for option in _declared(Settings)})
