"""Jobs on Slurm whose program never ran, that took too much memory, or that ran again."""

from __future__ import annotations

from corpus.make.recipes.slurm_base import EXEC, trainer
from corpus.make.slurm import node_dies, preempted, started_again, submitted
from corpus.make.slurm_user import MARK

_GROW = """\
rows = []
for number in range(200):
    rows.append(bytearray(5_000_000))
    print(f"cached shard {number:03d}", flush=True)
"""
_GROW_ON_1 = """\
if rank == 1:
    rows = [bytearray(5_000_000) for _ in range(200)]
time.sleep(60)
"""
# The first attempt puts the job back into the queue itself.
_TWICE = """\
restart = int(os.environ.get("SLURM_RESTART_COUNT", 0))
if restart == 0:
    import subprocess

    print("saved outputs/last.ckpt, asking for more time", flush=True)
    subprocess.run(["scontrol", "requeue", os.environ["SLURM_JOB_ID"]])
    time.sleep(60)
"""
_RESUMED = """\
restart = int(os.environ.get("SLURM_RESTART_COUNT", 0))
if restart == 0:
    time.sleep(60)
print(f"restart {restart} of this job: its last attempt was preempted", flush=True)
"""

_LAUNCH = [
    submitted(
        "launch_failed/slurm_no_such_program",
        "srun cannot execute a program that was not built; four tasks on two nodes.",
        "slurmstepd: error: execve(): ",
        "exec gpualert run -- srun ./build/solve input.nml",
        "-N2 -n4",
        class_alt=("command_not_found", "file_not_found"),
        action="fix",
    ),
    submitted(
        "launch_failed/slurm_no_such_folder",
        "srun --chdir names a folder that is not there; slurmstepd starts in /tmp, where the program is not.",
        "couldn't chdir to `/scratch/run17'",
        "exec gpualert run -- srun --chdir=/scratch/run17 python train.py",
        files={"train.py": trainer(20, 9500, 0)},
        class_alt=("file_not_found",),
        action="fix",
        evidence_alt=("can't open file",),
    ),
    submitted(
        "launch_failed/slurm_no_folder_for_output",
        "srun --output names a folder that is not there.",
        "srun: error: task 0 launch failed: Slurmd could not connect IO",
        "exec gpualert run -- srun --output=/scratch/logs/%t.out python train.py",
        "-n2",
        files={"train.py": trainer(20, 9510, 0)},
        class_alt=("file_not_found",),
        action="fix",
    ),
    submitted(
        "launch_failed/slurm_more_than_the_job_has",
        "srun asks for more nodes than the job has; the script has prepared its data before, in 1,100 lines.",
        "srun: error: Only allocated 1 nodes asked for 4",
        "gpualert run -- bash steps.sh",
        files={
            "steps.sh": "python prepare.py || exit\nexec srun --nodes=4 --ntasks=4 python train.py\n",
            "prepare.py": trainer(1100, 9520, 1, then=""),
            "train.py": trainer(20, 9521, 0),
        },
        class_alt=("config_error",),
        action="fix",
    ),
    submitted(
        "launch_failed/slurm_no_such_partition",
        "srun on a login node names a partition that the cluster does not have.",
        "srun: error: Unable to allocate resources: ",
        "gpualert run -- srun --partition=gpu --nodes=2 python train.py",
        None,
        files={"train.py": trainer(20, 9530, 0)},
        class_alt=("config_error",),
        action="fix",
        evidence_alt=("srun: error: invalid partition specified",),
    ),
    submitted(
        "launch_failed/slurm_node_does_not_answer",
        "A job's second node has died before the step that is to run there; the job may go on without it (--no-kill).",
        "srun: error: Task launch for StepId",
        f"echo '{MARK}'\nuntil [ -e node-is-dead ]; do sleep 0.1; done\n"
        "exec gpualert run -- srun --relative=1 -N1 -n1 python -u train.py",
        "--partition=wide --nodes=2 --no-requeue --no-kill",
        files={"train.py": trainer(20, 9540, 0)},
        act=node_dies,
        is_doomed=True,
        class_alt=("node_failure",),
        evidence_alt=("srun: error: Application launch failed",),
    ),
]
_MEMORY = [
    submitted(
        "oom_killer/slurm_batch",
        "sbatch --mem=100: the kernel kills the program in the job's control group; 1,100 lines, and no word of it.",
        "",
        EXEC,
        "--mem=100",
        files={"train.py": trainer(1100, 9600, 2, then=_GROW)},
    ),
    submitted(
        "oom_killer/slurm_step",
        "srun in a job with --mem=120: slurmstepd tells of the kill.",
        "slurmstepd: error: Detected 1 oom-kill event",
        "exec gpualert run -- srun python -u train.py",
        "--mem=120",
        files={"train.py": trainer(33, 9610, 3, then=_GROW)},
        evidence_alt=("Out Of Memory",),
    ),
    submitted(
        "oom_killer/slurm_child_and_status_zero",
        "sbatch --mem=120: a program of the script is killed, and the script ends with status 0.",
        "Killed",
        "gpualert run -- bash pipeline.sh",
        "--mem=120",
        files={
            "pipeline.sh": "echo embedding\npython -u train.py\necho cleaning up\nrm -f tmp-*\nexit 0\n",
            "train.py": trainer(25, 9620, 4, then=_GROW),
        },
    ),
    submitted(
        "oom_killer/slurm_one_rank",
        "Three ranks on three nodes, each a run of its own; the second one's control group is too small for it.",
        "",
        "srun -K gpualert run -- python -u train.py",
        "-N3 -n3 --mem=120",
        files={"train.py": trainer(350, 9630, 0, then=_GROW_ON_1)},
        first_rank=1,
    ),
]
_AGAIN = [
    submitted(
        "success/slurm_after_a_requeue",
        "The first attempt requeues its own job; the second one ends well.",
        "training finished",
        EXEC,
        files={"train.py": trainer(45, 9700, 1, then=_TWICE + 'print(f"training finished, restarts: {restart}")\n')},
        act=started_again,
        attempt=1,
    ),
    submitted(
        "success/slurm_after_preemption",
        "The first attempt is preempted; the second one goes on in the same file, and ends well after 1,150 lines.",
        "1 restart, 0 errors",
        EXEC,
        "--partition=spare --cpus-per-task=2 --open-mode=append",
        files={"train.py": trainer(1150, 9710, 0, then=_RESUMED + 'print("done: 1 restart, 0 errors")\n')},
        act=preempted(started_again),
        attempt=1,
    ),
    submitted(
        "div_zero/slurm_after_a_requeue",
        "The first attempt requeues its own job; the second one has no rows left to divide by.",
        "ZeroDivisionError: division by zero",
        EXEC,
        files={"train.py": trainer(1080, 9720, 3, then=_TWICE + "rows = []\nprint(sum(rows) / len(rows))\n")},
        act=started_again,
        attempt=1,
    ),
    submitted(
        "file_not_found/slurm_after_preemption",
        "The first attempt is preempted before it has saved; the second one does not find what it wants to resume.",
        "FileNotFoundError: [Errno 2] No such file or directory: 'outputs/last.ckpt'",
        EXEC,
        "--partition=spare --cpus-per-task=2",
        files={"train.py": trainer(48, 9730, 4, then=_RESUMED + 'open("outputs/last.ckpt", "rb")\n')},
        act=preempted(started_again),
        attempt=1,
    ),
]

RECIPES = [*_LAUNCH, *_MEMORY, *_AGAIN]
