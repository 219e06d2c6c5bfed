"""Options of a job on the command line: `--option key=value`, or a file of them.

A file keeps secrets out of the list of processes, as do `env:NAME` and `file:PATH` as values.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import click

from jetstream_spark.options.connection_options import ConnectionOptions
from jetstream_spark.options.format_options import SinkOptions

F = TypeVar("F", bound=Callable[..., Any])


def takes_options(command: F) -> F:
    """Give a command `--option` and `--options-file`, as `option` and `options_file`."""
    pairs = click.option(
        "--option",
        "-o",
        multiple=True,
        metavar="KEY=VALUE",
        help="An option of the job, as in .option(key, value): servers=nats://host:4222, ...",
    )
    file = click.option(
        "--options-file",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="A JSON object of options; those of --option come on top.",
    )
    return pairs(file(command))


def read_options(pairs: Iterable[str], file: Path | None) -> dict[str, str]:
    """Put the options of a command line together.

    Raises:
        click.UsageError: one has no `=`, or the file is no JSON object.
    """
    options: dict[str, str] = {}
    if file is not None:
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
            options |= {str(key): _text(value) for key, value in dict(found).items()}
        except (OSError, ValueError, TypeError, RecursionError) as error:
            raise click.UsageError(
                f"'{file}' is not a JSON object of options: {type(error).__name__}. Write "
                '{"servers": "nats://host:4222", "stream": "ORDERS"}.'
            ) from None
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not separator or not key.strip():
            # The text is not repeated: it may be a secret.
            raise click.UsageError("an --option has the form KEY=VALUE, as in -o stream=ORDERS")
        options[key.strip()] = value
    return options


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


_CONNECTION = (
    "servers user password token credsFile credsSecret nkeyFile nkeySeedSecret tls tlsCaFile "
    "tlsCertFile tlsKeyFile tlsServerName tlsFirst connectTimeout requestTimeout outageTimeout "
    "domain apiPrefix connectionName ignoreDiscoveredServers"
).lower().split()  # fmt: skip


def connection_of(options: dict[str, str]) -> ConnectionOptions:
    """The part of a job's options that is about the connection, with time limits for somebody who
    waits for the answer.

    Raises:
        OptionsError: it has mistakes.
    """
    mine = {"requestTimeout": "5s", "outageTimeout": "5s"} | connection_part(options)
    return SinkOptions.parse(mine).connection


def connection_part(options: dict[str, str]) -> dict[str, str]:
    """The part of a job's options that is about its connection."""
    return {key: value for key, value in options.items() if key.lower() in _CONNECTION}
