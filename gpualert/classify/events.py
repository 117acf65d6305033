"""Every line of a log that a rule knows, with what the lines around it say about how much it means."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum

from gpualert.classify.lines import Level, Line, read_line
from gpualert.classify.parameters import read_parameters
from gpualert.classify.tracebacks import EXCEPTION, QUIET, Span, Traceback, read_tracebacks
from gpualert.model import Evidence, Parameter, Role, frozen
from gpualert.ruleset import Pattern, RuleSet
from gpualert.scan import Log, find_lines

# What a pattern says of the file that raised an exception: ` (raised in PATH)` follows the exception's line.
_RAISED_IN = r"\(raised in "
MOST_EVENTS = 20_000
MOST_SHOWN = 2_000  # characters


class Strength(IntEnum):
    """How far a line can be trusted to speak of the end."""

    MENTION = 1  # logged as information, or printed in passing
    TALK = 2  # logged as a warning, or called harmless
    SAID = 3  # plain output, or logged as an error
    RAISED = 4  # an exception that was not caught, a fatal message


@dataclass(frozen=True)
class Event:
    """
    One line that a rule knows.

    Attributes:
        log: The index of the log among those read together.
        offset: Where the line begins, in bytes; -1 for a signal.
        traceback: The index of the traceback it belongs to among those of its log, or None.
        chain: The index of the first traceback of that chain, or None.
        begin: Where what belongs to the line begins: its traceback, or the line itself.
        place: 0 for an exception's own line, more for the lines of its message, 0 outside a traceback.
        settled: Why the run survived it, or "".
    """

    log: int
    offset: int
    text: str
    line: Line
    pattern: Pattern
    strength: Strength
    traceback: int | None = None
    chain: int | None = None
    begin: int = -1
    place: int = 0
    frame: str = ""
    source: str = "log"
    file: str = ""
    settled: str = ""
    extra: Mapping[str, Parameter] = field(default_factory=frozen)

    @property
    def parameters(self) -> Mapping[str, Parameter]:
        """The typed values of the line, and those that came with a signal."""
        return frozen({**read_parameters(self.line.content), **self.extra})

    @property
    def failure_class(self) -> str:
        """The class the line speaks for."""
        return self.pattern.rule

    @property
    def is_root(self) -> bool:
        """Whether the line may have started the trouble."""
        return self.pattern.role is Role.ROOT


# Lines that quote trouble rather than have it: source code, commands, settings, tests that passed.
_QUOTES = re.compile(
    r"^\s*(?:raise|except|assert|if|elif|for|while|return|with|import|from|def|class|try:|warnings?\.warn|print|log(?:ger|ging)?\.\w+)\b(?!\w*(?:Error|Exception)\b: )"  # noqa: E501
    r"[^:]{0,200}(?:\(|:$|\bas\b|\bimport\b|,$|==|!=|<|>)"
    r"|^\s*(?:\+{1,3}|\$|#|>>>|\(\w+\) \$) \S"
    r"|^\s*--?\w[\w-]{2,60}(?:[ =]|$)"
    r'|^\s*File "[^"]{1,400}", line \d|^\s*(?:frame )?#\d{1,3}:? (?!H5)|^\s*@ +0x'
    r"|\b\w*(?:Namespace|Args|Arguments|Config|Params)\(\w+=|^usage: .{0,20}\[-h\]|^\s*\w+ \.{3,} |::\S{1,200} (?:PASSED|XFAIL|SKIPPED|XPASS|ok)\b|^(?:PASSED|XFAIL|SKIPPED|XPASS) \S"  # noqa: E501
    r"|^\s*[\w./-]{1,200}\.py:\d{1,6}: \w{0,40}Warning: "
)
_HARMLESS = re.compile(
    r"(?i)\bnot (?:an? )?(?:error|failure|fatal)\b|harmless|safely ignore|can be ignored|(?:will be|is|are|being|was|were) ignored|non-?fatal"  # noqa: E501
    r"|\btrying (?:again|smaller|with|next|\w+=)|-> ?batch[_ ]?size\b|\bwill (?:re-?try|try|fall back|fallback|continue|skip)|\bfalling back\b|\bretrying\b|\bskipp(?:ing|ed)\b|\bdropping it\b|\bcontinuing\b"  # noqa: E501
    r"|\bnot (?:available|installed|found), (?:\w+ ){0,2}(?:disabl|skipp|using|so |falling|ignor|default|running)\w*|\bdisabling\b|\bstep repeated\b"  # noqa: E501
    r"|\b(?:common|possible|potential|likely) (?:root )?(?:reasons|causes)\b|\b(?:will|to) (?:be )?re-?(?:try|tried|start|started)\b|\bretried\b"  # noqa: E501
    r"|\b[Ss]ee https?://|\bmost (?:failures|often|likely)\b|\b(?:usually|typically|often) (?:caused|means|due|indicates)\b"  # noqa: E501
    r"|\bcaught\b.{0,40}(?:retry|batch)|\b(?:0|no) errors?\b|\bif you (?:see|get|want|encounter|run into)|\bexpected failure|\brecovered\b"  # noqa: E501
    r"|\bentering retry loop\b|^(?:wandb|mlflow|clearml|neptune|comet)\b: (?!error)"
    r"|^[\w:./-]{1,60} WARNING\b|^rm: cannot remove .{1,200}: No such file"
    r"|\bpre-?check\b|\bself-?test\b.{0,40}(?:ok|pass)"
)

# What to try next, said by somebody who does not know what happened; what we said ourselves of a run inside this one.
_ADVICE = re.compile(
    r"(?i)^gpualert: |(?:^|\] )(?:hints?|tips?|suggestions?|troubleshooting|things to (?:try|check))\b ?: "
)


def read_events(log: Log, number: int, rules: RuleSet) -> tuple[tuple[Event, ...], tuple[Traceback, ...]]:
    """Return the events and tracebacks of one log, in its order."""
    hits = find_lines(log, rules.literals, rules.finder)
    header = len(rules.literals) - 1
    headers = [span for span, found in hits.items() if header in found]
    tracebacks = read_tracebacks(log, headers)
    places = _places(tracebacks)
    patterns = _wanted(hits, rules)
    for span in places:
        patterns.setdefault(span, None)
    chains = _chains(tracebacks)
    events = []
    for span, wanted in sorted(patterns.items()):
        event = _event(log, number, span, wanted, rules, places.get(span), tracebacks, chains)
        if event:
            events.append(event)
        if len(events) >= MOST_EVENTS:
            break
    return tuple(events), tracebacks


def signal_events(evidence: Iterable[Evidence], rules: RuleSet) -> tuple[Event, ...]:
    """Return the events of lines that the kernel, the scheduler or the cgroup contributed."""
    events = []
    for item in evidence:
        line = read_line(item.text)
        line = replace(line, host=item.host or line.host, rank=line.rank if item.rank is None else item.rank)
        pattern = next((p for p in rules.patterns if p.matches(line.content)), None)
        if pattern:
            events.append(
                Event(
                    0,
                    -1,
                    item.text,
                    line,
                    pattern,
                    Strength.RAISED,
                    source=item.source,
                    file=item.file,
                    extra=item.parameters,
                )
            )
    return tuple(events)


def _wanted(hits: Mapping[Span, set[int]], rules: RuleSet) -> dict[Span, tuple[int, ...] | None]:
    """Return for each line the indices of the patterns whose literals it holds, in the order in which they compete."""
    users = rules.users
    return {
        span: tuple(sorted({pattern for literal in found for pattern in users[literal]}))
        for span, found in hits.items()
    }


def _places(tracebacks: tuple[Traceback, ...]) -> dict[Span, tuple[int, int]]:
    """Return for each line of an exception and its message the traceback and the place in it."""
    places: dict[Span, tuple[int, int]] = {}
    for number, traceback in enumerate(tracebacks):
        for place, span in enumerate((traceback.exception, *traceback.block)):
            places.setdefault(span, (number, place))
    return places


def _chains(tracebacks: tuple[Traceback, ...]) -> tuple[int, ...]:
    """Return for each traceback the first one of its chain."""
    first: list[int] = []
    for number, traceback in enumerate(tracebacks):
        first.append(number if traceback.after is None else first[traceback.after])
    return tuple(first)


def _event(
    log: Log,
    number: int,
    span: Span,
    wanted: tuple[int, ...] | None,
    rules: RuleSet,
    place: tuple[int, int] | None,
    tracebacks: tuple[Traceback, ...],
    chains: tuple[int, ...],
) -> Event | None:
    text = log.text(span)
    line = read_line(text)
    content = line.content.lstrip()
    if content.count("\N{REPLACEMENT CHARACTER}") > len(content) // 5:
        return None
    if place is None and (_QUOTES.search(content) or _ADVICE.search(content) or _is_code(log, span)):
        return None
    candidates = rules.candidates(line.whole) if wanted is None or place is not None else wanted
    pattern = next((rules.patterns[i] for i in candidates if rules.patterns[i].matches(content)), None)
    if place is not None and place[1] == 0 and (pattern is None or pattern.generic or pattern.weight <= 1):
        pattern = _by_frame(f"{content} (raised in {tracebacks[place[0]].raised_in})", rules) or pattern
    if pattern is None and line.level is not Level.NONE:  # some forms begin with the level's own word
        pattern = next((rules.patterns[i] for i in candidates if rules.patterns[i].matches(line.whole)), None)
    if pattern is None:
        return None
    traceback = tracebacks[place[0]] if place else None
    strength = _strength(line, pattern, traceback)
    if strength is Strength.SAID and _in_passing(log, span):
        strength = Strength.MENTION
    return Event(
        log=number,
        offset=span[0],
        text=_excerpt(text.rstrip(), content, pattern),
        line=line,
        pattern=pattern,
        strength=strength,
        traceback=place[0] if place else None,
        chain=chains[place[0]] if place else None,
        begin=traceback.begin if traceback else span[0],
        place=place[1] if place else 0,
        frame=traceback.frame if traceback else "",
        file=log.name,
    )


def _by_frame(text: str, rules: RuleSet) -> Pattern | None:
    """Return the form that needs to know which library raised the exception; None for the usual ones."""
    return next((p for p in rules.patterns if _RAISED_IN in p.regex and p.matches(text)), None)


def _in_passing(log: Log, span: Span) -> bool:
    """Say whether the line is what a destructor or an exit handler printed in one line."""
    above = log.previous_line(span[0])
    return above is not None and QUIET.search(log.text(above)) is not None


def _excerpt(text: str, content: str, pattern: Pattern) -> str:
    """Return the original line, of a very long one the part around what matched."""
    found = pattern.compiled.search(content) if len(text) > MOST_SHOWN else None
    begin = max(0, len(text) - len(content) + found.start() - MOST_SHOWN // 4) if found else 0
    return text[begin if begin > MOST_SHOWN // 2 else 0 :][:MOST_SHOWN]


def _strength(line: Line, pattern: Pattern, traceback: Traceback | None) -> Strength:
    if traceback and traceback.quiet:
        return Strength.MENTION
    if traceback and line.level in (Level.NONE, Level.ERROR, Level.FATAL):
        return Strength.RAISED
    if pattern.any_level:
        return Strength.SAID
    if line.level <= Level.INFO:
        return Strength.MENTION
    if line.level is Level.WARNING or _HARMLESS.search(line.content):
        return Strength.TALK
    return Strength.RAISED if line.level is Level.FATAL else Strength.SAID


def _is_code(log: Log, span: Span) -> bool:
    """Say whether the line is the source shown under a frame of a traceback."""
    head = bytes(log.data[span[0] : span[0] + 400])
    if b"    " not in head:
        return False
    above = log.previous_line(span[0])
    return (
        above is not None
        and b'File "' in log.data[above[0] : above[1]]
        and b", line " in log.data[above[0] : above[1]]
        and not EXCEPTION.match(read_line(log.text(span)).content)
    )
