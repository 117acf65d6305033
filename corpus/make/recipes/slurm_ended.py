"""Jobs on Slurm that were ended from outside: time limits, preemption, nodes that die, scancel."""

from __future__ import annotations

from corpus.make.recipes.slurm_base import EXEC, INSIDE, STEP, trainer
from corpus.make.slurm import cancelled, dropped, node_dies, node_is_set_down, preempted, submitted

_USR1 = """\
import signal


def save(number, frame):
    print("received SIGUSR1: 50 s of walltime left, saving outputs/last.ckpt", flush=True)
    THEN


signal.signal(signal.SIGUSR1, save)
"""
_TERM = """\
import signal


def save(number, frame):
    print(f"[rank {rank}] got SIGTERM, saving outputs/last.ckpt", flush=True)


signal.signal(signal.SIGTERM, save)
"""
_PROGRESS = """\
for part in chatter.progress(400, seed=9140):
    sys.stderr.write(part)
    sys.stderr.flush()
    time.sleep(0.25)
"""
_OUTER = "exec gpualert run -- srun -l python -u train.py"
_LIMIT = "DUE TO TIME LIMIT ***"

_WALLTIME = [
    submitted(
        "walltime/slurm_exec",
        "sbatch --time=1; the batch shell becomes gpualert; a log of 1,400 lines.",
        _LIMIT,
        EXEC,
        "--time=1",
        files={"train.py": trainer(1400, 9100, 0)},
    ),
    submitted(
        "walltime/slurm_in_a_script",
        "sbatch --time=1; a line of a script, which Slurm kills with all that runs below it.",
        _LIMIT,
        f"echo 'job starts'\n{INSIDE}\necho 'uploading results'",
        "--time=1",
        files={"train.py": trainer(60, 9110, 1)},
    ),
    submitted(
        "walltime/slurm_step",
        "sbatch --time=1; the training is a step of its own.",
        "",
        STEP,
        "--time=1",
        files={"train.py": trainer(30, 9120, 2)},
    ),
    submitted(
        "walltime/slurm_signal_before_it",
        "sbatch --time=1 --signal=B:USR1@50: the training saves a checkpoint at the signal, and ends with status 1.",
        "received SIGUSR1: 50 s of walltime left",
        EXEC,
        "--time=1 --signal=B:USR1@50",
        files={"train.py": trainer(80, 9130, 3, before=_USR1.replace("THEN", "sys.exit(1)"))},
    ),
    submitted(
        "walltime/slurm_progress_bar",
        "sbatch --time=1; nothing but a progress bar in the log when the time is over.",
        _LIMIT,
        EXEC,
        "--time=1",
        files={"train.py": trainer(12, 9140, 4, then=_PROGRESS)},
    ),
    submitted(
        "walltime/slurm_step_of_four_ranks",
        "sbatch --time=1; four ranks on two nodes under one srun, 1,600 lines; each saves at the signal and goes on.",
        _LIMIT,
        _OUTER,
        "--time=1 --signal=USR1@50 -N2 -n4",
        files={"train.py": trainer(400, 9150, 0, before=_USR1.replace("THEN", "pass"))},
    ),
]
_PREEMPTED = [
    submitted(
        "preempted/slurm_cancelled",
        "A job of a partition of higher priority takes the node; this one must not be requeued. 1,200 lines.",
        "DUE TO PREEMPTION ***",
        EXEC,
        "--partition=spare --cpus-per-task=2 --no-requeue",
        files={"train.py": trainer(1200, 9200, 1)},
        act=preempted(),
    ),
    submitted(
        "preempted/slurm_requeued",
        "A job of a partition of higher priority takes the node; Slurm puts this one back into the queue.",
        "DUE TO PREEMPTION ***",
        EXEC,
        "--partition=spare --cpus-per-task=2",
        files={"train.py": trainer(70, 9210, 3)},
        act=preempted(dropped),
    ),
    submitted(
        "preempted/slurm_step_of_two_ranks",
        "Two ranks under one srun, preempted together.",
        "DUE TO PREEMPTION ***",
        _OUTER,
        "--partition=spare --ntasks=2 --no-requeue",
        files={"train.py": trainer(90, 9220, 2)},
        act=preempted(),
    ),
    submitted(
        "preempted/slurm_grace_time_used",
        "A partition with grace time: the tasks get SIGTERM first, save a checkpoint, and are ended 12 s later.",
        "DUE TO PREEMPTION ***",
        _OUTER,
        "--partition=grace --ntasks=2 --no-requeue",
        files={"train.py": trainer(55, 9230, 4, before=_TERM)},
        act=preempted(),
    ),
    submitted(
        "preempted/slurm_grace_time_ends_it",
        "A partition with grace time: the step does not know what to do with SIGTERM, and dies of it.",
        "",
        STEP,
        "--partition=grace --cpus-per-task=2 --no-requeue",
        files={"train.py": trainer(35, 9240, 0)},
        act=preempted(),
    ),
]
_NODES = [
    submitted(
        "node_failure/slurm_power_cut",
        "The node is gone at once, with all that ran there; only the scheduler can tell.",
        "",
        EXEC,
        "--partition=doomed --no-requeue",
        files={"train.py": trainer(65, 9300, 2)},
        act=node_dies,
        is_doomed=True,
    ),
    submitted(
        "node_failure/slurm_set_down",
        "An administrator sets the node down, and Slurm ends its jobs; 1,300 lines.",
        "DUE TO NODE FAILURE",
        EXEC,
        "--partition=doomed --no-requeue",
        files={"train.py": trainer(1300, 9310, 4)},
        act=node_is_set_down,
        is_doomed=True,
        evidence_alt=("State=NODE_FAIL",),
    ),
    submitted(
        "node_failure/slurm_one_of_two_nodes",
        "Two ranks under one srun; the node of the second dies.",
        "srun: error: Node failure on n8",
        "exec gpualert run -- srun -l python -u train.py",
        "--partition=wide --nodes=2 --ntasks=2 --no-requeue",
        files={"train.py": trainer(45, 9320, 1)},
        act=node_dies,
        is_doomed=True,
        evidence_alt=("DUE TO NODE FAILURE",),
        first_rank=1,
    ),
    submitted(
        "node_failure/slurm_ranks_of_single_runs",
        "Two ranks, each a run of its own; the node of the second dies, and nobody sees it end.",
        "",
        STEP,
        "--partition=wide --nodes=2 --ntasks=2 --no-requeue",
        files={"train.py": trainer(50, 9330, 3)},
        act=node_dies,
        is_doomed=True,
        first_rank=1,
    ),
]
_CANCELLED = [
    submitted(
        "interrupted/slurm_scancel",
        "scancel by the owner; the batch shell became gpualert. 1,250 lines.",
        "CANCELLED AT",
        EXEC,
        files={"train.py": trainer(1250, 9400, 0)},
        act=cancelled(),
        evidence_alt=("CANCELLED by",),
    ),
    submitted(
        "interrupted/slurm_scancel_of_a_step",
        "scancel by the owner; the training is a step of its own.",
        "",
        STEP,
        files={"train.py": trainer(42, 9410, 1)},
        act=cancelled(),
    ),
    submitted(
        "interrupted/slurm_scancel_of_four_ranks",
        "scancel by the owner; four ranks under one srun, which tells.",
        "CANCELLED AT",
        _OUTER,
        "-N2 -n4",
        files={"train.py": trainer(60, 9420, 2)},
        act=cancelled(),
        evidence_alt=("CANCELLED by",),
    ),
    submitted(
        "interrupted/slurm_scancel_with_sigint",
        "scancel --signal=INT: each step's program gets what Ctrl-C sends.",
        "KeyboardInterrupt",
        "exec gpualert run -- srun python -u train.py",
        files={"train.py": trainer(38, 9430, 4)},
        act=cancelled("--signal=INT"),
    ),
]

RECIPES = [*_WALLTIME, *_PREEMPTED, *_NODES, *_CANCELLED]
