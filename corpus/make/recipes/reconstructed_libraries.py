"""Code for other cards than the one that is there, and errors of cuBLAS and cuDNN."""

from __future__ import annotations

from corpus.make.chatter import interleaved, prefixed, training
from corpus.make.recipes.reconstructed_base import deepspeed_ends, labelled, of_rank, srun_ends, steps, told, trace

_HINTS = """\
CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be \
incorrect.
For debugging consider passing CUDA_LAUNCH_BLOCKING=1
Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.
"""

ARCH = [
    told(
        "cuda_arch/newer_card_than_the_wheel",
        "The wheel holds no code for the card: PyTorch warns, and the first kernel fails.",
        "https://github.com/pytorch/pytorch/issues/156968",
        "RuntimeError: CUDA error: no kernel image is available for execution on the device",
        """\
/opt/venv/lib/python3.11/site-packages/torch/cuda/__init__.py:235: UserWarning:
NVIDIA GeForce RTX 5090 with CUDA capability sm_120 is not compatible with the current PyTorch installation.
The current PyTorch install supports CUDA capabilities sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_90.
If you want to use the NVIDIA GeForce RTX 5090 GPU with PyTorch, please check the instructions at \
https://pytorch.org/get-started/locally/

  warnings.warn(
""",
        trace(
            "RuntimeError: CUDA error: no kernel image is available for execution on the device\n" + _HINTS,
            "train.py|52|<module>|tokens = torch.randint(0, 32000, (8, 128), device='cuda')",
        ),
        evidence_alt=("with CUDA capability sm_120 is not compatible with the current PyTorch installation.",),
    ),
    told(
        "cuda_arch/kokkos_for_another_card",
        "Kokkos compares what it was built for with the card that it finds.",
        "https://github.com/kokkos/kokkos/blob/develop/core/src/Cuda/Kokkos_Cuda_Instance.cpp",
        "Kokkos::Cuda::initialize ERROR: running kernels compiled for compute capability 8.0",
        """\
LAMMPS (2 Aug 2023 - Update 2)
KOKKOS mode with Kokkos version 3.7.2 is enabled (src/KOKKOS/kokkos.cpp:107)
  will use up to 1 GPU(s) per node
terminate called after throwing an instance of 'std::runtime_error'
  what():  Kokkos::Cuda::initialize ERROR: running kernels compiled for compute capability 8.0 on device with \
compute capability 7.0 is not supported by CUDA!

[node01:22817] *** Process received signal ***
[node01:22817] Signal: Aborted (6)
""",
        command="lmp -k on g 1 -sf kk -in in.melt",
        framework="kokkos",
        status=134,
    ),
    told(
        "cuda_arch/one_older_node_among_two",
        "Task 5 runs on an older node, for whose cards an extension was not built.",
        "https://github.com/PrateekMunjal/TorchAL/issues/4",
        "5: RuntimeError: CUDA error: no kernel image is available for execution on the device",
        interleaved([prefixed(training(40, 7630 + rank, style=1), "srun", rank) for rank in range(4)], seed=7631),
        labelled(
            "5: ",
            trace(
                "RuntimeError: CUDA error: no kernel image is available for execution on the device\n" + _HINTS,
                "train.py|88|<module>|loss = criterion(model(points), labels)",
                "pointnet2_ops/pointnet2_utils.py|54|forward|return _ext.furthest_point_sampling(xyz, npoint)",
            ),
        ),
        srun_ends(5),
        command="srun -l python train.py",
        first_rank=5,
    ),
    told(
        "cuda_arch/attention_wants_a_newer_card",
        "Flash attention has no code for the card.",
        "https://github.com/Dao-AILab/flash-attention",
        "RuntimeError: FlashAttention only supports Ampere GPUs or newer.",
        "Loading checkpoint shards: 100%|██████████| 3/3 [00:11<00:00,  3.81s/it]",
        trace(
            "RuntimeError: FlashAttention only supports Ampere GPUs or newer.",
            "generate.py|33|<module>|output = model.generate(**inputs, max_new_tokens=128)",
            "flash_attn/flash_attn_interface.py|91|_flash_attn_forward|out, softmax_lse, S_dmask, rng_state ="
            " flash_attn_gpu.fwd(",
        ),
        framework="transformers",
        command="python generate.py",
    ),
    told(
        "cuda_arch/bfloat16_on_an_old_card",
        "vLLM asks for bfloat16, which the card cannot do.",
        "https://github.com/vllm-project/vllm/blob/main/vllm/platforms/cuda.py",
        "ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0.",
        "INFO 03-14 10:11:12 [config.py:689] This model supports multiple tasks: {'generate', 'embed'}."
        " Defaulting to 'generate'.",
        trace(
            "ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0. Your Tesla"
            " T4 GPU has compute capability 7.5. You can use float16 instead by explicitly setting the `dtype`"
            " flag in CLI, for example: --dtype=half.",
            "serve.py|9|<module>|llm = LLM(model='/models/gemma', dtype='bfloat16')",
            "vllm/platforms/cuda.py|454|check_if_supports_dtype|raise ValueError(",
        ),
        framework="vllm",
        command="python serve.py",
        class_alt=("config_error",),
    ),
    told(
        "cuda_arch/assembler_does_not_know_the_card",
        "Triton's assembler is older than the card.",
        "https://triton-lang.org/main/getting-started/installation.html",
        "ptxas fatal   : Value 'sm_120a' is not defined for option 'gpu-name'",
        steps(4, seed=7660, style=0),
        trace(
            """\
RuntimeError: Internal Triton PTX codegen error
`ptxas` stderr:
ptxas fatal   : Value 'sm_120a' is not defined for option 'gpu-name'

Repro command: /opt/venv/lib/python3.11/site-packages/triton/backends/nvidia/bin/ptxas -lineinfo -v \
--gpu-name=sm_120a /tmp/tmpkq1v.ptx -o /tmp/tmpkq1v.ptx.o""",
            "train.py|71|<module>|loss = compiled(batch)",
            "triton/backends/nvidia/compiler.py|395|make_cubin|raise PTXASError(error)",
        ),
        framework="triton",
        evidence_alt=("RuntimeError: Internal Triton PTX codegen error",),
    ),
    told(
        "cuda_arch/cupy_finds_no_image",
        "A module of CuPy that was compiled before holds nothing for this card.",
        "https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TYPES.html",
        "CUDA_ERROR_NO_BINARY_FOR_GPU: no kernel image is available for execution on the device",
        "loading kernels from kernels.cubin",
        trace(
            "cupy_backends.cuda.api.driver.CUDADriverError: CUDA_ERROR_NO_BINARY_FOR_GPU: no kernel image is"
            " available for execution on the device",
            "sweep.py|20|<module>|module = cp.RawModule(path='kernels.cubin')",
        ),
        framework="cupy",
        command="python sweep.py",
    ),
]

CUBLAS_CUDNN = [
    told(
        "cublas_cudnn/product_on_rank_1",
        "A matrix product of rank 1 fails in cuBLAS; DeepSpeed ends the others.",
        "https://github.com/deepspeedai/DeepSpeed/issues/294",
        "[rank1]: RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmEx(",
        steps(1150, seed=7700, style=2),
        of_rank(
            1,
            trace(
                "RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmEx( handle,"
                " opa, opb, m, n, k, &falpha, a, CUDA_R_16F, lda, b, CUDA_R_16F, ldb, &fbeta, c, CUDA_R_16F, ldc,"
                " compute_type, CUBLAS_GEMM_DEFAULT_TENSOR_OP)`",
                "train.py|99|<module>|loss = engine(batch)",
                "torch/nn/modules/linear.py|125|forward|return F.linear(input, self.weight, self.bias)",
            ),
        ),
        deepspeed_ends(2),
        command="deepspeed --num_gpus 2 train.py",
        framework="deepspeed",
        first_rank=1,
    ),
    told(
        "cublas_cudnn/convolution",
        "A convolution fails in cuDNN.",
        "https://docs.nvidia.com/deeplearning/cudnn/latest/api/cudnn-graph-library.html",
        "RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED",
        "epoch 1 of 100\nbatch 0 of 812",
        trace(
            "RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED",
            "unet.py|140|<module>|loss.backward()",
            "torch/_tensor.py|522|backward|torch.autograd.backward(",
        ),
        command="python unet.py",
    ),
    told(
        "cublas_cudnn/tensorflow_gets_no_handle",
        "TensorFlow cannot make a handle of cuDNN, and has no algorithm for its convolution.",
        "https://github.com/tensorflow/tensorflow/issues/24828",
        "Could not create cudnn handle: CUDNN_STATUS_INTERNAL_ERROR",
        """\
2026-03-14 13:33:01.512013: E tensorflow/compiler/xla/stream_executor/cuda/cuda_dnn.cc:429] Could not create cudnn \
handle: CUDNN_STATUS_INTERNAL_ERROR
2026-03-14 13:33:01.512099: E tensorflow/compiler/xla/stream_executor/cuda/cuda_dnn.cc:438] Possibly insufficient \
driver version: 535.104.5
2026-03-14 13:33:01.512240: W tensorflow/core/framework/op_kernel.cc:1828] OP_REQUIRES failed at \
conv_ops_impl.h:770 : UNIMPLEMENTED: DNN library is not found.
""",
        trace(
            "tensorflow.python.framework.errors_impl.UnimplementedError: Graph execution error:\n\nDNN library is"
            " not found.\n    [[{{node model/conv1_conv/Conv2D}}]] [Op:__inference_train_function_8815]",
            "fit.py|40|<module>|model.fit(data, epochs=5)",
            "tensorflow/python/eager/execute.py|60|quick_execute|tensors = pywrap_tfe.TFE_Py_Execute(ctx._handle,"
            " device_name, op_name,",
        ),
        command="python fit.py",
        framework="tensorflow",
        evidence_alt=("DNN library is not found.",),
    ),
    told(
        "cublas_cudnn/value_that_it_does_not_take",
        "cuBLAS refuses the arguments of a product.",
        "https://docs.nvidia.com/cuda/cublas/#cublasstatus-t",
        "RuntimeError: CUDA error: CUBLAS_STATUS_INVALID_VALUE when calling `cublasSgemm(",
        "epoch 0: 100%|██████████| 40/40 [00:03<00:00, 12.10it/s]",
        trace(
            "RuntimeError: CUDA error: CUBLAS_STATUS_INVALID_VALUE when calling `cublasSgemm( handle, opa, opb,"
            " m, n, k, &alpha, a, lda, b, ldb, &beta, c, ldc)`",
            "train.py|66|<module>|out = net(batch)",
            "torch/nn/modules/linear.py|114|forward|return F.linear(input, self.weight, self.bias)",
        ),
    ),
    told(
        "cublas_cudnn/onnxruntime",
        "ONNX Runtime reports number, name, file and expression of the error.",
        "https://github.com/C0untFloyd/roop-unleashed/issues/995",
        "CUBLAS failure 13: CUBLAS_STATUS_EXECUTION_FAILED ; GPU=0 ; hostname=node01",
        (f"frame {n:05d} ok" for n in range(1, 1101)),
        """\
2026-03-14 19:49:58.721396412 [E:onnxruntime:Default, cuda_call.cc:118 CudaCall] CUBLAS failure 13: \
CUBLAS_STATUS_EXECUTION_FAILED ; GPU=0 ; hostname=node01 ; \
file=/onnxruntime_src/onnxruntime/core/providers/cuda/math/gemm.cc ; line=121 ; \
expr=cublasGemmHelper(GetCublasHandle(ctx), CUBLAS_OP_N, CUBLAS_OP_N, N, M, 1, &one, b_data, N)
""",
        trace(
            "onnxruntime.capi.onnxruntime_pybind11_state.Fail: [ONNXRuntimeError] : 1 : FAIL : Non-zero status"
            " code returned while running Gemm node. Name:'Gemm_568' Status Message: CUBLAS failure 13:"
            " CUBLAS_STATUS_EXECUTION_FAILED ; GPU=0 ; hostname=node01",
            "video.py|58|<module>|result = session.run(None, {'input': frame})",
            "onnxruntime/capi/onnxruntime_inference_collection.py|266|run|return self._sess.run(output_names,"
            " input_feed, run_options)",
        ),
        framework="onnxruntime",
        command="python video.py",
    ),
    told(
        "cublas_cudnn/jax_cannot_start_its_library",
        "XLA cannot initialise cuDNN.",
        "https://github.com/jax-ml/jax/issues/4920",
        "XlaRuntimeError: FAILED_PRECONDITION: DNN library initialization failed.",
        """\
E0314 11:02:08.771120  188310 cuda_dnn.cc:502] Could not create cudnn handle: CUDNN_STATUS_NOT_INITIALIZED
E0314 11:02:08.771203  188310 cuda_dnn.cc:506] Memory usage: 24117248 bytes free, 25393692672 bytes total.
""",
        trace(
            "jaxlib.xla_extension.XlaRuntimeError: FAILED_PRECONDITION: DNN library initialization failed. Look"
            " at the errors above for more details.",
            "train.py|77|<module>|params = model.init(key, batch)",
        ),
        framework="jax",
        class_alt=("cuda_oom",),
        evidence_alt=("Could not create cudnn handle: CUDNN_STATUS_NOT_INITIALIZED",),
    ),
    told(
        "cublas_cudnn/eigenvalues",
        "cuSOLVER, which is reported as cuBLAS is, fails for a batch of matrices.",
        "https://docs.nvidia.com/cuda/cusolver/index.html",
        "RuntimeError: cusolver error: CUSOLVER_STATUS_EXECUTION_FAILED, when calling `cusolverDnXsyevd(",
        "whitening 512 covariance matrices",
        trace(
            "torch._C._LinAlgError: linalg.eigh: (Batch element 0): falling back\n\nDuring handling of the above"
            " exception, another exception occurred:\n\nRuntimeError: cusolver error:"
            " CUSOLVER_STATUS_EXECUTION_FAILED, when calling `cusolverDnXsyevd( handle, params, jobz, uplo, n,"
            " CUDA_R_32F, A, lda, CUDA_R_32F, W)`",
            "whiten.py|19|<module>|values, vectors = torch.linalg.eigh(covariance)",
        ),
        command="python whiten.py",
    ),
]

RECIPES = [*ARCH, *CUBLAS_CUDNN]
