"""Which files a message speaks of, which go along, and why others do not."""

from __future__ import annotations

import gzip
import json
import os
import socket
import time
from pathlib import Path

import pytest

from gpualert.artifacts import MAX_LISTED, MAX_UNASKED, collect, to_json
from gpualert.artifacts import find as finding
from gpualert.artifacts.find import Found, Search, changed_within, find_changed
from gpualert.config import Attach, Settings
from gpualert.errors import UnsafeFileError
from gpualert.model import Artifact, Exit, LogFile, Options, Run, Start
from gpualert.quota import encoded_size

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"


class Job:
    """A job that has just run in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.cwd = folder / "job"
        self.cwd.mkdir()
        self.path = folder / "state" / "runs" / "r1"
        self.path.mkdir(parents=True)
        self.started_at = time.time() - 100
        self.ended_at: float | None = time.time() + 100
        self.log = self.path / "output.log"
        self.log.write_bytes(b"ValueError: bad value\n")

    def write(self, name: str, data: bytes = b"a,b\n1,2\n", changed_at: float | None = None) -> Path:
        file = self.cwd / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        if changed_at is not None:
            os.utime(file, (changed_at, changed_at))
        return file

    def run(self, **options: object) -> Run:
        start = Start("r1", "node03", 1, 1, self.started_at)
        end = None if self.ended_at is None else Exit(1, None, False, self.ended_at)
        chosen = Options(**options)  # type: ignore[arg-type]
        return Run(self.path, "r1", ("python", "t.py"), str(self.cwd), "", chosen, (), start, end)

    def collect(
        self, settings: Settings | None = None, *, failed: bool = True, **options: object
    ) -> dict[str, Artifact]:
        logs = [LogFile("output.log", self.log)]
        found = collect(self.run(**options), logs, settings or Settings(), failed=failed)
        assert len({artifact.name for artifact in found}) == len(found)
        for artifact in found:
            assert artifact.attached == bool(artifact.content)
            assert artifact.attached or artifact.reason
        return {artifact.name: artifact for artifact in found}


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


# --- logs ---


def test_the_log_of_a_failed_run_goes_along_without_its_secrets(job: Job) -> None:
    job.log.write_bytes(b"HF_TOKEN=hf_abcdefghijklmnopqrst12\nValueError: bad value\n")
    log = job.collect()["output.log"]
    assert (log.attached, log.content) == (True, b"HF_TOKEN=[redacted]\nValueError: bad value\n")
    assert (log.redactions, log.media_type, log.reason, log.size_bytes) == (1, "text/plain", "", 57)
    assert b"hf_abcdefghijklmnopqrst12" in job.log.read_bytes()


def test_the_log_of_a_successful_run_is_named_and_stays(job: Job) -> None:
    log = job.collect(failed=False)["output.log"]
    assert (log.attached, log.size_bytes, log.reason) == (False, 22, "the run succeeded")


def test_with_no_log_nothing_leaves(job: Job) -> None:
    job.write("loss.csv")
    found = job.collect(log=False, attach=("*.csv",))
    assert list(found) == ["output.log"]
    assert (found["output.log"].attached, found["output.log"].reason) == (False, "not sent: --no-log")


def test_only_the_runs_own_range_of_a_shared_log_goes_along(job: Job) -> None:
    job.log.write_bytes(b"earlier\nmine\nlater\n")
    (log,) = collect(job.run(), [LogFile("out", job.log, 8, 13)], Settings(), failed=True)
    assert (log.content, log.size_bytes) == (b"mine\n", 5)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("missing", "not read: No such file or directory"),
        ("link", "not opened: it is a symbolic link"),
        ("fifo", "not opened: it is not a regular file"),
        ("folder", "not opened: it is not a regular file"),
        ("empty", "empty"),
    ],
)
def test_a_log_that_cannot_be_read_is_named_with_the_reason(kind: str, reason: str, job: Job) -> None:
    job.log.unlink()
    if kind == "link":
        job.log.symlink_to("/etc/passwd")
    elif kind == "fifo":
        os.mkfifo(job.log)
    elif kind == "folder":
        job.log.mkdir()
    elif kind == "empty":
        job.log.touch()
    log = job.collect()["output.log"]
    assert (log.attached, log.reason) == (False, reason)


def test_a_large_log_is_compressed_whole(job: Job) -> None:
    text = b"".join(b"step %d loss %f\n" % (step, 1 / (step + 1)) for step in range(100_000))
    job.log.write_bytes(text)
    log = job.collect()["output.log.gz"]
    assert gzip.decompress(log.content) == text
    assert (log.media_type, log.reason, log.omitted_lines) == ("application/gzip", "compressed", 0)


def test_two_logs_share_what_room_there_is(job: Job) -> None:
    noise = b"".join(os.urandom(48).hex().encode() + b"\n" for _ in range(20_000))
    logs = []
    for name in ("stdout.log", "stderr.log"):
        (job.path / name).write_bytes(noise)
        logs.append(LogFile(name, job.path / name))
    settings = Settings(attach=Attach(max_total_bytes=1_000_000))
    found = collect(job.run(), logs, settings, failed=True)
    assert [artifact.attached for artifact in found] == [True, True]
    assert sum(encoded_size(len(artifact.content)) for artifact in found) <= 1_000_000
    assert all(artifact.omitted_lines > 0 for artifact in found)


# --- files of the job ---


def test_what_people_look_at_goes_along(job: Job) -> None:
    job.write("loss.csv")
    job.write("plots/curve.png", PNG)
    job.write("result.json", b'{"password": "hunter2", "acc": 0.9}\n')
    found = job.collect()
    assert found["loss.csv"].content == b"a,b\n1,2\n"
    assert (found["plots/curve.png"].content, found["plots/curve.png"].media_type) == (PNG, "image/png")
    assert found["result.json"].content == b'{"password": "[redacted]", "acc": 0.9}\n'
    assert found["result.json"].redactions == 1


def test_files_go_along_from_a_successful_run_too(job: Job) -> None:
    job.write("loss.csv")
    assert job.collect(failed=False)["loss.csv"].attached


@pytest.mark.parametrize(
    "name", ["model.ckpt", "weights.safetensors", "core.1234", "data.bin", "train.py", "noextension"]
)
def test_other_kinds_are_only_named(name: str, job: Job) -> None:
    job.write(name, b"\0" * 1000)
    file = job.collect()[name]
    assert (file.attached, file.size_bytes, file.reason) == (False, 1000, "not attached by default; --attach sends it")


def test_a_large_file_is_only_named_unless_asked_for(job: Job) -> None:
    job.write("data.csv", b"1,2,3\n" * 200_000)
    file = job.collect()["data.csv"]
    assert (file.attached, file.reason) == (False, "larger than 1.0 MB; --attach sends it")
    assert gzip.decompress(job.collect(attach=("data.csv",))["data.csv.gz"].content) == b"1,2,3\n" * 200_000


def test_a_binary_file_with_the_name_of_a_text_is_only_named(job: Job) -> None:
    job.write("table.csv", b"a\0b")
    assert "binary in spite of its name" in job.collect()["table.csv"].reason


def test_a_text_with_the_name_of_a_picture_is_redacted(job: Job) -> None:
    job.write("curve.png", b"password=hunter2\n")
    assert job.collect()["curve.png"].content == b"password=[redacted]\n"


@pytest.mark.parametrize(
    "name",
    [
        ".env",
        ".env.local",
        "prod.env",
        "id_rsa",
        "id_ed25519",
        "server.pem",
        "private.key",
        ".netrc",
        "credentials",
        "token",
        "aws-credentials.csv",
        "client_secret.json",
        "passwords.txt",
        ".pgpass",
        ".npmrc",
        "token.txt",
        "kubeconfig",
        "a.p12",
    ],
)
def test_files_named_like_secrets_never_leave(name: str, job: Job) -> None:
    job.write(name, b"x")
    for options in ({}, {"attach": (name,)}, {"attach": ("*", ".*")}):
        file = job.collect(**options)[name]  # type: ignore[arg-type]
        assert (file.attached, file.reason) == (False, "withheld: its name says that it holds secrets")


def test_only_what_changed_during_the_run_counts(job: Job) -> None:
    job.write("before.csv", changed_at=job.started_at - 1)
    job.write("during.csv", changed_at=job.started_at + 1)
    job.write("after.csv", changed_at=time.time() + 200)
    assert set(job.collect()) == {"output.log", "during.csv"}
    assert job.collect(attach=("before.csv",))["before.csv"].reason == "not changed during the run"


def test_an_old_file_that_was_only_moved_here_afterwards_does_not_count(job: Job) -> None:
    job.write("old.csv", changed_at=time.time() - 50)  # its inode changed now
    job.ended_at = time.time() - 20
    assert set(job.collect()) == {"output.log"}


@pytest.mark.parametrize(
    ("offset_s", "inside"),
    [(-0.5, False), (-0.01, True), (0, True), (50, True), (100, True), (100.01, True), (100.5, False)],
)
def test_the_window_of_a_run_allows_for_the_grain_of_the_clock(offset_s: float, inside: bool, tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.touch()
    stamp_ns = round((1_000_000_000.3 + offset_s) * 1e9)
    found = os.stat_result([*file.stat()], {"st_mtime_ns": stamp_ns, "st_ctime_ns": stamp_ns})
    assert changed_within(found, 1_000_000_000.3, 1_000_000_100.3) is inside


def test_a_file_system_that_keeps_whole_seconds_loses_nothing(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.touch()
    stamp_ns = 1_000_000_000 * 10**9
    found = os.stat_result([*file.stat()], {"st_mtime_ns": stamp_ns, "st_ctime_ns": stamp_ns})
    assert changed_within(found, 1_000_000_000.7, 1_000_000_000.9)


def test_hidden_and_generated_folders_are_not_looked_at(job: Job) -> None:
    for folder in (".git", ".snakemake/log", "__pycache__", "node_modules/x"):
        job.write(f"{folder}/a.json")
    assert set(job.collect()) == {"output.log"}


def test_the_run_directory_and_the_logs_are_not_named_twice(job: Job) -> None:
    job.log = job.write("train.out", b"ValueError\n")
    logs = [LogFile("train.out", job.log)]
    names = [artifact.name for artifact in collect(job.run(), logs, Settings(), failed=True)]
    assert names == ["train.out"]
    run = job.run()
    inside = Run(job.cwd / "r1", "r1", run.argv, run.cwd, "", run.options, (), run.start, run.exit)
    job.write("r1/post.log")
    assert [artifact.name for artifact in collect(inside, logs, Settings(), failed=True)] == ["train.out"]


def test_what_is_no_regular_file_is_named_and_not_opened(job: Job) -> None:
    os.mkfifo(job.cwd / "fifo.txt")
    (job.cwd / "link.txt").symlink_to("/etc/passwd")
    (job.cwd / "folder.txt").mkdir()
    with socket.socket(socket.AF_UNIX) as sock:
        here = Path.cwd()
        os.chdir(job.cwd)
        sock.bind("socket.txt")
        os.chdir(here)
    found = job.collect(attach=("folder.txt",))
    assert (
        found["fifo.txt"].reason
        == found["socket.txt"].reason
        == "no regular file (a FIFO, socket or device): not opened"
    )
    assert found["link.txt"].reason == "a symbolic link: not followed"
    assert found["folder.txt"].reason == "a folder: name the files, such as 'folder/*'"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_files_of_others_and_links_to_them_are_named_and_not_opened(job: Job) -> None:
    theirs = job.write("theirs.csv")
    os.chown(theirs, 12345, -1)
    os.link(theirs, job.cwd / "hard.csv")
    found = job.collect(attach=("*.csv",))
    for name in ("theirs.csv", "hard.csv"):
        assert (found[name].attached, found[name].reason) == (False, "belongs to user 12345: not opened")


def test_a_folder_that_is_a_link_is_not_entered(job: Job, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "x.csv").write_bytes(b"x")
    (job.cwd / "inside").symlink_to(tmp_path / "elsewhere")
    found = job.collect(attach=("inside/*.csv",))
    assert found["inside"].reason == "a symbolic link: not followed"
    assert not any(artifact.attached for name, artifact in found.items() if name != "output.log")
    reason = f"not looked at: '{job.cwd}/inside': it is a link, or no folder; name the real path"
    assert found["--attach 'inside/*.csv'"].reason == reason


def test_a_job_folder_reached_through_a_link_is_not_looked_at(job: Job, tmp_path: Path) -> None:
    job.write("loss.csv")
    (tmp_path / "alias").symlink_to(job.cwd)
    job.cwd = tmp_path / "alias"
    assert "it is a link" in job.collect()[str(job.cwd)].reason


def test_a_job_folder_that_is_gone_is_said(job: Job) -> None:
    job.cwd.rmdir()
    assert job.collect()[str(job.cwd)].reason == "not looked at: No such file or directory"


def test_without_a_start_only_the_log_counts(job: Job) -> None:
    run = job.run()
    abandoned = Run(run.path, "r1", run.argv, run.cwd, "", run.options, (), None, None)
    job.write("loss.csv")
    assert len(collect(abandoned, [LogFile("output.log", job.log)], Settings(), failed=True)) == 1


def test_a_run_without_an_end_is_looked_at_until_now(job: Job) -> None:
    job.ended_at = None
    job.write("loss.csv")
    assert job.collect()["loss.csv"].attached


# --- swapped between looking and opening ---


def found_file(path: Path) -> Found:
    found = path.lstat()
    return Found(path, path.name, found.st_size, (found.st_dev, found.st_ino), False)


def test_a_file_that_was_swapped_for_another_is_not_opened(job: Job) -> None:
    file = found_file(job.write("a.csv"))
    job.write("b.csv", b"other")
    (job.cwd / "b.csv").replace(job.cwd / "a.csv")
    with pytest.raises(UnsafeFileError, match="another file has its name by now"):
        file.open()


def test_a_file_that_was_swapped_for_a_link_or_a_fifo_is_not_opened(job: Job) -> None:
    file = found_file(job.write("a.csv"))
    file.path.unlink()
    file.path.symlink_to("/etc/passwd")
    with pytest.raises(UnsafeFileError, match="symbolic link"):
        file.open()
    file.path.unlink()
    os.mkfifo(file.path)
    with pytest.raises(UnsafeFileError, match="not a regular file"):
        file.open()


def test_a_folder_that_was_swapped_for_a_link_is_not_entered(job: Job, tmp_path: Path) -> None:
    file = found_file(job.write("sub/a.csv"))
    file.path.parent.rename(tmp_path / "moved")
    (job.cwd / "sub").symlink_to(tmp_path / "moved")
    with pytest.raises(UnsafeFileError, match="it is a link"):
        file.open()


# --- what the user asks for ---


def test_globs_name_files_anywhere(job: Job, tmp_path: Path) -> None:
    job.write("a/b/model.ckpt", b"\0\1")
    job.write("a/x[1].dat", b"\0\1")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "y.dat").write_bytes(b"\0\1")
    found = job.collect(attach=("**/*.ckpt", "a/x[1].dat", str(tmp_path / "other/*.dat"), "../other/y.*"))
    assert found["a/b/model.ckpt"].content == found["a/x[1].dat"].content == b"\0\1"
    assert found[str(tmp_path / "other/y.dat")].attached
    assert found["a/b/model.ckpt"].reason == "binary: not searched for secrets"


def test_settings_may_name_files_too(job: Job) -> None:
    job.write("model.ckpt", b"\0\1")
    assert job.collect(Settings(attach=Attach(globs=("*.ckpt",))))["model.ckpt"].attached


def test_a_glob_without_a_file_is_said(job: Job) -> None:
    assert job.collect(attach=("*.nope",))["--attach '*.nope'"].reason == "there is no such file"


@pytest.mark.parametrize("pattern", ["", ".", "/", "**", "..", "a//b", "[", "**/**/**/*", "\udce9*", "x" * 5000])
def test_strange_globs_do_no_harm(pattern: str, job: Job) -> None:
    job.write("loss.csv")
    assert "loss.csv" in job.collect(attach=(pattern,))


# --- limits ---


def test_no_more_than_a_few_files_go_along_unasked_and_the_rest_is_counted(job: Job) -> None:
    for number in range(100):
        job.write(f"sample{number:03}.txt", b"x" * (number + 1))
    found = job.collect()
    assert sum(artifact.attached for artifact in found.values()) == MAX_UNASKED + 1
    assert sum(not artifact.attached for artifact in found.values()) == MAX_LISTED + 1
    more = found[f"{100 - MAX_UNASKED - MAX_LISTED} more files"]
    assert more.reason == "changed too, not listed"
    assert more.size_bytes == sum(range(MAX_UNASKED + 1, 100 - MAX_LISTED + 1))


def test_what_is_attached_stays_within_the_budget_and_the_rest_is_named(job: Job) -> None:
    for number in range(8):
        job.write(f"part{number}.dat", os.urandom(100_000 + number))
    settings = Settings(attach=Attach(max_file_bytes=200_000, max_total_bytes=500_000))
    found = job.collect(settings, attach=("*.dat",))
    assert sum(encoded_size(len(a.content)) for a in found.values() if a.attached) <= 500_000
    assert [name for name, a in found.items() if a.attached] == ["output.log", "part0.dat", "part1.dat", "part2.dat"]
    assert found["part7.dat"].reason == "too large for what is left of the budget"
    assert found["part7.dat"].size_bytes == 100_007


def test_a_search_that_is_cut_says_so(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    job.write("/".join(["deep"] * 9) + "/a.csv")
    assert any("6 deep is the limit" in reason for reason in skipped(job))
    monkeypatch.setattr(finding, "MAX_FOLDER_ENTRIES", 3)
    for number in range(5):
        job.write(f"many/{number}.bin")
    assert any("holds more than 3 files" in reason for reason in skipped(job))
    monkeypatch.setattr(finding, "MAX_SEARCH_S", 0.0)
    assert any("there is too much" in reason for reason in skipped(job))


def skipped(job: Job) -> list[str]:
    return [note.reason for note in find_changed(Search(str(job.cwd), (), job.started_at, time.time() + 1))[1]]


# --- names ---


def test_hostile_names_survive_and_the_list_is_strict_json(job: Job) -> None:
    names = ["new\nline.txt", "esc\x1b[31m.txt", "a\u202eb.txt", "latin\udce9.txt", "quote'\".txt"]
    for name in names:
        job.write(name)
    found = job.collect(attach=("\udce9-\n-*.x",))
    assert all(found[name].attached for name in names)
    written = json.dumps(to_json(found.values()), ensure_ascii=False).encode("utf-8")
    listed = {entry["name"]: entry for entry in json.loads(written)["artifacts"]}
    assert listed["new\nline.txt"]["attached_bytes"] == 8
    assert "latin\\xe9.txt" in listed


def test_the_list_holds_everything_but_the_bytes(job: Job) -> None:
    job.write("model.ckpt", b"\0" * 10)
    listed = to_json(job.collect().values())
    assert listed["schema"] == 1
    assert listed["artifacts"][1] == {
        "name": "model.ckpt",
        "path": str(job.cwd / "model.ckpt"),
        "size_bytes": 10,
        "attached": False,
        "attached_bytes": 0,
        "media_type": "application/octet-stream",
        "reason": "not attached by default; --attach sends it",
        "omitted_lines": 0,
        "redactions": 0,
    }


# --- what is ours ---


@pytest.mark.parametrize("globs", [(), ("state/runs/r2/*",), ("**/*.log",), ("state/history.jsonl",)], ids=str)
def test_other_runs_in_the_jobs_folder_are_never_sent(job: Job, tmp_path: Path, globs: tuple[str, ...]) -> None:
    job.path = job.cwd / "state" / "runs" / "r1"
    for name in ("runs/r2/output.log", "runs/r2/loss.csv", "outbox/m.txt", "mail/new/m.txt", "history.jsonl"):
        job.write(f"state/{name}", b"another run\n")
    assert not [name for name, file in job.collect(attach=globs).items() if name.startswith("state/") and file.path]


def test_the_configured_state_folder_is_not_sent_even_behind_a_link(job: Job, tmp_path: Path) -> None:
    job.write("home/runs/r2/loss.csv"), job.write("loss.csv")
    (tmp_path / "link").symlink_to(job.cwd / "home")
    assert list(job.collect(Settings(home=tmp_path / "link"))) == ["output.log", "loss.csv"]
