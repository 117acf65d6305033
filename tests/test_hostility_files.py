"""What others plant in our folders is not followed, not waited for, and takes nothing down with it."""

from __future__ import annotations

import email
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rundirs import RunBuilder

GPUALERT = (sys.executable, "-m", "gpualert")
PATIENCE_S = 100  # far more than anything here takes; who waits for a FIFO waits for ever
TEN_GB = 10_000_000_000


def _fifo(path: Path, _: Path) -> None:
    os.mkfifo(path)


def _link(path: Path, victim: Path) -> None:
    path.symlink_to(victim)


def _dangling(path: Path, victim: Path) -> None:
    path.symlink_to(victim.with_name("nobody-there"))


def _loop(path: Path, _: Path) -> None:
    path.symlink_to(path.name)


def _device(path: Path, _: Path) -> None:
    path.symlink_to("/dev/zero")


def _socket(path: Path, _: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # a socket's path is short
    try:
        socket.socket(socket.AF_UNIX).bind(path.name)
    finally:
        os.chdir(here)


def _folder(path: Path, _: Path) -> None:
    path.mkdir()


def _sparse(path: Path, _: Path) -> None:
    path.touch()
    os.truncate(path, TEN_GB)


def _garbage(path: Path, _: Path) -> None:
    path.write_bytes(bytes(range(256)) * 4)


def _deep(path: Path, _: Path) -> None:
    path.write_bytes(b"[" * 200_000)


def _wrong(path: Path, _: Path) -> None:
    path.write_bytes(b'{"schema": "\\u001b[2J", "to": 7, "message_id": [], "run_path": "../../..", "end": {}}\n')


KINDS: dict[str, Callable[[Path, Path], None]] = {
    "fifo": _fifo,
    "link": _link,
    "dangling": _dangling,
    "loop": _loop,
    "device": _device,
    "socket": _socket,
    "folder": _folder,
    "sparse": _sparse,
    "garbage": _garbage,
    "deep": _deep,
    "wrong": _wrong,
}
# Each starts dozens of processes: a few stand for all but in the long run.
ALWAYS = ("fifo", "link")
SOME_OR_ALL = [kind if kind in ALWAYS else pytest.param(kind, marks=pytest.mark.long) for kind in KINDS]
OF_A_RUN = ("format", "argv", "cwd", "name", "options", "engine", "start", "exit", "lock", "output.log", "claims")
OF_A_STATE = (
    "history.jsonl",
    "hosts/node03",
    "ledger/node03.jsonl",
    "workflows/flow/key.jsonl",
    "gates/flow/key",
    "chains/planted/chain.json",
    "chains/planted/format",
    "chains/planted/attempts/1.json",
    "groups/planted/members/0",
    "groups/planted/verdict.json",
    "groups/planted/claims",
    "outbox/planted.json",
    "outbox/planted.eml",
    "outbox/pause",
    "outbox/pace",
    "outbox/digests/planted",
    "outbox/sent/planted.json",
    "outbox/dead/planted.json",
    "outbox/dead/planted.unsaid",
    "locks/ticked",
    "locks/finished",
    "locks/complained",
)
SECRET = b"a secret of somebody else"


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """Return a file that is not ours to read or write."""
    path = tmp_path / "victim"
    path.write_bytes(SECRET)
    return path


def called(*words: str) -> subprocess.CompletedProcess[bytes]:
    """Run a command of ours; it may fail, but not with a traceback, and not for ever."""
    done = subprocess.run([*GPUALERT, *words], capture_output=True, timeout=PATIENCE_S, stdin=subprocess.DEVNULL)
    assert b"Traceback" not in done.stdout + done.stderr, done.stderr.decode("utf-8", "replace")
    return done


def mails(state: Path) -> list[bytes]:
    new = state / "mail" / "new"
    return [path.read_bytes() for path in sorted(new.iterdir())] if new.is_dir() else []


def of_run(state: Path, run: Path) -> list[bytes]:
    return [mail for mail in mails(state) if run.name.encode() in mail]


@pytest.mark.parametrize("kind", SOME_OR_ALL)
def test_a_run_directory_with_a_planted_file_stops_no_other_run(
    kind: str, make_run: RunBuilder, state: Path, victim: Path
) -> None:
    for number, name in enumerate(OF_A_RUN):
        if (kind, name) == ("sparse", "output.log"):
            continue  # a log of any size is read: test_hostility_size.py
        run = make_run(f"20261129T14513{number % 10}Z-planted{number}-3f9a1c2e")
        (run / name).unlink(missing_ok=True)
        KINDS[kind](run / name, victim)
    good = make_run(log=b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB.\n")  # not as theirs
    called("tick")
    assert len(of_run(state, good)) == 1
    for words in (["runs"], ["show", "planted0"], ["stats"], ["tick"]):
        called(*words)
    assert len(of_run(state, good)) == 1
    assert victim.read_bytes() == SECRET
    assert not any(SECRET in part for mail in mails(state) for part in parts(mail))


def parts(mail: bytes) -> list[bytes]:
    return [data for part in email.message_from_bytes(mail).walk() if (data := part.get_payload(decode=True))]


@pytest.mark.parametrize("kind", SOME_OR_ALL)
def test_a_state_folder_with_planted_files_still_tells_each_run_once(
    kind: str, make_run: RunBuilder, state: Path, victim: Path
) -> None:
    run = make_run()
    for name in OF_A_STATE:
        path = state / name
        path.parent.mkdir(parents=True, exist_ok=True)
        KINDS[kind](path, victim)
    called("tick")
    called("tick")
    assert len(of_run(state, run)) == 1
    for words in (["runs"], ["show"], ["outbox", "list"], ["chain", "list"], ["ledger"], ["stats"], ["doctor"]):
        called(*words)
    assert victim.read_bytes() == SECRET
    assert not any(SECRET in mail for mail in mails(state))


ROOT = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("setpriv"), reason="only root can act as another user here"
)
AS_NOBODY = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")


@pytest.fixture
def shared_state(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a state folder that every user can write in."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        state = Path(folder, "state")
        (state / "runs").mkdir(parents=True)
        monkeypatch.setenv("GPUALERT_HOME", str(state))
        yield state


@ROOT
def test_a_run_directory_that_another_user_planted_is_not_told(shared_state: Path) -> None:
    run = RunBuilder(shared_state)()
    planted = run.with_name("20261129T145139Z-planted-3f9a1c2e")
    for folder in (shared_state.parent, shared_state, run.parent):
        folder.chmod(0o777)
    copied = 'mkdir "$2" && cd "$2" && cat >start && echo gpualert-run/1 >format && printf "x\\0" >argv && >lock'
    subprocess.run([*AS_NOBODY, "sh", "-c", copied, "sh", "", planted], input=(run / "start").read_bytes(), check=True)
    called("tick")
    called("show", planted.name)
    assert len(of_run(shared_state, run)) == 1
    assert not of_run(shared_state, planted)
    assert not (planted / "claims").exists()


@ROOT
@pytest.mark.parametrize("name", ["output.log", "argv", "start", "exit", "options"])
def test_a_file_of_another_user_in_our_run_directory_is_not_read(name: str, make_run: RunBuilder, state: Path) -> None:
    run = make_run(log=b"ValueError: bad value\n", options={"to": "mallory@example.org"})
    os.chown(run / name, 65534, 65534)
    called("tick")
    called("show", run.name)
    mail = b"".join(mails(state))
    if name == "output.log":
        assert b"belongs to user 65534" in b" ".join(part for one in mails(state) for part in parts(one))
    if name == "options":
        assert b"mallory" not in mail


def test_a_run_directory_that_a_group_may_write_in_is_not_trusted(make_run: RunBuilder, state: Path) -> None:
    run = make_run()
    run.chmod(0o770)
    called("tick")
    assert not mails(state)
    assert b"others may write in it" in called("show", run.name).stderr


def test_a_file_swapped_for_a_link_again_and_again_never_lets_the_other_out(
    make_run: RunBuilder, state: Path, tmp_path: Path, victim: Path
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    swap = (
        "import os, sys\n"
        "folder, victim = sys.argv[1:]\n"
        "os.chdir(folder)\n"
        "while True:\n"
        "    open('.a', 'w').write('fine')\n"
        "    os.replace('.a', 'result.txt')\n"
        "    os.symlink(victim, '.b')\n"
        "    os.replace('.b', 'result.txt')\n"
    )
    swapper = subprocess.Popen([sys.executable, "-c", swap, work, victim])
    try:
        for number, cause in enumerate(("ValueError: a", "MemoryError", "AssertionError: b", "ZeroDivisionError: c")):
            run = make_run(
                f"20261129T14514{number}Z-node03-3f9a1c2e",
                log=f"{cause}\n".encode(),  # equal ones would wait, to be told together
                cwd=str(work),
                options={"attach": "result.txt"},
                start={"started_at": 0},
                exit={"ended_at": 4e9},
            )
            called("post", str(run))
    finally:
        swapper.kill()
        swapper.wait()
    told = mails(state)
    assert len(told) == 4
    assert not any(SECRET in part for mail in told for part in parts(mail))
