"""Files of strangers are opened with suspicion, our own are written in one step."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gpualert.errors import UnsafeFileError

# A link is refused and a FIFO does not make us wait for its writer.
_SUSPICIOUS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_ADDING = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def open_regular(
    path: Path | str, *, dir_fd: int | None = None, shown: Path | None = None, owner: int | None = None
) -> int:
    """
    Open a regular file of our own, or of `owner`, for reading and return its descriptor.

    Args:
        path: The file; relative to `dir_fd` where that is given, so that a folder swapped meanwhile cannot mislead us.
        dir_fd: An open folder.
        shown: How errors call the file; `path` itself by default.
        owner: Whose file it must be instead of ours.

    Raises:
        UnsafeFileError: It is a link, a folder, a FIFO, a device, or belongs to another user.
        OSError: It is missing or unreadable.
    """
    shown = shown or Path(path)
    try:
        fd = os.open(path, _SUSPICIOUS, dir_fd=dir_fd)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise UnsafeFileError(shown, "it is a symbolic link") from error
        raise
    reason = _objection(os.fstat(fd), owner)
    if reason:
        os.close(fd)
        raise UnsafeFileError(shown, reason)
    return fd


def open_append(path: Path) -> int:
    """
    Open a regular file of our own for adding to it, a private new one where there is none; return its descriptor.

    Raises:
        UnsafeFileError: It is a FIFO that somebody reads, a device, or belongs to another user.
        OSError: It is a link, a folder, a FIFO that nobody reads, or cannot be made.
    """
    fd = os.open(path, _ADDING, 0o600)
    reason = _objection(os.fstat(fd))
    if reason:
        os.close(fd)
        raise UnsafeFileError(path, reason)
    return fd


def _objection(found: os.stat_result, owner: int | None = None) -> str:
    """Say why a file cannot be trusted; "" when it can."""
    if not stat.S_ISREG(found.st_mode):
        return "it is not a regular file"
    if found.st_uid != (os.geteuid() if owner is None else owner):
        return f"it belongs to user {found.st_uid}"
    return ""


@contextmanager
def open_folder(path: Path, *, shared: bool = False) -> Iterator[int]:
    """
    Open a folder of our own and yield its descriptor.

    Args:
        shared: Others may write in it: a checkout, say, which somebody has made that way and names to us.

    Raises:
        UnsafeFileError: It is a link, no folder, another user's, or others may write in it.
        OSError: It is missing or unreadable.
    """
    if path.is_symlink():
        raise UnsafeFileError(path, "it is a symbolic link")
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC)
    except NotADirectoryError as error:
        raise UnsafeFileError(path, "it is not a folder") from error
    try:
        found = os.fstat(fd)
        if found.st_uid != os.geteuid():
            raise UnsafeFileError(path, f"it belongs to user {found.st_uid}")
        if not shared and found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise UnsafeFileError(path, "others may write in it")
        yield fd
    finally:
        os.close(fd)


def read_regular(path: Path | str, limit_bytes: int, *, dir_fd: int | None = None, shown: Path | None = None) -> bytes:
    """
    Return at most the first `limit_bytes` of a regular file of our own.

    Raises:
        UnsafeFileError, OSError: As `open_regular`.
    """
    with os.fdopen(open_regular(path, dir_fd=dir_fd, shown=shown), "rb") as file:
        # Python makes room for as much as it is asked for, however small the file is.
        return file.read(min(limit_bytes, os.fstat(file.fileno()).st_size))


def make_private_folder(path: Path) -> None:
    """
    Make a folder, and those above it that are missing, open to nobody else whatever the umask.

    Raises:
        OSError: It cannot be made, or something else has its name.
    """
    for folder in reversed([path, *path.parents]):
        if not folder.is_dir():
            folder.mkdir(mode=0o700, exist_ok=True)
            folder.chmod(0o700)


def write_atomically(path: Path, data: bytes, mode: int = 0o600) -> None:
    """
    Write a file in one step: a reader sees all of it or the older one.

    The bytes are on disk when this returns; it is private, or of the given mode, whatever the umask.

    Raises:
        OSError: The disk is full or the folder is gone; an older file stays as it was.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.unlink(missing_ok=True)
    try:
        fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            os.fchmod(fd, mode)
            file.write(data)
            file.flush()
            os.fsync(fd)
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise


def write_new(path: Path, data: bytes) -> bool:
    """
    Write a private file in one step, unless there is one of that name; of many who try, one succeeds.

    Returns:
        Whether it was written.

    Raises:
        OSError: The disk is full or the folder is gone.
    """
    if path.exists():
        return False
    draft = path.with_name(f".{path.name}.{os.uname().nodename[:32]}.{os.getpid()}")
    try:
        write_atomically(draft, data)
        return _publish(draft, path, data)
    finally:
        draft.unlink(missing_ok=True)


def _publish(draft: Path, path: Path, data: bytes) -> bool:
    """Give a draft its name unless that is taken: a link can do so in one step, a rename would overwrite."""
    try:
        path.hardlink_to(draft)
    except FileExistsError:
        return False
    except OSError:  # a file system without hard links
        try:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            return False
        with os.fdopen(fd, "wb") as file:
            file.write(data)
    return True
