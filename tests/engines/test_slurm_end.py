"""How jobs end on a real Slurm cluster, and what the message says of it."""

from __future__ import annotations

import pytest
from outcomes import body

from .jobs import GPUALERT, Accounted, User

pytestmark = pytest.mark.engines


def test_a_job_that_exits_with_7_is_reported_and_its_status_is_kept(user: User) -> None:
    _, end = user.finish(f"{GPUALERT} run --name seven -- sh -c 'exit 7'")
    assert end == Accounted("FAILED", "7:0", "n1")
    (mail,) = user.mails()
    assert str(mail["Subject"]).startswith("FAILED unknown: seven on n1 after ")
    assert "exit status is 7" in " ".join(body(mail).split())
