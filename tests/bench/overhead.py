#!/usr/bin/env python3
"""
What the shim costs: prints tables, asserts nothing.

    python tests/bench/overhead.py                 all tables
    python tests/bench/overhead.py latency         milliseconds a job, over the bare command
    python tests/bench/overhead.py throughput      1 GiB through the shim
    python tests/bench/overhead.py terminal        both on a terminal, through the relay

Every number is paired: bare and wrapped runs take turns inside one session, in a random order of cases, so that a
busy machine slows both.  `x spawn` is the overhead in multiples of what posix_spawn of /bin/true and the wait for it
took in the same session, which makes machines comparable.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from on_terminal import on_terminal

GPUALERT = Path(__file__).resolve().parents[2] / "bash" / "gpualert"
TRUE = "/bin/true"
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
MARK = "GPUALERT_BENCH"
MODULE_FUNCTION = {"BASH_FUNC_module%%": "() {  eval `/usr/bin/modulecmd bash $*`\n}"}
STREAMS = ("adopt", "one tee", "two tees")


@dataclass
class Case:
    """
    One row: where the state is, which shell, what the streams are, who takes over, and what was measured.

    Attributes:
        wrapper: The words before the job, whose set-up is in `extra`; where it is empty, `gpualert run` in that shell.
    """

    place: str
    state: Path
    shell: str
    streams: str
    post: str = "tick"
    extra: dict[str, str] = field(default_factory=dict)
    note: str = ""
    job: tuple[str, ...] = (TRUE,)
    wrapper: tuple[str, ...] = ()
    bare_ms: list[float] = field(default_factory=list)
    run_ms: list[float] = field(default_factory=list)

    @property
    def over_ms(self) -> list[float]:
        """The overhead of each pair."""
        return [run - bare for run, bare in zip(self.run_ms, self.bare_ms, strict=True)]

    @property
    def environment(self) -> dict[str, str]:
        """What a shell would give its job, and nothing of the caller's own (without PWD, dash would add it)."""
        home = str(self.state.parent)
        ours = {"GPUALERT_HOME": str(self.state), "GPUALERT_POST": self.post, "GPUALERT_PYTHON": sys.executable}
        usual = {"PATH": SYSTEM_PATH, "HOME": home, "LANG": "C.UTF-8", "PWD": str(Path.cwd()), "SHLVL": "1", MARK: home}
        return {**usual, **({} if self.wrapper else ours), **self.extra}

    @property
    def words(self) -> list[str]:
        """The wrapped command."""
        if self.wrapper:
            return [*self.wrapper, *self.job]
        program = shutil.which(self.shell, path=SYSTEM_PATH) or sys.exit(f"{self.shell} is not installed")
        return [program, str(GPUALERT), "run", "--", *self.job]


@contextlib.contextmanager
def streams(kind: str, folder: Path) -> Iterator[list[tuple[int, int, int]]]:
    """Open what stdout and stderr of a job are, as file actions of posix_spawn."""
    if kind == "terminal":  # our own
        yield []
        return
    if kind == "adopt":
        descriptors = [os.open(folder / "out", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)]
        pair = (descriptors[0], descriptors[0])
    else:
        descriptors = [end for _ in range(1 if kind == "one tee" else 2) for end in os.pipe()]
        pair = (descriptors[1], descriptors[-1])
    try:
        yield [(os.POSIX_SPAWN_DUP2, pair[0], 1), (os.POSIX_SPAWN_DUP2, pair[1], 2)]
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def spawn_ms(words: list[str], environment: dict[str, str], actions: list[tuple[int, int, int]]) -> float:
    """Return how long a program takes from posix_spawn to the end of its wait, in ms."""
    began = time.perf_counter()
    pid = os.posix_spawn(words[0], words, environment, file_actions=actions)
    _, status = os.waitpid(pid, 0)
    took = time.perf_counter() - began
    if status:
        sys.exit(f"{words} ended with {os.waitstatus_to_exitcode(status)}")
    return took * 1e3


def helpers(scratch: Path) -> list[int]:
    """Return the processes that carry the mark of what was started with this scratch folder."""
    mark = f"{MARK}={scratch}\0".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if mark in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
    return found


def wait_for_helpers(scratch: Path) -> None:
    """Wait until what a run left to do in the background is done: it is no part of the next measurement."""
    end = time.monotonic() + 60
    while left := helpers(scratch):
        if time.monotonic() > end:
            sys.exit(f"processes of a run are still there after 60 s: {left}")
        time.sleep(0.002)


def measure(cases: list[Case], pairs: int, warm_up: int = 3) -> float:
    """Fill in the cases; returns the median of posix_spawn of /bin/true, in ms."""
    spawns = []
    for number in range(-warm_up, pairs):
        for case in random.sample(cases, len(cases)):
            with streams(case.streams, case.state.parent) as actions:
                spawn = spawn_ms([TRUE], case.environment, [])
                bare = spawn_ms(list(case.job), case.environment, actions)
                run = spawn_ms(case.words, case.environment, actions)
            wait_for_helpers(case.state.parent)
            if number >= 0:
                spawns.append(spawn)
                case.bare_ms.append(bare)
                case.run_ms.append(run)
        if number % 50 == 49:
            for case in cases:
                shutil.rmtree(case.state / "runs", ignore_errors=True)
    return statistics.median(spawns)


def print_latency(cases: list[Case], spawn: float) -> None:
    """Print the table of overheads."""
    row = "{:7} {:5} {:9} {:>6} {:>9} {:>8} {:>9}   {}"
    print(row.format("state", "shell", "streams", "post", "median ms", "p95 ms", "x spawn", ""))
    for case in cases:
        over = sorted(case.over_ms)
        median, p95 = statistics.median(over), over[int(0.95 * (len(over) - 1))]
        cells = (f"{median:.2f}", f"{p95:.2f}", f"{median / spawn:.1f}", case.note)
        print(row.format(case.place, case.shell, case.streams, case.post, *cells))


def latency(pairs: int, shells: list[str], places: dict[str, Path], detached: bool) -> None:
    """Measure and print what a job of no length costs."""
    cases = [
        Case(place, folder / "state", shell, kind)
        for place, folder in places.items()
        for shell in shells
        for kind in STREAMS
    ]
    tmpfs = places["tmpfs"] / "state"
    cases.append(Case("tmpfs", tmpfs, shells[0], "two tees", extra=MODULE_FUNCTION, note="with an exported `module`"))
    spawn = measure(cases, pairs)
    print(f"posix_spawn of {TRUE}: median {spawn:.3f} ms; {pairs} pairs a row; load {os.getloadavg()[0]:.2f}")
    print_latency(cases, spawn)
    if detached:
        late = [Case("tmpfs", tmpfs, shell, "two tees", post="detach") for shell in shells]
        spawn = measure(late, pairs)
        print(f"\nwith the post-processor detached; posix_spawn: median {spawn:.3f} ms; load {os.getloadavg()[0]:.2f}")
        print_latency(late, spawn)


def run_shell(line: str, environment: dict[str, str], *arguments: Path | str) -> float:
    """Return how long a line of sh takes, in s."""
    began = time.perf_counter()
    subprocess.run(["/bin/sh", "-c", line, "sh", *map(str, arguments)], env=environment, check=True)
    return time.perf_counter() - began


def throughput(size_mib: int, rounds: int, shells: list[str], folder: Path) -> None:
    """Measure and print how long `size_mib` takes through the shim and through what one would write by hand."""
    child = f"dd if=/dev/zero bs=64k count={size_mib * 16} status=none"
    copy, log = folder / "copy", folder / "log"
    print(f"\n{size_mib} MiB, {rounds} rounds; load {os.getloadavg()[0]:.2f}")
    for shell in shells:
        case = Case("tmpfs", folder / "state", shell, "")
        run = f"{' '.join(case.words[:-1])} {child}"
        pairs: dict[str, tuple[str, str]] = {
            "child | tee file | cat > file": (f'{child} | tee "$1" | cat >"$2"', f'{run} | cat >"$2"'),
            "child > file (adopt)": (f'{child} >"$2"', f'{run} >"$2"'),
        }
        for name, (by_hand, through_us) in pairs.items():
            took: tuple[list[float], list[float]] = ([], [])
            for _ in range(rounds):
                for times, line in zip(took, (by_hand, through_us), strict=True):
                    times.append(run_shell(line, case.environment, log, copy))
                    wait_for_helpers(folder)
                    for path in (copy, log):
                        path.unlink(missing_ok=True)
                    shutil.rmtree(case.state / "runs", ignore_errors=True)
            hand, ours = map(statistics.median, took)
            print(f"{shell:5} {name:31} by hand {hand:.3f} s, shim {ours:.3f} s: {hand / ours:.2f} of its throughput")


def latency_on_terminal(pairs: int, shells: list[str], folder: Path) -> None:
    """Measure and print what a job of no length costs where its output is a terminal."""
    cases = [Case("tmpfs", folder / "state", shell, "terminal") for shell in shells]

    def inside() -> list[object]:
        return [measure(cases, pairs), [(case.bare_ms, case.run_ms) for case in cases]]

    spawn, measured = on_terminal(inside)
    for case, (bare_ms, run_ms) in zip(cases, measured, strict=True):
        case.bare_ms, case.run_ms = bare_ms, run_ms
    print(f"\non a terminal; posix_spawn: median {spawn:.3f} ms; {pairs} pairs a row; load {os.getloadavg()[0]:.2f}")
    print_latency(cases, spawn)


def throughput_on_terminal(size_mib: int, rounds: int, shells: list[str], folder: Path) -> None:
    """Measure and print how long lines of text take to a terminal, bare and through the relay."""
    text = folder / "text"
    line = b"step 000000  loss 1.2345  grad_norm 0.98  tokens/s 12345  gpu_mem 71.2GiB\n"
    text.write_bytes(line * (size_mib * 2**20 // len(line)))
    print(f"\n{size_mib} MiB of lines to a terminal, {rounds} rounds; load {os.getloadavg()[0]:.2f}")
    for shell in shells:
        case = Case("tmpfs", folder / "state", shell, "terminal")

        def inside(case: Case = case) -> list[list[float]]:
            took: tuple[list[float], list[float]] = ([], [])
            for _ in range(rounds):
                for times, prefix in zip(took, ("", " ".join(case.words[:-1])), strict=True):
                    times.append(run_shell(f'{prefix} cat "$1"', case.environment, text))
                    wait_for_helpers(folder)
                shutil.rmtree(case.state / "runs", ignore_errors=True)
            return list(took)

        bare, ours = map(statistics.median, on_terminal(inside))
        print(f"{shell:5} bare {bare:.3f} s, shim {ours:.3f} s: {bare / ours:.2f} of its throughput")
    text.unlink()


def terminal(words: argparse.Namespace, shells: list[str], folder: Path) -> None:
    """Both tables for a terminal."""
    latency_on_terminal(words.pairs, shells, folder)
    throughput_on_terminal(min(words.mib, 100), words.rounds, shells, folder)


def main() -> None:
    """Read the words of the command line and print what they ask for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=("all", "latency", "throughput", "terminal"), default="all")
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--shells", default="dash,bash", help="separated by commas")
    parser.add_argument("--no-post", action="store_true", help="leave out the rows with a detached post-processor")
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--disk", type=Path, default=Path("/var/tmp"), help="a folder on a disk")
    words = parser.parse_args()
    shells = words.shells.split(",")
    wanted: dict[str, Callable[[dict[str, Path]], None]] = {
        "latency": lambda places: latency(words.pairs, shells, places, not words.no_post),
        "throughput": lambda places: throughput(words.mib, words.rounds, shells, places["tmpfs"]),
        "terminal": lambda places: terminal(words, shells, places["tmpfs"]),
    }
    with (
        tempfile.TemporaryDirectory(prefix="gpualert-", dir="/dev/shm") as memory,
        tempfile.TemporaryDirectory(prefix="gpualert-", dir=words.disk) as disk,
    ):
        for name, show in wanted.items():
            if words.what in ("all", name):
                show({"tmpfs": Path(memory), "disk": Path(disk)})


if __name__ == "__main__":
    main()
