"""What `gpualert doctor` finds between a shell and the installation."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from gpualert import __version__
from gpualert.check import Check, Mark
from gpualert.config import unknown_variables
from gpualert.places import shim
from gpualert.rccheck import (
    Command,
    Terminal,
    check_rc,
    judge_function,
    judge_path,
    judge_rc_line,
    judge_state,
    judge_terminal,
)
from gpualert.rcfile import install, rc_line

OWN = Path("/opt/own/bin/gpualert")


def told(checks: list[Check]) -> str:
    """Return everything that is no praise."""
    return "\n".join(f"{check.thing}: {check.found} -> {check.advice}" for check in checks if check.mark is not Mark.OK)


def test_no_command_on_path_is_told_with_the_script_to_link() -> None:
    (check,) = judge_path([], OWN)
    assert check.mark is Mark.WARN and "no 'gpualert' on PATH" in check.found and str(OWN) in check.advice


def test_one_command_is_fine() -> None:
    assert told(list(judge_path([Command(OWN, True, "1")], OWN))) == ""


def test_two_installations_are_both_named() -> None:
    found = told(list(judge_path([Command(OWN, True, "1"), Command(Path("/usr/bin/gpualert"), False, "0.9")], OWN)))
    assert str(OWN) in found and "/usr/bin/gpualert (0.9)" in found


@pytest.mark.parametrize(("version", "words"), [("0.9", "gpualert 0.9"), ("", "it does not say its version")])
def test_another_program_in_front_of_ours_is_told(version: str, words: str) -> None:
    found = told(list(judge_path([Command(Path("/usr/bin/gpualert"), False, version)], OWN)))
    assert "not this installation: /usr/bin/gpualert" in found and words in found


def test_a_shell_without_the_function_is_no_trouble() -> None:
    assert list(judge_function("", "1")) == []


def test_a_function_of_an_older_version_or_without_its_script_is_stale(tmp_path: Path) -> None:
    script = tmp_path / "gpualert"
    assert "which is gone -> open a new shell" in told(list(judge_function(f"1 {script}", "1")))
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    assert "of version 1, the program of 2 -> open a new shell" in told(list(judge_function(f"1 {script}", "2")))
    assert told(list(judge_function(f"2 {script}", "2"))) == ""


def test_an_rc_line_for_a_script_that_is_gone_or_older_is_told(tmp_path: Path) -> None:
    path, script = Path("/home/me/.zshrc"), tmp_path / "gpualert"
    gone = told(list(judge_rc_line(path, Command(script, False, ""), "2")))
    assert f"{path} names {script}, which is gone -> gpualert init --install zsh" in gone
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    assert "version 1; this is 2" in told(list(judge_rc_line(path, Command(script, False, "1"), "2")))
    assert told(list(judge_rc_line(path, Command(script, True, "2"), "2"))) == ""


def test_folders_that_cannot_be_used_are_a_failure_with_the_way_out() -> None:
    (check,) = judge_state([Path("/s/it's"), Path("/s/b")])
    assert check.mark is Mark.FAIL and "and 1 more" in check.found and "chown -R" in check.advice
    assert list(judge_state([])) == []


@pytest.mark.parametrize(
    ("terminal", "words"),
    [
        (Terminal("", 80, 24), "TERM is not set"),
        (Terminal("dumb", 80, 24), "TERM is 'dumb'"),
        (Terminal("xterm-new", 80, 24, has_entry=False), "does not know the terminal 'xterm-new'"),
        (Terminal("xterm", 0, 0), "0 lines of 0 columns"),
        (Terminal("xterm", 100, 33, told_columns="80"), "COLUMNS is '80', the terminal has 100"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_terminal_that_lies_is_told(terminal: Terminal, words: str) -> None:
    (check,) = judge_terminal(terminal)
    assert check.mark is Mark.WARN and words in check.found and check.advice


def test_an_honest_terminal_is_fine() -> None:
    assert told(list(judge_terminal(Terminal("xterm", 100, 33, told_columns="100")))) == ""


def test_links_to_one_program_are_one_and_versions_are_asked_of_our_scripts_only(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("a", "b", "c", "d")]
    for folder in folders:
        folder.mkdir()
    (folders[0] / "gpualert").symlink_to(shim())
    (folders[1] / "gpualert").symlink_to(shim())
    (folders[2] / "gpualert").write_text("#!/bin/sh\n# gpualert - another copy\necho gpualert 9.9\n")
    (folders[3] / "gpualert").write_text(f"#!/bin/sh\necho gpualert 8.8; touch '{tmp_path}/started'\n")
    for folder in folders[2:]:
        (folder / "gpualert").chmod(0o755)
    path = ":".join(map(str, [*folders, tmp_path / "missing"]))
    found = told([check for check in check_rc(tmp_path, {"PATH": path}) if check.thing == "command"])
    assert f"PATH finds {folders[0]}/gpualert; it also has {folders[2]}/gpualert (9.9)" in found
    assert f"{folders[3]}/gpualert (version unknown)" in found
    assert not (tmp_path / "started").exists()


def test_the_rc_files_of_a_home_are_read(tmp_path: Path) -> None:
    install(tmp_path / ".bashrc", rc_line("bash", tmp_path / "gone"))
    install(tmp_path / ".profile", rc_line("sh", shim()))
    (tmp_path / ".zshrc").mkdir()
    checks = [check for check in check_rc(tmp_path, {"HOME": str(tmp_path), "PATH": ""}) if check.thing == "rc file"]
    assert [check.mark for check in checks] == [Mark.WARN, Mark.OK]


@pytest.mark.skipif(os.geteuid() != 0, reason="root becomes a user to whom permissions apply")
def test_a_state_folder_of_another_user_is_found() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        state = Path(folder, "state")
        (state / "runs").mkdir(parents=True)
        assert _unusable_for_nobody(state) == [str(state), str(state / "runs")]


def _unusable_for_nobody(state: Path) -> list[str]:
    text = (
        "import os, pathlib, sys\nfrom gpualert import rccheck\nos.setgid(65534); os.setuid(65534)\n"
        f"for path in rccheck._not_usable(pathlib.Path({str(state)!r})): print(path)\n"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_all_is_well_where_function_and_path_agree(tmp_path: Path) -> None:
    environ = {"PATH": str(shim().parent), "GPUALERT_FUNCTION": f"{__version__} {shim()}"}
    checks = [check for check in check_rc(tmp_path, environ) if check.thing != "terminal"]
    assert [(check.mark, check.thing) for check in checks] == [(Mark.OK, "command"), (Mark.OK, "function")]


def test_the_variables_of_the_functions_are_not_taken_for_mistyped_settings() -> None:
    names = ["GPUALERT_WRAP", "GPUALERT_LONGER_THAN", "GPUALERT_FUNCTION"]
    assert unknown_variables(dict.fromkeys(names, "x")) == {}
    assert unknown_variables({"GPUALERT_LONGER_THAN_SS": "x"}) == {"GPUALERT_LONGER_THAN_SS": "GPUALERT_LONGER_THAN_S"}
