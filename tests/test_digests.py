"""Digests: what is alike is told together, every run once, whoever is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from outcomes import body, messages
from reports import a_run, a_success, an_artifact, an_evidence
from sites import NOW, Site, failed, no_room_for

from gpualert.model import Start
from gpualert.notify.digest_message import ranges
from gpualert.notify.digests import LONGEST_WINDOW_S, Case, Digest, Topic
from gpualert.notify.outbox import send_due
from gpualert.notify.spool import Spool
from gpualert.sending import Sender
from gpualert.settings import Digests

WINDOW_S = 900.0
ENVIRON = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
CAUSES = ("cuda_oom", "nccl", "disk_full", "traceback", "segfault")


@pytest.fixture
def site(state: Path) -> Site:
    return Site(state)


@pytest.mark.parametrize("equal", [300, pytest.param(10_000, marks=[pytest.mark.long, pytest.mark.timeout(600)])])
def test_thousands_of_equal_failures_and_five_others_are_few_messages_that_name_each_cause(
    site: Site, equal: int
) -> None:
    ended = []
    for number in range(equal):
        ended.append(site.end(failed(), send=number % 50 == 0))
        site.now += 600 / equal
        if number % (equal // 5) == 7:
            ended.append(site.end(failed(f"other_{number}")))
    site.tick(after_s=WINDOW_S)
    assert len(messages(site.state)) == 7, "six causes at once, and one digest"
    assert site.told() == Counter(ended)
    (digest,) = [mail for mail in messages(site.state) if "digest" in str(mail["Message-ID"])]
    assert str(digest["Subject"]) == f"{equal - 1:,} more FAILED cuda_oom: runs like train.py on 4 hosts"
    for number in range(7, equal, equal // 5):
        assert any(f"other_{number}" in subject for subject in site.subjects())


def test_the_first_goes_at_once_and_a_single_one_after_it_goes_by_itself_when_the_window_closes(site: Site) -> None:
    first, second = site.end(failed()), site.end(failed())
    assert site.told() == Counter([first])
    site.tick(WINDOW_S - 1)
    assert site.told() == Counter([first])
    site.tick(2)
    assert site.told() == Counter([first, second])
    assert all("digest" not in str(mail["Message-ID"]) for mail in messages(site.state))


def test_the_window_grows_while_more_come_and_ends_when_none_came(site: Site) -> None:
    for _ in range(3):
        site.end(failed())
    assert len(site.tick(WINDOW_S).sent) == 1
    for _ in range(2):
        site.end(failed())
    assert site.tick(WINDOW_S).sent == (), "the second window is twice as long"
    assert len(site.tick(WINDOW_S).sent) == 1
    site.tick(4 * WINDOW_S)
    site.end(failed())
    assert len(messages(site.state)) == 4, "after a quiet window the next goes at once"
    assert set(site.told().values()) == {1}


def test_a_later_report_of_anything_sends_the_digest_that_is_due_where_no_tick_runs(site: Site) -> None:
    ended = [site.end(failed()) for _ in range(4)]
    site.now += WINDOW_S
    ended.append(site.end(failed("nccl")))
    assert site.told() == Counter(ended) and len(messages(site.state)) == 3


def test_distinct_causes_and_distinct_readers_are_never_merged(site: Site) -> None:
    for cause in CAUSES:
        site.end(failed(cause)), site.end(failed(cause)), site.end(failed(cause))
    site.end(failed("nccl"), to=("bob@example.org",))
    site.tick(WINDOW_S)
    assert len(messages(site.state)) == 2 * len(CAUSES) + 1
    for cause in CAUSES:
        assert f"2 more FAILED {cause}: runs like train.py on 2 hosts" in " ".join(site.subjects())


def test_an_array_is_one_failure_at_once_and_one_digest_of_all_its_causes_when_its_last_task_has_ended(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_ARRAY_JOB_ID", "4711")
    monkeypatch.setenv("SLURM_ARRAY_TASK_COUNT", "20")
    verdicts = {3: failed("nccl"), 5: failed(), 6: failed(), 7: failed("disk_full"), 19: failed("nccl")}
    for task in range(20):
        array = {"slurm_array_job_id": "4711", "slurm_array_task_id": str(task)}
        site.end(verdicts.get(task, a_success()), files=[an_artifact(name=f"of-{task}.csv")], **array)
        assert len(messages(site.state)) == (0 if task < 3 else 1 if task < 19 else 2)
    first, digest = messages(site.state)
    assert str(first["Subject"]).startswith("FAILED nccl: train.py")
    subject = "2 FAILED cuda_oom, 1 FAILED disk_full, 1 FAILED nccl, 15 OK: array 4711 of train.py on 4 hosts"
    assert str(digest["Subject"]) == subject
    assert digest["References"] == digest["In-Reply-To"] == first["Message-ID"]
    text = body(digest)
    assert "Tasks  0-2,4,8-18\n" in text and "Tasks  5-6\n" in text
    assert "     2  FAILED cuda_oom: torch.OutOfMemoryError: CUDA out of memory." in text
    assert "| FAILED cuda_oom: train.py" in text and "| FAILED disk_full" in text, "the first failure of each in full"
    assert {part.get_filename() for part in digest.iter_attachments()} == {
        "of-5.csv",
        "of-7.csv",
        "of-19.csv",
    }
    assert set(site.told().values()) == {1}


def test_an_array_that_ends_well_is_one_message(site: Site) -> None:
    array = {"slurm_array_job_id": "4711", "extra": {"slurm_array_task_count": "30"}}
    ended = [site.end(a_success(), slurm_array_task_id=str(task), **array) for task in range(30)]
    assert site.subjects() == ["30 OK: array 4711 of train.py on 4 hosts"]
    assert site.told() == Counter(ended)


def test_tasks_that_send_no_message_count_as_ended(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_ARRAY_JOB_ID", "4711")
    monkeypatch.setenv("SLURM_ARRAY_TASK_COUNT", "6")
    for task in range(6):
        array = {"slurm_array_job_id": "4711", "slurm_array_task_id": str(task)}
        if task in (1, 2, 3):
            site.end(failed(f"cause_{task}"), **array)
        else:
            site.end_silently(a_success(), **array)
        assert len(messages(site.state)) == (0 if task < 1 else 1 if task < 5 else 2)
    assert "1 FAILED cause_2, 1 FAILED cause_3: array 4711 of train.py" in site.subjects()[-1]


def test_a_long_array_goes_on_counting_through_quiet_windows_and_the_next_failure_goes_at_once(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_ARRAY_JOB_ID", "4711")
    monkeypatch.setenv("SLURM_ARRAY_TASK_COUNT", "4")
    for task in range(4):
        site.end(failed(), slurm_array_job_id="4711", slurm_array_task_id=str(task))
        assert sum(site.told().values()) == task + 1 if task < 2 else True
        if task < 2:
            site.tick(WINDOW_S), site.tick(WINDOW_S)
    assert set(site.told().values()) == {1} and len(site.told()) == 4, "told when its last task ended"
    for _ in range(200):
        site.tick(LONGEST_WINDOW_S)
    assert list((site.state / "outbox" / "digests").iterdir()) == []


def test_messages_of_one_chain_follow_the_first(site: Site) -> None:
    for cause in ("nccl", "cuda_oom", "nccl"):
        site.end(failed(cause), chain="night")
    site.tick(WINDOW_S)
    first, second, third = messages(site.state)
    assert first["References"] is None
    assert second["References"] == third["References"] == second["In-Reply-To"] == first["Message-ID"]


def test_where_nobody_will_come_by_as_many_are_told_as_were_told_before(site: Site) -> None:
    """A job on a cluster node, and no tick: its end waits, and nothing of ours outlives it."""
    counts = []
    for _ in range(16):
        site.end(failed(), send=False)
        send_due(site.state, site.settings, site.now, 20, prompt=True)
        counts.append(sum(site.told().values()))
    assert counts == [1, 2, 2, 4, 4, 4, 4, 8, 8, 8, 8, 8, 8, 8, 8, 16]
    assert set(site.told().values()) == {1}


def test_a_window_of_a_day_is_no_wrong_clock_and_one_of_a_year_from_a_wrong_clock_is(site: Site) -> None:
    day_s = 86_400.0
    site.settings = replace(site.settings, digest=Digests(window_s=day_s))
    for _ in range(3):
        site.end(failed())
    assert site.tick(day_s - 1).sent == () and len(site.tick(2).sent) == 1
    site.end(failed())
    site.now -= 365 * day_s
    assert len(site.tick().sent) == 1


def test_zero_as_the_window_tells_each_by_itself(site: Site) -> None:
    alone = replace(site.settings, digest=replace(site.settings.digest, window_s=0.0))
    for number in range(3):
        run = a_run(path=site.state / "runs" / f"r{number}", run_id=f"r{number}")
        sender = Sender(run, failed(), alone)
        sender.queue(b"Subject: x\r\n\r\nx\r\n", addressed=True)
        sender.send(20, others_too=True)
    assert len(messages(site.state)) == 3


def test_a_report_made_again_is_not_told_again(site: Site) -> None:
    site.end(failed())
    run_id = site.end(failed())
    path = site.state / "runs" / run_id
    run = a_run(path=path, run_id=run_id, start=Start(run_id, "n", 1, 1, NOW))
    sender = Sender(run, failed(), site.settings, lambda: site.now)
    for after_s in (0.0, WINDOW_S, 1.0):
        sender.queue((path / "message.eml").read_bytes(), addressed=True)
        site.tick(after_s)
    site.tick(10 * WINDOW_S)
    assert set(site.told().values()) == {1} and len(site.told()) == 2


def test_a_digest_whose_runs_are_gone_tells_of_them_all_the_same(site: Site) -> None:
    ended = [site.end(failed()) for _ in range(3)]
    for run in ended:
        (site.state / "runs" / run / "message.eml").unlink()
    site.tick(WINDOW_S)
    assert site.told() == Counter(ended)


def test_a_single_case_whose_run_is_gone_is_told_all_the_same(site: Site) -> None:
    ended = [site.end(failed()) for _ in range(2)]
    (site.state / "runs" / ended[1] / "message.eml").unlink()
    site.tick(WINDOW_S)
    assert site.told() == Counter(ended)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"schema": 99}'], ids=["empty", "cut off", "list", "later"])
@pytest.mark.parametrize("file", ["window.json", "first", "new"])
def test_a_damaged_file_is_named_and_the_rest_is_told(site: Site, file: str, content: bytes) -> None:
    ended = [site.end(failed()) for _ in range(4)]
    (folder,) = (site.state / "outbox" / "digests").iterdir()
    damaged = next((folder / "new").iterdir()) if file == "new" else folder / file
    damaged.write_bytes(content)
    found = site.tick(WINDOW_S)
    if file == "new":
        assert str(folder) in found.troubles[0] and (site.state / "outbox" / "dead" / damaged.name).exists()
        assert len(site.told()) == 3
    else:
        assert site.told() == Counter(ended)
        assert file == "first" or str(damaged) in found.troubles[0]


STEPS = ("begin", "extend", "spool.add", "told 1", "told 2", "told 3", "end")
KILLED = """
import os, signal, sys
from pathlib import Path
from sites import NOW, Site
from test_digests import WINDOW_S
from gpualert.notify import closing
from gpualert.notify.digests import Digest
from gpualert.notify.spool import Spool

state, step, before = Path(sys.argv[1]), sys.argv[2], sys.argv[3] == "before"
name, _, times = step.partition(" ")
left = int(times or 1)

def dying(real):
    def call(*args, **more):
        global left
        left -= 1
        if not left and before:
            os.kill(os.getpid(), signal.SIGKILL)
        result = real(*args, **more)
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
        return result
    return call

owner = Spool if name == "spool.add" else Digest
name = name.rpartition(".")[2]
setattr(owner, name, dying(getattr(owner, name)))
site = Site(state, now=NOW + WINDOW_S)
site.tick()
"""


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", STEPS)
def test_killed_between_any_two_steps_each_run_is_told_once(site: Site, step: str, when: str) -> None:
    ended = [site.end(failed()) for _ in range(4)]
    command = [sys.executable, "-c", KILLED, str(site.state), step, when]
    assert subprocess.run(command, env=ENVIRON, check=False).returncode == -signal.SIGKILL
    ended.append(site.end(failed()))
    for _ in range(8):
        site.tick(LONGEST_WINDOW_S)
    assert site.told() == Counter(ended)
    assert list((site.state / "outbox" / "digests").iterdir()) == []


MANY = """
import sys
from pathlib import Path
from sites import NOW, Site, failed, no_room_for
site = Site(Path(sys.argv[1]), runs=int(sys.argv[2]) * 1000)
for number in range(25):
    site.end(failed(), send=False)
"""
CLOSING = """
import sys
from pathlib import Path
from sites import NOW, Site
from test_digests import WINDOW_S
site = Site(Path(sys.argv[1]))
while sys.stdin.read(1):
    site.tick(10 * WINDOW_S)
"""


def test_posts_and_ticks_at_once_tell_each_run_once(site: Site) -> None:
    writers = [subprocess.Popen([sys.executable, "-c", MANY, str(site.state), str(n)], env=ENVIRON) for n in range(4)]
    closing = [sys.executable, "-c", CLOSING, str(site.state)]
    closers = [subprocess.Popen(closing, env=ENVIRON, stdin=subprocess.PIPE) for _ in range(2)]
    for writer in writers:
        while writer.poll() is None:
            for closer in closers:
                assert closer.stdin
                closer.stdin.write(b"x"), closer.stdin.flush()
            with suppress(subprocess.TimeoutExpired):
                writer.wait(0.05)
    for closer in closers:
        closer.communicate()
    for _ in range(3):
        site.tick(10_000 * WINDOW_S)
    told = site.told()
    assert len(told) == 100 and set(told.values()) == {1}


@pytest.mark.parametrize("first", [True, False], ids=["the first", "a later one"])
def test_a_full_disk_while_collecting_is_said_to_the_report_which_comes_again(state: Path, first: bool) -> None:
    topic, outbox = Topic("runs like x", "cause x"), Spool.of(state).folder
    cases = [Case(f"<{number}@x>", "a@x.org", ("b@x.org",), NOW, "", "x", "FAILED x") for number in range(2)]
    *before, case = cases[:1] if first else cases
    for earlier in before:
        assert not Digest.on(outbox, topic, earlier).take(topic, earlier, NOW, WINDOW_S)
    digest = Digest.on(outbox, topic, case)
    with no_room_for(5), pytest.raises(OSError, match="large"):
        digest.take(topic, case, NOW, WINDOW_S)
    assert digest.take(topic, case, NOW, WINDOW_S) is not first
    assert Counter(path.name for path in outbox.rglob("*.json")) == Counter(
        ["window.json"] if first else ["window.json", case.file_name]
    )


def test_a_full_disk_while_a_digest_is_made_loses_nothing(site: Site) -> None:
    ended = [site.end(failed()) for _ in range(4)]
    with no_room_for(3000):
        found = site.tick(WINDOW_S)
    assert found.sent == () and "cannot tell what waits in" in found.troubles[0]
    site.tick(WINDOW_S)
    assert site.told() == Counter(ended)


def test_hostile_words_stay_words_in_a_digest(site: Site) -> None:
    evil = "x\r\nBcc: evil@example.org\n<script>alert(1)</script>\x1b[31m token=ghp_" + "a1B2" * 9
    verdict = replace(failed(), evidence=(an_evidence(text=evil),))
    for _ in range(3):
        site.end(verdict, slurm_array_job_id=evil, slurm_array_task_id=evil, node=evil)
    site.tick(WINDOW_S)
    digest = messages(site.state)[-1]
    assert digest["Bcc"] is None and "digest" in str(digest["Message-ID"])
    html = digest.get_body(("html",))
    assert html
    shown = str(html.get_content())
    everything = shown + body(digest) + str(digest["Subject"])
    assert "<script>" not in shown and "\x1b" not in everything and "a1B2a1B2" not in everything


def test_ranges_of_tasks_are_written_as_slurm_does() -> None:
    assert ranges(["3", "1", "2", "7", "x", "10"]) == "1-3,7,10,x"
    assert ranges([]) == ""
