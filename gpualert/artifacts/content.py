"""The bytes that are attached: redacted, compressed when large, head and tail when still too large."""

from __future__ import annotations

import gzip
import io
import os
import re
import time
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from gpualert.display import size as size_text
from gpualert.redact import redact
from gpualert.redact.blocks import BLOCK_BYTES, whole_lines

PLAIN_BYTES = 1_000_000  # up to here a log goes along as text that a phone can show
WHOLE_BYTES = 16 << 20  # up to here it is compressed whole; beyond only head and tail are read
_HEAD_BYTES, _TAIL_BYTES = 1 << 20, 4 << 20
_SMALL_BYTES = 100_000  # ends up to here go along as text
_LEAST_BYTES = 2_000  # head and tail below this say nothing
_COUNT_LIMIT_S = 2.0
_UNPACK_LIMIT_S = 5.0
_TORN_BYTES = 4_096
_BETWEEN = re.compile(rb"[\s,;]+")


@dataclass(frozen=True)
class Body:
    """
    What is attached of one file.

    Attributes:
        suffix: What its name gets appended, such as `.gz`.
        note: How it was shortened, or what could not be done; "" for a file sent whole.
        redactions: How many secrets were taken out.
    """

    content: bytes
    media_type: str
    suffix: str = ""
    note: str = ""
    omitted_lines: int = 0
    redactions: int = 0


def log_body(descriptor: int, start: int, end: int | None, room_bytes: int) -> tuple[int, Body | None]:
    """
    Return the size of a log and what is attached of it; None when there is no room for anything of use.

    Args:
        descriptor: The open log.
        start: The first byte that is the run's.
        end: One past its last byte; None for the end of the file.
        room_bytes: The most bytes the attachment may have.
    """
    size = os.fstat(descriptor).st_size
    end = size if end is None else min(end, size)
    if end <= start:
        return 0, None
    if start == 0 and _is_gzip(descriptor):
        return end, _fit(_unpacked(descriptor), room_bytes)
    return end - start, _whole(descriptor, start, end, room_bytes) or _ends(descriptor, start, end, room_bytes)


def text_body(descriptor: int, room_bytes: int) -> Body | None:
    """Return a text file whole, redacted, compressed if it must be; None when it does not fit."""
    return _whole(descriptor, 0, os.fstat(descriptor).st_size, room_bytes)


def packed_text_body(descriptor: int, room_bytes: int) -> Body | None:
    """Return a compressed text, redacted and compressed again; head and tail of a large one; None without room."""
    return _fit(replace(_unpacked(descriptor), packed=True), room_bytes)


def binary_body(descriptor: int, room_bytes: int, media_type: str) -> Body | None:
    """Return a file as it is; None when it does not fit."""
    content = b"".join(_blocks(descriptor, 0, room_bytes + 1))
    if len(content) > room_bytes:
        return None
    note = "" if media_type else "binary: not searched for secrets"
    return Body(content, media_type or "application/octet-stream", note=note)


def looks_like_text(descriptor: int) -> bool:
    """Say whether a file may be searched for secrets."""
    return b"\0" not in os.pread(descriptor, 8_192, 0)


def is_packed_text(descriptor: int) -> bool:
    """Say whether a file is a compressed text that may be searched for secrets."""
    if not _is_gzip(descriptor):
        return False
    try:
        with gzip.open(os.fdopen(os.dup(descriptor), "rb")) as archive:
            return b"\0" not in archive.read(8_192)
    except (OSError, EOFError, zlib.error):
        return False
    finally:
        os.lseek(descriptor, 0, os.SEEK_SET)


def _is_gzip(descriptor: int) -> bool:
    return os.pread(descriptor, 2, 0) == b"\x1f\x8b"


def _blocks(descriptor: int, start: int, end: int) -> Iterator[bytes]:
    while start < end and (block := os.pread(descriptor, min(BLOCK_BYTES, end - start), start)):
        start += len(block)
        yield block


def _pieces(data: bytes) -> Iterator[bytes]:
    return (data[at : at + BLOCK_BYTES] for at in range(0, len(data), BLOCK_BYTES))


def _cleaned(blocks: Iterable[bytes]) -> Iterator[tuple[bytes, int]]:
    """Yield redacted pieces with their number of secrets."""
    for piece in whole_lines(blocks):
        found = redact(piece)
        yield found.data, found.count


def _clean(blocks: Iterable[bytes]) -> tuple[bytes, int]:
    cleaned = list(_cleaned(blocks))
    return b"".join(block for block, _ in cleaned), sum(count for _, count in cleaned)


def _whole(descriptor: int, start: int, end: int, room_bytes: int) -> Body | None:
    """Return all of a text; None when it is too large, even compressed."""
    size = end - start
    if size > WHOLE_BYTES:
        return None
    if size <= min(PLAIN_BYTES, room_bytes):
        content, redactions = _clean(_blocks(descriptor, start, end))
        if len(content) <= room_bytes:
            return Body(content, "text/plain", redactions=redactions)
    return _compressed(_cleaned(_blocks(descriptor, start, end)), room_bytes)


def _compressed(blocks: Iterator[tuple[bytes, int]], room_bytes: int) -> Body | None:
    packed, redactions = io.BytesIO(), 0
    with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=6, mtime=0) as archive:
        for block, count in blocks:
            archive.write(block)
            redactions += count
            if packed.tell() > room_bytes:
                return None
    content = packed.getvalue()
    if len(content) > room_bytes:
        return None
    return Body(content, "application/gzip", ".gz", "compressed", redactions=redactions)


@dataclass(frozen=True)
class _Ends:
    """
    Head and tail of a log, and what lies between them.

    Attributes:
        counted: False where the lines are an estimate.
        packed: It was compressed and shall be again, whatever its size; its name says so already.
    """

    head: bytes
    tail: bytes
    omitted_bytes: int = 0
    omitted_lines: int = 0
    counted: bool = True
    note: str = ""
    packed: bool = False


def _ends(descriptor: int, start: int, end: int, room_bytes: int) -> Body | None:
    """Return head and tail of a log, as much as there is room for; None when that is next to nothing."""
    head_bytes = min(_HEAD_BYTES, (end - start) // 5)
    tail_bytes = min(_TAIL_BYTES, end - start - head_bytes)
    head = b"".join(_blocks(descriptor, start, start + head_bytes))
    tail = b"".join(_blocks(descriptor, end - tail_bytes, end))
    lines, counted = _count_lines(descriptor, start + head_bytes, end - tail_bytes)
    return _fit(_Ends(head, tail, end - start - head_bytes - tail_bytes, lines, counted), room_bytes)


def _unpacked(descriptor: int) -> _Ends:
    """Return head and tail of what a compressed log holds; it is read once, and never kept whole."""
    head, tail, dropped_bytes, dropped_lines, note = bytearray(), bytearray(), 0, 0, ""
    deadline_s = time.monotonic() + _UNPACK_LIMIT_S
    with gzip.open(os.fdopen(os.dup(descriptor), "rb")) as archive:
        try:
            while block := archive.read1(BLOCK_BYTES):
                part = _HEAD_BYTES - len(head)
                head += block[:part]
                tail += block[part:]
                if (surplus := len(tail) - _TAIL_BYTES) > BLOCK_BYTES:
                    dropped_lines += tail.count(b"\n", 0, surplus)
                    dropped_bytes += surplus
                    del tail[:surplus]
                if time.monotonic() > deadline_s:
                    note = f"unpacking stopped after {_UNPACK_LIMIT_S:g} s"
                    break
        except (OSError, EOFError, zlib.error) as error:
            note = f"damaged archive: {error}"
    if note and not head:
        raise OSError(note)
    return _Ends(bytes(head), bytes(tail), dropped_bytes, dropped_lines, note=note)


def _fit(ends: _Ends, room_bytes: int) -> Body | None:
    """Shorten head and tail until they fit; None when next to nothing would be left."""
    least_bytes = min(_LEAST_BYTES, len(ends.head) + len(ends.tail))
    shown = ends
    while len(shown.head) + len(shown.tail) >= least_bytes > 0:
        body = _joined(_at_lines(shown) if shown.omitted_bytes else shown)
        if len(body.content) <= room_bytes:
            return body
        share = min(0.75, 0.9 * room_bytes / len(body.content))
        shown = _shorter(shown, int(len(shown.head) * share), int(len(shown.tail) * share))
    return None


def _shorter(ends: _Ends, head_bytes: int, tail_bytes: int) -> _Ends:
    """Move what lies beyond the first `head_bytes` and before the last `tail_bytes` to what is omitted."""
    cut = len(ends.tail) - tail_bytes
    return replace(
        ends,
        head=ends.head[:head_bytes],
        tail=ends.tail[cut:],
        omitted_bytes=ends.omitted_bytes + len(ends.head) - head_bytes + cut,
        omitted_lines=ends.omitted_lines + ends.head.count(b"\n", head_bytes) + ends.tail.count(b"\n", 0, cut),
    )


def _at_lines(ends: _Ends) -> _Ends:
    """Cut where lines end and begin; in a line of megabytes between two words, so that no secret is torn."""
    head_end = ends.head.rfind(b"\n") + 1
    if head_end <= len(ends.head) // 2:
        words = [match.end() for match in _BETWEEN.finditer(ends.head, max(0, len(ends.head) - _TORN_BYTES))]
        head_end = words[-1] if words else max(0, len(ends.head) - _TORN_BYTES)
    tail_start = ends.tail.find(b"\n") + 1
    if tail_start == 0 or tail_start > len(ends.tail) // 2:
        word = _BETWEEN.search(ends.tail, 0, _TORN_BYTES)
        tail_start = word.end() if word else min(_TORN_BYTES, len(ends.tail))
    return _shorter(ends, head_end, len(ends.tail) - tail_start)


def _joined(ends: _Ends) -> Body:
    """Redact and join head and tail, compressed when large."""
    head, in_head = _clean(_pieces(ends.head))
    tail, in_tail = _clean(_pieces(ends.tail))
    about = "" if ends.counted else "about "
    left_out = f"{about}{ends.omitted_lines:,} lines ({size_text(ends.omitted_bytes)}) left out of the middle"
    mark = f"\n[... gpualert: {left_out} ...]\n".encode() if ends.omitted_bytes else b""
    content = head + mark + tail
    media_type, suffix, notes = "text/plain", "", [left_out if mark else "", ends.note]
    if ends.packed or len(content) > _SMALL_BYTES:
        content = gzip.compress(content, 6, mtime=0)
        media_type, suffix, notes = "application/gzip", ".gz", ["compressed", *notes]
    if ends.packed:
        suffix, notes = "", notes[1:]
    note = ", ".join(filter(None, notes))
    return Body(content, media_type, suffix, note, ends.omitted_lines, in_head + in_tail)


def _count_lines(descriptor: int, start: int, end: int) -> tuple[int, bool]:
    """Return the number of line ends in a range, and whether all of it was read; else it is an estimate."""
    lines, at, deadline_s = 0, start, time.monotonic() + _COUNT_LIMIT_S
    for block in _blocks(descriptor, start, end):
        lines += block.count(b"\n")
        at += len(block)
        if at < end and time.monotonic() > deadline_s:
            return round(lines * (end - start) / (at - start)), False
    return lines, True
