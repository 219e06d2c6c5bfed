"""What a ledger holds, for people: every entry, and what the entries of one write say together.

Keys and entries are those of `sink/ledger.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from jetstream_spark.client.control import Control
from jetstream_spark.client.operation import Operation, consumed
from jetstream_spark.errors import StreamNotFoundError
from jetstream_spark.fetch.ranges import SequenceRange
from jetstream_spark.options.bucket_options import BUCKET_STREAM_PREFIX
from jetstream_spark.options.format_options import SourceOptions
from jetstream_spark.sink.ledger import ScopeKind
from jetstream_spark.source.partition import LatestPartition, read_partition

LEDGER_BUCKET = "spark-jetstream-ledger"
_SCHEMA = pa.schema(
    {
        "key": pa.string(),
        "value": pa.binary(),
        "operation": pa.string(),
        "revision": pa.int64(),
        "timestamp": pa.timestamp("us", tz="UTC"),
    }
)
_KINDS = {str(kind) for kind in ScopeKind}


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One entry.

    Attributes:
        kind, name: of the write: `query` and its id, `txn` and its txnAppId, `job`.
        partition: None for the driver's entry, which says that a whole version is written.
        state: `started` or `done`; "" for the driver's.
        written_us: when it was last written, in microseconds since 1970.
    """

    key: str
    kind: str
    name: str
    stream: str
    partition: int | None
    version: int
    state: str
    rows: int | None
    written_us: int


@dataclass(slots=True)
class WriteStanding:
    """What a ledger says of one write into one stream.

    Attributes:
        prefix: the key of the driver's entry; those of partitions begin with it.
        version: the newest one that is completely written; None if none is known to be.
        rows: of that version.
        begun: the newest version of which a partition was begun.
        started, done: partitions of it.
        entries: how many entries there are.
    """

    prefix: str
    kind: str
    name: str
    stream: str
    version: int | None = None
    rows: int | None = None
    begun: int | None = None
    started: int = 0
    done: int = 0
    entries: int = 0
    written_us: int = 0


def read_entries(control: Control, bucket: str) -> Operation[list[LedgerEntry]]:
    """Read all entries; none if there is no such bucket.

    Anything that others have put into the bucket is left out.
    """
    stream = f"{BUCKET_STREAM_PREFIX}{bucket}"
    try:
        state = yield from control.stream_state(stream)
    except StreamNotFoundError:
        return []
    if not state.messages:
        return []
    options = SourceOptions(connection=control.options, streams=(stream,), bucket=bucket)
    whole = LatestPartition(SequenceRange(stream, state.created, state.first, state.next))
    batches: list[pa.RecordBatch] = []
    yield from consumed(read_partition(control.host, options, _SCHEMA, whole), batches.append)
    found = []
    for batch in batches:
        columns = (batch.column(name).to_pylist() for name in ("key", "value", "operation"))
        times = batch.column("timestamp").cast(pa.int64()).to_pylist()
        for key, value, operation, written_us in zip(*columns, times, strict=True):
            entry = read_entry(key, value, written_us) if operation == "PUT" and value else None
            if entry is not None:
                found.append(entry)
    return found


def read_entry(key: str, value: bytes, written_us: int) -> LedgerEntry | None:
    """Return what a key holds; None if it is no entry of a ledger."""
    kind, *tokens = key.split(".")
    if kind not in _KINDS or len(tokens) not in (2, 3):
        return None
    try:
        said: dict[str, Any] = json.loads(value)
        partition = int(tokens[2]) if len(tokens) == 3 else None
        rows = said.get("rows")
        return LedgerEntry(
            key,
            kind,
            _name(tokens[0]),
            _name(tokens[1]),
            partition,
            int(said["version"]),
            str(said.get("state", "")),
            None if rows is None else int(rows),
            written_us,
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _name(token: str) -> str:
    """Undo the escaping of a token."""
    return bytes.fromhex(token[1:]).decode() if token.startswith("=") else token


def standings(entries: Iterable[LedgerEntry]) -> list[WriteStanding]:
    """What the entries say of each write, in the order of kind, name and stream."""
    found: dict[tuple[str, str, str], WriteStanding] = {}
    for one in entries:
        prefix = one.key if one.partition is None else one.key.rpartition(".")[0]
        standing = found.setdefault(
            (one.kind, one.name, one.stream),
            WriteStanding(prefix, one.kind, one.name, one.stream),
        )
        standing.entries += 1
        standing.written_us = max(standing.written_us, one.written_us)
        if one.partition is None:
            standing.version, standing.rows = one.version, one.rows
        elif standing.begun is None or one.version > standing.begun:
            standing.begun, standing.started, standing.done = one.version, 0, 0
        if one.partition is not None and one.version == standing.begun:
            standing.started += one.state == "started"
            standing.done += one.state == "done"
    return [found[key] for key in sorted(found)]
