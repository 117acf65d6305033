from __future__ import annotations

from pathlib import Path

import pytest
from reports import a_report, a_verdict, an_evidence

from gpualert.excerpt import AFTER_LINES, BEFORE_LINES, read_windows
from gpualert.model import LogFile


def lines_of(count: int, start: int = 1) -> bytes:
    return b"".join(b"line %d\n" % number for number in range(start, start + count))


def shown(
    path: Path, root_line: int = 0, tail: int = 5, root_text: str = "", **log: int
) -> list[tuple[str, list[str]]]:
    """Return each excerpt as its title and its lines, a marked one with a `>`."""
    file = LogFile("output.log", path, **log)
    root = an_evidence(line=root_line, text=root_text) if root_line else None
    windows, problems = read_windows([file], root, tail)
    assert problems == ()
    report = a_report(verdict=a_verdict(), windows=windows)
    return [
        (found.title, [f"{'>' if line.is_root else ''}{line.number} {line.text}" for line in found.lines])
        for found in report.excerpts
    ]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "output.log"


def test_the_root_line_stands_among_its_neighbours_and_then_comes_the_end(log):
    log.write_bytes(lines_of(1000))
    around, end = shown(log, 500)
    assert around[0] == "Around line 500 of output.log"
    assert around[1][0] == f"{500 - BEFORE_LINES} line {500 - BEFORE_LINES}"
    assert around[1][BEFORE_LINES] == ">500 line 500"
    assert around[1][-1] == f"{500 + AFTER_LINES} line {500 + AFTER_LINES}"
    assert end == ("End of output.log", [f"{n} line {n}" for n in range(996, 1001)])


def test_a_root_line_near_the_end_is_shown_once_with_the_end(log):
    log.write_bytes(lines_of(1000))
    (both,) = shown(log, 990)
    assert both[0] == "output.log from line 970 to its end"
    assert [line for line in both[1] if line.startswith(">")] == [">990 line 990"]
    assert both[1][-1] == "1000 line 1000" and len(both[1]) == 31


@pytest.mark.parametrize("count", [1, 2, 7, 8, 9, 30])
@pytest.mark.parametrize("newline", [b"\n", b""], ids=["ended", "not ended"])
def test_every_line_of_a_short_log_is_shown_once(log, count, newline):
    log.write_bytes(lines_of(count)[:-1] + newline)
    for root in range(1, count + 1):
        found = [line.lstrip(">") for _, lines in shown(log, root, tail=30) for line in lines]
        assert found == [f"{n} line {n}" for n in range(max(1, root - BEFORE_LINES), count + 1)]


def test_of_an_adopted_log_only_this_runs_lines_are_shown_numbered_as_in_the_file(log):
    before, own, after = lines_of(50), lines_of(100, 51), lines_of(50, 151)
    log.write_bytes(before + own + after)
    found = shown(log, 52, tail=3, start=len(before), end=len(before + own))
    assert found[0][1][:2] == ["51 line 51", ">52 line 52"]
    assert found[1][1] == ["148 line 148", "149 line 149", "150 line 150"]


@pytest.mark.parametrize("content", [b"", b"\n"])
def test_an_empty_log_has_an_empty_end(log, content):
    log.write_bytes(content)
    ((title, lines),) = shown(log)
    assert title == "End of output.log" and [line.split(maxsplit=1)[1:] for line in lines] in ([], [[]])


def test_a_root_line_that_is_not_there_any_more_shows_the_end_only(log):
    log.write_bytes(lines_of(10))
    assert [title for title, _ in shown(log, 5000)] == ["End of output.log"]


def test_a_log_of_one_endless_line_shows_that_it_is_one(log):
    log.write_bytes(b"x" * 5_000_000)
    assert shown(log) == [("End of output.log", ["1 [... the end of a very long line is left out ...]"])]
    (_, (line,)), _ = shown(log, 1, root_text="RuntimeError: in the middle of it")
    assert line == ">1 RuntimeError: in the middle of it"


def test_long_lines_around_the_root_do_not_shift_the_numbers(log):
    log.write_bytes(b"a\n" + b"x" * 200_000 + b"\nroot\n" + b"y" * 200_000 + b"\nb\n" + lines_of(50_000))
    around, _ = shown(log, 3, root_text="root")
    assert around[1] == [">3 root"]


def test_a_progress_bar_without_line_ends_shows_its_last_state(log):
    log.write_bytes(b"start\n" + b"\r".join(b"%d%%" % n for n in range(100_000)))
    assert shown(log) == [("End of output.log", ["2 99999%"])]


def test_a_secret_across_the_first_shown_line_is_not_shown(log):
    key = b"-----BEGIN PRIVATE KEY-----\n" + b"MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSj\n" * 20
    log.write_bytes(lines_of(20_000) + key + b"-----END PRIVATE KEY-----\nbye\n")
    ((_, lines),) = shown(log, tail=10)
    assert lines[-1].endswith("bye") and not any("MII" in line for line in lines)


def test_the_roots_log_comes_first_and_the_other_shows_its_end(tmp_path):
    for name in ("stdout.log", "stderr.log"):
        (tmp_path / name).write_bytes(lines_of(100))
    logs = [LogFile(name, tmp_path / name) for name in ("stdout.log", "stderr.log")]
    windows, _ = read_windows(logs, an_evidence(file="stderr.log", line=50), 3)
    titles = ["Around line 50 of stderr.log", "End of stderr.log", "End of stdout.log"]
    assert [window.title for window in windows] == titles


def test_a_log_that_cannot_be_read_is_named_and_the_others_are_shown(tmp_path):
    (tmp_path / "good").write_bytes(b"fine\n")
    (tmp_path / "link").symlink_to(tmp_path / "good")
    logs = [LogFile(name, tmp_path / name) for name in ("missing", "link", "good")]
    windows, problems = read_windows(logs, None, 3)
    assert [window.title for window in windows] == ["End of good"]
    assert problems[0].startswith("missing: ") and problems[1].endswith("it is a symbolic link")


def test_no_tail_shows_the_cause_only(log):
    log.write_bytes(lines_of(1000))
    assert [title for title, _ in shown(log, 500, tail=0)] == ["Around line 500 of output.log"]
    assert shown(log, tail=0) == []
