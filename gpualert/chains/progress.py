"""How far an attempt got: by a pattern in its log, or by what it saved."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from gpualert.bounded import within
from gpualert.chains.record import Chain
from gpualert.files import open_regular
from gpualert.model import LogFile

# A log's last words tell how far it got.
_TAIL_BYTES = 64 << 20
_LINE_BYTES = 2000
_LIMIT_S = 20.0


def newest_checkpoint(chain: Chain) -> str:
    """Return the path of what was saved last; "" where nothing was, or nobody said where to look."""
    saved = _saved(chain)
    return os.fspath(max(saved, key=lambda pair: pair[1])[0]) if saved else ""


def saved_since(chain: Chain, since: float) -> bool | None:
    """Say whether something was saved since an instant; None where nobody said where to look."""
    if not chain.watch.checkpoint:
        return None
    return any(changed_at >= since for _, changed_at in _saved(chain))


def _saved(chain: Chain) -> list[tuple[Path, float]]:
    """Return what was saved, each with the time of its last change; empty files are no checkpoints."""
    if not chain.watch.checkpoint:
        return []
    folder = Path(os.fsdecode(chain.cwd))
    found = []
    for path in _matching(folder, chain.watch.checkpoint):
        try:
            status = path.stat()
        except OSError:
            continue
        if path.is_dir() or status.st_size:
            found.append((path, status.st_mtime))
    return found


def _matching(folder: Path, pattern: str) -> list[Path]:
    import glob

    return [folder / name for name in within(_LIMIT_S, lambda: glob.glob(os.path.join(folder, pattern)))]  # noqa: PTH118, PTH207


def mark_in(logs: Sequence[LogFile], pattern: str) -> tuple[bool, float | None]:
    """
    Say whether a line of the logs' ends matches, and the greatest number that its first group held.

    Raises:
        OSError: It took too long (TimeoutError), or a log cannot be read.
    """
    compiled = re.compile(pattern.encode())
    return within(_LIMIT_S, lambda: _look(logs, compiled))


def _look(logs: Sequence[LogFile], pattern: re.Pattern[bytes]) -> tuple[bool, float | None]:
    seen, mark = False, None
    for log in logs:
        for line in _lines(log):
            match = pattern.search(line)
            if match:
                seen = True
                value = _number(match)
                mark = value if mark is None or (value is not None and value > mark) else mark
    return seen, mark


def _number(match: re.Match[bytes]) -> float | None:
    try:
        return float(match.group(1) if match.re.groups else b"")
    except (ValueError, TypeError):
        return None


def _lines(log: LogFile) -> Iterator[bytes]:
    """Yield the lines of the last part of a log, long ones cut."""
    with os.fdopen(open_regular(log.path), "rb") as file:
        end = min(log.end, os.fstat(file.fileno()).st_size) if log.end is not None else os.fstat(file.fileno()).st_size
        file.seek(max(log.start, end - _TAIL_BYTES))
        while file.tell() < end and (line := file.readline(_LINE_BYTES)):
            yield line
