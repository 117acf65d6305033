"""gpualert: run a command, keep its log, say why it failed, send one message."""

from __future__ import annotations

__version__ = "0.1.0"
