from __future__ import annotations

import re
import unicodedata
from datetime import timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpualert.display import duration, instant, shorten, size, visible

ANY_TEXT = st.text(st.characters(codec=None), max_size=200)


@given(ANY_TEXT)
def test_visible_text_is_one_line_without_anything_hidden_and_can_be_encoded(text):
    shown = visible(text)
    assert not {unicodedata.category(character) for character in shown} & {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    assert shown.encode() and len(shown.splitlines()) == 1 if shown else True
    assert visible(shown) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("a\tb", "a   b"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("a\nb\rc", "a\\nb\\rc"),
        ("\u202egpj.exe", "\\u202egpj.exe"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("\udcff\ud800", "\\xff\\ud800"),
        ("\U000e0041", "\\U000e0041"),
        ("naïve 模型 🚀", "naïve 模型 🚀"),
    ],
)
def test_what_cannot_be_seen_is_spelled_out(text, shown):
    assert visible(text) == shown


@given(ANY_TEXT, st.integers(1, 300))
def test_shortened_text_keeps_its_limit_and_its_beginning(text, limit):
    found = shorten(text, limit)
    assert len(found) <= limit
    assert found == text or (len(text) > limit and ("…" in found or "characters left out" in found))


def test_a_cut_says_how_many_characters_went():
    found = shorten("a" * 1000 + "b" * 1000, 400)
    head, number, tail = re.fullmatch(r"(a+) \[\.\.\. ([\d,]+) characters left out \.\.\.\] (b+)", found).groups()
    assert abs(len(head) + int(number.replace(",", "")) + len(tail) - 2000) <= 2


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (-3, "0.0s"), (0, "0.0s"), (0.44, "0.4s"), (9.96, "10s"), (59.6, "1m"), (60, "1m"), (3599.9, "1h"),
        (11520, "3h 12m"), (86400 * 2 + 3600 * 4 + 59, "2d 4h"), (86400 + 59, "1d"),
    ],
)  # fmt: skip
def test_a_duration_is_told_in_its_two_largest_units(seconds, said):
    assert duration(seconds) == said


@pytest.mark.parametrize(
    ("n_bytes", "said"),
    [
        (0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (99_940, "99.9 kB"), (99_960, "100 kB"), (999_600, "1.0 MB"),
        (1_234_567, "1.2 MB"), (2_500_000_000, "2.5 GB"), (7e15, "7000.0 TB"),
    ],
)  # fmt: skip
def test_a_size_is_told_as_people_read_it(n_bytes, said):
    assert size(n_bytes) == said


def test_an_instant_names_the_day_where_it_is_another_one_here():
    tokyo = timezone(timedelta(hours=9), "JST")
    assert instant(1_795_964_000, timezone.utc) == "2026-11-29 14:53:20 UTC"
    assert instant(1_795_964_000, tokyo) == "2026-11-29 14:53:20 UTC (23:53:20 JST)"
    assert instant(1_795_974_000, tokyo) == "2026-11-29 17:40:00 UTC (2026-11-30 02:40:00 JST)"
