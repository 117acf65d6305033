"""Jobs of several ranks, each of which is a run of its own: `mpirun gpualert run -- ...`."""

from __future__ import annotations

from typing import Any

from corpus.make.recipe import Recipe, produced

_HEAD = """\
import os
import time

import chatter

rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
for line in chatter.training({lines}, seed={seed} + rank, style={style}):
    print(line, flush=True)
print(f"rank {{rank}}: entering phase 2", flush=True)
time.sleep(1.5)
"""
_WAIT = """
print(f"rank {rank}: waiting for the others", flush=True)
time.sleep(25)
"""


def _ranks(name: str, how: str, evidence: str, body: str, rank: int, *, ranks: int = 3, **more: Any) -> Recipe:
    """Return the recipe of a job whose rank `rank` runs `body` while the others wait, and are ended."""
    noise = more.pop("noise", (0, 0, 0))
    head = _HEAD.format(lines=noise[0], seed=noise[1], style=noise[2])
    indented = "".join(f"    {line}\n" for line in body.splitlines())
    return produced(
        name,
        how,
        evidence,
        "python -u work.py",
        text=f"{head}if rank == {rank}:\n{indented}{_WAIT}",
        launch=f"mpirun --oversubscribe -n {ranks} gpualert run -- python -u work.py",
        first_rank=rank,
        framework="mpi",
        **{"uses": ("mpirun",), "limit_s": 90, **more},
    )


RECIPES = [
    _ranks(
        "traceback/recorded_per_rank",
        "Three runs of one launcher; rank 1 misses a key, and the launcher ends the others with SIGTERM.",
        "KeyError: 'router.bias'",
        "weights = {'router.weight': 1}\nprint(weights['router.bias'])",
        1,
        noise=(400, 401, 0),
    ),
    _ranks(
        "segfault/recorded_per_rank",
        "Four runs of one launcher; rank 3 reads address 0, and nothing in its log says so.",
        "",
        "import ctypes\nctypes.c_int.from_address(0).value",
        3,
        ranks=4,
    ),
    _ranks(
        "file_not_found/recorded_per_rank",
        "Three runs of one launcher; rank 0 finds no tokenizer.",
        "FileNotFoundError: [Errno 2] No such file or directory: '/models/tokenizer.json'",
        "open('/models/tokenizer.json')",
        0,
        noise=(350, 402, 1),
    ),
    _ranks(
        "assertion/recorded_per_rank",
        "Two runs of one launcher; rank 1 has another number of parameters.",
        "AssertionError: parameter count differs: 124439808 != 124439807",
        "a, b = 124439808, 124439807\nassert a == b, f'parameter count differs: {a} != {b}'",
        1,
        ranks=2,
        noise=(600, 403, 4),
    ),
    _ranks(
        "disk_full/recorded_per_rank",
        "Three runs of one launcher; rank 2 fills its scratch folder.",
        "OSError: [Errno 28] No space left on device",
        "with open('/scratch/optimizer-2.bin', 'wb') as file:\n    file.write(bytes(8 << 20))",
        2,
        prepare="mkdir -p /scratch && mount -t tmpfs -o size=1m,mode=1777 scratch /scratch",
        noise=(380, 404, 2),
    ),
    _ranks(
        "network/recorded_per_rank",
        "Three runs of one launcher; rank 0 cannot resolve the name of the tracking server.",
        "socket.gaierror: [Errno -3] Temporary failure in name resolution",
        "import socket\nsocket.create_connection(('tracking.example.org', 443))",
        0,
    ),
    _ranks(
        "div_zero/recorded_per_rank",
        "Four runs of one launcher; rank 2 has no tokens in its batch.",
        "ZeroDivisionError: division by zero",
        "tokens = []\nprint(sum(tokens) / len(tokens))",
        2,
        ranks=4,
        noise=(300, 405, 3),
    ),
    _ranks(
        "ram_oom/recorded_per_rank",
        "Three runs of one launcher; rank 1 has a limit on its memory and asks for more.",
        "MemoryError",
        """\
import resource
resource.setrlimit(resource.RLIMIT_AS, (300 << 20, 300 << 20))
buffer = bytearray(1 << 30)""",
        1,
        noise=(360, 406, 0),
    ),
    _ranks(
        "permission/recorded_per_rank",
        "Two runs of one launcher; rank 0 may not write the shared index.",
        "PermissionError: [Errno 13] Permission denied: '/shared/index.lock'",
        "open('/shared/index.lock', 'w')",
        0,
        ranks=2,
        prepare="mkdir /shared",
    ),
    _ranks(
        "runtime_error/recorded_per_rank",
        "Three runs of one launcher; rank 2 finds its stage out of order.",
        "RuntimeError: pipeline stage 2 received micro-batch 7 before 6",
        "raise RuntimeError('pipeline stage 2 received micro-batch 7 before 6')",
        2,
        noise=(420, 407, 1),
    ),
    _ranks(
        "missing_module/recorded_per_rank",
        "Three runs of one launcher; rank 1 is on a node whose environment misses a module.",
        "ModuleNotFoundError: No module named 'xformers'",
        "import xformers",
        1,
    ),
    _ranks(
        "hang/recorded_per_rank",
        "Three runs of one launcher; rank 0 waits for a message that never comes, and its own watchdog ends it.",
        "watchdog: rank 0 has waited 1 s for a message from rank 1, giving up",
        "print('watchdog: rank 0 has waited 1 s for a message from rank 1, giving up', flush=True)\nos._exit(3)",
        0,
        noise=(340, 408, 4),
    ),
    produced(
        "success/recorded_per_rank",
        "Four runs of one launcher that all end well, each with a warning of a slow link.",
        "rank 3: done, 0 errors",
        "python -u work.py",
        text=_HEAD.format(lines=300, seed=409, style=2)
        + """\
print(f"rank {rank}: WARNING: link eth1 down, using eth0")
print(f"rank {rank}: done, 0 errors")
""",
        launch="mpirun --oversubscribe -n 4 gpualert run -- python -u work.py",
        framework="mpi",
        uses=("mpirun",),
    ),
]
