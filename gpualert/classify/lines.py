"""One line as an operator reads it: what the launcher, the logger and the terminal added, taken off and understood."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from enum import IntEnum
from functools import lru_cache

# What is looked at of one line; the rest of a longer one is beside the point.
MOST_CHARACTERS = 4000


class Level(IntEnum):
    """How loud a logger meant a line to be; NONE when it is no logger's line."""

    DEBUG = 1
    INFO = 2
    WARNING = 3
    NONE = 4
    ERROR = 5
    FATAL = 6


@dataclass(frozen=True)
class Line:
    """
    A line without its wrapping.

    Attributes:
        content: The text that is left, trailing blanks off, leading ones kept.
        rank: The rank a launcher or the program put before it, or None.
        host: The host before it, or "".
        tag: The other mark before it (an actor, a sweep, a container), or "".
        time_s: Its time stamp in seconds; only to be compared within one log and one kind.
        dated: Whether the stamp had a date.
        level: What the logger said.
        whole: The line with its prefixes, without colours and boxes.
    """

    content: str
    rank: int | None = None
    host: str = ""
    tag: str = ""
    time_s: float | None = None
    dated: bool = False
    level: Level = Level.NONE
    whole: str = ""

    @property
    def stream(self) -> tuple[str, int | None, str]:
        """Who wrote it, as far as it says."""
        return self.host, self.rank, self.tag


_ANSI = re.compile(
    r"\x1b(?:\[[0-9;?]{0,40}[ -/]{0,4}[@-~]|\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)|[()][AB012]|[=>78])|\[(?:\d{1,2};){0,3}\d{1,2}m"  # noqa: E501
)
_BOX = re.compile(r"^[│┃|╎]\s?(?=.*[│┃]\s*$)|\s*[│┃]\s*$|^[╭╰┌└][─━╴ ]{1,4}|[─━╮╯┐┘]{3,}\s*$")

_DATE = r"\d{4}[-/]\d\d[-/]\d\d"
_CLOCK = r"\d{1,2}:\d\d:\d\d(?:[.,]\d{1,9})?"
_WORD = r"DEBUG|TRACE|VERBOSE|INFO|NOTICE|SUCCESS|SUCC|WARNING|WARN|ERROR|ERR|CRITICAL|FATAL|EXCEPTION|PANIC"
_HOST = r"(?:\d{1,3}(?:\.\d{1,3}){3}|(?=[\w.-]{0,60}\d)(?![\w.]{0,60}(?:Error|Exception|Warning|Interrupt)\b)(?!python|cuda|gpu:|step|epoch|line|rank|iter|exit|pid|job)[A-Za-z][\w.-]{1,60})"  # noqa: E501

# Tried in this order, again and again until none fits. Each with the kinds of first character it can have: a bracket,
# a parenthesis, a blank, 9 for digits, A and a for letters, a dot for the rest. Named groups: rank, task, host, tag,
# time, level.
_PREFIXES = tuple(
    (kinds, re.compile(text))
    for kinds, text in (
        ("[", r"\[(?:default|rank:? ?|Rank ?|RANK ?|local_rank ?)(?P<rank>\d{1,6})\]:?\s?"),
        ("(", r"\((?:rank|Rank|RANK)[ :=]?(?P<rank>\d{1,6})\):?\s?"),
        ("Aa", r"(?:rank|Rank|RANK)[ =]?(?P<rank>\d{1,6}): "),
        ("[", r"\[\d{1,6},(?P<rank>\d{1,6})\]<(?:stdout|stderr|stddiag)>:\s?"),
        ("[", r"\[(?P<task>\d{1,6})\](?:<(?:stdout|stderr)>)?:? ?(?=\S)(?!\[)"),
        ("9 ", r" {0,5}(?P<task>\d{1,6}): (?![\d.]+\s*$)"),
        (
            "(",
            r"\((?P<tag>[^()\s]{1,80}(?:\([^()]{0,60}\))? pid=\d{1,9})(?:, ip=(?P<host>[\w.:-]{1,60}))?[^()]{0,60}\)\s?",  # noqa: E501
        ),
        (
            "(",
            r"\((?P<tag>(?:pid=\d{1,9})|raylet|autoscaler|gcs_server|dashboard)(?:, ip=(?P<host>[\w.:-]{1,60}))?\)\s?",
        ),
        ("[", r"\[(?P<host>(?=[\w.-]{0,60}\d)(?=[\w.-]{0,60}[a-z])[a-z][\w.-]{2,60}-?\d{1,6})\] ?"),
        ("[", r"\[(?P<tag>[A-Za-z_-]{1,12}\d{1,5})\]:? ?"),
        # The lines of an exception group.
        (" ", r" {2,12}\| (?=(?:Exception Group )?Traceback \(|[\w.]{1,80}(?:Error|Exception|Interrupt|Timeout)\b)"),
        ("a", r"[a-z_]{0,20}worker/(?P<rank>\d{1,6}):? "),
        ("a", r"(?P<tag>[a-z][\w.-]{1,60}) +\| "),
        ("a", r"(?:time|ts)=\"?(?P<time>" + _DATE + "T" + _CLOCK + r")\S{0,8} level=(?P<level>[a-z]{3,8}) "),
        (" ", r" {1,40}(?=(?:\[?(?:" + _WORD + r")\b|" + _DATE + "[ T_:]" + _CLOCK + "))"),
        ("9", r"(?P<time>" + _DATE + "T" + _CLOCK + r"(?:Z|[+-]\d\d:?\d\d)?)(?: (?:stdout|stderr) [FP])?[\s|:-]{0,3}"),
        (
            "A",
            r"(?P<time>[A-Z][a-z]{2} [ \d]\d "
            + _CLOCK
            + r") (?P<host>[\w.-]{1,64}) (?=kernel|systemd|slurmd|containerd|kubelet|dockerd|[\w.-]{1,40}(?:\[\d{1,8}\])?:)",  # noqa: E501
        ),
        ("[", r"\[(?P<time>" + _DATE + "[ T_]" + _CLOCK + r")\s*(?P<level>[EWIF])?(?: [\d ]{1,20})?\]:?\s?"),
        ("[", r"\[(?P<level>[EWIF])\d{0,4} ?(?P<time>" + _CLOCK + r")? ?[\w./-]{0,60}(?::\d{1,6})?\]\s?"),
        ("A", r"(?P<level>[EWIF])\d{4} (?P<time>" + _CLOCK + r")\s+\d{1,9} [^\]\s]{1,200}\] ?"),
        ("[A", r"\[?(?P<level>" + _WORD + r")[:|](?P<time>" + _DATE + "[ T]" + _CLOCK + r")[\]:]\s?"),
        ("9", r"(?P<time>" + _DATE + "[ T_:]" + _CLOCK + r"): (?P<level>[EWIF]) [\w./-]{1,120}:\d{1,6}\] ?"),
        ("[9", r"\[?(?P<time>" + _DATE + "[ T_:]" + _CLOCK + r")\]?(?: ?(?:UTC|Z|[+-]\d\d:?\d\d))?[\s|:,-]{1,4}"),
        ("9", r"(?P<time>\d\d/\d\d/\d{2,4} " + _CLOCK + r")[\s|:-]{1,4}"),
        ("[", r"\[(?P<time>\d\d/\d\d \d\d:\d\d:\d\d)(?: [\w.-]{1,40})?\]:?\s?"),
        ("[", r"\[(?P<time>" + _CLOCK + r")\]:?\s?"),
        ("9", r"(?P<time>" + _CLOCK + r"(?:-\d{1,6})?) (?=(?:" + _WORD + r")\b|\S)"),
        ("[", r"\[\s{0,6}(?P<uptime>\d{1,9}\.\d{4,6})\] ?"),
        ("[", r"\[(?P<time>[A-Z][a-z]{2} [A-Z][a-z]{2} +\d{1,2} " + _CLOCK + r" \d{4})\] ?"),
        (
            "[A",
            r"\[?\b(?P<level>"
            + _WORD
            # The logger's name, if any; an exception's is none.
            + r")\]?(?: *[|:]+ *|\s+|$)(?:(?![\w.]{0,60}(?:Error|Exception|Interrupt)\b)[\w./<>-]{1,80}(?::\d{1,6})? ?(?:>>|[-|:\]]) ?)?",  # noqa: E501
        ),
        ("[Aa", r"\[?(?P<level>Error|Warning|Info|Debug|Fatal|error|warning)\]?: "),
        ("A", r"E {3,12}(?=\S)"),
        ("[", r"\[(?P<level>" + _WORD + r")\|[^\]]{1,80}\](?: ?" + _DATE + "[ T]" + _CLOCK + r" ?>>)? ?"),
        ("[", r"\[[\w./<>-]{1,80}:\d{1,6}(?::[\w<>]{1,60})?\] ?"),
        ("Aa9.", r"[\w.]{1,60} (?:-|\|) (?=(?:" + _WORD + r")\b)"),
        (".", r"- (?=(?:" + _WORD + r")\b|\w+ - )"),
        ("[", r"\[(?:PID|pid)[:=]?\d{1,9}\] ?"),
        ("Aa9", r"(?:slurmstepd-)?(?P<host>" + _HOST + r"): "),  # the former where one machine plays several nodes
    )
)
_BY_KIND = {kind: tuple(prefix for kinds, prefix in _PREFIXES if kind in kinds) for kind in "[( 9Aa."}
_RANK_INSIDE = re.compile(
    r"\[(?:Rank|rank|RANK|PG ID \d+ PG GUID \S+ Rank|global_rank)[ :=]?(\d{1,6})\]|\bglobal_rank=(\d{1,6})\b|\[RANK:(\d{1,6})\]|\(rank[ :=](\d{1,6})\)"  # noqa: E501
)
_NCCL_STAMP = re.compile(r"(?P<host>[\w.-]{1,64}):\d{1,9}:\d{1,9} \[\d{1,3}\] ")

_LEVELS = {
    "D": Level.DEBUG, "I": Level.INFO, "W": Level.WARNING, "E": Level.ERROR, "F": Level.FATAL,
    "TRACE": Level.DEBUG, "DEBUG": Level.DEBUG, "VERBOSE": Level.DEBUG, "INFO": Level.INFO, "NOTICE": Level.INFO,
    "SUCCESS": Level.INFO, "SUCC": Level.INFO, "WARN": Level.WARNING, "WARNING": Level.WARNING,
    "ERR": Level.ERROR, "ERROR": Level.ERROR, "EXCEPTION": Level.ERROR, "CRITICAL": Level.FATAL, "FATAL": Level.FATAL,
    "PANIC": Level.FATAL,
}  # fmt: skip


# Keys of structlog, python-json-logger, zap, Elastic's schema and others, the more telling first.
_JSON_ERRORS = ("exception", "exc_info", "traceback", "stack_trace", "error.stack_trace", "stacktrace", "stack")
_JSON_MESSAGES = ("event", "message", "msg", "log")
_JSON_LEVELS = ("level", "severity", "levelname", "log.level")


@lru_cache(maxsize=20_000)
def read_line(raw: str) -> Line:
    """Return `raw` without terminal colours, boxes, launcher marks, time stamps and log levels, each understood."""
    if raw[:1] == "{" and (said := _structured(raw)):
        return said
    text = _BOX.sub("", _ANSI.sub("", raw[:MOST_CHARACTERS])).rstrip()
    whole = text
    found: dict[str, str] = {}
    for _ in range(7):
        match = next((m for m in (prefix.match(text) for prefix in _BY_KIND[_kind(text)]) if m), None)
        if not match or match.end() == 0:
            break
        found.update({key: value for key, value in match.groupdict().items() if value})
        text = text[match.end() :]
    return _line(text, found, whole)


def _structured(raw: str) -> Line | None:
    """Return what one line of a structured log says; None where it is no JSON with a message."""
    try:
        fields = json.loads(raw[:MOST_CHARACTERS])
    except (ValueError, RecursionError):
        return None
    text = _text(fields, _JSON_MESSAGES)
    error = _text(fields, ("error", "err", "error.message"))
    raised = _text(fields, _JSON_ERRORS).strip().splitlines()
    if not (text or error or raised):
        return None
    line = read_line(text)
    level = _LEVELS.get(_text(fields, _JSON_LEVELS).upper(), line.level)
    # The last line of a traceback is the exception; of Go's and Java's stacks it is the first.
    last = raised[-1] if raised and raised[0].startswith("Traceback") else raised[0] if raised else error
    return replace(line, content=last or line.content, level=level, whole=raw[:MOST_CHARACTERS].rstrip())


def _text(fields: Mapping[str, object], keys: tuple[str, ...]) -> str:
    """Return the first of some values that is a text, or ""."""
    return next((value for key in keys if isinstance(value := fields.get(key), str) and value), "")


def _kind(text: str) -> str:
    first = text[:1]
    if first in ("[", "(", " "):
        return first or "."
    return "9" if first.isdigit() else "A" if first.isupper() else "a" if first.islower() else "."


def _line(text: str, found: dict[str, str], whole: str) -> Line:
    nccl = _NCCL_STAMP.match(text)
    inside = _RANK_INSIDE.search(whole)
    rank = found.get("rank") or (inside and next(filter(None, inside.groups()))) or found.get("task")
    time_s, dated = _seconds(found.get("time", ""), found.get("uptime", ""))
    return Line(
        content=text,
        rank=int(rank) if rank else None,
        host=found.get("host") or (nccl["host"] if nccl else ""),
        tag=found.get("tag", ""),
        time_s=time_s,
        dated=dated,
        level=Level.INFO if " NCCL INFO " in text[:160] else _LEVELS.get(found.get("level", "").upper(), Level.NONE),
        whole=whole,
    )


def _seconds(stamp: str, uptime: str) -> tuple[float | None, bool]:
    if uptime:
        return float(uptime), False
    match = re.search(r"(?P<h>\d{1,2}):(?P<m>\d\d):(?P<s>\d\d)(?:[.,](?P<f>\d{1,9}))?", stamp)
    if not match:
        return None, False
    clock = int(match["h"]) * 3600 + int(match["m"]) * 60 + int(match["s"]) + float(f"0.{match['f'] or 0}")
    day = _day(stamp[: match.start()])
    return (day * 86400 + clock, True) if day is not None else (clock, False)


@lru_cache(maxsize=256)
def _day(text: str) -> float | None:
    """Return the days since 1970 of a date, or None."""
    numbers = re.findall(r"\d+", text)
    if len(numbers) < 3:
        return None
    year, month, day = (int(n) for n in numbers[:3])
    if len(numbers[0]) != 4:
        month, day, year = year, month, day
    try:
        moment = datetime(year + (2000 if year < 100 else 0), month, day, tzinfo=timezone.utc)
    except ValueError:
        return None
    return moment.timestamp() / 86400
