"""Gather what is known of a run beside its logs: the facts that vote on its verdict, and the machine's state."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpualert.errors import RunDirError
from gpualert.jsonfiles import plain
from gpualert.model import SCHEMA, Evidence, Facts, Run
from gpualert.rundir import read_run
from gpualert.scheduler import hear
from gpualert.settle import Logs
from gpualert.signals.cgroup import oom_kills, owns_cgroup
from gpualert.signals.epilog import read_epilog
from gpualert.signals.host import HostSnapshot, snapshot_host
from gpualert.signals.kernel import about, read_kernel_log
from gpualert.signals.nvml import Gpu, GpuSnapshot, snapshot_gpus
from gpualert.signals.process import this_machine
from gpualert.standing import Standing
from gpualert.state import run_paths, state_of

if TYPE_CHECKING:
    from gpualert.signals.slurm_facts import Said

# Source: Slurm, sbatch(1) "OUTPUT ENVIRONMENT VARIABLES" and gres.conf(5).
_SLURM_GPU_VARIABLES = ("SLURM_JOB_GPUS", "SLURM_STEP_GPUS", "SLURM_GPUS_ON_NODE", "SLURM_GPUS", "GPU_DEVICE_ORDINAL")
_MIB_IN_GIB = 1024


@dataclass(frozen=True)
class Collected:
    """
    What is known of a run.

    Attributes:
        facts: What votes on the verdict.
        notes: What may have played a part, and is no vote.
        logs: What can be read of its logs.
        host, gpus: The machine as it is now; None where the run was on another one.
        slurm: What Slurm says of the attempt; None where it was not asked, or does not know it.
    """

    facts: Facts
    logs: Logs
    host: HostSnapshot | None
    gpus: GpuSnapshot | None
    notes: tuple[str, ...] = ()
    slurm: Said | None = None


def collect(run: Run, standing: Standing, logs: Logs, environ: Mapping[str, str] | None = None) -> Collected:
    """
    Gather what is known of a run.

    Args:
        environ: The job's environment, which tells what was allotted; None where it is not known.
    """
    here = run.start is not None and run.start.host == this_machine().host
    host = snapshot_host([run.cwd, "/dev/shm"]) if here else None
    gpus = snapshot_gpus() if here else None
    kills, notes = _oom(run)
    said, mute = _kernel(run, here, gpus, environ)
    heard = hear(run, kills)
    not_read = [*logs.not_read, *(host.not_read if host else ()), *(gpus.not_read if gpus else ())]
    not_read += [*mute, *heard.not_read]
    if run.start and not here:
        not_read.append(f"the machine: the run was on {run.start.host or 'another host'}")
    facts = Facts(
        status=run.exit.status if run.exit else None,
        signal=run.exit.signal if run.exit else None,
        timed_out=bool(run.exit and run.exit.timed_out),
        oom_kills=kills,
        duration_s=duration_s(run),
        scheduler_state=heard.state,
        host=(run.start.node or run.start.host) if run.start else "",
        gpu_allotted=gpu_allotted(environ, gpus) if here and environ is not None else None,
        evidence=(*_ending(run, standing), *said, *heard.evidence),
        not_read=tuple(not_read),
    )
    return Collected(facts, logs, host, gpus, (*notes, *heard.notes), heard.said)


def duration_s(run: Run) -> float | None:
    """Return how long a run took; None where that is not known, or the clock was set back meanwhile."""
    if not run.start or not run.exit or run.exit.ended_at < run.start.started_at:
        return None
    return run.exit.ended_at - run.start.started_at


def gpu_allotted(environ: Mapping[str, str], gpus: GpuSnapshot | None) -> bool | None:
    """Say whether the job had a GPU to use, by what it was told and what is there; None where neither says."""
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        # Source: CUDA C++ Programming Guide, "CUDA environment variables"; Slurm sets NoDevFiles where there is none.
        return visible.strip() not in ("", "-1", "NoDevFiles")
    if environ.get("SLURM_JOB_ID"):
        return any(environ.get(name) for name in _SLURM_GPU_VARIABLES)
    if Path("/dev/nvidia0").exists() or (gpus and gpus.gpus):
        return True
    return False if gpus and gpus.absent else None


def _oom(run: Run) -> tuple[int | None, tuple[str, ...]]:
    """Return the kills in the run's own control group; those in a shared one are no more than a note."""
    kills = oom_kills(run)
    if not kills or owns_cgroup(run, runs_beside(run)):
        return kills, ()
    processes = "a process was" if kills == 1 else f"{kills} processes were"
    return None, (f"while it ran {processes} killed for memory in its control group, which others share",)


def _kernel(
    run: Run, here: bool, gpus: GpuSnapshot | None, environ: Mapping[str, str] | None
) -> tuple[tuple[Evidence, ...], tuple[str, ...]]:
    """
    Return what the kernel says of a run that did not end well, and why it could not be asked.

    Where it cannot be asked, what a site's epilog kept of a Slurm job says it.
    """
    if not run.start or (run.exit and run.exit.status == 0):
        return (), ()
    if here:
        lines, trouble = read_kernel_log(run.start.started_at, run.exit.ended_at if run.exit else time.time())
        if not trouble:
            return about(lines, run.start, _cards(gpus, environ)), ()
    kept, unread = read_epilog(run.start.slurm_job_id)
    told = about(kept, run.start, None)
    return told, () if told else tuple(filter(None, [trouble if here else "", unread]))


def _cards(gpus: GpuSnapshot | None, environ: Mapping[str, str] | None) -> list[str] | None:
    """Return the PCI addresses of the cards that the job could see; None where that is not known."""
    if not gpus or not gpus.gpus:
        return None
    told = ((environ or {}).get("CUDA_VISIBLE_DEVICES") or "").split(",")
    chosen = [gpu for gpu in gpus.gpus if str(gpu.index) in told or (gpu.uuid and gpu.uuid in told)]
    return [gpu.pci for gpu in chosen or gpus.gpus if gpu.pci]


def _ending(run: Run, standing: Standing) -> tuple[Evidence, ...]:
    """Say in words of our own, which the rules know, that the host went down under a run."""
    here = this_machine()
    if standing is not Standing.LOST or not run.start or run.start.host != here.host:
        return ()
    if not run.start.boot_id or not here.boot_id or run.start.boot_id == here.boot_id:
        return ()
    name = run.start.host.split(".")[0][:32]
    text = f"host {name} rebooted unexpectedly: it was started anew while the run was under way"
    return (Evidence("host", "", 0, text, host=name),)


def runs_beside(run: Run) -> Iterable[Run]:
    """Yield the other runs in the same state folder that can be read."""
    for path in run_paths([state_of(run.path)]):
        if path.name == run.path.name:
            continue
        try:
            yield read_run(path)
        except RunDirError:
            continue


def evidence_json(found: Collected) -> dict[str, Any]:
    """Return what `evidence.json` holds."""
    return {
        "schema": SCHEMA,
        "facts": plain(found.facts),
        "logs": plain(found.logs.files),
        "host": plain(found.host),
        "gpus": plain(found.gpus),
        "slurm": plain(found.slurm),
        "machine": machine_rows(found),
        "not_read": list(found.facts.not_read),
    }


def machine_rows(found: Collected) -> list[tuple[str, str]]:
    """Return the machine as pairs of label and value, for a message."""
    host, gpus = found.host, found.gpus
    rows = [("Slurm", found.slurm.row)] if found.slurm else []
    if host:
        rows.append(("System", f"{host.kernel}, {host.cpu_count} CPUs, load {host.load_1m}"))
        if host.memory_total_mib and host.memory_available_mib is not None:
            rows.append(("Memory", f"{_gib(host.memory_available_mib)} of {_gib(host.memory_total_mib)} free"))
        for disk in host.disks:
            inodes = "" if disk.free_inodes != 0 else ", no inodes left"
            rows.append(("Disk", f"{_gib(disk.free_mib)} of {_gib(disk.total_mib)} free{inodes}: {disk.path}"))
    if gpus and gpus.absent:
        rows.append(("GPUs", gpus.absent))
    elif gpus:
        rows.append(("NVIDIA driver", f"{gpus.driver}, CUDA {gpus.cuda or 'unknown'}, {len(gpus.gpus)} GPUs"))
        rows += [(f"GPU {gpu.index}", _gpu_text(gpu)) for gpu in gpus.gpus]
    return rows


def _gib(mib: int) -> str:
    return f"{mib / _MIB_IN_GIB:.1f} GiB"


def _gpu_text(gpu: Gpu) -> str:
    """Say in one line what a card told of itself."""
    parts = [gpu.name or "no name"]
    if gpu.memory_used_mib is not None and gpu.memory_total_mib:
        parts.append(f"{_gib(gpu.memory_used_mib)} of {_gib(gpu.memory_total_mib)} used")
    if gpu.temperature_c is not None:
        parts.append(f"{gpu.temperature_c} °C")
    if gpu.ecc_uncorrected:
        parts.append(f"{gpu.ecc_uncorrected} uncorrected ECC errors since the driver was loaded")
    if gpu.remap_pending:
        parts.append("a memory row waits to be remapped: reset the card")
    return ", ".join(parts)
