"""Native code that dies of a signal."""

from __future__ import annotations

from corpus.make.recipe import Job, Recipe

RECIPES = [
    Recipe(
        "segfault/null_pointer_in_c",
        how="A C program reads the first particle of a list that was never filled; bash reports its death.",
        evidence="Segmentation fault",
        framework="c",
        uses=("gcc", "bash"),
        job=Job(
            command="bash job.sh",
            prepare="gcc -g -O0 -o simulate simulate.c",
            files={
                "job.sh": "echo starting simulation with 4096 particles\n./simulate 4096\nexit $?\n",
                "simulate.c": """\
#include <stdio.h>
#include <stdlib.h>
struct particle { double x, v; struct particle *next; };
static struct particle *head;
int main(int argc, char **argv) {
    printf("integrating %s particles, dt=0.001\\n", argv[1]);
    fflush(stdout);
    for (int step = 0; step < 10; step++) head->x += head->v * 0.001;
    return 0;
}
""",
            },
        ),
    ),
]
