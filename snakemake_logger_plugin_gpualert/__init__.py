"""
gpualert inside Snakemake: `snakemake --logger gpualert`, or `include: "gpualert.smk"` in a Snakefile.

Snakemake imports this package in each of its processes, whether or not it is asked for; nothing happens then, but in
the processes that a followed workflow starts for its jobs: those pass their shell commands through `gpualert run` too.
"""

# (Snakemake looks at the types of the settings: no `from __future__ import annotations` here.)

import os
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from logging import LogRecord
from typing import Any

from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.settings import LogHandlerSettingsBase

from snakemake_logger_plugin_gpualert.follower import Follower
from snakemake_logger_plugin_gpualert.wrapping import bash_folder, is_wrapping_asked, wrap

__all__ = ["LogHandler", "LogHandlerSettings", "follow"]

_WRAPPED = "GPUALERT_SNAKEMAKE_WRAP"
_handlers: "list[LogHandler]" = []


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


class LogHandler(LogHandlerBase):  # type: ignore[misc]
    """Hears what Snakemake tells of its jobs; whatever goes wrong in here, Snakemake and other loggers go on."""

    def __post_init__(self) -> None:
        """Begin to follow the workflow of this process."""
        self._follower: Follower | None = None
        try:
            if self.common_settings.dryrun:
                return
            self._follower = Follower()
            _handlers.append(self)
            if getattr(self.settings, "wrap", False) or is_wrapping_asked():
                _wrap()
        except Exception as error:
            _say(f"this workflow runs unwatched: {type(error).__name__}: {error}")

    def emit(self, record: LogRecord) -> None:
        """Take one record; the slow part of it is done by a thread of ours."""
        try:
            if self._follower:
                self._follower.hear(record)
        except Exception as error:
            self._give_up(error)

    def close(self) -> None:
        """Tell how the workflow went; Snakemake calls this more than once."""
        follower, self._follower = self._follower, None
        try:
            if follower:
                follower.finish()
        except Exception as error:
            self._give_up(error)
        finally:
            if self in _handlers:
                _handlers.remove(self)
            super().close()

    def _give_up(self, error: Exception) -> None:
        self._follower = None
        _say(f"this workflow is not followed any further: {type(error).__name__}: {error}")

    writes_to_stream = writes_to_file = needs_rulegraph = False
    # Ours are no filter and no formatter at all: else --quiet would hide records from us.
    has_filter = has_formatter = True


def follow(workflow: Any) -> None:
    """Do what `include: "gpualert.smk"` asks for; it is called in the processes of single jobs too."""
    try:
        if not workflow.is_main_process:
            _wrap()
            return
        settings = workflow.output_settings
        if settings.dryrun:
            return
        if not _handlers:
            from snakemake.logging import logger

            logger.addHandler(LogHandler(settings, LogHandlerSettings()))
        _wrap()
    except Exception as error:
        _say(f"this workflow runs unwatched: {type(error).__name__}: {error}")


def _wrap() -> None:
    """Wrap the jobs of this process and, because they inherit it, of those that it starts."""
    trouble = wrap(bash_folder() / "bash", trial=_WRAPPED not in os.environ)
    if trouble:
        _say(f"the jobs run unwrapped: {trouble}")
    else:
        os.environ[_WRAPPED] = "1"


def _say(text: str) -> None:
    with suppress(Exception):
        print("gpualert: " + " ".join(text.split()), file=sys.stderr, flush=True)


if os.environ.get(_WRAPPED) == "1" and "GPUALERT_ENGINE_KEY" not in os.environ:
    # A process that a followed workflow has started for a job; no other inherits the first without the second.
    with suppress(Exception):
        _wrap()
