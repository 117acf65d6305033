"""What a tick does about chains: finds out which attempts are gone, and starts those that are due."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

from gpualert.chains.ending import conclude, vanish
from gpualert.chains.gate import Gate
from gpualert.chains.launch import Launch, plan, start
from gpualert.chains.read import ChainError, read_chain, read_story
from gpualert.chains.record import Chain, Started, Story
from gpualert.chains.runs import find_run
from gpualert.chains.store import OVER, chain_paths, write_order
from gpualert.claims import PARKED, is_done, locked
from gpualert.config import Settings
from gpualert.decide import excluded
from gpualert.errors import GpualertError, LockTimeoutError, UnsafeFileError
from gpualert.files import read_regular, write_atomically
from gpualert.findings import load
from gpualert.ledger import Ledger
from gpualert.ledger import read as read_ledger
from gpualert.model import Run, RunStatus
from gpualert.settle import readable_logs
from gpualert.signals.process import Machine, is_alive, this_machine
from gpualert.standing import LAUNCH_GRACE_S, UNKNOWN_AFTER_S

_COMPLAINT = "complaint"


@dataclass(frozen=True)
class Driver:
    """
    One look at all chains of a state folder.

    Attributes:
        folders: All state folders: a run may have had to be kept elsewhere.
        complain: Takes each line that a person should see.
        here: This machine.
        starter: Starts an attempt as `launch.start` does.
    """

    state: Path
    folders: Sequence[Path]
    settings: Settings
    complain: Callable[[str], None]
    here: Machine
    starter: Callable[[Chain, int, Launch, float], bool]

    def drive(self, paths: Iterable[Path], until: float) -> None:
        """Look after the chains that are not over; what is wrong with one does not keep the others waiting."""
        for path in paths:
            if time.monotonic() >= until:
                return
            if (path / OVER).exists():
                continue
            try:
                with locked(path / "lock", 0):
                    self.look_after(read_chain(path), time.time())
                (path / _COMPLAINT).unlink(missing_ok=True)
            except LockTimeoutError:
                continue  # whoever holds it does this
            except (GpualertError, OSError, ValueError) as error:
                self._complain_once(path, str(error))

    def look_after(self, chain: Chain, now: float) -> None:
        """
        Do what is due for one chain; the caller holds its lock.

        Raises:
            ChainError, NotStartedError, OSError: It cannot be read, or not be started.
        """
        if not self._is_ours(chain):
            return
        story = read_story(chain.path)
        if story.running is not None:
            story = self._settled(chain, story, story.running, now)
        if story.running is not None:
            return
        if story.end:
            write_atomically(chain.path / OVER, f"{story.end.value}\n".encode())
            return
        if order := story.put_off(chain.created_at, now):
            last = f"attempts/{story.last}.end.json" if story.last else "chain.json"
            key = "attempt.ended_at" if story.last else "created_at"
            write_order(chain.path, order)
            raise ChainError(
                chain.path, last, "it lies ahead of this clock, which was set back; the wait begins anew", key
            )
        if now >= story.due_at(chain.created_at):
            self._start(chain, story, now)

    def _is_ours(self, chain: Chain) -> bool:
        """Say whether attempts of a chain may be started here."""
        if chain.policy.host:
            # What a tick starts inside a Slurm job (scrontab) is killed at its end.
            job = os.environb.get(b"SLURM_JOB_ID")
            return chain.policy.host == self.here.host and (job is None or chain.environ.get(b"SLURM_JOB_ID") == job)
        program, path = os.fsdecode(chain.command[0]), os.fsdecode(chain.environ.get(b"PATH", os.defpath.encode()))
        if "/" in program:
            return os.access(Path(os.fsdecode(chain.cwd), program), os.X_OK)
        return shutil.which(program, path=path) is not None

    def _start(self, chain: Chain, story: Story, now: float) -> None:
        try:
            self.starter(chain, story.last + 1, plan(chain, story, self._to_avoid(chain, story, now)), now)
        except GpualertError as error:
            self._vanished(chain, story, story.last + 1, str(error), now)
            raise

    def _to_avoid(self, chain: Chain, story: Story, now: float) -> tuple[str, ...]:
        """Return the nodes that the chain has learnt to avoid, if not cleared since, and those all chains avoid."""
        book = self._ledger
        known = [each for each in story.all_attempts if not book.is_cleared(each.faulty_node, each.ended_at)]
        return tuple(dict.fromkeys([*excluded(known, chain.policy), *book.excluded(now, self.settings)]))

    @cached_property
    def _ledger(self) -> Ledger:
        try:
            return read_ledger(self.state)
        except (OSError, UnsafeFileError):
            return Ledger((), ())  # the tick complains

    def _settled(self, chain: Chain, story: Story, number: int, now: float) -> Story:
        """Return the story with the end of an attempt, where it has ended and nobody has written that down."""
        started = story.started.get(number)
        if started is None:
            return self._vanished(chain, story, number, "the machine went down when it was started", now)
        age_s = now - started.started_at
        gone = _is_gone(started, self.here)
        if gone is False or (gone is None and age_s < UNKNOWN_AFTER_S):
            return story
        if run := find_run(self.folders, chain.id, started):
            return self._reported(chain, story, started, run, now)
        if gone is None:
            reason = f"it was started on {started.host}, and left no record"
            return self._vanished(chain, story, number, reason, now, RunStatus.UNKNOWN)
        return story if 0 <= age_s < LAUNCH_GRACE_S else self._vanished(chain, story, number, "it left no record", now)

    def _vanished(
        self,
        chain: Chain,
        story: Story,
        number: int,
        reason: str,
        now: float,
        status: RunStatus = RunStatus.LOST,
    ) -> Story:
        """Return the story with an attempt that left no record; where that ends the chain, no message tells of it."""
        story = vanish(chain, story, number, reason, now, status)
        if story.end:
            why = story.ended[number].decision.reason
            self.complain(f"chain '{chain.id}' has ended: {why}; attempt {number}: {reason}")
        return story

    def _reported(self, chain: Chain, story: Story, started: Started, run: Run, now: float) -> Story:
        """Return the story with the end of an attempt whose report, made or given up, has not reached the chain."""
        if is_done(run.path, PARKED):
            return self._vanished(chain, story, started.number, f"run {run.run_id} cannot be read", now)
        is_reported = any(is_done(run.path, f"{state}-done") for state in ("ended", "lost", "unknown"))
        findings = load(run.path) if is_reported else None
        return conclude(chain, story, started, run, findings, readable_logs(run).files) if findings else story

    def _complain_once(self, path: Path, reason: str) -> None:
        """Complain about a chain, unless the last complaint was the same."""
        memory = path / _COMPLAINT
        with suppress(OSError, UnsafeFileError):
            if read_regular(memory, 1 << 16) == _bytes(reason):
                return
        self.complain(reason)
        with suppress(OSError):
            write_atomically(memory, _bytes(reason))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")


def _is_gone(started: Started, here: Machine) -> bool | None:
    """Say whether the process that an attempt was started as has ended; None where that cannot be seen from here."""
    if started.host != here.host:
        return None
    if started.boot_id != here.boot_id:
        return True
    if started.pid_ns not in ("", here.pid_ns):
        return None
    alive = is_alive(started.pid, started.pid_starttime)
    return None if alive is None else not alive


def drive(
    state: Path,
    folders: Iterable[Path],
    settings: Settings,
    complain: Callable[[str], None],
    until: float,
    only: Sequence[Path] = (),
    gate: Gate | None = None,
) -> None:
    """
    Start what is due of the chains in a state folder, and find out which attempts are gone.

    Args:
        folders: All state folders: a run may have had to be kept elsewhere.
        until: The monotonic instant after which nothing new is begun.
        only: The chains to look after; all where none is named.
        gate: Where new attempts wait; without one, until all that are due are there.
    """
    paths = only or chain_paths([state])
    if paths:
        with ExitStack() as own:
            gate = gate or own.enter_context(Gate())
            Driver(state, list(folders), settings, complain, this_machine(), partial(start, gate)).drive(paths, until)
