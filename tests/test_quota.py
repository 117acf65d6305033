"""The arithmetic of the attachment budget."""

from __future__ import annotations

from email.message import EmailMessage
from email.policy import SMTP

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpualert.quota import Budget, encoded_size, packing_order, raw_limit


@pytest.mark.parametrize("raw_bytes", [0, 1, 2, 3, 56, 57, 58, 114, 1_000, 99_999])
def test_a_real_message_grows_by_no_more_than_was_counted(raw_bytes: int) -> None:
    message = EmailMessage(policy=SMTP)
    message.set_content("text\n")
    message.make_mixed()
    before = len(message.as_bytes())
    message.add_attachment(b"\xff" * raw_bytes, maintype="application", subtype="octet-stream", filename="x" * 100)
    grown = len(message.as_bytes()) - before
    assert encoded_size(raw_bytes) - 512 <= grown <= encoded_size(raw_bytes)


@given(st.integers(0, 10**8))
def test_the_limit_is_the_largest_size_that_fits(encoded_bytes: int) -> None:
    limit = raw_limit(encoded_bytes)
    assert limit == 0 or encoded_size(limit) <= encoded_bytes
    assert encoded_size(limit + 1) > encoded_bytes


def test_no_file_gets_more_than_is_left_of_the_whole() -> None:
    budget = Budget(10_000_000, 20_000_000)
    assert encoded_size(budget.room_for_one()) <= 10_000_000
    assert encoded_size(budget.room_for_one(15_000_000)) <= 5_000_000
    assert budget.room_for_one(20_000_000) == 0


def test_the_small_come_first() -> None:
    assert packing_order([50, 900, 10, 50]) == [2, 0, 3, 1]
    assert packing_order([]) == []
