"""Cards that are broken, and drivers that do not give one: by the program's log, and by the kernel's."""

from __future__ import annotations

from corpus.make.chatter import interleaved, prefixed, training
from corpus.make.recipes.reconstructed_base import (
    labelled,
    of_rank,
    srun_ends,
    steps,
    told,
    torchrun_ends,
    trace,
    watchdog,
)

_XID = "https://docs.nvidia.com/deploy/xid-errors/"
_TYPES = "https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html"
_HINTS = """\
CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be \
incorrect.
For debugging consider passing CUDA_LAUNCH_BLOCKING=1
Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.
"""


def _kernel(text: str, host: str = "node01") -> dict[str, object]:
    """Return the facts of a run on whose node the kernel has said something about a card."""
    return {"gpu_allotted": True, "evidence": [{"source": "kernel", "host": host, "text": text}]}


_ALLOTTED = {"gpu_allotted": True}

HARDWARE = [
    told(
        "gpu_hardware/memory_error_on_rank_3",
        "Rank 3 of 8 meets an uncorrectable error of its memory; the others wait for it until they time out.",
        "https://github.com/hiyouga/LlamaFactory/issues/2341",
        "[rank3]: RuntimeError: CUDA error: uncorrectable ECC error encountered",
        interleaved([prefixed(training(150, 7500 + rank, style=0), "torchrun", rank) for rank in range(8)], seed=7501),
        labelled(
            "[default3]:",
            of_rank(
                3,
                trace(
                    "RuntimeError: CUDA error: uncorrectable ECC error encountered\n" + _HINTS,
                    "train.py|133|<module>|main()",
                    "train.py|119|main|torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
                ),
            ),
        ),
        *(labelled(f"[default{rank}]:", watchdog(rank, 2231)) for rank in (0, 1, 2)),
        torchrun_ends(3, 8),
        command="torchrun --nproc-per-node 8 train.py",
        facts=_kernel(
            "NVRM: Xid (PCI:0000:84:00): 48, pid=4711, name=python, An uncorrectable double bit error (DBE) has"
            " been detected on GPU in the framebuffer at partition 2, subpartition 1."
        ),
        first_rank=3,
        evidence_alt=("NVRM: Xid (PCI:0000:84:00): 48",),
    ),
    told(
        "gpu_hardware/fallen_off_the_bus",
        "The program only sees an unknown error; the kernel says that the card has fallen off the bus.",
        _XID,
        "NVRM: Xid (PCI:0000:44:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
        steps(1100, seed=7510, style=2),
        trace(
            "RuntimeError: CUDA error: unknown error\n" + _HINTS,
            "train.py|98|<module>|main()",
            "train.py|77|main|meter.update(loss.item(), images.size(0))",
        ),
        facts=_kernel("NVRM: Xid (PCI:0000:44:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."),
        evidence_alt=("RuntimeError: CUDA error: unknown error",),
    ),
    told(
        "gpu_hardware/contained_memory_error",
        "Xid 94: the error is contained to the program, which may be started again on the same card.",
        _XID,
        "NVRM: Xid (PCI:0000:9b:00): 94, pid=4711, name=python, Ch 00000010, Contained: SM (0x1). RST: No, D-RST: No",
        steps(70, seed=7520, style=3),
        trace(
            "torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered\nSearch for"
            " `cudaErrorECCUncorrectable' in"
            " https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html for more information.\n" + _HINTS,
            "train.py|98|<module>|main()",
            "train.py|77|main|scaler.step(optimizer)",
        ),
        facts=_kernel(
            "NVRM: Xid (PCI:0000:9b:00): 94, pid=4711, name=python, Ch 00000010, Contained: SM (0x1)."
            " RST: No, D-RST: No"
        ),
        action="retry",
        evidence_alt=("torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered",),
    ),
    told(
        "gpu_hardware/link_between_cards",
        "Task 7 of 8 reports an uncorrectable error of NVLink.",
        _TYPES,
        "7: RuntimeError: CUDA error: uncorrectable NVLink error detected during the execution",
        interleaved([prefixed(training(170, 7530 + rank, style=1), "srun", rank) for rank in range(8)], seed=7531),
        labelled(
            "7: ",
            trace(
                "RuntimeError: CUDA error: uncorrectable NVLink error detected during the execution\n" + _HINTS,
                "pretrain.py|201|<module>|main()",
                "megatron/core/tensor_parallel/mappings.py|24|_reduce|torch.distributed.all_reduce(input_)",
            ),
        ),
        srun_ends(7),
        command="srun -l python pretrain.py",
        framework="megatron",
        facts=_ALLOTTED,
        first_rank=7,
    ),
    told(
        "gpu_hardware/reported_by_a_macro_in_c",
        "A program in C++ prints number and name of the error.",
        "https://github.com/NVIDIA/cuda-samples/blob/master/Common/helper_cuda.h",
        "code=214(cudaErrorECCUncorrectable)",
        """\
lattice 64x64x64x128, beta = 6.20
trajectory 1: accepted, dH = 0.0132
trajectory 2: accepted, dH = -0.0071
CUDA error at dslash.cu:388 code=214(cudaErrorECCUncorrectable) "cudaStreamSynchronize(stream)"
""",
        command="./hmc run.xml",
        framework="c++",
        facts=_ALLOTTED,
    ),
    told(
        "gpu_hardware/found_lost_before_the_job",
        "The job script asks nvidia-smi first, which says that a card is lost.",
        "https://docs.nvidia.com/deploy/nvidia-smi/index.html",
        "Unable to determine the device handle for GPU2: 0000:85:00.0: GPU is lost.  Reboot the system to recover"
        " this GPU",
        """\
+ nvidia-smi -L
GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-6d1c0d5e-0000-4a4b-9c55-000000000000)
GPU 1: NVIDIA A100-SXM4-80GB (UUID: GPU-6d1c0d5e-0000-4a4b-9c55-000000000001)
Unable to determine the device handle for GPU2: 0000:85:00.0: GPU is lost.  Reboot the system to recover this GPU
""",
        command="bash -ex job.sh",
        framework="bash",
        status=15,
        facts=_ALLOTTED,
    ),
    told(
        "gpu_hardware/link_error_behind_timeouts",
        "All that the log shows is time-outs of NCCL; the kernel of the second node tells of a link that failed.",
        _XID,
        "NVRM: Xid (PCI:0000:1b:00): 74, pid=8820, name=python, NVLink: fatal error detected on link 6",
        steps(1180, seed=7560, style=4),
        *(watchdog(rank, 917) for rank in (8, 9, 0, 1)),
        srun_ends(8, status=134),
        command="srun python pretrain.py",
        framework="megatron",
        facts=_kernel(
            "NVRM: Xid (PCI:0000:1b:00): 74, pid=8820, name=python, NVLink: fatal error detected on"
            " link 6(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)",
            "node02",
        ),
        class_alt=("nccl",),
    ),
    told(
        "gpu_hardware/jax_sees_a_memory_error",
        "XLA cannot synchronise a stream: the memory of the card has an error.",
        "https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TYPES.html",
        "CUDA_ERROR_ECC_UNCORRECTABLE: uncorrectable ECC error encountered",
        """\
I0314 18:20:44.100 train.py:61] step 8800 loss 2.113
I0314 18:21:31.871 train.py:61] step 8900 loss 2.108
""",
        trace(
            "jaxlib.xla_extension.XlaRuntimeError: INTERNAL: Failed to synchronize GPU stream:"
            " CUDA_ERROR_ECC_UNCORRECTABLE: uncorrectable ECC error encountered",
            "train.py|59|<module>|loss = float(metrics['loss'])",
        ),
        framework="jax",
        facts=_ALLOTTED,
    ),
]

DRIVER = [
    told(
        "cuda_driver/too_old_for_pytorch",
        "The wheel wants a newer driver than the node has; no retry changes that.",
        "https://github.com/pytorch/pytorch/blob/main/torch/csrc/cuda/Module.cpp",
        "RuntimeError: The NVIDIA driver on your system is too old (found version 11040).",
        "Loading config from configs/base.yaml",
        trace(
            "RuntimeError: The NVIDIA driver on your system is too old (found version 11040). Please update your"
            " GPU driver by downloading and installing a new version from the URL:"
            " http://www.nvidia.com/Download/index.aspx Alternatively, go to: https://pytorch.org to install a"
            " PyTorch version that has been compiled with your version of the CUDA driver.",
            "train.py|31|<module>|model.cuda()",
            "torch/cuda/__init__.py|372|_lazy_init|torch._C._cuda_init()",
        ),
        action="fix",
        facts=_ALLOTTED,
    ),
    told(
        "cuda_driver/two_versions_of_it",
        "The driver was updated under a running kernel module: error 803.",
        "https://github.com/NVIDIA/nvidia-docker/issues/1256",
        "Error 803: system has unsupported display driver / cuda driver combination",
        trace(
            "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before"
            " calling NumCudaDevices() that might have already set an error? Error 803: system has unsupported"
            " display driver / cuda driver combination",
            "train.py|18|<module>|torch.cuda.set_device(local_rank)",
            "torch/cuda/__init__.py|529|set_device|torch._C._cuda_setDevice(device)",
        ),
        facts=_ALLOTTED,
    ),
    told(
        "cuda_driver/insufficient_for_the_runtime",
        "A simulation is linked against a newer CUDA than the driver of the cluster.",
        _TYPES,
        "CUDA driver version is insufficient for CUDA runtime version",
        """\
GROMACS:      gmx mdrun, version 2024.2
Command line:
  gmx mdrun -deffnm md_0_1 -nb gpu

-------------------------------------------------------
Program:     gmx mdrun, version 2024.2
Source file: src/gromacs/hardware/detecthardware.cpp (line 281)

Fatal error:
CUDA driver version is insufficient for CUDA runtime version

For more information and tips for troubleshooting, please check the GROMACS
website at https://manual.gromacs.org/current/user-guide/run-time-errors.html
-------------------------------------------------------
""",
        command="gmx mdrun -deffnm md_0_1 -nb gpu",
        framework="gromacs",
        action="fix",
        facts=_ALLOTTED,
    ),
    told(
        "cuda_driver/second_node_sees_no_device",
        "Ranks of the second node find no device, though they were given some; rank 4 says so first.",
        _TYPES,
        "4: RuntimeError: CUDA error: no CUDA-capable device is detected",
        labelled("0: ", "world size 8\nwaiting for all ranks"),
        labelled(
            "4: ",
            trace(
                "RuntimeError: CUDA error: no CUDA-capable device is detected\n" + _HINTS,
                "train.py|25|<module>|torch.cuda.set_device(int(os.environ['SLURM_LOCALID']))",
                "torch/cuda/__init__.py|529|set_device|torch._C._cuda_setDevice(device)",
            ),
        ),
        srun_ends(4),
        command="srun -l python train.py",
        facts=_ALLOTTED,
        first_rank=4,
    ),
    told(
        "cuda_driver/held_by_somebody_exclusively",
        "The card is in exclusive mode, and a process of an earlier job still holds it.",
        _TYPES,
        "RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable",
        "device: cuda:0",
        trace(
            "RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable\n" + _HINTS,
            "train.py|40|<module>|model = build().to(device)",
            "torch/nn/modules/module.py|1329|convert|return t.to(",
        ),
        facts=_ALLOTTED,
    ),
    told(
        "cuda_driver/fabric_manager_not_up",
        "On a machine with NVSwitch the fabric manager does not run: error 802.",
        "https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/index.html",
        "RuntimeError: Unexpected error from cudaGetDeviceCount().",
        "/opt/venv/lib/python3.11/site-packages/torch/cuda/__init__.py:129: UserWarning: CUDA initialization:"
        " Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling"
        " NumCudaDevices() that might have already set an error? Error 802: system not yet initialized (Triggered"
        " internally at ../c10/cuda/CUDAFunctions.cpp:108.)",
        "  return torch._C._cuda_getDeviceCount() > 0",
        trace(
            "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before"
            " calling NumCudaDevices() that might have already set an error? Error 802: system not yet initialized",
            "train.py|12|<module>|torch.zeros(1, device='cuda')",
            "torch/cuda/__init__.py|319|_lazy_init|torch._C._cuda_init()",
        ),
        facts=_ALLOTTED,
        evidence_alt=("UserWarning: CUDA initialization: Unexpected error from cudaGetDeviceCount().",),
    ),
    told(
        "cuda_driver/nvidia_smi_in_the_job_script",
        "The job script ends where nvidia-smi cannot talk to the driver.",
        "https://github.com/intel/llvm/issues/17614",
        "Failed to initialize NVML: Driver/library version mismatch",
        "== job 48211 on node01 ==\n+ nvidia-smi\nFailed to initialize NVML: Driver/library version"
        " mismatch\nNVML library version: 550.144",
        command="bash -ex job.sh",
        framework="bash",
        status=18,
        facts=_ALLOTTED,
    ),
    told(
        "cuda_driver/tensorflow_has_to_do_without",
        "TensorFlow finds no device, warns, and the program does not accept that.",
        "https://github.com/tensorflow/tensorflow/blob/v2.14.0/tensorflow/compiler/xla/stream_executor/cuda/cuda_driver.cc",
        "failed call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected",
        """\
2026-03-14 09:12:08.330177: E tensorflow/compiler/xla/stream_executor/cuda/cuda_driver.cc:266] failed call to \
cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected
2026-03-14 09:12:08.330215: I tensorflow/compiler/xla/stream_executor/cuda/cuda_diagnostics.cc:168] retrieving CUDA \
diagnostic information for host: node01
2026-03-14 09:12:08.330402: I tensorflow/compiler/xla/stream_executor/cuda/cuda_diagnostics.cc:309] kernel version \
seems to match DSO: 535.104.5
""",
        trace(
            "RuntimeError: this training needs 4 GPUs, TensorFlow sees 0",
            "fit.py|14|<module>|strategy = mirrored(gpus=4)",
            "fit.py|9|mirrored|raise RuntimeError(f'this training needs {gpus} GPUs, TensorFlow sees {found}')",
        ).replace("/opt/venv/lib/python3.11/site-packages/", ""),
        command="python fit.py",
        framework="tensorflow",
        facts=_ALLOTTED,
        evidence_alt=("RuntimeError: this training needs 4 GPUs, TensorFlow sees 0",),
        class_alt=("runtime_error",),
    ),
]

RECIPES = [*HARDWARE, *DRIVER]
