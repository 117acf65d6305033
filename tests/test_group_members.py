"""Who belongs to a group: by what the launcher says, at one time, each rank once."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest
from ranks import GROUP, Ranks
from reports import a_run
from rundirs import NOW, RunBuilder

from gpualert.group import Turn, group_of, join, joined, point_to, unreported, whose_turn
from gpualert.group.launcher import Membership, membership
from gpualert.model import Run
from gpualert.post import report_run
from gpualert.rundir import read_run

TORCHRUN = (
    "torchrun",
    "--nnodes=2",
    "--nproc-per-node",
    "8",
    "--rdzv-id",
    "77",
    "--rdzv_endpoint=n1:29400",
    "train.py",
)


@pytest.fixture
def ranks(make_run: RunBuilder) -> Ranks:
    """Return a builder of the runs of a group of eight."""
    return Ranks(make_run)


def started(argv: tuple[str, ...] = ("python", "train.py"), **changes: object) -> Run:
    run = a_run(argv=argv)
    assert run.start
    return replace(run, start=replace(run.start, **changes))  # type: ignore[arg-type]


def member(path: Path) -> Run:
    """Let a run report to its group."""
    run = read_run(path)
    mine = membership(run)
    assert mine
    join(run, mine)
    return run


def folder_of(path: Path) -> str:
    run = read_run(path)
    mine = membership(run)
    assert mine
    return join(run, mine).name


@pytest.mark.parametrize(
    ("run", "label", "size"),
    [
        (started(group=GROUP, group_size=8, group_rank=5), "rank 5", 8),
        (started(TORCHRUN, group=GROUP, group_size=2, group_rank=1), "node 1", 2),
        (started(("/opt/bin/torchrun", *TORCHRUN[1:])), "", 2),
        (started((*TORCHRUN[:-1], "--node-rank=1", "train.py")), "node 1", 2),
        (started(("python", "-m", "torch.distributed.run", *TORCHRUN[1:])), "", 2),
        (started(("torchrun", "--nnodes", "1:4", "--rdzv-id=a b/c", "train.py")), "", None),
    ],
    ids=["srun", "srun-torchrun", "torchrun-by-hand", "with-a-node-rank", "module", "elastic"],
)
def test_a_run_knows_its_group(run: Run, label: str, size: int | None) -> None:
    found = membership(run)
    assert found
    assert (found.label, found.size) == (label, size)
    assert "/" not in found.group and " " not in found.group


@pytest.mark.parametrize(
    "run",
    [
        started(),
        started(group=GROUP, group_size=1, group_rank=0),
        started(group="../../etc", group_size=8, group_rank=5),
        started(group=".", group_size=8, group_rank=5),
        started(("torchrun", "--standalone", "--nnodes=1", "--rdzv-id=7", "train.py")),
        started(("torchrun", "--nproc-per-node=8", "train.py", "--rdzv-id=7", "--nnodes=2")),
        started(("python", "train.py", "--rdzv-id=7", "--nnodes=2")),
        started(("torchrun", "--nnodes=2", "--rdzv-id")),
        replace(a_run(), start=None),
    ],
    ids=["plain", "one-task", "path", "dot", "one-node", "script's-options", "no-launcher", "no-value", "not-started"],
)
def test_a_run_that_stands_alone_has_no_group(run: Run) -> None:
    assert membership(run) is None


def test_two_torchruns_started_by_hand_meet(make_run: RunBuilder) -> None:
    names = [f"20261129T14513{n}Z-n{n}-0000000{n}" for n in (1, 2)]
    paths = [make_run(name, argv=TORCHRUN, start={"run_id": name}) for name in names]
    assert folder_of(paths[0]) == folder_of(paths[1]) == "rdzv-77-n1_29400"


def test_joining_again_changes_nothing(ranks: Ranks, state: Path) -> None:
    path = ranks(3)
    assert folder_of(path) == folder_of(path) == GROUP
    assert [link.name for link in (state / "groups" / GROUP / "members").iterdir()] == ["3"]


@pytest.mark.parametrize(
    "later",
    [
        {"rank": 0, "started_at": NOW - 50},
        {"rank": 1, "started_at": NOW + 1800, "ended_at": NOW + 7200},
        {"rank": 1, "started_at": NOW + 86400, "ended_at": NOW + 86500},
    ],
    ids=["a rank that is there", "after the others ended", "the day after"],
)
def test_a_name_that_is_used_again_is_another_group(make_run: RunBuilder, later: dict[str, float]) -> None:
    assert folder_of(Ranks(make_run)(0)) == GROUP
    again = Ranks(make_run, stamp=time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(later["started_at"])))
    ended = {"status": 0, "ended_at": later.get("ended_at", NOW)}
    path = again(int(later["rank"]), start={"started_at": later["started_at"]}, exit=ended)
    assert folder_of(path) == f"{GROUP}~2"
    assert folder_of(path) == f"{GROUP}~2"


def test_a_late_report_goes_to_the_group_of_its_time(make_run: RunBuilder) -> None:
    first, second = Ranks(make_run), Ranks(make_run, stamp="20261130T145320Z")
    day_after = {"started_at": NOW + 86400}, {"status": 0, "ended_at": NOW + 86500}
    late = first(1)
    assert folder_of(first(0)) == GROUP
    assert folder_of(second(0, start=day_after[0], exit=day_after[1])) == f"{GROUP}~2"
    assert folder_of(late) == GROUP
    assert folder_of(second(1, start=day_after[0], exit=day_after[1])) == f"{GROUP}~2"


def test_members_are_listed_by_rank_and_one_whose_run_is_gone_is_left_out(ranks: Ranks, state: Path) -> None:
    ranks.size = 12
    for rank in (10, 2, 1):
        member(ranks(rank))
    (state / "runs" / "20261129T145138Z-n2-00000002").rename(state / "gone")
    found = joined(state / "groups" / GROUP)
    assert [run.start.group_rank for run in found if run.start] == [1, 10]


def test_those_that_have_not_reported_are_found_and_no_others(ranks: Ranks, make_run: RunBuilder, state: Path) -> None:
    reported = [member(ranks(0))]
    ranks(1, ended=False)
    Ranks(make_run, group="slurm-4712.0.0", stamp="20261129T145139Z")(2)
    Ranks(make_run, stamp="20261129T195138Z")(3)
    make_run()
    found = list(unreported(state / "groups" / GROUP, reported))
    assert [run.start.group_rank for run in found if run.start] == [1]


@pytest.mark.parametrize("name", ["../runs", "a/b", "", "nothing", 7, None])
def test_a_verdict_that_points_to_no_group_is_of_none(ranks: Ranks, name: object) -> None:
    path = ranks(0)
    report_run(path)
    (path / "verdict.json").write_text(json.dumps({"group": name}))
    assert group_of(read_run(path)) is None


def test_a_verdict_points_to_the_group(ranks: Ranks, state: Path) -> None:
    path = ranks(0)
    report_run(path)
    run = read_run(path)
    assert group_of(run) == state / "groups" / GROUP
    before = (path / "verdict.json").stat().st_mtime_ns
    point_to(run, state / "groups" / GROUP)
    assert (path / "verdict.json").stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("reported", "size", "bad", "under_way", "waited", "turn"),
    [
        (8, 8, False, True, False, Turn.REPORT),
        (8, 8, True, True, False, Turn.REPORT),
        (7, 8, True, True, False, Turn.WAIT),
        (7, 8, True, True, True, Turn.REPORT),
        (7, 8, False, True, False, Turn.LEAVE),
        (7, 8, False, True, True, Turn.LEAVE),
        (7, 8, False, False, False, Turn.WAIT),
        (7, 8, False, False, True, Turn.REPORT),
        (7, None, False, True, True, Turn.LEAVE),
        (7, None, False, False, True, Turn.REPORT),
        (7, None, True, True, False, Turn.WAIT),
    ],
)
def test_a_group_is_reported_when_all_have_or_a_failure_has_waited_long_enough(
    reported: int, size: int | None, bad: bool, under_way: bool, waited: bool, turn: Turn
) -> None:
    assert whose_turn(reported, size, bad=bad, waited=waited, is_under_way=lambda: under_way) is turn


def test_a_member_without_a_number_is_called_by_nothing() -> None:
    assert Membership("g", "g", None, None).label == ""
