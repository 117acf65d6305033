"""The line in an rc file: once, and gone without a trace."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from gpualert.cli import main
from gpualert.errors import GpualertError, UsageError
from gpualert.rcfile import install, rc_line, rc_path, scripts_in, shell_of, uninstall, with_line, without_line

SCRIPT = Path("/opt/gpualert/bin/gpualert")
LINE = rc_line("bash", SCRIPT)

CONTENTS = {
    "empty": b"",
    "ordinary": b"alias ll='ls -l'\n",
    "no final newline": b"export A=1\nexport B=2",
    "only newlines": b"\n\n\n",
    "a continued last line": b"export A=1 \\\n",
    "a continued last line without newline": b"export A=1 \\",
    "DOS lines": b"export A=1\r\nexport B=2\r\n",
    "not UTF-8": b"# caf\xe9 \xff\x00 \x1b[0m\n",
    "a mention of us": b'# gpualert init --install was here\neval "$(gpualert init bash)"\n',
}


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
def test_a_file_is_the_same_after_install_and_uninstall(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / ".bashrc"
    path.write_bytes(content)
    assert install(path, LINE)
    added = path.read_bytes()
    assert added.startswith(content) and added.endswith(b"\n")
    assert not install(path, LINE)
    assert path.read_bytes() == added
    assert scripts_in(added) == [SCRIPT]
    assert uninstall(path)
    assert path.read_bytes() == content
    assert not uninstall(path)


def test_a_missing_file_is_made_and_removed_again(tmp_path: Path) -> None:
    path = tmp_path / ".zshrc"
    assert install(path, LINE)
    assert path.read_text().startswith(LINE)
    assert uninstall(path)
    assert not path.exists()
    assert not uninstall(path)


def test_what_was_written_after_the_line_stays_a_line_of_its_own() -> None:
    before = b"export A=1"
    added = with_line(before, LINE) + b"export B=2\n"
    assert without_line(added) == b"export A=1\nexport B=2\n"
    assert without_line(with_line(None, LINE) + b"export B=2\n") == b"export B=2\n"


def test_the_line_of_another_installation_is_replaced_in_its_place() -> None:
    first = with_line(b"export A=1", LINE) + b"export B=2\n"
    second = with_line(first, rc_line("bash", Path("/new/it's here/gpualert")))
    assert scripts_in(second) == [Path("/new/it's here/gpualert")]
    assert without_line(second) == without_line(first)


def test_a_linked_file_keeps_its_link_and_its_mode(tmp_path: Path) -> None:
    target = tmp_path / "dotfiles" / "bashrc"
    target.parent.mkdir()
    target.write_bytes(b"export A=1")
    target.chmod(0o640)
    link = tmp_path / ".bashrc"
    link.symlink_to("dotfiles/bashrc")
    install(link, LINE)
    install(link, rc_line("bash", Path("/other/gpualert")))
    assert link.is_symlink() and scripts_in(target.read_bytes()) == [Path("/other/gpualert")]
    uninstall(link)
    assert link.is_symlink() and target.read_bytes() == b"export A=1"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert sorted(path.name for path in target.parent.iterdir()) == ["bashrc"]


def test_a_link_to_nothing_stays_one(tmp_path: Path) -> None:
    link = tmp_path / ".bashrc"
    link.symlink_to("nowhere")
    install(link, LINE)
    assert link.is_symlink() and scripts_in((tmp_path / "nowhere").read_bytes()) == [SCRIPT]
    uninstall(link)
    assert link.is_symlink() and not link.exists()


@pytest.mark.parametrize("kind", ["folder", "fifo", "no such folder"])
def test_what_is_no_file_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / ".bashrc"
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        path = tmp_path / "missing" / ".bashrc"
    with pytest.raises(GpualertError, match="cannot change"):
        install(path, LINE)


def test_where_the_disk_is_full_the_file_stays_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / ".bashrc"
    path.write_bytes(b"x" * 4090)
    text = (
        "import resource, signal; from pathlib import Path; from gpualert.rcfile import install\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (4100, 4100))\n"
        f"install(Path({str(path)!r}), {LINE!r})\n"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert "cannot change" in done.stderr
    assert path.read_bytes() == b"x" * 4090


def test_two_at_once_add_one_line(tmp_path: Path) -> None:
    path = tmp_path / ".bashrc"
    path.write_bytes(b"export A=1\n")
    text = f"from pathlib import Path; from gpualert.rcfile import install; install(Path({str(path)!r}), {LINE!r})"
    for process in [subprocess.Popen([sys.executable, "-c", text]) for _ in range(6)]:
        assert process.wait(timeout=60) == 0
    assert path.read_text() == f"export A=1\n{LINE}\n"


@pytest.mark.parametrize(
    ("shell", "expected"),
    [("/bin/bash", "bash"), ("/usr/bin/zsh", "zsh"), ("/bin/dash", "sh"), ("/bin/ksh", "sh")],
)
def test_the_shell_is_taken_from_the_environment(shell: str, expected: str) -> None:
    assert shell_of({"SHELL": shell}) == expected


@pytest.mark.parametrize("environ", [{}, {"SHELL": "/usr/bin/fish"}])
def test_an_unknown_shell_is_asked_for(environ: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="name one of bash, zsh, sh"):
        shell_of(environ)


def test_each_shell_has_its_file() -> None:
    assert rc_path("bash", {"HOME": "/h"}) == Path("/h/.bashrc")
    assert rc_path("sh", {"HOME": "/h", "ZDOTDIR": "/z"}) == Path("/h/.profile")
    assert rc_path("zsh", {"HOME": "/h"}) == Path("/h/.zshrc")
    assert rc_path("zsh", {"HOME": "/h", "ZDOTDIR": "/z"}) == Path("/z/.zshrc")
    with pytest.raises(UsageError, match="set HOME"):
        rc_path("bash", {})


def test_a_path_with_a_newline_is_refused() -> None:
    with pytest.raises(UsageError, match="newline"):
        rc_line("bash", Path("/a\nb"))


def test_the_command_adds_tells_and_removes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = Path(os.environ["HOME"])
    home.mkdir()
    monkeypatch.setenv("SHELL", "/bin/zsh")
    monkeypatch.delenv("ZDOTDIR", raising=False)
    assert main(["init", "--install"]) == 0
    assert main(["init", "--install"]) == 0
    assert main(["init", "--uninstall", "zsh"]) == 0
    assert main(["init", "--uninstall"]) == 0
    words = [line.split(" ")[0] for line in capsys.readouterr().out.splitlines()]
    assert words == ["added", "already", "removed", "nothing"]
    assert list(home.iterdir()) == []
    assert main(["init", "--install", "--uninstall"]) == 2
    assert main(["init"]) == 2
    assert main(["init", "fish"]) == 2


@pytest.mark.parametrize(("shell", "program"), [("bash", "bash"), ("zsh", "zsh"), ("sh", "dash")])
def test_the_line_works_and_is_silent_where_the_script_is_gone(tmp_path: Path, shell: str, program: str) -> None:
    gpualert = Path(__file__).parents[1] / "bash" / "gpualert"
    rc = tmp_path / "rc"
    install(rc, rc_line(shell, tmp_path / "gone"))
    text = f"set -eu\n. '{rc}'\necho reached\n"
    done = subprocess.run([program, "-c", text], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("reached\n", "")
    install(rc, rc_line(shell, gpualert))
    text += 'gpualert run --help >/dev/null; echo "$__gpualert_script"\n'
    done = subprocess.run([program, "-c", text], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == (f"reached\n{gpualert}\n", "")
