"""`jetstream-spark ledger`: what writes are remembered as done, and how to forget one."""

from __future__ import annotations

import time
from pathlib import Path

import click

from jetstream_spark.client.blocking import run, this_host
from jetstream_spark.client.control import Control
from jetstream_spark.client.operation import Operation
from jetstream_spark.command.given_options import connection_of, read_options, takes_options
from jetstream_spark.command.ledger_entries import (
    LEDGER_BUCKET,
    WriteStanding,
    read_entries,
    standings,
)
from jetstream_spark.command.output import CommandOutput, reports
from jetstream_spark.errors import LedgerError

_ACTIVE_S = 60.0
_COLUMNS = ("kind", "name", "stream", "version", "rows", "begun", "started", "done", "last")


@click.group()
def command() -> None:
    """Show what writes are remembered as done, and forget one."""


_bucket = click.option(
    "--bucket",
    default=LEDGER_BUCKET,
    show_default=True,
    help="The option ledgerBucket of the writes.",
)


@command.command()
@click.argument("name", required=False)
@_bucket
@takes_options
@reports
def show(
    output: CommandOutput,
    name: str | None,
    bucket: str,
    option: tuple[str, ...],
    options_file: Path | None,
) -> None:
    """What the ledger says of each write, or of those of NAME: a query's id, or a txnAppId.

    `version` is the newest one that is completely written, with `rows` rows; `started` and `done`
    count the partitions of the version `begun`.
    """
    control = Control(this_host(), connection_of(read_options(option, options_file)))
    rows = [_row(one) for one in _of(control, bucket, name)]
    output.value(rows)
    of_it = f" of '{name}'" if name else ""
    output.table(
        _COLUMNS, rows, f"the bucket '{bucket}' of these servers remembers no write{of_it}"
    )


def _of(control: Control, bucket: str, name: str | None) -> list[WriteStanding]:
    found = standings(run(read_entries(control, bucket)))
    return [one for one in found if name is None or one.name == name]


def _row(one: WriteStanding) -> dict[str, object]:
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(one.written_us // 10**6))
    return {
        "kind": one.kind,
        "name": one.name,
        "stream": one.stream,
        "version": one.version,
        "rows": one.rows,
        "begun": one.begun,
        "started": one.started,
        "done": one.done,
        "last": moment,
    }


@command.command()
@click.argument("name")
@click.option("--stream", help="Only what was written to this one.")
@click.option("--name-again", metavar="NAME", help="The name once more, where nobody can be asked.")
@_bucket
@takes_options
@reports
def forget(
    output: CommandOutput,
    name: str,
    stream: str | None,
    name_again: str | None,
    bucket: str,
    option: tuple[str, ...],
    options_file: Path | None,
) -> None:
    """Forget what was written by NAME, a query's id or a txnAppId.

    If a batch of it runs again, it is written again, in addition to what its stream holds; so this
    is for queries that are gone for good, and for writes that are to be made once more. Refused if
    the ledger was written in the last 60 seconds. Asks for the name.
    """
    control = Control(this_host(), connection_of(read_options(option, options_file)))
    found = [one for one in _of(control, bucket, name) if stream in (None, one.stream)]
    if not found:
        raise LedgerError(
            f"the bucket '{bucket}' remembers no write of '{name}'"
            + (f" to stream '{stream}'." if stream else "."),
            "`jetstream-spark ledger show` lists the names that there are.",
        )
    for one in found:
        _check_quiet(one)
    output.table(_COLUMNS, [_row(one) for one in found])
    _ask(output, name, name_again)
    for one in found:
        run(_forget(control, bucket, one))
    output.value([_row(one) for one in found])
    output.say(f"forgotten: {sum(one.entries for one in found)} entries")


def _check_quiet(one: WriteStanding) -> None:
    age_s = time.time() - one.written_us / 1e6
    if age_s < _ACTIVE_S:
        raise LedgerError(
            f"'{one.name}' wrote to stream '{one.stream}' {max(0.0, age_s):.0f} s ago, so it may "
            "be running.",
            f"Stop it, and try again in {_ACTIVE_S:g} s.",
        )


def _ask(output: CommandOutput, name: str, name_again: str | None) -> None:
    if name_again is None:
        if output.as_json:
            raise click.UsageError("with --json nothing is asked; add --name-again NAME")
        output.say("What runs again of these is written again, beside what the stream holds.")
        name_again = click.prompt("The name, to go on", default="", show_default=False)
    if name_again != name:
        raise LedgerError("the name is another one; nothing was forgotten.", "Give it exactly.")


def _forget(control: Control, bucket: str, one: WriteStanding) -> Operation[None]:
    """Remove the entries of partitions, then the driver's.

    In this order a removal that is cut off changes nothing: what the driver has noted as written
    stays so.
    """
    stream, subject = f"KV_{bucket}", f"$KV.{bucket}.{one.prefix}"
    for pattern in (f"{subject}.*", subject):
        yield from control.request(f"STREAM.PURGE.{stream}", {"filter": pattern})
