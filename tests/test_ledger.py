"""The node ledger: who is blamed, for how long, and how it survives what happens to files."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rundirs import NOW, RunBuilder

from gpualert import ledger
from gpualert.blame import ONE_INCIDENT_S, Blame, Clearance, NodeNameError, blamed, suspects
from gpualert.findings import unjudged
from gpualert.model import Action, Domain, Evidence, Facts, Run, RunStatus, Verdict, frozen
from gpualert.post import post
from gpualert.rundir import read_run
from gpualert.settings import Ledger as Policy
from gpualert.settings import Settings
from gpualert.tick import tick

DAY_S = 86400.0
SETTINGS = Settings()


def verdict(**changes: Any) -> Verdict:
    """Return a verdict that blames the run's own node."""
    bare = unjudged(Facts(status=1), "")
    hardware: dict[str, Any] = {"failure_class": "gpu_hardware", "action": Action.ELSEWHERE, "domain": Domain.NODE}
    return replace(bare, **{**hardware, **changes})


def said_by(host: str, **parameters: int | str) -> tuple[Evidence, ...]:
    return (Evidence("kernel", "", 0, "NVRM: Xid", host=host, parameters=frozen(parameters)),)


def strike(node: str, at: float, run_id: str = "") -> Blame:
    return Blame(node, "", "gpu_hardware", 79, run_id or f"{node}-{at}", at)


def excluded(*blames: Blame, cleared: tuple[Clearance, ...] = (), now: float = NOW, strikes: int = 2) -> list[str]:
    found = suspects(blames, cleared, now, strikes=strikes, expires_s=7 * DAY_S)
    return sorted(suspect.node for suspect in found if suspect.excluded)


@pytest.fixture
def run(make_run: RunBuilder) -> Run:
    return read_run(make_run(start={"node": "n3", "host": "n3"}))


@pytest.mark.parametrize(
    ("changes", "node"),
    [
        pytest.param({}, "n3", id="hardware"),
        pytest.param({"status": RunStatus.LOST, "failure_class": "node_failure"}, "n3", id="lost"),
        pytest.param({"evidence": said_by("n7", xid=79)}, "n7", id="another rank's node"),
        pytest.param({"evidence": said_by("n3.cluster.example")}, "n3", id="its long name"),
        pytest.param({"action": Action.RETRY}, None, id="Xid 94: retry"),
        pytest.param({"failure_class": "port_in_use", "action": Action.RETRY}, None, id="port"),
        pytest.param({"action": Action.FIX, "domain": Domain.USER_CODE}, None, id="user code"),
        pytest.param({"domain": Domain.USER_CODE}, None, id="user code, elsewhere"),
        pytest.param({"status": RunStatus.SUCCEEDED}, None, id="succeeded"),
        pytest.param({"status": RunStatus.UNKNOWN}, None, id="unknown"),
    ],
)
def test_only_a_failure_that_another_node_would_not_have_had_is_blamed(
    run: Run, changes: Mapping[str, Any], node: str | None
) -> None:
    found = blamed(run, verdict(**changes), True, NOW)
    assert (found.node if found else None) == node


@pytest.mark.parametrize(("allotted", "is_blamed"), [(True, True), (False, False), (None, False)])
def test_a_missing_gpu_is_the_nodes_fault_only_where_one_was_allotted(
    run: Run, allotted: bool | None, is_blamed: bool
) -> None:
    assert bool(blamed(run, verdict(failure_class="cuda_driver"), allotted, NOW)) is is_blamed


def test_a_blame_names_gpu_class_and_xid(run: Run) -> None:
    found = blamed(run, verdict(evidence=said_by("n3", xid=79, pci="0000:18:00")), None, NOW)
    assert found == Blame("n3", "0000:18:00", "gpu_hardware", 79, run.run_id, NOW)


@pytest.mark.parametrize(
    "name", ["n 3", "n3,n4", "n[1-4]", "-x", "--all", "", "n3\n", "n\x1b3", "ñ", "x" * 300, "../n3"]
)
def test_a_name_that_no_node_has_is_refused_and_named(state: Path, run: Run, name: str) -> None:
    with pytest.raises(NodeNameError) as refused:
        ledger.blame(state, name, "", "gpu_hardware", 79, "run", NOW)
    assert name in str(refused.value)
    if name:
        with pytest.raises(NodeNameError, match=run.run_id):
            blamed(run, verdict(evidence=said_by(name)), True, NOW)
    assert not (state / "ledger").exists()


@pytest.mark.parametrize(
    ("blames", "nodes"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param([strike("n1", NOW - 1)], [], id="one strike"),
        pytest.param([strike("n1", NOW - DAY_S), strike("n1", NOW)], ["n1"], id="two strikes"),
        pytest.param([strike("n1", NOW - DAY_S, "r"), strike("n1", NOW, "r")], [], id="one run twice"),
        pytest.param([strike("n1", NOW - 9), strike("n1", NOW)], [], id="two runs, one incident"),
        pytest.param([strike("n1", NOW - 8 * DAY_S), strike("n1", NOW)], [], id="one expired"),
        pytest.param([strike("n1", NOW - DAY_S), strike("n2", NOW)], [], id="two nodes"),
        pytest.param([strike("n1", NOW), strike("n1", NOW + 3600)], ["n1"], id="a clock that was ahead"),
        pytest.param([strike("n1", NOW), strike("n1", NOW - DAY_S)], ["n1"], id="out of order"),
    ],
)
def test_a_node_is_left_out_after_two_incidents_within_a_week(blames: list[Blame], nodes: list[str]) -> None:
    assert excluded(*blames) == nodes


def test_many_runs_over_a_long_incident_are_more_than_one_strike() -> None:
    blames = [strike("n1", NOW - 900 + step) for step in range(0, 900, 60)]
    (found,) = suspects(blames, (), NOW, strikes=2, expires_s=7 * DAY_S)
    assert found.strikes == 3
    assert found.blames[-1].at - found.blames[0].at > 2 * ONE_INCIDENT_S


def test_a_cleared_node_counts_from_nothing_again() -> None:
    old = [strike("n1", NOW - 2 * DAY_S), strike("n1", NOW - DAY_S), strike("n2", NOW - DAY_S), strike("n2", NOW)]
    cleared = (Clearance("n1", NOW - DAY_S),)
    assert excluded(*old, cleared=cleared) == ["n2"]
    assert excluded(*old, strike("n1", NOW - 3600), strike("n1", NOW), cleared=cleared) == ["n1", "n2"]


def test_a_node_is_free_when_too_few_strikes_are_left() -> None:
    blames = [strike("n1", NOW - 3 * DAY_S), strike("n1", NOW - 2 * DAY_S), strike("n1", NOW)]
    (found,) = suspects(blames, (), NOW, strikes=2, expires_s=7 * DAY_S)
    assert found.free_at == NOW + 5 * DAY_S
    assert excluded(*blames, now=found.free_at - 1) == ["n1"]
    assert excluded(*blames, now=found.free_at) == []


TIMES = st.integers(0, 20 * 86400).map(lambda seconds: NOW - seconds)
BLAMES = st.lists(st.builds(strike, st.sampled_from(["n1", "n2"]), TIMES, st.sampled_from("abcdefgh")), max_size=12)


@given(BLAMES, st.integers(1, 3), st.randoms())
def test_whatever_happened_few_runs_exclude_no_node_and_time_frees_it(
    blames: list[Blame], strikes: int, chance: random.Random
) -> None:
    found = suspects(blames, (), NOW, strikes=strikes, expires_s=7 * DAY_S)
    mixed = chance.sample(blames, len(blames))
    assert {(s.node, s.strikes) for s in suspects(mixed, (), NOW, strikes=strikes, expires_s=7 * DAY_S)} == {
        (s.node, s.strikes) for s in found
    }, "the order of the lines does not matter"
    for suspect in found:
        recent = [blame for blame in blames if blame.node == suspect.node and NOW - blame.at < 7 * DAY_S]
        assert suspect.excluded == (suspect.strikes >= strikes)
        assert suspect.strikes <= len({blame.run_id for blame in recent})
        assert suspect.node not in excluded(*blames, now=suspect.free_at, strikes=strikes)
        assert suspect.node not in excluded(*blames, cleared=(Clearance(suspect.node, NOW),), strikes=strikes)


def test_what_is_written_is_read_again(state: Path) -> None:
    ledger.blame(state, "n1", "0000:18:00", "gpu_hardware", 79, "run-1", NOW - DAY_S)
    ledger.blame(state, "n1", "", "node_failure", None, "run-2", NOW)
    found = ledger.read(state)
    first = Blame("n1", "0000:18:00", "gpu_hardware", 79, "run-1", NOW - DAY_S)
    assert found.blames == (first, Blame("n1", "", "node_failure", None, "run-2", NOW))
    assert ledger.read(state).excluded(NOW, SETTINGS) == ("n1",)
    assert ledger.read(state).excluded(NOW, replace(SETTINGS, ledger=Policy(strikes=3))) == ()
    ledger.clear(state, "n1", NOW)
    assert ledger.read(state).excluded(NOW, SETTINGS) == ()
    assert len(ledger.read(state).blames) == 2, "clearing adds a line, and changes none"


def test_clearing_reaches_what_a_clock_that_was_ahead_wrote(state: Path) -> None:
    for days in (300, 301):
        ledger.blame(state, "n1", "", "gpu_hardware", 79, f"run-{days}", NOW + days * DAY_S)
    ledger.clear(state, "n1", NOW)
    assert ledger.read(state).excluded(NOW, SETTINGS) == ()


def test_each_hosts_ledger_is_read(state: Path) -> None:
    ledger.blame(state, "n1", "", "gpu_hardware", 79, "run-1", NOW - DAY_S)
    (own,) = (state / "ledger").iterdir()
    own.rename(own.with_name("elsewhere.jsonl"))
    ledger.blame(state, "n1", "", "gpu_hardware", 79, "run-2", NOW)
    assert ledger.read(state).excluded(NOW, SETTINGS) == ("n1",)
    assert ledger.read(state, state.parent / "none").troubles == ()


GOOD = {"schema": 1, "what": "blame", "node": "n1", "gpu": "", "class": "hang", "xid": None, "run_id": "r", "at": NOW}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        pytest.param(b'{"what":"bla', "it was cut off", id="cut off"),
        pytest.param(b"[1]", "it was cut off, or is no object", id="a list"),
        pytest.param(b"[" * 100_000, "it was cut off, or is no object", id="nested"),
        pytest.param(b"\xff\xfe", "it was cut off, or is no object", id="no text"),
        pytest.param({**GOOD, "node": "n 1"}, "key 'node': 'n 1' is no node name", id="spaces"),
        pytest.param({**GOOD, "node": None}, "key 'node': it is missing", id="no node"),
        pytest.param({**GOOD, "class": 7}, "key 'class': 7 is no text", id="class"),
        pytest.param({**GOOD, "run_id": None}, "key 'run_id': it is missing", id="no run"),
        pytest.param({**GOOD, "xid": "79"}, "key 'xid': '79' is no number", id="xid"),
        pytest.param({**GOOD, "at": None}, "key 'at': it is missing", id="no time"),
        pytest.param({**GOOD, "at": "now"}, "key 'at': 'now' is no time", id="time"),
        pytest.param({**GOOD, "at": float("nan")}, "key 'at': nan is no time", id="nan"),
        pytest.param({**GOOD, "at": 10**400}, "is no time", id="huge"),
        pytest.param({"what": "clear", "node": "n1"}, "key 'until': it is missing", id="clear"),
    ],
)
def test_a_bad_line_is_named_and_the_others_count(state: Path, line: Any, reason: str) -> None:
    (state / "ledger").mkdir(parents=True)
    path = state / "ledger/n9.jsonl"
    bad = line if isinstance(line, bytes) else json.dumps(line).encode()
    path.write_bytes(b"\n".join([json.dumps(GOOD).encode(), bad, json.dumps({**GOOD, "run_id": "s"}).encode(), b""]))
    found = ledger.read(state)
    assert [entry.run_id for entry in found.blames] == ["r", "s"]
    (trouble,) = found.troubles
    assert f"'{path}', line 2" in trouble
    assert reason in trouble


def test_what_a_newer_version_wrote_is_skipped(state: Path) -> None:
    (state / "ledger").mkdir(parents=True)
    (state / "ledger/n9.jsonl").write_text('{"schema":2,"what":"praise","node":"n 1"}\n' + json.dumps(GOOD) + "\n")
    found = ledger.read(state)
    assert (len(found.blames), found.troubles) == (1, ())


def test_a_line_that_was_cut_off_does_not_spoil_the_next(state: Path) -> None:
    ledger.blame(state, "n1", "", "hang", None, "run-1", NOW)
    (path,) = (state / "ledger").iterdir()
    with path.open("ab") as file:
        file.write(b'{"what":"bla')
    ledger.blame(state, "n1", "", "hang", None, "run-2", NOW)
    assert [entry.run_id for entry in ledger.read(state).blames] == ["run-1", "run-2"]


def test_a_ledger_file_that_is_no_file_of_ours_is_left_alone(state: Path, tmp_path: Path) -> None:
    ledger.blame(state, "n1", "", "hang", None, "run-1", NOW)
    victim = tmp_path / "victim.jsonl"
    victim.write_text(json.dumps({**GOOD, "run_id": "planted"}) + "\n")
    (state / "ledger/link.jsonl").symlink_to(victim)
    os.mkfifo(state / "ledger/pipe.jsonl")
    found = ledger.read(state)
    assert [entry.run_id for entry in found.blames] == ["run-1"]
    assert len(found.troubles) == 2


def test_a_tick_complains_once_about_what_it_cannot_read(make_run: RunBuilder, state: Path) -> None:
    make_run()
    ledger.blame(state, "n1", "", "hang", None, "run-1", NOW)
    said: list[str] = []

    def tick_now() -> list[str]:
        (state / "locks/pruned").unlink(missing_ok=True)
        said.clear()
        tick([state], Settings(home=state, mail="none"), said.append)
        return list(said)

    assert tick_now() == []
    (state / "ledger/n9.jsonl").write_text(json.dumps({**GOOD, "node": "n 1"}) + "\n")
    (complaint,) = tick_now()
    assert "n9.jsonl', line 1, key 'node': 'n 1' is no node name" in complaint
    assert tick_now() == []
    (state / "ledger/n9.jsonl").unlink()
    assert tick_now() == []


XID_LOG = b"epoch 1\nNVRM: Xid (PCI:0000:18:00): 79, pid=1, name=python, GPU has fallen off the bus.\n"


def test_the_report_of_a_run_blames_its_node_once(make_run: RunBuilder, state: Path) -> None:
    path = make_run(start={"node": "n3"}, log=XID_LOG)
    post(path)
    for marker in ("ended-verdict", "ended-done"):
        (path / "claims" / marker).unlink()
    post(path)
    ((found,),) = [suspect.blames for suspect in ledger.read(state).suspects(NOW, SETTINGS)]
    assert (found.node, found.xid, found.run_id, found.at) == ("n3", 79, path.name, NOW)


def test_a_users_mistake_blames_no_node(make_run: RunBuilder, state: Path) -> None:
    post(
        make_run(start={"node": "n3"}, log=b"Traceback (most recent call last):\nZeroDivisionError: division by zero\n")
    )
    assert not (state / "ledger").exists()


def test_a_ledger_that_cannot_be_written_does_not_stop_the_report(make_run: RunBuilder, state: Path) -> None:
    path = make_run(start={"node": "n3"}, log=XID_LOG)
    (state / "ledger").write_text("in the way")
    post(path)
    assert (path / "claims/ended-done").exists()
    assert "no node was blamed" in (path / "post.log").read_text()


def gpualert(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gpualert", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_the_ledger_on_the_command_line(state: Path) -> None:
    assert (gpualert("ledger").returncode, gpualert("ledger", "exclude").returncode) == (1, 1)
    now = time.time()
    for node, ages_s in {"n1": (DAY_S, 0), "n2": (60, 1200), "n3": (0,)}.items():
        for age_s in ages_s:
            ledger.blame(state, node, "0", "gpu_hardware", 79, f"run-{node}-{age_s:g}", now - age_s)
    printed = gpualert("ledger", "exclude")
    assert (printed.returncode, printed.stdout) == (0, "--exclude=n1,n2\n")
    rows = [line.split() for line in gpualert("ledger", "show").stdout.splitlines()]
    assert [(row[0], row[1]) for row in rows[1:]] == [("n2", "2"), ("n1", "2"), ("n3", "1")]
    found = json.loads(gpualert("ledger", "--json").stdout)
    assert [(row["node"], row["strikes"], row["excluded"]) for row in found] == [
        ("n2", 2, True),
        ("n1", 2, True),
        ("n3", 1, False),
    ]
    assert gpualert("ledger", "clear", "n1").stdout == "cleared n1\n"
    assert json.loads(gpualert("ledger", "exclude", "--json").stdout) == ["n2"]
    again = gpualert("ledger", "clear", "n1")
    assert (again.returncode, "nothing counts against node 'n1'" in again.stderr) == (1, True)
    refused = gpualert("ledger", "clear", "n 1")
    assert (refused.returncode, "'n 1' is no node name" in refused.stderr) == (2, True)
    assert "Traceback" not in refused.stderr


def test_many_processes_write_whole_lines(state: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from gpualert import ledger\n"
        "for i in range(50): ledger.blame(Path(sys.argv[1]), 'n1', 'g' * 60, 'hang', 1, f'{sys.argv[2]}-{i}', 1e9)"
    )
    running = [subprocess.Popen([sys.executable, "-c", script, str(state), str(number)]) for number in range(3)]
    assert [process.wait(60) for process in running] == [0, 0, 0]
    found = ledger.read(state)
    assert (len({entry.run_id for entry in found.blames}), found.troubles) == (150, ())
