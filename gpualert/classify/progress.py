"""Signs of life after an error: steps that count on, restarts, and the line that says the job is done."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gpualert.classify.lines import read_line
from gpualert.scan import Log

Stream = tuple[str, int | None, str]

_MOST_LINES = 20_000
_MOST_BYTES = 6 << 20
_MOST_READ = 800
_MOST_OLDER = 300
_FEWEST_SHAPED, _MOST_SHAPED = 6, 100
_MOST_AFTER = 400

_QUICK = re.compile(
    rb"\d%\||it/s|s/it|[Ss]tep|STEP|[Ii]ter|[Ee]poch|EPOCH|loss|Loss|PASSED|FAILED|[Ss]av(?:ed|ing)|[Tt]rial|update|[Bb]atch"
    rb"|[Rr]estart|[Aa]ttempt|[Rr]etry|[Rr]esum|[Rr]estor|[Rr]equeue|trying again|[Ee]pisode|% done|samples|examples"
)
_POINTS = tuple(
    re.compile(text)
    for text in (
        r"(?P<n>\d{1,9})/(?P<of>\d{1,9}|\?) \[[^\]]{0,60}(?:it/s|s/it|[a-zA-Z]{1,20}/s|<)",
        r"(?i)\b(?:global_?step|step|iter(?:ation)?|update|batch|it)s?(?:\s|=|:|\[|/|\"|'|\(){1,14}(?P<n>\d{1,12})\b",
        r"(?i)\bepoch(?:\s|=|:|\[|/|\"|'|\(){1,8}(?P<n>\d{1,7}(?:\.\d{1,6})?)\b",
        r"(?i)'epoch': (?P<n>[\d.]{1,12})",
        r"(?P<n>\d{1,9})/(?P<of>\d{1,9}) \[[=>.\s]{5,60}\]",
        r"(?i)\b\w{0,20}loss(?:\s|=|:|\(|'|\"){1,5}(?P<n>-?\d{1,9}\.\d{1,12})",
        r"\bTrial (?P<n>\d{1,7}) finished",
        r"(?i)\bEpisode(?:\s|=|:|\[){1,3}(?P<n>\d{1,9})",
        r"::\S{1,200} (?:PASSED|FAILED|XFAIL|SKIPPED) {1,60}\[ {0,2}(?P<n>\d{1,3})%\]",
        r"\b(?P<n>\d{1,9}) of \d{1,9} steps \(\d{1,3}%\) done",
    )
)
_RESTART = re.compile(
    r"will restart worker group|restart_count=[1-9]|(?i:\battempt[ #:]{0,2}\d{1,4}(?:/\d{1,4})? (?:failed|ended|exited|died))"  # noqa: E501
    r"|(?i:\battempt[ #:]{0,2}[2-9]\d{0,3}(?:/\d{1,4})?\b)|(?i:trying again|restarting (?:the )?(?:job|training|worker|process|run|from|attempt|after|task|pod))"  # noqa: E501
    r"|(?i:\bretrying (?:the )?(?:job|run|training|task))|(?i:\bjob requeued|requeuing|requeueing|Restart(?:s|ing)? count[:=] ?[1-9]|relaunching|re-?launching)"  # noqa: E501
    r"|Trying to restart this job|(?i:restarted? \d{1,3}/\d{1,3}\b)"
)
_NAN = re.compile(r"(?i)(?:loss|grad_?norm)\W{1,5}(?:nan|inf)\b")
_FINITE = re.compile(r"(?i)loss\W{1,5}\d")


@dataclass(frozen=True)
class Point:
    """
    One line that shows the program at work.

    Attributes:
        count: The number it counts with, as printed; two equal ones are the same line printed again.
        nan: Its loss is not a number.
        finite: It shows a loss that is a number.
        shape: The line without its numbers, where only its coming again makes it a sign of life; else "".
    """

    offset: int
    stream: Stream
    count: str
    nan: bool
    shape: str = ""
    finite: bool = False


@dataclass(frozen=True)
class Life:
    """The last signs of life of a log, in its order."""

    points: tuple[Point, ...]
    restarts: tuple[int, ...]
    _known: dict[tuple[int, Stream, bool, bool], bool] = field(default_factory=dict, compare=False, repr=False)

    def restarted_after(self, offset: int) -> int | None:
        """Return where the job was started anew after `offset`, the last time; None when it was not."""
        return self.restarts[-1] if self.restarts and self.restarts[-1] > offset else None

    def runs_after(self, offset: int) -> bool:
        """Say whether anybody counts on after `offset`: what could not start was started after all."""
        return len({point.count for point in self.points if point.offset > offset}) >= 2

    def goes_on(self, offset: int, stream: Stream, *, needs_finite: bool = False) -> bool:
        """
        Say whether the writer of `offset` counts on afterwards.

        A bar printed again at its old place is no progress.  Where nobody says who writes, two new places are asked
        for: the other ranks of a dying job print one more.  `needs_finite` asks for a loss that is a number.
        """
        place = bisect_left(self.points, offset + 1, key=lambda point: point.offset)
        restarted = self.restarted_after(offset) is not None
        key = (place, stream, restarted, needs_finite)
        if key not in self._known:
            self._known[key] = self._goes_on(*key)
        return self._known[key]

    def _goes_on(self, place: int, stream: Stream, restarted: bool, needs_finite: bool) -> bool:
        before = {point.count for point in self.points[:place]}
        shapes = {point.shape for point in self.points[:place]}
        spoiled = needs_finite and any(point.nan for point in self.points if restarted or point.stream == stream)
        after = {
            point.count
            for point in self.points[place:]
            if (restarted or point.stream == stream)
            and point.count not in before
            and (not point.shape or point.shape in shapes)
            and (not spoiled or (point.finite and not point.nan))
        }
        return len(after) >= (1 if stream != ("", None, "") and not restarted else 2)


def read_life(log: Log, first: int) -> Life:
    """Return the signs of life in `log`, from its end backwards to a little before `first`."""
    points: list[Point] = []
    restarts: list[int] = []
    shapes: dict[bytes, list[tuple[int, int]]] = defaultdict(list)
    for span, known in _last_lines(log, first):
        if not known:
            shape = _shape(log.data[span[0] : span[1]])
            if shape:
                shapes[shape].append(span)
            continue
        line = read_line(log.text(span))
        if _RESTART.search(line.content):
            restarts.append(span[0])
        point = _point(span[0], line.content, line.stream)
        if point:
            points.append(point)
    points.extend(_shaped(log, shapes))
    return Life(tuple(sorted(points, key=lambda point: point.offset)), tuple(reversed(restarts)))


def _last_lines(log: Log, first: int) -> Iterator[tuple[tuple[int, int], bool]]:
    """Yield lines, last first, each with whether it looks like a known sign of life, to a little before `first`."""
    read = older = 0
    span = log.previous_line(log.end)
    for _ in range(_MOST_LINES):
        if span is None or read >= _MOST_READ or log.end - span[0] > _MOST_BYTES or older > _MOST_OLDER:
            return
        known = _QUICK.search(log.data[span[0] : span[1]]) is not None
        read += known
        older += span[0] < first
        yield span, known
        span = log.previous_line(span[0])


_ORDINARY = re.compile(r"(?i)(?=\S)(?!.{0,400}?(?:error|exception|fail|kill|abort|traceback|\bnan\b|warn))")


def ordinary_lines_after(log: Log, offset: int, stream: Stream, most: int, before: int | None = None) -> int:
    """
    Count the lines after `offset` in which its writer speaks of no trouble, indented ones aside, up to `most`.

    Args:
        before: Where to stop; the end of the log where it is None.
    """
    count = 0
    span = log.next_line(log.line_at(offset)[1])
    for _ in range(_MOST_AFTER):
        if span is None or count >= most or (before is not None and span[0] >= before):
            break
        line = read_line(log.text(span))
        count += line.stream == stream and not line.content[:1].isspace() and _ORDINARY.match(line.content) is not None
        span = log.next_line(span[1])
    return count


_NUMBERS = re.compile(rb"[-+]?\d[\d.:,e+-]*")
_NO_WORK = re.compile(
    rb"(?i)0x|\b(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{8,}\b|error|exception|traceback|\", line |frame #|fail|chunk|pid\b|thread|memory|usage|\bfree\b|@ /|^\s*\[\d+\]|^#\d"  # noqa: E501
)


def _shape(raw: bytes) -> bytes:
    """Return the text of a line with its numbers masked, b"" for one that cannot be a program counting on."""
    if len(raw) > 400 or _NO_WORK.search(raw):
        return b""
    shape, numbers = _NUMBERS.subn(b"#", raw)
    return shape[:100] if numbers >= 2 else b""


def _shaped(log: Log, shapes: Mapping[bytes, Sequence[tuple[int, int]]]) -> Iterator[Point]:
    """Yield points for lines of no known kind that come again and again with other numbers."""
    for shape, spans in shapes.items():
        texts = {log.text(span) for span in spans[:_MOST_SHAPED]}
        if len(texts) < _FEWEST_SHAPED:
            continue
        for span in spans[:_MOST_SHAPED]:
            line = read_line(log.text(span))
            yield Point(span[0], line.stream, line.content[:100], False, shape.decode("ascii", "replace"))


def _point(begin: int, content: str, stream: Stream) -> Point | None:
    for pattern in _POINTS:
        found = pattern.search(content)
        if found and not _is_talk(content):
            nan, finite = bool(_NAN.search(content)), bool(_FINITE.search(content))
            return Point(begin, stream, content[: found.end("n")][-100:], nan, finite=finite)
    return None


def _is_talk(content: str) -> bool:
    """Say whether a line that holds a number of a step reports trouble rather than work."""
    return bool(_TALK.search(content))


_TALK = re.compile(
    r"(?i)error|exception|\b(?:fail(?:ed|ure)|killed|abort|cancel|terminat|oom|timed? ?out|traceback|StepId)"
)
