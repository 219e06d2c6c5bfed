"""A stream as the source or the target of a copy.

Into a stream each chunk is written as one version of a named write, which the ledger of the target
remembers; so a chunk that is copied again after a copy was cut off is written once
(`sink/ledger.py`). The plan is kept in the same bucket, below `copy.`, so that a copy can go on
from another machine.

Headers that begin with `Nats-` are meant for the server that a message is published to (what it
expects, what it removes, when it expires), and are not copied.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import ArrayType, BinaryType, MapType, StringType, StructType

from jetstream_spark.client.blocking import iterate, run, this_host
from jetstream_spark.client.control import Control
from jetstream_spark.command.copy_plan import CopyError
from jetstream_spark.command.ledger_entries import read_entries, standings
from jetstream_spark.fetch.ranges import SequenceRange
from jetstream_spark.options.format_options import EARLIEST, SinkOptions, SourceOptions
from jetstream_spark.sink.columns_of_write import columns_of_write
from jetstream_spark.sink.kv import NO_ENTRY, KvBucket
from jetstream_spark.sink.ledger import Scope, ScopeKind
from jetstream_spark.sink.sink import Sink
from jetstream_spark.sink.writer import write_partition
from jetstream_spark.source.partition import RangePartition, read_partition
from jetstream_spark.source.stream_watch import StreamWatch
from jetstream_spark.spark_api import utc_arrow_schema
from jetstream_spark.validation import columns

_WRITTEN = (
    StructType()
    .add("subject", StringType())
    .add("data", BinaryType())
    .add("headers", MapType(StringType(), ArrayType(StringType())))
)


class StreamOrigin:
    """Reads a stream.

    Args:
        options: of a batch read of one stream.
        chunk_rows: sequences of a chunk.

    Raises:
        CopyError: the options name no stream, several, or something else.
        OptionsError: they have mistakes.
    """

    def __init__(self, options: Mapping[str, str], chunk_rows: int) -> None:
        self._options = SourceOptions.parse({"includeHeaders": "true", **options})
        is_plain = not (self._options.bucket or self._options.object_store)
        if len(self._options.streams) != 1 or not is_plain:
            raise CopyError("a copy reads one stream.", "Copy each stream by itself.")
        self._schema = utc_arrow_schema(columns({"includeHeaders": "true", **options}))
        self._chunk_rows = chunk_rows

    def plan(self) -> dict[str, Any]:
        """See `CopySource`."""
        [name] = self._options.streams
        watch = StreamWatch(this_host(), self._options)
        start = run(watch.starting_offsets(EARLIEST))
        end = run(watch.ending_offsets(start))
        state = run(watch.control.stream_state(name))
        first, stop = max(start.streams[name].next, 1), end.streams[name].next
        is_whole = first <= state.first and stop == state.next and not self._options.subjects
        return {
            "stream": name,
            "created": state.created,
            "first": first,
            "stop": stop,
            "chunk_rows": self._chunk_rows,
            "chunks": -(-max(0, stop - first) // self._chunk_rows),
            "rows": state.messages if is_whole else None,
        }

    def read(self, plan: Mapping[str, Any], chunk: int) -> Iterator[pa.RecordBatch]:
        """See `CopySource`."""
        start = int(plan["first"]) + chunk * int(plan["chunk_rows"])
        stop = min(int(plan["stop"]), start + int(plan["chunk_rows"]))
        sequences = SequenceRange(str(plan["stream"]), str(plan["created"]), start, stop)
        partition = RangePartition(sequences)
        return iterate(read_partition(this_host(), self._options, self._schema, partition))


class StreamDestination:
    """Writes into a stream.

    Args:
        options: of a write; `stream` among them.
        name: of the copy.
        renaming: a subject, or the beginning of one, and what to put in its place.

    Raises:
        CopyError: the options name no stream, or do without the ledger.
        OptionsError: they have mistakes.
    """

    def __init__(
        self, options: Mapping[str, str], name: str, renaming: tuple[str, str] | None
    ) -> None:
        sink = SinkOptions.parse(options)
        if not sink.stream or sink.dedupe == "none" or sink.ledger == "none" or sink.txn_app_id:
            raise CopyError(
                "a copy into a stream needs the stream's name and the ledger, which remembers "
                "what is done.",
                "Leave dedupe, ledger and txnAppId out of its options.",
            )
        self._options = sink
        self._name = name
        self._renaming = renaming
        self._control = Control(this_host(), sink.connection, "writer")
        self._bucket = KvBucket(self._control, sink.ledger_bucket)
        self._key = f"copy.={name.encode().hex()}.={sink.stream.encode().hex()}"
        self._schema = utc_arrow_schema(_WRITTEN)

    def kept_plan(self) -> str | None:
        """See `CopyTarget`."""
        found = run(self._bucket.get(self._key))
        return found.value.decode("utf-8", "replace") if found is not None and found.value else None

    def begin(self) -> dict[str, Any]:
        """See `CopyTarget`."""
        state = run(self._control.stream_state(self._options.stream))
        token = this_host().token(8)
        return {"next": state.next, "created": state.created, "token": token}

    def check(self, begun: Mapping[str, Any]) -> None:
        """See `CopyTarget`; plans of the first version do not say when the stream was made."""
        state = run(self._control.stream_state(self._options.stream))
        if begun.get("created", state.created) != state.created:
            raise CopyError(
                f"stream '{state.name}' was deleted and made again since the copy was begun; what "
                "was copied is gone with the old one.",
                "Begin another copy under another --name.",
            )

    def keep_plan(self, text: str) -> None:
        """See `CopyTarget`."""
        state = run(self._control.stream_state(self._options.stream))
        run(self._bucket.create(int(state.config.get("num_replicas", 1))))
        if run(self._bucket.put(self._key, text.encode(), NO_ENTRY)) is None:
            raise CopyError(
                f"a copy of the name '{self._name}' was begun by somebody else just now.",
                "Give this one another --name.",
            )

    def done(self) -> int:
        """See `CopyTarget`."""
        for one in standings(run(read_entries(self._control, self._options.ledger_bucket))):
            is_mine = one.kind == ScopeKind.TRANSACTION and one.name == self._name
            if is_mine and one.stream == self._options.stream and one.version is not None:
                return one.version + 1
        return 0

    def write(self, chunk: int, batches: Iterable[pa.RecordBatch]) -> int:
        """See `CopyTarget`."""
        scope = Scope(ScopeKind.TRANSACTION, self._name, chunk)
        written_columns = columns_of_write(_WRITTEN, self._options)
        rows = map(self._outgoing, batches)
        message = write_partition(self._options, written_columns, rows, scope, 0)
        sink = Sink(this_host(), self._options, written_columns, lambda rows: rows)
        run(sink.commit([message]))
        return message.rows

    def _outgoing(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        found = {name: batch.column(name) for name in batch.schema.names}
        subjects = found["subject"].cast(pa.string())
        _check_text(subjects)
        if self._renaming is not None:
            old, new = self._renaming
            pattern = rf"^{re.escape(old)}(\.|$)"
            subjects = pc.replace_substring_regex(subjects, pattern, rf"{new}\1")
        headers = self._schema.field("headers").type
        ready = [
            subjects,
            found["data"].cast(pa.binary()),
            _copied_headers(found["headers"].cast(headers))
            if "headers" in found
            else pa.nulls(batch.num_rows, headers),
        ]
        return pa.RecordBatch.from_arrays(ready, schema=self._schema)

    def count(self, begun: Mapping[str, Any]) -> int | None:
        """See `CopyTarget`; what others wrote meanwhile is counted as well."""
        state = run(self._control.stream_state(self._options.stream))
        return state.next - int(begun["next"])


def _check_text(subjects: pa.StringArray) -> None:
    """Refuse a subject that would be another one after it was copied.

    Raises:
        CopyError: bytes of one are not UTF-8, for which a read has U+FFFD.
    """
    is_changed = pc.match_substring(subjects, "\ufffd")
    if pc.any(is_changed).as_py():
        raise CopyError(
            f"a message has the subject '{subjects.filter(is_changed)[0]}', in which U+FFFD stands "
            "for bytes that are not UTF-8; its copy would have another subject.",
            "Copy the other subjects with --from subjects=... under another --name.",
        )


def _copied_headers(headers: pa.MapArray) -> pa.MapArray:
    """Return headers without those meant for a server; no headers give an empty map."""
    is_kept = pc.invert(pc.starts_with(headers.keys, "Nats-"))
    ends = np.concatenate(([0], np.cumsum(is_kept.to_numpy(zero_copy_only=False))))
    offsets = ends[headers.offsets.to_numpy()].astype(np.int32)
    keys, values = headers.keys.filter(is_kept), headers.items.filter(is_kept)
    return pa.MapArray.from_arrays(pa.array(offsets), keys, values, type=headers.type)
