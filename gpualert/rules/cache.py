"""What is dear to make again: parsed rules and the compiled hyperscan database, in the user's cache folder."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gpualert import __version__
from gpualert.model import Action, Domain, Outlook, Role
from gpualert.ruleset import Finder, Pattern, Rule

_LAYOUT = 6  # of the cached file
_KEPT = 8


def folder() -> Path | None:
    """Return the cache folder, made if need be with mode 0700; None where there can be none or it is not ours."""
    home = os.environ.get("XDG_CACHE_HOME") or (os.environ.get("HOME") and os.path.join(os.environ["HOME"], ".cache"))  # noqa: PTH118
    if not home or os.environ.get("GPUALERT_CACHE") == "0":
        return None
    path = Path(home) / "gpualert"
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        stat = path.lstat()
    except OSError:
        return None
    return path if stat.st_uid == os.getuid() and not stat.st_mode & 0o022 and not path.is_symlink() else None


def load(files: Sequence[Path]) -> tuple[Rule, ...]:
    """Return the cached rules of exactly these files as they are now; empty when there are none."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        data = json.loads(_read(f"rules-{_state(files)}.json") or b"[]")
        return tuple(map(_rule, data))
    return ()


def store(files: Sequence[Path], rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
    """Keep `rules` for the next process, without their examples; return them."""
    with suppress(OSError):
        _write(f"rules-{_state(files)}.json", json.dumps([_plain(rule) for rule in rules]).encode())
    return rules


def finder(literals: tuple[bytes, ...]) -> Finder | None:
    """
    Return a finder of `literals` by hyperscan, compiled once and then read from the cache.

    None where hyperscan is not installed or nothing can be cached: compiling costs more than it saves on most logs.
    """
    if os.environ.get("GPUALERT_HYPERSCAN") == "0" or folder() is None:
        return None
    return _Lazy(literals)


class _Lazy:
    """Loads hyperscan at the first block, so that a process that scans nothing does not pay for it."""

    def __init__(self, literals: tuple[bytes, ...]) -> None:
        self._literals, self._database = literals, None

    def available(self) -> bool:
        """Say whether hyperscan can be used, loading it."""
        if self._database is None:
            self._database = _database(self._literals)
        return self._database is not None

    def __call__(self, block: bytes) -> list[int]:
        found: list[int] = []
        assert self._database is not None, "ask available() first"
        self._database.scan(block, match_event_handler=lambda number, *_: found.append(number))
        return found


def _database(literals: tuple[bytes, ...]) -> Any:
    try:
        import hyperscan
    except ImportError:
        return None
    key = hashlib.sha256(b"\0".join((str(getattr(hyperscan, "__version__", "")).encode(), *literals))).hexdigest()[:24]
    with suppress(OSError, hyperscan.error):
        kept = _read(f"scan-{key}.hs")
        if kept:
            database = hyperscan.loadb(kept, mode=hyperscan.HS_MODE_BLOCK)
            database.scratch = hyperscan.Scratch(database)
            return database
    try:
        database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        flags = hyperscan.HS_FLAG_CASELESS | hyperscan.HS_FLAG_SINGLEMATCH
        database.compile(
            expressions=[_escaped(literal) for literal in literals],
            ids=list(range(len(literals))),
            elements=len(literals),
            flags=[flags] * len(literals),
        )
    except hyperscan.error:
        return None
    with suppress(OSError):
        _write(f"scan-{key}.hs", hyperscan.dumpb(database))
    return database


def _escaped(literal: bytes) -> bytes:
    return b"".join(b"\\x%02x" % byte for byte in literal)


def _state(files: Sequence[Path]) -> str:
    """Return a key that changes with the version and with the name, size or time of any file."""
    digest = hashlib.sha256(f"{_LAYOUT} {__version__}".encode())
    for path in files:
        stat = path.stat()
        digest.update(f"\0{path}\0{stat.st_size}\0{stat.st_mtime_ns}\0{stat.st_ino}".encode())
    return digest.hexdigest()[:24]


def _read(name: str) -> bytes:
    kept = folder()
    return (kept / name).read_bytes() if kept and (kept / name).is_file() else b""


def _write(name: str, content: bytes) -> None:
    kept = folder()
    if kept is None:
        return
    beside = kept / f".{name}.{os.getpid()}"
    try:
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
        beside.replace(kept / name)
    finally:
        beside.unlink(missing_ok=True)
    _prune(kept, name.partition("-")[0])


def _prune(kept: Path, kind: str) -> None:
    """Remove the oldest entries of a kind: each change of a rule file makes a new one."""
    entries = sorted(kept.glob(f"{kind}-*"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in entries[_KEPT:]:
        path.unlink(missing_ok=True)


def _plain(rule: Rule) -> dict[str, Any]:
    return {**asdict(rule), "examples": (), "counterexamples": ()}


def _rule(data: dict[str, Any]) -> Rule:
    words = _enums(data)
    words["patterns"] = tuple(
        Pattern(**{**_enums(pattern), "literals": tuple(pattern["literals"]), "unless": tuple(pattern["unless"])})
        for pattern in data["patterns"]
    )
    return Rule(**{**words, "sources": tuple(data["sources"]), "examples": (), "counterexamples": ()})


def _enums(data: dict[str, Any]) -> dict[str, Any]:
    kinds = {"role": Role, "outlook": Outlook, "action": Action, "domain": Domain}
    return {key: kinds[key](value) if key in kinds else value for key, value in data.items()}
