"""Which runs a tick need not look at again: a list beside the runs, which may be deleted at any time."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from gpualert.errors import UnsafeFileError
from gpualert.files import open_append, read_regular, write_atomically

_LIMIT_BYTES = 64 << 20
_SLACK = 1000


@dataclass
class Finished:
    """
    The runs of a state folder about which all is said and done; asking ten thousand folders each minute costs seconds.

    Attributes:
        path: The list, one name a line; only whoever holds the tick's lock writes it.
        names: What it holds.
        new: What is to be added.
    """

    path: Path
    names: frozenset[bytes]
    new: list[bytes] = field(default_factory=list)

    @classmethod
    def of(cls, state: Path) -> Finished:
        """Read the list of a state folder; where there is none, nothing is known to be finished."""
        path = state / "locks" / "finished"
        try:
            return cls(path, frozenset(read_regular(path, _LIMIT_BYTES).split(b"\n")))
        except (OSError, UnsafeFileError):
            return cls(path, frozenset())

    def __contains__(self, run_path: Path) -> bool:
        """Say whether a run is finished."""
        return os.fsencode(run_path.name) in self.names

    def add(self, run_path: Path) -> None:
        """Remember that a run is finished."""
        self.new.append(os.fsencode(run_path.name))

    def save(self, present: Iterable[Path]) -> None:
        """
        Write down what was added; names of runs that are gone are dropped once they are many.

        Args:
            present: All runs there are.  Where nothing can be written the next tick looks at all of them again.
        """
        known = [os.fsencode(path.name) for path in present]
        with suppress(OSError, UnsafeFileError):
            if len(self.names) > 2 * len(known) + _SLACK:
                left = self.names.union(self.new).intersection(known)
                write_atomically(self.path, b"".join(name + b"\n" for name in sorted(left)))
            elif self.new:
                fd = open_append(self.path)
                with os.fdopen(fd, "ab") as file:
                    file.write(b"".join(name + b"\n" for name in self.new if b"\n" not in name))
