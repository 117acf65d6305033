"""One message a line, in many frameworks' words: `class[|class...]<TAB>text`; `\\n` starts a new line of the log."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from gpualert.classify import classify
from gpualert.model import Facts, LogFile
from gpualert.rules import load_rules

WRAPPINGS = ("", "[rank3]: ", "2026-05-01 10:00:00,123 ERROR trainer: ", "node07: ")
WORDS: dict[str, list[tuple[str, str]]] = defaultdict(list)
for row in (Path(__file__).parent / "samples" / "words.tsv").read_text().splitlines():
    classes, text = row.split("\t", 1)
    WORDS[classes.partition("|")[0]].append((classes, text.replace("\\n", "\n")))


@pytest.mark.parametrize("failure_class", WORDS)
def test_a_message_names_its_class_however_it_is_wrapped(tmp_path: Path, failure_class: str) -> None:
    rules, path, wrong = load_rules(), tmp_path / "output.log", []
    for number, (classes, text) in enumerate(WORDS[failure_class]):
        wrapping = WRAPPINGS[number % len(WRAPPINGS)]
        path.write_text(
            "step 1 loss 2.1\nstep 2 loss 2.0\n" + "".join(f"{wrapping}{line}\n" for line in text.split("\n"))
        )
        named = classify([LogFile("output.log", path)], Facts(status=1), rules).failure_class
        if named not in classes.split("|"):
            wrong.append((named, wrapping + text))
    assert not wrong


def progress(first: int, last: int, mark: str = "") -> str:
    return "".join(f"{mark}step {n} loss {2.5 - n / 100:.4f} lr 3e-5\n" for n in range(first, last))


def among_ranks(text: str) -> str:
    failing = "".join(f"[rank2]: {line}\n" for line in text.split("\n"))
    return f"""{progress(0, 30, "[rank0]: ")}{failing}\
[rank0]:[E x.cpp:523] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=31, OpType=ALLREDUCE)
[rank1]: torch.distributed.DistBackendError: NCCL error in: x.cpp:1970, remote process exited or network error
W0509 10:00:00.000000 100 torch/distributed/elastic/api.py:897] Sending process 101 closing signal SIGTERM
E0509 10:00:01.000000 100 torch/distributed/elastic/api.py:869] failed (exitcode: 1) local_rank: 2 (pid: 103)
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
"""


def under_slurm(text: str) -> str:
    return f"""WARNING: apex not found, using native amp
{progress(0, 30)}{text}
srun: error: gn3: task 1: Exited with exit code 1
slurmstepd: error: *** STEP 12.0 ON gn1 CANCELLED AT 2026-05-09T10:00:00 ***
srun: error: gn1: task 0: Terminated
"""


def inside_a_pipeline(text: str) -> str:
    indented = "".join(f"  {line}\n" for line in text.split("\n"))
    head = "ERROR ~ Error executing process > 'TRAIN (1)'\n\nCommand exit status:\n  1\n\nCommand error:\n"
    return f"{head}{indented}\nTip: view the output\n"


FEW = [row for rows in WORDS.values() for row in rows[::4] if rows[0][0] not in ("unknown", "success")]


@pytest.mark.parametrize("surround", [among_ranks, under_slurm, inside_a_pipeline])
def test_a_message_is_found_among_what_a_launcher_adds(tmp_path: Path, surround: Callable[[str], str]) -> None:
    assert score(tmp_path, surround, FEW) >= 0.98


def test_a_fault_after_which_the_program_counts_on_is_not_the_cause(tmp_path: Path) -> None:
    end = 'Traceback (most recent call last):\n  File "t.py", line 9, in <module>\nTypeError: f() missing an argument\n'
    rows = [("traceback", text) for _, text in FEW]
    assert score(tmp_path, lambda text: progress(0, 20) + text + "\n" + progress(20, 40) + end, rows) >= 0.96


def score(tmp_path: Path, surround: Callable[[str], str], rows: Sequence[tuple[str, str]]) -> float:
    rules, path, right = load_rules(), tmp_path / "output.log", 0
    for classes, text in rows:
        path.write_text(surround(text))
        right += classify([LogFile("output.log", path)], Facts(status=1), rules).failure_class in classes.split("|")
    return right / len(rows)
