"""The hand-over from the shim: out of the job's way, and no crowd on a node where many jobs end at once."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from outcomes import messages
from rundirs import RunBuilder

from gpualert.handover import main, turn
from gpualert.places import python_command


def places(state: Path) -> list[Path]:
    return sorted((state / "locks").glob("post-*"))


def is_held(place: Path) -> bool:
    with place.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


def test_each_has_a_place_of_its_own_while_there_are_some(make_run: RunBuilder, state: Path) -> None:
    path = make_run()
    with ExitStack() as stack:
        for number in range(min(os.cpu_count() or 1, 2)):
            stack.enter_context(turn(path, 5.0))
            assert sum(map(is_held, places(state))) == number + 1
    assert not any(map(is_held, places(state)))


def test_whoever_finds_no_place_goes_on_after_a_while(make_run: RunBuilder, state: Path) -> None:
    path = make_run()
    with ExitStack() as stack:
        for _ in range(8):
            stack.enter_context(turn(path, 0.0))
        held = sum(map(is_held, places(state)))
        with turn(path, 0.1):
            assert held == sum(map(is_held, places(state))) == len(places(state))


def test_where_there_can_be_no_places_nobody_waits(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with turn(tmp_path / "file" / "runs" / "run", 600.0):
        assert (tmp_path / "file").is_file()


def test_more_posts_than_places_all_report(make_run: RunBuilder, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUALERT_DIGEST_WINDOW_S", "0")
    paths = [make_run(f"run-{number}", start={"run_id": f"run-{number}"}) for number in range(8)]
    started = [subprocess.Popen(python_command("post", str(path))) for path in paths]
    assert [process.wait() for process in started] == [0] * 8
    assert len(messages(state)) == 8


def test_nothing_large_is_imported_before_ones_turn() -> None:
    script = "import sys; import gpualert.__main__, gpualert.handover; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not {"click", "jinja2", "yaml", "filelock", "gpualert.post", "gpualert.model"} & set(done.stdout.split())


@pytest.mark.parametrize("words", [[], ["last"], ["--json", "/run"], ["--wait"]], ids=str)
def test_other_words_are_for_the_command_line(words: list[str]) -> None:
    assert main(words) is None
