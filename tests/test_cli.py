"""The command line: what it prints, what it exits with, and what it says to bad input."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rundirs import RUN_ID, RunBuilder, items

from gpualert import __version__
from gpualert.cli import _COMMANDS, main
from gpualert.cli.setup import crontab_line
from gpualert.places import PLACES, python_command
from gpualert.post import post

OTHER_ID = "20261129T145200Z-node03-00000002"


def complaint(capsys: pytest.CaptureFixture[str]) -> str:
    """Return the one line on standard error."""
    err = capsys.readouterr().err
    assert err.startswith("gpualert: ") and err.count("\n") == 1
    return err


@pytest.mark.parametrize("name", _COMMANDS)
def test_every_command_has_help(name: str) -> None:
    done = subprocess.run(python_command("help", name), capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"Usage: gpualert {name}")


def test_without_words_the_commands_are_listed_and_none_is_imported() -> None:
    script = (
        "import sys; from gpualert.cli import main; main([]); print([m for m in sys.modules if 'gpualert.cli.' in m])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert all(f"  {name} " in done.stdout for name in _COMMANDS)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["rnus"], "no such command 'rnus'; did you mean 'runs'?"),
        (["xyzzy"], "no such command 'xyzzy'; see: gpualert help"),
        (["runs", "--colour"], "No such option"),
        (["runs", "-n", "many"], "'many' is not a valid integer"),
        (["path"], "Missing argument"),
        (["path", "kitchen"], "'kitchen' is not one of"),
        (["config", "smtp.hots"], "no such setting 'smtp.hots'"),
        (["help", "xyzzy"], "no such command 'xyzzy'"),
        (["post", "--until", "tea"], "'tea' is not"),
        (["show", "a", "b"], "Got unexpected extra argument"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_words_are_one_line_and_status_2(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert said in complaint(capsys)


def test_a_missing_run_lists_near_names_and_status_1(make_run: RunBuilder, capsys: pytest.CaptureFixture[str]) -> None:
    make_run()
    assert main(["show", RUN_ID[:-1] + "x"]) == 1
    assert f"did you mean {RUN_ID}?" in complaint(capsys)


def test_a_malformed_run_names_file_key_and_reason_and_status_2(
    make_run: RunBuilder, capsys: pytest.CaptureFixture[str]
) -> None:
    make_run(start={"pid": "x"})
    assert main(["show"]) == 2
    assert "file 'start', key 'pid': 'x' is no number" in complaint(capsys)


def test_runs_lists_the_newest_last_with_what_became_of_them(
    make_run: RunBuilder, capsys: pytest.CaptureFixture[str]
) -> None:
    post(make_run())
    make_run(OTHER_ID, start={"run_id": OTHER_ID, "pid": os.getpid(), "pid_starttime": ""}, ended=False)
    make_run("20270101T000000Z-bad", exit={"status": "x"})
    assert main(["runs"]) == 0
    head, first, second, third = capsys.readouterr().out.splitlines()
    assert head.split()[:3] == ["RUN", "STATUS", "EXIT"]
    assert first.split()[:2] == [RUN_ID, "failed"] and first.endswith("python train.py")
    assert second.split()[:2] == [OTHER_ID, "running"]
    assert "unreadable" in third and "key 'status': 'x' is no number" in third
    assert main(["runs", "--failed", "-n", "1", "--json"]) == 0
    (only,) = json.loads(capsys.readouterr().out)
    assert only["run_id"] == "20270101T000000Z-bad"


def test_runs_on_a_terminal_shows_markup_and_escapes_of_strangers_as_they_are(make_run: RunBuilder) -> None:
    make_run(argv=["[red]x[/red]", "\x1b[2Jboom"])
    ours, theirs = os.openpty()
    environ = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "160"}
    with subprocess.Popen(python_command("runs"), stdout=theirs, env=environ) as process:
        os.close(theirs)
        shown = b""
        try:
            while piece := os.read(ours, 4096):
                shown += piece
        except OSError:
            assert process.wait() == 0  # the terminal is gone with its last writer
    os.close(ours)
    assert b"[red]x[/red]" in shown and b"boom" in shown and b"\x1b[2J" not in shown


def test_runs_without_any_is_silent_and_status_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs"]) == 1
    assert capsys.readouterr().out == ""


def test_show_prints_the_report(make_run: RunBuilder, capsys: pytest.CaptureFixture[str]) -> None:
    post(make_run(log=b"step 1\nValueError: bad value\n"))
    assert main(["show", "last"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("FAILED ") and "ValueError: bad value" in out and RUN_ID in out


def test_show_judges_a_run_that_nobody_reported_yet_and_writes_nothing(
    make_run: RunBuilder, capsys: pytest.CaptureFixture[str]
) -> None:
    path = make_run()
    before = sorted(path.rglob("*"))
    assert main(["show", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["status"], found["verdict"]["status"]) == ("ended", "failed")
    assert sorted(path.rglob("*")) == before


def test_show_of_a_run_under_way_says_so(make_run: RunBuilder, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(start={"pid": os.getpid(), "pid_starttime": ""}, ended=False)
    assert main(["show"]) == 0
    assert capsys.readouterr().out.startswith("RUNNING: train.py")


@pytest.mark.parametrize("status", [0, 1, 2, 137, 255])
def test_show_status_exits_with_the_runs_own(make_run: RunBuilder, status: int) -> None:
    make_run(exit={"status": status})
    assert main(["show", "--status"]) == status


def test_show_status_of_a_run_without_one_is_1_and_says_so(
    make_run: RunBuilder, capsys: pytest.CaptureFixture[str]
) -> None:
    make_run(ended=False)
    assert main(["show", "--status"]) == 1
    assert "has no exit status: it is lost" in complaint(capsys)


def test_log_shows_what_a_terminal_would_and_raw_shows_the_bytes(
    make_run: RunBuilder, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    data = b"\r  1%\r 50%\r100%\r\n\x1b]0;owned\x07\xff\nlast"
    make_run(log=data)
    assert main(["log", "--raw"]) == 0
    assert capfdbinary.readouterr().out == data
    assert main(["log"]) == 0
    assert capfdbinary.readouterr().out == b"100%\n\\x1b]0;owned\\x07\\xff\nlast\n"


def test_log_prints_the_runs_own_range_of_an_adopted_file(
    make_run: RunBuilder, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    (tmp_path / "slurm.out").write_bytes(b"before\nmine\nafter\n")
    path = make_run(log=None, start={"stdout": "adopt", "stdout_start": 7}, exit={"stdout_end": 12})
    (path / "stdout.path").write_bytes(items([bytes(tmp_path / "slurm.out")]))
    assert main(["log"]) == 0
    assert capfdbinary.readouterr().out == b"mine\n"
    assert main(["log", "--path"]) == 0
    assert capfdbinary.readouterr().out == bytes(tmp_path / "slurm.out") + b"\n"


def test_a_log_whose_reader_has_seen_enough_ends_quietly(make_run: RunBuilder) -> None:
    make_run(log=b"line\n" * 1_000_000)
    with subprocess.Popen(python_command("log"), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout and process.stderr
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 1


def test_config_tells_each_value_and_its_origin(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GPUALERT_SMTP_HOST", "mail.example.org")
    monkeypatch.setenv("GPUALERT_SMTP_PASSWORD", "tops3cret")
    monkeypatch.setenv("GPUALERT_SMTP_HOTS", "x")
    assert main(["config"]) == 0
    printed = capsys.readouterr()
    rows = {line.split()[0]: line for line in printed.out.splitlines()}
    assert rows["smtp.host"].split()[1:3] == ["mail.example.org", "GPUALERT_SMTP_HOST"]
    assert rows["smtp.port"].split()[2] == "default"
    assert "tops3cret" not in printed.out
    assert "GPUALERT_SMTP_HOTS is no setting; did you mean GPUALERT_SMTP_HOST?" in printed.err


def test_a_broken_settings_file_is_named_with_its_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "config" / "gpualert" / "config.yaml"
    file.parent.mkdir(parents=True)
    file.write_text("smtp:\n  hots: x\n")
    assert main(["config"]) == 2
    assert "smtp.hots" in complaint(capsys)


def test_the_crontab_line_works_from_an_empty_environment(make_run: RunBuilder, state: Path) -> None:
    post(make_run())
    assert not (state / "locks" / "ticked").exists()
    line = subprocess.run(python_command("crontab"), capture_output=True, text=True, check=True).stdout
    schedule, command = line[:10], line[10:]
    assert schedule == "* * * * * "
    environ = {"HOME": "/nonexistent", "SHELL": "/bin/sh", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(["/bin/sh", "-c", command], env=environ, cwd="/", capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert (state / "locks" / "ticked").exists()


def test_a_percent_sign_in_a_path_does_not_end_the_crontab_line() -> None:
    line = crontab_line(Path("/a b/gpualert"), Path("/x%y/python"), Path("/state"))
    assert "GPUALERT_PYTHON=/x\\%y/python" in line and "'/a b/gpualert' tick" in line


@pytest.mark.parametrize("what", ["bash", "format"])
def test_path_says_where_files_lie(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["path", what]) == 0
    assert Path(capsys.readouterr().out.rstrip("\n")).exists()
    assert what in PLACES


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version"]) == main(["--version"]) == 0
    assert capsys.readouterr().out.splitlines() == [f"gpualert {__version__}"] * 2


def test_post_by_hand_says_what_became_of_the_run(make_run: RunBuilder, capsys: pytest.CaptureFixture[str]) -> None:
    make_run()
    assert main(["post"]) == 0
    assert capsys.readouterr().out.startswith(f"{RUN_ID}: failed ")


def test_prune_says_what_it_removed_and_runs_remembers(
    make_run: RunBuilder, capsys: pytest.CaptureFixture[str]
) -> None:
    path = make_run(exit={"status": 0}, log=b"done\n")
    post(path)
    then = time.time() - 8 * 86400
    for entry in path.rglob("*"):
        os.utime(entry, (then, then))
    assert main(["prune"]) == 0
    assert capsys.readouterr().out.splitlines() == [f"removed {RUN_ID}", "1 runs removed"]
    assert main(["runs"]) == 1
    assert main(["runs", "--pruned"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == [
        RUN_ID,
        "succeeded",
        "success",
        "0",
        "python",
        "train.py",
    ]


def test_doctor_tries_everything_and_says_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json"]) == 0
    found = {check["thing"]: check for check in json.loads(capsys.readouterr().out)}
    assert {"settings", "python", "shell", "/proc", "state folder", "locks", "mail", "tick", "rules"} <= set(found)
    assert found["trial run"]["mark"] == "ok" and found["locks"]["mark"] == "ok"
    assert "crontab" in found["tick"]["advice"]


def test_doctor_names_what_is_broken_and_exits_with_1(
    state: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    state.mkdir()
    state.chmod(0o755)
    assert main(["doctor"]) == 1
    assert f"-> chmod 700 {state}" in capsys.readouterr().out
    monkeypatch.setenv("GPUALERT_MAIL", "pigeon")
    assert main(["doctor"]) == 1
    assert "GPUALERT_MAIL" in capsys.readouterr().out


def test_doctor_sends_a_trial_message(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--mail", "me@example.org"]) == 0
    assert "handed over by maildir to me@example.org" in capsys.readouterr().out
    (mail,) = (state / "mail" / "new").iterdir()
    assert b"trial message" in mail.read_bytes()


def test_doctor_says_why_a_trial_message_was_not_taken(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GPUALERT_MAIL", "sendmail")
    monkeypatch.setenv("GPUALERT_SENDMAIL_PATH", "/bin/false")
    assert main(["doctor", "--mail", "me@example.org"]) == 1
    assert "exit status 1" in capsys.readouterr().out


def test_the_demo_fails_for_real_and_is_reported(state: Path) -> None:
    done = subprocess.run(python_command("demo"), capture_output=True, text=True, check=True)
    (path,) = (state / "runs").iterdir()
    assert json.loads((path / "verdict.json").read_text())["status"] == "failed"
    assert "FloatingPointError: loss is inf" in done.stdout
    assert f"The message is  {path}/message.eml" in done.stdout
    assert len(list((state / "mail" / "new").iterdir())) == 1


def test_the_demo_says_why_its_message_was_not_delivered(state: Path) -> None:
    environ = {**os.environ, "GPUALERT_MAIL": "sendmail", "GPUALERT_SENDMAIL_PATH": "/bin/false"}
    done = subprocess.run(python_command("demo"), env=environ, capture_output=True, text=True, check=True)
    (trouble,) = [line for line in done.stdout.splitlines() if line.startswith("Trouble:")]
    assert "exit status 1" in trouble


def test_run_through_python_is_the_shims_run(state: Path) -> None:
    command = python_command("run", "--no-mail", "--", "sh", "-c", "echo out; exit 7")
    environ = {**os.environ, "GPUALERT_POST": "tick"}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (7, "out\n")
    assert len(list((state / "runs").iterdir())) == 1


def test_the_name_of_a_planted_run_directory_moves_no_cursor(
    make_run: RunBuilder, capsys: pytest.CaptureFixture[str]
) -> None:
    make_run("2026\x1b[2Jevil\nline", started=False, ended=False)
    assert main(["runs"]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out and "\\x1b[2Jevil" in out and out.count("\n") == 2


def test_rules_without_a_word_prints_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Usage: gpualert rules") and len(lines) > 5


@pytest.mark.parametrize("end", ["lost", "abandoned"])
def test_following_a_run_that_will_write_nothing_more_ends(make_run: RunBuilder, end: str) -> None:
    path = make_run(started=end == "lost", ended=False, log=b"words\n")
    if end == "abandoned":
        os.utime(path, (1, 1))
    done = subprocess.run(python_command("log", "--follow"), capture_output=True, timeout=60, check=True)
    assert done.stdout == b"words\n"


def test_following_a_run_that_cannot_be_seen_ends_once_it_is_silent(make_run: RunBuilder) -> None:
    path = make_run(start={"host": "node99", "boot_id": "another"}, ended=False, log=b"words\n")
    os.utime(path / "output.log", (1, 1))
    done = subprocess.run(python_command("log", "--follow"), capture_output=True, timeout=60, check=True)
    assert done.stdout == b"words\n"


def test_following_a_line_without_end_prints_it_in_pieces(make_run: RunBuilder) -> None:
    make_run(log=b"\r".join(b"step %07d" % number for number in range(400_000)))
    done = subprocess.run(python_command("log", "--follow"), capture_output=True, timeout=60, check=True)
    lines = done.stdout.splitlines()
    assert len(lines) > 2 and lines[-1] == b"step 0399999" and len(done.stdout) < 1000
