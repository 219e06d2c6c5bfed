"""The current value of every key of a bucket: each key once, while others go on writing.

A consumer that delivers the last message of each subject walks the keys as they were when it was
made. A key that is written meanwhile may lose the revision on the list before it is delivered; the
new one comes behind the list, because the consumer goes on with what arrives. So everything up to
the tail at planning is handed over at once, and what comes after it is kept until the end and only
handed over for keys that had no value yet. Each key that has a value all the while is in the result
exactly once, with a value that was current at some moment of the read.

One task reads all keys: a list of last messages has no beginning in the middle. It remembers the
keys it handed over.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jetstream_spark.errors import StreamNotFoundError
from jetstream_spark.kernels import wire_to_arrow as kernel
from jetstream_spark.kv_rows import PUT, bucket_batch
from jetstream_spark.options import SourceOptions
from jetstream_spark.range_fetch import RangeFetch
from jetstream_spark.ranges import SequenceRange
from jetstream_spark.rows import Block, batch_of

# No stream reaches it; the end of the list is where nothing is pending.
_FAR = 2**62

_NEEDED = {"key": pa.string(), "operation": pa.string(), "revision": pa.int64()}


class LatestFetch(RangeFetch):
    """The last revision of each key, then what was written meanwhile.

    Args:
        sequences: what the bucket's stream held at planning; what lies behind it is read as well.
    """

    def __init__(self, options: SourceOptions, sequences: SequenceRange) -> None:
        super().__init__(options, dataclasses.replace(sequences, stop=_FAR))
        self._is_listed = False

    def _read_on(self) -> Iterator[Block]:
        yield from super()._read_on()
        if not self._is_listed:
            # Nothing was pending: read on only to where the stream ends now, or a writer that is
            # always ahead would keep this going.
            self._is_listed = True
            try:
                state = self._control.stream_state(self.range.stream)
            except StreamNotFoundError:
                state = None
            stop = state.next if state is not None else self.position
            self.range = dataclasses.replace(self.range, stop=max(stop, self.position))

    def _beginning(self) -> dict[str, object]:
        if self._is_listed:
            return super()._beginning()
        beginning: dict[str, object] = {"deliver_policy": "last_per_subject"}
        if not self.options.subjects:
            beginning["filter_subject"] = ">"  # the policy demands a filter
        return beginning

    def accept(self, block: Block, last_delivered: int) -> tuple[int, bool]:
        """As for any range; a list begun again repeats what was delivered, which is passed over."""
        if self._is_listed:
            return super().accept(block, last_delivered)
        numbers = np.frombuffer(block.numbers, dtype=np.int64).reshape(-1, kernel.NUMBERS)
        numbers = numbers[block.count :]
        repeated = int(np.searchsorted(numbers[:, kernel.SEQUENCE], self.position))
        delivered = numbers[:repeated, kernel.DELIVERED].tolist()
        del numbers  # an array that somebody looks at cannot be cut
        if delivered != list(range(last_delivered + 1, last_delivered + 1 + repeated)):
            return 0, False
        at = block.count
        del block.numbers[at * kernel.NUMBERS : (at + repeated) * kernel.NUMBERS]
        del block.fields[at * kernel.STRIDE : (at + repeated) * kernel.STRIDE]
        return super().accept(block, last_delivered + repeated)


def latest_batches(fetch: LatestFetch, tail: int, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of the current values.

    Args:
        tail: the sequence that the next message would have had at planning.
    """
    needed = pa.schema(
        [
            *schema,
            *(pa.field(name, kind) for name, kind in _NEEDED.items() if name not in schema.names),
        ]
    )
    stream = fetch.range.stream
    handed_over: list[pa.Array] = []
    later: list[pa.RecordBatch] = []
    for block in fetch.blocks():
        rows = bucket_batch(block, stream, needed)
        is_later = pc.greater_equal(rows.column("revision"), tail)
        is_value = pc.equal(rows.column("operation"), PUT)
        is_current = pc.and_(is_value, pc.invert(is_later))
        # Nearly always all of them, and then nothing has to be copied.
        values = rows if pc.all(is_current).as_py() else rows.filter(is_current)
        if pc.any(is_later).as_py():
            later.append(rows.filter(is_later))
        handed_over.append(values.column("key"))
        yield _as_asked_for(values, schema)
    updates = pa.Table.from_batches(later, needed).combine_chunks()
    if updates.num_rows:
        yield from _new_values(updates, pa.chunked_array(handed_over, pa.string()), schema)


def _new_values(
    updates: pa.Table, handed_over: pa.ChunkedArray, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    last = updates.group_by("key").aggregate([("revision", "max")]).column("revision_max")
    is_wanted = pc.and_(
        pc.is_in(updates.column("revision"), last),
        pc.and_(
            pc.equal(updates.column("operation"), PUT),
            pc.invert(pc.is_in(updates.column("key"), handed_over)),
        ),
    )
    for batch in updates.filter(is_wanted).to_batches():
        yield _as_asked_for(batch, schema)


def _as_asked_for(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    return batch_of([rows.column(name) for name in schema.names], schema, rows.num_rows)
