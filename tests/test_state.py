"""State folders, and the names of runs in them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from rundirs import RunBuilder

from gpualert.state import NoSuchRunError, find_run, run_paths, state_folders

FIRST = "20261129T145138Z-node03-3f9a1c2e"
SECOND = "20261129T145139Z-node04-00000001"


def test_runs_are_listed_oldest_first_over_all_folders(tmp_path: Path) -> None:
    second = RunBuilder(tmp_path / "a")(SECOND)
    first = RunBuilder(tmp_path / "b")(FIRST)
    (tmp_path / "a/runs/.removed").mkdir()
    (tmp_path / "a/runs/file").touch()
    assert run_paths([tmp_path / "a", tmp_path / "b", tmp_path / "none"]) == [first, second]


def test_a_fallback_folder_counts_only_where_it_is_private_and_ours(tmp_path: Path) -> None:
    home, base = tmp_path / "state", tmp_path / "base"
    folder = base / f"gpualert-{os.geteuid()}"
    folder.mkdir(parents=True)
    folder.chmod(0o755)
    environ = {"TMPDIR": str(base)}
    assert folder not in state_folders(home, environ)
    folder.chmod(0o700)
    assert state_folders(home, environ)[:2] == [home, folder]
    folder.rename(tmp_path / "moved")
    folder.symlink_to(tmp_path / "moved")
    assert folder not in state_folders(home, environ)


@pytest.mark.parametrize(
    ("word", "found"),
    [("last", SECOND), (FIRST, FIRST), ("20261129T145138Z", FIRST), ("node04", SECOND), ("3f9a", FIRST)],
)
def test_a_run_is_found_by_what_only_it_has(make_run: RunBuilder, state: Path, word: str, found: str) -> None:
    make_run(FIRST), make_run(SECOND)
    assert find_run(word, [state]).name == found


def test_a_run_is_found_by_its_path(make_run: RunBuilder, state: Path) -> None:
    path = make_run(FIRST)
    assert find_run(str(path), []) == path


@pytest.mark.parametrize("word", ["20261129T145137Z-node03-3f9a1c2e", "nothing like it", ""])
def test_a_missing_run_lists_near_names(make_run: RunBuilder, state: Path, word: str) -> None:
    make_run(FIRST)
    with pytest.raises(NoSuchRunError, match=f"cannot find run '{word}': no such run; did you mean {FIRST}"):
        find_run(word, [state])


def test_a_word_that_several_runs_have_is_refused(make_run: RunBuilder, state: Path) -> None:
    make_run(FIRST), make_run(SECOND)
    with pytest.raises(NoSuchRunError, match="2 runs have that"):
        find_run("2026", [state])


def test_without_any_run_the_last_is_missing(state: Path) -> None:
    with pytest.raises(NoSuchRunError, match="cannot find run 'last': no such run; see: gpualert runs"):
        find_run("last", [state])


def test_runs_of_one_second_are_in_the_order_of_their_start(make_run: RunBuilder, state: Path) -> None:
    names = ["20261129T145138Z-node03-ffffffff", "20261129T145138Z-node03-00000000", "20261129T145138Z-a-11111111"]
    paths = [make_run(name) for name in names]
    for seconds, path in enumerate(paths):
        os.utime(path / "start", (seconds, seconds))
    assert run_paths([state]) == paths
    assert find_run("last", [state]) == paths[-1]
