"""What the commands print: tables for people, JSON for programs; and their exit codes.

With `--json` standard output is JSON and nothing else: one value, or with `--watch` one per line.
The exit code is 0 when all is well, 1 when something is wrong, 2 when the command was called
wrongly.
"""

from __future__ import annotations

import errno
import functools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click
from rich.console import Console, JustifyMethod
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table

from jetstream_spark.errors import ConnectorError

F = TypeVar("F", bound=Callable[..., Any])
_ANY = 100_000
# Times stay whole where a terminal is narrow; names and notes are folded.
_WHOLE = len("2026-11-21T10:00:00.123456789Z")
# Numbers that are names, such as 20260101.
_NAMES = ("batch", "begun", "version")
_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


class FileFailedError(ConnectorError):
    """A file or a folder of this machine cannot be read or written."""

    condition = "FILE"


class CommandOutput:
    """Where a command's answer goes."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        self.console = Console(highlight=False)

    def say(self, text: str) -> None:
        """A sentence for people."""
        if not self.as_json:
            self.console.print(escape(text), soft_wrap=True)

    def mark(self, status: str, text: str) -> None:
        """A sentence for people, after a mark: `ok`, `warn` or `fail`."""
        if not self.as_json:
            colour = _COLOURS[status]
            self.console.print(f"[{colour}]{status:<6}[/] {escape(text)}", soft_wrap=True)

    def value(self, value: object) -> None:
        """A value for programs."""
        if self.as_json:
            click.echo(json.dumps(value, ensure_ascii=False, default=str))

    def table(
        self, columns: Sequence[str], rows: Sequence[Mapping[str, object]], without: str = ""
    ) -> None:
        """Rows for people, numbers aligned to the right; or a sentence where there is no row."""
        if self.as_json:
            return
        if not rows and without:
            self.say(without)
            return
        table = table_of(columns, rows)
        if not self.console.is_terminal:  # a file has no width, and `grep` looks at lines
            needed = Measurement.get(self.console, self.console.options.update(width=_ANY), table)
            self.console.width = max(self.console.width, needed.maximum)
        self.console.print(table)

    def error(self, error: ConnectorError) -> None:
        """What is wrong, and what to do about it; on standard error for people."""
        if self.as_json:
            said = {"condition": error.condition, "what": error.what, "remedy": error.remedy}
            click.echo(json.dumps({"error": said}, ensure_ascii=False))
        else:
            click.echo(str(error), err=True)


def table_of(columns: Sequence[str], rows: Sequence[Mapping[str, object]]) -> Table:
    """Rows as a table; a column without any value is left out."""
    shown = [name for name in columns if any(row.get(name) is not None for row in rows)]
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in shown:
        numbers = all(isinstance(row.get(name), int | float | None) for row in rows)
        is_short = all(len(_cell(row.get(name))) <= _WHOLE for row in rows)
        side: JustifyMethod = "right" if numbers else "left"
        table.add_column(name, justify=side, overflow="fold", no_wrap=is_short)
    for row in rows:
        table.add_row(*(_cell(row.get(name), name) for name in shown))
    return table


def _cell(value: object, column: str = "") -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and column in _NAMES:
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.1f}"
    text = escape(str(value))
    return f"[{_COLOURS[text]}]{text}[/]" if text in _COLOURS else text


def _of_file(error: OSError) -> FileFailedError:
    where = f"'{error.filename}'" if error.filename else "a file"
    return FileFailedError(
        f"{where} cannot be read or written: {error.strerror or error}.",
        "See that it is the path that you meant, that this user may use it, and that the disk has "
        "room; then give the command again.",
    )


def reports(command: F) -> F:
    """Give a command `--json`, a `CommandOutput` as its first argument, and errors: exit code 1."""

    @click.option("--json", "as_json", is_flag=True, help="Print JSON, and nothing else.")
    @functools.wraps(command)
    def call(*arguments: Any, as_json: bool, **keywords: Any) -> Any:
        output = CommandOutput(as_json)
        try:
            return command(output, *arguments, **keywords)
        except ConnectorError as error:
            output.error(error)
        except OSError as error:
            if error.errno == errno.EPIPE:  # nobody reads on; click ends quietly
                raise
            output.error(_of_file(error))
        raise SystemExit(1)

    return call  # type: ignore[return-value]
