"""What is attached of a log: all of it, or its ends with what was left out counted."""

from __future__ import annotations

import gzip
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpualert.artifacts import content
from gpualert.artifacts.content import Body, is_packed_text, log_body, packed_text_body

ROOM = 7_000_000
SECRET = "hf_abcdefghijklmnopqrstuvwxyz0123456789"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "output.log"


def body_of(log: Path, room_bytes: int = ROOM, start: int = 0, end: int | None = None) -> Body:
    descriptor = os.open(log, os.O_RDONLY)
    try:
        _, body = log_body(descriptor, start, end, room_bytes)
    finally:
        os.close(descriptor)
    assert body is not None
    assert len(body.content) <= room_bytes
    return body


def text_of(body: Body) -> bytes:
    return gzip.decompress(body.content) if body.suffix == ".gz" else body.content


def noise_lines(count: int, width_bytes: int = 60) -> Iterator[bytes]:
    """Yield lines that do not compress."""
    for number in range(count):
        yield b"%d %s\n" % (number, os.urandom(width_bytes // 2).hex().encode())


def test_a_small_log_goes_along_as_text(log: Path) -> None:
    log.write_bytes(b"a\nb\n")
    assert body_of(log) == Body(b"a\nb\n", "text/plain")


def test_bytes_that_are_no_text_stay(log: Path) -> None:
    log.write_bytes(b"\xff\0\r\x1b[31m\n\n")
    assert body_of(log).content == b"\xff\0\r\x1b[31m\n\n"


def test_a_log_that_compresses_goes_along_whole(log: Path) -> None:
    log.write_bytes(b"step 1 loss 0.3\n" * 500_000)
    body = body_of(log)
    assert text_of(body) == log.read_bytes()
    assert (body.note, body.omitted_lines) == ("compressed", 0)


def test_secrets_go_from_every_block_of_a_large_log(log: Path) -> None:
    filler = b"step 1 loss 0.3\n" * 5_000
    log.write_bytes(b"".join(filler + f"HF_TOKEN={SECRET} {n}\n".encode() for n in range(60)))
    body = body_of(log)
    assert body.redactions == 60
    assert SECRET.encode() not in text_of(body)


def test_a_private_key_that_lies_across_blocks_goes(log: Path) -> None:
    lines = [os.urandom(32).hex().encode() for _ in range(20)]
    key = b"-----BEGIN PRIVATE KEY-----\n" + b"\n".join(lines) + b"\n-----END PRIVATE KEY-----\n"
    for shift in (0, 700, 1400):
        filler = b"x" * 79 + b"\n"
        before = filler * ((content.BLOCK_BYTES - shift) // 80)
        log.write_bytes(before + key + filler * 10_000)
        text = text_of(body_of(log))
        assert not any(line in text for line in lines), shift


@pytest.mark.parametrize("room_bytes", [3_000, 50_000, 2_000_000])
def test_of_a_log_that_is_too_large_head_and_tail_go_along_and_the_rest_is_counted(room_bytes: int, log: Path) -> None:
    log.write_bytes(b"".join(noise_lines(150_000)))
    body = body_of(log, room_bytes)
    text = text_of(body)
    mark = re.search(rb"\n\[\.\.\. gpualert: ([0-9,]+) lines \(([^)]+)\) left out of the middle \.\.\.\]\n", text)
    assert mark is not None
    head, tail = text[: mark.start()], text[mark.end() :]
    assert log.read_bytes().startswith(head)
    assert log.read_bytes().endswith(tail)
    assert head.endswith(b"\n") and tail[:-1].count(b"\n") > head.count(b"\n")
    assert head.count(b"\n") + body.omitted_lines + tail.count(b"\n") == 150_000
    assert int(mark[1].replace(b",", b"")) == body.omitted_lines
    assert f"{body.omitted_lines:,} lines" in body.note


def test_more_room_means_more_of_the_log(log: Path) -> None:
    log.write_bytes(b"".join(noise_lines(50_000)))
    omitted = [body_of(log, room_bytes).omitted_lines for room_bytes in (10_000, 100_000, 1_000_000)]
    assert omitted == sorted(omitted, reverse=True)
    assert omitted[0] > omitted[-1] > 0


def test_a_log_beyond_reading_whole_is_sought(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content, "WHOLE_BYTES", 100_000)
    monkeypatch.setattr(content, "_HEAD_BYTES", 10_000)
    monkeypatch.setattr(content, "_TAIL_BYTES", 40_000)
    log.write_bytes(b"first\n" + b"step 1 loss 0.3\n" * 50_000 + b"last\n")
    body = body_of(log)
    text = text_of(body)
    assert text.startswith(b"first\n") and text.endswith(b"last\n")
    assert text.count(b"\n") - 2 + body.omitted_lines == 50_002


def test_lines_that_cannot_be_counted_in_time_are_estimated(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content, "WHOLE_BYTES", 100_000)
    monkeypatch.setattr(content, "_COUNT_LIMIT_S", 0.0)
    log.write_bytes(b"step 1 loss 0.3\n" * 1_000_000)
    body = body_of(log)
    assert "about " in body.note
    shown = text_of(body).count(b"\n") - 2
    assert abs(shown + body.omitted_lines - 1_000_000) < 1_000


def test_next_to_no_room_means_no_attachment(log: Path) -> None:
    log.write_bytes(b"".join(noise_lines(10_000)))
    descriptor = os.open(log, os.O_RDONLY)
    assert log_body(descriptor, 0, None, 300) == (log.stat().st_size, None)
    os.close(descriptor)


@pytest.mark.parametrize(("start", "end"), [(0, 0), (5, 5), (6, 5), (100, None), (100, 200)])
def test_an_empty_range_is_empty(start: int, end: int | None, log: Path) -> None:
    log.write_bytes(b"words")
    descriptor = os.open(log, os.O_RDONLY)
    assert log_body(descriptor, start, end, ROOM) == (0, None)
    os.close(descriptor)


# --- one line of megabytes ---


def test_a_secret_that_a_cut_would_tear_goes_as_a_whole(log: Path) -> None:
    """Wherever head or tail is cut in a line of megabytes, no half of a secret is left."""
    unit = f'{{"api_key": "{SECRET}", "n": 1}}, '.encode()
    log.write_bytes(unit * 20_000)
    for room_bytes in (5_000, 5_001, 5_017, 8_000, 9_999):
        text = text_of(body_of(log, room_bytes))
        assert b"cdefgh" not in text
        assert b"stuvwx" not in text


def test_one_endless_line_without_a_blank_is_cut_and_said(log: Path) -> None:
    log.write_bytes(b"".join(os.urandom(1000).hex().encode() for _ in range(10_000)))
    body = body_of(log, 100_000)
    assert body.omitted_lines == 0
    assert "left out of the middle" in body.note


def test_the_last_lines_after_an_endless_one_stay(log: Path) -> None:
    log.write_bytes(b"x" * 20_000_000 + b"\nTraceback\nValueError: bad value\n")
    assert text_of(body_of(log, 50_000)).endswith(b"\nTraceback\nValueError: bad value\n")


# --- logs that are compressed already ---


def test_a_compressed_log_is_unpacked_and_cleaned(log: Path) -> None:
    log.write_bytes(gzip.compress(f"HF_TOKEN={SECRET}\nValueError: bad value\n".encode()))
    body = body_of(log)
    assert text_of(body) == b"HF_TOKEN=[redacted]\nValueError: bad value\n"
    assert body.redactions == 1


def test_of_a_compressed_log_that_is_too_large_the_ends_go_along(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content, "_HEAD_BYTES", 10_000)
    monkeypatch.setattr(content, "_TAIL_BYTES", 40_000)
    log.write_bytes(gzip.compress(b"first\n" + b"step 1 loss 0.3\n" * 100_000 + b"last\n", 1))
    body = body_of(log)
    text = text_of(body)
    assert text.startswith(b"first\n") and text.endswith(b"last\n")
    assert text.count(b"\n") - 2 + body.omitted_lines == 100_002


@pytest.mark.parametrize("kept_bytes", [150_000, 200_000])
@pytest.mark.parametrize("rest", [b"", b"\0" * 50_000], ids=["cut off", "overwritten"])
def test_of_a_damaged_archive_what_can_be_read_goes_along(rest: bytes, kept_bytes: int, log: Path) -> None:
    log.write_bytes(gzip.compress(b"".join(noise_lines(10_000)))[:kept_bytes] + rest)
    body = body_of(log)
    assert text_of(body).startswith(b"0 ")
    assert "damaged archive" in body.note


def test_what_only_begins_like_an_archive_is_said(log: Path) -> None:
    log.write_bytes(b"\x1f\x8bno archive")
    descriptor = os.open(log, os.O_RDONLY)
    with pytest.raises(OSError, match="damaged archive"):
        log_body(descriptor, 0, None, ROOM)
    os.close(descriptor)


# --- memory ---

PEAK = """
import os, resource, sys
from gpualert.artifacts.content import log_body
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
size, body = log_body(os.open(sys.argv[1], os.O_RDONLY), 0, None, 7_000_000)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, len(body.content))
"""


def peak_kib(log: Path) -> int:
    result = subprocess.run([sys.executable, "-c", PEAK, str(log)], capture_output=True, check=True, text=True)
    return int(result.stdout.split()[0])


def test_a_log_of_ten_gigabytes_takes_no_more_than_40_megabytes(log: Path) -> None:
    with log.open("wb") as file:
        file.write(b"step 1 loss 0.3\n" * 200_000)
        file.seek(10 << 30)
        file.write(b"step 9 loss 0.1\n" * 300_000)
    assert peak_kib(log) < 40_000


def test_a_log_full_of_secrets_takes_no_more_than_40_megabytes(log: Path) -> None:
    log.write_bytes(f"password=hunter2 HF_TOKEN={SECRET}\n".encode() * 200_000)
    assert peak_kib(log) < 40_000


def test_an_archive_that_explodes_takes_no_more_than_40_megabytes(log: Path) -> None:
    with gzip.open(log, "wb", compresslevel=1) as file:
        for _ in range(200):
            file.write(b"\0" * 1_000_000)
    assert peak_kib(log) < 40_000


def packed_body_of(file: Path) -> Body | None:
    descriptor = os.open(file, os.O_RDONLY)
    try:
        return packed_text_body(descriptor, ROOM) if is_packed_text(descriptor) else None
    finally:
        os.close(descriptor)


def test_a_packed_text_is_opened_cleaned_and_packed_again(log: Path) -> None:
    log.write_bytes(gzip.compress(b"a\n") + gzip.compress(f"HF_TOKEN={SECRET}\n".encode()))  # of two members
    body = packed_body_of(log)
    assert body is not None
    assert (gzip.decompress(body.content), body.redactions) == (b"a\nHF_TOKEN=[redacted]\n", 1)
    assert (body.media_type, body.suffix, body.note) == ("application/gzip", "", "")


@pytest.mark.parametrize(
    "data",
    [gzip.compress(b"\0\1" * 100), b"\x1f\x8bno archive", b"plain", b""],
    ids=["binary", "no-archive", "plain", "empty"],
)
def test_what_is_no_packed_text_is_not_taken_for_one(data: bytes, log: Path) -> None:
    log.write_bytes(data)
    assert packed_body_of(log) is None


def test_of_a_packed_text_that_is_too_large_the_ends_go_along_packed(log: Path) -> None:
    log.write_bytes(gzip.compress(b"first\n" + b"step 1 loss 0.3\n" * 700_000 + b"last\n", 1))
    body = packed_body_of(log)
    assert body is not None
    text = gzip.decompress(body.content)
    assert text.startswith(b"first\n")
    assert text.endswith(b"last\n")
    assert body.omitted_lines > 100_000
    assert "left out of the middle" in body.note


def test_a_private_key_amid_other_lines_goes_across_blocks(log: Path) -> None:
    lines = [os.urandom(32).hex().encode() for _ in range(20)]
    key = b"-----BEGIN PRIVATE KEY-----\n" + b"\nstep: 1\n".join(lines) + b"\n-----END PRIVATE KEY-----\n"
    for shift in (0, 700, 1400):
        before = (b"x" * 79 + b"\n") * ((content.BLOCK_BYTES - shift) // 80)
        log.write_bytes(before + key + before)
        text = text_of(body_of(log))
        assert not any(line in text for line in lines)
        assert text.count(b"step: 1\n") == 19
