"""The scan: lines by offset, literals by two ways with one answer, and logs of every sort."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pytest

from gpualert import scan
from gpualert.model import LogFile
from gpualert.rules import load_rules
from gpualert.scan import Log, PlainFinder, find_lines, open_log, open_stream

LITERALS = (b"cuda error", b"killed", b"nan")
WILD = Path(__file__).parent.parent.parent / "shared" / "wild-dev"


def log_of(data: bytes) -> Log:
    return Log("log", data, 0, len(data))


def texts(log: Log) -> list[str]:
    return [log.text(span) for span in find_lines(log, LITERALS)]


def opened(tmp_path: Path, data: bytes, **bounds: int) -> Log:
    path = tmp_path / "x.log"
    path.write_bytes(data)
    return open_log(LogFile("x.log", path, **bounds))


def test_lines_that_hold_a_literal_are_found_whatever_its_case() -> None:
    assert texts(log_of(b"a\nCUDA Error: x\nb\nKilled\n")) == ["CUDA Error: x", "Killed"]


def test_a_carriage_return_ends_a_line_as_on_a_terminal() -> None:
    assert texts(log_of(b"10%|\r20%|\rKilled\nz")) == ["Killed"]


def test_of_a_flood_the_first_and_the_last_lines_are_kept() -> None:
    data = b"".join(b"%d killed\n" % n for n in range(20_000))
    kept = texts(log_of(data))
    assert kept[0] == "0 killed"
    assert kept[-1] == "19999 killed"
    assert len(kept) == scan.FIRST + scan.LAST


def test_a_line_longer_than_a_block_is_read_around_the_literal() -> None:
    data = b"x" * 700_000 + b" killed " + b"y" * 700_000
    (shown,) = texts(log_of(data))
    assert "killed" in shown
    assert len(shown) <= 2 * scan.LINE_REACH_BYTES


def test_line_numbers_count_as_an_editor_does() -> None:
    log = log_of(b"a\r\nb\rc\nd\n")
    assert [log.number(offset) for offset in (0, 3, 5, 7)] == [1, 2, 2, 3]


def test_line_numbers_of_an_adopted_log_start_at_the_file_not_at_the_run(tmp_path: Path) -> None:
    log = opened(tmp_path, b"old\nold\nkilled\nnext run\n", start=8, end=15)
    assert [(log.text(span), log.number(span[0])) for span in find_lines(log, LITERALS)] == [("killed", 3)]


def test_bytes_before_and_after_the_run_are_not_read(tmp_path: Path) -> None:
    assert texts(opened(tmp_path, b"killed\nquiet\nkilled\n", start=7, end=13)) == []


def test_gzip_is_read_even_when_it_was_cut_off(tmp_path: Path) -> None:
    whole = gzip.compress(b"killed\n" * 50_000)
    assert texts(opened(tmp_path, whole))[0] == "killed"
    assert texts(opened(tmp_path, whole[: len(whole) // 2]))[0] == "killed"


def test_gzip_of_several_members_is_read_to_its_end(tmp_path: Path) -> None:
    assert texts(opened(tmp_path, gzip.compress(b"a\n") + gzip.compress(b"killed\n"))) == ["killed"]


@pytest.mark.parametrize("codec", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf16_is_read(tmp_path: Path, codec: str) -> None:
    assert texts(opened(tmp_path, ("quiet line here\n" * 10 + "Killed\n").encode(codec))) == ["Killed"]


def test_standard_input_is_read_to_its_end() -> None:
    assert texts(open_stream("-", io.BytesIO(b"a\nkilled\n"))) == ["killed"]


def test_what_unpacks_beyond_the_limit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "UNPACK_LIMIT_BYTES", 1000)
    with pytest.raises(ValueError, match="unpacks to more"):
        opened(tmp_path, gzip.compress(b"\0" * 5000))


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OSError):
        open_log(LogFile("x", tmp_path))


def test_an_empty_log_has_no_lines(tmp_path: Path) -> None:
    assert texts(opened(tmp_path, b"")) == []


HARD = [
    b"KILLED \xc4\xb0 cuda error\n", b"cuda\nerror\n", b"cuda errorcuda error nan\r\nkilled\r", b"nan" * 5000, bytes(range(256)) * 40,  # noqa: E501
    b"".join(b"step %d loss nan\n" % n for n in range(3000)),
]  # fmt: skip


@pytest.mark.parametrize("data", HARD, ids=range(len(HARD)))
def test_hyperscan_and_plain_python_find_the_same_lines(data: bytes) -> None:
    rules = load_rules()
    if rules.finder is None or not rules.finder.available():  # type: ignore[attr-defined]
        pytest.skip("hyperscan or the cache folder is missing")
    log = log_of(data + b"\nRuntimeError: CUDA error: out of memory\n")
    assert find_lines(log, rules.literals, rules.finder) == find_lines(log, rules.literals, PlainFinder(rules.literals))


@pytest.mark.skipif(not WILD.is_dir(), reason="the realistic logs are not beside this checkout")
def test_hyperscan_and_plain_python_find_the_same_lines_in_every_realistic_log() -> None:
    rules = load_rules()
    if rules.finder is None or not rules.finder.available():  # type: ignore[attr-defined]
        pytest.skip("hyperscan or the cache folder is missing")
    plain = PlainFinder(rules.literals)
    for path in sorted(WILD.glob("*.log")):
        log = open_log(LogFile(path.name, path))
        assert find_lines(log, rules.literals, rules.finder) == find_lines(log, rules.literals, plain), path.name
