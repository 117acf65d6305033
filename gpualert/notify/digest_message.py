"""Composes what is said of many runs at once: each cause with its count, its hosts and its first case in full."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpualert.config import Settings
from gpualert.display import duration
from gpualert.notify.digests import Case
from gpualert.notify.message import envelope, head
from gpualert.notify.mime import assemble, attachment, attachments_of, text_of
from gpualert.render import page

_MOST_IN_FULL, _MOST_NAMED, _FEW = 8, 10, 20
_WELL = "OK"


@dataclass(frozen=True)
class Group:
    """
    The cases of one cause.

    Attributes:
        outcome: Such as `FAILED cuda_oom`.
        why: The line that shows the cause of the first; "" where there is none.
        places: Hosts, tasks and names with their counts, as pairs of label and text.
        runs: The names of the first runs.
        left_out: How many more runs there are.
        first: What the message about the first case says, in full; "" where that is gone, or all went well.
    """

    outcome: str
    why: str
    count: int
    places: tuple[tuple[str, str], ...]
    runs: tuple[str, ...]
    left_out: int
    first: str


@dataclass(frozen=True)
class Gathered:
    """
    What a digest says.

    Attributes:
        counts: How often each outcome, failures first.
        title: What the cases have in common.
        groups: One for each cause, failures first.
        before: Whether a message on the topic was sent before.
    """

    title: str
    counts: tuple[tuple[str, int], ...]
    hosts: tuple[str, ...]
    groups: tuple[Group, ...]
    before: bool
    lasted_s: float

    @property
    def opening(self) -> str:
        """The first sentence."""
        count = sum(group.count for group in self.groups)
        causes = f", of {len(self.groups)} kinds" if len(self.groups) > 1 else ""
        before = "; the first was told by itself" if self.before else ""
        return f"{count:,} runs{causes}, ended within {duration(self.lasted_s)}{before}."

    @property
    def subject(self) -> str:
        """All of it in one line."""
        more = " more" if self.before and len(self.counts) == 1 else ""
        parts = [f"{count:,}{more} {outcome}" for outcome, count in self.counts]
        hosts = f" on {self.hosts[0]}" if len(self.hosts) == 1 else f" on {len(self.hosts)} hosts" if self.hosts else ""
        return f"{', '.join(parts)}: {self.title}{hosts}"


def gather(cases: Sequence[Case], title: str, *, before: bool, full_text: Callable[[Case], str]) -> Gathered:
    """
    Sort cases by their cause.

    Args:
        cases: At least one, the oldest first.
        title: What they have in common.
        before: Whether a message on the topic was sent before.
        full_text: Returns what the message about a case says; "" where it is gone.
    """
    causes: dict[str, list[Case]] = {}
    for case in cases:
        causes.setdefault(case.cause, []).append(case)
    in_order = sorted(causes.values(), key=lambda alike: (alike[0].outcome == _WELL, -len(alike)))
    counts = Counter(case.outcome for alike in in_order for case in alike)
    times = [case.queued_at for case in cases]
    return Gathered(
        title=title,
        counts=tuple(sorted(counts.items(), key=lambda pair: (pair[0] == _WELL, -pair[1]))),
        hosts=tuple(dict.fromkeys(case.host for case in cases if case.host)),
        groups=tuple(
            _group(alike, full_text(alike[0]) if at < _MOST_IN_FULL and alike[0].outcome != _WELL else "")
            for at, alike in enumerate(in_order)
        ),
        before=before,
        lasted_s=max(times) - min(times),
    )


def _group(alike: Sequence[Case], first: str) -> Group:
    runs = [Path(case.run_path).name for case in alike[:_FEW]]
    listed = (
        ("Tasks", ranges([case.task for case in alike if case.task])),
        ("Hosts", _counted(case.host for case in alike if case.host)),
        ("Names", _counted(case.name for case in alike) if len({case.name for case in alike}) > 1 else ""),
    )
    return Group(
        outcome=alike[0].outcome,
        why=alike[0].why,
        count=len(alike),
        places=tuple((label, text) for label, text in listed if text),
        runs=tuple(runs),
        left_out=len(alike) - len(runs),
        first=first,
    )


def _counted(names: Iterable[str]) -> str:
    """Return names with their counts: `node01 (12), node02 (3) and 4 more`."""
    found = Counter(names).most_common()
    shown = [f"{name} ({count:,})" if count > 1 else name for name, count in found[:_MOST_NAMED]]
    return ", ".join(shown) + (f" and {len(found) - len(shown)} more" if len(found) > len(shown) else "")


def ranges(tasks: Sequence[str]) -> str:
    """Return the numbers of tasks as Slurm writes them: `0-3,7`; what is no number comes last."""
    numbers = sorted({int(task) for task in tasks if task.isdecimal() and task.isascii()})
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    others = sorted({task for task in tasks if not (task.isdecimal() and task.isascii())})
    return ",".join([*(f"{a}-{b}" if b > a else f"{a}" for a, b in spans), *others])


def compose_digest(
    cases: Sequence[Case],
    title: str,
    identity: str,
    settings: Settings,
    now: float,
    *,
    first: str,
    message_of: Callable[[Case], bytes],
) -> bytes:
    """
    Return the message about many runs.

    Args:
        cases: At least one, the oldest first; all go to the same people.
        title: What they have in common.
        identity: Its Message-ID.
        first: The Message-ID of the first message on the topic; "" where there was none.
        message_of: Returns the message about a case; empty where it is gone.
    """
    gathered = gather(cases, title, before=bool(first), full_text=lambda case: text_of(message_of(case)))
    mail = head(gathered.subject, envelope(settings, cases[0].to), identity, now)
    if first:
        mail["In-Reply-To"] = mail["References"] = first
    files = [*_list_of(cases), *_files_of_first_cases(cases, settings.attach.max_total_bytes, message_of)]
    values = {"digest": gathered}
    return assemble(mail, page("digest.txt.j2", **values), page("digest.html.j2", **values), files)


def _list_of(cases: Sequence[Case]) -> Iterator[Iterator[bytes]]:
    """Yield the list of all runs, where the text names only some."""
    if len(cases) > _FEW:
        rows = ["outcome\ttask\thost\tname\trun"]
        rows += ["\t".join((case.outcome, case.task, case.host, case.name, case.run_path)) for case in cases]
        yield attachment("runs.tsv", "text/tab-separated-values", ("\n".join(rows) + "\n").encode("utf-8", "replace"))


def _files_of_first_cases(
    cases: Sequence[Case], limit_bytes: int, message_of: Callable[[Case], bytes]
) -> Iterator[tuple[bytes]]:
    """Yield what was attached to the message about the first case of each cause, as long as there is room."""
    firsts = {case.cause: case for case in reversed(cases) if case.outcome != _WELL}
    for case in sorted(firsts.values(), key=lambda case: case.file_name)[:_MOST_IN_FULL]:
        for part in attachments_of(message_of(case)):
            limit_bytes -= len(part)
            if limit_bytes >= 0:
                yield (part,)
