"""What a person typed wrongly: configuration, source code, commands; and binaries that do not fit."""

from __future__ import annotations

from corpus.make.recipe import produced
from corpus.make.recipes.segfault import BUILD_EXTENSION

_VERSIONED = """\
echo 'int forward(void) { return 1; }' >kernel.c
echo 'KERNEL_2.7 { global: forward; };' >new.map
echo 'KERNEL_2.1 { global: forward; };' >old.map
gcc -shared -fPIC -Wl,--version-script=new.map -Wl,-soname,libkernel.so.2 -o libkernel.so.2 kernel.c
echo 'int forward(void); int main(void) { return forward() - 1; }' >main.c
gcc -o infer main.c -L. -l:libkernel.so.2 -Wl,-rpath,/home/user/project
gcc -shared -fPIC -Wl,--version-script=old.map -Wl,-soname,libkernel.so.2 -o libkernel.so.2 kernel.c
"""

RECIPES = [
    produced(
        "config_error/argparse_unknown_option",
        "An option that the program does not have: argparse prints the usage and leaves with status 2.",
        "train.py: error: unrecognized arguments: --learning-rate 0.1",
        "python train.py --epochs 3 --learning-rate 0.1",
        text="import argparse\n\nparser = argparse.ArgumentParser()\nparser.add_argument('--epochs', type=int)\n"
        "parser.add_argument('--lr', type=float)\nprint(parser.parse_args())\n",
    ),
    produced(
        "config_error/yaml_indentation",
        "A YAML file whose indentation is wrong.",
        "yaml.scanner.ScannerError: mapping values are not allowed here",
        "python run.py config.yaml",
        files={
            "run.py": "import sys\n\nimport yaml\n\nprint('reading', sys.argv[1])\nprint(yaml.safe_load(open(sys.argv[1])))\n",
            "config.yaml": "model:\n  width: 64\n  depth: 2\n   dropout: 0.1\n",
        },
        framework="yaml",
        uses=("pyyaml",),
        evidence_alt=('in "config.yaml", line 4, column 11',),
    ),
    produced(
        "config_error/hydra_override",
        "An override of a key that Hydra's configuration does not have.",
        "Could not override 'optim.lr'.",
        "python app.py optim.lr=0.1",
        files={
            "app.py": "import hydra\n\n\n@hydra.main(version_base=None, config_path='.', config_name='base')\ndef main(config):\n"
            "    print(config)\n\n\nmain()\n",
            "base.yaml": "optimizer:\n  lr: 0.001\n",
        },
        framework="hydra",
        uses=("hydra-core",),
        evidence_alt=("Key 'optim' is not in struct",),
    ),
    produced(
        "config_error/missing_variable",
        "A job script under set -u needs a variable that nobody set.",
        "DATA_ROOT: unbound variable",
        "bash job.sh",
        text="set -eu\necho \"job on $(hostname)\"\necho \"data in $DATA_ROOT\"\n",
        framework="bash",
        uses=("bash",),
    ),
    produced(
        "config_error/variable_asked_for_by_python",
        "A program says which variable must be set.",
        "KeyError: 'WORLD_SIZE'",
        "python dist.py",
        text="import os\n\nprint('initialising from the environment')\nworld = int(os.environ['WORLD_SIZE'])\nprint(world)\n",
        class_alt=("traceback",),
    ),
    produced(
        "config_error/pydantic_settings",
        "Settings that pydantic refuses, two at once.",
        "pydantic_core._pydantic_core.ValidationError: 2 validation errors for TrainSettings",
        "python settings.py",
        text="""\
import pydantic

import chatter


class TrainSettings(pydantic.BaseModel):
    epochs: int
    lr: float = pydantic.Field(gt=0)


for line in chatter.training(1020, seed=171, style=2):
    print(line)
print(TrainSettings(epochs="three", lr=-1))
""",
        framework="pydantic",
        uses=("pydantic",),
        class_alt=("traceback",),
    ),
    produced(
        "config_error/unknown_choice_in_own_words",
        "A program checks its configuration, and names key, value and choices.",
        "ConfigError: optimizer.name: 'adamw2' is not one of adam, adamw, sgd",
        "python -m conf",
        files={
            "conf/__init__.py": "",
            "conf/__main__.py": "class ConfigError(Exception):\n    pass\n\n\nprint('validating experiment.toml')\n"
            "raise ConfigError(\"optimizer.name: 'adamw2' is not one of adam, adamw, sgd\")\n",
        },
    ),
    produced(
        "config_error/getopts_usage",
        "A shell script's own usage message.",
        "usage: launch.sh -n NODES -g GPUS script.py",
        "bash launch.sh -x 4 train.py",
        text="usage() { echo 'usage: launch.sh -n NODES -g GPUS script.py' >&2; exit 2; }\n"
        "while getopts n:g: name; do\n  case $name in n) nodes=$OPTARG ;; g) gpus=$OPTARG ;; *) usage ;; esac\ndone\n"
        "echo $nodes $gpus\n",
        framework="bash",
        uses=("bash",),
        evidence_alt=("launch.sh: illegal option -- x",),
    ),
    produced(
        "syntax_error/python_colon",
        "A colon is missing.",
        "SyntaxError: expected ':'",
        "python train.py",
        text="import math\n\n\ndef cosine(step)\n    return math.cos(step)\n\n\nprint(cosine(1))\n",
    ),
    produced(
        "syntax_error/python_indentation",
        "A module that is imported late, after 1,200 lines of training, has a wrong indentation.",
        "IndentationError: unindent does not match any outer indentation level",
        "python train.py",
        files={
            "train.py": "import chatter\n\nfor line in chatter.training(1200, seed=181, style=3):\n    print(line)\nimport evaluate\n",
            "evaluate.py": "def score(a):\n        if a:\n            return 1\n    return 0\n",
        },
    ),
    produced(
        "syntax_error/bash_end_of_file",
        "A job script without the closing `fi`.",
        "syntax error: unexpected end of file",
        "bash job.sh",
        text="#!/bin/bash\necho preparing\nif [ -d data ]; then\n  echo data found\n\npython train.py\n",
        framework="bash",
        uses=("bash",),
    ),
    produced(
        "syntax_error/bashism_in_dash",
        "A script written for bash and run by sh.",
        'Syntax error: "(" unexpected',
        "sh job.sh",
        text="nodes=(node01 node02)\necho ${nodes[0]}\n",
        framework="bash",
    ),
    produced(
        "syntax_error/node",
        "A brace is missing in a Node script.",
        "SyntaxError: Unexpected end of input",
        "node post.js",
        text="function summarise(runs) {\n  return runs.map(r => r.loss);\n\nconsole.log(summarise([]));\n",
        framework="node",
        uses=("node",),
    ),
    produced(
        "syntax_error/perl",
        "A semicolon is missing in a Perl script.",
        "syntax error at convert.pl line 3",
        "perl convert.pl",
        text="use strict;\nmy $n = 4\nprint \"converting $n files\\n\";\n",
        framework="perl",
        uses=("perl",),
        evidence_alt=("Execution of convert.pl aborted due to compilation errors.",),
    ),
    produced(
        "syntax_error/makefile_separator",
        "Spaces in place of a tab.",
        "*** missing separator (did you mean TAB instead of 8 spaces?).  Stop.",
        "make train",
        files={"Makefile": "train: data\n        python train.py\n"},
        framework="make",
        uses=("make",),
        class_alt=("config_error",),
    ),
    produced(
        "command_not_found/in_a_job_script",
        "The last command of a job script does not exist; bash says 127.",
        "nvidia-smi: command not found",
        "bash job.sh",
        text="#!/bin/bash\nset -e\necho checking the card\nnvidia-smi -L\npython train.py\n",
        framework="bash",
        uses=("bash",),
    ),
    produced(
        "command_not_found/in_dash",
        "The same in dash, with its own words.",
        "deepspeed: not found",
        "sh run.sh",
        text="echo starting on $(hostname)\ndeepspeed --num_gpus 8 train.py\n",
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
        files={"job.sh": "#!/usr/bin/bash-5\r\necho 1\n"},
        prepare="chmod 755 job.sh",
        framework="bash",
        uses=("zsh",),
    ),
    produced(
        "command_not_found/interpreter_of_another_site",
        "A script names an interpreter of another site; newer versions of bash say it so.",
        "./job.py: cannot execute: required file not found",
        "bash -c './job.py --epochs 2; exit $?'",
        files={"job.py": "#!/sw/python/3.12/bin/python3\nprint(1)\n"},
        prepare="chmod 755 job.py",
        framework="bash",
        uses=("bash",),
    ),
    produced(
        "command_not_found/binary_of_another_machine",
        "A binary for another processor.",
        "cannot execute binary file: Exec format error",
        "bash -c './trainer --help'",
        prepare="printf '\\177ELF\\002\\001\\001\\000\\000\\000\\000\\000\\000\\000\\000\\000\\002\\000\\267\\000\\001\\000\\000\\000' >trainer;"
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
        files={"Makefile": "kernels:\n\tnvcc -O3 -o kernels kernels.cu\n"},
        framework="make",
        uses=("make",),
        evidence_alt=("Error 127",),
    ),
    produced(
        "library_abi/undefined_symbol",
        "An extension module calls a function that no library has.",
        "undefined symbol: flash_forward_v3",
        "python infer.py",
        files={
            "flash.c": "#include <Python.h>\nint flash_forward_v3(void);\nstatic struct PyModuleDef m = {PyModuleDef_HEAD_INIT,"
            ' "flash"};\nPyMODINIT_FUNC PyInit_flash(void) { flash_forward_v3(); return PyModule_Create(&m); }\n',
            "infer.py": "import chatter\n\nfor line in chatter.training(1060, seed=191, style=1):\n    print(line)\nimport flash\n",
        },
        prepare=BUILD_EXTENSION + " -o flash.so flash.c",
        uses=("gcc",),
    ),
    produced(
        "library_abi/symbol_version",
        "A program needs a newer version of a library than the one that is found.",
        "version `KERNEL_2.7' not found (required by ./infer)",
        "bash -c './infer; exit $?'",
        prepare=_VERSIONED,
        framework="c",
        uses=("gcc",),
    ),
    produced(
        "library_abi/symbol_lookup_error",
        "A program whose library has lost a function.",
        "symbol lookup error: ./infer: undefined symbol: forward",
        "sh -c 'echo loading; ./infer'",
        prepare="echo 'int forward(void) { return 1; }' >k.c; gcc -shared -fPIC -o libk.so k.c\n"
        "echo 'int forward(void); int main(void) { return forward() - 1; }' >main.c\n"
        "gcc -o infer main.c -L. -l:libk.so -Wl,-rpath,/home/user/project\n"
        "echo 'int backward(void) { return 1; }' >k.c; gcc -shared -fPIC -o libk.so k.c",
        framework="c",
        uses=("gcc",),
    ),
    produced(
        "library_abi/invalid_elf_header",
        "An extension module that is a text file: a Git LFS pointer.",
        "invalid ELF header",
        "python serve.py",
        files={
            "engine.so": "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n",
            "serve.py": "print('loading engine', flush=True)\nimport engine\n",
        },
        class_alt=("missing_module",),
    ),
    produced(
        "library_abi/file_too_short",
        "A library that was copied half.",
        "libdecode.so: file too short",
        "python decode.py",
        text="import ctypes\n\nprint('loading libdecode.so')\nctypes.CDLL('./libdecode.so')\n",
        prepare="printf '\\177ELF' >libdecode.so",
        class_alt=("missing_module",),
    ),
    produced(
        "library_abi/class_file_version",
        "A Java class that was compiled for a newer Java.",
        "java.lang.UnsupportedClassVersionError: Work has been compiled by a more recent version of the Java Runtime",
        "java -cp . Work",
        prepare="echo 'public class Work { public static void main(String[] a) {} }' >Work.java; javac Work.java;"
        " printf '\\000\\120' | dd of=Work.class bs=1 seek=6 conv=notrunc status=none",
        framework="java",
        uses=("java", "javac"),
    ),
]
