"""
A snapshot of GPUs and driver through NVIDIA's management library.

The library may hang or crash where a card is broken, which is just when we ask: another process does, for a bounded
time.  Run as a script it prints the snapshot as JSON; it imports nothing of ours.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

_LIMIT_S = 10.0
_MIB = 1 << 20


@dataclass(frozen=True)
class Gpu:
    """One card; None where the driver does not say."""

    index: int
    name: str | None = None
    uuid: str | None = None
    pci: str | None = None
    memory_used_mib: int | None = None
    memory_total_mib: int | None = None
    utilization_percent: int | None = None
    temperature_c: int | None = None
    power_w: float | None = None
    ecc_uncorrected: int | None = None
    remap_pending: bool | None = None


@dataclass(frozen=True)
class GpuSnapshot:
    """
    The cards of this host at one instant.

    Attributes:
        driver: Its version; "" where there is none.
        cuda: The CUDA version the driver supports, such as `12.4`; "" where it does not say.
        absent: Why there is no snapshot, in one sentence; "" when there is one.
        not_read: What a card did not tell, each with its reason.
    """

    driver: str = ""
    cuda: str = ""
    gpus: tuple[Gpu, ...] = ()
    absent: str = ""
    not_read: tuple[str, ...] = ()


def snapshot_gpus(limit_s: float = _LIMIT_S) -> GpuSnapshot:
    """Look at the cards; their absence, or a driver that hangs, is said in the snapshot and never an error."""
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return GpuSnapshot(absent="no NVIDIA driver on this host")
    command = [sys.executable, "-E", __file__]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        printed, _ = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        process.kill()  # and not waited for: a process that hangs in the driver cannot die
        return GpuSnapshot(absent=f"the NVIDIA driver did not answer within {limit_s:g} s")
    try:
        return _from_json(json.loads(printed))
    except (ValueError, TypeError, KeyError):
        return GpuSnapshot(absent=f"the NVIDIA driver's library ended its process with status {process.returncode}")


def _from_json(found: dict[str, Any]) -> GpuSnapshot:
    return GpuSnapshot(
        driver=found["driver"],
        cuda=found["cuda"],
        gpus=tuple(Gpu(**gpu) for gpu in found["gpus"]),
        absent=found["absent"],
        not_read=tuple(found["not_read"]),
    )


def read_nvml() -> GpuSnapshot:
    """Ask the library in this process."""
    import pynvml as nvml  # costs 25 ms

    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        return GpuSnapshot(absent=f"the NVIDIA driver cannot be asked: {error}")
    not_read: list[str] = []

    def ask(what: str, question: Callable[[], Any]) -> Any:
        try:
            return question()
        except nvml.NVMLError_NotSupported:
            return None  # a consumer card has no ECC; nothing is wrong
        except (nvml.NVMLError, UnicodeDecodeError) as error:
            not_read.append(f"{what}: {error}")
            return None

    version = ask("CUDA version", nvml.nvmlSystemGetCudaDriverVersion_v2)
    count = ask("number of GPUs", nvml.nvmlDeviceGetCount) or 0
    return GpuSnapshot(
        driver=ask("driver version", nvml.nvmlSystemGetDriverVersion) or "",
        cuda=f"{version // 1000}.{version % 1000 // 10}" if version else "",
        gpus=tuple(_gpu(nvml, index, ask) for index in range(count)),
        not_read=tuple(not_read),
    )


def _gpu(nvml: Any, index: int, ask: Callable[[str, Callable[[], Any]], Any]) -> Gpu:
    """Ask one card all there is; what it does not tell stays None."""
    card = ask(f"GPU {index}", lambda: nvml.nvmlDeviceGetHandleByIndex(index))
    if card is None:
        return Gpu(index)

    def value(what: str, function: Callable[..., Any], *arguments: Any) -> Any:
        return ask(f"GPU {index} {what}", lambda: function(card, *arguments))

    memory = value("memory", nvml.nvmlDeviceGetMemoryInfo)
    pci = value("PCI address", nvml.nvmlDeviceGetPciInfo)
    usage = value("utilization", nvml.nvmlDeviceGetUtilizationRates)
    power_mw = value("power", nvml.nvmlDeviceGetPowerUsage)
    remapped = value("remapped rows", nvml.nvmlDeviceGetRemappedRows)
    ecc = (nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC)
    return Gpu(
        index=index,
        name=value("name", nvml.nvmlDeviceGetName),
        uuid=value("UUID", nvml.nvmlDeviceGetUUID),
        pci=pci and pci.busId,
        memory_used_mib=memory and memory.used // _MIB,
        memory_total_mib=memory and memory.total // _MIB,
        utilization_percent=usage and usage.gpu,
        temperature_c=value("temperature", nvml.nvmlDeviceGetTemperature, nvml.NVML_TEMPERATURE_GPU),
        power_w=power_mw and power_mw / 1000,
        ecc_uncorrected=value("ECC errors", nvml.nvmlDeviceGetTotalEccErrors, *ecc),
        remap_pending=remapped and bool(remapped[2]),
    )


if __name__ == "__main__":
    print(json.dumps(asdict(read_nvml())))
