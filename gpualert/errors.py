"""Errors that name the thing, the place, the reason and the next step."""

from __future__ import annotations

from pathlib import Path


class GpualertError(Exception):
    """A trouble whose sentence can be shown to the user as it is."""


class UsageError(GpualertError):
    """The words of a command, or the input it was given, make no sense: exit status 2."""


class RunDirError(GpualertError):
    """
    A run directory cannot be trusted.

    Attributes:
        path: The run directory.
        file: The file in it, relative.
        key: The key in that file, or "".
        reason: Why it was refused.
    """

    def __init__(self, path: Path, file: str, reason: str, key: str = "") -> None:
        self.path, self.file, self.key, self.reason = path, file, key, reason
        where = f"file '{file}'" + (f", key '{key}'" if key else "")
        super().__init__(f"cannot read run '{path}': {where}: {reason}")


class ConfigError(GpualertError):
    """
    A settings file or variable is wrong.

    Attributes:
        source: The file or variable it stands in.
        key: The setting, or "".
        reason: Why it was refused.
    """

    def __init__(self, source: str, reason: str, key: str = "") -> None:
        self.source, self.key, self.reason = source, key, reason
        super().__init__(f"cannot use settings of '{source}'" + (f", key '{key}'" if key else "") + f": {reason}")


class RuleError(GpualertError):
    """
    A rule file is wrong.

    Attributes:
        source: The file.
        key: The key in it, or "".
        reason: Why it was refused.
    """

    def __init__(self, source: str, reason: str, key: str = "") -> None:
        self.source, self.key, self.reason = source, key, reason
        super().__init__(f"cannot use rule '{source}'" + (f", key '{key}'" if key else "") + f": {reason}")


class UnsafeFileError(GpualertError):
    """
    A file is a link, a device, somebody else's or was swapped while we looked.

    Attributes:
        path: The file.
        reason: What is wrong with it.
    """

    def __init__(self, path: Path, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(f"refused to open '{path}': {reason}")


class DeliveryError(GpualertError):
    """
    A message could not be handed over.

    Attributes:
        channel: `maildir`, `smtp` or `sendmail`.
        reason: What the other side said.
        permanent: Whether trying again with the same message and settings is pointless.
        too_large: Whether the other side refused the size.
    """

    def __init__(self, channel: str, reason: str, *, permanent: bool = False, too_large: bool = False) -> None:
        self.channel, self.reason, self.permanent, self.too_large = channel, reason, permanent, too_large
        super().__init__(f"cannot deliver by {channel}: {reason}")


class LockTimeoutError(GpualertError):
    """
    A lock was held by somebody else for longer than we wait.

    Attributes:
        path: The lock file.
        waited_s: How long we waited.
    """

    def __init__(self, path: Path, waited_s: float) -> None:
        self.path, self.waited_s = path, waited_s
        super().__init__(f"cannot lock '{path}': still held by another process after {waited_s:g} s")
