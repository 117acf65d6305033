"""What came of a run: the messages in the maildir, and what a tick had to say."""

from __future__ import annotations

import email
import email.policy
from email.message import EmailMessage
from pathlib import Path

from gpualert.config import load_settings
from gpualert.tick import tick


def messages(state: Path) -> list[EmailMessage]:
    """Return the messages in the maildir, oldest run first."""
    parser = email.policy.default
    files = sorted((state / "mail" / "new").glob("*"))
    found = [email.message_from_bytes(file.read_bytes(), policy=parser) for file in files]
    return sorted((mail for mail in found if isinstance(mail, EmailMessage)), key=lambda mail: str(mail["Message-ID"]))


def body(mail: EmailMessage) -> str:
    part = mail.get_body(("plain",))
    assert part is not None
    return str(part.get_content())


def tick_once(state: Path) -> list[str]:
    """Run a tick in this process; return its complaints."""
    complaints: list[str] = []
    tick([state], load_settings(), complaints.append)
    return complaints
