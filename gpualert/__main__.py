"""`python -m gpualert`: what the shim starts after a run, and every command that is not `run` or `init`."""

from __future__ import annotations

import sys


def main() -> int:
    """Return the exit status of the command that the process was started with."""
    words = sys.argv[1:]
    if words[:1] == ["post"]:
        # Started by the shim once a run: not even click is imported.
        from gpualert.handover import main as main_from_shim

        status = main_from_shim(words[1:])
        if status is not None:
            return status
    from gpualert.cli import main as main_from_terminal

    return main_from_terminal(words)


if __name__ == "__main__":
    sys.exit(main())
