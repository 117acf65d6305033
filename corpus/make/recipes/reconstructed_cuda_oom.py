"""A GPU out of memory, as PyTorch, JAX, TensorFlow, vLLM, CuPy, NCCL and programs in C++ say it."""

from __future__ import annotations

from corpus.make.chatter import interleaved, prefixed, training
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
)

_NOTES = "https://pytorch.org/docs/stable/notes/cuda.html#environment-variables"
_ADVICE = (
    "If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid"
    f" fragmentation.  See documentation for Memory Management  ({_NOTES})"
)
_TORCH_DOC = "https://docs.pytorch.org/docs/stable/notes/cuda.html#memory-management"


def _new(wanted: str, gpu: int, total: str, free: str, used: str, by_torch: str, reserved: str) -> str:
    """Return the message of PyTorch 2.3 and later."""
    return (
        f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {wanted}. GPU {gpu} has a total capacity of"
        f" {total} of which {free} is free. Including non-PyTorch memory, this process has {used} memory in use. Of"
        f" the allocated memory {by_torch} is allocated by PyTorch, and {reserved} is reserved by PyTorch but"
        f" unallocated. {_ADVICE}"
    )


def _cells(rank: int) -> list[str]:
    """Return what a rank of the simulation prints."""
    return [f"step {n:6d}  t = {n * 0.004:.4f}  cells {88_000 + n * (rank + 3)}" for n in range(330)]


RECIPES = [
    told(
        "cuda_oom/longer_sequences_after_a_day",
        "One card; a batch of long sequences comes after 1,400 steps.",
        _TORCH_DOC,
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.37 GiB.",
        steps(1400, seed=7101, style=0),
        trace(
            _new("2.37 GiB", 0, "79.15 GiB", "1.02 GiB", "78.12 GiB", "73.40 GiB", "4.11 GiB"),
            "train.py|214|<module>|main()",
            "train.py|187|main|loss = model(tokens, labels=labels).loss",
            "torch/nn/modules/module.py|1739|_wrapped_call_impl|return self._call_impl(*args, **kwargs)",
            "transformers/models/llama/modeling_llama.py|842|forward|logits = self.lm_head(hidden_states)",
            "torch/nn/modules/linear.py|125|forward|return F.linear(input, self.weight, self.bias)",
        ),
    ),
    told(
        "cuda_oom/rank_5_of_8_under_torchrun",
        "Rank 5 gets the largest batch; torchrun ends the others.",
        _TORCH_DOC,
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.25 GiB.",
        interleaved([prefixed(training(60, 7110 + rank, style=1), "torchrun", rank) for rank in range(8)], seed=7111),
        labelled(
            "[default5]:",
            of_rank(
                5,
                trace(
                    _new("1.25 GiB", 5, "39.39 GiB", "611.06 MiB", "38.79 GiB", "36.02 GiB", "1.89 GiB"),
                    "train.py|96|<module>|trainer.fit()",
                    "trainer.py|151|fit|scaled.backward()",
                    "torch/_tensor.py|626|backward|torch.autograd.backward(",
                    "torch/autograd/graph.py|823|_engine_run_backward|return Variable._execution_engine.run_backward(",
                ),
            ),
        ),
        torchrun_ends(5, 8),
        command="torchrun --nproc-per-node 8 train.py",
        first_rank=5,
    ),
    told(
        "cuda_oom/older_pytorch",
        "The wording of PyTorch 1.x, which gives the capacity in brackets.",
        "https://github.com/pytorch/pytorch/issues/16417",
        "RuntimeError: CUDA out of memory. Tried to allocate 392.00 MiB (GPU 0; 10.76 GiB total capacity;",
        """\
=> batch size 96, 8 workers
=> creating model 'resnet152'
Epoch: [0][   0/13346]    Time  9.212 ( 9.212)    Loss 7.0412e+00 (7.0412e+00)    Acc@1   0.00 (  0.00)
""",
        trace(
            "RuntimeError: CUDA out of memory. Tried to allocate 392.00 MiB (GPU 0; 10.76 GiB total capacity;"
            " 9.21 GiB already allocated; 211.69 MiB free; 9.55 GiB reserved in total by PyTorch)",
            "main.py|433|<module>|main()",
            "main.py|278|train|output = model(images)",
            "torchvision/models/resnet.py|125|forward|out = self.conv3(out)",
            "torch/nn/modules/conv.py|443|_conv_forward|return F.conv2d(input, weight, bias, self.stride,",
        ),
        command="python main.py -a resnet152 -b 96 /datasets/imagenet",
    ),
    told(
        "cuda_oom/jax_buffers",
        "XLA cannot place the buffers of a compiled update; JAX prints its statistics.",
        "https://github.com/jax-ml/jax/issues/13428",
        "XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 17179869184 bytes.",
        """\
I0314 09:02:11.203 main.py:51] devices: [CudaDevice(id=0)]
I0314 09:02:40.774 main.py:88] parameters: 1,311,473,664
2026-03-14 09:03:02.118845: W external/xla/xla/tsl/framework/bfc_allocator.cc:501] Allocator (GPU_0_bfc) ran out of \
memory trying to allocate 16.00GiB (rounded to 17179869184)requested by op
2026-03-14 09:03:02.119372: W external/xla/xla/tsl/framework/bfc_allocator.cc:512] \
****************************************************************************************____________
E0314 09:03:02.119401   88211 pjrt_stream_executor_client.cc:3077] Execution of replica 0 failed: \
RESOURCE_EXHAUSTED: Out of memory while trying to allocate 17179869184 bytes.
jax.errors.SimplifiedTraceback: For simplicity, JAX has removed its internal frames from the traceback of the \
following exception. Set JAX_TRACEBACK_FILTERING=off to include these.

The above exception was the direct cause of the following exception:
""",
        trace(
            """\
jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 17179869184 bytes.
BufferAssignment OOM Debugging.
BufferAssignment stats:
             parameter allocation:    9.77GiB
              constant allocation:    48.5KiB
        maybe_live_out allocation:    9.77GiB
     preallocated temp allocation:   16.00GiB
                 total allocation:   35.55GiB
              total fragmentation:  680.30MiB (1.87%)
Peak buffers:
    Buffer 1:
        Size: 2.00GiB
        Operator: op_name="jit(update)/jit(main)/transpose(jvp(Transformer))/attention/dot_general" \
source_file="/home/user/project/model.py" source_line=131
        XLA Label: fusion
        Shape: bf16[32,16,2048,1024]
        ==========================""",
            "main.py|140|<module>|app.run(main)",
            "main.py|121|main|state, metrics = update(state, batch)",
        ),
        command="python main.py --config configs/base.py",
        framework="jax",
        evidence_alt=("Allocator (GPU_0_bfc) ran out of memory trying to allocate",),
    ),
    told(
        "cuda_oom/tensorflow_on_gpu",
        "TensorFlow's allocator of the card dumps its statistics before the exception.",
        "https://github.com/tensorflow/tensorflow/issues/9790",
        "OOM when allocating tensor with shape[256,512,56,56] and type float",
        """\
Epoch 1/30
 1/782 [..............................] - ETA: 2:14:33 - loss: 4.6312
2026-03-14 11:40:10.771034: W tensorflow/tsl/framework/bfc_allocator.cc:497] Allocator (GPU_0_bfc) ran out of \
memory trying to allocate 1.53GiB (rounded to 1644167168)requested by op model/conv4_block6_2_conv/Conv2D
If the cause is memory fragmentation maybe the environment variable 'TF_GPU_ALLOCATOR=cuda_malloc_async' will \
improve the situation.
2026-03-14 11:40:10.771190: I tensorflow/tsl/framework/bfc_allocator.cc:1039] BFCAllocator dump for GPU_0_bfc
2026-03-14 11:40:10.771213: I tensorflow/tsl/framework/bfc_allocator.cc:1046] Bin (256): 	Total Chunks: 412, Chunks \
in use: 412. 103.0KiB allocated for chunks.
2026-03-14 11:40:10.772388: I tensorflow/tsl/framework/bfc_allocator.cc:1106] Sum Total of in-use chunks: 21.07GiB
2026-03-14 11:40:10.772401: I tensorflow/tsl/framework/bfc_allocator.cc:1114] Stats:
Limit:                     23609344000
InUse:                     22622114304
MaxInUse:                  22741651456
2026-03-14 11:40:10.772553: W tensorflow/tsl/framework/bfc_allocator.cc:508] \
***************************************************************************************************x
2026-03-14 11:40:10.772602: W tensorflow/core/framework/op_kernel.cc:1828] OP_REQUIRES failed at \
conv_ops_fused_impl.h:625 : RESOURCE_EXHAUSTED: OOM when allocating tensor with shape[256,512,56,56] and type float \
on /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc
""",
        trace(
            """\
tensorflow.python.framework.errors_impl.ResourceExhaustedError: Graph execution error:

OOM when allocating tensor with shape[256,512,56,56] and type float on /job:localhost/replica:0/task:0/device:GPU:0 \
by allocator GPU_0_bfc
    [[{{node model/conv4_block6_2_conv/Conv2D}}]]
Hint: If you want to see a list of allocated tensors when OOM happens, add report_tensor_allocations_upon_oom to \
RunOptions for current allocation info. This isn't available when running in Eager mode.
 [Op:__inference_train_function_19312]""",
            "fit.py|58|<module>|model.fit(train, validation_data=valid, epochs=30)",
            "keras/utils/traceback_utils.py|70|error_handler|raise e.with_traceback(filtered_tb) from None",
        ),
        command="python fit.py",
        framework="tensorflow",
        evidence_alt=("Allocator (GPU_0_bfc) ran out of memory trying to allocate",),
    ),
    told(
        "cuda_oom/vllm_warms_up_its_sampler",
        "An engine of four workers cannot hold the logits of its dummy requests; the server then gives up.",
        "https://github.com/vllm-project/vllm/issues/14452",
        "RuntimeError: CUDA out of memory occurred when warming up sampler with 1024 dummy requests.",
        """\
INFO 03-14 06:10:02 [api_server.py:1043] vLLM API server version 0.8.5
INFO 03-14 06:11:49 [gpu_model_runner.py:1329] Model loading took 17.9312 GiB and 41.880113 seconds
(VllmWorker rank=2 pid=10743) INFO 03-14 06:12:31 [gpu_model_runner.py:1686] Graph capturing finished in 27 secs, \
took 0.61 GiB
""",
        labelled(
            "(VllmWorker rank=2 pid=10743) ERROR 03-14 06:12:38 [multiproc_executor.py:470] ",
            "WorkerProc hit an exception.\n"
            + trace(
                "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 594.00 MiB. GPU 2 has a total"
                " capacity of 23.52 GiB of which 411.69 MiB is free.",
                "vllm/v1/worker/gpu_model_runner.py|1571|_dummy_sampler_run|sampler_output ="
                " self.sampler(logits=logits,",
                "vllm/v1/sample/ops/topk_topp_sampler.py|219|apply_top_k_top_p|logits_sort, logits_idx ="
                " logits.sort(dim=-1, descending=False)",
            )
            + "\n\nThe above exception was the direct cause of the following exception:\n\n"
            + trace(
                "RuntimeError: CUDA out of memory occurred when warming up sampler with 1024 dummy requests."
                " Please try lowering `max_num_seqs` or `gpu_memory_utilization` when initializing the engine.",
                "vllm/v1/executor/multiproc_executor.py|465|worker_busy_loop|output = func(*args, **kwargs)",
                "vllm/v1/worker/gpu_model_runner.py|1575|_dummy_sampler_run|raise RuntimeError(",
            ),
        ),
        "ERROR 03-14 06:12:38 [core.py:396] EngineCore failed to start.",
        trace(
            "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
            "vllm/entrypoints/openai/api_server.py|1130|<module>|uvloop.run(run_server(args))",
            "vllm/v1/engine/core_client.py|418|_wait_for_engine_startup|raise RuntimeError(",
        ),
        command="vllm serve Qwen/Qwen2.5-32B-Instruct --tensor-parallel-size 4",
        framework="vllm",
        first_rank=2,
        evidence_alt=("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 594.00 MiB.",),
    ),
    told(
        "cuda_oom/vllm_has_no_room_for_its_cache",
        "The weights fill the card: no block of the cache is left.",
        "https://github.com/vllm-project/vllm/issues/2248",
        "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`",
        """\
INFO 03-14 13:20:55 [model_runner.py:1110] Starting to load model /models/mistral-small-22b...
Loading safetensors checkpoint shards: 100% Completed | 9/9 [00:31<00:00,  3.49s/it]
INFO 03-14 13:21:29 [model_runner.py:1115] Loading model weights took 41.4442 GB
INFO 03-14 13:21:33 [worker.py:266] the current vLLM instance can use total_gpu_memory (44.35GiB) x \
gpu_memory_utilization (0.90) = 39.91GiB
INFO 03-14 13:21:33 [executor_base.py:108] # cuda blocks: 0, # CPU blocks: 1638
""",
        trace(
            "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when"
            " initializing the engine.",
            "generate.py|12|<module>|llm = LLM(model=args.model, dtype='bfloat16')",
            "vllm/executor/executor_base.py|123|initialize_cache|self.collective_rpc('initialize_cache',",
            "vllm/worker/worker.py|501|raise_if_cache_size_invalid|raise ValueError('No available memory for the"
            " cache blocks. '",
        ),
        command="python generate.py --model /models/mistral-small-22b",
        framework="vllm",
        class_alt=("config_error",),
    ),
    told(
        "cuda_oom/no_room_for_a_handle_of_cublas",
        "The card is so full that cuBLAS cannot make its handle.",
        "https://docs.nvidia.com/cuda/cublas/#cublasstatus-t",
        "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        steps(40, seed=7181, style=2),
        trace(
            "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
            "finetune.py|77|<module>|trainer.train()",
            "transformers/trainer.py|2123|train|return inner_training_loop(",
            "transformers/models/bert/modeling_bert.py|367|forward|attention_scores = torch.matmul(query_layer,"
            " key_layer.transpose(-1, -2))",
        ),
        command="python finetune.py --per_device_train_batch_size 64",
        framework="transformers",
    ),
    told(
        "cuda_oom/kokkos_view_on_one_of_four",
        "A simulation in C++ with one card a rank: a view of rank 2 does not fit. Open MPI reports the abort.",
        "https://github.com/kynema/kynema-ugf/issues/926",
        "what():  Kokkos failed to allocate memory for label",
        interleaved([prefixed(_cells(rank), "mpirun", rank) for rank in range(4)], seed=7191),
        """\
[1,2]<stderr>:terminate called after throwing an instance of 'std::runtime_error'
[1,2]<stderr>:  what():  Kokkos failed to allocate memory for label "grid:particles".  Allocation using MemorySpace \
named "Cuda" failed with the following error:  Allocation of size 6.113 G failed, likely due to insufficient \
memory.  (The allocation mechanism was cudaMalloc().  The Cuda allocation returned the error code \
"cudaErrorMemoryAllocation".)
[1,2]<stderr>:
[1,2]<stderr>:[node01:22817] *** Process received signal ***
[1,2]<stderr>:[node01:22817] Signal: Aborted (6)
[1,2]<stderr>:[node01:22817] Signal code:  (-6)
[1,2]<stderr>:[node01:22817] *** End of error message ***
""",
        mpirun_ends(2, signal="signal 6 (Aborted)"),
        command="mpirun --tag-output -np 4 ./rarefied in.cone",
        status=134,
        framework="kokkos",
        first_rank=2,
    ),
    told(
        "cuda_oom/deepspeed_gathers_a_layer",
        "ZeRO-3 gathers the parameters of a layer on rank 3 of 4, then the launcher ends all.",
        _TORCH_DOC,
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 448.00 MiB.",
        """\
[2026-03-14 10:00:40,118] [INFO] [launch.py:256:main] process 51200 spawned with command: ['/opt/venv/bin/python', \
'-u', 'train.py', '--local_rank=0', '--deepspeed', 'zero3.json']
[2026-03-14 10:01:02,530] [INFO] [comm.py:658:init_distributed] Initializing TorchBackend in DeepSpeed with backend \
nccl
[2026-03-14 10:01:31,007] [WARNING] [stage3.py:2139:step] 1 pytorch allocator cache flushes since last step. this \
happens when there is high memory pressure and is detrimental to performance. if this is happening frequently \
consider adjusting settings to reduce memory consumption.
""",
        of_rank(
            3,
            trace(
                _new("448.00 MiB", 3, "79.11 GiB", "196.19 MiB", "78.91 GiB", "71.66 GiB", "5.02 GiB"),
                "train.py|120|<module>|engine.backward(loss)",
                "deepspeed/utils/nvtx.py|20|wrapped_fn|ret_val = func(*args, **kwargs)",
                "deepspeed/runtime/zero/partition_parameters.py|1217|all_gather_coalesced|flat_tensor ="
                " torch.empty(partition_sz * self.num_partitions,",
            ),
        ),
        deepspeed_ends(4),
        command="deepspeed --num_gpus 4 train.py --deepspeed zero3.json",
        framework="deepspeed",
        first_rank=3,
    ),
    told(
        "cuda_oom/nccl_has_no_room_for_its_buffers",
        "NCCL itself cannot allocate on a full card when the first collective of a group starts.",
        "https://github.com/rwth-i6/returnn/issues/1626",
        "NCCL WARN Cuda failure 2 'out of memory'",
        steps(1050, seed=7211, style=1),
        """\
node01:30184:30512 [1] NCCL INFO Using network IB
node01:30184:30512 [1] NCCL INFO comm 0x55c8a7f03e20 rank 1 nRanks 4 nNodes 1 localRanks 4 localRank 1 MNNVL 0

node01:30184:30512 [1] include/alloc.h:228 NCCL WARN Cuda failure 2 'out of memory'
node01:30184:30512 [1] include/alloc.h:241 NCCL WARN Failed to CUDA calloc 10485760 bytes
node01:30184:30512 [1] NCCL INFO transport/p2p.cc:225 -> 1
node01:30184:30512 [1] NCCL INFO init.cc:1263 -> 1
""",
        of_rank(
            1,
            trace(
                """\
torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.hpp:317, unhandled cuda \
error (run with NCCL_DEBUG=INFO for details), NCCL version 2.21.5
ncclUnhandledCudaError: Call to CUDA function failed.
Last error:
Failed to CUDA calloc 10485760 bytes""",
                "train.py|88|<module>|average(model)",
                "train.py|41|average|torch.distributed.all_reduce(parameter.data)",
                "torch/distributed/c10d_logger.py|83|wrapper|return func(*args, **kwargs)",
            ),
        ),
        torchrun_ends(1, 4),
        command="torchrun --nproc-per-node 4 train.py",
        first_rank=1,
        evidence_alt=("NCCL WARN Failed to CUDA calloc 10485760 bytes", "Failed to CUDA calloc 10485760 bytes"),
        class_alt=("nccl",),
    ),
    told(
        "cuda_oom/cupy_pool",
        "CuPy's memory pool cannot grow while an FFT is planned.",
        "https://docs.cupy.dev/en/stable/user_guide/memory.html",
        "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 8,589,934,592 bytes",
        """\
reading volume 14 of 20 (2048 x 2048 x 512)
denoising ...
""",
        trace(
            "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 8,589,934,592 bytes (allocated so far:"
            " 17,448,304,640 bytes).",
            "reconstruct.py|66|<module>|spectrum = cp.fft.fftn(volume)",
            "cupy/fft/_fft.py|637|_fftn|return _exec_fftn(a, direction, value_type, norm=norm, axes=axes_sorted,",
        ).replace(
            "cupy.cuda.memory.OutOf",
            '  File "cupy/cuda/memory.pyx", line 1255, in'
            " cupy.cuda.memory.SingleDeviceMemoryPool._alloc\ncupy.cuda.memory.OutOf",
        ),
        command="python reconstruct.py scans/",
        framework="cupy",
    ),
    told(
        "cuda_oom/somebody_else_on_the_card",
        "Most of the card belongs to a process that is not ours, which the message says.",
        "https://github.com/vllm-project/vllm/issues/27782",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 64.00 MiB.",
        "loading tokenizer\nloading model to cuda:0",
        trace(
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 64.00 MiB. GPU 0 has a total capacity"
            " of 79.15 GiB of which 18.69 MiB is free. Process 2920103 has 71.50 GiB memory in use. Process"
            " 2931877 has 7.62 GiB memory in use. Of the allocated memory 7.12 GiB is allocated by PyTorch, and"
            " 1.40 MiB is reserved by PyTorch but unallocated.",
            "infer.py|19|<module>|model = AutoModelForCausalLM.from_pretrained(path).to('cuda:0')",
            "torch/nn/modules/module.py|1340|to|return self._apply(convert)",
        ),
        framework="transformers",
        command="python infer.py",
    ),
    told(
        "cuda_oom/megatron_second_node_under_srun",
        "Megatron on two nodes with srun -l: task 12 runs out, srun kills the step, NCCL of the others complains.",
        _TORCH_DOC,
        "12: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 768.00 MiB.",
        interleaved([prefixed(training(1300, 7241, style=4), "srun", 15)], seed=7242),
        labelled(
            "12: ",
            trace(
                _new("768.00 MiB", 4, "79.11 GiB", "312.19 MiB", "78.80 GiB", "70.95 GiB", "5.81 GiB"),
                "pretrain_gpt.py|263|<module>|pretrain(train_valid_test_datasets_provider, model_provider,",
                "megatron/training/training.py|1214|train_step|losses_reduced = forward_backward_func(",
                "megatron/core/tensor_parallel/cross_entropy.py|32|forward|logits_max ="
                " torch.max(vocab_parallel_logits, dim=-1)[0]",
            ),
        ),
        """\
 3: [rank3]:[W314 10:02:12.771903114 ProcessGroupNCCL.cpp:1476] Warning: WARNING: destroy_process_group() was not \
called before program exit, which can leak resources.
 3: node01:4103:5120 [3] misc/socket.cc:71 NCCL WARN Connection closed by remote peer node02<41217>
""",
        srun_ends(12),
        command="srun -l python pretrain_gpt.py --tensor-model-parallel-size 8",
        framework="megatron",
        first_rank=12,
    ),
]
