"""Whether a chain goes on: decided by the causes of its attempts, with limits that nothing gets around."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from attempts import CLASSES, attempt, attempts
from hypothesis import given, settings
from hypothesis import strategies as st

from gpualert.decide import Attempt, Escalation, RetryPolicy, action_of, decide, escalations, excluded
from gpualert.model import Action, ChainEnd, Domain, RunStatus, frozen

SAVED, GAVE_UP, PERSON, STOPPED = ChainEnd.SAVED, ChainEnd.GAVE_UP, ChainEnd.NEEDS_PERSON, ChainEnd.STOPPED
NODES = ("n1", "n2", "n3")
P = RetryPolicy()
BATCH = RetryPolicy(bigger=(Escalation("env:BATCH_SIZE", 0.5),))
MEMORY = RetryPolicy(bigger=(Escalation("mem", 2.0),))
EARLY = {"duration_s": 20.0}
FURTHER = {"progress": True}
STUCK = {"progress": False}


@pytest.mark.parametrize(
    ("history", "policy", "goes_on", "reason"),
    [
        (attempts("success"), P, SAVED, "it succeeded"),
        (attempts("network", "success"), P, SAVED, "it succeeded at attempt 2"),
        (attempts("network"), P, None, "attempt 2 of 6"),
        (attempts("network"), RetryPolicy(never=True), PERSON, "asked never"),
        (attempts("network", "network"), P, None, "attempt 3 of 6"),
        (attempts("network", "network", "network"), P, GAVE_UP, "network ended 3 attempts in a row"),
        (attempts("network", "storage_io", "network"), P, None, "attempt 4 of 6"),
        (attempts("network", "network", ("network", FURTHER)), P, None, "attempt 4 of 6"),
        (attempts("network", ("network", FURTHER), "network", "network"), P, GAVE_UP, "network ended 3"),
        (attempts("network", "walltime", "network", "network"), P, GAVE_UP, "network ended 3"),
        (attempts("network", "storage_io", "network", "storage_io", "network", "storage_io"), P, GAVE_UP, "6 of 6"),
        (attempts("network"), RetryPolicy(max_attempts=1), GAVE_UP, "attempt 1 of 1 was the last"),
        (attempts("traceback"), P, PERSON, "traceback would end the next attempt the same way"),
        (attempts("network", "file_not_found"), P, PERSON, "file_not_found would end"),
        (attempts(("network", EARLY)), P, None, "attempt 2 of 6"),
        (attempts(("nccl", EARLY)), P, None, "to see whether it happens again"),
        (attempts(("nccl", EARLY), ("nccl", EARLY)), P, PERSON, "the same way as attempt 1"),
        (attempts(("nccl", EARLY), ("nccl", EARLY | FURTHER)), P, None, "attempt 3 of 6"),
        (attempts("nccl", "nccl"), P, None, "attempt 3 of 6"),
        (attempts("segfault"), P, None, "to see whether it happens again"),
        (attempts("segfault", "segfault"), P, PERSON, "the same way as attempt 1"),
        (attempts("segfault", "network", "segfault"), P, PERSON, "the same way as attempt 1"),
        (attempts("segfault", ("segfault", {"fingerprint": "another line"})), P, None, "attempt 3 of 6"),
        (attempts("segfault", ("segfault", FURTHER)), P, None, "attempt 3 of 6"),
        (attempts("unknown", "unknown"), P, PERSON, "the same way as attempt 1"),
        (attempts("gpu_hardware"), P, None, "attempt 2 of 6, without node n1"),
        (attempts("gpu_hardware"), RetryPolicy(host="n1.cluster.example"), PERSON, "node n1 is to blame"),
        (attempts("gpu_hardware"), RetryPolicy(host="login"), None, "without node n1"),
        (attempts("node_failure"), RetryPolicy(host="n2"), None, "attempt 2 of 6, without node n1"),
        (attempts("node_failure"), RetryPolicy(host="n1"), None, "attempt 2 of 6"),
        (attempts(*["node_failure"] * 3), RetryPolicy(host="n1"), GAVE_UP, "node_failure ended 3"),
        (attempts(*["gpu_hardware"] * 3), P, GAVE_UP, "gpu_hardware ended 3"),
        (attempts("cuda_oom"), P, PERSON, "comes again without more"),
        (attempts("cuda_oom"), BATCH, None, "attempt 2 of 6, with env:BATCH_SIZE times 0.5"),
        (attempts("cuda_oom"), MEMORY, PERSON, "comes again without more"),
        (attempts("oom_killer"), MEMORY, None, "with mem times 2"),
        (attempts(*["oom_killer"] * 6), MEMORY, GAVE_UP, "6 of 6"),
        (attempts("walltime"), P, None, "resume 1 of 20"),
        (attempts(*["walltime"] * 20), P, None, "resume 20 of 20"),
        (attempts(*["walltime"] * 21), P, GAVE_UP, "it was resumed 20 times"),
        (attempts("walltime"), RetryPolicy(max_resumes=0), GAVE_UP, "resumed 0 times"),
        (attempts(*[("walltime", STUCK)] * 2), P, None, "attempt 3 of 6"),
        (attempts(*[("walltime", STUCK)] * 3), P, GAVE_UP, "walltime ended 3 attempts in a row"),
        (attempts(*["walltime"] * 7, "network"), P, None, "attempt 2 of 6"),
        (attempts("interrupted"), P, STOPPED, "somebody ended it"),
        (attempts(("interrupted", {"sigterm": True})), P, STOPPED, "somebody ended it"),
        (attempts(("interrupted", {"sigterm": True})), RetryPolicy(on_sigterm="resume"), None, "resume 1 of 20"),
        (attempts("interrupted"), RetryPolicy(on_sigterm="resume"), STOPPED, "somebody ended it"),
        (attempts(("network", {"exited_zero": True})), P, PERSON, "status 0 although it failed"),
        (attempts(("network", {"exited_zero": True})), RetryPolicy(retry_exit_0=True), None, "attempt 2 of 6"),
        (attempts(("traceback", {"exited_zero": True})), RetryPolicy(retry_exit_0=True), PERSON, "the same way"),
        (attempts(("network", {"status": RunStatus.UNKNOWN})), P, PERSON, "nobody can say"),
        (attempts(("network", {"status": RunStatus.LOST})), P, None, "attempt 2 of 6"),
        (attempts(("success", {"status": RunStatus.LOST})), P, None, "to see whether it happens again"),
        (attempts("network"), RetryPolicy(actions=frozen({"network": Action.FIX})), PERSON, "network would end"),
        (attempts("traceback"), RetryPolicy(actions=frozen({"traceback": Action.RETRY})), None, "attempt 2 of 6"),
        (attempts("walltime"), RetryPolicy(actions=frozen({"walltime": Action.NONE})), STOPPED, "somebody ended it"),
    ],
)  # fmt: skip
def test_the_cause_decides(history: list[Attempt], policy: RetryPolicy, goes_on: ChainEnd | None, reason: str) -> None:
    decision = decide(history, policy)
    assert (decision.end, decision.retry) == (goes_on, goes_on is None)
    assert reason in decision.reason


def test_an_unchanged_retry_waits_the_interval_and_at_most_a_tenth_more() -> None:
    delays = [decide(attempts("network"), P, f"chain {number}").delay_s for number in range(50)]
    assert all(660 <= delay_s <= 726 for delay_s in delays)
    assert len(set(delays)) == 50  # chains that failed together do not come back together
    assert delays == [decide(attempts("network"), P, f"chain {number}").delay_s for number in range(50)]


def test_exponential_backoff_doubles_with_each_failure_of_the_class_and_never_passes_six_hours() -> None:
    policy = RetryPolicy(interval_s=3600, backoff="exponential", max_attempts=1000)
    history = attempts("network", "network", ("network", FURTHER))
    assert 7200 <= decide(history[:2], policy).delay_s <= 7920
    assert 3600 <= decide(history, policy).delay_s <= 3960  # it got further: it starts anew
    others = attempts(*["network", "storage_io"] * 4, "network")
    assert 3600 <= decide(others, policy).delay_s <= 3960
    slow = RetryPolicy(interval_s=20_000, backoff="exponential")
    assert decide(attempts("network", "network"), slow).delay_s <= 6 * 3600 * 1.1


@pytest.mark.parametrize(
    ("history", "policy"),
    [(attempts("gpu_hardware"), P), (attempts("oom_killer"), MEMORY), (attempts("walltime"), P)],
    ids=["elsewhere", "bigger", "resume"],
)
def test_where_the_cause_is_left_behind_there_is_no_wait(history: list[Attempt], policy: RetryPolicy) -> None:
    assert decide(history, policy).delay_s == 0


@pytest.mark.parametrize(
    ("history", "policy"),
    [
        (attempts(("preempted", EARLY)), P),
        (attempts(("gpu_hardware", {"faulty_node": ""})), P),
        (attempts("network"), RetryPolicy(actions=frozen({"network": Action.ELSEWHERE}))),
    ],
    ids=["resumed, and died at once", "nobody knows which node", "no node is to blame"],
)
def test_where_nothing_is_left_behind_there_is_a_wait(history: list[Attempt], policy: RetryPolicy) -> None:
    assert decide(history, policy).delay_s >= 660


def test_nodes_are_left_out_once_each_and_only_for_faults_of_their_own() -> None:
    history = attempts(
        ("gpu_hardware", {"faulty_node": "n2"}), "network", ("traceback", {"faulty_node": "n3"}),
        ("gpu_hardware", {"faulty_node": ""}), ("gpu_hardware", {"faulty_node": "n2"}),
    )  # fmt: skip
    assert excluded(history, P) == ("n2",)
    assert decide(history, P).exclude == ("n2",)


def test_each_failure_for_want_of_something_asks_for_more_of_it() -> None:
    both = RetryPolicy(bigger=(*MEMORY.bigger, *BATCH.bigger))
    assert escalations(attempts("oom_killer", "network", "oom_killer", "cuda_oom"), both) == {
        "mem": 4.0,
        "env:BATCH_SIZE": 0.125,
    }
    assert escalations(attempts("network"), both) == {}


faults = st.builds(
    lambda name, changes: (name, changes),
    st.sampled_from(sorted(set(CLASSES) - {"success"})),
    st.fixed_dictionaries(
        {
            "progress": st.sampled_from([None, None, None, False, True]),
            "fingerprint": st.sampled_from(["a", "b", "c", ""]),
            "duration_s": st.sampled_from([None, 1.0, 250.0, 4000.0, 90_000.0]),
            "sigterm": st.booleans(),
            "exited_zero": st.sampled_from([False, False, False, True]),
            "faulty_node": st.sampled_from(["", *NODES]),
            "domain": st.sampled_from(list(Domain)),
            "status": st.sampled_from([RunStatus.FAILED] * 6 + [RunStatus.LOST, RunStatus.UNKNOWN]),
        }
    ),
)
policies = st.builds(
    RetryPolicy,
    max_attempts=st.integers(1, 8),
    interval_s=st.floats(1, 90_000),
    backoff=st.sampled_from(["fixed", "exponential"]),
    early_s=st.floats(0, 1000),
    max_resumes=st.integers(0, 6),
    on_sigterm=st.sampled_from(["resume", "stop"]),
    never=st.sampled_from([False, False, False, True]),
    retry_exit_0=st.booleans(),
    actions=st.dictionaries(st.sampled_from(sorted(CLASSES)), st.sampled_from(list(Action)), max_size=3),
    bigger=st.sampled_from([(), MEMORY.bigger, BATCH.bigger, (*MEMORY.bigger, *BATCH.bigger)]),
    host=st.sampled_from(["", "n1"]),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(faults, min_size=16, max_size=16), policies)
def test_whatever_fails_however_often_every_chain_ends_within_its_limits(
    schedule: list[tuple[str, dict[str, object]]], policy: RetryPolicy
) -> None:
    history: list[Attempt] = []
    for number, (name, changes) in enumerate(schedule, start=1):
        history.append(replace(attempt(name, number), **changes))  # type: ignore[arg-type]
        decision = decide(history, policy, "chain")
        assert decision.retry is (decision.end is None)
        assert 0 <= decision.delay_s <= max(policy.interval_s, 6 * 3600) * 1.1
        blamed = {each.faulty_node for each in history if action_of(each, policy) is Action.ELSEWHERE}
        assert set(decision.exclude) == blamed - {""}
        if not decision.retry:
            break
        # What goes on was never past a limit.
        actions = Counter(action_of(each, policy) for each in history)
        assert not policy.never and actions[Action.FIX] == 0 and actions[Action.NONE] == 0
        assert actions[Action.RESUME] <= policy.max_resumes
    assert not decision.retry
    assert len(history) <= policy.max_attempts + policy.max_resumes + 1
