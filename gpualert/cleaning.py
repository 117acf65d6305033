"""Takes the secrets out of a job's text, makes visible what is left, and keeps it short."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpualert.display import shorten, visible
from gpualert.model import Evidence
from gpualert.redact import redact, redact_argv, redact_text

_CUT_FRONT = b"[... the end of a very long line is left out ...]"
_LONGEST_LINE = 16_384
_LINE_LIMIT = 400  # characters of a log line: five rows of a terminal
_TEXT_LIMIT = 600
_EVIDENCE_LIMIT = 2000  # see model.Evidence


@dataclass(frozen=True)
class Window:
    """
    Lines of a log as they are on disk.

    Attributes:
        title: What the lines are, such as `End of output.log`.
        data: More lines than are shown, so that a secret which begins above them is still recognised.
        first_line: The number of the first line in `data`, counted from 1.
        shown: First and last line number to show; nothing where the last comes before the first.
        cut: Whether `data` begins inside its first line.
        root_line: The number of the line that names the cause; 0 where it is not among these.
        root_text: That line's text as the evidence has it.
    """

    title: str
    data: bytes
    first_line: int
    shown: tuple[int, int]
    cut: bool = False
    root_line: int = 0
    root_text: str = ""


@dataclass(frozen=True)
class Line:
    """One line of an excerpt, ready to show."""

    number: int
    text: str
    is_root: bool = False


@dataclass(frozen=True)
class Excerpt:
    """Lines of a log, ready to show."""

    title: str
    lines: tuple[Line, ...]


class Cleaner:
    """Removes secrets, makes visible what is left, and counts what it removed."""

    def __init__(self, removed: int) -> None:
        self.removed = removed

    def text(self, value: str, limit: int = _TEXT_LIMIT) -> str:
        return shorten(visible(self._redacted(value).strip()), limit)

    def each(self, values: Iterable[str]) -> tuple[str, ...]:
        return tuple(self.text(value) for value in values)

    def evidence(self, item: Evidence) -> str:
        """Return an evidence's text; where it was cut off its last word goes too: it may be half a secret."""
        whole = len(item.text) < _EVIDENCE_LIMIT
        return self.text(item.text if whole else f"{item.text.rpartition(' ')[0]} …", _LINE_LIMIT)

    def command(self, argv: Sequence[str]) -> str:
        line, count = redact_argv(argv)
        self.removed += count
        return shorten(visible(line), 2 * _TEXT_LIMIT)

    def excerpt(self, window: Window) -> Excerpt:
        """Return the shown lines of `window`; secrets are looked for in all of it, and counted in what is shown."""
        before, after = window.data.split(b"\n"), redact(window.data).data.split(b"\n")
        root = redact(window.root_text.encode("utf-8", "surrogatepass")).data
        shown = []
        last = min(window.shown[1], window.first_line + len(before) - 1)  # a log may shrink while it is read
        for number in range(window.shown[0], last + 1):
            at = number - window.first_line
            self.removed += before[at] != after[at]
            cut, is_root = at == 0 and window.cut, number == window.root_line
            shown.append(Line(number, _shown(_painted(after[at], cut, root if is_root else None)), is_root))
        return Excerpt(visible(window.title), tuple(shown))

    def _redacted(self, value: str) -> str:
        text, count = redact_text(value)
        self.removed += count
        return text


def _painted(line: bytes, cut: bool, root: bytes | None) -> bytes:
    """
    Return what a terminal would still show of a line that was painted over with carriage returns.

    Args:
        line: The line without its end.
        cut: Its beginning is missing; what may be the rest of a secret is left out.
        root: What the root line says: of it, the part that says so is returned.
    """
    if root is not None and len(line) > _LONGEST_LINE:
        return root
    parts = line.rstrip(b"\r").split(b"\r")
    if cut:
        parts = parts[1:] or [_CUT_FRONT]
    if root is not None:
        parts = [part for part in parts if part.startswith(root[:100])] or parts
    return next((part for part in reversed(parts) if part.strip()), parts[-1])


def _shown(line: bytes) -> str:
    text = line.decode("utf-8", "backslashreplace")
    if len(text) > _LONGEST_LINE:  # its other end may have been cut off, through a secret perhaps
        return visible(text[:_LINE_LIMIT]) + " [... the rest of this very long line is left out ...]"
    return shorten(visible(text).rstrip(), _LINE_LIMIT)
