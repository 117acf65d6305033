"""The tick: finishes what others left unfinished, once, and has nothing to say when all is well."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from outcomes import messages, tick_once
from rundirs import NOW, RUN_ID, RunBuilder, record
from smtp_server import MailServer, closed_port

from gpualert.claims import MAX_TRIES, Claims, locked
from gpualert.config import Prune
from gpualert.history import read_history
from gpualert.listing import entry
from gpualert.places import python_command
from gpualert.post import post
from gpualert.prune import Kept, prune, to_remove
from gpualert.rundir import read_run
from gpualert.tick import LOST_DONE, find_due, prune_state

OTHER_ID = "20261129T145200Z-node03-00000002"
DAY_S = 86400.0


def aged(path: Path, age_s: float) -> Path:
    """Make all of a run look that old."""
    then = time.time() - age_s
    for file in [*path.rglob("*"), path]:
        os.utime(file, (then, then))
    return path


def test_an_ended_run_that_nobody_reported_is_reported_once_and_silently(make_run: RunBuilder, state: Path) -> None:
    make_run()
    assert tick_once(state) == []
    assert tick_once(state) == []
    assert len(messages(state)) == 1


def test_a_lost_run_is_reported_once(make_run: RunBuilder, state: Path) -> None:
    make_run(ended=False)
    assert tick_once(state) == tick_once(state) == []
    (mail,) = messages(state)
    assert str(mail["Subject"]).startswith("LOST")


def test_a_run_that_is_under_way_is_left_alone(make_run: RunBuilder, state: Path) -> None:
    path = make_run(start={"pid": os.getpid(), "pid_starttime": ""}, ended=False)
    assert tick_once(state) == []
    assert not (path / "claims").exists()


def test_an_unknown_run_is_reported_once_after_a_day_without_a_sign_of_life(make_run: RunBuilder, state: Path) -> None:
    start = {"host": "node99", "boot_id": "another", "started_at": time.time() - DAY_S + 600}
    path = make_run(start=start, ended=False)
    assert tick_once(state) == [] and messages(state) == []
    (path / "start").write_bytes((path / "start").read_bytes().replace(b"started_at=", b"started_at=1.5\nwas="))
    assert tick_once(state) == [] and messages(state) == []  # it wrote not long ago
    aged(path, 2 * DAY_S)
    assert tick_once(state) == tick_once(state) == []
    (mail,) = messages(state)
    assert str(mail["Subject"]).startswith("UNKNOWN")


def test_an_abandoned_launch_is_silent(make_run: RunBuilder, state: Path) -> None:
    aged(make_run(started=False, ended=False), 3600)
    assert tick_once(state) == [] and messages(state) == []


def test_a_malformed_run_is_complained_about_once_and_does_not_keep_others_waiting(
    make_run: RunBuilder, state: Path
) -> None:
    bad = aged(make_run(exit={"status": "fine"}), 3600)
    make_run(OTHER_ID, start={"run_id": OTHER_ID})
    (complaint,) = tick_once(state)
    assert f"cannot read run '{bad}': file 'exit', key 'status': 'fine' is no number" in complaint
    assert tick_once(state) == []
    assert len(messages(state)) == 1


def test_a_run_in_the_making_is_not_malformed(make_run: RunBuilder, state: Path) -> None:
    path = make_run()
    (path / "format").unlink()
    assert tick_once(state) == []
    (path / "format").write_text("gpualert-run/1\n")
    assert tick_once(state) == [] and len(messages(state)) == 1


def test_a_report_that_fails_again_and_again_is_given_up_with_one_complaint(make_run: RunBuilder, state: Path) -> None:
    claims = Claims.of(make_run())
    for _ in range(MAX_TRIES):
        claims.count("tries")
    (complaint,) = tick_once(state)
    assert f"gave up on the report of run '{state}/runs/{RUN_ID}' after {MAX_TRIES} tries" in complaint
    assert tick_once(state) == []


def test_a_run_that_another_process_is_reporting_is_left_to_it(make_run: RunBuilder, state: Path) -> None:
    claims = Claims.of(make_run())
    with claims.held(5):
        assert find_due(state, pytest.fail) == []
    assert len(find_due(state, pytest.fail)) == 1


def test_a_report_that_never_ends_is_complained_about_once(make_run: RunBuilder, state: Path) -> None:
    claims = Claims.of(make_run())
    claims.count("tries")
    complaints: list[str] = []
    with claims.held(5):
        for later_s in (0.0, 3601.0, 7200.0):
            assert find_due(state, complaints.append, time.time() + later_s) == []
    assert len(complaints) == 1 and RUN_ID in complaints[0]


def test_tries_are_spaced(make_run: RunBuilder, state: Path) -> None:
    claims = Claims.of(make_run())
    claims.count("tries"), claims.count("tries")
    assert find_due(state, pytest.fail, time.time()) == []
    assert len(find_due(state, pytest.fail, time.time() + 61)) == 1


def test_two_ticks_at_once_are_one(make_run: RunBuilder, state: Path) -> None:
    make_run()
    (state / "locks").mkdir(mode=0o700)
    with locked(state / "locks" / "tick", 5):
        done = subprocess.run(python_command("tick"), capture_output=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert messages(state) == []


def test_a_tick_that_never_ends_is_complained_about_by_others_once_an_hour(make_run: RunBuilder, state: Path) -> None:
    make_run()
    assert tick_once(state) == []
    with locked(state / "locks" / "tick", 5):
        assert tick_once(state) == []
        aged(state / "locks", 3601)
        (complaint,) = tick_once(state)
        assert f"no tick has ended in '{state}'" in complaint
        assert tick_once(state) == []


def test_a_message_that_could_not_be_sent_is_sent_later_and_silently(
    make_run: RunBuilder, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in MailServer(port=closed_port()).environ.items():
        monkeypatch.setenv(name, value)
    path = make_run()
    post(path)
    assert "smtp" in (path / "post.log").read_text()
    assert tick_once(state) == []
    assert len(list((state / "outbox").glob("*.eml"))) == 1
    monkeypatch.setenv("GPUALERT_MAIL", "maildir")
    for item in (state / "outbox").glob("[!.]*.json"):
        item.write_text(item.read_text().replace('"next_at": ', '"next_at": 1.5, "was": '))
    assert tick_once(state) == []
    assert len(messages(state)) == 1 and not list((state / "outbox").glob("*.eml"))


def test_runs_in_a_fallback_folder_are_found_and_told_at_home(
    tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fallback = Path(os.environ["TMPDIR"]) / f"gpualert-{os.geteuid()}"
    path = RunBuilder(fallback)()
    done = subprocess.run(python_command("tick"), capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert (path / "claims" / "ended-done").exists()
    assert len(messages(state)) == 1


def kept(name: str, age_d: float, succeeded: bool = True, size_bytes: int = 10, inodes: int = 1) -> Kept:
    return Kept(Path(name), NOW - age_d * DAY_S, succeeded, size_bytes, inodes)


@pytest.mark.parametrize(
    ("runs", "policy", "gone"),
    [
        ([kept("a", 8), kept("b", 6), kept("c", 8, False), kept("d", 91, False)], Prune(), ["d", "a"]),
        ([kept("a", 1), kept("b", 2), kept("c", 3, False)], Prune(max_bytes=15), ["b", "a"]),
        ([kept("a", 1, False), kept("b", 2, False), kept("c", 3)], Prune(max_inodes=2), ["c"]),
        ([], Prune(), []),
    ],
    ids=["by age", "by bytes, the successful first", "by inodes", "nothing"],
)
def test_old_runs_go_by_age_and_caps(runs: list[Kept], policy: Prune, gone: list[str]) -> None:
    assert [run.path.name for run in to_remove(runs, policy, NOW)] == gone


def test_a_removed_run_leaves_one_line_of_history(make_run: RunBuilder, state: Path) -> None:
    path = make_run(exit={"status": 0}, log=b"done\n")
    post(path)
    aged(path, 8 * DAY_S)
    assert prune_state(state, Prune(), time.time()) == [path]
    assert list((state / "runs").iterdir()) == [] and not list((state / "outbox" / "sent").iterdir())
    (line,) = read_history(state)
    assert (line["run_id"], line["status"], line["exit_status"], line["command"]) == (
        RUN_ID,
        "succeeded",
        0,
        ["python", "train.py"],
    )


def test_what_is_unfinished_or_undelivered_is_never_removed(
    make_run: RunBuilder, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_caps = Prune(succeeded_s=0, failed_s=0, max_bytes=0, max_inodes=0)
    unreported = aged(make_run(), 100 * DAY_S)
    running = make_run("b", start={"run_id": "b", "pid": os.getpid(), "pid_starttime": ""}, ended=False)
    monkeypatch.setenv("GPUALERT_MAIL", "sendmail")
    monkeypatch.setenv("GPUALERT_SENDMAIL_PATH", "/bin/false")
    undelivered = make_run("c", start={"run_id": "c"})
    post(undelivered)
    for path in (unreported, running, undelivered):
        aged(path, 100 * DAY_S)
    assert prune_state(state, no_caps, time.time()) == []
    assert unreported.exists() and running.exists() and undelivered.exists()


def test_a_lost_run_that_was_reported_and_an_abandoned_launch_may_go(make_run: RunBuilder, state: Path) -> None:
    lost, launch = make_run(ended=False), make_run("a", started=False, ended=False)
    Claims.of(lost).mark(LOST_DONE)
    aged(lost, 91 * DAY_S), aged(launch, 91 * DAY_S)
    assert set(prune_state(state, Prune(), time.time())) == {lost, launch}


def test_a_removal_that_was_interrupted_is_finished(make_run: RunBuilder, state: Path) -> None:
    path = make_run()
    path.rename(path.with_name(f".removed-{path.name}"))
    prune(state, [], Prune(), lambda _: True, NOW)
    assert list((state / "runs").iterdir()) == []


def test_a_run_that_ends_while_it_looks_lost_is_reported_as_ended(make_run: RunBuilder, state: Path) -> None:
    path = make_run(ended=False)
    (due,) = find_due(state, pytest.fail)
    (path / "exit").write_bytes(record({"status": 3, "ended_at": NOW}))
    assert due.run.exit is None and read_run(path).exit
    assert tick_once(state) == []
    assert str(messages(state)[0]["Subject"]).startswith("FAILED")


@pytest.mark.parametrize(
    "damage",
    [b"[" * 100_000, b"[]", b'{"facts": ["x"], "machine": [], "status": [], "class": {}}'],
    ids=["deep", "list", "types"],
)
def test_damaged_json_stops_neither_reports_nor_removal(make_run: RunBuilder, state: Path, damage: bytes) -> None:
    path, fresh = make_run(), make_run(OTHER_ID, start={"run_id": OTHER_ID})
    post(path)
    for name in ("verdict.json", "evidence.json"):
        (path / name).write_bytes(damage)
    (path / "claims" / "ended-done").unlink()
    assert tick_once(state) == []
    assert (path / "claims" / "ended-done").exists() and (fresh / "claims" / "ended-done").exists()
    for name in ("verdict.json", "evidence.json"):
        (path / name).write_bytes(damage)
    assert entry(path).run_id == path.name
    aged(path, 100 * DAY_S)
    assert prune_state(state, Prune(), time.time()) == [path]


def test_a_fifo_in_place_of_post_log_keeps_nobody_waiting(make_run: RunBuilder, state: Path) -> None:
    os.mkfifo(make_run() / "post.log")
    assert tick_once(state) == []
    assert len(messages(state)) == 1


def test_a_run_in_a_fallback_folder_stays_while_its_message_waits_at_home(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fallback = Path(os.environ["TMPDIR"]) / f"gpualert-{os.geteuid()}"
    monkeypatch.setenv("GPUALERT_MAIL", "sendmail")
    monkeypatch.setenv("GPUALERT_SENDMAIL_PATH", "/bin/false")
    path = RunBuilder(fallback)()
    post(path)
    assert list((state / "outbox").glob("*.json"))
    aged(path, 100 * DAY_S)
    assert prune_state(fallback, Prune(), time.time(), [state, fallback]) == []


def test_a_run_whose_lock_cannot_be_taken_is_given_up_with_one_complaint(make_run: RunBuilder, state: Path) -> None:
    claims = Claims.of(make_run())
    (claims.folder / "lock").mkdir()
    complaints = []
    for _ in range(MAX_TRIES + 2):
        complaints += tick_once(state)
        if (claims.folder / "tries").exists():
            os.utime(claims.folder / "tries", (1, 1))
    (complaint,) = complaints
    assert "gave up" in complaint


def test_a_complaint_is_printed_although_the_tick_is_killed_later(make_run: RunBuilder, state: Path) -> None:
    bad, waits = aged(make_run(exit={"status": "fine"}), 3600), make_run(OTHER_ID, start={"run_id": OTHER_ID})
    (waits / "output.log").unlink()
    (waits / "start").write_text(
        (waits / "start").read_text().replace("stdout_tee_pid=", f"stdout_tee_pid={os.getpid()}\nwas=")
    )
    ticking = subprocess.Popen(python_command("tick"), stderr=subprocess.PIPE, start_new_session=True)
    assert ticking.stderr and str(bad) in ticking.stderr.readline().decode()
    assert ticking.poll() is None
    os.killpg(ticking.pid, signal.SIGKILL)
    ticking.communicate()


def test_prune_by_hand_keeps_a_fallback_run_whose_message_waits_at_home(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fallback = Path(os.environ["TMPDIR"]) / f"gpualert-{os.geteuid()}"
    monkeypatch.setenv("GPUALERT_MAIL", "sendmail")
    monkeypatch.setenv("GPUALERT_SENDMAIL_PATH", "/bin/false")
    path = RunBuilder(fallback)()
    post(path)
    aged(path, 100 * DAY_S)
    subprocess.run(python_command("prune"), capture_output=True, check=True)
    assert path.exists()


def test_finished_runs_are_looked_at_once_and_the_list_of_them_may_be_deleted(
    make_run: RunBuilder, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        run_id = f"2026112{number}T145138Z-node03-3f9a1c2e"
        Claims.of(make_run(run_id, start={"run_id": run_id})).mark("ended-done")
    listed = state / "locks" / "finished"
    listed.parent.mkdir(mode=0o700)
    for _ in range(2):
        assert find_due(state, pytest.fail) == find_due(state, pytest.fail) == []
        assert len(listed.read_text().splitlines()) == 3
        listed.unlink()
    fresh = make_run()
    assert [due.run.path for due in find_due(state, pytest.fail)] == [fresh]


def test_names_of_runs_that_are_gone_do_not_pile_up(make_run: RunBuilder, state: Path) -> None:
    path = make_run()
    Claims.of(path).mark("ended-done")
    (state / "locks").mkdir(mode=0o700)
    (state / "locks" / "finished").write_text("".join(f"gone-{number}\n" for number in range(2000)) + path.name + "\n")
    assert find_due(state, pytest.fail) == []
    assert (state / "locks" / "finished").read_text() == f"{path.name}\n"


@pytest.mark.parametrize("kind", ["link", "folder", "fifo"])
def test_something_else_in_place_of_the_list_changes_nothing(make_run: RunBuilder, state: Path, kind: str) -> None:
    path = make_run()
    (state / "locks").mkdir(mode=0o700)
    listed = state / "locks" / "finished"
    if kind == "link":
        listed.symlink_to(path / "output.log")
    elif kind == "folder":
        listed.mkdir()
    else:
        os.mkfifo(listed)
    assert tick_once(state) == tick_once(state) == []
    assert len(messages(state)) == 1


def test_what_a_report_gave_up_is_said_by_the_next_tick_once(
    make_run: RunBuilder, state: Path, server: MailServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in server.environ.items():
        monkeypatch.setenv(name, value)
    server.answer("RCPT", "550 5.1.1 no such user")
    post(make_run())
    (complaint,) = tick_once(state)
    assert "550 5.1.1 no such user" in complaint and RUN_ID in complaint
    assert tick_once(state) == []


def test_a_message_that_was_given_up_does_not_outlive_its_run(
    make_run: RunBuilder, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUALERT_MAIL", "sendmail")
    program = state.parent / "sendmail"
    program.write_text("#!/bin/sh\nexit 67\n")
    program.chmod(0o755)
    monkeypatch.setenv("GPUALERT_SENDMAIL_PATH", str(program))
    path = make_run()
    post(path)
    assert list((state / "outbox" / "dead").iterdir())
    aged(path, 100 * DAY_S)
    assert prune_state(state, Prune(), time.time()) == [path]
    assert not list((state / "outbox" / "dead").iterdir())


def test_a_run_that_is_collected_for_a_digest_is_not_removed(make_run: RunBuilder, state: Path) -> None:
    first, second = make_run(), make_run(OTHER_ID, start={"run_id": OTHER_ID})
    for path in (first, second):
        post(path)
        aged(path, 100 * DAY_S)
    assert prune_state(state, Prune(), time.time()) == [first]
