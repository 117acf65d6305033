"""Binaries that do not fit each other."""

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
        "library_abi/undefined_symbol",
        "An extension module calls a function that no library has.",
        "undefined symbol: flash_forward_v3",
        "python infer.py",
        files={
            "flash.c": """\
#include <Python.h>
int flash_forward_v3(void);
static struct PyModuleDef m = {PyModuleDef_HEAD_INIT, "flash"};
PyMODINIT_FUNC PyInit_flash(void) { flash_forward_v3(); return PyModule_Create(&m); }
""",
            "infer.py": """\
import chatter

for line in chatter.training(1060, seed=191, style=1):
    print(line)
import flash
""",
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
        prepare="""\
echo 'int forward(void) { return 1; }' >k.c; gcc -shared -fPIC -o libk.so k.c
echo 'int forward(void); int main(void) { return forward() - 1; }' >main.c
gcc -o infer main.c -L. -l:libk.so -Wl,-rpath,/home/user/project
echo 'int backward(void) { return 1; }' >k.c; gcc -shared -fPIC -o libk.so k.c""",
        framework="c",
        uses=("gcc",),
    ),
    produced(
        "library_abi/invalid_elf_header",
        "An extension module that is a text file: a Git LFS pointer.",
        "invalid ELF header",
        "python serve.py",
        files={
            "engine.so": """\
version https://git-lfs.github.com/spec/v1
oid sha256:4d7a2146
size 12345
""",
            "serve.py": """\
print('loading engine', flush=True)
import engine
""",
        },
        class_alt=("missing_module",),
    ),
    produced(
        "library_abi/file_too_short",
        "A library that was copied half.",
        "libdecode.so: file too short",
        "python decode.py",
        text="""\
import ctypes

print('loading libdecode.so')
ctypes.CDLL('./libdecode.so')
""",
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
