"""Python tracebacks in a log: where each ends, what it chains to, and the last frame of the user's own code."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpualert.classify.lines import Line, read_line
from gpualert.scan import Log

Span = tuple[int, int]

_MOST_FILES = 3
_MOST_LINES = 400
_MOST_BLOCK_LINES = 10

_FRAME = re.compile(r'\s*File "(?P<path>[^"]{1,400})", line (?P<line>\d{1,7})(?:,? in (?P<name>.{1,120}))?')
_RICH_FRAME = re.compile(r"(?P<path>/\S{1,400}\.py):(?P<line>\d{1,7}) in (?P<name>\S{1,120})")
_LIBRARY = re.compile(
    r"/(?:site|dist)-packages/|/lib(?:64)?/python\d|<frozen |<string>|<stdin>|/bin/[\w-]{1,40}$|\.pyx$|\.pxi$|/conda/lib/|^/usr/lib/"  # noqa: E501
)
_NAME = r"(?:[A-Za-z_]\w{0,60}\.){0,8}[A-Za-z_]\w{0,60}"
EXCEPTION = re.compile(
    rf"(?P<type>{_NAME}(?:Error|Exception|Interrupt|Exit|Failure|Failed|Timeout|Warning|Abort|Aborted|Expired|NotFound"
    rf"|Refused|Invalid|Denied|Missing|Mismatch|Fault|Group|Raised\w{{0,20}}|Killed|Stop\w{{0,20}}|Cancelled)|{_NAME}\.[A-Z]\w{{1,60}}"
    r"|OutOfMemory|Empty|Full|Retry|error)(?:\((?P<inner>\w{1,80})\))?(?::(?: (?P<message>.{0,2000}))?)?$"
)
_CHAINED = re.compile(r"During handling of the above exception|The above exception was the direct cause")
QUIET = re.compile(
    r"Exception ignored (?:in|on)|Error in atexit|Error in sys\.excepthook|Logging error|Exception in callback|Traceback of forward call"  # noqa: E501
)


@dataclass(frozen=True)
class Traceback:
    """
    One traceback.

    Attributes:
        begin: Where its first line begins.
        exception: The line that names the exception.
        block: The lines of its message, after that line.
        frame: The last frame outside installed libraries, as `path:line in name`, or "".
        after: The traceback that came before it in its chain, as an index, or None.
        raised_in: The files of the last frames, whosever they are, the last one last: `client.py>socket.py`, or "".
        quiet: Printed in passing (a destructor, an exit handler): the program went on.
    """

    begin: int
    exception: Span
    line: Line
    block: tuple[Span, ...]
    frame: str
    after: int | None
    quiet: bool
    raised_in: str = ""


def read_tracebacks(log: Log, headers: Iterable[Span]) -> tuple[Traceback, ...]:
    """Return the tracebacks that begin at `headers`, in their order, with those nested in them."""
    found: list[Traceback] = []
    for header in headers:
        if len(found) > 3000:
            break
        first = _read(log, header, found)
        while first:
            found.append(first)
            first = _continued(log, first, len(found) - 1)
    return tuple(found)


def _read(log: Log, header: Span, before: Sequence[Traceback]) -> Traceback | None:
    lead = read_line(log.text(header))
    above = _above(log, header, lead)
    walked = _walk(log, header, lead)
    if not walked:
        return None
    span, line, frame, raised_in = walked
    after = None
    if _CHAINED.search(above):
        after = next((i for i in range(len(before) - 1, -1, -1) if before[i].line.stream == lead.stream), None)
    quiet = bool(QUIET.search(above))
    return Traceback(header[0], span, line, _block(log, span, lead), frame, after, quiet, raised_in)


def _above(log: Log, header: Span, lead: Line) -> str:
    """Return the text of up to four lines of the same writer above a header, without what is a message's middle."""
    texts: list[str] = []
    span = log.previous_line(header[0])
    for _ in range(12):
        if span is None or len(texts) == 3:
            break
        line = read_line(log.text(span))
        if line.stream == lead.stream and line.content.strip():
            texts.append(line.content)
        span = log.previous_line(span[0])
    return "\n".join(texts[:1] if texts and QUIET.search(texts[0]) else texts[:2])


def _walk(log: Log, header: Span, lead: Line) -> tuple[Span, Line, str, str] | None:
    """Return the exception line of the traceback that starts at `header`, its last user frame and its last files."""
    frame, files = "", [""]
    indent = len(lead.content) - len(lead.content.lstrip())
    span = log.next_line(header[1])
    for _ in range(_MOST_LINES):
        if span is None:
            return None
        line = read_line(log.text(span))
        if line.stream == lead.stream or line.stream == ("", None, ""):
            found = _FRAME.match(line.content) or _RICH_FRAME.match(line.content.strip())
            if found:
                frame = _user_frame(found) or frame
                if found["path"] != files[-1]:
                    files = [*files[-_MOST_FILES + 1 :], found["path"]]
            elif EXCEPTION.match(line.content[indent:]) and not line.content[:indent].strip():
                return span, line, frame, ">".join(filter(None, files))
        span = log.next_line(span[1])
    return None


def _user_frame(found: re.Match[str]) -> str:
    if _LIBRARY.search(found["path"]):
        return ""
    return f"{found['path']}:{found['line']}" + (f" in {found['name'].strip()}" if found["name"] else "")


def _block(log: Log, exception: Span, lead: Line) -> tuple[Span, ...]:
    """Return the lines of an exception's message after its first: until a blank, a stamped or a framed line."""
    spans: list[Span] = []
    end = exception[1]
    while len(spans) < _MOST_BLOCK_LINES:
        span = log.next_line(end)
        if span is None or span[0] - end > 2:
            break
        line = read_line(log.text(span))
        if line.stream == lead.stream:
            if not line.content.strip() or line.time_s is not None or _FRAME.match(line.content):
                break
            spans.append(span)
        end = span[1]
    return tuple(spans)


def _continued(log: Log, outer: Traceback, index: int) -> Traceback | None:
    """Return the traceback inside a wrapper that prints the inner frames after its own line, as Ray does."""
    end = outer.block[-1][1] if outer.block else outer.exception[1]
    span = log.next_line(end)
    if span is None:
        return None
    line = read_line(log.text(span))
    if line.stream != outer.line.stream or not _FRAME.match(line.content):
        return None
    walked = _walk(log, (outer.exception[0], end), line)
    if not walked or walked[0] == outer.exception:
        return None
    inner, inner_line, frame, raised_in = walked
    return Traceback(
        outer.exception[0], inner, inner_line, _block(log, inner, line), frame, index, outer.quiet, raised_in
    )
