"""Cards as programs beyond the usual frameworks speak of them: Fortran, Julia, ROCm, Paddle, XGBoost, llama.cpp, \
UCX."""

from __future__ import annotations

from corpus.make.chatter import interleaved, prefixed
from corpus.make.recipes.reconstructed_base import (
    labelled,
    mpirun_ends,
    of_rank,
    srun_ends,
    steps,
    told,
    torchrun_ends,
    trace,
)

_ALLOTTED = {"gpu_allotted": True}

OUT_OF_MEMORY = [
    told(
        "cuda_oom/fortran_with_openacc",
        "The run time of OpenACC ends rank 3 of a flow solver; its neighbours print their steps on.",
        "https://github.com/MFlowCode/MFC/issues/989",
        "Accelerator Fatal Error: call to cuMemAlloc returned error 2 (CUDA_ERROR_OUT_OF_MEMORY): Out of memory",
        interleaved(
            [
                prefixed([f"[{n / 3:5.1f}%] Time step {n} of 300" for n in range(260)], "mpirun", rank)
                for rank in range(4)
            ],
            seed=8801,
        ),
        labelled(
            "[1,3]<stderr>:",
            """\
Accelerator Fatal Error: call to cuMemAlloc returned error 2 (CUDA_ERROR_OUT_OF_MEMORY): Out of memory
 File: /home/user/project/src/simulation/m_rhs.fpp
 Function: s_initialize_rhs_module:172
 Line: 249
""",
        ),
        mpirun_ends(3),
        command="mpirun --tag-output -np 4 ./simulation",
        framework="openacc",
        first_rank=3,
    ),
    told(
        "cuda_oom/xgboost",
        "XGBoost cannot allocate a histogram, and shows its stack.",
        "https://github.com/dmlc/xgboost/issues/7140",
        "Memory allocation error on worker 0: std::bad_alloc: cudaErrorMemoryAllocation: out of memory",
        (f"[{n}]\tvalidation_0-logloss:{0.69 - n / 9000:.5f}" for n in range(1040)),
        trace(
            """\
xgboost.core.XGBoostError: [13:55:26] /workspace/src/c_api/../data/../common/device_helpers.cuh:414: Memory \
allocation error on worker 0: std::bad_alloc: cudaErrorMemoryAllocation: out of memory
- Free memory: 113109237
- Requested memory: 1479960000

Stack trace:
  [bt] (0) /opt/venv/lib/python3.11/site-packages/xgboost/lib/libxgboost.so(+0x30b2d9) [0x7f3c6fe452d9]
  [bt] (1) /opt/venv/lib/python3.11/site-packages/xgboost/lib/libxgboost.so(+0x30f3c3) [0x7f3c6fe493c3]""",
            "boost.py|31|<module>|model.fit(x, y, eval_set=[(xv, yv)])",
            "xgboost/core.py|282|_check_call|raise XGBoostError(py_str(_LIB.XGBGetLastError()))",
        ),
        command="python boost.py",
        framework="xgboost",
    ),
    told(
        "cuda_oom/rapids",
        "The memory resource of RAPIDS throws while a table is joined.",
        "https://docs.rapids.ai/api/rmm/stable/",
        "MemoryError: std::bad_alloc: out_of_memory: CUDA error (failed to allocate 8589934592 bytes)",
        "reading part 0 .. 63 of clicks.parquet\njoining users",
        trace(
            "MemoryError: std::bad_alloc: out_of_memory: CUDA error (failed to allocate 8589934592 bytes) at:"
            " /opt/venv/include/rmm/mr/device/cuda_memory_resource.hpp:62: cudaErrorMemoryAllocation out of memory",
            "join.py|22|<module>|joined = clicks.merge(users, on='user')",
            "cudf/core/dataframe.py|4401|merge|return merge_cls(",
        ),
        command="python join.py",
        framework="rapids",
        class_alt=("ram_oom",),
    ),
    told(
        "cuda_oom/paddle",
        "Paddle writes its own summary of the error, with advice in it.",
        "https://github.com/PaddlePaddle/Paddle/issues/42228",
        "Out of memory error on GPU 0. Cannot allocate 1.531250GB memory on GPU 0",
        "[2026/03/14 11:44:20] ppdet.engine INFO: Epoch: [3] [ 120/1000] learning_rate: 0.001250 loss: 1.204113",
        """\
--------------------------------------
C++ Traceback (most recent call last):
--------------------------------------
0   paddle::memory::allocation::Allocator::Allocate(unsigned long)
1   std::string phi::enforce::GetCompleteTraceBackString<std::string >(std::string&&, char const*, int)

----------------------
Error Message Summary:
----------------------
ResourceExhaustedError:

Out of memory error on GPU 0. Cannot allocate 1.531250GB memory on GPU 0, 15.412964GB memory has been allocated and \
available memory is only 416.625000MB.

Please check whether there is any other process using GPU 0.
1. If yes, please stop them, or start PaddlePaddle on another GPU.
2. If no, please decrease the batch size of your model.
 (at ../paddle/fluid/memory/allocation/cuda_allocator.cc:87)
""",
        command="python tools/train.py -c cascade.yml",
        framework="paddle",
    ),
    told(
        "cuda_oom/llama_cpp",
        "llama.cpp cannot allocate the buffer of the model on its card.",
        "https://github.com/ollama/ollama/issues/9782",
        "cudaMalloc failed: out of memory",
        """\
load_tensors: loading model tensors, this can take a while... (mmap = true)
load_tensors: offloading 80 repeating layers to GPU
ggml_backend_cuda_buffer_type_alloc_buffer: allocating 41221.08 MiB on device 0: cudaMalloc failed: out of memory
alloc_tensor_range: failed to allocate CUDA0 buffer of size 43223530496
llama_model_load: error loading model: unable to allocate CUDA0 buffer
llama_model_load_from_file_impl: failed to load model
common_init_from_params: failed to load model '/models/llama-70b-q4.gguf'
main: error: unable to load model
""",
        command="llama-cli -m /models/llama-70b-q4.gguf -ngl 99",
        framework="llama.cpp",
        evidence_alt=("failed to allocate CUDA0 buffer", "unable to allocate CUDA0 buffer"),
    ),
    told(
        "cuda_oom/rocm",
        "PyTorch on a card of AMD: rank 2 of 4 runs out.",
        "https://rocm.docs.amd.com/projects/HIP/en/latest/",
        "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 3.13 GiB.",
        steps(40, seed=8850, style=0),
        of_rank(
            2,
            trace(
                "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 3.13 GiB. GPU 2 has a total"
                " capacity of 63.98 GiB of which 1.41 GiB is free. Of the allocated memory 60.11 GiB is allocated"
                " by PyTorch, and 1.55 GiB is reserved by PyTorch but unallocated. If reserved but unallocated"
                " memory is large try setting PYTORCH_HIP_ALLOC_CONF=expandable_segments:True to avoid"
                " fragmentation.",
                "train.py|71|<module>|out = model(batch)",
            ),
        ),
        torchrun_ends(2, 4),
        command="torchrun --nproc-per-node 4 train.py",
        framework="rocm",
        first_rank=2,
    ),
    told(
        "cuda_oom/julia",
        "CUDA.jl says how much of the card is in use.",
        "https://cuda.juliagpu.org/stable/usage/memory/",
        "ERROR: LoadError: Out of GPU memory trying to allocate 4.000 GiB",
        """\
[ Info: initial state on a 2048 x 2048 grid
ERROR: LoadError: Out of GPU memory trying to allocate 4.000 GiB
Effective GPU memory usage: 98.21% (15.591 GiB/15.875 GiB)
Memory pool usage: 11.504 GiB (14.031 GiB reserved)

Stacktrace:
  [1] _pool_alloc
    @ /home/user/.julia/packages/CUDA/Tl08O/src/memory.jl:676 [inlined]
  [2] #CuArray#805
    @ /home/user/.julia/packages/CUDA/Tl08O/src/array.jl:74
  [3] top-level scope
    @ /home/user/project/waves.jl:41
in expression starting at /home/user/project/waves.jl:41
""",
        command="julia waves.jl",
        framework="julia",
    ),
    told(
        "cuda_oom/gromacs",
        "GROMACS stops with its frame of lines around the message.",
        "https://manual.gromacs.org/current/user-guide/run-time-errors.html",
        "Allocation of the device buffer failed. CUDA error #2 (cudaErrorMemoryAllocation): out of memory.",
        """\
step 1200, remaining wall clock time:   812 s
-------------------------------------------------------
Program:     gmx mdrun, version 2024.2
Source file: src/gromacs/gpu_utils/devicebuffer.cuh (line 72)
Function:    static void allocateDeviceBuffer(DeviceBuffer<float>*, size_t)

Internal error (bug):
Allocation of the device buffer failed. CUDA error #2 (cudaErrorMemoryAllocation): out of memory.

For more information and tips for troubleshooting, please check the GROMACS
website at https://manual.gromacs.org/current/user-guide/run-time-errors.html
-------------------------------------------------------
""",
        command="gmx mdrun -deffnm run",
        framework="gromacs",
    ),
]

AT_RUN_TIME = [
    told(
        "cuda_runtime/fortran_with_openacc",
        "A kernel of OpenACC reads beyond an array.",
        "https://github.com/SALMON-TDDFT/SALMON2/pull/1189",
        "call to cuStreamSynchronize returned error 700 (CUDA_ERROR_ILLEGAL_ADDRESS): Illegal address during"
        " kernel execution",
        (f" it = {n:6d}  energy = {-188.2 + n / 5000:.8f}" for n in range(1100)),
        """\
Failing in Thread:1
Accelerator Fatal Error: call to cuStreamSynchronize returned error 700 (CUDA_ERROR_ILLEGAL_ADDRESS): Illegal \
address during kernel execution
 File: /home/user/project/src/rt/taylor.f90
 Function: taylor:21
 Line: 59
""",
        command="./salmon",
        framework="openacc",
    ),
    told(
        "cuda_runtime/julia",
        "CUDA.jl names number and name of the error.",
        "https://github.com/JuliaGPU/CUDA.jl/issues/2795",
        "ERROR: LoadError: CUDA error: an illegal memory access was encountered (code 700, ERROR_ILLEGAL_ADDRESS)",
        """\
[ Info: iteration 400 of 8000
ERROR: LoadError: CUDA error: an illegal memory access was encountered (code 700, ERROR_ILLEGAL_ADDRESS)
Stacktrace:
  [1] throw_api_error(res::CUDA.cudaError_enum)
    @ CUDA /home/user/.julia/packages/CUDA/Tl08O/lib/cudadrv/libcuda.jl:30
  [2] nonblocking_synchronize(val::CuContext)
    @ CUDA /home/user/.julia/packages/CUDA/Tl08O/lib/cudadrv/synchronization.jl:174
in expression starting at /home/user/project/ocean.jl:88
""",
        command="julia ocean.jl",
        framework="julia",
    ),
    told(
        "cuda_runtime/rocm_page_not_present",
        "A kernel on a card of AMD touches a page that is not there; the run time aborts.",
        "https://github.com/ROCm/legacy-rocm-build/issues/4554",
        "Memory access fault by GPU node-4 (Agent handle: 0x1f829860) on address 0x7a8a4be00000. Reason: Page not"
        " present or supervisor privilege.",
        steps(25, seed=8920, style=1),
        "Memory access fault by GPU node-4 (Agent handle: 0x1f829860) on address 0x7a8a4be00000. Reason: Page not"
        " present or supervisor privilege.",
        "Aborted (core dumped)",
        command="sh run.sh",
        framework="rocm",
        status=134,
    ),
    told(
        "cuda_runtime/paddle",
        "Paddle: an external error with a hint.",
        "https://github.com/PaddlePaddle/Paddle/issues/43211",
        "OSError: (External) CUDA error(719), unspecified launch failure.",
        "[2026/03/14 11:44:20] ppocr INFO: epoch: [12/500], global_step: 310, lr: 0.001000",
        trace(
            "OSError: (External) CUDA error(719), unspecified launch failure.\n  [Hint: 'cudaErrorLaunchFailure'."
            " An exception occurred on the device while executing a kernel. Common causes include dereferencing"
            " an invalid device pointer and accessing out of bounds shared memory.] (at"
            " ../paddle/phi/backends/gpu/cuda/cuda_info.cc:272)",
            "tools/train.py|218|<module>|main(config, device, logger)",
            "paddle/tensor/manipulation.py|211|numpy|array = self._numpy(False)",
        ).replace("/opt/venv/lib/python3.11/site-packages/tools", "/home/user/project/tools"),
        command="python tools/train.py -c rec.yml",
        framework="paddle",
    ),
    told(
        "cuda_runtime/llama_cpp",
        "llama.cpp prints device, function and expression, and aborts.",
        "https://github.com/ollama/ollama/issues/3237",
        "CUDA error: an illegal memory access was encountered",
        """\
slot launch_slot_: id  0 | task 112 | processing task
slot update_slots: id  0 | task 112 | new prompt, n_ctx_slot = 8192, n_prompt_tokens = 5120
/home/user/project/llama.cpp/ggml/src/ggml-cuda/ggml-cuda.cu:84: CUDA error
CUDA error: an illegal memory access was encountered
  current device: 1, in function ggml_backend_cuda_synchronize at \
/home/user/project/llama.cpp/ggml/src/ggml-cuda/ggml-cuda.cu:2461
  cudaStreamSynchronize(cuda_ctx->stream())
Aborted (core dumped)
""",
        command="sh serve.sh",
        framework="llama.cpp",
        status=134,
    ),
    told(
        "cuda_runtime/tensorrt",
        "TensorRT's logger reports the error of the driver.",
        "https://docs.nvidia.com/deeplearning/tensorrt/latest/reference/troubleshooting.html",
        "Error Code 1: Cuda Runtime (an illegal memory access was encountered)",
        """\
[03/14/2026-10:02:10] [I] Starting inference
[03/14/2026-10:02:12] [E] [TRT] IExecutionContext::enqueueV3: Error Code 1: Cuda Runtime (an illegal memory access \
was encountered)
[03/14/2026-10:02:12] [E] Error occurred during inference
&&&& FAILED TensorRT.trtexec [TensorRT v100300] # trtexec --loadEngine=model.plan
""",
        command="trtexec --loadEngine=model.plan",
        framework="tensorrt",
    ),
    told(
        "cuda_runtime/fault_of_task_2_of_4",
        "A Fortran program with cuFFT and its own checks: task 2 prints the number of the error alone.",
        "https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html",
        "2: cudaMemcpy D2H failed: cudaErrorIllegalAddress",
        interleaved(
            [prefixed([f"  t = {n * 0.5:8.2f} fs" for n in range(300)], "srun", rank) for rank in range(4)], seed=8961
        ),
        "2: cudaMemcpy D2H failed: cudaErrorIllegalAddress (ierr = 700) in pw_copy_to_host\n2: STOP 1",
        srun_ends(2, host="node01"),
        command="srun -l ./pw.x -in scf.in",
        framework="fortran",
        first_rank=2,
    ),
]

COLLECTIVES = [
    told(
        "nccl/infiniband_under_ucx",
        "UCX gives up sending over InfiniBand in the middle of a collective of MPI: rank 5 first.",
        "https://github.com/openucx/ucx/issues/7416",
        "Transport retry count exceeded on mlx5_2:1/IB (synd 0x15 vend 0x81 hw_synd 0/0)",
        (f"trajectory {n} plaquette {0.58 + n / 90000:.9f}" for n in range(1020)),
        """\
[1,5]<stderr>:[node02:32182:0:32182] ib_mlx5_log.c:145  Transport retry count exceeded on mlx5_2:1/IB (synd 0x15 \
vend 0x81 hw_synd 0/0)
[1,5]<stderr>:[node02:32182:0:32182] ib_mlx5_log.c:145  RC QP 0x638b wqe[1064]: RDMA_WRITE s-- [rva 0x14b3e2d90000 \
rkey 0x1ba09e] [va 0x14fde0f30000 len 3981312 lkey 0xeb796]
[1,5]<stderr>:==== backtrace (tid:  32182) ====
[1,5]<stderr>: 0  /opt/ucx/lib/libucs.so.0(ucs_handle_error+0x294) [0x7fada58370a4]
[1,5]<stderr>: 1  /opt/ucx/lib/ucx/libuct_ib.so.0(uct_ib_mlx5_completion_with_err+0x24c) [0x7fa59879061c]
""",
        mpirun_ends(5, host="node02", signal="signal 6 (Aborted)"),
        command="mpirun --tag-output -np 8 ./hmc",
        framework="mpi",
        status=134,
        class_alt=("network",),
        first_rank=5,
    ),
    told(
        "nccl/paddle",
        "Paddle: NCCL answers with a system error when the groups are made.",
        "https://www.paddlepaddle.org.cn/documentation/docs/en/guides/06_distributed_training/index_en.html",
        "OSError: (External) NCCL error(2), unhandled system error.",
        "I0314 10:02:01.553000 140245 tcp_utils.cc:181] The server starts to listen on IP_ANY:60123",
        trace(
            "OSError: (External) NCCL error(2), unhandled system error.\n  [Hint: 'ncclSystemError'. A call to"
            " the system failed.] (at ../paddle/phi/core/distributed/nccl_comm_context.cc:95)",
            "train.py|20|<module>|paddle.distributed.init_parallel_env()",
            "paddle/distributed/parallel.py|1104|init_parallel_env|barrier(group=group)",
        ),
        framework="paddle",
        command="python -m paddle.distributed.launch train.py",
    ),
]

DEVICES = [
    told(
        "cuda_driver/not_loaded_on_the_node",
        "nvidia-smi cannot talk to the driver at all, and the job script stops there.",
        "https://docs.nvidia.com/deploy/nvidia-smi/index.html",
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
        """\
+ hostname
node01
+ nvidia-smi
NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA \
driver is installed and running.
""",
        command="bash -ex job.sh",
        framework="bash",
        status=9,
        facts=_ALLOTTED,
    ),
    told(
        "cuda_driver/rocm_finds_no_card",
        "PyTorch for ROCm sees no card of AMD.",
        "https://github.com/pytorch/pytorch/blob/main/torch/cuda/__init__.py",
        "RuntimeError: No HIP GPUs are available",
        "devices: ROCR_VISIBLE_DEVICES=0,1,2,3",
        trace(
            "RuntimeError: No HIP GPUs are available",
            "train.py|17|<module>|model = model.to('cuda')",
            "torch/cuda/__init__.py|372|_lazy_init|torch._C._cuda_init()",
        ),
        framework="rocm",
        facts=_ALLOTTED,
    ),
    told(
        "gpu_hardware/needs_a_reset",
        "A check before the job finds a card that wants to be reset.",
        "https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/index.html",
        "GPU 00000000:41:00.0: pending row remapping, GPU requires reset",
        """\
checking 4 GPUs
GPU 00000000:21:00.0: ok
GPU 00000000:41:00.0: uncorrectable ECC errors: 2 (volatile)
GPU 00000000:41:00.0: pending row remapping, GPU requires reset
node is not fit for the job
""",
        command="bash check_and_run.sh",
        framework="bash",
        facts=_ALLOTTED,
        evidence_alt=("GPU 00000000:41:00.0: uncorrectable ECC errors: 2",),
    ),
    told(
        "cublas_cudnn/miopen",
        "MIOpen, which is to AMD what cuDNN is, cannot run a convolution.",
        "https://rocm.docs.amd.com/projects/MIOpen/en/latest/",
        "RuntimeError: miopenStatusUnknownError",
        "MIOpen(HIP): Error [Compile] 'hiprtcCompileProgram(prog.get(), c_options.size(), c_options.data())'"
        " MIOpenConvDirUni.cpp: HIPRTC_ERROR_COMPILATION (6)",
        trace(
            "RuntimeError: miopenStatusUnknownError",
            "train.py|50|<module>|out = net(images)",
            "torch/nn/modules/conv.py|549|_conv_forward|return F.conv2d(",
        ),
        framework="rocm",
    ),
    told(
        "cublas_cudnn/fourier_transform",
        "cuFFT cannot run a plan.",
        "https://docs.nvidia.com/cuda/cufft/index.html#return-value-cufftresult",
        "RuntimeError: cuFFT error: CUFFT_INTERNAL_ERROR",
        steps(12, seed=9040, style=2),
        trace(
            "RuntimeError: cuFFT error: CUFFT_INTERNAL_ERROR",
            "separate.py|88|<module>|spectrum = torch.stft(audio, 2048, return_complex=True)",
            "torch/functional.py|730|stft|return _VF.stft(",
        ),
        command="python separate.py",
    ),
    told(
        "cuda_arch/llama_cpp_built_for_others",
        "llama.cpp was built for other cards.",
        "https://github.com/ggml-org/llama.cpp/blob/master/docs/build.md",
        "ERROR: CUDA kernel mul_mat_q has no device code compatible with CUDA arch 700. ggml-cuda.cu was compiled"
        " for: 750,800,860",
        """\
common_init_from_params: warming up the model with an empty run - please wait ... (--no-warmup to disable)
/home/user/project/llama.cpp/ggml/src/ggml-cuda/mmq.cuh:2589: ERROR: CUDA kernel mul_mat_q has no device code \
compatible with CUDA arch 700. ggml-cuda.cu was compiled for: 750,800,860
""",
        command="llama-cli -m model.gguf",
        framework="llama.cpp",
        status=134,
    ),
]

RECIPES = [*OUT_OF_MEMORY, *AT_RUN_TIME, *COLLECTIVES, *DEVICES]
