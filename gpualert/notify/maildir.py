"""Puts messages into a maildir: one file for each Message-ID, however often it is asked."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from gpualert.files import make_private_folder, write_atomically
from gpualert.notify import ChannelError


def deliver(maildir: Path, message: bytes, message_id: str) -> bool:
    """
    Put a message into `maildir`, which is made where it is missing.

    Returns:
        Whether it was put there now; False when it was there already, read or unread.

    Raises:
        ChannelError: The disk is full, or the folder cannot be written.

    Source: https://cr.yp.to/proto/maildir.html - written in tmp, then linked into new; readers rename it into cur and
        add flags after a colon.  The name is made of the Message-ID, so that a repeat finds the first.
    """
    name = f"gpualert-{hashlib.sha256(message_id.encode()).hexdigest()[:32]}"
    try:
        for folder in ("tmp", "new", "cur"):
            make_private_folder(maildir / folder)
        if (maildir / "new" / name).exists() or _was_read(maildir / "cur", name):
            return False
        draft = maildir / "tmp" / f"{name}.{os.getpid()}"
        write_atomically(draft, message.replace(b"\r\n", b"\n"))
        return _publish(draft, maildir / "new" / name)
    except OSError as error:
        raise ChannelError("maildir", f"'{maildir}': {error.strerror or error}") from error


def _was_read(cur: Path, name: str) -> bool:
    with os.scandir(cur) as entries:
        return any(entry.name.split(":", 1)[0] == name for entry in entries)


def _publish(draft: Path, target: Path) -> bool:
    """Give the draft its place unless that is taken; a link can do so in one step, a rename would overwrite."""
    try:
        target.hardlink_to(draft)
    except FileExistsError:
        draft.unlink()
        return False
    except OSError:  # a file system without hard links
        draft.rename(target)
        return True
    draft.unlink()
    return True
