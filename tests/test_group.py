"""Runs that one launcher started together: one verdict and one message, whoever fails, is killed or never reports."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import pytest
from outcomes import body, messages, tick_once
from ranks import GROUP, OOM, Ranks, watchdog
from rundirs import NOW, RUN_ID, RunBuilder, record

from gpualert.cli.look import print_report
from gpualert.group.post import due_groups, report_group
from gpualert.group.report import failed_together
from gpualert.places import python_command
from gpualert.post import post, report_run
from gpualert.rundir import read_run


@pytest.fixture
def ranks(make_run: RunBuilder) -> Ranks:
    """Return a builder of the runs of a group of eight."""
    return Ranks(make_run)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for missing members no longer than it takes to look."""
    monkeypatch.setattr("gpualert.group.post._WAIT_S", 0.0)
    monkeypatch.setattr("gpualert.group.post._PATIENCE_S", 0.0)


def start_posts(paths: list[Path], *flags: str) -> list[subprocess.Popen[bytes]]:
    return [subprocess.Popen(python_command("post", *flags, str(path))) for path in paths]


def subjects(state: Path) -> list[str]:
    """Return the subjects of all messages; a long one may be folded at its start."""
    return [str(mail["Subject"]).strip() for mail in messages(state)]


def report_each(*paths: Path) -> None:
    """Report runs as by one process each, at once: none waits for the others."""
    for path in paths:
        group = report_run(path)
    assert group
    report_group(group)


def verdict(path: Path) -> dict[str, object]:
    found = json.loads((path / "verdict.json").read_text())
    assert isinstance(found, dict)
    return found


def grown_old(group: Path) -> None:
    """Let the last report to a group be two minutes ago."""
    before = time.time() - 120
    os.utime(group / "members", (before, before))


@pytest.mark.parametrize("flags", [[], ["--wait"]], ids=["detached", "the job's end waits"])
def test_of_eight_ranks_that_fail_at_once_one_message_tells_the_cause_the_rank_and_its_node(
    ranks: Ranks, state: Path, flags: list[str]
) -> None:
    paths = ranks.with_one_cause(5)
    assert [process.wait() for process in start_posts(paths, *flags)] == [0] * 8
    assert subjects(state) == ["FAILED cuda_oom: train.py on 8 nodes after 1m 41s (rank 5 on n5 first)"]
    told = verdict(state / "groups" / GROUP)
    assert (told["status"], told["class"], told["first_rank"], told["first_node"]) == ("failed", "cuda_oom", 5, "n5")
    (root, *_) = told["evidence"]  # type: ignore[misc]
    assert (root["file"], root["line"], root["rank"], root["host"]) == ("rank5/output.log", 2, 5, "n5")
    assert [verdict(path)["class"] for path in paths] == ["nccl"] * 5 + ["cuda_oom"] + ["nccl"] * 2
    assert {verdict(path)["group"] for path in paths} == {GROUP}


def test_the_table_of_ranks_names_node_outcome_duration_and_log_of_each(ranks: Ranks, state: Path) -> None:
    paths = ranks.with_one_cause(5)
    report_each(*paths)
    rows = [line.split() for line in body(messages(state)[0]).splitlines() if line.startswith("rank ")]
    assert rows == [
        ["rank", f"{n},", "first", f"n{n}", "FAILED", "cuda_oom", "1m", "40s", str(path)]
        if n == 5
        else ["rank", str(n), f"n{n}", "FAILED", "nccl", "1m", "41s", str(path)]
        for n, path in enumerate(paths)
    ]


def test_one_failure_among_successes_and_killed_ranks_fails_all(ranks: Ranks, state: Path) -> None:
    paths = [ranks(rank) for rank in range(4)]
    paths += [ranks.failed(4, b"step 1\n", status=143, after_s=-0.5), ranks.failed(5)]
    paths += [ranks.failed(rank, b"step 1\n", status=137, after_s=0.5) for rank in (6, 7)]
    report_each(*paths)
    assert subjects(state) == ["FAILED cuda_oom: train.py on 8 nodes after 1m 40s (rank 5 on n5 first)"]


def test_a_group_that_ends_well_has_one_message_and_it_comes_with_the_last(ranks: Ranks, state: Path) -> None:
    paths = [ranks(rank) for rank in range(8)]
    for path in paths[:-1]:
        post(path)
        assert messages(state) == []
    post(paths[-1])
    assert subjects(state) == ["OK: train.py on 8 nodes after 1m 40s"]


def test_on_one_node_the_node_is_named_once(ranks: Ranks, state: Path) -> None:
    here = {"node": "n1"}
    report_each(*(ranks.failed(n, OOM if n == 2 else watchdog(n), after_s=n != 2, start=here) for n in range(8)))
    assert subjects(state) == ["FAILED cuda_oom: train.py on n1 after 1m 41s (rank 2 first)"]


@pytest.mark.usefixtures("impatient")
def test_members_that_never_reported_are_listed(ranks: Ranks, state: Path) -> None:
    ranks(1, log=b"step 1\n", ended=False, start={"host": "n1", "boot_id": "another"})
    ranks(2, log=b"step 1\n", ended=False, start={"pid": os.getpid(), "pid_starttime": ""})
    ranks.failed(3, watchdog(3), after_s=2)
    post(ranks.failed(5))
    (mail,) = messages(state)
    told = body(mail)
    assert "no end was recorded: rank 1 on n1" in told
    assert "still running: rank 2 on n2" in told
    assert "exit status 1, not judged yet: rank 3 on n3" in told
    absent = "never started, as far as this state folder tells: rank 0, rank 4, rank 6, rank 7"
    assert absent in " ".join(told.split())
    assert str(mail["Subject"]).endswith("(rank 5 on n5 first)")


@pytest.mark.usefixtures("impatient")
def test_the_cause_is_found_in_the_log_of_a_rank_whose_own_report_is_missing(ranks: Ranks, state: Path) -> None:
    ranks.failed(5)
    post(ranks.failed(0, watchdog(0), after_s=1))
    (mail,) = messages(state)
    assert "cuda_oom" in str(mail["Subject"]) and "rank 5 on n5 first" in str(mail["Subject"])


@pytest.mark.usefixtures("impatient")
def test_a_rank_that_all_others_waited_for_is_named(ranks: Ranks, state: Path) -> None:
    ranks(2, log=b"step 1\n", ended=False, start={"pid": os.getpid(), "pid_starttime": ""})
    report_each(*(ranks.failed(rank, watchdog(rank)) for rank in (0, 1, 3, 4, 5, 6, 7)))
    assert str(messages(state)[0]["Subject"]).endswith("(rank 2 on n2 first)")


def test_a_member_under_way_holds_a_success_back(ranks: Ranks, state: Path) -> None:
    running = ranks(0, ended=False, start={"pid": os.getpid(), "pid_starttime": ""})
    for rank in range(1, 8):
        post(ranks(rank))
    grown_old(state / "groups" / GROUP)
    assert due_groups(state) == [] and messages(state) == []
    (running / "exit").write_bytes(record({"status": 0, "ended_at": NOW + 3600}))
    post(running)
    assert subjects(state) == ["OK: train.py on 8 nodes after 1h 1m"]


@pytest.mark.usefixtures("impatient")
def test_a_member_that_fails_later_changes_nothing_that_was_told_of_a_failure(ranks: Ranks, state: Path) -> None:
    post(ranks.failed(5))
    (before,) = messages(state)
    for rank in (0, 1):
        post(ranks.failed(rank, watchdog(rank), after_s=600))
    (after,) = messages(state)
    assert after["Message-ID"] == before["Message-ID"]


@pytest.mark.usefixtures("impatient")
def test_a_failure_after_a_success_was_told_is_one_correction(ranks: Ranks, state: Path) -> None:
    for rank in range(6):
        post(ranks(rank))
    assert subjects(state) == ["OK: train.py on n0 after 1m 40s (7 of 8 did not report)"]
    post(ranks.failed(6, after_s=5))
    post(ranks.failed(7, watchdog(7), after_s=5))
    found = messages(state)
    assert sorted(str(mail["Subject"]).split()[0] for mail in found) == ["FAILED", "OK:"]
    assert len({mail["Message-ID"] for mail in found}) == 2


def test_two_posts_of_a_group_at_once_send_one_message(ranks: Ranks, state: Path) -> None:
    for path in ranks.with_one_cause():
        report_run(path)
    assert messages(state) == []
    started = start_posts([state / "groups" / GROUP] * 3)
    assert [process.wait() for process in started] == [0, 0, 0]
    assert len(messages(state)) == 1


def test_a_tick_reports_a_group_that_nobody_did(ranks: Ranks, state: Path) -> None:
    for path in ranks.with_one_cause():
        report_run(path)
    assert tick_once(state) == []
    assert tick_once(state) == []
    assert len(messages(state)) == 1


def test_a_tick_on_another_host_reports_all_members_and_their_group(ranks: Ranks, state: Path) -> None:
    for rank in range(8):
        there = {"host": f"n{rank}", "boot_id": f"another-{rank}"}
        ranks.failed(rank, OOM if rank == 5 else watchdog(rank), after_s=rank != 5, start=there)
    assert tick_once(state) == []
    assert [subject.split(":")[0] for subject in subjects(state)] == ["FAILED cuda_oom"]


def test_a_tick_waits_a_minute_for_the_missing_members_of_a_group_that_failed(ranks: Ranks, state: Path) -> None:
    report_run(ranks.failed(5))
    assert tick_once(state) == [] and messages(state) == []
    grown_old(state / "groups" / GROUP)
    assert tick_once(state) == []
    assert len(messages(state)) == 1


def test_a_lost_member_fails_its_group(ranks: Ranks, state: Path) -> None:
    ranks(7, log=b"step 1\n", ended=False)
    report_each(*(ranks(rank) for rank in range(7)))
    assert messages(state) == []
    assert tick_once(state) == []
    assert subjects(state) == ["LOST: train.py on 8 nodes (rank 7 on n7 first)"]


def test_a_run_inside_another_is_told_with_its_group_by_the_outer_one(
    ranks: Ranks, make_run: RunBuilder, state: Path
) -> None:
    outer = make_run(log=b"srun: error: n5: task 5: Exited with exit code 1\n", ended=False)
    for rank in range(8):
        log = OOM if rank == 5 else watchdog(rank)
        parent = {"parent_run_id": RUN_ID} if rank == 0 else {}  # the others were on other hosts
        report_run(ranks.failed(rank, log, after_s=-5 if rank == 5 else -4, start=parent))
    report_group(state / "groups" / GROUP)
    assert messages(state) == []
    (outer / "exit").write_bytes(record({"status": 1, "ended_at": NOW}))
    post(outer)
    (mail,) = messages(state)
    assert "1 inside it failed" in str(mail["Subject"])
    assert "FAILED cuda_oom: train.py" in body(mail)


def test_a_group_in_a_state_folder_of_ten_thousand_runs_is_found_without_reading_them(
    ranks: Ranks, make_run: RunBuilder, state: Path
) -> None:
    for number in range(10_000):
        (state / "runs" / f"20261120T{number:06}Z-n1-00000000").mkdir(parents=True)
    paths = [ranks(rank) for rank in range(8)]
    began = time.monotonic()
    report_each(*paths)
    took_s = time.monotonic() - began
    assert len(messages(state)) == 1
    print(f"8 reports of a group beside 10,000 runs: {took_s:.2f} s")


def test_show_says_which_group_a_run_belongs_to(ranks: Ranks, capsys: pytest.CaptureFixture[str]) -> None:
    paths = ranks.with_one_cause()
    report_each(*paths)
    print_report(paths[0])
    shown = " ".join(capsys.readouterr().out.split())
    assert f"Group rank 0 of 8 in {GROUP}: FAILED cuda_oom, first on n5" in shown


@pytest.mark.parametrize("last", ["tries", "failed-classify", "failed-verdict", "failed-message", "failed-queued"])
def test_a_report_of_a_group_that_was_killed_after_any_step_goes_on_there(ranks: Ranks, state: Path, last: str) -> None:
    report_each(*ranks.with_one_cause())
    (before,) = messages(state)
    steps = ["tries", "failed-classify", "failed-verdict", "failed-message", "failed-queued", "failed-done"]
    group = state / "groups" / GROUP
    for step in steps[steps.index(last) + 1 :]:
        (group / "claims" / step).unlink()
    report_group(group)
    (after,) = messages(state)
    assert after["Message-ID"] == before["Message-ID"]
    assert (group / "claims" / "failed-done").exists()


def test_posts_of_a_group_killed_at_any_moment_and_a_tick_give_one_message(
    ranks: Ranks, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUALERT_DIGEST_WINDOW_S", "0")
    for number in range(6):
        group = Ranks(ranks.make_run, size=2, group=f"slurm-{number}.0.0", stamp=f"20261129T1451{number:02}Z")
        paths = [group.failed(0), group.failed(1, watchdog(1))]
        processes = start_posts(paths)
        time.sleep(0.2 * number)  # a moment, not a wait: whatever was done until then
        for process in processes:
            process.kill()
            process.wait()
    while due_groups(state) or any(not (path / "claims/ended-done").exists() for path in (state / "runs").iterdir()):
        assert tick_once(state) == []
    ids = [mail["Message-ID"] for mail in messages(state)]
    assert len(ids) == len(set(ids)) == 6


def test_what_the_members_need_is_kept_and_an_empty_group_is_removed(ranks: Ranks, state: Path) -> None:
    from gpualert.group import remove_empty_groups

    report_each(*ranks.with_one_cause())
    remove_empty_groups(state)
    assert (state / "groups" / GROUP / "verdict.json").exists()
    for path in list((state / "runs").iterdir()):
        path.rename(path.with_name(f".removed-{path.name}"))
    remove_empty_groups(state)
    assert not (state / "groups" / GROUP).exists()


def test_where_no_group_can_be_made_each_run_is_told_alone(ranks: Ranks, state: Path) -> None:
    paths = ranks.with_one_cause()[4:6]
    (state / "groups").write_text("no folder")
    for path in paths:
        assert report_run(path) is None
    assert len(messages(state)) == 2
    assert "cannot be told together" in (paths[0] / "post.log").read_text()


def test_of_one_torchrun_a_node_the_rank_is_the_logs_and_the_node_the_members(
    make_run: RunBuilder, state: Path
) -> None:
    nodes = Ranks(make_run, size=2)
    command = ("torchrun", "--nnodes=2", "--nproc-per-node=8", "train.py")
    cause = b'[rank11]: Traceback (most recent call last):\n[rank11]:   File "train.py", line 3, in <module>\n'
    cause += b"[rank11]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB.\n"
    report_each(nodes.failed(0, watchdog(3), after_s=1, argv=command), nodes.failed(1, cause, argv=command))
    assert subjects(state) == ["FAILED cuda_oom: train.py on 2 nodes after 1m 41s (rank 11 on n1 first)"]
    told = body(messages(state)[0])
    assert "node 1, first  n1  FAILED cuda_oom" in told and "node 0         n0  FAILED nccl" in told


def test_whoever_asks_about_a_job_is_told_of_the_group_that_failed_in_it(make_run: RunBuilder) -> None:
    failed, well = Ranks(make_run, size=2), Ranks(make_run, size=2, group="slurm-4712.0.0", stamp="20261129T145139Z")
    paths = [failed.failed(0, watchdog(0), after_s=1), failed.failed(1), well(0), well(1)]
    report_each(*paths[:2])
    report_each(*paths[2:])
    told = failed_together(read_run(paths[0]))
    assert told
    joint, findings = told
    assert (findings.verdict.failure_class, joint.run.argv, len(joint.ranks)) == ("cuda_oom", ("python", "train.py"), 2)
    assert failed_together(read_run(paths[2])) is None


def test_what_strikes_all_ranks_at_once_began_with_none(ranks: Ranks, state: Path) -> None:
    report_each(*(ranks.failed(rank, b"step 1\n", status=143) for rank in range(8)))
    assert subjects(state) == ["FAILED interrupted: train.py on 8 nodes after 1m 40s"]
    told = verdict(state / "groups" / GROUP)
    assert (told["first_rank"], told["first_node"]) == (None, "")


def test_a_rank_that_the_kernel_killed_is_the_first_although_it_says_nothing(ranks: Ranks, state: Path) -> None:
    killed = ranks(
        5, log=b"step 1\n", exit={"status": 137, "cgroup_oom_kill": 1}, start={"cgroup": "/five", "cgroup_oom_kill": 0}
    )
    others = [ranks.failed(rank, watchdog(rank), after_s=-1) for rank in (0, 1, 2, 3, 4, 6, 7)]
    report_each(*others, killed)
    assert subjects(state) == ["FAILED oom_killer: train.py on 8 nodes after 1m 40s (rank 5 on n5 first)"]


def test_a_rank_that_failed_although_it_exited_with_0_fails_its_group(ranks: Ranks, state: Path) -> None:
    report_each(*(ranks(rank, log=OOM if rank == 5 else b"Training finished\n") for rank in range(8)))
    assert subjects(state) == ["FAILED cuda_oom (exit 0): train.py on 8 nodes after 1m 40s (rank 5 on n5 first)"]
    assert "rank5/output.log, line 2, rank 5, on n5" in body(messages(state)[0])


def test_a_run_inside_a_rank_is_no_rank(ranks: Ranks, make_run: RunBuilder, state: Path) -> None:
    paths = ranks.with_one_cause(5)
    inside = "20261129T145139Z-n5-00000055"
    rank_5 = {"group": GROUP, "group_size": 8, "group_rank": 5}
    inner = make_run(inside, log=OOM, start={"run_id": inside, "parent_run_id": paths[5].name, **rank_5})
    os.utime(inner / "exit", (NOW, NOW))  # it ended before its rank did
    assert report_run(inner) is None
    report_each(*paths)
    assert subjects(state) == ["FAILED cuda_oom: train.py on 8 nodes after 1m 41s (rank 5 on n5 first)"]
    assert sorted(path.name for path in (state / "groups").iterdir()) == [GROUP]


@pytest.mark.usefixtures("impatient")
def test_a_run_inside_a_rank_is_none_that_is_missing(ranks: Ranks, make_run: RunBuilder, state: Path) -> None:
    path = ranks.failed(5)
    inside = "20261129T145139Z-n5-00000055"
    rank_5 = {"group": GROUP, "group_size": 8, "group_rank": 5}
    make_run(inside, log=OOM, start={"run_id": inside, "parent_run_id": path.name, **rank_5})
    post(path)
    assert sum(line.startswith("rank 5") for line in body(messages(state)[0]).splitlines()) == 1


def test_a_job_of_a_workflow_engine_belongs_to_no_group(ranks: Ranks, state: Path) -> None:
    path = ranks.failed(0)
    (path / "engine").write_bytes(b"name=snakemake\0rule=train\0")
    assert report_run(path) is None
    assert not (state / "groups").exists()


def test_where_the_end_of_one_rank_is_the_end_of_all_none_that_failed_ends_before_all_is_told(
    make_run: RunBuilder, state: Path
) -> None:
    ranks = Ranks(make_run, size=3)
    early = start_posts([ranks.failed(0, watchdog(0)), ranks.failed(1)], "--wait")
    for process in early:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(2)
    (last,) = start_posts([ranks.failed(2, watchdog(2))], "--wait")
    assert [process.wait() for process in (*early, last)] == [0, 0, 0]
    assert subjects(state) == ["FAILED cuda_oom: train.py on 3 nodes after 1m 40s (rank 1 on n1 first)"]


def test_show_tells_of_a_group_by_its_name(ranks: Ranks, state: Path) -> None:
    report_each(*ranks.with_one_cause())
    assert f"Look closer: gpualert show {GROUP}" in body(messages(state)[0])
    for word in (GROUP, str(state / "groups" / GROUP)):
        shown = subprocess.run(python_command("show", word), capture_output=True, check=True, text=True).stdout
        assert shown.splitlines()[0] == subjects(state)[0]
    as_json = subprocess.run(python_command("show", "--json", GROUP), capture_output=True, check=True).stdout
    assert [rank["outcome"] for rank in json.loads(as_json)["ranks"]].count("FAILED nccl") == 7
    assert subprocess.run(python_command("show", "--status", GROUP), check=False).returncode == 1
