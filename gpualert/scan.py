"""A log as bytes that may be gigabytes: its lines by offset, and where the literals of the rules occur."""

from __future__ import annotations

import mmap
import os
import stat
import tempfile
import zlib
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, Protocol, runtime_checkable

from gpualert.model import LogFile
from gpualert.ruleset import Finder

# Blocks are small enough that one noisy place does not make the whole log a candidate.
BLOCK_BYTES = 256 * 1024
PART_BYTES = 4 * 1024
# A line is read no further than this to either side of the place of interest.
LINE_REACH_BYTES = 2000
# Of one literal so many first and so many last occurrences are looked at: the middle of a flood tells nothing new.
FIRST, LAST = 200, 200
# Of a log in which more lines than this hold a literal the last three quarters of so many and the first are looked at.
MOST_LINES = 8_000
# What a compressed, piped or UTF-16 log may unpack to.
UNPACK_LIMIT_BYTES = 4 << 30

Bytes = bytes | mmap.mmap


@runtime_checkable
class Loadable(Protocol):
    """A finder that must be made ready, and may turn out not to be usable."""

    def available(self) -> bool:
        """Say whether the finder can be used, loading it."""


@dataclass(frozen=True)
class Log:
    """
    The readable bytes of one log.

    Attributes:
        name: What the evidence calls it.
        data: Everything, from the file's first byte.
        start, end: The range of this run.
    """

    name: str
    data: Bytes
    start: int
    end: int
    holders: tuple[IO[bytes], ...] = field(default=(), repr=False)
    _newlines: list[int] = field(default_factory=lambda: [0], repr=False, compare=False)  # before each step of `number`

    def line_at(self, offset: int) -> tuple[int, int]:
        """Return begin and end of the line around `offset`; a carriage return ends a line too, as on a terminal."""
        low, high = max(self.start, offset - LINE_REACH_BYTES), min(self.end, offset + LINE_REACH_BYTES)
        begin = max(self.data.rfind(b"\n", low, offset), self.data.rfind(b"\r", low, offset)) + 1
        return (begin or low), self._stop(offset, high)

    def _stop(self, offset: int, high: int) -> int:
        newline = self.data.find(b"\n", offset, high)
        stop = high if newline < 0 else newline
        carriage = self.data.find(b"\r", offset, stop)
        return stop if carriage < 0 else carriage

    def next_line(self, end: int) -> tuple[int, int] | None:
        """Return the next line with anything in it after the one that ends at `end`; None at the end of the log."""
        while end < self.end:
            begin = end + 1
            end = self._stop(begin, min(self.end, begin + LINE_REACH_BYTES))
            if end > begin:
                return begin, end
        return None

    def previous_line(self, begin: int) -> tuple[int, int] | None:
        """Return the line with anything in it before the one that begins at `begin`; None at the start of the log."""
        while begin > self.start:
            end = begin - 1
            begin = self.line_at(end)[0]
            if end > begin:
                return begin, end
        return None

    def text(self, line: tuple[int, int]) -> str:
        """Return a line as text; undecodable bytes become replacement characters."""
        return bytes(self.data[line[0] : line[1]]).decode("utf-8", "replace")

    def number(self, offset: int) -> int:
        """Return the number of the line at `offset`, from 1 at the file's first byte, as an editor counts."""
        step = 8 << 20
        known = self._newlines
        while len(known) * step <= offset:
            known.append(known[-1] + bytes(self.data[(len(known) - 1) * step : len(known) * step]).count(b"\n"))
        whole = offset // step
        return 1 + known[whole] + bytes(self.data[whole * step : offset]).count(b"\n")

    def blocks(self) -> Iterator[tuple[int, int]]:
        """Yield ranges that together are the log, cut at line ends where there are any."""
        return self._cut(self.start, self.end, BLOCK_BYTES)

    def parts(self, block: tuple[int, int]) -> Iterator[tuple[int, int]]:
        """Yield ranges that together are a block, cut at line ends where there are any."""
        return self._cut(block[0], block[1], PART_BYTES)

    def _cut(self, low: int, end: int, size: int) -> Iterator[tuple[int, int]]:
        while low < end:
            high = min(low + size, end)
            if high < end:
                cut = max(self.data.rfind(b"\n", low, high), self.data.rfind(b"\r", low, high)) + 1
                high = cut if cut > low else high
            yield low, high
            low = high


def find_lines(
    log: Log, literals: tuple[bytes, ...], finder: Finder | None = None
) -> Mapping[tuple[int, int], set[int]]:
    """
    Return the lines of `log` that hold a literal, each with the indices of those it holds, in the log's order.

    `literals` are lower-case; case is ignored.  Of each literal only the first and last occurrences count, and of a log
    with very many such lines only the first and the last.
    """
    if finder is None or (isinstance(finder, Loadable) and not finder.available()):
        finder = PlainFinder(literals)
    search = _Search(log, literals, finder)
    for block in log.blocks():
        search.note(block)
    search.look_back()
    lines: dict[tuple[int, int], set[int]] = defaultdict(set)
    for offset, number in search.found:
        lines[log.line_at(offset)].add(number)
    ordered = sorted(lines.items())
    return dict(ordered if len(ordered) <= MOST_LINES else ordered[: MOST_LINES // 4] + ordered[-MOST_LINES * 3 // 4 :])


class _Search:
    """One pass over a log, and a look back at the last places of literals that it is full of."""

    def __init__(self, log: Log, literals: tuple[bytes, ...], finder: Finder) -> None:
        self.found: list[tuple[int, int]] = []
        self._log, self._literals, self._finder = log, literals, finder
        self._left = [FIRST] * len(literals)
        self._later: dict[int, deque[tuple[int, int]]] = defaultdict(lambda: deque(maxlen=LAST))

    def note(self, block: tuple[int, int]) -> None:
        """Take the first places of each literal in a block; remember the block for those that have had enough."""
        held = list(self._finder(bytes(self._log.data[block[0] : block[1]])))
        if any(self._left[number] for number in held):
            for part in self._log.parts(block):
                self._take(part, self._left, held, last=False)
        for number in held:
            if not self._left[number]:
                self._later[number].append(block)

    def look_back(self) -> None:
        """Take the last places of the literals that had more than the first."""
        wanted: dict[tuple[int, int], set[int]] = defaultdict(set)
        for number, blocks in self._later.items():
            for block in blocks:
                wanted[block].add(number)
        left = [LAST] * len(self._literals)
        for block in sorted(wanted, reverse=True):
            numbers = [number for number in wanted[block] if left[number]]
            for part in reversed(tuple(self._log.parts(block))) if numbers else ():
                self._take(part, left, numbers, last=True)

    def _take(self, part: tuple[int, int], left: list[int], held: list[int], *, last: bool) -> None:
        text = bytes(self._log.data[part[0] : part[1]])
        lowered = text.lower()
        plain = isinstance(self._finder, PlainFinder)  # which asks for more a call than for a literal
        for number in held if plain else set(self._finder(text)).intersection(held):
            if left[number]:
                places = tuple(_occurrences(lowered, self._literals[number]))
                places = places[-left[number] :] if last else places[: left[number]]
                left[number] -= len(places)
                self.found.extend((part[0] + place, number) for place in places)


def _occurrences(text: bytes, literal: bytes) -> Iterator[int]:
    at = text.find(literal)
    while at >= 0:
        yield at
        at = text.find(literal, at + len(literal))


# Words that most literals hold. A block without the word needs no look for any literal that holds it.
_GATES = tuple(
    b"error fail exception cannot could not unable invalid no such not found denied kill abort terminat time out timed"
    b" timeout nccl cuda cudnn cublas memory out of device signal connect refused reset worker exit expect mismatch"
    b" size shape dtype module import library symbol version python process thread file space quota node slurm job"
    b" preempt cancel evict container loss nan overflow assert illegal fault xid ecc gpu driver rank address port"
    b" host http unauthorized token key checkpoint corrupt config argument option unrecognized command too many".split()
)


class PlainFinder:
    """Finds literals without hyperscan: first common words, then only the literals that hold a word that is there."""

    def __init__(self, literals: tuple[bytes, ...]) -> None:
        groups: dict[bytes, list[tuple[int, bytes, bytes]]] = defaultdict(list)
        for number, literal in enumerate(literals):
            masked = literal.translate(_DIGITS)
            gate = max((gate for gate in _GATES if gate in literal), key=len, default=masked)
            groups[gate].append((number, masked, literal))
        self._groups = tuple(groups.items())

    def __call__(self, block: bytes) -> list[int]:
        lowered = block.lower()
        text = _distinct_lines(lowered)
        return [
            number
            for gate, numbers in self._groups
            if gate in text
            for number, masked, literal in numbers
            if masked in text and (masked == literal or literal in lowered)
        ]


_DIGITS = bytes.maketrans(b"123456789\r", b"000000000\n")


def _distinct_lines(lowered: bytes) -> bytes:
    """Return the lines of a block that differ in more than digits, all digits as 0: progress is most of a log."""
    return b"\n".join(set(lowered.translate(_DIGITS).split(b"\n")))


def open_log(file: LogFile) -> Log:
    """
    Open a log for scanning: a regular file is mapped, anything else that can be read is unpacked to a scratch file.

    gzip and UTF-16 are recognised by content.

    Raises:
        OSError: It is a folder, a device, missing or unreadable.
        ValueError: It unpacks to more than the limit, or is broken gzip that yields nothing.
    """
    handle = file.path.open("rb")
    try:
        kind = os.fstat(handle.fileno()).st_mode
        if not stat.S_ISREG(kind):
            raise OSError(f"'{file.path}' is no regular file")
        return _mapped(file, handle)
    except BaseException:
        handle.close()
        raise


def open_stream(name: str, stream: IO[bytes]) -> Log:
    """Read a pipe to its end and open what it held; raises ValueError beyond the limit."""
    scratch = tempfile.TemporaryFile()  # noqa: SIM115
    _copy(iter(lambda: stream.read(1 << 20), b""), scratch)
    return _recode(Log(name, _view(scratch), 0, scratch.tell(), (scratch,)))


def _mapped(file: LogFile, handle: IO[bytes]) -> Log:
    size = os.fstat(handle.fileno()).st_size
    end = size if file.end is None else min(file.end, size)
    log = Log(file.name, _view(handle), min(file.start, end), end, (handle,))
    return _recode(log)


def _view(handle: IO[bytes]) -> Bytes:
    handle.flush() if handle.writable() else None
    if os.fstat(handle.fileno()).st_size == 0:
        return b""
    view = mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ)
    with suppress(AttributeError, OSError):
        view.madvise(mmap.MADV_SEQUENTIAL)
    return view


def _recode(log: Log) -> Log:
    """Return the log itself, or what it holds where it is gzip or UTF-16."""
    head = bytes(log.data[log.start : log.start + 4096])
    if head[:2] == b"\x1f\x8b" and log.start == 0:
        return _recode(_unpacked(log, _gunzipped(log.data)))
    codec = _utf16(head)
    if codec:
        return _unpacked(log, _transcoded(log, codec))
    return log


def _utf16(head: bytes) -> str:
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "utf-16-le" if head[:1] == b"\xff" else "utf-16-be"
    if len(head) >= 64 and head.count(0) > len(head) * 0.4:
        even, odd = head[::2].count(0), head[1::2].count(0)
        return "utf-16-le" if odd > 10 * even + 1 else "utf-16-be" if even > 10 * odd + 1 else ""
    return ""


def _gunzipped(data: Bytes) -> Iterator[bytes]:
    """Yield what a gzip file holds, all its members; a file cut off in the middle yields what is there."""
    unpacker = zlib.decompressobj(wbits=31)
    with suppress(zlib.error):
        for low in range(0, len(data), 1 << 18):
            rest = bytes(data[low : low + (1 << 18)])
            while rest:
                part = unpacker.decompress(rest, 1 << 20)
                yield part
                rest = unpacker.unconsumed_tail
                if unpacker.eof:
                    rest, unpacker = unpacker.unused_data, zlib.decompressobj(wbits=31)


def _transcoded(log: Log, codec: str) -> Iterator[bytes]:
    import codecs

    decoder = codecs.getincrementaldecoder(codec)("replace")
    for low in range(log.start, log.end, 1 << 20):
        yield decoder.decode(bytes(log.data[low : min(low + (1 << 20), log.end)])).encode("utf-8", "replace")


def _unpacked(log: Log, parts: Iterator[bytes]) -> Log:
    scratch = tempfile.TemporaryFile()  # noqa: SIM115
    _copy(parts, scratch)
    return Log(log.name, _view(scratch), 0, scratch.tell(), (*log.holders, scratch))


def _copy(parts: Iterator[bytes], scratch: IO[bytes]) -> None:
    written = 0
    for part in parts:
        written += len(part)
        if written > UNPACK_LIMIT_BYTES:
            raise ValueError(f"it unpacks to more than {UNPACK_LIMIT_BYTES >> 30} GiB")
        scratch.write(part)
    scratch.flush()
