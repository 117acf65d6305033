"""The words of an attempt: placeholders, and what is added to sbatch."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from gpualert.chains.command import fill, has_option, memory_asked, sbatch_words, scaled
from gpualert.errors import UsageError


def words(text: str) -> list[bytes]:
    return text.encode().split()


@pytest.mark.parametrize(
    ("command", "filled"),
    [
        ("train --try={attempt} --resume={resume} -x {exclude}", "train --try=2 --resume=/s/5.pt -x n1,n2"),
        ("sh -c ${attempt}{attempt}$x{attempt}", "sh -c ${attempt}2$x2"),
        ("echo {Attempt} {} {attempt }", "echo {Attempt} {} {attempt }"),
        ("{attempt}{attempt}-{exclude}", "22-n1,n2"),
    ],
)
def test_placeholders_are_filled_and_the_shells_own_are_left(command: str, filled: str) -> None:
    assert fill(words(command), {"attempt": "2", "exclude": "n1,n2", "resume": "/s/5.pt"}) == words(filled)


def test_a_word_whose_placeholder_has_nothing_to_hold_is_left_out() -> None:
    command = words("train --resume={resume} x{attempt}{exclude} {attempt}")
    assert fill(command, {"attempt": "1", "exclude": "", "resume": ""}) == [b"train", b"1"]


def test_a_path_that_is_no_utf_8_is_filled_byte_for_byte() -> None:
    assert fill([b"{resume}"], {"attempt": "1", "exclude": "", "resume": os.fsdecode(b"/s/\xff.pt")}) == [b"/s/\xff.pt"]


@pytest.mark.parametrize(
    ("value", "factor", "expected"),
    [("33", 0.5, "16"), ("1", 0.5, "1"), ("8", 2.0, "16"), ("0.5", 0.5, "0.25"), ("3", 1.5, "4")],
)
def test_whole_numbers_stay_whole_and_above_nothing(value: str, factor: float, expected: str) -> None:
    assert scaled(value, factor) == expected


@pytest.mark.parametrize(
    ("command", "exclude", "factor", "expected"),
    [
        ("sbatch job.sh", (), 1.0, "sbatch --parsable job.sh"),
        ("sbatch job.sh --mem=1 -x n9", ("n1",), 1.0, "sbatch --parsable --exclude=n1 job.sh --mem=1 -x n9"),
        ("sbatch -x n9 -N2 job.sh", ("n1", "n2"), 1.0, "sbatch --parsable --exclude=n9,n1,n2 -N2 job.sh"),
        ("sbatch --exclude=n1 --hold job.sh", ("n1",), 1.0, "sbatch --parsable --exclude=n1 --hold job.sh"),
        ("sbatch --hold --exclude n8 job.sh", ("n1",), 1.0, "sbatch --parsable --exclude=n8,n1 --hold job.sh"),
        ("sbatch --mem=1500 job.sh", (), 2.0, "sbatch --parsable --mem=3000M job.sh"),
        ("sbatch --mem 64G -t 5 job.sh", (), 1.5, "sbatch --parsable --mem=98304M -t 5 job.sh"),
        ("sbatch --mem-per-cpu=512K job.sh", (), 4.0, "sbatch --parsable --mem-per-cpu=2M job.sh"),
        ("sbatch --wrap hostname --mem=1G", (), 2.0, "sbatch --parsable --mem=2048M --wrap hostname"),
    ],
)
def test_sbatch_prints_its_job_avoids_nodes_and_asks_for_more(
    tmp_path: Path, command: str, exclude: Sequence[str], factor: float, expected: str
) -> None:
    assert sbatch_words(words(command), exclude, factor, tmp_path) == words(expected)


def test_the_scripts_own_lines_count_and_the_command_wins(tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text(
        "#!/bin/bash\n#SBATCH --mem=2G\n#SBATCH -a 1-4 --nodes=2\n# SBATCH --mem=9G\ntrue\n"
    )
    assert memory_asked(words("sbatch job.sh"), tmp_path) == ("--mem", "2G")
    assert memory_asked(words("sbatch --mem=3G job.sh"), tmp_path) == ("--mem", "3G")
    assert has_option(words("sbatch job.sh"), tmp_path, "--array", "-a")
    assert has_option(words("sbatch --array=1-3 other.sh"), tmp_path, "--array", "-a")
    assert not has_option(words("sbatch other.sh --array=1-3"), tmp_path, "--array", "-a")


@pytest.mark.parametrize(
    "command", ["sbatch job.sh", "sbatch --mem=0 nowhere.sh", "sbatch --mem=half job.sh", "sbatch"]
)
def test_without_a_size_more_memory_cannot_be_asked_for(tmp_path: Path, command: str) -> None:
    (tmp_path / "job.sh").write_text("#!/bin/bash\ntrue\n")
    with pytest.raises(UsageError, match="neither the sbatch command nor its script holds --mem=SIZE"):
        memory_asked(words(command), tmp_path)
