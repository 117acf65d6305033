"""Too many threads or processes."""

from __future__ import annotations

from corpus.make.recipe import compiled, produced

RECIPES = [
    produced(
        "thread_limit/python_threads",
        "More threads than the control group allows.",
        "RuntimeError: can't start new thread",
        "python prefetch.py",
        text="""\
import threading
import time

print("starting 200 prefetch threads")
for number in range(200):
    threading.Thread(target=time.sleep, args=(3,), daemon=True).start()
""",
        pids=60,
    ),
    produced(
        "thread_limit/fork_in_bash",
        "A script starts more background jobs than there may be processes.",
        "fork: retry: Resource temporarily unavailable",
        "bash fan.sh",
        text="""\
for i in $(seq 100); do sleep 20 & done
wait
""",
        pids=40,
        framework="bash",
        uses=("bash",),
        evidence_alt=("fork: Resource temporarily unavailable",),
    ),
    compiled(
        "thread_limit/pthread_in_c",
        "pthread_create in C, reported in the program's own words.",
        "cannot create worker thread",
        """\
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
static void *work(void *unused) { sleep(3); return NULL; }
int main(void) {
    pthread_t thread;
    for (int i = 0; i < 256; i++) {
        int error = pthread_create(&thread, NULL, work, NULL);
        if (error) { fprintf(stderr, "cannot create worker thread %d of 256: %s\\n", i, strerror(error)); return 1; }
    }
    return 0;
}
""",
        pids=50,
    ),
    produced(
        "thread_limit/fork_in_python",
        "A pool larger than the limit on processes: fork fails.",
        "BlockingIOError: [Errno 11] Resource temporarily unavailable",
        "python pool.py",
        text="""\
import multiprocessing as mp
import time

import chatter

if __name__ == "__main__":
    for line in chatter.training(1100, seed=131, style=3):
        print(line)
    workers = [mp.Process(target=time.sleep, args=(2,)) for _ in range(100)]
    for worker in workers:
        worker.start()
""",
        pids=40,
    ),
    produced(
        "thread_limit/parallel_make",
        "make -j without a number starts more recipes than there may be processes.",
        "Resource temporarily unavailable",
        "make -j all",
        files={
            "Makefile": """\
all: $(shell seq 100)
%:
\t@sleep 3
"""
        },
        pids=24,
        framework="make",
        uses=("make",),
    ),
    produced(
        "thread_limit/java_native_thread",
        "Java cannot create a native thread.",
        "java.lang.OutOfMemoryError: unable to create native thread",
        "java -Xss256k -Xmx64m Pool.java",
        text="""\
public class Pool {
  public static void main(String[] a) throws Exception {
    for (int i = 0; i < 500; i++) {
      new Thread(() -> { try { Thread.sleep(3000); } catch (InterruptedException e) { } }).start();
      if (i % 20 == 0) System.out.println("threads: " + i);
    }
  }
}
""",
        framework="java",
        uses=("java",),
        pids=100,
    ),
]
