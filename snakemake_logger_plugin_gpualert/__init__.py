"""
gpualert inside Snakemake: `snakemake --logger gpualert`, or `include: "gpualert.smk"` in a Snakefile.

Snakemake imports this package in each of its processes, whether or not it is asked for; nothing happens then, but in
the processes that a followed workflow starts for its jobs: those pass their shell commands through `gpualert run` too.
"""

# Snakemake looks at the types of the settings: no `from __future__ import annotations` here.

import logging
import os
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.settings import LogHandlerSettingsBase

# Our own modules are imported where they are needed: every Snakemake on this machine would pay for them.

__all__ = ["LogHandler", "LogHandlerSettings", "follow"]

_WRAPPED = "GPUALERT_SNAKEMAKE_WRAP"


@dataclass
class LogHandlerSettings(LogHandlerSettingsBase):
    """What `--logger-gpualert-...` offers."""

    wrap: bool = field(
        default=False,
        metadata={
            "help": "Pass every shell command through `gpualert run`, which keeps its output and true exit status.",
            "env_var": False,
            "required": False,
        },
    )


class LogHandler(LogHandlerBase):
    """
    What `--logger gpualert` asks for.

    Snakemake hands records to loggers through a queue, too late to save the log of a failed job from the next attempt:
    an ear of our own hears them first, and nothing is left to do here.
    """

    writes_to_stream = writes_to_file = needs_rulegraph = False
    # Ours are no filter and no formatter at all: else --quiet would hide records.
    has_filter = has_formatter = True

    def __post_init__(self) -> None:
        """Begin to follow the workflow of this process."""
        _begin(self.common_settings, wrapped=getattr(self.settings, "wrap", False) or None)

    def emit(self, record: logging.LogRecord) -> None:
        """Do nothing with a record."""


def follow(workflow: Any) -> None:
    """Do what `include: "gpualert.smk"` asks for; in the processes of single jobs, where it is called too, nothing."""
    if workflow.is_main_process:
        _begin(workflow.output_settings, wrapped=True)


class _Ear(logging.Handler):
    """Hears what Snakemake tells of its jobs; whatever goes wrong in here, Snakemake and its loggers go on."""

    def __init__(self) -> None:
        super().__init__()
        from snakemake_logger_plugin_gpualert.follower import Follower

        self.follower: Follower | None = Follower()

    def createLock(self) -> None:  # noqa: N802 - the name is logging's
        """Have no lock: a thread that copies a log must not keep the others from logging."""
        self.lock = None

    def emit(self, record: logging.LogRecord) -> None:
        """Take one record."""
        try:
            if self.follower:
                self.follower.hear(record)
        except Exception as error:
            self._give_up(error)

    def close(self) -> None:
        """Tell how the workflow went; this is called more than once."""
        follower, self.follower = self.follower, None
        try:
            if follower:
                follower.finish()
        except Exception as error:
            self._give_up(error)
        super().close()

    def _give_up(self, error: Exception) -> None:
        self.follower = None
        _say(f"this workflow is not followed any further: {type(error).__name__}: {error}")


def _begin(settings: Any, *, wrapped: bool | None) -> None:
    """
    Follow the workflow of this process, and wrap its jobs.

    Args:
        wrapped: None wraps them where our `bash` comes first on PATH.
    """
    try:
        from snakemake.logging import logger

        from snakemake_logger_plugin_gpualert.wrapping import is_wrapping_asked

        if settings.dryrun:
            return
        if not any(isinstance(handler, _Ear) for handler in logger.handlers):
            logger.addHandler(_Ear())
        if is_wrapping_asked() if wrapped is None else wrapped:
            _wrap()
    except Exception as error:
        _say(f"this workflow runs unwatched: {type(error).__name__}: {error}")


def _wrap() -> None:
    """Wrap the jobs of this process and, because they inherit it, of those that it starts."""
    try:
        from snakemake_logger_plugin_gpualert.wrapping import bash_folder, wrap

        trouble = wrap(bash_folder() / "bash", trial=_WRAPPED not in os.environ)
    except Exception as error:
        trouble = f"{type(error).__name__}: {error}"
    if trouble:
        _say(f"the jobs run unwrapped: {trouble}")
    else:
        os.environ[_WRAPPED] = "1"


def _say(text: str) -> None:
    with suppress(Exception):
        print("gpualert: " + " ".join(text.split()), file=sys.stderr, flush=True)


if os.environ.get(_WRAPPED) == "1" and "GPUALERT_ENGINE_KEY" not in os.environ:
    # A process that a followed workflow has started for a job; a Snakemake within a job has both.
    _wrap()
