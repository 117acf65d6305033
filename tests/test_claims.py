"""Claims: each step once, whoever is killed, and never waiting for ever."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpualert.claims import MAX_TRIES, Claims, is_done, is_due, locked, tries
from gpualert.errors import LockTimeoutError, UnsafeFileError
from gpualert.files import open_append
from gpualert.history import read_history, remember

HOLDER = """
import sys
from pathlib import Path
from gpualert.claims import Claims
with Claims.of(Path(sys.argv[1])).held(5):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_marked_step_is_done(tmp_path: Path) -> None:
    claims = Claims.of(tmp_path)
    assert not claims.has("sent") and not is_done(tmp_path, "sent")
    claims.mark("sent")
    claims.mark("sent")
    assert claims.has("sent") and is_done(tmp_path, "sent")


def test_a_lock_held_by_another_process_times_out_by_name_and_is_free_when_that_is_killed(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout and holder.stdout.readline() == b"held\n"
    claims = Claims.of(tmp_path)
    with pytest.raises(LockTimeoutError, match=f"{tmp_path}/claims/lock"), claims.held(0):
        pytest.fail("two hold it")
    holder.kill()
    holder.communicate()
    with claims.held(5):
        assert (tmp_path / "claims/lock").exists()


def test_a_lock_file_that_lies_about_means_nothing(tmp_path: Path) -> None:
    (tmp_path / "lock").touch()
    with locked(tmp_path / "lock", 0):
        assert (tmp_path / "lock").exists()


def test_claims_are_private_whatever_the_umask(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        claims = Claims.of(tmp_path)
        claims.mark("sent")
        claims.count("tries")
        with claims.held(1):
            modes = {path.name: path.stat().st_mode & 0o777 for path in [claims.folder, *claims.folder.iterdir()]}
    finally:
        os.umask(old)
    assert modes == {"claims": 0o700, "sent": 0o600, "tries": 0o600, "lock": 0o600}


def test_tries_are_counted_and_spaced_and_end(tmp_path: Path) -> None:
    now = time.time() + 1.0
    assert tries(tmp_path) == 0 and is_due(tmp_path, now)
    claims = Claims.of(tmp_path)
    assert [claims.count("tries") for _ in range(3)] == [0, 1, 2]
    assert tries(tmp_path) == 3
    assert not is_due(tmp_path, now + 60) and is_due(tmp_path, now + 121)
    for _ in range(MAX_TRIES - 3):
        claims.count("tries")
    assert not is_due(tmp_path, now + 1e9)


def test_the_first_resumption_is_at_once(tmp_path: Path) -> None:
    Claims.of(tmp_path).count("tries")
    assert is_due(tmp_path)


def test_history_keeps_one_line_a_run_and_skips_what_a_crash_cut_off(tmp_path: Path) -> None:
    assert list(read_history(tmp_path)) == []
    remember(tmp_path, "a", {"class": "cuda_oom"})
    with (tmp_path / "history.jsonl").open("ab") as file:
        file.write(b'{"run_id": "cut\n')
    remember(tmp_path, "b", {"command": "line\nbreak \udcff"})
    remember(tmp_path, "a", {"class": "again"})
    lines = list(read_history(tmp_path))
    assert [(line["run_id"], line.get("class")) for line in lines] == [("a", "cuda_oom"), ("b", None)]
    assert lines[1]["command"] == "line\nbreak \\xff"


@pytest.mark.parametrize("is_read", [False, True], ids=["nobody reads it", "somebody reads it"])
def test_a_fifo_in_place_of_a_file_of_ours_is_refused_at_once(tmp_path: Path, is_read: bool) -> None:
    claims = Claims.of(tmp_path)
    for path in (claims.folder / "tries", claims.folder / "sent", tmp_path / "history.jsonl"):
        os.mkfifo(path)
        reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK) if is_read else None
        with pytest.raises((OSError, UnsafeFileError)):
            open_append(path)
        if reader is not None:
            os.close(reader)
    with pytest.raises((OSError, UnsafeFileError)):
        claims.count("tries")
    with pytest.raises((OSError, UnsafeFileError)):
        claims.mark("sent")
    with pytest.raises((OSError, UnsafeFileError)):
        remember(tmp_path, "a", {})


def test_a_run_whose_tries_cannot_be_counted_is_given_up(tmp_path: Path) -> None:
    os.mkfifo(Claims.of(tmp_path).folder / "tries")
    assert tries(tmp_path) == MAX_TRIES
