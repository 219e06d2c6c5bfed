"""`jetstream-spark lag`: how far queries are behind their streams."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import click
from rich.live import Live
from rich.text import Text

from jetstream_spark.client.blocking import run, this_host
from jetstream_spark.client.control import Control
from jetstream_spark.client.operation import Operation
from jetstream_spark.command.checkpoint import Checkpoint, find_checkpoints
from jetstream_spark.command.given_options import connection_of, read_options, takes_options
from jetstream_spark.command.ledger_entries import LEDGER_BUCKET, read_entries, standings
from jetstream_spark.command.output import CommandOutput, reports, table_of
from jetstream_spark.errors import RetryableError, StreamNotFoundError
from jetstream_spark.options.offsets import StreamOffset
from jetstream_spark.source.anchor import is_anchor

_COLUMNS = ("query", "side", "stream", "batch", "next", "lag", "last", "note")

_NOTHING = (
    "these servers know of no query: what reads without commitMode=ack only its checkpoint knows, "
    "what writes without a ledger nobody"
)

LagRow = dict[str, object]


@click.command()
@click.argument("checkpoints", nargs=-1)
@click.option(
    "--watch", type=click.FloatRange(min=0.1), metavar="SECONDS", help="Look again and again."
)
@takes_options
@reports
def command(
    output: CommandOutput,
    checkpoints: tuple[str, ...],
    watch: float | None,
    option: tuple[str, ...],
    options_file: Path | None,
) -> None:
    """How far queries are behind their streams.

    CHECKPOINTS are checkpoints, or folders of them. Without any, the servers are asked which
    queries they know: those that read with commitMode=ack, and those that write with a ledger. What
    other queries have read is only in their checkpoints.
    """
    control = Control(this_host(), connection_of(read_options(option, options_file)))

    def look() -> list[LagRow]:
        if not checkpoints:
            return run(known_queries(control))
        found = [one for place in checkpoints for one in find_checkpoints(place)]
        return [row for one in found for row in run(lag_of(control, one))]

    if watch is None:
        rows = look()
        output.value(rows)
        output.table(_COLUMNS, rows, _NOTHING)
        return
    _watch(output, look, watch)


def _watch(output: CommandOutput, look: Callable[[], list[LagRow]], pause_s: float) -> None:
    """Look until it is interrupted. What fails at first ends it; later, servers may be away."""
    with Live(console=output.console, auto_refresh=False, transient=output.as_json) as live:
        has_looked = False
        try:
            while True:
                try:
                    rows = look()
                except RetryableError as error:
                    if not has_looked:
                        raise
                    if output.as_json:
                        output.error(error)
                    else:
                        live.update(Text(str(error)), refresh=True)
                else:
                    has_looked = True
                    output.value(rows)
                    if not output.as_json:
                        live.update(table_of(_COLUMNS, rows) if rows else _NOTHING, refresh=True)
                time.sleep(pause_s)
        except KeyboardInterrupt:
            return


def lag_of(control: Control, checkpoint: Checkpoint) -> Operation[list[LagRow]]:
    """How far a query is behind each of its streams according to its checkpoint; one row for each.

    `lag` counts the sequences after the last finished batch; it is None if the position means
    nothing to the stream as it is now, or there is no such batch.
    """
    committed = checkpoint.committed()
    if not committed:
        known = {"query": checkpoint.query_id or str(checkpoint.folder), "side": "read"}
        return [{**known, "note": "no batch is finished yet"}]
    batch = checkpoint.batch(committed[-1])
    is_unfinished = checkpoint.planned()[-1] > committed[-1]
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(checkpoint.changed_ns() // 10**9))
    rows: list[LagRow] = []
    for offsets in batch.offsets.values():
        for name, at in sorted(offsets.streams.items()):
            lag, note = yield from _behind(control, name, at)
            if not note and is_unfinished:
                note = f"batch {committed[-1] + 1} runs, or was left unfinished"
            rows.append(
                {
                    "query": checkpoint.query_id or str(checkpoint.folder),
                    "side": "read",
                    "stream": name,
                    "batch": batch.number,
                    "next": at.next,
                    "lag": lag,
                    "last": moment,
                    "note": note or None,
                }
            )
    return rows


def _behind(control: Control, stream: str, at: StreamOffset) -> Operation[tuple[int | None, str]]:
    try:
        state = yield from control.stream_state(stream)
    except StreamNotFoundError:
        return None, "the stream does not exist any more"
    if state.created != at.created:
        return None, "the stream was made anew"
    if at.next > state.next:
        return None, f"the stream ends before, at {state.next}"
    note = ""
    if state.first > at.next and state.retention == "limits":
        note = f"{state.first - at.next} sequences are gone unread, up to {state.first - 1}"
    return state.next - max(at.next, state.first), note


def known_queries(control: Control) -> Operation[list[LagRow]]:
    """What the servers know of queries: consumers that hold unread messages, and the ledger."""
    rows: list[LagRow] = []
    for stream in (yield from control.all_stream_names()):
        for consumer in (yield from control.consumers(stream)):
            if is_anchor(consumer):
                floor = int(consumer["ack_floor"]["stream_seq"])
                pending = int(consumer["num_pending"]) + int(consumer["num_ack_pending"])
                known = {"query": consumer["name"], "side": "read", "stream": stream}
                rows.append({**known, "next": floor + 1, "lag": pending})
    for one in standings((yield from read_entries(control, LEDGER_BUCKET))):
        is_open = one.begun is not None and (one.version is None or one.begun > one.version)
        note = f"batch {one.begun} runs, or was left unfinished" if is_open else None
        moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(one.written_us // 10**6))
        known = {"query": one.name, "side": "write", "stream": one.stream, "batch": one.version}
        rows.append({**known, "last": moment, "note": note})
    return rows
