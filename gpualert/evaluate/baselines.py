"""What somebody would do without gpualert: search for words, read the last traceback, look at the exit status."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import ExitStack

from gpualert.evaluate.cases import Case
from gpualert.scan import open_log

_HEAD_BYTES, _TAIL_BYTES = 2 << 20, 2 << 20
_EXCEPTION = re.compile(r"^(?:[\w.]*\.)?([A-Z]\w*(?:Error|Exception|Interrupt|Exit|Warning))\b(?::\s?(.*))?$", re.M)

# In the order in which they are looked for; the first that occurs anywhere decides.
_WORDS = (
    ("cuda_oom", ("CUDA out of memory", "OutOfMemoryError", "RESOURCE_EXHAUSTED")),
    ("gpu_hardware", ("uncorrectable ECC", "fallen off the bus")),
    ("nccl", ("NCCL", "ncclSystemError", "Watchdog caught collective operation timeout")),
    ("oom_killer", ("oom-kill", "Out of memory: Killed process", "oom_kill")),
    ("segfault", ("Segmentation fault", "SIGSEGV", "core dumped")),
    ("ram_oom", ("MemoryError", "std::bad_alloc", "Cannot allocate memory")),
    ("walltime", ("DUE TO TIME LIMIT",)),
    ("preempted", ("PREEMPTION", "preempted")),
    ("disk_full", ("No space left on device",)),
    ("cuda_runtime", ("CUDA error", "cudaError", "device-side assert")),
    ("missing_module", ("ModuleNotFoundError", "No module named", "cannot open shared object file")),
    ("file_not_found", ("FileNotFoundError", "No such file or directory")),
    ("permission", ("PermissionError", "Permission denied")),
    ("div_zero", ("ZeroDivisionError", "division by zero")),
    ("device_mismatch", ("Expected all tensors to be on the same device",)),
    ("nan_loss", ("loss is nan", "loss: nan", "NaN")),
    ("network", ("ConnectionError", "Connection refused", "Temporary failure in name resolution")),
    ("assertion", ("AssertionError", "Assertion")),
    ("runtime_error", ("RuntimeError",)),
    ("traceback", ("Traceback",)),
)
_EXCEPTIONS: Mapping[str, str] = {
    "OutOfMemoryError": "cuda_oom",
    "MemoryError": "ram_oom",
    "FileNotFoundError": "file_not_found",
    "PermissionError": "permission",
    "ModuleNotFoundError": "missing_module",
    "ImportError": "missing_module",
    "ZeroDivisionError": "div_zero",
    "AssertionError": "assertion",
    "RuntimeError": "runtime_error",
    "DistBackendError": "nccl",
    "ConnectionError": "network",
    "TimeoutError": "network",
    "KeyboardInterrupt": "interrupted",
    "SyntaxError": "syntax_error",
    "ChildFailedError": "unknown",
}
# Source: bash(1), EXIT STATUS; timeout(1); signal(7).
_STATUSES: Mapping[int, str] = {
    0: "success",
    1: "traceback",
    2: "config_error",
    124: "hang",
    126: "command_not_found",
    127: "command_not_found",
    130: "interrupted",
    134: "segfault",
    135: "segfault",
    136: "segfault",
    137: "oom_killer",
    139: "segfault",
    143: "interrupted",
}


def keyword_search(case: Case) -> str:
    """Return the class of the first of a list of words that stands anywhere in the logs."""
    text = _text(case)
    found = next((name for name, words in _WORDS if any(word in text for word in words)), "")
    return found or ("success" if case.facts.status == 0 else "unknown")


def last_traceback(case: Case) -> str:
    """Return the class that the last exception's name says."""
    found = list(_EXCEPTION.finditer(_text(case)))
    if not found:
        return "success" if case.facts.status == 0 else "unknown"
    return _EXCEPTIONS.get(found[-1][1], "traceback")


def exit_status(case: Case) -> str:
    """Return the class that the exit status alone suggests."""
    return _STATUSES.get(case.facts.status, "unknown") if case.facts.status is not None else "unknown"


BASELINES: Mapping[str, Callable[[Case], str]] = {
    "keyword search": keyword_search,
    "last traceback": last_traceback,
    "exit status": exit_status,
}


def _text(case: Case) -> str:
    """Return the logs' text; of a long one the first and the last 2 MB."""
    pieces = []
    with ExitStack() as stack:
        for file in case.logs:
            log = open_log(file)
            for holder in log.holders:
                stack.callback(holder.close)
            middle = max(log.start, min(log.start + _HEAD_BYTES, log.end))
            spans = [(log.start, middle), (max(middle, log.end - _TAIL_BYTES), log.end)]
            pieces.append("".join(map(log.text, spans)))
    return "\n".join(pieces)
