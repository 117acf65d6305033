from __future__ import annotations

import mailbox
import multiprocessing
import os
import stat
from pathlib import Path

import pytest

from gpualert.notify import ChannelError
from gpualert.notify.maildir import deliver

MESSAGE = b"Subject: hello\r\n\r\nline\r\n"


def files_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_a_message_becomes_one_file_that_mail_programs_read(tmp_path):
    assert deliver(tmp_path / "mail", MESSAGE, "<1@x>")
    (found,) = mailbox.Maildir(tmp_path / "mail")
    assert (found["Subject"], found.get_payload()) == ("hello", "line\n")


def test_a_repeat_makes_no_second_file(tmp_path):
    assert [deliver(tmp_path, MESSAGE, "<1@x>"), deliver(tmp_path, MESSAGE, "<1@x>")] == [True, False]
    assert len(files_in(tmp_path)) == 1
    assert deliver(tmp_path, MESSAGE, "<2@x>") and len(files_in(tmp_path)) == 2


def test_a_message_that_was_read_is_not_put_there_again(tmp_path):
    deliver(tmp_path, MESSAGE, "<1@x>")
    (new,) = files_in(tmp_path)
    new.rename(tmp_path / "cur" / f"{new.name}:2,RS")
    assert not deliver(tmp_path, MESSAGE, "<1@x>")
    assert len(files_in(tmp_path)) == 1


def test_many_at_once_make_one_file(tmp_path):
    with multiprocessing.get_context("fork").Pool(8) as pool:
        made = pool.starmap(deliver, [(tmp_path, MESSAGE, "<1@x>")] * 40)
    assert made.count(True) == 1
    assert len(files_in(tmp_path)) == 1


def test_a_draft_of_a_killed_process_does_no_harm(tmp_path):
    deliver(tmp_path, MESSAGE, "<1@x>")
    (new,) = files_in(tmp_path)
    draft = tmp_path / "tmp" / f"{new.name}.{os.getpid()}"
    new.rename(draft)
    assert deliver(tmp_path, MESSAGE, "<1@x>")
    assert [path.parent.name for path in files_in(tmp_path)] == ["new"]


@pytest.mark.parametrize("umask", [0o000, 0o777])
def test_nobody_else_can_read_it_whatever_the_umask(tmp_path, umask):
    before = os.umask(umask)
    try:
        deliver(tmp_path / "mail", MESSAGE, "<1@x>")
    finally:
        os.umask(before)
    for path in (tmp_path / "mail").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "mail").write_text("a file")
    with pytest.raises(ChannelError, match=r"cannot deliver by maildir: '.*/mail': "):
        deliver(tmp_path / "mail", MESSAGE, "<1@x>")
