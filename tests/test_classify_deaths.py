"""Whose end it was: a rank that a signal ended, its peers that miss it, and what went on to be printed after an end."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpualert.classify import classify
from gpualert.model import Facts, LogFile
from gpualert.rules import load_rules

LOST = "[rank{0}]: RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:537] Read error [10.0.0.{0}]:2578: Connection reset by peer\n"  # noqa: E501
TIMED_OUT = "[rank1]: RuntimeError: [gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 1800000ms for recv operation to complete\n"  # noqa: E501
TRACEBACK = 'Traceback (most recent call last):\n  File "train.py", line 7, in <module>\n'


def judged(tmp_path: Path, logs: dict[str, str], **facts: object) -> tuple[str, int | None]:
    """Return the class and the first rank; logs by their names, that of the run the facts are of first."""
    files = []
    for name, text in logs.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        files.append(LogFile(name, path))
    verdict = classify(files, Facts(**{"status": 1, **facts}), load_rules())  # type: ignore[arg-type]
    return verdict.failure_class, verdict.first_rank


@pytest.mark.parametrize(
    ("launcher", "failure_class", "rank"),
    [
        ("mpirun noticed that process rank 2 with PID 71 on node n1 exited on signal 9 (Killed).\n", "unknown", 2),
        ("mpirun noticed that process rank 2 with PID 71 on node n1 exited on signal 6 (Aborted).\n", "segfault", 2),
        ("mpirun noticed that process rank 2 with PID 71 on node n1 exited on signal 15 (Terminated).\n", "nccl", 0),
        ("E1 torch/api.py:1002] failed (exitcode: -9) local_rank: 2 (pid: 71) of binary: python\n", "unknown", 2),
    ],
    ids=["killed", "aborted", "ended-by-the-launcher", "torchrun"],
)
def test_a_rank_that_a_signal_ended_explains_the_peers_that_miss_it(
    tmp_path: Path, launcher: str, failure_class: str, rank: int
) -> None:
    log = LOST.format(0) + LOST.format(1) + launcher
    assert judged(tmp_path, {"output.log": log}) == (failure_class, rank)


def test_a_rank_killed_after_a_time_out_explains_nothing(tmp_path: Path) -> None:
    killed = "E1 torch/api.py:1002] failed (exitcode: -9) local_rank: 2 (pid: 71) of binary: python\n"
    assert judged(tmp_path, {"output.log": TIMED_OUT + LOST.format(0) + killed})[0] == "nccl"


@pytest.mark.parametrize(("signal", "failure_class"), [(9, "unknown"), (11, "segfault"), (15, "nccl")])
def test_a_run_killed_without_a_word_explains_the_runs_that_miss_it(
    tmp_path: Path, signal: int, failure_class: str
) -> None:
    logs = {"rank1/output.log": "step 1 loss 2.0\n", "rank0/output.log": LOST.format(0)}
    assert judged(tmp_path, logs, status=128 + signal, signal=signal)[0] == failure_class


def test_a_crash_is_not_explained_by_an_exception_that_was_handled(tmp_path: Path) -> None:
    log = TRACEBACK + "KeyError: 'bias'\n" + "".join(f"step {n} loss 2.{n}\n" for n in range(40))
    assert judged(tmp_path, {"output.log": log}, status=139, signal=11)[0] == "segfault"


def test_what_a_rank_printed_before_and_a_pipe_brings_after_its_exception_is_no_sign_of_life(tmp_path: Path) -> None:
    # mpirun and torchrun read standard output and standard error apart.
    error = "".join(
        f"[1,0]<stderr>:{line}\n" for line in (TRACEBACK + "ZeroDivisionError: division by zero").split("\n")
    )
    steps = "".join(f"[1,0]<stdout>:step {n} loss 2.{n}\n" for n in range(40))
    assert judged(tmp_path, {"output.log": error + steps}) == ("div_zero", 0)


def test_what_make_gives_up_stays_given_up_whatever_other_recipes_print(tmp_path: Path) -> None:
    log = "make: *** [Makefile:3: 2] Segmentation fault\n" + "".join(f"tile {n} of 40, step {n}\n" for n in range(40))
    assert judged(tmp_path, {"output.log": log}, status=2)[0] == "segfault"


@pytest.mark.parametrize(
    ("line", "failure_class"),
    [
        ('{"level": "error", "event": "failed", "exception": "Traceback (most recent call last):\\nKeyError: 3\\n"}', "traceback"),  # noqa: E501
        ('{"severity": "ERROR", "message": "CUDA out of memory. Tried to allocate 2.50 GiB"}', "cuda_oom"),
        ('{"level": "info", "msg": "retry", "error": "CUDA out of memory. Tried to allocate 2.50 GiB"}', "success"),
    ],
    ids=["exception", "message", "no-error"],
)  # fmt: skip
def test_a_structured_log_is_read_by_its_fields(tmp_path: Path, line: str, failure_class: str) -> None:
    log = '{"level": "info", "event": "step 1"}\n' + line + "\n"
    assert judged(tmp_path, {"output.log": log}, status=0 if failure_class == "success" else 1)[0] == failure_class


def test_a_message_is_old_news_where_its_writer_went_on_to_an_exception_of_another_class(tmp_path: Path) -> None:
    steps = "".join(f"sentence {n} scored, all well\n" for n in range(12))
    log = "CUDA out of memory with batch 16\n" + steps + TRACEBACK + "ZeroDivisionError: division by zero\n"
    assert judged(tmp_path, {"output.log": log})[0] == "div_zero"
    assert judged(tmp_path, {"output.log": log.replace(steps, "")})[0] == "cuda_oom"


def test_what_will_be_tried_again_is_no_cause_where_there_is_another(tmp_path: Path) -> None:
    log = "upload of step_58000 failed: 503 Service Unavailable; will try again (1/5)\n"
    assert judged(tmp_path, {"output.log": log + TRACEBACK + "KeyError: 'bias'\n"})[0] == "traceback"


def test_a_script_that_goes_on_after_srun_told_of_dead_tasks_has_not_succeeded(tmp_path: Path) -> None:
    log = "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0.\nsrun: error: n1: task 5: Out Of Memory\n"
    log += "srun: error: n1: tasks 0-4,6-7: Exited with exit code 1\n"
    log += "+ plot\nwrote curves.png\nwrote table.csv\ncopied both\nend of script\n"
    assert judged(tmp_path, {"output.log": log}, status=0)[0] == "oom_killer"


def test_a_tool_that_fails_after_the_job_was_done_costs_no_success(tmp_path: Path) -> None:
    log = "wrf: SUCCESS COMPLETE WRF\nmv: cannot stat 'extremes*': No such file or directory\n"
    assert judged(tmp_path, {"output.log": log}, status=0)[0] == "success"
    assert judged(tmp_path, {"output.log": log.split("\n", 1)[1]}, status=0)[0] == "file_not_found"


def test_a_time_limit_of_its_own_is_no_interruption(tmp_path: Path) -> None:
    assert judged(tmp_path, {"output.log": "tile 236 of 960\nTerminated\n"}, status=124)[0] == "hang"
