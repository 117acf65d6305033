"""Retries that know the cause against blind ones, in the small; tests/experiments/chains.py prints it in the large."""

from __future__ import annotations

import pytest
from experiments.chains import MIXES, WORLDS, compare, faults

SEED = 1
CHAINS = 500


@pytest.mark.parametrize("title", WORLDS)
@pytest.mark.parametrize("mix", MIXES)
def test_at_equal_success_seven_of_ten_futile_attempts_are_not_made(mix: str, title: str) -> None:
    found = compare(MIXES[mix], CHAINS, WORLDS[title], SEED)
    print(f"{mix}, {title}, seed {SEED}, {CHAINS} chains: {found}: cut {found.cut:.1%}")
    assert found.ours.saved > 0
    assert found.equal.saved <= found.ours.saved, "the blind one is not given more success than ours"
    assert found.cut >= 0.7
    assert found.cut_of_full >= 0.7


@pytest.mark.parametrize(("mix", "share"), [("Philly", 0.8), ("Llama 3", 0.9)])
def test_few_chains_are_lost_by_stopping_early(mix: str, share: float) -> None:
    found = compare(MIXES[mix], CHAINS, WORLDS["as assumed"], SEED)
    assert found.ours.saved >= share * found.full.saved


def test_a_simulation_can_be_repeated() -> None:
    world = WORLDS["as assumed"]
    assert list(faults(MIXES["Philly"], 9, world, SEED)) == list(faults(MIXES["Philly"], 9, world, SEED))
    assert compare(MIXES["Philly"], 99, world, 2) == compare(MIXES["Philly"], 99, world, 2)
