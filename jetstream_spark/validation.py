"""Everything that is wrong with options, before a query runs; and the columns that they give.

Without a connection this finds everything that Spark would report at `load()`, at `save()`, or in
the first micro-batch. With one the servers are asked as well. Nothing is published, and no request
changes a stream: a read fetches one message of each stream as a task would, through a consumer that
is removed at once, and only where reading takes nothing away.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from jetstream_spark.client.blocking import iterate, run, this_host
from jetstream_spark.client.control import Control, StreamState
from jetstream_spark.client.operation import Operation
from jetstream_spark.errors import ConnectorError, OptionsError, RetryableError, SchemaError
from jetstream_spark.fetch.ranges import SequenceRange
from jetstream_spark.fetch.rows import arrow_schema
from jetstream_spark.options.format_options import EARLIEST, LATEST, SinkOptions, SourceOptions
from jetstream_spark.sink.columns_of_write import columns_of_write
from jetstream_spark.sink.sink import check_batches, check_duplicate_window
from jetstream_spark.source.batch_reader import batch_problems
from jetstream_spark.source.partition import columns_of, open_fetch
from jetstream_spark.source.stream_reader import stream_problems
from jetstream_spark.source.stream_watch import StreamWatch
from jetstream_spark.spark_api import HAS_STREAM_ARROW_WRITER, VERSION
from jetstream_spark.subjects import overlaps

SIDES = ("read", "readStream", "write", "writeStream")
_TYPES = {
    "STRING": StringType(),
    "BINARY": BinaryType(),
    "BIGINT": LongType(),
    "TIMESTAMP": TimestampType(),
    "MAP<STRING,ARRAY<STRING>>": MapType(StringType(), ArrayType(StringType())),
}

Options = TypeVar("Options", SourceOptions, SinkOptions)


def columns(options: Mapping[str, object]) -> StructType:
    """Return the columns of a read with these options.

    Raises:
        OptionsError: the options have mistakes; all of them are listed.
    """
    parsed = SourceOptions.parse(_texts(options))
    found = StructType()
    for name, kind in columns_of(parsed).items():
        if name != "headers" or parsed.include_headers:
            found.add(name, _TYPES[kind])
    return found


def problems(
    options: Mapping[str, object], side: str, schema: StructType | None, connect: bool
) -> list[str]:
    """Return everything that is wrong, a sentence or two each; see `jetstream_spark.validate`."""
    if side not in SIDES:
        raise ValueError(f"side must be one of {', '.join(SIDES)}, not {side!r}")
    if side in ("read", "readStream"):
        source, found = SourceOptions.examine(_texts(options))
        found += (batch_problems if side == "read" else stream_problems)(source)
        found += _schema_problems(lambda asked: arrow_schema(asked, columns_of(source)), schema)
        if connect and not found:
            found += _of_source(_soon(source), EARLIEST if side == "read" else LATEST)
        return found
    sink, found = SinkOptions.examine(_texts(options))
    if side == "writeStream" and not HAS_STREAM_ARROW_WRITER:
        found.append(f"a streaming write needs PySpark 4.1 or newer; this is {VERSION}")
    found += _schema_problems(lambda written: columns_of_write(written, sink), schema)
    if connect and not found:
        found += _of_sink(_soon(sink))
    return found


def _texts(options: Mapping[str, object]) -> dict[str, str]:
    """The options as Spark would hand them over."""
    return {
        str(key): str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in options.items()
        if value is not None
    }


def _schema_problems(check: Callable[[StructType], object], schema: StructType | None) -> list[str]:
    try:
        if schema is not None:
            check(schema)
    except SchemaError as error:
        return [error.what]
    return []


def _soon(options: Options) -> Options:
    """The same options for somebody who waits for the answer."""
    connection = options.connection
    waits_s = min(connection.request_timeout_s, connection.outage_timeout_s)
    impatient = dataclasses.replace(connection, outage_timeout_s=waits_s)
    return dataclasses.replace(options, connection=impatient)


# --- what the servers say ---------------------------------------------------------------------


def _of_source(options: SourceOptions, default_start: str) -> list[str]:
    """Every stream by itself, then where the read would begin and end."""
    found: list[str] = []
    parts = [dataclasses.replace(options, streams=(name,)) for name in options.streams]
    for part in parts or [options]:
        try:
            for state in run(_watch(part).check()).values():
                _fetch_one(part, state)
        except RetryableError as error:
            return [*found, str(error)]  # the next one would wait just as long to say the same
        except ConnectorError as error:
            found.append(str(error))
    if not found:
        try:
            run(_positions(options, default_start))
        except ConnectorError as error:
            found.append(str(error))
    return found


def _watch(options: SourceOptions) -> StreamWatch:
    return StreamWatch(this_host(), options, options.connection.outage_timeout_s)


def _fetch_one(options: SourceOptions, state: StreamState) -> None:
    """Read the first message, which needs every permission that tasks need."""
    if state.retention != "limits" and options.commit_mode == "ack":
        return  # a consumer of ours is only safe next to the query's own
    first = SequenceRange(state.name, state.created, state.first, state.first + 1)
    if state.messages:
        for _ in iterate(run(open_fetch(this_host(), options, first)).blocks()):
            pass


def _positions(options: SourceOptions, default_start: str) -> Operation[None]:
    watch = _watch(options)
    start = yield from watch.starting_offsets(default_start)
    if options.ending is not None or options.ending_timestamp_ns is not None:
        yield from watch.ending_offsets(start)


def _of_sink(options: SinkOptions) -> list[str]:
    control = Control(this_host(), options.connection, "writer")
    try:
        return list(run(_sink_problems(control, options)))
    except ConnectorError as error:
        return [str(error)]


def _sink_problems(control: Control, options: SinkOptions) -> Operation[list[str]]:
    found = []
    if options.stream:
        state = yield from control.stream_state(options.stream)
        found += _of_sink_stream(state, options)
    for subject in {options.subject, options.dead_letter_subject} - {""}:
        streams = yield from control.stream_names(subject)
        if subject == options.subject and options.stream:
            continue  # said of the stream already
        if not streams:
            found.append(f"no stream collects the subject '{subject}', so nothing would be stored")
    found += yield from _of_permissions(control, options)
    return found


def _of_sink_stream(state: StreamState, options: SinkOptions) -> list[str]:
    found = []
    if state.config.get("mirror"):
        found.append(f"stream '{state.name}' is a mirror and takes no messages")
    elif options.subject and not any(overlaps(options.subject, one) for one in state.subjects):
        found.append(
            f"option 'subject' = '{options.subject}' is not collected by stream '{state.name}', "
            f"which takes {', '.join(state.subjects)}"
        )
    if state.config.get("sealed"):
        found.append(f"stream '{state.name}' is sealed and takes no messages")
    if state.config.get("no_ack"):
        found.append(f"stream '{state.name}' acknowledges nothing (no_ack), and every row waits")
    try:
        check_batches(state, options)
    except OptionsError as error:
        found += error.problems
    has_ledger = options.ledger == "auto" and options.dedupe != "none"
    is_safe = options.object_store or (has_ledger and state.retention == "limits")
    if options.dedupe != "none" and not is_safe:
        try:
            check_duplicate_window(state, options)
        except OptionsError as error:
            found += error.problems
    return found


def _of_permissions(control: Control, options: SinkOptions) -> Operation[list[str]]:
    """What the user may not publish, as far as the server tells users about their own rights."""
    asking = Control(control.host, options.connection, "writer", patience_s=0)
    try:
        answer = yield from asking.request_message("$SYS.REQ.USER.INFO", b"")
    except ConnectorError:
        return []  # the user may not ask
    allowed, denied = _publish_permissions(answer)
    wanted = [options.subject, options.dead_letter_subject]
    if options.stream and options.ledger == "auto" and options.dedupe != "none":
        wanted.append(f"$KV.{options.ledger_bucket}.query.any")
    if store := options.object_store:
        api = options.connection.api_prefix
        wanted += [f"$O.{store}.C.any", f"$O.{store}.M.any", f"{api}.STREAM.PURGE.{options.stream}"]
    return [
        f"the user may not publish to '{subject}'"
        for subject in wanted
        if subject
        and (
            any(overlaps(subject, one) for one in denied)
            or (allowed and not any(overlaps(subject, one) for one in allowed))
        )
    ]


def _publish_permissions(answer: dict[str, Any]) -> tuple[list[str], list[str]]:
    data = answer.get("data") or {}
    publish = (data.get("permissions") or {}).get("publish") or {}
    return list(publish.get("allow") or ()), list(publish.get("deny") or ())
