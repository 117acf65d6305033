"""Rules: read strictly, laid over by a site, bounded, and cached without changing what they say."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from gpualert.errors import RuleError
from gpualert.model import Action
from gpualert.rules import load_rules, read_rule, read_rules, rule_files
from gpualert.rules.literals import bounded, required
from gpualert.ruleset import RuleSet

if sys.version_info >= (3, 11):
    from re import _constants as constants
    from re import _parser as parser
else:
    import sre_constants as constants
    import sre_parse as parser

GOOD = """\
id: cuda_oom
title: t
domain: resources
match: {any: ['my own words', {pattern: 'another', action: fix}]}
outlook: cannot_recover
action: bigger
advice: a
sources: [https://example.org]
"""
RULES = RuleSet(read_rules(rule_files()))


def written(folder: Path, text: str, name: str = "40-cuda_oom.yaml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


BAD = {
    "unknown key": ("retry: 3\n", "unknown key 'retry'"),
    "not yaml": ("title: [\n", "cannot use rule"),
    "bad action": (GOOD.replace("action: bigger", "action: maybe"), "'maybe' is not one of"),
    "bad regex": (GOOD.replace("'my own words'", "'('"), "'('"),
    "no title": (GOOD.replace("title: t\n", ""), "key 'title': no text"),
    "wrong id": (GOOD.replace("id: cuda_oom", "id: nccl"), "is not the class its name says"),
    "list": ("- a\n", "not a mapping"),
    "example without remark": (GOOD + "examples: [{log: x}]\n", "each needs 'log' and 'seen'"),
    "pattern key": (GOOD.replace("action: fix", "acton: fix"), "unknown key 'acton'"),
}


@pytest.mark.parametrize(("text", "reason"), BAD.values(), ids=BAD.keys())
def test_a_malformed_rule_is_refused_by_file_key_and_reason(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(RuleError, match=re.escape(reason)):
        read_rule(written(tmp_path, text))


def test_a_file_name_without_number_and_class_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RuleError, match="NN-<class>"):
        read_rule(written(tmp_path, GOOD, "cuda.yaml"))


def test_a_site_replaces_a_rule_and_a_pattern_may_override_the_action(tmp_path: Path) -> None:
    written(tmp_path, GOOD)
    rule = load_rules([tmp_path, tmp_path / "missing"]).by_id["cuda_oom"]
    assert [pattern.action for pattern in rule.patterns] == [Action.BIGGER, Action.FIX]


def test_cached_rules_say_what_the_files_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first, second = load_rules(), load_rules()
    assert first.patterns == second.patterns == RULES.patterns
    assert [rule.advice for rule in second.rules] == [rule.advice for rule in RULES.rules]


def test_a_changed_rule_is_not_answered_from_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    site = tmp_path / "site"
    site.mkdir()
    for title in ("one", "another"):
        written(site, GOOD.replace("title: t", f"title: {title}"))
        assert load_rules([site]).by_id["cuda_oom"].title == title


def test_a_damaged_cache_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    load_rules()
    for path in (tmp_path / "gpualert").iterdir():
        path.write_bytes(b"junk")
    assert load_rules().patterns == RULES.patterns


@pytest.mark.parametrize(
    ("regex", "texts"),
    [
        ("CUDA out", {"cuda out"}),
        (r"oom[-_ ]kill", {"oom-kill", "oom_kill", "oom kill"}),
        (r"(?:alpha|beta)\d+", {"alpha", "beta"}),
        (r"x*(?:gamma)?\d", set()),
        (r"error .*: delta", {": delta"}),
    ],
)
def test_the_literals_a_pattern_cannot_match_without(regex: str, texts: set[str]) -> None:
    assert set(required(regex)) == texts


def test_every_repeat_is_bounded() -> None:
    assert bounded(r"a*b+\*[*+]c.*?") == r"a{0,300}b{1,300}\*[*+]c.{0,300}?"
    for pattern in RULES.patterns:
        for regex in (pattern.regex, *pattern.unless):
            assert not _unbounded(parser.parse(regex)), regex


def _unbounded(items: object) -> bool:
    for op, value in items:  # type: ignore[attr-defined]
        if op in (constants.MAX_REPEAT, constants.MIN_REPEAT):
            if value[1] == constants.MAXREPEAT or _unbounded(value[2]):
                return True
        elif (
            (op is constants.SUBPATTERN and _unbounded(value[3]))
            or (op is constants.BRANCH and any(_unbounded(branch) for branch in value[1]))
            or (op in (constants.ASSERT, constants.ASSERT_NOT) and _unbounded(value[1]))
        ):
            return True
    return False


def test_no_rule_names_a_machine_or_a_test_harness() -> None:
    for path in rule_files():
        assert not re.search(r"\[inject\]|gpualert-eval|/w[o]rk/", path.read_text()), path.name
