"""What the machine says of a run: cards through NVIDIA's own bindings, control groups, memory, processes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rundirs import NOW, RunBuilder

from gpualert.bounded import within
from gpualert.collect import Collected, collect, evidence_json, gpu_allotted, machine_rows
from gpualert.model import Facts, Start
from gpualert.rundir import read_run
from gpualert.settle import Logs, readable_logs
from gpualert.signals.cgroup import oom_kills, owns_cgroup
from gpualert.signals.host import snapshot_host
from gpualert.signals.kernel import KernelLine, about, parse_record, read_kernel_log
from gpualert.signals.nvml import Gpu, GpuSnapshot, snapshot_gpus
from gpualert.signals.process import processes_of
from gpualert.standing import Standing

SNAPSHOT = """
import json, sys, time
from dataclasses import asdict
from gpualert.signals.kernel import KernelLine, about, parse_record, read_kernel_log
from gpualert.signals.nvml import snapshot_gpus
print(json.dumps(asdict(snapshot_gpus(float(sys.argv[1])))))
"""


@pytest.fixture(scope="session")
def fake_nvml(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the stand-in for NVIDIA's library; return its folder."""
    if not shutil.which("gcc"):
        pytest.skip("no C compiler to build the stand-in for NVIDIA's library")
    folder = tmp_path_factory.mktemp("nvml")
    source = Path(__file__).parent / "fake_nvml" / "nvml.c"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", folder / "libnvidia-ml.so.1", source], check=True)
    return folder


def ask(folder: Path, trouble: str = "", limit_s: float = 30.0) -> dict[str, object]:
    """Take a snapshot in a process that finds the stand-in where the loader looks."""
    environ = {**os.environ, "LD_LIBRARY_PATH": str(folder), "FAKE_NVML": trouble}
    command = [sys.executable, "-c", SNAPSHOT, str(limit_s)]
    found = json.loads(subprocess.run(command, env=environ, check=True, capture_output=True).stdout)
    assert isinstance(found, dict)
    return found


def test_cards_and_driver_are_read_through_nvidias_bindings(fake_nvml: Path) -> None:
    found = ask(fake_nvml)
    assert (found["driver"], found["cuda"], found["absent"], found["not_read"]) == ("550.54.15", "12.4", "", [])
    first, second = found["gpus"]  # type: ignore[misc]
    assert Gpu(**first) == Gpu(
        index=0,
        name="NVIDIA A100",
        uuid="GPU-1",
        pci="00000000:65:00.0",
        memory_used_mib=79 * 1024,
        memory_total_mib=80 * 1024,
        utilization_percent=97,
        temperature_c=64,
        power_w=301.5,
        ecc_uncorrected=3,
        remap_pending=None,
    )
    assert second["index"] == 1


def test_a_lost_card_is_listed_with_what_it_did_not_tell(fake_nvml: Path) -> None:
    found = ask(fake_nvml, "lost")
    first, second = found["gpus"]  # type: ignore[misc]
    assert first["name"] == "NVIDIA A100"
    assert second == {**dict.fromkeys(second), "index": 1}
    assert "GPU 1 name: GPU is lost" in found["not_read"]  # type: ignore[operator]


@pytest.mark.parametrize(
    ("trouble", "limit_s", "absent"),
    [
        ("mismatch", 30.0, "the NVIDIA driver cannot be asked: RM has detected an NVML/RM version mismatch."),
        ("crash", 30.0, "the NVIDIA driver's library ended its process with status -6"),
        ("hang", 1.0, "the NVIDIA driver did not answer within 1 s"),
    ],
)
def test_a_broken_driver_is_a_sentence_and_no_error(fake_nvml: Path, trouble: str, limit_s: float, absent: str) -> None:
    found = ask(fake_nvml, trouble, limit_s)
    assert (found["absent"], found["gpus"]) == (absent, [])


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="this host has a driver")
def test_the_absence_of_a_driver_is_a_sentence() -> None:
    assert snapshot_gpus() == GpuSnapshot(absent="no NVIDIA driver on this host")


def test_the_machine_is_told_once_in_rows() -> None:
    absent = Collected(Facts(), Logs(()), None, GpuSnapshot(absent="no NVIDIA driver on this host"))
    assert machine_rows(absent) == [("GPUs", "no NVIDIA driver on this host")]
    card = Gpu(0, "A100", memory_used_mib=512, memory_total_mib=1024, temperature_c=60, ecc_uncorrected=2)
    rows = dict(machine_rows(Collected(Facts(), Logs(()), None, GpuSnapshot("550", "12.4", (card,)))))
    assert rows["GPU 0"] == "A100, 0.5 GiB of 1.0 GiB used, 60 °C, 2 uncorrected ECC errors since the driver was loaded"


def test_the_host_is_read_and_a_missing_folder_is_said(tmp_path: Path) -> None:
    found = snapshot_host([str(tmp_path), str(tmp_path / "gone"), str(tmp_path)])
    assert [disk.path for disk in found.disks] == [str(tmp_path)]
    assert found.memory_total_mib and found.memory_available_mib
    assert found.not_read == (f"disk of {tmp_path}/gone: No such file or directory",)


def test_a_call_that_hangs_is_left_behind() -> None:
    before = time.monotonic()
    with pytest.raises(TimeoutError, match=r"no answer within 0\.05 s"):
        within(0.05, lambda: time.sleep(30))
    assert time.monotonic() - before < 30
    assert within(30, lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        within(30, lambda: 1 // 0)


@pytest.mark.parametrize(
    ("before", "after", "kills"),
    [(2, 3, 1), (2, 2, 0), (None, 3, None), (2, None, None), (5, 1, None)],
    ids=["one", "none", "no count at the start", "no count at the end", "another group's"],
)
def test_kills_are_the_difference_of_two_counts(
    make_run: RunBuilder, before: int | None, after: int | None, kills: int | None
) -> None:
    run = read_run(make_run(start={"cgroup_oom_kill": before}, exit={"cgroup_oom_kill": after}))
    assert oom_kills(run) == kills


@pytest.mark.parametrize(
    ("cgroup", "own"),
    [
        ("/slurm/uid_1000/job_4711/step_0", True),
        ("/system.slice/slurmstepd.scope/job_4711/step_batch/user/task_0", True),
        ("/kubepods.slice/kubepods-burstable.slice/cri-containerd-0123.scope", True),
        ("/", True),
        ("/user.slice/user-1000.slice/session-3.scope", False),
        ("/user.slice/user-1000.slice/user@1000.service/app.slice/tmux-spawn-1.scope", False),
        ("/user.slice/user-1000.slice/user@1000.service/app.slice/run-r12.scope", True),
        ("/system.slice/cron.service", False),
        ("/system.slice/ssh.service", False),
    ],
)
def test_a_session_is_shared_and_a_job_or_container_is_its_own(make_run: RunBuilder, cgroup: str, own: bool) -> None:
    assert owns_cgroup(read_run(make_run(start={"cgroup": cgroup})), []) is own


@pytest.mark.parametrize(
    ("other_start", "own"),
    [
        ({"started_at": NOW - 50}, False),
        ({"started_at": NOW + 1}, True),
        ({"started_at": NOW - 50, "cgroup": "/job_2"}, True),
        ({"started_at": NOW - 50, "boot_id": "another"}, True),
        ({"started_at": NOW - 50, "parent_run_id": "outer"}, True),
    ],
    ids=["at the same time", "later", "in another group", "on another machine", "inside this run"],
)
def test_a_group_that_another_run_was_in_is_shared(
    make_run: RunBuilder, other_start: dict[str, object], own: bool
) -> None:
    mine = read_run(make_run("outer", start={"run_id": "outer", "cgroup": "/job_1"}))
    theirs = {"run_id": "other", "cgroup": "/job_1", **other_start}
    other = read_run(make_run("other", start=theirs, exit={"ended_at": NOW + 10}))
    assert owns_cgroup(mine, [mine, other]) is own


def test_kills_in_a_shared_group_are_a_note_and_no_vote(make_run: RunBuilder) -> None:
    start = {"cgroup": "/user.slice/user-1000.slice/session-3.scope", "cgroup_oom_kill": 0}
    run = read_run(make_run(start=start, exit={"cgroup_oom_kill": 1}))
    found = collect(run, Standing.ENDED, readable_logs(run))
    assert found.facts.oom_kills is None
    assert found.notes == ("while it ran a process was killed for memory in its control group, which others share",)


def test_kills_in_the_runs_own_group_are_a_vote(make_run: RunBuilder) -> None:
    run = read_run(make_run(start={"cgroup": "/job_1", "cgroup_oom_kill": 0}, exit={"cgroup_oom_kill": 1}))
    facts = collect(run, Standing.ENDED, readable_logs(run)).facts
    assert (facts.oom_kills, facts.evidence) == (1, ())


def test_what_is_collected_can_be_written_as_json(make_run: RunBuilder) -> None:
    run = read_run(make_run(cwd=b"/data/\xff", exit={"status": 137, "signal": 9}))
    found = json.loads(json.dumps(evidence_json(collect(run, Standing.ENDED, readable_logs(run)))))
    assert found["schema"] == 1
    assert (found["facts"]["status"], found["facts"]["signal"], found["facts"]["duration_s"]) == (137, 9, 100.0)
    assert found["logs"][0]["name"] == "output.log"


def test_a_run_on_another_host_says_that_the_machine_was_not_looked_at(make_run: RunBuilder) -> None:
    run = read_run(make_run(start={"host": "node99", "boot_id": "x"}))
    found = collect(run, Standing.ENDED, readable_logs(run))
    assert (found.host, found.gpus) == (None, None)
    assert "the machine: the run was on node99" in found.facts.not_read


@pytest.mark.parametrize(
    ("environ", "gpus", "allotted"),
    [
        ({"CUDA_VISIBLE_DEVICES": "0,1"}, None, True),
        ({"CUDA_VISIBLE_DEVICES": ""}, None, False),
        ({"CUDA_VISIBLE_DEVICES": "NoDevFiles"}, None, False),
        ({"SLURM_JOB_ID": "1", "SLURM_JOB_GPUS": "0"}, None, True),
        ({"SLURM_JOB_ID": "1"}, GpuSnapshot(gpus=(Gpu(0),)), False),
        ({}, GpuSnapshot(gpus=(Gpu(0),)), True),
    ],
)
def test_the_job_was_told_whether_it_has_a_gpu(
    environ: dict[str, str], gpus: GpuSnapshot | None, allotted: bool
) -> None:
    assert gpu_allotted(environ, gpus) is allotted


def test_processes_left_behind_are_known_by_their_run() -> None:
    environ = {**os.environ, "GPUALERT_RUN_ID": "run-of-this-test"}
    with subprocess.Popen(["sleep", "600"], env=environ) as process:
        assert processes_of("run-of-this-test") == [process.pid]
        process.kill()
    assert processes_of("run-of-this-test") == []


OOM_LINE = (
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/slurm/job_7,"
    "task_memcg={group},task=python,pid={pid},uid=1000"
)
XID_LINE = "NVRM: Xid (PCI:0000:65:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."


def start_of(**keys: object) -> Start:
    values = {"run_id": "r", "host": "node03", "pid": 4242, "pid_starttime": 1, "started_at": NOW, **keys}
    return Start(**values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "start", "ours"),
    [
        (OOM_LINE.format(group="/slurm/job_7/step_0", pid=9), start_of(cgroup="/slurm/job_7"), True),
        (OOM_LINE.format(group="/slurm/job_7", pid=9), start_of(cgroup="/slurm/job_7"), True),
        (OOM_LINE.format(group="/slurm/job_77", pid=9), start_of(cgroup="/slurm/job_7"), False),
        (OOM_LINE.format(group="/slurm/job_8", pid=9), start_of(cgroup="/"), False),
        (OOM_LINE.format(group="/x", pid=4242), start_of(), True),
        ("Out of memory: Killed process 4242 (python) total-vm:1kB", start_of(), True),
        ("Out of memory: Killed process 4242 (python) total-vm:1kB", start_of(pid_ns="4026532000"), False),
        ("Out of memory: Killed process 42420 (python) total-vm:1kB", start_of(), False),
        ("usb 1-1: new high-speed USB device", start_of(), False),
    ],
    ids=["below its group", "in its group", "a group with a like name", "in a container", "the job itself", "the job",
         "a number of another namespace", "another process", "chatter"],
)  # fmt: skip
def test_a_kill_in_the_kernels_log_counts_only_where_it_hit_the_run(text: str, start: Start, ours: bool) -> None:
    assert bool(about([KernelLine(NOW, text)], start, [])) is ours


@pytest.mark.parametrize(
    ("cards", "ours"), [(["00000000:65:00.0"], True), (["00000000:17:00.0"], False), ([], False), (None, True)]
)
def test_a_cards_trouble_counts_where_the_run_could_see_the_card(cards: list[str] | None, ours: bool) -> None:
    found = about([KernelLine(NOW, XID_LINE)], start_of(), cards)
    assert bool(found) is ours
    assert all((item.source, item.parameters["xid"]) == ("kernel", 79) for item in found)


def test_records_of_the_kernels_log_are_read_and_others_skipped() -> None:
    line = parse_record(b"4,1234,5000000,-;NVRM: x\xff\n SUBSYSTEM=pci\n", 100.0)
    assert line == KernelLine(105.0, "NVRM: x\ufffd")
    assert parse_record(b"no record", 0.0) is None and parse_record(b"", 0.0) is None


def test_the_kernels_log_is_read_or_the_reason_said() -> None:
    lines, trouble = read_kernel_log(0.0, time.time())
    assert trouble.startswith("the kernel's log: ") if not lines else all(line.at > 0 for line in lines)
