"""
NVIDIA's Xid and SXid errors: what each code is, what to do, and whom it blames.

Source: https://docs.nvidia.com/deploy/xid-errors/ (codes, descriptions, actions); arXiv 2605.09370 (actions taken in
the operation of 504 GPUs).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

# Lines that belong to one incident of one GPU.
BURST_S = 180.0


class Blame(str, Enum):
    """What a code says about the node."""

    PROGRAM = "program"  # follows from the program: no node is blamed
    CONTAINED = "contained"  # hardware, but a restart on the same node will do
    NODE = "node"  # reset, reboot, replace
    NOTE = "note"  # says nothing by itself


@dataclass(frozen=True)
class Xid:
    """
    One code of the catalogue.

    Attributes:
        immediate, investigatory: NVIDIA's actions, in its own words; "" where it names none.
        operations: The action in the operations report, or "".
        decided: Which of the two decides here: `nvidia`, `operations` or `taxonomy`.
    """

    code: int
    mnemonic: str
    description: str
    immediate: str
    investigatory: str
    operations: str
    decided: str
    blame: Blame


@dataclass(frozen=True)
class Seen:
    """
    One Xid or SXid line.

    Attributes:
        gpu: The PCI address as printed, in lower case.
        link: The NVLink it names, or None.
        time_s: Its time stamp, or None.
        switch: It came from an NVSwitch (SXid).
    """

    code: int
    gpu: str
    pid: int | None
    process: str
    detail: str
    link: int | None = None
    fatal: bool = False
    switch: bool = False
    time_s: float | None = None


# code|mnemonic|description|immediate|investigatory
_CATALOGUE = """\
8|FIFO_ERROR_IDLE_TIMEOUT|GPU stopped processing|RESTART_APP|CONTACT_SUPPORT
11|GR_ERROR_MISSING_HW|Invalid or corrupted push buffer stream|RESTART_APP|CHECK_APP/CUDA
13|GR_EXCEPTION / GR_ERROR_SW_NOTIFY|Graphics Engine Exception|RESTART_APP|WORKFLOW_XID_13
25|GR_ILLEGAL_NOTIFY|Invalid or illegal push buffer stream|RESTART_APP|CHECK_APP/CUDA
31|FIFO_ERROR_MMU_ERR_FLT|GPU memory page fault|RESTART_APP|WORKFLOW_XID_31
32|PBDMA_ERROR|Invalid or corrupted push buffer stream|RESTART_APP|CHECK_APP/CUDA
37|FECS_ERR_UNIMP_FIRMWARE_METHOD|Driver firmware error|IGNORE|CHECK_APP/CUDA
38|FECS_ERR_WATCHDOG_TIMEOUT|Driver firmware error|IGNORE|CONTACT_SUPPORT
39|CE0_ERROR|Copy Engine Exception|RESTART_APP|CONTACT_SUPPORT
40|CE1_ERROR|Copy Engine Exception|RESTART_APP|CONTACT_SUPPORT
41|CE2_ERROR|Copy Engine Exception|RESTART_APP|CONTACT_SUPPORT
43|RESETCHANNEL_VERIF_ERROR|GPU stopped processing|IGNORE|CONTACT_SUPPORT
44|GR_FAULT_DURING_CTXSW|Graphics Engine fault during context switch|IGNORE|CONTACT_SUPPORT
45|PREEMPTIVE_REMOVAL|Preemptive cleanup, due to previous errors|WORKFLOW_XID_45|Solo: RESTART_FM Not Solo: IGNORE (follow other Xid)
46|GPU_TIMEOUT_ERROR|GPU stopped processing|RESET_GPU|CONTACT_SUPPORT
48|GPU_ECC_DBE|Double Bit ECC Error|WORKFLOW_XID_48|WORKFLOW_XID_48
54|SILENT_RUNNING_PWR_REDUCED_CLOCKING|Auxiliary power is not connected to the GPU board|CHECK_MECHANICALS|CONTACT_SUPPORT
60|SEC2_ERROR|Video processor exception|RESTART_APP|INVESTIGATE_SW
62|PMU_HALT_ERROR|Internal micro-controller halt (newer drivers)|RESET_GPU|CONTACT_SUPPORT
63|INFOROM_DRAM_RETIREMENT_EVENT|GPU memory remapping event|IGNORE|IGNORE
64|INFOROM_DRAM_RETIREMENT_FAILURE|GPU memory remapping failure|RESET_GPU|CONTACT_SUPPORT
66|FECS_ERR_REG_ACCESS_VIOLATION|Illegal access by driver|IGNORE|INVESTIGATE_SW
67|FECS_ERR_VERIF_VIOLATION|Illegal access by driver|IGNORE|CONTACT_SUPPORT
68|NVDEC0_ERROR|NVDEC0 Exception|RESTART_APP|CONTACT_SUPPORT
69|GR_CLASS_ERROR|Graphics Engine class error|RESTART_APP|CHECK_APP/CUDA
70|CE3_ERROR|CE3: Unknown Error|RESTART_APP|CONTACT_SUPPORT
71|CE4_ERROR|CE4: Unknown Error|RESTART_APP|CONTACT_SUPPORT
72|CE5_ERROR|CE5: Unknown Error|RESTART_APP|CONTACT_SUPPORT
74|NVLINK_ERROR|NVLINK Error|WORKFLOW_NVLINK_ERR|CONTACT_SUPPORT
75|CE6_ERROR|CE6: Unknown Error|RESTART_APP|CONTACT_SUPPORT
76|CE7_ERROR|CE7: Unknown Error|RESTART_APP|CONTACT_SUPPORT
77|CE8_ERROR|CE8: Unknown Error|RESTART_APP|CONTACT_SUPPORT
78|VGPU_START_ERROR|vGPU Start Error|UPDATE_SWFW|UPDATE_SWFW
79|GPU_HAS_FALLEN_OFF_THE_BUS|GPU has fallen off the bus|RESTART_BM|CONTACT_SUPPORT
80|PBDMA_PUSHBUFFER_CRC_MISMATCH|Corrupted data sent to GPU|RESTART_APP|CHECK_APP/CUDA
82|NVJPG0_ERROR|NVJPG0 Error|RESTART_APP|CONTACT_SUPPORT
83|NVDEC1_ERROR|NVDEC1 Error|RESTART_APP|CONTACT_SUPPORT
84|NVDEC2_ERROR|NVDEC2 Error|RESTART_APP|CONTACT_SUPPORT
85|CE9_ERROR|CE9: Unknown Error|RESTART_APP|CONTACT_SUPPORT
86|OFA0_ERROR|OFA Exception|RESTART_APP|CONTACT_SUPPORT
88|NVDEC3_ERROR|NVDEC3 Error|RESTART_APP|CONTACT_SUPPORT
89|NVDEC4_ERROR|NVDEC4 Error|RESTART_APP|CONTACT_SUPPORT
92|EXCESSIVE_SBE_INTERRUPTS|High single-bit ECC error rate|IGNORE|CONTACT_SUPPORT
93|INFOROM_ERASE_LIMIT_EXCEEDED|Non-fatal violation of provisioned InfoROM wear limit|IGNORE|CONTACT_SUPPORT
94|CONTAINED_ERROR|Contained memory error|RESTART_APP|IGNORE (sympathetic)
95|UNCONTAINED_ERROR|Uncontained memory error|RESET_GPU|IGNORE (sympathetic)
96|NVDEC5_ERROR|NVDEC5 Error|RESTART_APP|CONTACT_SUPPORT
97|NVDEC6_ERROR|NVDEC6 Error|RESTART_APP|CONTACT_SUPPORT
98|NVDEC7_ERROR|NVDEC7 Error|RESTART_APP|CONTACT_SUPPORT
99|NVJPG1_ERROR|NVJPG1 Error|RESTART_APP|CONTACT_SUPPORT
100|NVJPG2_ERROR|NVJPG2 Error|RESTART_APP|CONTACT_SUPPORT
101|NVJPG3_ERROR|NVJPG3 Error|RESTART_APP|CONTACT_SUPPORT
102|NVJPG4_ERROR|NVJPG4 Error|RESTART_APP|CONTACT_SUPPORT
103|NVJPG5_ERROR|NVJPG5 Error|RESTART_APP|CONTACT_SUPPORT
104|NVJPG6_ERROR|NVJPG6 Error|RESTART_APP|CONTACT_SUPPORT
105|NVJPG7_ERROR|NVJPG7 Error|RESTART_APP|CONTACT_SUPPORT
106|SMBPBI_TEST_MESSAGE|SMBPBI Test Message|IGNORE|IGNORE
107|SMBPBI_TEST_MESSAGE_SILENT|SMBPBI Test Message Silent|IGNORE|IGNORE
109|CTXSW_TIMEOUT_ERROR|Context Switch Timeout Error|RESET_GPU|CONTACT_SUPPORT
110|SEC_FAULT_ERROR|Security Fault Error|RESET_GPU|INVESTIGATE_SW
119|GSP_RPC_TIMEOUT|GSP RPC Timeout|RESET_GPU|INVESTIGATE_SW
120|GSP_ERROR|GSP Error|RESET_GPU|INVESTIGATE_SW
121|C2C_ERROR|C2C Error|IGNORE|CONTACT_SUPPORT
126|CE10_ERROR|CE10: Unknown Error|RESTART_APP|CONTACT_SUPPORT
127|CE11_ERROR|CE11: Unknown Error|RESTART_APP|CONTACT_SUPPORT
128|CE12_ERROR|CE12: Unknown Error|RESTART_APP|CONTACT_SUPPORT
129|CE13_ERROR|CE13: Unknown Error|RESTART_APP|CONTACT_SUPPORT
130|CE14_ERROR|CE14: Unknown Error|RESTART_APP|CONTACT_SUPPORT
131|CE15_ERROR|CE15: Unknown Error|RESTART_APP|CONTACT_SUPPORT
132|CE16_ERROR|CE16: Unknown Error|RESTART_APP|CONTACT_SUPPORT
133|CE17_ERROR|CE17: Unknown Error|RESTART_APP|CONTACT_SUPPORT
134|CE18_ERROR|CE18: Unknown Error|RESTART_APP|CONTACT_SUPPORT
135|CE19_ERROR|CE19: Unknown Error|RESTART_APP|CONTACT_SUPPORT
136|ALI_TRAINING_FAIL|Link Training Failed|RESET_GPU|INVESTIGATE_LINK_SI
137|NVLINK_PRIV_ERR|NVLink Privilege Error|IGNORE|XID_137_FLOW
139|OFA1_ERROR|OFA1 Error|RESTART_APP|CONTACT_SUPPORT
140|UNRECOVERABLE_ECC_ERROR_ESCAPE|ECC Unrecovered Error|RESET_GPU|CONTACT_SUPPORT
141|FAST_PATH_ERROR|CUDA Fast Path Error|IGNORE|CONTACT_SUPPORT
142|NVENC3_ERROR|NVENC3 Error|CONTACT_SUPPORT|
143|GPU_INIT_ERROR|GPU Initialization Error|RESET_GPU|CONTACT_SUPPORT
144|NVLINK_SAW_ERROR|NVLINK: SAW Error|WORKFLOW_NVLINK5_ERR|WORKFLOW_NVLINK5_ERR
145|NVLINK_RLW_ERROR|NVLINK: RLW Error|WORKFLOW_NVLINK5_ERR|WORKFLOW_NVLINK5_ERR
146|NVLINK_TLW_ERROR|NVLINK: TLW Error|WORKFLOW_NVLINK5_ERR|WORKFLOW_NVLINK5_ERR
147|NVLINK_TREX_ERROR|NVLINK: TREX Error|WORKFLOW_NVLINK5_ERR|WORKFLOW_NVLINK5_ERR
148|NVLINK_NVLPW_CTRL_ERROR|NVLINK: NVLPW_CTRL Error|WORKFLOW_NVLINK5_ERR|WORKFLOW_NVLINK5_ERR
149|NVLINK_NETIR_ERROR|NVLINK: NETIR Error|WORKFLOW_NVLINK5_ERR|WORKFLOW_NVLINK5_ERR
150|NVLINK_MSE_ERROR|NVLINK: MSE Error|WORKFLOW_NVLINK5_ERR|WORKFLOW_NVLINK5_ERR
151|KEY_ROTATION_ERROR|Key rotation Error|RESTART_VM|CONTACT_SUPPORT
152|DLA_SMMU_ERROR|DLA SMMU Error|IGNORE|CONTACT_SUPPORT
153|DLA_TIMEOUT|DLA timeout Error|IGNORE|CONTACT_SUPPORT
154|GPU_RECOVERY_ACTION_CHANGED|GPU Recovery Action Changed|XID_154|N/A Informational only regarding another Xid
155|NVLINK_SW_DEFINED_ERROR|NVLINK: SW Defined Error|RESET_GPU|INVESTIGATE_SW_USER
156|RESOURCE_RETIREMENT_EVENT|Resource Retirement Event|RESET_GPU|IGNORE
157|RESOURCE_RETIREMENT_FAILURE|Resource Retirement Failure|IGNORE|CONTACT_SUPPORT
158|GPU_FATAL_TIMEOUT|GPU Fatal Timeout|RESET_GPU|CONTACT_SUPPORT
159|CHI_NON_DATA_ERROR|CHI Non-Data Error|CHECK_UVM|SYMPATHETIC_REPORT_SOLO
160|CHANNEL_RETIREMENT_EVENT|Channel Retirement Event|IGNORE|INVESTIGATE_SW
161|CHANNEL_RETIREMENT_FAILURE|Channel Retirement Failure|IGNORE|INVESTIGATE_SW
162|PSHC_REENGAGED|Power Smoothing HW Circuitry capability reengaged||
163|PSHC_DISENGAGED|Power Smoothing HW Circuitry capability disengaged||
164|PSHC_LOW_LIFETIME|Power Smoothing HW Circuitry low lifetime reached||
165|PSHC_ZERO_LIFETIME|Power Smoothing HW Circuitry lifetime exhausted||
166|NVLINK_SECURE_CRYPTO_ERR|CC traffic seen prior to link properly being configured for encrypted traffic||
167|PCIE_FATAL_TIMEOUT|PCIE_FATAL_TIMEOUT||
168|REDUCED_GPU_MEMORY_CAPACITY|Errors found in WPR (write protected region)||
169|SEC2_HALT_ERROR|Internal micro-controller halt||
170|NVLINK_SECURE_OTHER|Interrupt seen in CC mode||
171|UNCORRECTABLE_DRAM_ERROR|Additional to Xid 48 providing more details on particulars of fault to differentiate DRAM/SRAM||
172|UNCORRECTABLE_SRAM_ERROR|Additional to Xid 48 providing more details on particulars of fault to differentiate DRAM/SRAM||
"""  # noqa: E501
# In the catalogue, but without a description: 1-7, 9-10, 12, 14-24, 26-30, 33-36, 42, 47, 49-53, 55-59, 61, 65, 73,
# 81, 87, 90-91, 108, 111-118, 122-125, 138.

_OPERATIONS = {31: "RESTART_APP", 43: "RESTART_APP", 94: "RESTART_APP", 119: "RESET_GPU", 145: "RESET_GPU",
               149: "RESET_GPU", 79: "RESTART_BM, replace on repetition"}  # fmt: skip
_OF_THE_PROGRAM = frozenset((13, 31, 32, 43, 45, 68, 69))
_OF_THE_NODE = frozenset(("RESET_GPU", "RESTART_BM", "CHECK_MECHANICALS", "WORKFLOW_XID_48", "WORKFLOW_NVLINK_ERR",
                          "WORKFLOW_NVLINK5_ERR"))  # fmt: skip
# Newer codes for which the catalogue names no action yet, but whose description is a fault of the hardware.
_OF_THE_NODE_BY_DESCRIPTION = frozenset((167, 168, 169, 171, 172))

_LINE = re.compile(
    r"\b(?P<switch>S?)Xid \((?:PCI:)?(?P<gpu>[0-9a-fA-F:.]{4,20})\): (?P<code>\d{1,6})(?:, (?P<rest>.{0,600}))?"
)
_PID = re.compile(r"pid=(?:'?<?unknown>?'?|(\d{1,9})),? ?")
_PROCESS = re.compile(r"name=([^,]{0,80}),? ?")
_LINK = re.compile(r"\b[Ll]ink (-?\d{1,3})\b")


@lru_cache(maxsize=1)
def catalogue() -> dict[int, Xid]:
    """Return the described codes."""
    rows = (line.split("|") for line in _CATALOGUE.splitlines())
    return {int(code): _entry(int(code), *rest) for code, *rest in rows}


def explain(code: int) -> Xid | None:
    """Return what a code means, or None for one that the catalogue does not describe."""
    return catalogue().get(code)


def _entry(code: int, mnemonic: str, description: str, immediate: str, investigatory: str) -> Xid:
    operations = _OPERATIONS.get(code, "")
    blame, decided = _blame(code, immediate, operations)
    return Xid(code, mnemonic, description, immediate, investigatory, operations, decided, blame)


def _blame(code: int, immediate: str, operations: str) -> tuple[Blame, str]:
    if code in _OF_THE_PROGRAM:
        return Blame.PROGRAM, "operations" if operations and operations != immediate else "taxonomy"
    if code == 94:
        return Blame.CONTAINED, "operations"
    if immediate in _OF_THE_NODE or code in _OF_THE_NODE_BY_DESCRIPTION:
        return Blame.NODE, "operations" if operations else "nvidia"
    return (Blame.PROGRAM, "nvidia") if immediate == "RESTART_APP" else (Blame.NOTE, "nvidia")


def read_xid(text: str, time_s: float | None = None) -> Seen | None:
    """Return the Xid or SXid of a kernel line, whatever comes before it; None when there is none."""
    found = _LINE.search(text)
    if not found:
        return None
    rest = found["rest"] or ""
    pid, process, link = _PID.search(rest), _PROCESS.search(rest), _LINK.search(rest)
    detail = _PROCESS.sub("", _PID.sub("", rest, count=1), count=1).strip()
    return Seen(
        code=int(found["code"]),
        gpu=found["gpu"].lower(),
        pid=int(pid[1]) if pid and pid[1] else None,
        process=process[1].strip("'<> ") if process else "",
        detail=detail,
        link=int(link[1]) if link else None,
        fatal=bool(re.search(r"\bFatal\b", rest)),
        switch=bool(found["switch"]),
        time_s=time_s,
    )


def bursts(seen: Iterable[Seen]) -> tuple[tuple[Seen, ...], ...]:
    """Group lines of one GPU that follow each other within three minutes; those without a time stay together."""
    groups: list[list[Seen]] = []
    open_of: dict[str, list[Seen]] = {}
    for item in seen:
        group = open_of.get(item.gpu)
        if group and not _apart(group[-1], item):
            group.append(item)
        else:
            open_of[item.gpu] = [item]
            groups.append(open_of[item.gpu])
    return tuple(map(tuple, groups))


def _apart(one: Seen, other: Seen) -> bool:
    return one.time_s is not None and other.time_s is not None and abs(other.time_s - one.time_s) > BURST_S


def notes(lines: Iterable[tuple[str, float | None]]) -> tuple[str, ...]:
    """
    Say of each burst of Xids what they mean, what to do by whom, and which decided.

    Args:
        lines: Lines that may hold an Xid, each with its time, in their order.
    """
    seen = [item for text, time_s in lines if (item := read_xid(text, time_s))]
    return tuple(text for burst in bursts(seen) for text in dict.fromkeys(_note(item, burst) for item in burst) if text)


def _note(item: Seen, burst: Sequence[Seen]) -> str:
    """Return the note on one code of a burst; "" for one that the catalogue does not describe."""
    entry = None if item.switch else explain(item.code)
    if not entry:
        return ""
    times = sum(other.code == item.code for other in burst)
    words = f"Xid {entry.code} ({entry.description}) on GPU {item.gpu}" + (f", {times} times" if times > 1 else "")
    actions = [f"NVIDIA: {', then '.join(filter(None, (entry.immediate, entry.investigatory)))}"]
    if entry.operations:
        actions.append(f"operations report: {entry.operations}")
    return f"{words}: {'; '.join(actions)}; decided by {entry.decided}"
