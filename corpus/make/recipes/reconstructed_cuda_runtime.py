"""Errors of CUDA at run time, as frameworks and programs in C++ report them."""

from __future__ import annotations

from corpus.make.chatter import interleaved, prefixed, progress, training
from corpus.make.recipes.reconstructed_base import (
    deepspeed_ends,
    labelled,
    mpirun_ends,
    of_rank,
    srun_ends,
    steps,
    told,
    torchrun_ends,
    trace,
    watchdog,
)

_TYPES = "https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html"
_HINTS = """\
CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be \
incorrect.
For debugging consider passing CUDA_LAUNCH_BLOCKING=1
Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.
"""
_SELECT = (
    "../aten/src/ATen/native/cuda/Indexing.cu:1284: indexSelectLargeIndex: block: [{block},0,0], thread:"
    " [{thread},0,0]"
    " Assertion `srcIndex < srcSelectDimSize` failed."
)
_FRAMES = """\
Exception raised from c10_cuda_check_implementation at /pytorch/c10/cuda/CUDAException.cpp:43 (most recent call \
first):
frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x96 (0x7f24a7b6c1b6 in \
/opt/venv/lib/python3.11/site-packages/torch/lib/libc10.so)
frame #1: c10::detail::torchCheckFail(char const*, char const*, unsigned int, std::string const&) + 0x64 \
(0x7f24a7b15a76 in /opt/venv/lib/python3.11/site-packages/torch/lib/libc10.so)
frame #2: c10::cuda::c10_cuda_check_implementation(int, char const*, char const*, int, bool) + 0x118 \
(0x7f24a7fd7918 in /opt/venv/lib/python3.11/site-packages/torch/lib/libc10_cuda.so)
frame #3: c10d::ProcessGroupNCCL::WorkNCCL::finishedGPUExecutionInternal() const + 0x56 (0x7f2458b29556 in \
/opt/venv/lib/python3.11/site-packages/torch/lib/libtorch_cuda.so)
"""


def _asserts(blocks: int) -> list[str]:
    """Return what the threads of several blocks say when an index is out of range."""
    return [_SELECT.format(block=block, thread=thread) for block in range(blocks) for thread in range(32)]


def _residuals(rank: int) -> list[str]:
    """Return what a task of the simulation prints."""
    return [f"t={n * 0.01:.2f} residual {9.1 / (n + rank + 1):.5e}" for n in range(160)]


RECIPES = [
    told(
        "cuda_runtime/illegal_access_on_rank_2",
        "Rank 2 of 4 reads where it must not; its watchdog sees it too and aborts the process.",
        "https://github.com/InternLM/lmdeploy/issues/3258 and the CUDA run-time API",
        "[rank2]: torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
        interleaved([prefixed(training(280, 7300 + rank, style=0), "torchrun", rank) for rank in range(4)], seed=7301),
        labelled(
            "[default2]:",
            of_rank(
                2,
                trace(
                    "torch.AcceleratorError: CUDA error: an illegal memory access was encountered\nSearch for"
                    " `cudaErrorIllegalAddress' in"
                    " https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html for more"
                    " information.\n" + _HINTS,
                    "train.py|140|<module>|main()",
                    "train.py|117|main|running += loss.item()",
                ),
            )
            + "\n[rank2]:[E314 10:02:10.118204517 ProcessGroupNCCL.cpp:2068] [PG ID 0 PG GUID 0(default_pg) Rank"
            " 2] Process group watchdog thread terminated with exception: CUDA error: an illegal memory access"
            " was encountered\n" + _HINTS + "\n" + _FRAMES,
        ),
        torchrun_ends(2, 4, status=-6),
        command="torchrun --nproc-per-node 4 train.py",
        first_rank=2,
        evidence_alt=("Process group watchdog thread terminated with exception: CUDA error: an illegal memory access",),
    ),
    told(
        "cuda_runtime/token_beyond_the_embedding",
        "A token is larger than the embedding: hundreds of threads say so before Python does.",
        "https://github.com/huggingface/trl/issues/1995",
        "RuntimeError: CUDA error: device-side assert triggered",
        steps(60, seed=7310, style=2),
        _asserts(6),
        trace(
            "RuntimeError: CUDA error: device-side assert triggered\n" + _HINTS,
            "sft.py|88|<module>|trainer.train()",
            "transformers/trainer.py|3698|compute_loss|outputs = model(**inputs)",
            "transformers/models/qwen2/modeling_qwen2.py|562|forward|attention_mask = self._update_causal_mask(",
        ),
        command="python sft.py --model base",
        framework="transformers",
        action="fix",  # a value of the data is out of range, and stays so
        evidence_alt=(_SELECT.format(block=0, thread=0),),
    ),
    told(
        "cuda_runtime/label_beyond_the_classes",
        "A label is as large as the number of classes; the message of the kernel hangs on a progress bar.",
        "https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/native/cuda/Loss.cu",
        "RuntimeError: CUDA error: device-side assert triggered",
        "".join(progress(180, seed=7320))
        + "../aten/src/ATen/native/cuda/Loss.cu:250: nll_loss_forward_reduce_cuda_kernel_2d: block: [0,0,0],"
        " thread: [11,0,0] Assertion `t >= 0 && t < n_classes` failed.\n",
        trace(
            "RuntimeError: CUDA error: device-side assert triggered\n" + _HINTS,
            "segment.py|203|<module>|fit(args)",
            "segment.py|150|fit|loss.backward()",
            "torch/_tensor.py|522|backward|torch.autograd.backward(",
        ),
        command="python segment.py --classes 19",
        action="fix",  # a value of the data is out of range, and stays so
        evidence_alt=("Assertion `t >= 0 && t < n_classes` failed.",),
    ),
    told(
        "cuda_runtime/jax_kernel_reads_beyond",
        "A kernel of JAX reads beyond its buffer; every later call fails too.",
        "https://github.com/jax-ml/jax/issues/28710",
        "XlaRuntimeError: INTERNAL: CUDA error: : CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered",
        steps(1120, seed=7330, style=1),
        """\
E0314 12:27:46.512311  201177 cuda_executor.cc:1069] [0] Failed to synchronize: CUDA_ERROR_ILLEGAL_ADDRESS: an \
illegal memory access was encountered
E0314 12:27:46.512388  201177 pjrt_stream_executor_client.cc:3077] Execution of replica 0 failed: INTERNAL: CUDA \
error: : CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered
""",
        trace(
            "jaxlib._jax.XlaRuntimeError: INTERNAL: CUDA error: : CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory"
            " access was encountered",
            "gnn.py|311|<module>|run(config)",
            "gnn.py|266|run|loss.block_until_ready()",
        ),
        "2026-03-14 12:27:46.900145: E external/xla/xla/stream_executor/cuda/cuda_event.cc:38] INTERNAL: Error"
        " polling for event status: failed to query event: CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access"
        " was encountered",
        framework="jax",
        command="python gnn.py",
        evidence_alt=(
            "[0] Failed to synchronize: CUDA_ERROR_ILLEGAL_ADDRESS",
            "Execution of replica 0 failed: INTERNAL: CUDA error",
        ),
    ),
    told(
        "cuda_runtime/tensorflow_launch_failure",
        "A kernel of TensorFlow ends with an unspecified launch failure, which the framework answers with abort().",
        "https://github.com/tensorflow/tensorflow/blob/master/third_party/xla/xla/stream_executor/cuda/cuda_event.cc",
        "CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure",
        """\
Epoch 4/50
312/500 [=================>............] - ETA: 41s - loss: 0.4120 - accuracy: 0.8812
2026-03-14 15:07:01.442910: E tensorflow/compiler/xla/stream_executor/cuda/cuda_event.cc:29] Error polling for \
event status: failed to query event: CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure
2026-03-14 15:07:01.442961: F tensorflow/core/common_runtime/device/device_event_mgr.cc:223] Unexpected Event \
status: 1
job.sh: line 9: 91827 Aborted                 (core dumped) python fit.py
""",
        command="bash job.sh",
        framework="tensorflow",
        status=134,
    ),
    told(
        "cuda_runtime/checked_by_a_macro_in_c",
        "The macro of NVIDIA's samples reports file, line, number and name of the error.",
        "https://github.com/NVIDIA/cuda-samples/blob/master/Common/helper_cuda.h",
        "CUDA error at nbody_kernel.cu:211 code=700(cudaErrorIllegalAddress)",
        """\
[nbody] reading 1048576 bodies from disk
GPU Device 0: "Hopper" with compute capability 9.0
step 100: 312.4 GFLOP/s, energy drift 1.2e-07
step 200: 311.9 GFLOP/s, energy drift 1.4e-07
CUDA error at nbody_kernel.cu:211 code=700(cudaErrorIllegalAddress) "cudaEventSynchronize(stopEvent)"
""",
        command="./nbody -n 1048576",
        framework="c++",
    ),
    told(
        "cuda_runtime/thrust_asks_for_too_many_blocks",
        "Thrust throws what the launch of a kernel has answered; nobody catches it.",
        "https://nvidia.github.io/cccl/thrust/",
        "what():  parallel_for failed: cudaErrorInvalidConfiguration: invalid configuration argument",
        """\
building neighbour lists: 0 particles in domain
terminate called after throwing an instance of 'thrust::THRUST_200500_900_NS::system::system_error'
  what():  parallel_for failed: cudaErrorInvalidConfiguration: invalid configuration argument
Aborted (core dumped)
""",
        command="sh run.sh",
        framework="c++",
        status=134,
    ),
    told(
        "cuda_runtime/kokkos_on_one_of_eight_tasks",
        "Eight tasks of a simulation under srun -l; task 6 sees an illegal address, and srun ends the step.",
        "https://github.com/kokkos/kokkos/blob/develop/core/src/Cuda/Kokkos_Cuda_Instance.cpp",
        "6: cudaDeviceSynchronize() error( cudaErrorIllegalAddress): an illegal memory access was encountered",
        interleaved([prefixed(_residuals(rank), "srun", rank) for rank in range(8)], seed=7370),
        """\
6: cudaDeviceSynchronize() error( cudaErrorIllegalAddress): an illegal memory access was encountered \
/home/user/project/kokkos/core/src/Cuda/Kokkos_Cuda_Instance.cpp:153
6: Backtrace:
6: [0x8a4c1f]
6: [0x89b003]
6: MPICH ERROR [Rank 6] [job id 48211.0] [node02] - Abort(0) (rank 6 in comm 496): application called \
MPI_Abort(MPI_COMM_WORLD, 0) - process 6
""",
        srun_ends(6, status=255),
        command="srun -l ./flow input.yaml",
        framework="kokkos",
        status=255,
        first_rank=6,
    ),
    told(
        "cuda_runtime/triton_kernel_misaligned",
        "A kernel written in Triton loads from an address that is not aligned.",
        "https://triton-lang.org/main/programming-guide/chapter-3/debugging.html",
        "RuntimeError: Triton Error [CUDA]: misaligned address",
        "autotuning _attn_fwd over 12 configurations\nbest: BLOCK_M=128, BLOCK_N=64, num_warps=8, num_stages=3",
        trace(
            "RuntimeError: Triton Error [CUDA]: misaligned address",
            "bench.py|57|<module>|out = attention(q, k, v)",
            "attention.py|212|attention|_attn_fwd[grid](q, k, v, out, scale)",
            "triton/backends/nvidia/driver.py|444|__call__|self.launch(*args, **kwargs)",
        ),
        command="python bench.py",
        framework="triton",
    ),
    told(
        "cuda_runtime/with_a_page_fault_in_the_kernel_log",
        "The driver notes Xid 31, a page fault of the program; no card is to blame.",
        "https://docs.nvidia.com/deploy/xid-errors/",
        "RuntimeError: CUDA error: an illegal memory access was encountered",
        steps(90, seed=7390, style=3),
        trace(
            "RuntimeError: CUDA error: an illegal memory access was encountered\n" + _HINTS,
            "points.py|191|<module>|main()",
            "points.py|163|main|torch.cuda.synchronize()",
        ),
        command="python points.py",
        facts={
            "gpu_allotted": True,
            "evidence": [
                {
                    "source": "kernel",
                    "host": "node01",
                    "text": "NVRM: Xid (PCI:0000:41:00): 31, pid=4711, name=python, Ch 00000008, intr 00000000."
                    " MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_0 faulted @ 0x7f2a_30000000. Fault is of"
                    " type FAULT_PDE ACCESS_TYPE_VIRT_READ",
                }
            ],
        },
    ),
    told(
        "cuda_runtime/engine_of_vllm_dies",
        "A worker of a server dies of an illegal access; the server then says that its engine is dead.",
        "https://docs.vllm.ai/en/latest/usage/troubleshooting.html",
        "(VllmWorker rank=1 pid=8121) ERROR 03-14 08:41:19 [multiproc_executor.py:527] RuntimeError: CUDA error:"
        " an illegal memory access was encountered",
        (f'INFO:     10.0.0.{n % 9}:4{n:04d} - "POST /v1/completions HTTP/1.1" 200 OK' for n in range(1080)),
        labelled(
            "(VllmWorker rank=1 pid=8121) ERROR 03-14 08:41:19 [multiproc_executor.py:527] ",
            trace(
                "RuntimeError: CUDA error: an illegal memory access was encountered\n" + _HINTS,
                "vllm/v1/executor/multiproc_executor.py|522|worker_busy_loop|output = func(*args, **kwargs)",
                "vllm/v1/worker/gpu_model_runner.py|1212|execute_model|valid_sampled_token_ids ="
                " sampled_token_ids.tolist()",
            ),
        ),
        "ERROR 03-14 08:41:19 [core.py:517] EngineCore encountered a fatal error.",
        "ERROR 03-14 08:41:19 [async_llm.py:420] AsyncLLM output_handler failed.",
        "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for"
        " the root cause.",
        'INFO:     10.0.0.4:41080 - "POST /v1/completions HTTP/1.1" 500 Internal Server Error',
        "INFO:     Shutting down\nINFO:     Application shutdown complete.",
        command="vllm serve /models/moe --tensor-parallel-size 2",
        framework="vllm",
        first_rank=1,
    ),
    told(
        "cuda_runtime/numba_copies_back",
        "Numba learns of the fault of a kernel when it copies the result to the host.",
        "https://numba.readthedocs.io/en/stable/cuda/",
        "numba.cuda.cudadrv.driver.CudaAPIError: [700] Call to cuMemcpyDtoH results in UNKNOWN_CUDA_ERROR",
        "tile 1 of 64\ntile 2 of 64\ntile 3 of 64",
        trace(
            "numba.cuda.cudadrv.driver.CudaAPIError: [700] Call to cuMemcpyDtoH results in UNKNOWN_CUDA_ERROR",
            "tiles.py|74|<module>|result = device_out.copy_to_host()",
            "numba/cuda/cudadrv/driver.py|348|safe_cuda_api_call|self._check_cuda_error(fname, retcode)",
        ),
        command="python tiles.py",
        framework="numba",
    ),
    told(
        "cuda_runtime/assert_on_one_rank_of_deepspeed",
        "Rank 1 of 4 fails an assertion on the device; the others wait for it until their watchdogs end them.",
        "https://github.com/facebookresearch/detectron2/issues/4158 and PyTorch's ProcessGroupNCCL.cpp",
        "[rank1]: RuntimeError: CUDA error: device-side assert triggered",
        (
            f"[2026-03-14 09:5{n % 10}:00,118] [INFO] [logging.py:128:log_dist] [Rank 0] step={n}, skipped=0,"
            f" lr=[3e-05], mom=[(0.9, 0.999)]"
            for n in range(1, 41)
        ),
        _asserts(1),
        of_rank(
            1,
            trace(
                "RuntimeError: CUDA error: device-side assert triggered\n" + _HINTS,
                "train.py|131|<module>|loss = engine(batch)",
                "torch/nn/functional.py|2551|embedding|return torch.embedding(weight, input, padding_idx,"
                " scale_grad_by_freq, sparse)",
            ),
        ),
        *(watchdog(rank, 911, "_ALLGATHER_BASE") for rank in (0, 3, 2)),
        deepspeed_ends(4, status=-6),
        command="deepspeed train.py",
        framework="deepspeed",
        first_rank=1,
        action="fix",  # a value of the data is out of range, and stays so
        evidence_alt=(_SELECT.format(block=0, thread=0),),
    ),
    told(
        "cuda_runtime/kernel_longer_than_the_display_allows",
        "The card also drives a display, whose watchdog ends a long kernel.",
        _TYPES,
        "CUDA error: the launch timed out and was terminated",
        """\
rendering frame 0001 of 0240
rendering frame 0002 of 0240
CUDA error: the launch timed out and was terminated in cudaStreamSynchronize(stream) (render.cu:418)
mpirun: the render has failed
""",
        mpirun_ends(0),
        command="mpirun -np 1 ./render scene.usd",
        framework="c++",
    ),
]
