from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpualert.notify.addresses import addresses_in, is_address


@pytest.mark.parametrize(
    ("written", "good"),
    [
        ("a@x.org", ("a@x.org",)),
        ("ann", ("ann",)),
        ("Ann <a@x.org>", ("a@x.org",)),
        ("a@x.org, b@y.org", ("a@x.org", "b@y.org")),
        ('"Ann, B." <a@x.org>, b@y.org', ("a@x.org", "b@y.org")),
        ("a@x.org,a@x.org", ("a@x.org",)),
    ],
)
def test_addresses_are_found_as_people_write_them(written, good):
    assert addresses_in([written]) == (good, ())


@pytest.mark.parametrize(
    "written",
    [
        "bob@",
        "<",
        '"',
        "not an address",
        "bob smith@x.org",
        "-oQ/tmp",
        "jörg@x.org",
        "a@b@c",
        "a@x.org\r\nRCPT TO:<b@x.org>",
        "undisclosed:;",
    ],
)
def test_what_is_no_address_is_named_and_the_others_are_kept(written):
    assert addresses_in([written, "c@x.org"]) == (("c@x.org",), (written,))
    assert addresses_in([f"{written}, c@x.org"])[0] in {("c@x.org",), ()}


@given(st.text())
def test_whatever_is_written_only_addresses_come_out(written):
    good, bad = addresses_in([written])
    assert all(map(is_address, good)) and (good or bad or not written.strip(" ,\t\n\r\x0b\x0c") or not written.strip())
