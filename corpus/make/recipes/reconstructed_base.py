"""Whole logs of what takes hardware that few have, put together of what documents and users' reports show."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from corpus.make.chatter import training
from corpus.make.recipe import Recipe, Text

_SITE = "/opt/venv/lib/python3.11/site-packages"
Part = str | Iterable[str]


def told(name: str, how: str, source: str, evidence: str, *parts: Part, **more: Any) -> Recipe:
    """
    Return the recipe of a log that was written rather than recorded.

    Args:
        source: The document or the report that shows what the messages look like.
        parts: Of the log, in their order: texts, or lines.
        more: Fields of `Recipe` and of `Text`.
    """
    of_text = {key: more.pop(key) for key in Text.__dataclass_fields__ if key in more}
    more = {"framework": "pytorch", **more}
    return Recipe(name, Text(joined(*parts), **of_text), f"{how} Source: {source}", evidence, **more)


def joined(*parts: Part) -> str:
    """Return the text of several parts; each ends with a line feed."""
    texts = (part.strip("\n") if isinstance(part, str) else "\n".join(part) for part in parts)
    return "".join(f"{text}\n" for text in texts if text)


def steps(lines: int, seed: int, style: int | None = None) -> list[str]:
    """Return a log of healthy training."""
    return list(training(lines, seed, style=style))


def trace(error: str, *frames: str) -> str:
    """Return a traceback of Python; a frame is `file|line|function|code`, with files of a library below its name."""
    return "\n".join(
        ["Traceback (most recent call last):", *(line for frame in frames for line in _frame(frame)), error]
    )


def _frame(frame: str) -> Iterator[str]:
    file, line, function, code = frame.split("|")
    folder = _SITE if "/" in file else "/home/user/project"
    yield f'  File "{folder}/{file}", line {line}, in {function}'
    if code:
        yield f"    {code}"


def of_rank(rank: int, text: str) -> str:
    """Return a text as PyTorch prints the traceback of a rank."""
    return "\n".join(f"[rank{rank}]: {line}" for line in text.strip("\n").split("\n"))


def labelled(prefix: str, text: str) -> str:
    """Return a text with the same words before each line."""
    return "\n".join(prefix + line for line in text.strip("\n").split("\n"))


def torchrun_ends(rank: int, of: int, status: int = 1, script: str = "train.py", host: str = "node01") -> str:
    """Return what torchrun says when a rank of a node of eight has failed."""
    local, first = rank % 8, 140_310
    here = "torch/distributed/elastic/multiprocessing/api.py"
    closing = [
        f"W0314 10:02:11.{553 + other}000 140245 {here}:897] Sending process {first + other} closing signal SIGTERM"
        for other in range(min(of, 8))
        if other != local
    ]
    shown = "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"
    if status < 0:
        name = {6: "SIGABRT", 7: "SIGBUS", 9: "SIGKILL", 11: "SIGSEGV"}[-status]
        shown = f"Signal {-status} ({name}) received by PID {first + local}"
    return "\n".join(
        [
            *closing,
            f"E0314 10:02:12.118000 140245 {here}:869] failed (exitcode: {status}) local_rank: {local}"
            f" (pid: {first + local}) of binary: /opt/venv/bin/python",
            trace(
                "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
                "torch/distributed/elastic/multiprocessing/errors/__init__.py|355|wrapper|return f(*args, **kwargs)",
                "torch/distributed/run.py|919|main|run(args)",
                "torch/distributed/launcher/api.py|269|launch_agent|raise ChildFailedError(",
            ),
            "=" * 60,
            f"{script} FAILED",
            "-" * 60,
            "Failures:",
            "  <NO_OTHER_FAILURES>",
            "-" * 60,
            "Root Cause (first observed failure):",
            "[0]:",
            "  time      : 2026-03-14_10:02:11",
            f"  host      : {host}",
            f"  rank      : {rank} (local_rank: {local})",
            f"  exitcode  : {status} (pid: {first + local})",
            "  error_file: <N/A>",
            f"  traceback : {shown}",
            "=" * 60,
        ]
    )


def srun_ends(rank: int, host: str = "node02", status: int = 1, job: int = 48211) -> str:
    """Return what srun says when a task has failed and the step is ended (--kill-on-bad-exit)."""
    return f"""\
srun: error: {host}: task {rank}: Exited with exit code {status}
srun: Terminating StepId={job}.0
slurmstepd: error: *** STEP {job}.0 ON node01 CANCELLED AT 2026-03-14T10:02:13 ***
srun: Job step aborted: Waiting up to 32 seconds for job step to finish.
srun: error: node01: tasks 0-3: Terminated"""


def mpirun_ends(rank: int, host: str = "node01", signal: str = "") -> str:
    """Return what Open MPI says when a rank has failed."""
    if signal:
        why = f"mpirun noticed that process rank {rank} with PID 22817 on node {host} exited on {signal}."
    else:
        why = (
            "mpirun detected that one or more processes exited with non-zero status, thus causing\n"
            f"the job to be terminated. The first process to do so was:\n\n  Process name: [[9142,1],{rank}]\n"
            "  Exit code:    1"
        )
    return f"{'-' * 74}\n{why}\n{'-' * 74}"


def deepspeed_ends(ranks: int = 4, status: int = 1) -> str:
    """Return what the launcher of DeepSpeed says when a rank has failed."""
    killing = [
        f"[2026-03-14 10:02:1{rank},407] [INFO] [launch.py:319:sigkill_handler] Killing subprocess {51_200 + rank}"
        for rank in range(ranks)
    ]
    command = f"['/opt/venv/bin/python', '-u', 'train.py', '--local_rank={ranks - 1}', '--deepspeed', 'zero3.json']"
    said = f"[launch.py:325:sigkill_handler] {command} exits with return code = {status}"
    end = f"[2026-03-14 10:02:15,411] [ERROR] {said}"
    return "\n".join([*killing, end])


def watchdog(
    rank: int, seq: int, operation: str = "ALLREDUCE", numel: int = 25_165_824, limit_ms: int = 600_000
) -> str:
    """Return what PyTorch's watchdog says when a collective of a rank has not ended in time, until it aborts."""
    head = f"[rank{rank}]:[E314 10:01:5{rank % 8}.{408_271_257 + rank} ProcessGroupNCCL.cpp"
    work = (
        f"WorkNCCL(SeqNum={seq}, OpType={operation}, NumelIn={numel}, NumelOut={numel}, Timeout(ms)={limit_ms})"
        f" ran for {limit_ms + 13 + rank * 7} milliseconds before timing out."
    )
    lost = (
        "Some NCCL operations have failed or timed out. Due to the asynchronous nature of CUDA kernels,"
        " subsequent GPU"
        " operations might run on corrupted/incomplete data."
    )
    return "\n".join(
        [
            f"{head}:632] [Rank {rank}] Watchdog caught collective operation timeout: {work}",
            f"{head}:1785] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] Exception (either an error or timeout)"
            f" detected by"
            f" watchdog at work: {seq}, last enqueued NCCL work: {seq + 2}, last completed NCCL work: {seq - 1}.",
            f"{head}:684] [Rank {rank}] {lost}",
            f"{head}:698] [Rank {rank}] To avoid data inconsistency, we are taking the entire process down.",
            f"{head}:1896] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] Process group watchdog thread terminated with"
            f" exception: [Rank {rank}] Watchdog caught collective operation timeout: {work}",
        ]
    )
