"""The post-processor: one message a run and state, whatever is killed, broken or asked twice."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from outcomes import body, messages, tick_once
from rundirs import NOW, RUN_ID, RunBuilder, gone_pid, record
from smtp_server import MailServer

from gpualert import tell
from gpualert.claims import Claims
from gpualert.mailing import note
from gpualert.places import python_command
from gpualert.post import NotEndedError, post

POST = python_command("post")


def written(state: Path) -> dict[Path, int]:
    """Return when each file was written; lock files do not count."""
    files = (entry for entry in state.rglob("*") if entry.is_file() and entry.name != "lock")
    return {file: file.stat().st_mtime_ns for file in files}


def test_a_failed_run_becomes_one_message(make_run: RunBuilder, state: Path) -> None:
    path = make_run(log=b"step 1\nValueError: bad value\n")
    post(path)
    (mail,) = messages(state)
    assert str(mail["Subject"]).startswith("FAILED ")
    assert "ValueError: bad value" in body(mail)
    assert json.loads((path / "verdict.json").read_text())["status"] == "failed"
    assert json.loads((path / "evidence.json").read_text())["facts"]["status"] == 1
    assert json.loads((path / "artifacts.json").read_text())["artifacts"]
    assert (path / "message.eml").read_bytes().replace(b"\r\n", b"\n") == next(
        (state / "mail/new").iterdir()
    ).read_bytes()


def test_everything_written_is_private_whatever_the_umask(make_run: RunBuilder, state: Path) -> None:
    path = make_run()
    subprocess.run([*POST, str(path)], check=True, umask=0)
    written = [entry for entry in state.rglob("*") if entry.name not in {"lock", "format", "argv", "cwd", "start"}]
    modes = {entry.stat().st_mode & 0o077 for entry in written if entry.name not in {"exit", "output.log"}}
    assert modes == {0}


def test_a_second_post_does_nothing(make_run: RunBuilder, state: Path) -> None:
    path = make_run()
    post(path)
    before = written(state)
    post(path)
    assert written(state) == before


def test_posts_at_once_send_one_message(make_run: RunBuilder, state: Path) -> None:
    path = make_run()
    started = [subprocess.Popen([*POST, str(path)]) for _ in range(4)]
    assert [process.wait() for process in started] == [0, 0, 0, 0]
    assert len(messages(state)) == 1
    assert (path / "claims" / "tries").stat().st_size == 1


@pytest.mark.parametrize("last", ["tries", "ended-classify", "ended-verdict", "ended-message", "ended-queued"])
def test_a_post_killed_after_any_step_goes_on_there_and_sends_no_second_message(
    make_run: RunBuilder, state: Path, last: str
) -> None:
    path = make_run()
    post(path)
    (before,) = messages(state)
    steps = ["tries", "ended-classify", "ended-verdict", "ended-message", "ended-queued", "ended-done"]
    for step in steps[steps.index(last) + 1 :]:
        (path / "claims" / step).unlink()
    post(path)
    (after,) = messages(state)
    assert after["Message-ID"] == before["Message-ID"]
    assert (path / "claims" / "ended-done").exists()


def test_success_is_told_too_unless_only_failures_are_wanted(
    make_run: RunBuilder, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    post(make_run(exit={"status": 0}, log=b"done\n"))
    assert str(messages(state)[0]["Subject"]).startswith("OK")
    monkeypatch.setenv("GPUALERT_ON", "failure")
    post(make_run("20261129T145200Z-node03-00000002", start={"run_id": "x"}, exit={"status": 0}, log=b"done\n"))
    assert len(messages(state)) == 1


@pytest.mark.parametrize(
    ("options", "start"),
    [
        ({"mail": 0}, {}),
        ({"longer_than_s": 101}, {}),
    ],
    ids=["--no-mail", "shorter than asked"],
)
def test_no_message_is_sent_but_the_verdict_is_there(
    make_run: RunBuilder, state: Path, options: dict[str, object], start: dict[str, object]
) -> None:
    path = make_run(options=options, start=start)
    post(path)
    assert messages(state) == []
    assert json.loads((path / "verdict.json").read_text())["status"] == "failed"
    assert (path / "claims" / "ended-done").exists()


@pytest.mark.parametrize("longer_than_s", [0, 99])
def test_a_run_that_lasted_longer_than_asked_sends_its_message_whatever_the_settings_say(
    make_run: RunBuilder, state: Path, monkeypatch: pytest.MonkeyPatch, longer_than_s: int
) -> None:
    monkeypatch.setenv("GPUALERT_LONGER_THAN_S", "1h")
    post(make_run(options={"longer_than_s": longer_than_s}))
    assert len(messages(state)) == 1


def test_the_outermost_run_lists_the_failed_ones_inside_even_if_it_succeeded(
    make_run: RunBuilder, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUALERT_ON", "failure")
    outer = make_run(exit={"status": 0}, log=b"all done\n")
    ids = [f"20261129T1452{n:02}Z-node03-0000000{n}" for n in range(1, 5)]
    make_run(
        ids[0], argv=["inner-good"], start={"run_id": ids[0], "parent_run_id": RUN_ID}, exit={"status": 0}, log=b""
    )
    make_run(ids[1], argv=["inner-bad"], start={"run_id": ids[1], "parent_run_id": RUN_ID})
    make_run(ids[2], argv=["innermost-bad"], start={"run_id": ids[2], "parent_run_id": ids[1]})
    make_run(ids[3], argv=["stranger"], start={"run_id": ids[3]})
    post(outer)
    (mail,) = messages(state)
    text = body(mail)
    assert "inner-bad" in text and "innermost-bad" in text
    assert "inner-good" not in text and "stranger" not in text


def test_a_lost_run_is_told_and_told_again_when_it_turns_out_to_have_ended(make_run: RunBuilder, state: Path) -> None:
    path = make_run(ended=False)
    post(path)
    (lost,) = messages(state)
    assert str(lost["Subject"]).startswith("LOST")
    (path / "exit").write_bytes(record({"status": 0, "ended_at": NOW}))
    post(path)
    assert len(messages(state)) == 2
    assert json.loads((path / "verdict.json").read_text())["status"] != "lost"


def test_a_run_under_way_is_refused(make_run: RunBuilder) -> None:
    path = make_run(start={"pid": os.getpid(), "pid_starttime": ""}, ended=False)
    with pytest.raises(NotEndedError, match="it is running"):
        post(path)
    assert not (path / "claims").exists()


def test_a_run_that_cannot_be_seen_from_here_is_told_only_when_asked(make_run: RunBuilder, state: Path) -> None:
    path = make_run(start={"host": "node99", "boot_id": "another"}, ended=False)
    with pytest.raises(NotEndedError, match="it is unknown"):
        post(path)
    post(path, unknown=True)
    assert str(messages(state)[0]["Subject"]).startswith("UNKNOWN")


def test_until_verdict_stops_there_and_the_rest_follows(make_run: RunBuilder, state: Path) -> None:
    path = make_run()
    subprocess.run([*POST, "--until", "verdict", str(path)], check=True)
    assert (path / "verdict.json").exists() and messages(state) == []
    post(path)
    assert len(messages(state)) == 1


def test_while_the_settings_are_broken_nothing_is_sent_and_once_mended_all_goes_where_they_say(
    make_run: RunBuilder, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, asked = make_run(), make_run("20261129T145139Z-node03-3f9a1c2e", options={"to": "bob@x.org"})
    with MailServer().running() as server:
        for name, value in {"HOST": "127.0.0.1", "PORT": str(server.port), "SECURITY": "none"}.items():
            monkeypatch.setenv(f"GPUALERT_SMTP_{name}", value)
        monkeypatch.setenv("GPUALERT_TO", "ann@x.org")
        monkeypatch.setenv("GPUALERT_FROM", "me@x.org")
        monkeypatch.setenv("GPUALERT_MAIL", "pigeon")
        post(path)
        post(asked)
        ticked = subprocess.run(python_command("tick"), stderr=subprocess.PIPE, check=False)
        assert (path / "verdict.json").exists() and (path / "claims" / "ended-done").exists()
        assert "GPUALERT_MAIL" in (path / "post.log").read_text()
        (line,) = ticked.stderr.decode().splitlines()
        assert "GPUALERT_MAIL" in line and "no message is sent" in line
        assert (server.received, messages(state)) == ([], [])
        monkeypatch.setenv("GPUALERT_MAIL", "smtp")
        assert tick_once(state) == []
        assert [(got.mail_from, got.to) for got in server.received] == [
            ("me@x.org", ["ann@x.org"]),
            ("me@x.org", ["bob@x.org"]),
        ]
    assert messages(state) == []


def test_while_the_settings_are_broken_no_run_is_removed(
    make_run: RunBuilder, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make_run()
    post(path)
    for name in ("exit", "verdict.json", "format"):
        os.utime(path / name, (1e9, 1e9))
    monkeypatch.setenv("GPUALERT_PRUNE_FAILED_S", "for ever")
    subprocess.run(python_command("tick"), stderr=subprocess.DEVNULL, check=False)
    assert path.exists()
    monkeypatch.delenv("GPUALERT_PRUNE_FAILED_S")
    (state / "locks" / "pruned").unlink()
    subprocess.run(python_command("tick"), check=True)
    assert not path.exists(), "it is old enough for the defaults"


@pytest.mark.parametrize("bad", ["bob@", "<", '"', "not an address"])
def test_a_recipient_that_is_no_address_is_named_and_costs_neither_the_report_nor_the_others(
    make_run: RunBuilder, state: Path, monkeypatch: pytest.MonkeyPatch, bad: str
) -> None:
    monkeypatch.setenv("GPUALERT_TO", "ann@x.org")
    alone = make_run(options={"to": bad})
    beside = make_run("20261129T145139Z-node03-3f9a1c2e", options=[("to", bad), ("to", "b@x.org, c@x.org")])
    for path in (alone, beside):
        post(path)
        assert f"no mail address: {bad!r}" in (path / "post.log").read_text()
    assert [mail["To"] for mail in messages(state)] == ["ann@x.org", "b@x.org, c@x.org"]


def test_a_sites_broken_rule_does_not_cost_the_verdict_and_is_said(
    make_run: RunBuilder, state: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "config" / "gpualert" / "rules"
    folder.mkdir(parents=True)
    (folder / "50-mine.yaml").write_text("id: mine\nshape: wrong\n")
    path = make_run()
    post(path)
    verdict = json.loads((path / "verdict.json").read_text())
    assert verdict["class"] == "traceback"
    assert any("50-mine.yaml" in note for note in verdict["notes"])


def test_a_malformed_run_is_refused_and_the_reason_written_down(make_run: RunBuilder, state: Path) -> None:
    path = make_run(exit={"status": "fine"})
    assert subprocess.run([*POST, str(path)], check=False).returncode == 1
    assert "file 'exit', key 'status': 'fine' is no number" in (path / "post.log").read_text()
    assert messages(state) == []


def test_logs_that_kill_their_reader_twice_are_left_out(make_run: RunBuilder, state: Path) -> None:
    path = make_run()
    claims = Claims.of(path)
    claims.count("ended-classify"), claims.count("ended-classify")
    post(path)
    verdict = json.loads((path / "verdict.json").read_text())
    assert (verdict["status"], verdict["class"]) == ("failed", "unknown")
    assert "the logs: reading them has failed before" in verdict["not_read"]
    assert len(messages(state)) == 1


def test_a_report_that_cannot_be_made_becomes_a_bare_message(
    make_run: RunBuilder, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("deep inside")

    monkeypatch.setattr(tell, "report_of", broken)
    path = make_run()
    post(path)
    (mail,) = messages(state)
    assert str(mail["Subject"]).startswith("FAILED ")
    assert f"gpualert show {RUN_ID}" in body(mail)
    assert "ZeroDivisionError: deep inside" in (path / "post.log").read_text()


def test_hostile_names_and_bytes_become_a_message(make_run: RunBuilder, state: Path, tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path) + b"/\xff\n\x1b[2Jfolder"
    os.mkdir(folder)  # noqa: PTH102
    evil = b"x\r\nBcc: victim@example.org\r\n\r\n\x1b]0;title\x07<script>"
    path = make_run(argv=[b"python", evil], cwd=folder, log=b"Error: \xff\x00\x1b[31m <script>alert(1)</script>\n")
    post(path)
    (mail,) = messages(state)
    assert mail["Bcc"] is None
    assert "\x1b" not in body(mail) and "\\x1b" in body(mail)
    for file in path.glob("*.json"):
        file.read_bytes().decode("ascii")
        json.dumps(json.loads(file.read_text()), ensure_ascii=False).encode("utf-8")  # no lone surrogates


def test_a_run_that_names_a_chain_that_nobody_keeps_is_told_like_any_other(make_run: RunBuilder, state: Path) -> None:
    path = make_run(start={"chain": "nightly"})
    post(path)
    assert not (path / "retry.json").exists()
    assert len(messages(state)) == 1


def test_a_run_directory_that_was_copied_elsewhere_leaves_nothing_beside_it(
    make_run: RunBuilder, state: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "corpus" / "class" / "case"
    copy.parent.mkdir(parents=True)
    make_run().rename(copy)
    subprocess.run([*POST, str(copy)], check=True)
    assert len(messages(state)) == 1
    assert [entry.name for entry in (tmp_path / "corpus").rglob("*") if copy not in (entry, *entry.parents)] == [
        "class"
    ]


def test_an_interrupted_launch_is_no_run_to_report(make_run: RunBuilder) -> None:
    with pytest.raises(NotEndedError, match="it is launching"):
        post(make_run(started=False, ended=False))


def test_what_is_inherited_from_the_job_is_let_go(make_run: RunBuilder) -> None:
    path = make_run(start={"stdout_tee_pid": gone_pid()})
    read_end, write_end = os.pipe()
    process = subprocess.Popen([*POST, "--wait", str(path)], pass_fds=[write_end], stdin=subprocess.DEVNULL)
    os.close(write_end)
    assert os.read(read_end, 1) == b""  # would wait for ever if a child of it kept the pipe
    assert process.wait() == 0
    os.close(read_end)


@pytest.mark.parametrize("by_shim", [True, False], ids=["by the shim", "by a tick"])
def test_what_was_allotted_is_told_by_the_jobs_environment_only(make_run: RunBuilder, by_shim: bool) -> None:
    path = make_run()
    environ = {**os.environ, "CUDA_VISIBLE_DEVICES": "0"}
    subprocess.run([*POST, str(path)], cwd=path if by_shim else "/", env=environ, check=True)
    facts = json.loads((path / "evidence.json").read_text())["facts"]
    assert facts["gpu_allotted"] is (True if by_shim else None)


def test_the_working_directory_and_pythonpath_of_the_job_cannot_stop_it(
    make_run: RunBuilder, state: Path, tmp_path: Path
) -> None:
    trap = tmp_path / "trap"
    trap.mkdir()
    for name in ("json", "click", "gpualert", "yaml"):
        (trap / f"{name}.py").write_text("raise SystemExit('trapped')\n")
    path = make_run()
    environ = {**os.environ, "PYTHONPATH": str(trap), "PYTHONHOME": "/nowhere", "PYTHONSTARTUP": str(trap / "json.py")}
    subprocess.run([*POST, str(path)], cwd=path, env=environ, check=True)
    assert len(messages(state)) == 1


INNER_ID = "20261129T145201Z-node03-00000001"


@pytest.mark.parametrize(
    ("outer", "told"),
    [
        ({"ended": False}, 0),
        ({}, 0),
        (None, 1),
    ],
    ids=["is under way", "ended later", "is gone"],
)
def test_a_run_inside_another_is_silent_where_the_report_of_that_one_tells_of_it(
    make_run: RunBuilder, state: Path, outer: dict[str, object] | None, told: int
) -> None:
    if outer is not None:
        make_run(**outer)  # type: ignore[arg-type]
    path = make_run(INNER_ID, start={"run_id": INNER_ID, "parent_run_id": RUN_ID})
    os.utime(path / "exit", (NOW, NOW))
    post(path)
    assert len(messages(state)) == told
    assert json.loads((path / "verdict.json").read_text())["status"] == "failed"
    assert (path / "claims" / "ended-done").exists()


def test_a_run_that_outlived_the_one_it_was_started_in_tells_itself(make_run: RunBuilder, state: Path) -> None:
    os.utime(make_run() / "exit", (NOW, NOW))
    post(make_run(INNER_ID, start={"run_id": INNER_ID, "parent_run_id": RUN_ID}))
    assert len(messages(state)) == 1


def test_a_run_inside_another_that_was_told_as_lost_tells_itself(make_run: RunBuilder, state: Path) -> None:
    outer = make_run(ended=False)
    Claims.of(outer).mark("lost-done")
    os.utime(outer / "claims" / "lost-done", (NOW - 1, NOW - 1))
    post(make_run(INNER_ID, start={"run_id": INNER_ID, "parent_run_id": RUN_ID}))
    assert len(messages(state)) == 1


@pytest.mark.parametrize("name", ["../..", "/etc", ".", RUN_ID], ids=str)
def test_a_parent_that_is_no_other_run_is_none(make_run: RunBuilder, state: Path, name: str) -> None:
    post(make_run(start={"parent_run_id": name}))
    assert len(messages(state)) == 1


def test_a_fifo_as_its_log_does_not_hang_a_report(make_run: RunBuilder, state: Path) -> None:
    path = make_run()
    os.mkfifo(path / "post.log")
    note(path, "said to nobody")
    subprocess.run([*POST, str(path)], check=True, timeout=60)
    assert len(messages(state)) == 1


def test_a_lock_that_cannot_be_taken_counts_as_a_try(make_run: RunBuilder, tmp_path: Path) -> None:
    path = make_run()
    Claims.of(path)
    (path / "claims" / "lock").mkdir()
    with pytest.raises(OSError, match="lock"):
        post(path)
    assert (path / "claims" / "tries").stat().st_size == 1
