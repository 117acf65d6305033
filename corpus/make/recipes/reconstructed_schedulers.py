"""Jobs that a scheduler, a cloud or a kubelet ended, and jobs whose own code never ran."""

from __future__ import annotations

from corpus.make.chatter import interleaved, prefixed, training
from corpus.make.recipes.reconstructed_base import steps, told, trace, watchdog

_SLURM = "https://slurm.schedmd.com/job_state_codes.html"
_SLURMSTEPD = "https://github.com/SchedMD/slurm/blob/master/src/slurmd/slurmstepd/req.c"
_AT = "AT 2026-03-14T10:02:13"

PREEMPTED = [
    told(
        "preempted/job_of_slurm",
        "A partition of higher priority takes the node; Slurm ends the job.",
        "https://github.com/SystemsGenetics/GEMmaker/pull/242",
        "slurmstepd: error: *** JOB 48211 ON node01 CANCELLED AT 2026-03-14T10:02:13 DUE TO PREEMPTION ***",
        steps(1300, seed=8100, style=1),
        f"slurmstepd: error: *** JOB 48211 ON node01 CANCELLED {_AT} DUE TO PREEMPTION ***",
        status=143,
        signal=15,
        facts={"scheduler_state": "PREEMPTED"},
    ),
    told(
        "preempted/step_of_many_tasks",
        "The step of a preempted job is ended: every task is terminated, one of them in the middle of a collective.",
        _SLURMSTEPD,
        "DUE TO PREEMPTION ***",
        interleaved([prefixed(training(40, 8110 + rank, style=0), "srun", rank) for rank in range(8)], seed=8111),
        f"""\
slurmstepd: error: *** STEP 48211.0 ON node01 CANCELLED {_AT} DUE TO PREEMPTION ***
srun: Job step aborted: Waiting up to 32 seconds for job step to finish.
3: node01:4103:5120 [3] misc/socket.cc:71 NCCL WARN Connection closed by remote peer node02<41217>
srun: error: node01: tasks 0-3: Terminated
srun: error: node02: tasks 4-7: Terminated
""",
        command="srun -l python train.py",
        status=143,
    ),
    told(
        "preempted/spot_instance_of_aws",
        "A watcher beside the training reads the notice of the cloud, two minutes before the end.",
        "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html",
        'spot interruption notice: {"action": "terminate", "time": "2026-03-14T10:04:00Z"}',
        steps(120, seed=8120, style=2),
        """\
[watcher] 2026-03-14T10:02:01Z spot interruption notice: {"action": "terminate", "time": "2026-03-14T10:04:00Z"}
[watcher] 2026-03-14T10:02:01Z sending SIGTERM to 4711
saving checkpoint to /fsx/run/step_000120.pt
Terminated
""",
        command="bash train.sh",
        status=143,
        signal=15,
    ),
    told(
        "preempted/instance_of_google",
        "The metadata server says that the instance is being preempted.",
        "https://cloud.google.com/compute/docs/instances/preemptible",
        "instance/preempted changed to TRUE: this instance is being preempted",
        steps(80, seed=8130, style=3),
        """\
shutdown-script: instance/preempted changed to TRUE: this instance is being preempted
shutdown-script: uploading last checkpoint ... done
""",
        status=143,
        signal=15,
    ),
    told(
        "preempted/pod_for_a_more_important_one",
        "The scheduler of Kubernetes removes the pod; the launcher prints its events.",
        "https://kubernetes.io/docs/concepts/scheduling-eviction/pod-priority-preemption/",
        "Preempted in order to admit a higher priority pod",
        steps(1040, seed=8140, style=0),
        """\
train-0 terminated; events of the pod:
  Normal   Scheduled  7h40m  default-scheduler  Successfully assigned ml/train-0 to gpu-node-17
  Warning  Preempting 12s    kubelet            Preempted in order to admit a higher priority pod
""",
        command="python submit.py --follow train-0",
        framework="kubernetes",
        status=143,
    ),
    told(
        "preempted/evicted_by_the_kubelet",
        "The kubelet evicts the pod, as its node runs out of local disk.",
        "https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/",
        "The node was low on resource: ephemeral-storage.",
        steps(50, seed=8150, style=1),
        """\
  Warning  Evicted    41s    kubelet            The node was low on resource: ephemeral-storage. Threshold \
quantity: 10Gi, available: 9843Mi. Container trainer was using 412Gi, request is 0, has larger consumption of \
ephemeral-storage.
  Normal   Killing    41s    kubelet            Stopping container trainer
pod ml/train-0 failed: reason Evicted
""",
        command="python submit.py --follow train-0",
        framework="kubernetes",
        status=1,
        class_alt=("disk_full",),
        action="bigger",  # it was its own files that filled the disk
        evidence_alt=("reason Evicted",),
    ),
]

NODES = [
    told(
        "node_failure/job_of_slurm",
        "Slurm has lost a node and ends the job.",
        "https://slurm.schedmd.com/slurm.conf.html#OPT_SlurmdTimeout",
        "DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***",
        steps(1100, seed=8200, style=4),
        f"slurmstepd: error: *** JOB 48211 ON node01 CANCELLED {_AT} DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR"
        f" DETAILS ***",
        status=143,
        signal=15,
        framework="megatron",
        facts={"scheduler_state": "NODE_FAIL"},
    ),
    told(
        "node_failure/told_by_srun",
        "srun hears of the failed node; the tasks of the other node only see that their peers have gone.",
        "https://github.com/SchedMD/slurm/blob/master/src/api/step_launch.c",
        "srun: error: Node failure on node02",
        interleaved([prefixed(training(60, 8210 + rank, style=1), "srun", rank) for rank in range(4)], seed=8211),
        f"""\
srun: error: Node failure on node02
srun: Job step aborted: Waiting up to 32 seconds for job step to finish.
1: node01:4101:5120 [1] misc/socket.cc:71 NCCL WARN Connection closed by remote peer node02<41217>
slurmstepd: error: *** STEP 48211.0 ON node01 CANCELLED {_AT} DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***
srun: error: node01: tasks 0-3: Terminated
""",
        command="srun -l python train.py",
        status=143,
        evidence_alt=("DUE TO NODE FAILURE",),
    ),
    told(
        "node_failure/only_the_scheduler_knows",
        "The log of the surviving node ends with time-outs of NCCL; the scheduler knows that the other node died.",
        _SLURM,
        "",
        steps(200, seed=8220, style=0),
        *(watchdog(rank, 731) for rank in (0, 1, 2, 3)),
        status=134,
        facts={"scheduler_state": "NODE_FAIL"},
        class_alt=("nccl",),
    ),
    told(
        "node_failure/not_ready_in_kubernetes",
        "The node of a pod stops reporting; the controller deletes the pod.",
        "https://kubernetes.io/docs/concepts/architecture/nodes/",
        "Warning  NodeNotReady  40s  node-controller  Node is not ready",
        steps(90, seed=8230, style=2),
        """\
events of pod ml/train-3:
  Warning  NodeNotReady  40s  node-controller  Node is not ready
  Normal   TaintManagerEviction  2s  taint-eviction-controller  Marking for deletion Pod ml/train-3
job ml/train: worker 3 lost
""",
        command="python submit.py --follow train",
        framework="kubernetes",
    ),
    told(
        "node_failure/daemon_of_open_mpi",
        "Open MPI has lost the daemon of a node.",
        "https://docs.open-mpi.org/en/v5.0.x/",
        "ORTE has lost communication with a remote daemon.",
        (f"iteration {n} residual {1 / (n + 1):.6e}" for n in range(1150)),
        """\
--------------------------------------------------------------------------
ORTE has lost communication with a remote daemon.

  HNP daemon   : [[9142,0],0] on node node01
  Remote daemon: [[9142,0],1] on node node02

This is usually due to either a failure of the TCP network
connection to the node, or possibly an internal failure of
the daemon itself. We cannot recover from this failure, and
therefore will terminate the job.
--------------------------------------------------------------------------
""",
        command="mpirun -np 64 ./solve",
        framework="mpi",
        status=205,
        class_alt=("network",),
    ),
    told(
        "node_failure/marked_dead_by_ray",
        "Ray marks a node as dead that has not answered its health checks; the actor on it is gone.",
        "https://docs.ray.io/en/latest/ray-core/fault_tolerance/nodes.html",
        "has been marked dead because the detector has missed too many heartbeats from it.",
        "(TrainWorker pid=2214, ip=10.0.0.7) step 1200 loss 2.81\n(TrainWorker pid=2190, ip=10.0.0.6) step 1200"
        " loss 2.81",
        "(raylet) The node with node id: 6f2c1b3e0000 and address: 10.0.0.7 and node name: 10.0.0.7 has been"
        " marked dead because the detector has missed too many heartbeats from it. This can happen when a raylet"
        " crashes unexpectedly (OOM, etc.) or has lagging heartbeats due to slow network or busy workload.",
        trace(
            "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n   "
            " class_name: TrainWorker\n    ip: 10.0.0.7\nThe actor died because its node has died. Node Id:"
            " 6f2c1b3e0000",
            "tune.py|51|<module>|trainer.fit()",
            "ray/train/base_trainer.py|638|fit|raise TrainingFailedError(",
        ),
        command="python tune.py",
        framework="ray",
        evidence_alt=("The actor died because its node has died.",),
    ),
]

WALLTIME = [
    told(
        "walltime/job_of_slurm",
        "The time of the job is over.",
        _SLURM,
        "DUE TO TIME LIMIT ***",
        steps(1500, seed=8300, style=3),
        f"slurmstepd: error: *** JOB 48211 ON node01 CANCELLED {_AT} DUE TO TIME LIMIT ***",
        status=143,
        signal=15,
        facts={"scheduler_state": "TIMEOUT"},
    ),
    told(
        "walltime/step_with_cascades",
        "The step is ended for its time; on the way out, ranks lose each other and Python is interrupted.",
        _SLURMSTEPD,
        "DUE TO TIME LIMIT ***",
        interleaved([prefixed(training(300, 8310 + rank, style=4), "srun", rank) for rank in range(4)], seed=8311),
        f"""\
slurmstepd: error: *** STEP 48211.0 ON node01 CANCELLED {_AT} DUE TO TIME LIMIT ***
srun: Job step aborted: Waiting up to 32 seconds for job step to finish.
slurmstepd: error: *** JOB 48211 ON node01 CANCELLED {_AT} DUE TO TIME LIMIT ***
2: torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.hpp:317, remote \
process exited or there was a network error, NCCL version 2.21.5
srun: error: node01: tasks 0-1,3: Terminated
srun: error: node01: task 2: Exited with exit code 1
""",
        command="srun -l python pretrain.py",
        framework="megatron",
        status=143,
    ),
    told(
        "walltime/pbs",
        "PBS ends the job for its walltime.",
        "https://help.altair.com/2022.1.0/PBS%20Professional/PBSUserGuide2022.1.pdf",
        "=>> PBS: job killed: walltime 86412 exceeded limit 86400",
        steps(60, seed=8320, style=1),
        "=>> PBS: job killed: walltime 86412 exceeded limit 86400",
        status=143,
        signal=15,
    ),
    told(
        "walltime/lsf",
        "LSF ends the job and says so in its report.",
        "https://www.ibm.com/docs/en/spectrum-lsf/10.1.0?topic=job-termination-reasons",
        "TERM_RUNLIMIT: job killed after reaching LSF run time limit.",
        steps(60, seed=8330, style=0),
        """\
User defined signal 2
------------------------------------------------------------
TERM_RUNLIMIT: job killed after reaching LSF run time limit.
Exited with exit code 140.

Resource usage summary:

    CPU time :                                   345210.00 sec.
    Max Memory :                                 48211 MB
""",
        status=140,
    ),
    told(
        "walltime/only_the_scheduler_knows",
        "The program gets a signal, saves and leaves; that it was the time limit stands in the scheduler's record.",
        _SLURM,
        "",
        steps(75, seed=8340, style=2),
        "signal 15 received, saving checkpoint before leaving\nsaved /scratch/run/step_000075.pt (3.20 s)",
        status=143,
        facts={"scheduler_state": "TIMEOUT"},
    ),
    told(
        "walltime/deadline_of_kubernetes",
        "A job of Kubernetes has been active longer than its deadline.",
        "https://kubernetes.io/docs/concepts/workloads/controllers/job/#job-termination-and-cleanup",
        "Job was active longer than specified deadline",
        steps(30, seed=8350, style=3),
        "  Warning  DeadlineExceeded  5s  job-controller  Job was active longer than specified deadline",
        command="python submit.py --follow train",
        framework="kubernetes",
        status=1,
    ),
]

LAUNCH = [
    told(
        "launch_failed/image_cannot_be_imported",
        "pyxis cannot import the image; the program is not reached.",
        "https://github.com/NVIDIA/pyxis/issues/127",
        "slurmstepd: error: pyxis: failed to import docker image",
        """\
pyxis: importing docker image: nvcr.io/nvidia/pytorch:24.13-py3
slurmstepd: error: pyxis: child 10028 failed with error code: 1
slurmstepd: error: pyxis: failed to import docker image
slurmstepd: error: pyxis: printing enroot log file:
slurmstepd: error: pyxis:     [INFO] Querying registry for permission grant
slurmstepd: error: pyxis:     [ERROR] URL https://nvcr.io/v2/nvidia/pytorch/manifests/24.13-py3 returned error \
code: 404 Not Found
slurmstepd: error: pyxis: couldn't start container
slurmstepd: error: spank: required plugin spank_pyxis.so: task_init() failed with rc=-1
slurmstepd: error: Failed to invoke spank plugin stack
srun: error: node01: task 0: Exited with exit code 1
""",
        command="srun --container-image nvcr.io/nvidia/pytorch:24.13-py3 python train.py",
        framework="pyxis",
        action="fix",
        evidence_alt=("pyxis: couldn't start container", "returned error code: 404 Not Found"),
    ),
    told(
        "launch_failed/no_connection_to_a_node",
        "srun cannot launch on one of two nodes.",
        "https://github.com/SchedMD/slurm/blob/master/src/api/step_launch.c",
        "srun: error: Task launch for StepId=48211.0 failed on node node02: Communication connection failure",
        """\
srun: error: Task launch for StepId=48211.0 failed on node node02: Communication connection failure
srun: error: Application launch failed: Communication connection failure
srun: Job step aborted: Waiting up to 32 seconds for job step to finish.
slurmstepd: error: *** STEP 48211.0 ON node01 CANCELLED AT 2026-03-14T10:02:13 ***
srun: error: Timed out waiting for job step to complete
""",
        command="srun -N 2 python train.py",
        evidence_alt=("srun: error: Application launch failed",),
        framework="slurm",
    ),
    told(
        "launch_failed/step_wants_what_the_job_has_not",
        "The step asks for cards that the job was not given.",
        "https://slurm.schedmd.com/gres.html",
        "srun: error: Unable to create step for job 48211: Invalid generic resource (gres) specification",
        "== job 48211 on node01 ==\nsrun: error: Unable to create step for job 48211: Invalid generic resource"
        " (gres) specification",
        command="bash job.sh",
        action="fix",
        framework="slurm",
        class_alt=("config_error",),
    ),
    told(
        "launch_failed/runtime_finds_no_driver",
        "Docker's hook for cards cannot start the container.",
        "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/troubleshooting.html",
        "nvidia-container-cli: initialization error: nvml error: driver not loaded",
        "docker: Error response from daemon: failed to create task for container: failed to create shim task: OCI"
        " runtime create failed: runc create failed: unable to start container process: error during container"
        " init: error running prestart hook #0: exit status 1, stdout: , stderr: Auto-detected mode as"
        " 'legacy'\nnvidia-container-cli: initialization error: nvml error: driver not loaded: unknown.",
        command="docker run --gpus all trainer:latest",
        framework="docker",
        status=125,
        class_alt=("cuda_driver",),
        evidence_alt=("OCI runtime create failed",),
    ),
    told(
        "launch_failed/image_of_apptainer_is_missing",
        "Apptainer cannot open the image.",
        "https://apptainer.org/docs/user/main/",
        "FATAL:   could not open image /images/torch-24.06.sif: failed to retrieve path for /images/torch-24.06.sif",
        "FATAL:   could not open image /images/torch-24.06.sif: failed to retrieve path for"
        " /images/torch-24.06.sif: lstat /images/torch-24.06.sif: no such file or directory",
        command="apptainer exec --nv /images/torch-24.06.sif python train.py",
        framework="apptainer",
        status=255,
        action="fix",
        class_alt=("file_not_found",),
    ),
    told(
        "launch_failed/prolog_of_the_node",
        "The prolog of a node fails before the tasks are started.",
        "https://slurm.schedmd.com/prolog_epilog.html",
        "srun: error: Task launch for StepId=48211.0 failed on node node02: Job prolog failed",
        """\
srun: job 48211 queued and waiting for resources
srun: job 48211 has been allocated resources
srun: error: Task launch for StepId=48211.0 failed on node node02: Job prolog failed
srun: error: Application launch failed: Job prolog failed
srun: Job step aborted
""",
        command="srun python train.py",
        framework="slurm",
        evidence_alt=("srun: error: Application launch failed",),
    ),
    told(
        "launch_failed/too_few_slots",
        "Open MPI is asked for more ranks than it has slots.",
        "https://docs.open-mpi.org/en/v5.0.x/launching-apps/scheduling.html",
        "There are not enough slots available in the system to satisfy the 8",
        """\
--------------------------------------------------------------------------
There are not enough slots available in the system to satisfy the 8
slots that were requested by the application:

  ./solve

Either request fewer procs for your application, or make more slots
available for use.
--------------------------------------------------------------------------
""",
        command="mpirun -np 8 ./solve",
        framework="mpi",
        action="fix",
        class_alt=("config_error",),
    ),
    told(
        "launch_failed/program_is_not_on_the_node",
        "slurmstepd cannot execute the program on the second node; the first rank to say so is 1.",
        _SLURMSTEPD,
        "slurmstepd: error: execve(): /home/user/project/build/solve: No such file or directory",
        """\
slurmstepd: error: execve(): /home/user/project/build/solve: No such file or directory
srun: error: node02: task 1: Exited with exit code 2
srun: Terminating StepId=48211.0
slurmstepd: error: *** STEP 48211.0 ON node01 CANCELLED AT 2026-03-14T10:02:13 ***
srun: error: node01: task 0: Terminated
""",
        command="srun -N 2 /home/user/project/build/solve",
        framework="slurm",
        status=2,
        action="fix",
        class_alt=("file_not_found", "command_not_found"),
        first_rank=1,
    ),
]

RECIPES = [*PREEMPTED, *NODES, *WALLTIME, *LAUNCH]
