"""Python modules, shared libraries and those of other languages that cannot be found."""

from __future__ import annotations

from corpus.make.recipe import produced
from corpus.make.recipes.segfault import BUILD_EXTENSION

_LIBRARY = 'echo "double mix(double a) { return a; }" >mix.c && gcc -shared -fPIC -o libmix.so.3 mix.c\n'

RECIPES = [
    produced(
        "missing_module/top_level_import",
        "A script imports what is not installed.",
        "ModuleNotFoundError: No module named 'flash_attn'",
        "python train.py",
        text="""\
import json
import sys

print("python", sys.version.split()[0])
from flash_attn import flash_attn_func
""",
    ),
    produced(
        "missing_module/inside_a_package",
        "A package of one's own imports a submodule that was forgotten in the checkout.",
        "ModuleNotFoundError: No module named 'trainer.schedulers'",
        "python -m trainer",
        files={
            "trainer/__init__.py": "",
            "trainer/__main__.py": """\
from trainer.loop import run

run()
""",
            "trainer/loop.py": """\
from trainer.schedulers import cosine


def run():
    print(cosine)
""",
        },
    ),
    produced(
        "missing_module/module_of_dash_m",
        "python -m with a module that does not exist.",
        "(ModuleNotFoundError: No module named 'deepspeed')",
        "bash -c 'python -m deepspeed.launcher.runner train.py; exit $?'",
        class_alt=("command_not_found",),
    ),
    produced(
        "missing_module/shared_library_of_a_program",
        "A program's shared library is not where the loader looks.",
        "error while loading shared libraries: libmix.so.3: cannot open shared object file: No such file or directory",
        "bash -c 'echo solver 2.1; ./solve case.xml; exit $?'",
        files={
            "solve.c": """\
double mix(double);
int main(void) { return (int)mix(0.0); }
"""
        },
        prepare=_LIBRARY + "gcc -o solve solve.c -L. -l:libmix.so.3",
        framework="c",
        uses=("gcc",),
    ),
    produced(
        "missing_module/library_by_ctypes",
        "ctypes loads a driver library that is not installed.",
        "OSError: libnvidia-fs.so.1: cannot open shared object file: No such file or directory",
        "python -u probe.py",
        text="""\
import ctypes

print("probing GPUDirect Storage")
library = ctypes.CDLL("libnvidia-fs.so.1")
""",
    ),
    produced(
        "missing_module/extension_needs_a_library",
        "An extension module was linked against a library that is not there any more.",
        "ImportError: libmix.so.3: cannot open shared object file: No such file or directory",
        "python infer.py --batch 16",
        files={
            "fastmix.c": """\
#include <Python.h>
double mix(double);
static struct PyModuleDef m = {PyModuleDef_HEAD_INIT, "fastmix"};
PyMODINIT_FUNC PyInit_fastmix(void) { mix(1.0); return PyModule_Create(&m); }
""",
            "infer.py": """\
import fastmix

print(fastmix)
""",
        },
        prepare=_LIBRARY + BUILD_EXTENSION + " -o fastmix.so fastmix.c -Wl,--no-as-needed -L. -l:libmix.so.3"
        "\nrm libmix.so.3",
        uses=("gcc",),
    ),
    produced(
        "missing_module/perl_module",
        "A Perl script needs a module that is not in @INC.",
        "Can't locate PDL/FFTW3.pm in @INC",
        "perl spectrum.pl",
        text="""\
use strict;
BEGIN { $| = 1; print "spectrum of 1024 samples\\n"; }
use PDL::FFTW3;
""",
        framework="perl",
        uses=("perl",),
    ),
    produced(
        "missing_module/node_package",
        "A Node script requires a package that npm was never asked for.",
        "Error: Cannot find module 'onnxruntime-node'",
        "node infer.js",
        text="""\
console.log('warming up');
const ort = require('onnxruntime-node');
console.log(ort);
""",
        framework="node",
        uses=("node",),
    ),
    produced(
        "missing_module/java_main_class",
        "A Java class path without the main class.",
        "Error: Could not find or load main class org.example.Train",
        "java -cp lib/train.jar org.example.Train --epochs 2",
        framework="java",
        uses=("java",),
        evidence_alt=("Caused by: java.lang.ClassNotFoundException: org.example.Train",),
    ),
    produced(
        "missing_module/optional_dependency",
        "A library turns the ImportError into a RuntimeError that tells what to install; the cause stands before it.",
        "ModuleNotFoundError: No module named 'sentencepiece'",
        "python tokenize_corpus.py",
        text="""\
import chatter


def load_tokenizer():
    try:
        import sentencepiece
    except ImportError as error:
        raise RuntimeError("this tokenizer needs sentencepiece: pip install sentencepiece") from error
    return sentencepiece


for line in chatter.training(1050, seed=51):
    print(line)
load_tokenizer()
""",
        evidence_alt=("RuntimeError: this tokenizer needs sentencepiece",),
    ),
    produced(
        "missing_module/plugin_by_name",
        "A registry imports optimizers by name, logs what is missing and leaves.",
        "cannot load optimizer 'lion': No module named 'lion_pytorch'",
        "python optim.py --optimizer lion",
        text="""\
import importlib
import logging
import sys

logging.basicConfig(level=logging.INFO, format="[%(levelname)s] %(message)s")
known = {"adam": "json", "lion": "lion_pytorch"}
logging.info("registry: %s", sorted(known))
try:
    importlib.import_module(known[sys.argv[2]])
except ModuleNotFoundError as error:
    logging.error("cannot load optimizer %r: %s", sys.argv[2], error)
    sys.exit(1)
""",
    ),
    produced(
        "missing_module/package_metadata",
        "A version check of a distribution that is not installed.",
        "importlib.metadata.PackageNotFoundError: No package metadata was found for apex",
        "python check_env.py",
        text="""\
from importlib.metadata import version

for name in ('pip', 'apex'):
    print(name, version(name))
""",
    ),
    produced(
        "missing_module/two_ranks",
        "Both ranks under mpirun miss the same module; the first to say so is enough for the launcher.",
        "ModuleNotFoundError: No module named 'mpi4py'",
        "mpirun --oversubscribe --tag-output -n 2 python allreduce.py",
        text="""\
import os
import time

time.sleep(int(os.environ['OMPI_COMM_WORLD_RANK']) * 0.5)
from mpi4py import MPI
""",
        framework="mpi",
        uses=("mpirun",),
        first_rank=0,
    ),
    produced(
        "missing_module/name_not_in_module",
        "An old script imports a name that a newer library has removed.",
        "ImportError: cannot import name 'float_' from 'numpy'",
        "python legacy.py",
        text="""\
from numpy import array
from numpy import float_

print(float_)
""",
        framework="numpy",
        uses=("numpy",),
        class_alt=("library_abi", "traceback"),
    ),
]
