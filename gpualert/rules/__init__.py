"""The failure rules: one YAML file a class, read strictly, with a site's own folders laid over them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpualert.errors import RuleError
from gpualert.model import Action, Domain, Outlook, Role
from gpualert.rules import cache
from gpualert.rules.literals import bounded, required
from gpualert.ruleset import Pattern, Rule, RuleSet

BUILT_IN = Path(__file__).parent

_NAME = re.compile(r"(\d{2,3})-([a-z][a-z0-9_]*)\.yaml")
_RULE_KEYS = frozenset(
    [
        "id",
        "title",
        "role",
        "domain",
        "match",
        "outlook",
        "action",
        "advice",
        "paper",
        "sources",
        "examples",
        "counterexamples",
        "generic",
        "unless",
    ]
)
_PATTERN_KEYS = frozenset(
    ["pattern", "role", "outlook", "action", "domain", "advice", "unless", "weight", "generic", "any_level"]
)


def load_rules(extra_dirs: Sequence[Path] = ()) -> RuleSet:
    """
    Return the built-in rules with those of `extra_dirs` laid over them: a later file of the same class replaces it.

    A folder that does not exist adds nothing.  Examples are left out when the rules come from the cache;
    `read_rules` keeps them.

    Raises:
        RuleError: A file is malformed.
    """
    files = rule_files(extra_dirs)
    rules = cache.load(files) or cache.store(files, read_rules(files))
    return RuleSet(rules, cache.finder(RuleSet(rules).literals))


def rule_files(extra_dirs: Sequence[Path] = ()) -> tuple[Path, ...]:
    """Return the rule files of the built-in folder and of `extra_dirs`, in the order in which they are laid over."""
    folders = [folder for folder in (BUILT_IN, *extra_dirs) if folder.is_dir()]
    return tuple(path for folder in folders for path in sorted(folder.glob("*.yaml")))


def read_rules(files: Sequence[Path]) -> tuple[Rule, ...]:
    """Return the rules of `files`, in the order in which they compete; the last file of a class counts."""
    rules = {rule.id: rule for rule in map(read_rule, files)}
    return tuple(sorted(rules.values(), key=lambda rule: (rule.number, rule.id)))


def read_rule(path: Path) -> Rule:
    """
    Return the rule of one file.

    Raises:
        RuleError: The file is no rule.
    """
    import yaml

    named = _NAME.fullmatch(path.name)
    if not named:
        raise RuleError(str(path), "its name is not NN-<class>.yaml")
    try:
        data = yaml.load(path.read_bytes(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, OSError, UnicodeDecodeError) as error:
        raise RuleError(str(path), " ".join(str(error).split())) from error
    return _Reader(str(path)).rule(data, int(named[1]), named[2])


class _Reader:
    """Reads one file; knows its name for the errors."""

    def __init__(self, source: str) -> None:
        self.source = source

    def rule(self, data: Any, number: int, named: str) -> Rule:
        self._check_keys(data, _RULE_KEYS, "")
        if data.get("id") != named:
            raise RuleError(self.source, f"{data.get('id')!r} is not the class its name says", "id")
        bare = Rule(
            id=named,
            number=number,
            title=self._text(data, "title"),
            role=self._enum(data, "role", Role, Role.ROOT),
            outlook=self._enum(data, "outlook", Outlook),
            action=self._enum(data, "action", Action),
            domain=self._enum(data, "domain", Domain),
            advice=self._text(data, "advice").strip(),
            paper=str(data.get("paper") or ""),
            patterns=(),
            source=self.source,
            sources=tuple(map(str, data.get("sources") or ())),
            examples=self._samples(data, "examples", "seen"),
            counterexamples=self._samples(data, "counterexamples", "why"),
        )
        forms = (data.get("match") or {}).get("any") or ()
        return replace(bare, patterns=tuple(self._pattern(form, bare, data) for form in forms))

    def _pattern(self, form: Any, rule: Rule, data: Mapping[str, Any]) -> Pattern:
        if isinstance(form, str):
            form = {"pattern": form}
        self._check_keys(form, _PATTERN_KEYS, "match")
        regex = self._regex(self._text(form, "pattern"))
        unless = [str(text) for text in (form.get("unless"), data.get("unless")) if text]
        return Pattern(
            rule=rule.id,
            regex=regex,
            literals=required(regex),
            role=self._enum(form, "role", Role, rule.role),
            outlook=self._enum(form, "outlook", Outlook, rule.outlook),
            action=self._enum(form, "action", Action, rule.action),
            domain=self._enum(form, "domain", Domain, rule.domain),
            advice=str(form.get("advice", rule.advice)).strip(),
            unless=tuple(map(self._regex, unless)),
            weight=int(form.get("weight", 0)),
            generic=bool(form.get("generic", data.get("generic", False))),
            any_level=bool(form.get("any_level", False)),
        )

    def _regex(self, text: str) -> str:
        regex = bounded(text)
        try:
            re.compile(regex)
        except re.error as error:
            raise RuleError(self.source, f"{text!r}: {error}", "match") from error
        return regex

    def _text(self, data: Mapping[str, Any], key: str) -> str:
        value = data.get(key)
        if not isinstance(value, str) or not value.strip():
            raise RuleError(self.source, "no text", key)
        return value

    def _enum(self, data: Mapping[str, Any], key: str, kind: Any, default: Any = None) -> Any:
        value = data.get(key, default)
        try:
            return kind(value)
        except ValueError:
            raise RuleError(self.source, f"{value!r} is not one of {', '.join(k.value for k in kind)}", key) from None

    def _samples(self, data: Mapping[str, Any], key: str, remark: str) -> tuple[tuple[str, str], ...]:
        samples = data.get(key) or ()
        if not all(isinstance(sample, dict) and sample.get("log") and sample.get(remark) for sample in samples):
            raise RuleError(self.source, f"each needs 'log' and '{remark}'", key)
        return tuple((str(sample["log"]), str(sample[remark])) for sample in samples)

    def _check_keys(self, data: Any, known: frozenset[str], key: str) -> None:
        if not isinstance(data, dict):
            raise RuleError(self.source, "not a mapping of keys to values", key)
        unknown = sorted(set(map(str, data)) - known)
        if unknown:
            raise RuleError(self.source, f"unknown key '{unknown[0]}'", key)
