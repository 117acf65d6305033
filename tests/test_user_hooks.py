"""Programs of the user's own hear of each verdict, and change nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from outcomes import messages
from rundirs import RUN_ID, RunBuilder

from gpualert.post import post

HEARD = '#!/bin/sh\ncat >"$HEARD/$(basename "$0")"\nenv | grep ^GPUALERT_RUN >>"$HEARD/env"\n'


@pytest.fixture
def hooks(tmp_path: Path) -> Path:
    """Return the folder of the user's hooks."""
    folder = tmp_path / "config" / "gpualert" / "hooks" / "on-verdict.d"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "heard"
    folder.mkdir()
    monkeypatch.setenv("HEARD", str(folder))
    return folder


def add(folder: Path, name: str, text: str = HEARD, mode: int = 0o755) -> None:
    (folder / name).write_text(text)
    (folder / name).chmod(mode)


def log_of(path: Path) -> str:
    return (path / "post.log").read_text() if (path / "post.log").exists() else ""


def test_a_hook_hears_the_verdict_and_the_facts_once(make_run: RunBuilder, hooks: Path, heard: Path) -> None:
    add(hooks, "10-mine")
    path = make_run(exit={"status": 7})
    post(path), post(path)
    verdict = json.loads((heard / "10-mine").read_text())
    assert (verdict["run_id"], verdict["class"]) == (RUN_ID, "traceback")
    facts = dict(line.split("=", 1) for line in (heard / "env").read_text().splitlines())
    assert facts["GPUALERT_RUN"] == RUN_ID and facts["GPUALERT_RUN_DIR"] == str(path)
    assert (facts["GPUALERT_RUN_STATUS"], facts["GPUALERT_RUN_EXIT_STATUS"]) == ("failed", "7")
    assert log_of(path) == ""


def test_hooks_run_in_the_order_of_their_names_and_what_they_print_is_kept(
    make_run: RunBuilder, hooks: Path, state: Path
) -> None:
    for name in ("20-b", "10-a"):
        add(hooks, name, f"#!/bin/sh\necho it is {name}; echo '\x1b[31mred' >&2\n")
    path = make_run(exit={"status": 0}, log=b"fine\n")
    post(path)
    lines = log_of(path).splitlines()
    assert "10-a': it is 10-a" in lines[0] and "20-b': it is 20-b" in lines[1] and "\x1b" not in log_of(path)
    assert len(messages(state)) == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("#!/bin/sh\necho no; exit 3\n", "exit status 3: no"),
        ("#!/bin/sh\nkill -9 $$\n", "exit status -9"),
        ("#!/no/such/interpreter\n", "cannot be run: No such file"),
        ("#!/bin/sh\nsleep 600 & sleep 600\n", "killed: no end within"),
    ],
    ids=["fails", "dies", "cannot start", "hangs"],
)
def test_a_hook_that_goes_wrong_is_said_and_changes_nothing(
    make_run: RunBuilder, hooks: Path, state: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str
) -> None:
    monkeypatch.setenv("GPUALERT_HOOK_LIMIT_S", "1")
    add(hooks, "bad", text)
    path = make_run()
    post(path)
    assert said in log_of(path)
    assert len(messages(state)) == 1 and (path / "claims" / "ended-done").exists()


def test_what_a_hook_leaves_in_the_background_keeps_nobody_waiting(make_run: RunBuilder, hooks: Path) -> None:
    add(hooks, "daemon", "#!/bin/sh\nsleep 30 &\necho started\n")
    path = make_run()
    post(path)
    assert log_of(path).endswith("daemon': started\n")


def test_on_failure_is_run_after_a_failure_and_not_after_a_success(make_run: RunBuilder, heard: Path) -> None:
    line = 'echo "$GPUALERT_RUN_CLASS" >>"$HEARD/class"'
    for number, status in enumerate([0, 1]):
        run_id = f"2026112{number}T145138Z-node03-3f9a1c2e"
        post(
            make_run(
                run_id, start={"run_id": run_id}, exit={"status": status}, options={"on_failure": line}, log=b"x\n"
            )
        )
    assert (heard / "class").read_text() == "unknown\n"


@pytest.mark.parametrize("mode", [0o644, 0o757, 0o775], ids=["not executable", "writable by all", "by the group"])
def test_what_others_may_change_or_nobody_may_run_is_no_hook(
    make_run: RunBuilder, hooks: Path, heard: Path, mode: int
) -> None:
    add(hooks, "bad", mode=mode)
    os.mkfifo(hooks / "fifo")
    (hooks / "folder").mkdir()
    (hooks / "gone").symlink_to(hooks / "nowhere")
    path = make_run()
    post(path)
    assert not list(heard.iterdir()) and log_of(path) == ""


def test_a_job_whose_end_waits_waits_for_hooks_five_seconds_at_most(make_run: RunBuilder, hooks: Path) -> None:
    add(hooks, "1-slow", "#!/bin/sh\nsleep 600\n")
    add(hooks, "2-next", "#!/bin/sh\necho never\n")
    path = make_run()
    post(path, wait=True)
    assert "no end within" in log_of(path) and "not run: those before took all the time" in log_of(path)
