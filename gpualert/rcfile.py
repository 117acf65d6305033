"""The line in a person's rc file: added once, removed without a trace."""

from __future__ import annotations

import fcntl
import os
import re
import shlex
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from gpualert.errors import GpualertError, UsageError

SHELLS = ("bash", "zsh", "sh")

# What we had to add besides the line, so that --uninstall knows, stands at its end.
_LINE = re.compile(
    rb"^\[ ! -x (?P<script>.+) \] \|\| eval .* # added by gpualert init --install"
    rb"(?: \((?:newlines before: (?P<newlines>[12])|and (?P<file>this file))\))?(?:\n|\Z)",
    re.MULTILINE,
)


def rc_path(shell: str, environ: Mapping[str, str] = os.environ) -> Path:
    """
    Return the file that a shell reads at its start.

    Raises:
        UsageError: Nobody says where the home folder is.
    """
    home = environ.get("HOME", "")
    folder = environ.get("ZDOTDIR") or home if shell == "zsh" else home
    if not folder:
        raise UsageError("cannot find your home folder: set HOME")
    return Path(folder, {"bash": ".bashrc", "zsh": ".zshrc", "sh": ".profile"}[shell])


def shell_of(environ: Mapping[str, str] = os.environ) -> str:
    """
    Return the kind of shell that $SHELL names.

    Raises:
        UsageError: It is none that we know.
    """
    name = Path(environ.get("SHELL", "")).name
    if name in ("bash", "zsh"):
        return name
    if name in ("sh", "dash", "ash", "busybox", "ksh", "mksh", "yash"):
        return "sh"
    raise UsageError(f"SHELL is '{environ.get('SHELL', '')}': name one of {', '.join(SHELLS)}")


def rc_line(shell: str, script: Path) -> str:
    """
    Return the line, without its end.

    It names this installation by its path: at the time an rc file is read, PATH is seldom complete (no environment is
    active yet).  Where the script is gone the line does nothing.

    Raises:
        UsageError: The path cannot stand in one line.
    """
    if "\n" in str(script):
        raise UsageError(f"cannot write the path '{script}' into one line: it holds a newline")
    word = shlex.quote(str(script))
    return f'[ ! -x {word} ] || eval "$({word} init {shell})" # added by gpualert init --install'


def with_line(content: bytes | None, line: str) -> bytes:
    """
    Return the content of an rc file with the line, in the place of an older one if there is one.

    Args:
        content: What the file holds; None where there is no file.
    """
    text = os.fsencode(line)
    if content is None:
        return text + b" (and this file)\n"
    older = _LINE.search(content)
    if older:
        mark = older[0].rpartition(b"--install")[2] or b"\n"
        return content[: older.start()] + text + mark + content[older.end() :]
    newlines = _newlines_needed(content)
    note = b" (newlines before: %d)" % newlines if newlines else b""
    return content + b"\n" * newlines + text + note + b"\n"


def _newlines_needed(content: bytes) -> int:
    """Return how many newlines end the last line, also where a backslash continues it."""
    ended = content.endswith(b"\n") or not content
    continued = content.removesuffix(b"\n").endswith(b"\\")
    return (not ended) + continued


def without_line(content: bytes) -> bytes | None:
    """Return the content as it was before `with_line`; None where there was no file."""
    while found := _LINE.search(content):
        before, after = content[: found.start()], content[found.end() :]
        if found["file"] and not before and not after:
            return None
        if found["newlines"] and not after:
            before = before.removesuffix(b"\n" * int(found["newlines"]))
        content = before + after
    return content


def scripts_in(content: bytes) -> list[Path]:
    """Return the scripts that our lines in an rc file name."""
    found = []
    for line in _LINE.finditer(content):
        with suppress(ValueError):
            found += [Path(word) for word in shlex.split(os.fsdecode(line["script"]))]
    return found


def install(path: Path, line: str) -> bool:
    """
    Add the line to an rc file, once; return whether the file changed.

    Raises:
        GpualertError: The file cannot be changed; it is as it was.
    """
    with _opened(path, create=True) as (fd, content):
        wanted = with_line(content, line)
        if wanted == content:
            return False
        had = content or b""
        if wanted.startswith(had):
            _append(fd, len(had), wanted[len(had) :])
        else:
            _replace(path, fd, wanted)
    return True


def uninstall(path: Path) -> bool:
    """
    Remove what `install` added; return whether there was anything.

    Raises:
        GpualertError: As `install`.
    """
    if not path.exists():
        return False
    with _opened(path, create=False) as (fd, content):
        wanted = without_line(content or b"")
        if wanted == content:
            return False
        if wanted is None:
            path.resolve().unlink()  # a link stays
        else:
            _replace(path, fd, wanted)
    return True


@contextmanager
def _opened(path: Path, *, create: bool) -> Iterator[tuple[int, bytes | None]]:
    """Yield an rc file, locked, and what it holds; None where it has just been made."""
    fd = -1
    try:
        is_new = create and not path.exists()
        flags = os.O_RDWR | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC
        fd = os.open(path, flags | (os.O_CREAT if is_new else 0), 0o644)
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise GpualertError(f"cannot change '{path}': it is not a regular file")
        fcntl.flock(fd, fcntl.LOCK_EX)
        content = b"".join(iter(lambda: os.read(fd, 1 << 20), b""))
        yield fd, None if is_new and not content else content
    except OSError as error:
        raise GpualertError(f"cannot change '{path}': {error.strerror}; add the line by hand") from error
    finally:
        if fd >= 0:
            os.close(fd)


def _append(fd: int, size_bytes: int, text: bytes) -> None:
    """Add to the end of a file; where not all of it fits, none of it stays."""
    try:
        if os.write(fd, text) < len(text):
            raise OSError(28, "No space left on device")
        os.fsync(fd)
    except OSError:
        os.ftruncate(fd, size_bytes)
        raise


def _replace(path: Path, fd: int, content: bytes) -> None:
    """Write the file that a link leads to beside itself and rename it; owner and mode stay."""
    target, was = path.resolve(), os.fstat(fd)
    beside = target.with_name(f"{target.name}.gpualert-{os.getpid()}")
    try:
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(content)
            if (was.st_uid, was.st_gid) != (os.geteuid(), os.getegid()):
                os.fchown(file.fileno(), was.st_uid, was.st_gid)
            os.fchmod(file.fileno(), stat.S_IMODE(was.st_mode))
            file.flush()
            os.fsync(file.fileno())
        beside.replace(target)
    except OSError:
        beside.unlink(missing_ok=True)
        raise
