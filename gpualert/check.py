"""What one check of the doctor found."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Mark(str, Enum):
    """How a check ended."""

    OK = "ok"
    WARN = "warn"
    FAIL = "FAIL"


@dataclass(frozen=True)
class Check:
    """
    One thing that was looked at.

    Attributes:
        found: What was found.
        advice: What to do; "" where nothing is to be done.
    """

    mark: Mark
    thing: str
    found: str
    advice: str = ""
