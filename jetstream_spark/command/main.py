"""The command line: `jetstream-spark COMMAND`.

Each command imports what it needs when it is called, so that completion in the shell is quick.
"""

from __future__ import annotations

from importlib import import_module

import click
from click.shell_completion import CompletionItem

import jetstream_spark

_COMMANDS = {
    "bench": "Measure how quick writes, reads and copies are here.",
    "copy": "Copy streams to Parquet files, to other streams, and back.",
    "doctor": "Look for what keeps a job from running: versions, servers, permissions.",
    "lag": "Tell how far queries are behind their streams.",
    "ledger": "Show what writes are remembered as done, and forget one.",
    "offsets": "Show, compare and reset the positions of a query's checkpoint.",
}


class _Commands(click.Group):
    """The commands of `_COMMANDS`, each in a module of its own name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = import_module(f"jetstream_spark.command.{cmd_name}")
        command: click.Command = module.command
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        names = [name for name in _COMMANDS if name.startswith(incomplete)]
        of_options = click.Command.shell_complete(self, ctx, incomplete)
        return [*(CompletionItem(name, help=_COMMANDS[name]) for name in names), *of_options]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.command(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(jetstream_spark.__version__, prog_name="jetstream-spark")
def main() -> None:
    """Look after Spark queries that read and write NATS JetStream.

    For servers themselves there is the command `nats`.

    \b
    Completion in the shell, of bash, zsh or fish:
      eval "$(_JETSTREAM_SPARK_COMPLETE=bash_source jetstream-spark)"
    """
