"""Many tasks, one message: the ranks of a step, the tasks of an array."""

from __future__ import annotations

import json
import re

import pytest
from outcomes import body

from .jobs import GPUALERT, User, told

pytestmark = pytest.mark.engines

# Rank 5 has the cause; the others wait for it as a collective would, and fall with it.
_RANK = """\
import os, sys, time
rank = int(os.environ["SLURM_PROCID"])
print(f"[rank{rank}] step 1 loss=2.0", flush=True)
if rank == 5:
    time.sleep(1)
    raise RuntimeError("Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!")
time.sleep(2)
print(f"[rank{rank}]: torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1970, "
      "remote process exited or there was a network error", file=sys.stderr)
sys.exit(1)
"""
_TASK = """\
import os
task = int(os.environ["SLURM_ARRAY_TASK_ID"])
if task % 4 == 1:
    open("/no/such/data.bin")
if task % 4 == 2:
    print(1 / 0)
if task % 4 == 3:
    raise SystemExit("RuntimeError: CUDA error: an illegal memory access was encountered")
print("done")
"""


def test_eight_ranks_send_one_message_that_names_the_first_rank_and_its_node(user: User) -> None:
    (user.work / "train.py").write_text(_RANK)
    job, end = user.finish(f"srun {GPUALERT} run --name train -- python3 train.py", "-N8", "-n8", limit_s=90)
    user.gpualert("tick")
    (mail,) = user.mails()
    assert end.state == "FAILED"
    found = told(mail)
    assert (found.status, found.failure_class) == ("failed", "device_mismatch")
    assert found.subject == "FAILED device_mismatch: train on 8 nodes (rank 5 on n6 first)"
    assert "line 4, rank 5, on n6; " in found.where and found.where.endswith("train.py:6 in <module>")
    assert found.why.startswith("RuntimeError: Expected all tensors to be on the same device")
    assert found.job.startswith(f"Slurm {job}")
    assert len(user.runs()) == 8
    rows = [line for line in body(mail).splitlines() if re.search(r"\bn[1-8]\b", line)]
    assert {f"n{number}" for number in range(1, 9)} <= set(re.findall(r"\bn[1-8]\b", "\n".join(rows)))


def test_a_rank_that_never_ends_its_record_is_named(user: User) -> None:
    (user.work / "rank.sh").write_text("[ $SLURM_PROCID = 2 ] || { sleep 1; exit 3; }; kill -KILL $PPID $$\n")
    user.finish(f"srun -K0 {GPUALERT} run --name train -- sh rank.sh", "-N4", "-n4", limit_s=90)
    user.gpualert("tick")
    mails = user.mails()
    assert len(mails) == 1
    assert "rank 2" in body(mails[0])


def test_the_parts_of_a_heterogeneous_job_are_one_group(user: User) -> None:
    (user.work / "rank.sh").write_text("[ $SLURM_PROCID != 2 ] || exit 4; sleep 1\n")
    run = f"srun --het-group=0,1 {GPUALERT} run --name het -- sh rank.sh"
    job, _ = user.finish(f"#SBATCH -n1\n#SBATCH hetjob\n#SBATCH -n2\n{run}", limit_s=90)
    user.gpualert("tick")
    (mail,) = user.mails()
    assert re.fullmatch(r"FAILED unknown: het on 2 nodes \(rank 2 on n[1-8] first\)", told(mail).subject)
    assert told(mail).why == "exit status 4" and told(mail).job == f"Slurm {job}.0"
    assert len(user.runs()) == 3


def test_an_array_of_twenty_with_three_causes_is_one_digest_and_no_flood(user: User) -> None:
    (user.work / "task.py").write_text(_TASK)
    run = f"{GPUALERT} run --name task -- python3 task.py"
    job, _ = user.finish(f"exec {run}", "--array=0-19", limit_s=150)
    user.gpualert("tick")
    mails = user.mails()
    assert len(user.runs()) == 20
    assert len(mails) <= 2, [str(mail["Subject"]) for mail in mails]  # at most the first, then all
    text = "\n".join(body(mail) for mail in mails)
    for failure_class in ("file_not_found", "div_zero", "cuda_runtime"):
        assert failure_class in text
    assert job in text


def test_an_array_that_was_never_wrapped_is_reported_as_one(user: User) -> None:
    (user.work / "task.py").write_text(_TASK)
    job, _ = user.finish("python3 task.py", "--array=0-3", limit_s=90)
    tasks = json.loads(user.gpualert("slurm", "--json", job).stdout)
    causes = {task["job"]: task["verdict"]["class"] for task in tasks}
    assert causes == {
        f"{job}_0": "success",
        f"{job}_1": "file_not_found",
        f"{job}_2": "div_zero",
        f"{job}_3": "cuda_runtime",
    }
    shown = user.gpualert("slurm", f"{job}_[1-2]").stdout
    assert f"{job}_1" in shown and f"{job}_3" not in shown
