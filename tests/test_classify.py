"""The verdict: ranks, frames, parameters, fingerprints, several logs, signals, and what cannot be read."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from gpualert.classify import classify
from gpualert.classify.lines import Level, read_line
from gpualert.classify.parameters import read_parameters
from gpualert.cli.cause import classify as classify_command
from gpualert.cli.cause import rules as rules_command
from gpualert.decide import prospect
from gpualert.model import Action, Evidence, Facts, LogFile, RunStatus, Verdict
from gpualert.rules import load_rules
from gpualert.verdict_json import verdict_from_json, verdict_to_json

ERROR = 'Traceback (most recent call last):\n  File "/env/lib/python3.10/site-packages/x.py", line 3, in g\n  File "/home/u/train.py", line 7, in f\nValueError: bad\n'  # noqa: E501


def judged(tmp_path: Path, *logs: str | bytes, **facts: object) -> Verdict:
    files = []
    for number, log in enumerate(logs):
        path = tmp_path / f"rank_{number}.log"
        path.write_bytes(log.encode() if isinstance(log, str) else log)
        files.append(LogFile(path.name, path))
    return classify(files, Facts(**{"status": 1, **facts}), load_rules())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("raw", "rank", "host", "level", "content"),
    [
        ("[rank3]: RuntimeError: x", 3, "", Level.NONE, "RuntimeError: x"),
        ("[default12]:hello", 12, "", Level.NONE, "hello"),
        (" 7: [rank5]: x", 5, "", Level.NONE, "x"),
        ("11: python3: x", 11, "", Level.NONE, "python3: x"),
        ("[1,4]<stderr>:MemoryError", 4, "", Level.NONE, "MemoryError"),
        ("\x1b[36m(Worker pid=12, ip=10.0.0.7)\x1b[0m boom", None, "10.0.0.7", Level.NONE, "boom"),
        ("10.69.41.110: [2023-10-24 07:53:50,000] [INFO] [log.py:96:f] [Rank 0] step=1", 0, "10.69.41.110", Level.INFO, "step=1"),  # noqa: E501
        ("2024-04-17T13:03:47.123Z boom", None, "", Level.NONE, "boom"),
        ("E0412 14:21:17.000000 2150 torch/api.py:869] failed", None, "", Level.ERROR, "failed"),
        ("2024-07-08 10:02:47.002514: W tensorflow/x.cc:38] careful", None, "", Level.WARNING, "careful"),
        ("2020-03-23 08:56:20 | INFO | fairseq.trainer | note", None, "", Level.INFO, "note"),
        ("WARNING:root:careful", None, "", Level.WARNING, "careful"),
        ("│ boxed text │", None, "", Level.NONE, "boxed text"),
        ("Oct 11 09:03:27 gn7 kernel: NVRM: x", None, "gn7", Level.NONE, "kernel: NVRM: x"),
        ("sqlite3.OperationalError: locked", None, "", Level.NONE, "sqlite3.OperationalError: locked"),
    ],
)  # fmt: skip
def test_a_line_is_read_without_its_wrapping(raw: str, rank: int | None, host: str, level: Level, content: str) -> None:
    line = read_line(raw)
    assert (line.rank, line.host, line.level, line.content.strip()) == (rank, host, level, content)


@pytest.mark.parametrize(
    ("content", "name", "value"),
    [
        ("NVRM: Xid (PCI:0000:3b:00): 79, x", "xid", 79),
        ("NVRM: Xid (PCI:0000:3B:00): 79, x", "pci", "0000:3b:00"),
        ("OSError: [Errno 28] No space left", "errno", 28),
        ("Tried to allocate 2.50 GiB. GPU 0 has", "bytes", 5 << 29),
        ("Tried to allocate 2.50 GiB. GPU 0 has", "gpu", 0),
        ("of which 1.00 MiB is free", "bytes_free", 1 << 20),
        ("ModuleNotFoundError: No module named 'a.b'", "module", "a.b"),
        ("No such file or directory: '/data/x y.bin'", "path", "/data/x y.bin"),
        ("WorkNCCL(SeqNum=12, OpType=ALLREDUCE)", "collective", "ALLREDUCE"),
        ("WorkNCCL(SeqNum=12, OpType=ALLREDUCE)", "sequence", 12),
        ("exitcode  : -6 (pid: 12)", "signal", 6),
        ("loss=nan at step 12", "loss", "nan"),
        ("429 Client Error: Too Many", "http_status", 429),
    ],
)
def test_evidence_has_typed_values(content: str, name: str, value: object) -> None:
    assert read_parameters(content)[name] == value


def test_the_last_frame_of_the_users_own_code_stands_beside_the_exception(tmp_path: Path) -> None:
    (item,) = judged(tmp_path, ERROR).evidence
    assert (item.text, item.line, item.frame) == ("ValueError: bad", 4, "/home/u/train.py:7 in f")


def test_of_several_logs_the_earliest_by_time_names_the_rank(tmp_path: Path) -> None:
    late = "2024-05-01 10:00:30 ERROR ValueError: late\n"
    early = "2024-05-01 10:00:10 ERROR ValueError: early\n"
    verdict = judged(tmp_path, late, early)
    assert (verdict.evidence[0].file, verdict.first_rank) == ("rank_1.log", 1)


TIMEOUT = "[rank{r}]:[E x.cpp:1] [Rank {r}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={n}, OpType=ALLREDUCE)"  # noqa: E501


def test_the_rank_that_lags_is_named_rather_than_the_loudest(tmp_path: Path) -> None:
    lines = [TIMEOUT.format(r=r, n=40 if r == 2 else 41) for r in (0, 1, 3, 2)]
    assert judged(tmp_path, "\n".join(lines)).first_rank == 2


def test_the_rank_that_is_silent_is_named(tmp_path: Path) -> None:
    lines = ["comm 0x1 rank 0 nranks 4", *(TIMEOUT.format(r=r, n=41) for r in (0, 1, 3))]
    assert judged(tmp_path, "\n".join(lines)).first_rank == 2


def test_the_same_fault_in_another_run_has_the_same_fingerprint(tmp_path: Path) -> None:
    one = judged(tmp_path, "2024-01-01 00:00:00 x\n" + ERROR.replace("bad", "bad batch 17 of /data/a/1.bin"))
    other = judged(tmp_path, "step 9 loss 1.0\n" + ERROR.replace("bad", "bad batch 4 of /data/b/2.bin"))
    different = judged(tmp_path, ERROR.replace("train.py", "eval.py").replace("bad", "bad batch 4 of /data/b/2.bin"))
    assert one.fingerprint == other.fingerprint != different.fingerprint


def test_a_verdict_survives_json(tmp_path: Path) -> None:
    verdict = judged(tmp_path, ERROR)
    assert verdict_from_json(json.loads(json.dumps(verdict_to_json(verdict)))) == verdict


def test_the_kernels_line_outweighs_what_the_program_says(tmp_path: Path) -> None:
    kernel = Evidence("kernel", "", 0, "NVRM: Xid (PCI:0000:4f:00): 79, pid=1, GPU has fallen off the bus.", host="gn7")
    verdict = judged(tmp_path, "RuntimeError: CUDA error: unspecified launch failure\n", evidence=(kernel,))
    assert (verdict.failure_class, verdict.evidence[0].source) == ("gpu_hardware", "kernel")


@pytest.mark.parametrize(
    ("facts", "failure_class", "status"),
    [
        ({"status": 0}, "success", RunStatus.SUCCEEDED),
        ({"status": 0, "oom_kills": 1}, "oom_killer", RunStatus.FAILED),
        ({"status": 137, "oom_kills": 2}, "oom_killer", RunStatus.FAILED),
        ({"status": 139}, "segfault", RunStatus.FAILED),
        ({"status": 130}, "interrupted", RunStatus.FAILED),
        ({"status": 127}, "command_not_found", RunStatus.FAILED),
        ({"status": 137}, "unknown", RunStatus.FAILED),
        ({"status": 124, "timed_out": True}, "hang", RunStatus.FAILED),
        ({"status": 143, "scheduler_state": "TIMEOUT"}, "walltime", RunStatus.FAILED),
        ({"status": 143, "scheduler_state": "PREEMPTED"}, "preempted", RunStatus.FAILED),
        ({"status": 143, "scheduler_state": "CANCELLED by 1001"}, "interrupted", RunStatus.FAILED),
        ({"status": None}, "unknown", RunStatus.UNKNOWN),
    ],
)
def test_a_silent_log_leaves_the_word_to_what_is_known_beside_it(
    tmp_path: Path, facts: dict[str, object], failure_class: str, status: RunStatus
) -> None:
    verdict = judged(tmp_path, "hello\n", **facts)
    assert (verdict.failure_class, verdict.status) == (failure_class, status)


def test_status_zero_with_an_uncaught_exception_at_the_end_is_a_failure(tmp_path: Path) -> None:
    verdict = judged(tmp_path, "step 1 loss 2.0\n" + ERROR, status=0)
    assert (verdict.status, verdict.exited_zero, verdict.failure_class) == (RunStatus.FAILED, True, "traceback")
    assert "status 0" in prospect(verdict)


@pytest.mark.parametrize(
    ("log", "failed"),
    [
        (ERROR + "rows 0 to 8 ok\nrows 8 to 16 ok\nrows 16 to 24 ok\nrows 24 to 32 ok\nwrote 32 rows\n", False),
        (ERROR + "it is 10:15:00\nelapsed 3 s\nlog kept in run.log\n", True),
        ("a\nb\nc\nd\ne\n" + ERROR, True),
        (ERROR + "stage 2\nstage 3\nstage 4\nstage 5\n" + ERROR + "all stages processed\n", True),
        ("cp: cannot stat 'old': No such file or directory\nprepare\ntrain\nexport\nupload\n", False),
        ("cp: cannot stat 'old': No such file or directory\n", True),
        ("rm: cannot remove 'old': No such file or directory\n", False),
    ],
    ids=["handled", "a-footer", "at-the-end", "once-more-at-the-end", "a-tool", "a-tool-and-nothing-else", "a-removal"],
)
def test_at_status_0_an_error_counts_unless_its_writer_had_more_to_say(tmp_path: Path, log: str, failed: bool) -> None:
    verdict = judged(tmp_path, log, status=0)
    assert verdict.exited_zero is failed
    assert (verdict.status is RunStatus.FAILED) is failed


def test_an_absorbed_fault_is_success_with_a_note(tmp_path: Path) -> None:
    steps = "".join(f"step {n} loss 0.5\n" for n in range(9))
    verdict = judged(tmp_path, "step 1 loss 2.0\n" + ERROR + steps + "Training finished.\n", status=0)
    assert verdict.status is RunStatus.SUCCEEDED
    assert "ValueError: bad" in verdict.notes[0]


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    verdict = classify([LogFile("gone", tmp_path / "gone"), LogFile("dir", tmp_path)], Facts(status=1), load_rules())
    assert [trouble.partition(":")[0] for trouble in verdict.not_read] == ["gone", "dir"]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0" * 5000,
        bytes(range(256)) * 50,
        b"\xff\xfe",
        b"\x1f\x8bjunk",
        b"[" * 9000,
        b"\r" * 9000,
        b"Traceback (most recent call last):\n" * 400,
    ],
)
def test_hostile_bytes_give_an_answer(tmp_path: Path, data: bytes) -> None:
    assert judged(tmp_path, data).status is RunStatus.FAILED


def test_quoted_trouble_is_no_trouble(tmp_path: Path) -> None:
    log = 'Namespace(on_error="CUDA out of memory", x=1)\n+ python train.py --on-segfault restart\n    raise RuntimeError("CUDA error: x")\n'  # noqa: E501
    assert judged(tmp_path, log).failure_class == "unknown"


def test_one_pattern_may_override_the_action(tmp_path: Path) -> None:
    verdict = judged(tmp_path, "RuntimeError: CUDA error: device-side assert triggered\n")
    assert (verdict.failure_class, verdict.action) == ("cuda_runtime", Action.FIX)


def cli(*words: str, data: bytes = b"") -> tuple[int, str]:
    result = CliRunner().invoke(classify_command, list(words), input=data)
    return result.exit_code, result.output


def test_the_command_reads_standard_input_and_gzip(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"MemoryError\n"))
    assert cli("--status", "1", data=b"MemoryError\n")[1].startswith("FAILED ram_oom")
    assert cli(str(path))[1].startswith("FAILED ram_oom")


def test_the_command_prints_json_and_exits_one_when_the_cause_is_unknown(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("hello\n")
    status, output = cli("--json", "--status", "3", str(path))
    assert (status, json.loads(output)["class"]) == (1, "unknown")


def test_control_characters_of_a_log_do_not_reach_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"\x1b]0;title\x07ValueError: \x1b[2Jx\n")
    assert "\x1b" not in cli(str(path))[1]


def test_rules_try_shows_who_won_and_why_the_others_lost(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("WARNING: CUDA out of memory, retrying\n" + ERROR)
    output = CliRunner().invoke(rules_command, ["try", str(path), "--status", "1"]).output
    assert "traceback            WON" in output
    assert "only a warning" in output


@pytest.mark.parametrize("words", [["list"], ["explain", "cuda_oom"]])
def test_rules_can_be_listed_and_explained(words: list[str]) -> None:
    assert "The GPU ran out of memory" in CliRunner().invoke(rules_command, words).output
