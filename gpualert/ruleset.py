"""What a rule is: frozen data, and the literals that let a scan pass over lines no rule can match."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property

from gpualert.model import Action, Domain, Outlook, Role

# Where a Python traceback begins, in lower case; a scan looks for it beside the rules' literals.
HEADER = b"traceback (most recent call last)"

# Which literals (by index) occur in a block of a log; see `scan`.
Finder = Callable[[bytes], Iterable[int]]


@dataclass(frozen=True)
class Pattern:
    """
    One form in which a failure shows itself, with the rule's defaults already filled in.

    Attributes:
        regex: The expression, bounded: no part of it may match more than a few hundred characters.
        literals: Lower-case ASCII texts of which a matching line holds at least one; empty when none is known.
        unless: Expressions any of which disowns the line.
        weight: How telling the line is among lines of one class; 0 is usual, more is better.
        generic: The form says that something failed, not what: a specific one is preferred.
        any_level: A line logged as a mere warning or information counts in full.
    """

    rule: str
    regex: str
    literals: tuple[str, ...]
    role: Role
    outlook: Outlook
    action: Action
    domain: Domain
    advice: str
    unless: tuple[str, ...] = ()
    weight: int = 0
    generic: bool = False
    any_level: bool = False

    @property
    def compiled(self) -> re.Pattern[str]:
        """The expression, compiled once a process."""
        return _compile(self.regex)

    def matches(self, text: str) -> re.Match[str] | None:
        """Return the match of this form in `text`, a line without its launcher's prefixes."""
        found = self.compiled.search(text)
        return None if found and any(_compile(regex).search(text) for regex in self.unless) else found


@cache
def _compile(regex: str) -> re.Pattern[str]:
    return re.compile(regex)


@dataclass(frozen=True)
class Rule:
    """
    One failure class.

    Attributes:
        number: The place in the order when rules compete for one line; the lowest wins.
        paper: The published fifteen's name for the class, or "".
        source: The file it was read from.
        examples, counterexamples: (log, remark) pairs; empty when read from the cache.
    """

    id: str
    number: int
    title: str
    role: Role
    outlook: Outlook
    action: Action
    domain: Domain
    advice: str
    paper: str
    patterns: tuple[Pattern, ...]
    source: str = ""
    sources: tuple[str, ...] = ()
    examples: tuple[tuple[str, str], ...] = ()
    counterexamples: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class RuleSet:
    """
    All rules, in their order.

    Attributes:
        finder: Finds the literals of `literals` in a block; None leaves it to plain Python.
    """

    rules: tuple[Rule, ...]
    finder: Finder | None = field(default=None, compare=False)

    @cached_property
    def by_id(self) -> Mapping[str, Rule]:
        """The rules by class."""
        return {rule.id: rule for rule in self.rules}

    @cached_property
    def patterns(self) -> tuple[Pattern, ...]:
        """All patterns, in the order in which they compete for a line."""
        return tuple(pattern for rule in self.rules for pattern in rule.patterns)

    @cached_property
    def literals(self) -> tuple[bytes, ...]:
        """The distinct literals of all patterns, sorted, and the header of a traceback; the scan looks for these."""
        return (*sorted({text.encode("ascii") for pattern in self.patterns for text in pattern.literals}), HEADER)

    def candidates(self, text: str) -> list[int]:
        """Return the indices of the patterns that `text` may match by its literals, in their order."""
        lowered = text.lower()
        return [
            number
            for number, pattern in enumerate(self.patterns)
            if not pattern.literals or any(literal in lowered for literal in pattern.literals)
        ]

    @cached_property
    def users(self) -> tuple[tuple[int, ...], ...]:
        """For each literal the indices into `patterns` that need it."""
        index = {literal: i for i, literal in enumerate(self.literals)}
        users: list[list[int]] = [[] for _ in self.literals]
        for number, pattern in enumerate(self.patterns):
            for text in set(pattern.literals):
                users[index[text.encode("ascii")]].append(number)
        return tuple(tuple(numbers) for numbers in users)
