"""One rank of several fails first, and the others follow: by an exception, a signal, a missing file, memory."""

from __future__ import annotations

from corpus.make.recipes.ranks_base import program, ranks

_SEGV = "import ctypes\nctypes.string_at(8)"


def at(rank: int, step: int, what: str) -> str:
    """Return lines that do something in one rank at one step."""
    body = "\n    ".join(what.splitlines())
    return f"if rank == {rank} and step == {step}:\n    {body}"


_EXCEPTIONS = [
    ranks(
        "traceback/rank_with_a_bad_record",
        "Rank 1 meets a record without a label.",
        "KeyError: 'label'",
        program("ddp", at(1, 25, 'record = {"image": step}\nreturn record["image"], record["label"]')),
        first_rank=1,
    ),
    ranks(
        "traceback/rank_decodes_latin_1",
        "The last rank's shard is not UTF-8; lines carry their rank.",
        "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xe9",
        program("allreduce", at(3, 12, 'text = b"caf\\xe9".decode()')),
        "tee",
        of=4,
        first_rank=3,
    ),
    ranks(
        "runtime_error/stage_of_a_pipeline",
        "The middle stage of a pipeline backpropagates twice; over 1,400 lines before.",
        "RuntimeError: Trying to backward through the graph a second time",
        program(
            "pipeline",
            at(1, 480, "x = torch.ones(2, requires_grad=True)\ny = (x * x).sum()\ny.backward()\ny.backward()"),
            steps=700,
        ),
        "bash",
        of=3,
        first_rank=1,
    ),
    ranks(
        "div_zero/rank_without_samples",
        "One rank's shard is empty, and the mean divides by its size.",
        "ZeroDivisionError: ",
        program("evaluate", at(2, 15, "samples = []\nmean = sum(samples) / len(samples)")),
        "mpirun",
        of=3,
        first_rank=2,
    ),
    ranks(
        "assertion/rank_sees_another_epoch",
        "Rank 0 asserts that all ranks are in one epoch; each rank is a run of its own.",
        "AssertionError: ranks disagree on the epoch: 0 vs 1",
        program("ddp", at(0, 30, 'assert step < 30, "ranks disagree on the epoch: 0 vs 1"')),
        "each",
        first_rank=0,
    ),
    ranks(
        "shape_mismatch/rank_with_a_short_batch",
        "Rank 1 has a batch of another width; processes spawned by one program.",
        "RuntimeError: mat1 and mat2 shapes cannot be multiplied (16x31 and 32x4)",
        program("ddp", at(1, 8, "return torch.randn(16, 31), torch.randint(4, (16,))")),
        "spawn",
        first_rank=1,
    ),
]
_SIGNALS = [
    ranks(
        "segfault/rank_under_torchrun",
        "Rank 1 reads an address that is not its own.",
        "Signal 11 (SIGSEGV) received by PID",
        program("ddp", at(1, 20, _SEGV)),
        first_rank=1,
    ),
    ranks(
        "segfault/rank_of_three_in_a_long_log",
        "The same behind 1,500 lines of three ranks, each line with its rank.",
        "Signal 11 (SIGSEGV) received by PID",
        program("ddp", at(2, 520, _SEGV), steps=800),
        "tee",
        of=3,
        first_rank=2,
        env={"PYTHONFAULTHANDLER": "1"},
        evidence_alt=("Fatal Python error: Segmentation fault",),
    ),
    ranks(
        "segfault/rank_aborts_under_mpirun",
        "Rank 0 aborts in native code; mpirun tells of it.",
        "exited on signal 6 (Aborted)",
        program("pipeline", at(0, 18, "os.abort()")),
        "mpirun",
        of=3,
        first_rank=0,
    ),
    ranks(
        "segfault/spawned_rank",
        "A process that torch.multiprocessing spawned dies by a bus error.",
        "terminated with signal SIGBUS",
        program("allreduce", at(1, 22, "import signal\nos.kill(os.getpid(), signal.SIGBUS)")),
        "spawn",
        of=3,
        first_rank=1,
    ),
    ranks(
        "segfault/rank_as_a_run_of_its_own",
        "Each rank is a run of its own: that of rank 1 ends by SIGSEGV and says nothing, its peer's log has the rest.",
        "",
        program("allreduce", at(1, 14, _SEGV)),
        "each",
        first_rank=1,
    ),
    ranks(
        "segfault/rank_with_faulthandler",
        "bash starts the ranks; faulthandler prints where rank 2 was.",
        "Fatal Python error: Segmentation fault",
        program("evaluate", at(2, 17, "import faulthandler\nfaulthandler.enable()\n" + _SEGV)),
        "bash",
        of=3,
        first_rank=2,
    ),
    ranks(
        "unknown/rank_killed_under_torchrun",
        "Rank 1 dies by SIGKILL, and nothing says who sent it.",
        "Signal 9 (SIGKILL) received by PID",
        program("ddp", at(1, 20, "import signal\nos.kill(os.getpid(), signal.SIGKILL)")),
        first_rank=1,
    ),
    ranks(
        "unknown/rank_killed_under_mpirun",
        "Rank 2 dies by SIGKILL in a log of 1,600 lines; mpirun tells.",
        "exited on signal 9 (Killed)",
        program("ddp", at(2, 540, "import signal\nos.kill(os.getpid(), signal.SIGKILL)"), steps=700),
        "mpirun",
        of=3,
        first_rank=2,
    ),
    ranks(
        "unknown/spawned_rank_killed",
        "A spawned process dies by SIGKILL.",
        "terminated with signal SIGKILL",
        program("allreduce", at(0, 9, "import signal\nos.kill(os.getpid(), signal.SIGKILL)")),
        "spawn",
        first_rank=0,
    ),
    ranks(
        "unknown/rank_killed_as_a_run_of_its_own",
        "Each rank is a run of its own, and the second is killed by SIGKILL.",
        "",
        program("ddp", at(1, 16, "import signal\nos.kill(os.getpid(), signal.SIGKILL)")),
        "each",
        first_rank=1,
    ),
]
_FILES = [
    ranks(
        "file_not_found/shard_of_one_rank",
        "The shard of rank 1 was not staged.",
        "FileNotFoundError: [Errno 2] No such file or directory: 'shards/train-00001-of-00002.pt'",
        program("ddp", 'if step == 10:\n    open(f"shards/train-{rank:05d}-of-{world:05d}.pt", "rb").read()'),
        prepare="mkdir shards && touch shards/train-00000-of-00002.pt",
        first_rank=1,
    ),
    ranks(
        "file_not_found/manifest_of_the_last_rank",
        "The manifest of the last of four ranks is missing; lines carry their rank, 1,200 of them.",
        "No such file or directory: 'manifest.3.json'",
        program("ddp", at(3, 300, 'open(f"manifest.{rank}.json")'), steps=400),
        "tee",
        of=4,
        first_rank=3,
    ),
    ranks(
        "file_not_found/vocabulary_under_mpirun",
        "Rank 0 alone reads the vocabulary, which is not there.",
        "FileNotFoundError: [Errno 2] No such file or directory: '/home/user/project/vocab.txt'",
        program("evaluate", at(0, 0, 'open(os.path.abspath("vocab.txt")).read()')),
        "mpirun",
        first_rank=0,
    ),
    ranks(
        "file_not_found/rank_as_a_run_of_its_own",
        "Each rank is a run of its own; rank 2 misses its checkpoint.",
        "FileNotFoundError: [Errno 2] No such file or directory: 'step-40/rank2.pt'",
        program("allreduce", at(2, 12, 'torch.load(f"step-40/rank{rank}.pt")')),
        "each",
        of=3,
        first_rank=2,
    ),
    ranks(
        "permission/log_folder_of_one_rank",
        "The folder of rank 1 belongs to root.",
        "PermissionError: [Errno 13] Permission denied: 'out/rank1/metrics.csv'",
        program("allreduce", 'if step == 5:\n    open(f"out/rank{rank}/metrics.csv", "w")'),
        "bash",
        prepare="mkdir -p out/rank0 out/rank1 && chown -R 1000 out && chown root out/rank1 && chmod 755 out/rank1",
        first_rank=1,
    ),
]
# One GiB more than it has.
_LIMIT = (
    "import resource\n"
    "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
    "resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 30),) * 2)\n"
)
_MEMORY = [
    ranks(
        "ram_oom/rank_gathers_everything",
        "Rank 0 keeps all activations, under a limit on its memory: torch's allocator gives up.",
        "DefaultCPUAllocator: can't allocate memory",
        program("evaluate", at(0, 20, _LIMIT + "kept = torch.zeros(40_000, 100_000)")),
        of=3,
        first_rank=0,
    ),
    ranks(
        "ram_oom/rank_with_a_memory_error",
        "Rank 1 builds a list of samples until Python has no memory left; lines carry their rank.",
        "MemoryError",
        program("ddp", at(1, 33, _LIMIT + "samples = []\nwhile True:\n    samples.append(bytearray(1 << 28))")),
        "tee",
        first_rank=1,
    ),
    ranks(
        "ram_oom/numpy_in_one_rank",
        "NumPy says which array rank 2 could not have; 1,100 lines before.",
        "Unable to allocate 74.5 GiB for an array with shape (100000, 100000)",
        program("ddp", at(2, 370, _LIMIT + "import numpy as np\nnp.ones((100_000, 100_000))"), steps=500),
        "mpirun",
        of=3,
        first_rank=2,
        uses=("torch", "numpy", "mpirun"),
    ),
    ranks(
        "oom_killer/rank_in_a_small_cgroup",
        "The control group of the job has 1 GiB: the kernel kills the rank that takes more, torchrun tells of SIGKILL.",
        "Signal 9 (SIGKILL) received by PID",
        program("ddp", at(1, 21, "kept = []\nwhile True:\n    kept.append(torch.ones(8 << 20))")),
        memory_mib=1400,
        first_rank=1,
    ),
    ranks(
        "oom_killer/rank_under_mpirun_in_a_small_cgroup",
        "The same with mpirun and three ranks; rank 0 takes the memory.",
        "exited on signal 9 (Killed)",
        program("allreduce", at(0, 21, "kept = []\nwhile True:\n    kept.append(torch.ones(8 << 20))")),
        "mpirun",
        of=3,
        memory_mib=1700,
        first_rank=0,
    ),
]

RECIPES = [*_EXCEPTIONS, *_SIGNALS, *_FILES, *_MEMORY]
