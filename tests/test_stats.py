"""Statistics of runs, chains and nodes, and what they are read from."""

from __future__ import annotations

import json
import re
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rundirs import NOW, RunBuilder

from gpualert import ledger
from gpualert.blame import Blame
from gpualert.census import take_census
from gpualert.decide import Attempt
from gpualert.exposition import exposition, write_exposition
from gpualert.history import remember
from gpualert.model import Action, ChainEnd, Domain, RunStatus
from gpualert.settings import Settings, Stats
from gpualert.spread import Quartiles, gini, quartiles, top_share
from gpualert.stats import ChainRecord, RunRecord, Statistics, statistics
from gpualert.tick import tick

DAY_S = 86400.0


def a_run(run_id: str = "r", status: RunStatus | None = RunStatus.FAILED, **changes: Any) -> RunRecord:
    plain = RunRecord(run_id, status, "nccl", "n1", started_at=NOW - 100, duration_s=60.0)
    return replace(plain, **changes)


def an_attempt(number: int, at: float, failure_class: str = "nccl", **changes: Any) -> Attempt:
    """Return a failed attempt of a minute that ended at `at`."""
    plain = Attempt(number, RunStatus.FAILED, failure_class, Action.RETRY, Domain.UNKNOWN, node="n1")
    return replace(plain, duration_s=60.0, ended_at=at, **changes)


def a_success(number: int, at: float) -> Attempt:
    return an_attempt(number, at, "success", status=RunStatus.SUCCEEDED, action=Action.NONE)


def count(
    runs: tuple[RunRecord, ...] = (), chains: tuple[ChainRecord, ...] = (), blames: tuple[Blame, ...] = ()
) -> Statistics:
    return statistics(runs, chains, blames, NOW - DAY_S, NOW)


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([], None),
        ([5.0], Quartiles(5, 5, 5, 1)),
        ([1.0, 2.0], Quartiles(1.25, 1.5, 1.75, 2)),
        ([4.0, 1.0, 3.0, 2.0], Quartiles(1.75, 2.5, 3.25, 4)),
        ([1.0, 2.0, 3.0, 4.0, 5.0], Quartiles(2, 3, 4, 5)),
    ],
)
def test_quartiles_are_interpolated_between_the_values(values: list[float], found: Quartiles | None) -> None:
    assert quartiles(values) == found


@pytest.mark.parametrize(
    ("counts", "share", "coefficient"),
    [
        ([], None, None),
        ([0, 0], None, None),
        ([2, 2, 2, 2], 0.75, 0.0),
        ([0, 0, 0, 8], 1.0, 0.75),
        ([1], 1.0, 0.0),
        ([1, 2, 3, 4], 0.9, 0.25),
    ],
)
def test_shares_and_gini_coefficient(counts: list[int], share: float | None, coefficient: float | None) -> None:
    assert top_share(counts, 3) == share
    assert gini(counts) == (coefficient if coefficient is None else pytest.approx(coefficient, abs=1e-12))


def test_nothing_is_counted_as_nothing() -> None:
    found = count()
    assert (found.total.runs, found.total.chains, found.nodes, found.by_class, found.by_node) == (0, 0, 0, (), ())
    assert (found.total.chain_success, found.total.interval_s, found.gini) == (None, None, None)
    assert "nan" not in exposition(found).lower()


def test_only_failed_and_lost_runs_are_failures() -> None:
    runs = [a_run(str(place), status, duration_s=10.0) for place, status in enumerate([*RunStatus, None])]
    found = count(tuple(run for run in runs if run.status is not RunStatus.RUNNING))
    assert (found.total.runs, found.total.failures, found.unjudged, found.total.time_lost_s) == (4, 2, 1, 20.0)


def test_runs_count_by_their_start() -> None:
    runs = (a_run("old", started_at=NOW - 2 * DAY_S), a_run("new"), a_run("of times to come", started_at=NOW + 9))
    assert count(runs).total.runs == 1


def test_what_one_launcher_started_is_one_run_on_many_nodes() -> None:
    ranks = [a_run(f"r{rank}", node=f"n{rank}", group="g", started_at=NOW - 100 + rank) for rank in range(8)]
    ranks[5] = replace(ranks[5], failure_class="cuda_oom", duration_s=20.0)
    found = count(tuple(ranks))
    assert (found.total.runs, found.total.failures, found.total.time_lost_s) == (1, 1, 60.0)
    assert [row.name for row in found.by_class] == ["cuda_oom"]
    assert {row.name: (row.runs, row.failures) for row in found.by_node} == {
        f"n{rank}": (1, int(rank == 5)) for rank in range(8)
    }


def test_a_launchers_name_that_comes_back_is_another_run() -> None:
    again = [a_run(f"{start}-{rank}", group="g", started_at=NOW - start) for start in (900, 500) for rank in (0, 1)]
    assert count(tuple(again)).total.runs == 2


@pytest.mark.parametrize(
    ("end", "ended", "saved", "not_made"),
    [
        (ChainEnd.SAVED, 1, 1, 0),
        (ChainEnd.GAVE_UP, 1, 0, 4),
        (ChainEnd.NEEDS_PERSON, 1, 0, 4),
        (ChainEnd.STOPPED, 0, 0, 0),
        (None, 0, 0, 0),
    ],
)
def test_a_chain_counts_by_its_end(end: ChainEnd | None, ended: int, saved: int, not_made: int) -> None:
    last = a_success(2, NOW - 10) if end is ChainEnd.SAVED else an_attempt(2, NOW - 10)
    total = count(chains=(ChainRecord("c", (an_attempt(1, NOW - 500), last), end, 6),)).total
    assert (total.chains, total.chains_ended, total.chains_saved, total.attempts_saved) == (1, ended, saved, not_made)


def test_a_chain_that_needed_no_retry_is_no_success_of_retries() -> None:
    found = count(chains=(ChainRecord("c", (a_success(1, NOW - 10),), ChainEnd.SAVED, 6),))
    assert (found.total.chains, found.chain_ends, found.total.chain_success) == (0, (), None)


def test_chains_count_by_the_end_of_their_last_attempt() -> None:
    begun, over = an_attempt(1, NOW - 2 * DAY_S), an_attempt(2, NOW - 10)
    assert count(chains=(ChainRecord("c", (begun, over), None, 6),)).total.attempts == 2
    assert count(chains=(ChainRecord("c", (begun,), None, 6),)).total.attempts == 0


def test_the_interval_lies_between_an_end_and_the_next_start() -> None:
    set_back = an_attempt(3, NOW - 5000)
    unknown = replace(an_attempt(4, NOW - 4000), duration_s=None)
    chain = ChainRecord("c", (an_attempt(1, NOW - 900), an_attempt(2, NOW - 180), set_back, unknown), None, 6)
    assert count(chains=(chain,)).total.interval_s == Quartiles(660, 660, 660, 1)


def test_a_node_that_is_to_blame_has_the_attempt_wherever_the_run_was_recorded() -> None:
    attempt = an_attempt(1, NOW - 10, "gpu_hardware", node="n1", faulty_node="n7")
    found = count(chains=(ChainRecord("c", (attempt,), None, 6),), blames=(Blame("n7", "", "x", 79, "r", NOW - 9),) * 2)
    assert {row.name: (row.attempts, row.exclusions) for row in found.by_node} == {"n7": (1, 1)}
    assert [(row.name, row.exclusions) for row in found.by_class] == [("x", 1), ("gpu_hardware", 0)]


def judge(path: Path, status: str = "failed", **more: object) -> None:
    (path / "verdict.json").write_text(json.dumps({"schema": 1, "status": status, "class": "nccl", **more}))


FIRST, SECOND, THIRD = (f"20261129T14513{second}Z-node03-0000000{second}" for second in (7, 8, 9))


def test_the_census_reads_runs_and_what_is_remembered_of_removed_ones(make_run: RunBuilder, state: Path) -> None:
    judge(make_run(FIRST, start={"node": "n1"}), first_node="n9")
    judge(make_run(SECOND, start={"parent_run_id": FIRST}))  # a part of the first
    make_run(THIRD, start={"started_at": NOW - 50, "group": "g"}, ended=False)
    remember(state, FIRST, {"status": "succeeded", "class": "success"})  # not removed after all
    remember(state, "20261129T120000Z-n2-1", {"status": "failed", "class": "hang", "host": "n2", "duration_s": 7})
    times = {"started_at": NOW - 30, "ended_at": NOW - 10}
    remember(state, "20261129T120000Z-n3-1", {"status": "succeeded", "class": "success", "host": "n3", **times})
    remember(state, "20250101T120000Z-n2-1", {"status": "failed", "class": "hang"})
    found = {record.node: record for record in take_census([state], NOW - DAY_S).runs}
    assert found["n9"] == RunRecord(FIRST, RunStatus.FAILED, "nccl", "n9", NOW - 100, 100.0)
    assert (found["n2"].failure_class, found["n2"].duration_s) == ("hang", 7)
    assert (found["n3"].started_at, found["n3"].duration_s) == (NOW - 30, 20)
    assert len(found) == 4
    assert [record.group for record in found.values() if record.status is None] == ["g"]


@pytest.mark.parametrize(
    "line", [{}, {"status": 7}, {"status": "odd"}, {"status": "failed", "started_at": "x", "duration_s": []}]
)
def test_odd_lines_of_history_do_no_harm(state: Path, line: dict[str, object]) -> None:
    state.mkdir()
    remember(state, "20261129T120000Z-n2-1", line)
    remember(state, "no time", line)
    assert take_census([state], 0).statistics(0, NOW).total.runs in (0, 1)


def test_what_cannot_be_read_is_said_and_the_rest_counts(make_run: RunBuilder, state: Path, tmp_path: Path) -> None:
    judge(make_run(FIRST))
    judge(make_run(SECOND, exit={"status": "x"}))
    (make_run(THIRD) / "verdict.json").write_text("{")
    (state / "history.jsonl").symlink_to(tmp_path / "elsewhere")
    (state / "ledger").mkdir()
    (state / "ledger/n1.jsonl").write_text("{\n")
    (state / "chains/broken").mkdir(parents=True)
    found = take_census([state], 0)
    troubles = " ".join(found.troubles)
    for place in ("history", f"{SECOND}': file 'exit', key 'status'", "n1.jsonl', line 1", "chain 'broken'"):
        assert place in troubles
    assert (found.statistics(0, NOW).total.runs, found.statistics(0, NOW).unjudged) == (1, 1)


# Source: Prometheus, "Exposition formats": a sample, and what a label's value may hold.
SAMPLE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\[\\n"])*",?)*)\})? (\S+)')
LABEL = re.compile(r'(\w+)="((?:[^"\\\n]|\\[\\n"])*)"')


def parse(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Read the text format strictly: each name has one HELP and one TYPE before its samples, which stand together."""
    assert text.endswith("\n")
    found: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
    declared: list[str] = []
    for line in text.removesuffix("\n").split("\n"):
        if line.startswith("# HELP "):
            declared.append(line.split(" ")[2])
            assert declared.count(declared[-1]) == 1
        elif line.startswith("# TYPE "):
            assert line == f"# TYPE {declared[-1]} gauge"
        else:
            sample = SAMPLE.fullmatch(line)
            assert sample, line
            assert sample[1] == declared[-1]
            labels = tuple(LABEL.findall(sample[2] or ""))
            assert (sample[1], labels) not in found
            found[sample[1], labels] = float(sample[3])
    return found


HOSTILE = 'a"b\\c\nd\x85{e="f"} 1\udcff'


def test_the_file_for_prometheus_keeps_to_its_format() -> None:
    chain = ChainRecord("c", (an_attempt(1, NOW - 900), an_attempt(2, NOW - 180)), ChainEnd.GAVE_UP, 6)
    runs = (a_run("1", failure_class=HOSTILE), a_run("2", status=RunStatus.SUCCEEDED, node="n2"))
    found = parse(exposition(count(runs, (chain,), (Blame("n1", "", "x", None, "1", NOW - 9),))))
    assert found["gpualert_runs", ()] == 2
    assert found["gpualert_chains", (("end", "gave_up"),)] == 1
    assert found["gpualert_node_runs", (("node", "n2"),)] == 1
    assert found["gpualert_node_exclusions", (("node", "n1"),)] == 1
    assert found["gpualert_retry_interval_seconds", (("quantile", "0.5"),)] == 660
    assert found["gpualert_exclusion_gini", ()] == 0.5
    ((label,),) = [labels for name, labels in found if name == "gpualert_class_failed_runs" and "b" in labels[0][1]]
    assert label == ("class", r"a\"b\\c\nd" + "\x85" + r"{e=\"f\"} 1\\udcff")


def test_the_file_for_prometheus_is_replaced_in_one_step_and_readable_to_others(tmp_path: Path) -> None:
    path = tmp_path / "gpualert.prom"
    path.write_text("old")
    with path.open() as reader:
        write_exposition(path, count((a_run(),)))
        assert reader.read() == "old"
    assert parse(path.read_text())["gpualert_runs", ()] == 1
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert list(tmp_path.glob(".gpualert*")) == []


def test_a_tick_writes_the_file_for_prometheus_where_it_is_asked_to(
    make_run: RunBuilder, state: Path, tmp_path: Path
) -> None:
    judge(make_run(FIRST))
    path = tmp_path / "gpualert.prom"
    settings = Settings(home=state, mail="none", stats=Stats(str(path), since_s=5000 * DAY_S))
    complaints: list[str] = []
    tick([state], replace(settings, stats=Stats()), complaints.append)
    assert not path.exists()
    tick([state], settings, complaints.append)
    assert parse(path.read_text())["gpualert_runs", ()] == 1
    path.unlink()
    tick([state], settings, complaints.append)
    assert not path.exists(), "not each minute"
    (state / "locks/published").unlink()
    tick([state], replace(settings, stats=Stats(str(tmp_path / "none/x.prom"))), complaints.append)
    assert len(complaints) == 1
    assert "cannot write statistics" in complaints[0]


def gpualert(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gpualert", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_the_statistics_on_the_command_line(make_run: RunBuilder, state: Path, tmp_path: Path) -> None:
    assert gpualert("stats").returncode == 1
    judge(make_run(FIRST, start={"node": "n1"}))
    ledger.blame(state, "n1", "", "nccl", None, FIRST, NOW)
    printed = gpualert("stats", "--since", "2000w")
    assert printed.returncode == 0, printed.stderr
    assert "1, of which 1 failed (100.0%)" in printed.stdout
    assert re.search(r"^n1 +1 +1 +1m 40s +1$", printed.stdout, re.MULTILINE)
    path = tmp_path / "x.prom"
    assert gpualert("stats", "--since", "2000w", "--prometheus", str(path)).stdout == ""
    assert parse(path.read_text())["gpualert_exclusions", ()] == 1
    for words in (["--since", "soon"], ["--rows", "-1"]):
        assert gpualert("stats", *words).returncode == 2
    refused = gpualert("stats", "--prometheus", str(tmp_path / "none/x.prom"))
    assert (refused.returncode, "Traceback" in refused.stderr, "none" in refused.stderr) == (1, False, True)
