"""Which ends are told: by the names of runs, and recoveries."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from outcomes import messages
from reports import a_run, a_success, a_verdict
from rundirs import NOW, RunBuilder

from gpualert.config import Settings, load_settings, shown
from gpualert.errors import ConfigError
from gpualert.post import post
from gpualert.values import MessageRule, message_rules
from gpualert.wanted import remember_end, unwanted

RULES = (MessageRule("sweep-*", "failure"), MessageRule("debug", "never"), MessageRule("night*", "recovery"))


@pytest.mark.parametrize(
    ("name", "ends_well", "reason"),
    [
        ("sweep-7", False, ""),
        ("sweep-7", True, "it succeeded, and the setting 'messages' for 'sweep-*' is failure"),
        ("debug", False, "the setting 'messages' for 'debug' is never"),
        ("debug", True, "the setting 'messages' for 'debug' is never"),
        ("nightly", False, ""),
        ("nightly", True, "it succeeded, and the setting 'messages' for 'night*' is recovery"),
        ("other", True, ""),
        ("other", False, ""),
    ],
)
def test_the_first_rule_that_fits_the_name_decides(state: Path, name: str, ends_well: bool, reason: str) -> None:
    verdict = a_success() if ends_well else a_verdict()
    assert unwanted(a_run(name=name), verdict, False, Settings(messages=RULES), state) == reason


def test_without_a_rule_the_setting_on_decides_and_a_failure_inside_counts(state: Path) -> None:
    settings = Settings(on="failure")
    assert unwanted(a_run(), a_success(), False, settings, state) == "it succeeded, and the setting 'on' is failure"
    assert unwanted(a_run(), a_success(), True, settings, state) == ""
    assert unwanted(a_run(), a_verdict(), False, Settings(on="never"), state) == "the setting 'on' is never"


def test_the_first_success_after_a_failure_of_the_same_name_is_told_and_no_other(state: Path) -> None:
    settings = Settings(on="recovery")
    told = []
    ends = [True, False, False, True, True, False, True]
    for number, ends_well in enumerate(ends):
        run = a_run(name="nightly")
        assert run.exit
        run = replace(run, exit=replace(run.exit, ended_at=NOW + number))
        verdict = a_success() if ends_well else a_verdict()
        for _ in range(2):  # a report that is made again says the same until its message is kept
            wanted = not unwanted(run, verdict, False, settings, state)
        told.append(wanted)
        if wanted:
            remember_end(run, verdict, settings, state)
    assert told == [False, True, True, True, False, True, True]
    assert unwanted(a_run(name="other"), a_success(), False, settings, state)


def test_a_success_that_was_over_before_the_failure_is_no_recovery(state: Path) -> None:
    settings, run = Settings(on="recovery"), a_run(name="nightly")
    assert run.exit
    remember_end(run, a_verdict(), settings, state)
    earlier = replace(run, exit=replace(run.exit, ended_at=run.exit.ended_at - 60))
    assert unwanted(earlier, a_success(), False, settings, state)


def test_a_real_run_recovers(make_run: RunBuilder, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUALERT_ON", "recovery")
    for number, status in enumerate([0, 1, 0, 0]):
        run_id = f"2026112{number}T145138Z-node03-3f9a1c2e"
        post(make_run(run_id, start={"run_id": run_id}, exit={"status": status, "ended_at": NOW + number}, log=b"x\n"))
    assert [str(mail["Subject"]).split(":")[0] for mail in messages(state)] == ["FAILED unknown", "OK"]


@pytest.mark.parametrize(
    ("written", "rules"),
    [
        ([{"name": "sweep-*", "on": "failure"}, {"name": "x", "on": "never"}], "sweep-*=failure, x=never"),
        ("sweep-*=failure, x=never", "sweep-*=failure, x=never"),
        ("a=b=always", "a=b=always"),
        ("", ""),
        ([], ""),
    ],
)
def test_rules_are_a_list_or_one_line(written: object, rules: str) -> None:
    assert ", ".join(map(str, message_rules(written))) == rules


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("sweep", "each rule needs a name"),
        ([{"name": "x"}], "each rule needs a name"),
        ([{"name": "", "on": "never"}], "each rule needs a name"),
        ([{"name": "x", "on": "never", "to": "me"}], "each rule needs a name"),
        ([{"name": "x", "on": "sometimes"}], "'sometimes' is none of failure, always, recovery, never"),
        ({"name": "x", "on": "never"}, "must be one text, not a mapping"),
    ],
)
def test_what_is_no_rule_is_refused(written: object, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        message_rules(written)


def test_rules_come_from_the_file_and_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "config" / "gpualert" / "config.yaml"
    file.parent.mkdir(parents=True)
    file.write_text("messages:\n  - {name: 'sweep-*', on: failure}\n  - name: debug\n    on: never\n")
    settings = load_settings()
    assert settings.messages == RULES[:2]
    rows: dict[str, Any] = {option.key: value for option, value, _ in shown(settings)}
    assert rows["messages"] == "sweep-*=failure, debug=never"
    file.write_text("messages: [{name: x, on: sometimes}]\n")
    with pytest.raises(ConfigError, match="key 'messages': 'sometimes' is none of"):
        load_settings()
