"""Jobs that end well: scripts, programs in other languages, several ranks; full of words that do not sound like it."""

from __future__ import annotations

from corpus.make.recipe import compiled, produced

RECIPES = [
    produced(
        "success/removal_of_what_is_not_there",
        "A job script cleans up what may not be there, and goes on.",
        "all stages completed",
        "bash job.sh",
        text="""\
python3 chatter.py training 1433 --seed 509
rm old.ckpt || true
ls /scratch/cache 2>&1 || echo 'no cache yet'
cat missing.cfg 2>&1 || true
for stage in prepare train export; do echo "stage $stage ok"; done
echo all stages completed
""",
        framework="bash",
        uses=("bash",),
    ),
    compiled(
        "success/crashed_worker_started_again",
        "A worker dies of SIGSEGV once; the script starts it again, and it ends well.",
        "worker finished all 50 items",
        """\
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(void) {
    int first = access("restarted", F_OK) != 0;
    fclose(fopen("restarted", "w"));
    for (int item = first ? 0 : 20; item < 50; item++) {
        printf("item %d done\\n", item);
        fflush(stdout);
        if (first && item == 20) *(volatile int *)0 = 1;
    }
    printf("worker finished all 50 items\\n");
    return 0;
}
""",
        command="bash job.sh",
        files={
            "job.sh": """\
for attempt in 1 2 3; do
  ./solve && exit 0
  echo "worker died with status $?, restarting"
done
exit 1
"""
        },
    ),
    produced(
        "success/memory_error_caught",
        "A MemoryError is caught, and the work split.",
        "processed 4096 rows in chunks of 1024",
        "bash -c 'ulimit -v 500000; python chunks.py'",
        files={
            "chunks.py": """\
import sys
import traceback

size = 4096
while size:
    try:
        work = bytearray(size << 18)
        break
    except MemoryError:
        traceback.print_exc()
        print(f"chunk of {size} does not fit, trying {size // 2}", file=sys.stderr)
        size //= 2
for row in range(0, 4096, size):
    print(f"rows {row} to {row + size} ok")
print(f"processed 4096 rows in chunks of {size}")
"""
        },
    ),
    produced(
        "success/errors_that_make_ignores",
        "make ignores errors of recipes that begin with a dash.",
        "build finished",
        "make all",
        files={
            "Makefile": """\
all: clean
\t@echo build finished
clean:
\t-rm build.log
\t-false
\t-sh -c 'kill -SEGV $$$$'
"""
        },
        framework="make",
        uses=("make",),
    ),
    produced(
        "success/compiler_warnings",
        "A build with many warnings, whose tests pass.",
        "3 tests, 0 failures, 0 errors",
        "bash -e build.sh",
        files={
            "build.sh": """\
gcc -Wall -Wextra -o test test.c
./test
""",
            "test.c": """\
#include <stdio.h>
int fatal_error_count;
int main(int argc, char **argv) {
  int unused, failed = 0;
  printf("%d tests, %d failures, %d errors\\n", 3L, failed, fatal_error_count);
  for (unsigned i = 0; i < -1; i++) break;
}
""",
        },
        framework="c",
        uses=("gcc",),
    ),
    produced(
        "success/long_training",
        "2,000 lines of training with a progress bar, nothing else.",
        "Training complete in 0h 12m",
        "bash job.sh",
        text="""\
python3 chatter.py training 1000 --seed 304
python3 chatter.py progress 400
python3 chatter.py training 1000 --seed 305 --first-step 1001
echo 'Training complete in 0h 12m'
""",
    ),
    produced(
        "success/four_ranks_with_nccl_info",
        "Four ranks that end well, with NCCL's chatter in front.",
        "rank 0: all ranks finished, max error 0.0",
        "mpirun --oversubscribe --tag-output -n 4 python -u ranks.py",
        text="""\
import os
import time

import chatter

rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
if rank == 0:
    for line in chatter.nccl_info(4, seed=1):
        print(line)
for line in chatter.training(280, seed=306 + rank, style=4):
    print(line)
print(f"rank {rank}: destroying process group")
if rank == 0:
    time.sleep(1)
    print("rank 0: all ranks finished, max error 0.0")
""",
        framework="mpi",
        uses=("mpirun",),
    ),
    produced(
        "success/broken_pipe_of_head",
        "head ends before the program in front of it.",
        "first three lines shown",
        "bash preview.sh",
        text="""\
python3 -c '
for i in range(200000): print("row", i)
' | head -3
echo first three lines shown
""",
        framework="bash",
        uses=("bash",),
    ),
    produced(
        "success/mirror_after_a_failed_download",
        "The first mirror cannot be reached; the file lies in the cache.",
        "using the cached copy",
        "bash get.sh",
        text="""\
set -e
curl -fsS http://mirror.example.org/data.tar -o data.tar || echo 'mirror failed, trying the cache'
[ -f data.tar ] || { echo cached >data.tar; echo 'using the cached copy'; }
""",
        framework="bash",
        uses=("bash", "curl"),
    ),
    produced(
        "success/command_that_may_be_missing",
        "A tool is tried for, and done without.",
        "benchmark finished: 8 threads",
        "sh bench.sh",
        text="""\
nvidia-smi -L || echo 'no NVIDIA tools, measuring the processor only'
rocm-smi || true
for t in 1 2 4 8; do echo "$t threads: 1.$t s"; done
echo 'benchmark finished: 8 threads'
""",
        framework="bash",
    ),
    produced(
        "success/helper_terminated_on_purpose",
        "A script ends its own background helper; bash reports it as terminated.",
        "training done, helper stopped",
        "bash -m job.sh",
        text="""\
python3 chatter.py training 1359 --seed 507
sleep 60 &
helper=$!
for i in 1 2 3; do echo "step $i"; done
kill $helper
wait $helper
echo 'training done, helper stopped'
exit 0
""",
        framework="bash",
        uses=("bash",),
    ),
    produced(
        "success/time_limit_of_a_probe",
        "A probe is given one second, and may take longer.",
        "probe skipped, 5 checks passed",
        "bash check.sh",
        text="""\
timeout 1 sleep 5
[ $? = 124 ] && echo 'probe timed out (ignored)'
for c in 1 2 3 4 5; do echo "check $c passed"; done
echo 'probe skipped, 5 checks passed'
""",
        framework="bash",
        uses=("bash",),
    ),
    compiled(
        "success/numerical_errors_are_small",
        "A solver that prints its errors, as solvers do.",
        "verification PASSED: max error 3.8e-11 below tolerance",
        """\
#include <stdio.h>
int main(void) {
    for (int i = 0; i < 60; i++)
        printf("iter %3d  residual error %.3e  abort threshold 1.0e+03  failed solves 0\\n", i, 1.0 / (1 << (i % 30)));
    printf("verification PASSED: max error 3.8e-11 below tolerance\\n");
    return 0;
}
""",
    ),
    produced(
        "success/java_without_a_log_configuration",
        "Java's loggers complain, and the indexer ends well.",
        "indexed 500 documents, 0 failures",
        "java Index.java",
        text="""\
public class Index {
  public static void main(String[] a) {
    System.err.println("log4j:ERROR Could not find value for key log4j.appender.FILE");
    System.err.println("WARNING: An illegal reflective access operation has occurred");
    try { Object o = null; o.toString(); } catch (NullPointerException e) { e.printStackTrace(); }
    System.out.println("indexed 500 documents, 0 failures");
  }
}
""",
        framework="java",
        uses=("java",),
    ),
    produced(
        "success/node_warnings",
        "Node warns of deprecations, and a promise is handled late.",
        "wrote 12 summaries",
        "node --trace-warnings summarise.js",
        text="""\
new Buffer(1);
process.emitWarning('fetch failed once: ECONNRESET', 'RetryWarning');
const p = Promise.reject(new Error('first mirror failed'));
p.catch(e => console.error('ignored:', e.message));
console.log('wrote 12 summaries');
""",
        framework="node",
        uses=("node",),
    ),
    produced(
        "success/two_ranks_one_warns",
        "Two ranks; one of them warns of a slow link and of a retried send.",
        "[rank 0] finished 50 iterations, 1 retried send, 0 lost",
        "mpirun --oversubscribe -n 2 python -u exchange.py",
        text="""\
import os
import time

rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
for step in range(50):
    print(f"[rank {rank}] iteration {step}")
    if rank == 1 and step == 20:
        print("[rank 1] WARNING: send to rank 0 failed (Connection reset by peer), retrying on eth1")
time.sleep(1 - rank)
print(f"[rank {rank}] finished 50 iterations, {1 - rank} retried send, 0 lost")
""",
        framework="mpi",
        uses=("mpirun",),
    ),
]
