"""The driver of chains against a simulated clock: random faults, ticks, clocks that jump, people who interfere."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from attempts import CLASSES, attempt
from chains import write_started
from hypothesis import given, settings
from hypothesis import strategies as st

from gpualert.chains.driver import Driver
from gpualert.chains.ending import end
from gpualert.chains.launch import Launch
from gpualert.chains.read import ChainError, read_chain, read_story
from gpualert.chains.record import Chain, Ended, Order, Started, Watch
from gpualert.chains.store import OVER, make_chain, write_order
from gpualert.decide import RetryPolicy, action_of
from gpualert.model import Action, RetryDecision
from gpualert.settings import Settings
from gpualert.signals.process import starttime_of, this_machine

HERE = this_machine()
BEGAN = 1_795_964_000.0
NODES = ("", "n1", "n2")


class Simulation:
    """One chain whose attempts are this very process: they live until they are told to end."""

    def __init__(self, folder: Path, policy: RetryPolicy) -> None:
        self.now = BEGAN
        self.starts: list[int] = []
        path = folder / "state" / "chains" / "simulated"
        make_chain(Chain(path, BEGAN, (b"true",), b"/", {b"PATH": b"/bin"}, 0o077, {}, (), policy, Watch()))
        self.driver = Driver(folder / "state", [folder / "state"], Settings(), lambda _: None, HERE, self.start)
        self.chain = read_chain(path)

    def start(self, chain: Chain, number: int, launch: Launch, now: float) -> bool:
        """Start an attempt as the launcher does, but for the process."""
        assert read_story(chain.path).running is None, "two at once"
        pid = os.getpid()
        about = Started(number, HERE.host, HERE.boot_id, HERE.pid_ns, pid, starttime_of(pid), now, launch.exclude)
        write_started(chain.path, about)
        self.starts.append(number)
        return True

    def tick(self) -> None:
        """Look after the chain once; a clock that was set back is complained about."""
        if not (self.chain.path / OVER).exists():
            try:
                self.driver.look_after(self.chain, self.now)
            except ChainError as error:
                assert "was set back" in str(error)

    def fail(self, failure_class: str, changes: dict[str, Any]) -> None:
        """End the running attempt, where there is one."""
        story = read_story(self.chain.path)
        if story.running is not None:
            ended = attempt(failure_class, story.running, ended_at=self.now, **changes)
            end(self.chain, story, Ended(ended, RetryDecision(False, 0.0, "")))

    def go_on(self, *, afresh: bool) -> None:
        """Have the chain go on, as a person asks for."""
        story = read_story(self.chain.path)
        if story.running is None:
            forget = story.last if afresh or story.end else (story.order.forget if story.order else 0)
            write_order(self.chain.path, Order(story.last, self.now, forget))
            (self.chain.path / OVER).unlink(missing_ok=True)


passing = st.tuples(st.just("pass"), st.sampled_from([1.0, 60.0, 700.0, 90_000.0, -3600.0, -90_000.0, 0.0]))
failing = st.tuples(
    st.just("fail"),
    st.sampled_from(sorted(CLASSES)),
    st.fixed_dictionaries(
        {
            "progress": st.sampled_from([None, False, True]),
            "fingerprint": st.sampled_from(["a", "b"]),
            "faulty_node": st.sampled_from(NODES),
            "duration_s": st.sampled_from([None, 1.0, 4000.0]),
        }
    ),
)
people = st.tuples(st.just("person"), st.booleans())
policies = st.builds(
    RetryPolicy,
    max_attempts=st.integers(1, 5),
    interval_s=st.sampled_from([0.0, 60.0, 660.0]),
    backoff=st.sampled_from(["fixed", "exponential"]),
    max_resumes=st.integers(0, 3),
    host=st.sampled_from(["", HERE.host]),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(passing, failing, failing, people), max_size=40), policies)
def test_whatever_happens_attempts_follow_one_another_within_the_limits_and_the_chain_ends(
    events: list[tuple[Any, ...]], policy: RetryPolicy
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        simulation = Simulation(Path(folder), policy)
        interferences = 0
        for what, *words in events:
            if what == "pass":
                simulation.now += words[0]
            elif what == "fail":
                simulation.fail(*words)
            else:
                interferences += 1
                simulation.go_on(afresh=words[0])
            simulation.tick()
        for _ in range(40):  # left to itself, with a fault that never goes away
            simulation.fail("nccl", {})
            simulation.now += 90_000.0
            simulation.tick()
            simulation.tick()
        story = read_story(simulation.chain.path)
        assert story.end is not None and (simulation.chain.path / OVER).exists()
        assert simulation.starts == list(range(1, len(simulation.starts) + 1)) == sorted(story.ended)
        assert len(simulation.starts) <= (1 + interferences) * (policy.max_attempts + policy.max_resumes + 1)
        faulty = Counter(each.faulty_node for each in story.all_attempts if action_of(each, policy) is Action.ELSEWHERE)
        assert {node for started in story.started.values() for node in started.exclude} <= set(faulty)
