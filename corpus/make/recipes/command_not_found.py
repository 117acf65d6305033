"""Commands that are not there, or cannot run."""

from __future__ import annotations

from corpus.make.recipe import produced

RECIPES = [
    produced(
        "command_not_found/in_a_job_script",
        "The last command of a job script does not exist; bash says 127.",
        "nvidia-smi: command not found",
        "bash job.sh",
        text="""\
#!/bin/bash
python3 chatter.py training 1100 --seed 500
set -e
echo checking the card
nvidia-smi -L
python train.py
""",
        framework="bash",
        uses=("bash",),
    ),
    produced(
        "command_not_found/in_dash",
        "The same in dash, with its own words.",
        "deepspeed: not found",
        "sh run.sh",
        text="""\
python3 chatter.py training 1137 --seed 501
echo starting on $(hostname)
deepspeed --num_gpus 8 train.py
""",
        framework="bash",
    ),
    produced(
        "command_not_found/not_executable",
        "A script without its execute bit: 126.",
        "./prepare.sh: Permission denied",
        "bash -c './prepare.sh && python train.py'",
        files={"prepare.sh": "echo preparing\n"},
        framework="bash",
        uses=("bash",),
        class_alt=("permission",),
    ),
    produced(
        "command_not_found/bad_interpreter",
        "A script made on Windows: its interpreter's name ends in a carriage return.",
        "bad interpreter: /usr/bin/bash-5^M: no such file or directory",
        "zsh -c ./job.sh",
        files={
            "job.sh": """\
#!/usr/bin/bash-5\r
echo 1
"""
        },
        prepare="chmod 755 job.sh",
        framework="bash",
        uses=("zsh",),
    ),
    produced(
        "command_not_found/interpreter_of_another_site",
        "A script names an interpreter of another site; newer versions of bash say it so.",
        "./job.py: cannot execute: required file not found",
        "bash -c './job.py --epochs 2; exit $?'",
        files={
            "job.py": """\
#!/sw/python/3.12/bin/python3
print(1)
"""
        },
        prepare="chmod 755 job.py",
        framework="bash",
        uses=("bash",),
    ),
    produced(
        "command_not_found/binary_of_another_machine",
        "A binary for another processor.",
        "cannot execute binary file: Exec format error",
        "bash -c './trainer --help'",
        prepare="z='\\000\\000\\000'; printf \"\\177ELF\\002\\001\\001$z$z$z\\002\\000\\267\\000\\001$z\" >trainer;"
        " head -c 200 /dev/zero >>trainer; chmod 755 trainer",
        framework="bash",
        uses=("bash",),
        class_alt=("library_abi",),
    ),
    produced(
        "command_not_found/the_command_itself",
        "The command that gpualert is given does not exist.",
        "not found",
        "torchrunn --nproc-per-node 4 train.py",
    ),
    produced(
        "command_not_found/recipe_of_make",
        "make cannot find the program of a recipe.",
        "nvcc: No such file or directory",
        "make kernels",
        files={
            "Makefile": """\
kernels:
\tnvcc -O3 -o kernels kernels.cu
"""
        },
        framework="make",
        uses=("make",),
        evidence_alt=("Error 127",),
    ),
]
