"""The command line: words in, exit statuses out.  A command's module is imported when the command is used."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

import click

from gpualert import __version__
from gpualert.errors import ConfigError, GpualertError, RuleError, RunDirError, UsageError
from gpualert.nearby import near

# The command: the module and function that hold it, and what the list of commands says of it.
_COMMANDS = {
    "run": ("work:run", "Run a command, keep its log, report its end."),
    "runs": ("look:runs", "List runs, the newest last."),
    "show": ("look:show", "Show what happened to a run."),
    "log": ("log:log", "Print the log of a run."),
    "workflow": ("workflow:workflow", "Show how the jobs of a workflow went."),
    "classify": ("cause:classify", "Say why a log failed; any file, no run needed."),
    "redact": ("redact:redact_files", "Show which secrets would be removed from a file before it is sent."),
    "slurm": ("slurm:slurm", "Report a Slurm job, wrapped or not."),
    "rules": ("cause:rules", "List, explain and try the failure rules."),
    "ledger": ("ledger:ledger", "Nodes that runs failed on through the node's own fault; leave them out."),
    "stats": ("stats:stats", "Count runs and failures by class and node; how chains of retries fared."),
    "chain": ("chain:chain", "Try a command again where its cause of failure allows it; driven by ticks."),
    "eval": ("eval:evaluate", "Say how often verdicts are right, on logs whose cause is known."),
    "demo": ("demo:demo", "Run a small failing job through everything and show its report."),
    "outbox": ("outbox:outbox", "Look at messages that wait or were given up, try them again, or drop them."),
    "doctor": ("doctor:doctor", "Check this installation: what works, and what to do where it does not."),
    "config": ("setup:config", "Show every setting, its value and where that comes from."),
    "crontab": ("setup:crontab", "Print the line for crontab."),
    "path": ("setup:path", "Say where the files for shells, hooks and workflows lie."),
    "init": ("rcfile:init", "Print the shell functions for an rc file, or add them to it."),
    "tick": ("work:tick", "Do what waits: lost runs, unfinished reports, unsent mail.  For cron."),
    "ping": ("work:ping", "Tell an outside alarm of a run's start; what the shim starts by itself."),
    "post": ("work:post", "Report an ended run; what the shim starts by itself."),
    "prune": ("work:prune", "Remove old runs."),
    "help": ("setup:help_", "Explain a command."),
    "version": ("setup:version", "Print the version."),
}


class _Commands(click.Group):
    """The commands, each imported when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, _, name = _COMMANDS[cmd_name][0].partition(":")
        command = getattr(import_module(f"gpualert.cli.{module}"), name)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in _COMMANDS:
            names = near(args[0], _COMMANDS)
            hint = f"did you mean '{names[0]}'?" if names else "see: gpualert help"
            raise click.UsageError(f"no such command '{args[0]}'; {hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in _COMMANDS.items()])


@click.group(
    cls=_Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="gpualert", message="%(prog)s %(version)s")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Run a command, keep its log, learn why it failed, get one message."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main(words: Sequence[str]) -> int:
    """Run a command; return its exit status: 1 nothing found or a failed check, 2 wrong words or bad input."""
    try:
        status = cli.main(list(words), prog_name="gpualert", standalone_mode=False)
    except click.exceptions.Abort:
        return 130
    except click.ClickException as error:
        return _complain(error.format_message(), 2)
    except (UsageError, ConfigError, RunDirError, RuleError) as error:
        return _complain(str(error), 2)
    except GpualertError as error:
        return _complain(str(error), 1)
    except OSError as error:
        return _complain(str(error), 1)
    return status if isinstance(status, int) else 0


def _complain(text: str, status: int) -> int:
    from gpualert.display import visible

    print(f"gpualert: {visible(' '.join(text.split()))}", file=sys.stderr)
    return status
