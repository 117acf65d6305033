"""What the record says of a run that one launcher started with others."""

from __future__ import annotations

import pytest

from .world import World

SRUN = {"SLURM_JOB_ID": "4711", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "8", "SLURM_PROCID": "5"}
OPENMPI = {"PMIX_NAMESPACE": "454885377", "PMIX_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}
HYDRA = {"PMI_PORT": "node03:45113", "PMI_RANK": "3", "PMI_SIZE": "4"}
TORCHRUN = {
    "TORCHELASTIC_RUN_ID": "none",
    "TORCHELASTIC_RESTART_COUNT": "0",
    "MASTER_ADDR": "node03",
    "MASTER_PORT": "29500",
    "WORLD_SIZE": "16",
    "RANK": "9",
}


@pytest.mark.parametrize(
    ("env", "group"),
    [
        (SRUN, ("slurm-4711.0.0", "8", "5")),
        (SRUN | {"SLURM_RESTART_COUNT": "1"}, ("slurm-4711.0.1", "8", "5")),
        (SRUN | OPENMPI, ("slurm-4711.0.0", "8", "5")),
        (OPENMPI, ("mpi-454885377", "2", "1")),
        (OPENMPI | {"PMIX_NAMESPACE": "prterun-node03-77@1"}, ("mpi-prterun-node03-77@1", "2", "1")),
        (HYDRA, ("mpi-node03:45113", "4", "3")),
        (HYDRA | {"PMI_JOBID": "99"}, ("mpi-99", "4", "3")),
        (TORCHRUN, ("torch-none-node03-29500-0", "16", "9")),
        ({"SLURM_JOB_ID": "4711", "SLURM_PROCID": "0", "SLURM_NTASKS": "8"}, ("", "", "")),
        (SRUN | {"SLURM_STEP_NUM_TASKS": "1"}, ("", "", "")),
        (OPENMPI | {"PMIX_RANK": "x"}, ("", "", "")),
        (TORCHRUN | {"TORCHELASTIC_RUN_ID": "../a b"}, ("", "", "")),
        ({}, ("", "", "")),
    ],
    ids=[
        "srun",
        "requeued",
        "srun-with-pmix",
        "openmpi",
        "openmpi-5",
        "hydra",
        "hydra-with-an-id",
        "torchrun",
        "batch-script",
        "one-task",
        "no-rank",
        "no-id",
        "alone",
    ],
)
def test_the_record_names_the_group_its_size_and_the_rank(
    world: World, env: dict[str, str], group: tuple[str, str, str]
) -> None:
    start = world.run("true", env=env).recorded.start
    assert (start["group"], start["group_size"], start["group_rank"]) == group
