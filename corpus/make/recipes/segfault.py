"""Native code that dies of a signal."""

from __future__ import annotations

from corpus.make.recipe import compiled, produced

_NULL = """\
#include <stdio.h>
struct particle { double x, v; struct particle *next; };
static struct particle *head;
int main(int argc, char **argv) {
    printf("integrating %s particles, dt=0.001\\n", argv[1]);
    fflush(stdout);
    for (int step = 0; step < 10; step++) head->x += head->v * 0.001;
    return 0;
}
"""
_RANK = """\
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(void) {
    int rank = atoi(getenv("OMPI_COMM_WORLD_RANK"));
    for (int step = 0; step < 300; step++) { printf("rank %d: halo exchange %d done\\n", rank, step); fflush(stdout); }
    double *ghost = rank == 2 ? NULL : calloc(64, sizeof *ghost);
    if (rank != 2) sleep(2);
    ghost[3] = 1.0;
    sleep(20);
    return 0;
}
"""
_EXTENSION = """\
#include <Python.h>
static PyObject *pack(PyObject *self, PyObject *args) {
    PyObject *list;
    if (!PyArg_ParseTuple(args, "O", &list)) return NULL;
    long total = 0;
    /* no check that it is a list, nor how long it is */
    for (Py_ssize_t i = 0; i < 100000000; i++) total += PyLong_AsLong(PyList_GET_ITEM(list, i));
    return PyLong_FromLong(total);
}
static PyMethodDef methods[] = {{"pack", pack, METH_VARARGS, ""}, {NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "fastpack", "", -1, methods};
PyMODINIT_FUNC PyInit_fastpack(void) { return PyModule_Create(&module); }
"""
BUILD_EXTENSION = (
    'gcc -w -shared -fPIC -I"$(/opt/venv/bin/python -c "import sysconfig; print(sysconfig.get_path(\'include\'))")"'
)

RECIPES = [
    compiled(
        "segfault/null_pointer_in_c",
        "A C program reads the first particle of a list that was never filled; bash reports its death.",
        "Segmentation fault",
        _NULL,
        command="bash job.sh",
        files={
            "job.sh": """\
echo starting simulation with 4096 particles
./solve 4096
exit $?
"""
        },
    ),
    compiled(
        "segfault/endless_recursion_in_c",
        "A recursive refinement never ends and overruns the stack; no shell stands between, so no line says so.",
        "",
        """\
#include <stdio.h>
static double refine(double low, double high, int depth) {
    double cells[128];
    for (int i = 0; i < 128; i++) cells[i] = low + i * (high - low) / 128;
    if (depth % 100 == 0 && depth < 1000) printf("refinement level %d, width %g\\n", depth, high - low);
    fflush(stdout);
    return refine(cells[1], cells[2], depth + 1) + cells[64];
}
int main(void) { printf("adaptive mesh refinement\\n"); printf("%g\\n", refine(0, 1, 0)); return 0; }
""",
    ),
    compiled(
        "segfault/abort_of_a_library",
        "A library of one's own calls abort() in its error handler without a word; the shell says Aborted.",
        "Aborted",
        """\
#include <stdio.h>
#include <stdlib.h>
int main(void) {
    puts("codec: opening stream 0 (h264, 1920x1080)");
    puts("codec: reference frame 17 is not in the buffer");
    fflush(stdout);
    abort();
}
""",
        command="bash -c './solve; echo decoder ended with status $?; exit 1'",
    ),
    compiled(
        "segfault/double_free",
        "A C++-style cleanup runs twice: glibc finds a double free and aborts.",
        "free(): double free detected in tcache 2",
        """\
#include <stdio.h>
#include <stdlib.h>
static void release(char *batch) { free(batch); }
int main(void) {
    for (int epoch = 1; epoch < 6; epoch++) { printf("epoch %d: 128 batches, shuffled\\n", epoch); }
    fflush(stdout);
    char *batch = malloc(96);
    release(batch);
    release(batch);
    return 0;
}
""",
    ),
    compiled(
        "segfault/heap_overrun",
        "A label buffer is written past its end, and the next malloc finds the heap corrupted.",
        "malloc(): corrupted top size",
        """\
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(void) {
    char *labels = malloc(24);
    fprintf(stderr, "reading labels for 1000 classes\\n");
    memset(labels, 'x', 64);
    char *next = malloc(4000);
    fprintf(stderr, "labels read: %p\\n", next);
    return 0;
}
""",
        command="sh -c './solve || { s=$?; echo \"label reader failed ($s)\" >&2; exit $s; }'",
    ),
    produced(
        "segfault/mmap_of_a_truncated_file",
        "A memory-mapped feature file is truncated by a cleaner while it is read: SIGBUS.",
        "Bus error",
        "bash run.sh",
        files={
            "run.sh": """\
set -o pipefail
python3 features.py 2>&1 | tee features.txt
s=${PIPESTATUS[0]}
[ $s = 0 ] || { echo "features.py: Bus error (status $s), see features.txt"; exit $s; }
""",
            "features.py": """\
import mmap
import os

with open("features.bin", "wb") as file:
    file.truncate(1 << 22)
with open("features.bin", "r+b") as file:
    view = mmap.mmap(file.fileno(), 0)
    print("mapped 4 MiB of features")
    for block in range(64):
        if block == 40:
            os.truncate("features.bin", 4096)
        print(f"block {block}: {view[block * 65536]} ok", flush=True)
""",
        },
        uses=("bash",),
    ),
    produced(
        "segfault/fault_handler_in_ctypes",
        "A pointer of ctypes to address 0 is read after 1,500 steps of training; Python's fault handler reports it.",
        "Fatal Python error: Segmentation fault",
        "python -X faulthandler train.py",
        text="""\
import ctypes
import chatter

for line in chatter.training(1500, seed=11):
    print(line)


def gather(pointer):
    return ctypes.c_int.from_address(pointer).value


gather(0)
""",
    ),
    compiled(
        "segfault/illegal_instruction_by_make",
        "A program compiled for another processor's instructions, as a trap stands for here, run by make.",
        "Illegal instruction",
        """\
#include <stdio.h>
int main(void) { puts("detected: avx512_fp16"); fflush(stdout); __builtin_trap(); }
""",
        command="make bench",
        files={
            "Makefile": """\
bench:
\t@echo benchmarking 8 kernels
\t./solve --kernels 8
"""
        },
        uses=("gcc", "make"),
    ),
    compiled(
        "segfault/integer_division_in_c",
        "An integer division by zero in C: the kernel sends SIGFPE, and bash calls it a floating point exception.",
        "Floating point exception",
        """\
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv) {
    int ranks = atoi(argv[1]);
    printf("distributing 1000 samples over %d ranks\\n", ranks);
    fflush(stdout);
    printf("each has %d\\n", 1000 / ranks);
    return 0;
}
""",
        command="bash -c './solve 0; exit $?'",
        class_alt=("div_zero",),
        evidence_alt=(),
    ),
    produced(
        "segfault/own_extension_module",
        "An extension module of one's own reads past the end of a list, in a child process whose parent reports it.",
        "died with <Signals.SIGSEGV: 11>",
        "python prepare.py",
        files={
            "fastpack.c": _EXTENSION,
            "prepare.py": """\
import subprocess
import sys

for shard in range(4):
    print(f"packing shard {shard}", flush=True)
    size = 0 if shard < 0 else 100
    subprocess.run([sys.executable, "-c", f"import fastpack; print(fastpack.pack(list(range({size}))))"], check=True)
""",
        },
        prepare=f"{BUILD_EXTENSION} -o fastpack.so fastpack.c",
        uses=("gcc",),
    ),
    produced(
        "segfault/pool_worker_aborts",
        "A worker of a process pool aborts in native code; its fault handler says so, the pool says it is broken.",
        "Fatal Python error: Aborted",
        "python -X faulthandler -u tokenize_all.py",
        text="""\
import logging
import os
import time
from concurrent.futures import ProcessPoolExecutor

import chatter

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")


def tokenize(shard):
    if shard == 13:
        time.sleep(1)
        os.abort()
    return shard * 1000


if __name__ == "__main__":
    for line in chatter.training(1100, seed=5):
        logging.info(line)
    with ProcessPoolExecutor(2) as pool:
        for count in pool.map(tokenize, range(40)):
            logging.info("tokens so far: %d", count)
""",
        evidence_alt=("BrokenProcessPool: A process in the process pool was terminated abruptly",),
    ),
    compiled(
        "segfault/one_rank_of_four",
        "One of four ranks under mpirun writes through a null pointer; its shell says so, and mpirun ends the others.",
        "Segmentation fault",
        _RANK,
        command="mpirun --oversubscribe -n 4 bash -c './solve; exit $?'",
        framework="mpi",
        uses=("gcc", "mpirun"),
        first_rank=2,
    ),
    compiled(
        "segfault/stack_smashed",
        "A hostname is copied into a buffer that is too short; the compiler's guard finds the stack smashed.",
        "*** stack smashing detected ***: terminated",
        """\
#include <stdio.h>
#include <string.h>
static int connect_to(const char *host) { char name[16]; strcpy(name, host); return (int)strlen(name); }
int main(void) {
    printf("connecting to coordinator\\n");
    fflush(stdout);
    return connect_to("very-long-name-of-a-login-node-in-the-cluster.example.org") == 3;
}
""",
        flags="-O1 -fstack-protector-all",
        split=True,
    ),
]
