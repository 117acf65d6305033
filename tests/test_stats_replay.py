"""The statistics of a whole campaign, against the same computed another way."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from statistics import quantiles

import pytest
import replay
from rundirs import NOW

from gpualert.census import take_census
from gpualert.model import ChainEnd, RunStatus

SEED = 20260529
MINUTE_S = 60


def mean_difference_gini(counts: list[int]) -> float:
    """Return the Gini coefficient by its definition: half the relative mean difference."""
    whole, size = sum(counts), len(counts)
    return sum(abs(one - other) for one in counts for other in counts) / (2 * size * whole)


@pytest.fixture
def found(state: Path) -> replay.Campaign:
    campaign = replay.campaign(SEED)
    replay.write(campaign, state)
    return campaign


def test_the_campaign_has_the_published_size(found: replay.Campaign) -> None:
    attempts = [session for session in found.sessions if session.chain]
    assert (len(found.sessions), len(attempts), len(found.ends)) == (224, 73, 12)
    assert len({session.node for session in found.sessions}) == 63
    assert sum(session.status is RunStatus.SUCCEEDED for session in attempts) == 4


def test_the_statistics_are_those_that_were_computed_independently(state: Path, found: replay.Campaign) -> None:
    census = take_census([state], 0)
    assert census.troubles == ()
    stats = census.statistics(0, NOW)
    total = stats.total
    failed = [session for session in found.sessions if session.status is not RunStatus.SUCCEEDED]

    assert (total.runs, total.failures, stats.unjudged) == (224, len(failed), 0)
    assert total.time_lost_s == sum(session.duration_s for session in failed)

    assert (total.chains, stats.chain_attempts, total.attempts) == (12, 73, 69)
    assert dict(stats.chain_ends) == Counter(end.value for end in found.ends.values())
    assert f"{total.chain_success:.1%}" == "33.3%"
    early = [name for name, end in found.ends.items() if end is not ChainEnd.SAVED]
    assert total.attempts_saved == sum(replay.MAX_ATTEMPTS - len(found.of(name)) for name in early)

    interval = total.interval_s
    assert interval is not None
    lower, median, upper = quantiles(found.waits_s, n=4, method="inclusive")
    assert (interval.lower, interval.median, interval.upper, interval.count) == (lower, median, upper, 73 - 12)
    assert (lower, median, upper) == (10 * MINUTE_S, 11 * MINUTE_S, 11 * MINUTE_S)

    nodes = {session.node for session in found.sessions}
    excluded = Counter(session.node for session in failed if session.blames_node)
    share = sum(sorted(excluded.values())[-3:]) / sum(excluded.values())
    assert share > 0.5
    assert stats.top_share == pytest.approx(share, rel=1e-12)
    assert (stats.nodes, total.exclusions) == (63, sum(excluded.values()))
    assert stats.gini == pytest.approx(mean_difference_gini([excluded[node] for node in nodes]), rel=1e-12)


def test_each_class_and_each_node_has_its_own_counts(state: Path, found: replay.Campaign) -> None:
    stats = take_census([state], 0).statistics(0, NOW)
    failed = [session for session in found.sessions if session.status is not RunStatus.SUCCEEDED]
    for row in stats.by_class:
        own = [session for session in failed if session.failure_class == row.name]
        tried = [session for session in own if session.chain]
        chains = {session.chain for session in tried}
        assert (row.runs, row.failures, row.time_lost_s) == (len(own), len(own), sum(s.duration_s for s in own))
        assert (row.attempts, row.chains, row.chains_ended) == (len(tried), len(chains), len(chains))
        assert row.chains_saved == sum(found.ends[name] is ChainEnd.SAVED for name in chains)
        assert row.exclusions == sum(session.blames_node for session in own)
    assert sum(row.failures for row in stats.by_class) == len(failed)
    for row in stats.by_node:
        own = [session for session in found.sessions if session.node == row.name]
        bad = [session for session in own if session in failed]
        assert (row.runs, row.failures) == (len(own), len(bad))
        assert row.attempts == sum(bool(session.chain) for session in bad)
        assert row.exclusions == sum(session.blames_node for session in bad)
    assert sum(row.attempts_saved for row in stats.by_class) == stats.total.attempts_saved


def test_the_command_prints_the_same(state: Path, found: replay.Campaign) -> None:
    command = [sys.executable, "-m", "gpualert", "stats", "--since", "2000w"]
    as_json = subprocess.run([*command, "--json"], capture_output=True, text=True, timeout=60, check=True)
    printed = json.loads(as_json.stdout)
    stats = take_census([state], 0).statistics(0, NOW)
    assert printed["total"]["chain_success"] == pytest.approx(1 / 3)
    assert printed["total"]["interval_s"] == {"lower": 600, "median": 660, "upper": 660, "count": 61}
    assert "R-7" in printed["quartile_method"]
    assert printed["gini"] == stats.gini
    assert [row["name"] for row in printed["by_node"]] == [row.name for row in stats.by_node]
    text = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert "33.3% of the 12 that ended by themselves were saved" in text.stdout
    assert "median 11m, quartiles 10m and 11m (of 61)" in text.stdout
    assert text.stderr == ""
