"""Which steps of a run are done, and who is at it: markers and a lock, so that each step happens once."""

from __future__ import annotations

import errno
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from gpualert.errors import LockTimeoutError
from gpualert.files import make_private_folder, open_append

# Source: flock(2), and what NFS, Lustre and overlay file systems answer.
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
_POLL_S = 0.02
_STALE_S = 900.0
_TOUCH_S = 60.0
_FIRST_PAUSE_S = 60.0
_LONGEST_PAUSE_S = 6 * 3600.0
MAX_TRIES = 12
PARKED = "parked"  # the mark of a run that a tick leaves alone for good


@contextmanager
def locked(path: Path, timeout_s: float) -> Iterator[None]:
    """
    Hold an advisory lock on a file; the file stays behind and means nothing.

    Where the file system has no locks (NFS without its lock service, Lustre mounted without them), a file that only one
    can make takes their place.

    Args:
        path: The lock file; its folder must exist.
        timeout_s: The longest wait; 0 tries once.

    Raises:
        LockTimeoutError: Another process held it all the while.
        OSError: The file cannot be made.
    """
    release = _acquire(path, timeout_s)
    try:
        yield
    finally:
        release()


def _acquire(path: Path, timeout_s: float) -> Callable[[], object]:
    """Take the lock; return what gives it back."""
    from filelock import FileLock, Timeout  # costs 25 ms

    lock = FileLock(path, timeout=timeout_s, mode=0o600, poll_interval=_POLL_S, fallback_to_soft=False)
    try:
        lock.acquire()
    except Timeout as error:
        raise LockTimeoutError(path, timeout_s) from error
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        return _acquire_by_name(_held_name(path), timeout_s)
    return lock.release


def _held_name(path: Path) -> Path:
    return path.with_name(f"{path.name}.held")


def _acquire_by_name(path: Path, timeout_s: float) -> Callable[[], object]:
    """Make a file that must not exist; one that was left behind by a killed process counts no more after a while."""
    ends = time.monotonic() + timeout_s
    while True:
        try:
            return _kept_alive(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), path)
        except FileExistsError:
            _drop_if_stale(path)
        if time.monotonic() >= ends:
            raise LockTimeoutError(path, timeout_s)
        time.sleep(_POLL_S)


def _kept_alive(fd: int, path: Path) -> Callable[[], object]:
    """Touch the file now and then, so that it does not look left behind; return what removes it while it is ours."""
    released = threading.Event()

    def touch() -> None:
        while not released.wait(_TOUCH_S):
            os.utime(fd)

    def release() -> None:
        released.set()
        toucher.join()
        with suppress(FileNotFoundError):
            if path.stat().st_ino == os.fstat(fd).st_ino:
                path.unlink()
        os.close(fd)

    toucher = threading.Thread(target=touch, daemon=True)
    toucher.start()
    return release


def _drop_if_stale(path: Path) -> None:
    with suppress(FileNotFoundError):
        if time.time() - path.stat().st_mtime > _STALE_S:
            # Renamed, not removed: of two who find it stale only one has it.
            aside = path.with_name(f"{path.name}.{os.getpid()}")
            path.rename(aside)
            aside.unlink()


@dataclass(frozen=True)
class Claims:
    """
    The steps of one run that are done.

    A marker is made after its step.  Whoever is killed in between leaves the step to be repeated; each step therefore
    gives the same result again.

    Attributes:
        folder: `claims/` of the run directory.
    """

    folder: Path

    @classmethod
    def of(cls, run_path: Path) -> Claims:
        """Return the claims of a run, making their folder."""
        folder = run_path / "claims"
        make_private_folder(folder)
        return cls(folder)

    @contextmanager
    def held(self, timeout_s: float) -> Iterator[None]:
        """
        Be the only one who works on this run.

        Raises:
            LockTimeoutError, OSError: As `locked`.
        """
        try:
            release = _acquire(self.folder / "lock", timeout_s)
        except OSError:
            self.count("tries")  # it counts, so that a tick gives up at last
            raise
        try:
            yield
        finally:
            release()

    def has(self, step: str) -> bool:
        """Say whether a step is done."""
        return (self.folder / step).exists()

    def mark(self, step: str) -> None:
        """Remember, through a crash of the machine too, that a step is done."""
        fd = open_append(self.folder / step)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def count(self, what: str) -> int:
        """Count one more `what`, such as a try at the whole; return how many there were before."""
        fd = open_append(self.folder / what)
        try:
            os.write(fd, b".")
            return os.fstat(fd).st_size - 1
        finally:
            os.close(fd)


def is_being_done(run_path: Path) -> bool:
    """Say whether another process works on a run just now."""
    return is_locked(run_path / "claims" / "lock")


def is_locked(path: Path) -> bool:
    """Say whether somebody holds a lock just now, making no file; not, where that cannot be seen."""
    try:
        if path.exists() or _held_name(path).exists():
            with locked(path, 0):
                return False
    except LockTimeoutError:
        return True
    except OSError:
        return False
    return False


def is_done(run_path: Path, step: str) -> bool:
    """Say whether a step of a run is done, making no folder."""
    return (run_path / "claims" / step).exists()


def tries(run_path: Path) -> int:
    """Return how often somebody began to work on a run; enough to give it up where that cannot be counted."""
    try:
        found = (run_path / "claims" / "tries").lstat()
    except OSError:
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else MAX_TRIES


def is_due(run_path: Path, now: float | None = None) -> bool:
    """
    Say whether a run that was begun and not finished is worth another try now.

    The pause doubles with each try up to six hours, and after `MAX_TRIES` there is none.
    """
    try:
        found = (run_path / "claims" / "tries").stat()
    except OSError:
        return True
    if found.st_size >= MAX_TRIES:
        return False
    # The first is free: it was most likely killed with its job.
    pause_s = 0.0 if found.st_size < 2 else min(_FIRST_PAUSE_S * 2.0 ** (found.st_size - 2), _LONGEST_PAUSE_S)
    return (time.time() if now is None else now) - found.st_mtime >= pause_s
