"""Xid lines in their real forms, what the codes mean, and that the rules blame whom the catalogue blames."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpualert.classify import classify
from gpualert.model import Facts, LogFile
from gpualert.rules import load_rules
from gpualert.xid import Blame, Seen, bursts, catalogue, explain, read_xid

SAMPLES = Path(__file__).parent.parent.parent / "shared" / "data" / "xid" / "sample-lines.txt"


def test_a_line_gives_code_gpu_process_and_link() -> None:
    line = "NVRM: Xid (PCI:0018:01:00): 145, pid=922932, name=acctg, RLW_SRC_TRACK Nonfatal XC1 i0 Link 03 (0x040868e2)"
    assert read_xid(line) == Seen(
        145, "0018:01:00", 922932, "acctg", "RLW_SRC_TRACK Nonfatal XC1 i0 Link 03 (0x040868e2)", link=3
    )


@pytest.mark.parametrize(
    ("line", "code", "fatal"),
    [
        (
            "kernel: NVRM: Xid (PCI:0000:05:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
            79,
            False,
        ),
        ("NVRM: Xid (PCI:0008:01:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 01 (0x0", 149, True),
        ("nvidia-nvswitch3: SXid (PCI:0000:c5:00.0): 20034, Fatal, Link 30 LTSSM Fault Up", 20034, True),
        ("NVRM: Xid (0000:03:00): 31, Ch 00000010", 31, False),
    ],
)
def test_forms_of_the_line(line: str, code: int, fatal: bool) -> None:
    seen = read_xid(line)
    assert seen is not None
    assert (seen.code, seen.fatal, seen.pid) == (code, fatal, None)


@pytest.mark.skipif(not SAMPLES.is_file(), reason="the sample lines are not beside this checkout")
def test_every_sample_line_is_read() -> None:
    for line in filter(None, SAMPLES.read_text().splitlines()):
        seen = read_xid(line)
        assert seen is not None, line
        assert f"): {seen.code}," in line


@pytest.mark.parametrize("code", [13, 31, 32, 43, 45, 68, 69])
def test_what_follows_from_the_program_blames_no_node(code: int) -> None:
    entry = explain(code)
    assert entry is not None
    assert entry.blame is Blame.PROGRAM


def test_both_columns_are_kept_and_it_is_said_which_decided() -> None:
    entry = explain(43)
    assert entry is not None
    assert (entry.immediate, entry.operations, entry.decided) == ("IGNORE", "RESTART_APP", "operations")


@pytest.mark.parametrize("code", [63, 92, 154, 99999])
def test_notes_and_unknown_codes_blame_nobody(code: int) -> None:
    entry = explain(code)
    assert entry is None or entry.blame is Blame.NOTE


def test_the_rules_blame_whom_the_catalogue_blames() -> None:
    patterns = load_rules().patterns
    wanted = {
        Blame.NODE: ("gpu_hardware", "elsewhere"),
        Blame.CONTAINED: ("gpu_hardware", "retry"),
        Blame.PROGRAM: ("cuda_runtime", "once"),
    }
    for code, entry in catalogue().items():
        line = f"NVRM: Xid (PCI:0000:04:00): {code}, pid=1, name=x, something"
        first = next(pattern for pattern in patterns if pattern.matches(line))
        if entry.blame is Blame.NOTE:
            assert (first.role.value, first.generic) == ("cascade", True), code
        else:
            assert (first.rule, first.action.value) == wanted[entry.blame], code


def test_lines_of_one_gpu_within_three_minutes_are_one_burst() -> None:
    seen = [Seen(79, gpu, None, "", "", time_s=t) for gpu, t in (("a", 0.0), ("b", 1.0), ("a", 100.0), ("a", 290.0))]
    assert [[(item.gpu, item.time_s) for item in burst] for burst in bursts(seen)] == [
        [("a", 0.0), ("a", 100.0)],
        [("b", 1.0)],
        [("a", 290.0)],
    ]


def test_a_verdict_says_of_each_burst_what_to_do_by_whom_and_which_decided(tmp_path: Path) -> None:
    log = tmp_path / "kern.log"
    line = "2026-11-29 14:{}:00 gpu01 kernel: NVRM: Xid (PCI:0000:3b:00): {}, pid=12, GPU has fallen off the bus.\n"
    log.write_text("".join(line.format(minute, code) for minute, code in ((10, 79), (11, 79), (50, 79), (51, 999))))
    notes = classify([LogFile("kern.log", log)], Facts(status=1), load_rules()).notes
    action = "NVIDIA: RESTART_BM, then CONTACT_SUPPORT; operations report: RESTART_BM, replace on repetition"
    assert notes == (
        f"Xid 79 (GPU has fallen off the bus) on GPU 0000:3b:00, 2 times: {action}; decided by operations",
        f"Xid 79 (GPU has fallen off the bus) on GPU 0000:3b:00: {action}; decided by operations",
    )
