"""The current value of every key of a bucket: each key once, while others go on writing.

A consumer that delivers the last message of each subject walks the keys as they were when it was
made. If a key is written meanwhile, the revision on the list may be gone before it is delivered;
the new one comes after the list, because the consumer goes on with what arrives. So everything up
to the tail at planning is handed over at once, and what comes after it is kept until the end and
handed over only for keys that had no value yet. Each key that has a value the whole time is in the
result exactly once, with a value that was current at some moment of the read.

One task reads all keys: a list of last messages has no beginning in the middle. It remembers the
keys it handed over.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from jetstream_spark.client.control import Control
from jetstream_spark.client.operation import Host, Operation
from jetstream_spark.errors import ReplicaLagsError, StreamNotFoundError
from jetstream_spark.fetch.fetch import FetchStep
from jetstream_spark.fetch.kv_rows import PUT, bucket_batch
from jetstream_spark.fetch.range_fetch import ConsumerWay
from jetstream_spark.fetch.ranges import SequenceRange
from jetstream_spark.fetch.rows import MessageBlock, batch_of
from jetstream_spark.options.format_options import SourceOptions

# No stream reaches this; the list ends where nothing is pending.
_FAR = 2**62

_NEEDED = {"key": pa.string(), "operation": pa.string(), "revision": pa.int64()}


class LatestWay:
    """The last revision of each key, then what was written meanwhile.

    Args:
        sequences: what the bucket's stream held at planning; what came later is read as well.
    """

    def __init__(self, host: Host, options: SourceOptions, sequences: SequenceRange) -> None:
        self._host = host
        self._options = options
        self._range = sequences
        self._control = Control(host, options.connection, "reader", patience_s=0)
        self._way = ConsumerWay(host, options, unbounded(sequences), is_list=True)
        self._is_listed = False

    def advance(self, position: int) -> Operation[FetchStep]:
        """The list first; see `Way`."""
        if not self._is_listed and self._way.is_exhausted:
            yield from self._way.finish()
            if (yield from self._go_on_behind(position)):
                return FetchStep(position, is_last=True)
        step = yield from self._way.advance(position)
        if self._is_listed or not step.is_last or step.loss is not None:
            return step
        is_last = yield from self._go_on_behind(position)  # the list is empty
        return FetchStep(position, is_last=is_last)

    def _go_on_behind(self, position: int) -> Operation[bool]:
        """Read what was written meanwhile; tell whether there was nothing.

        Only to where the stream ends now, or a writer that is always ahead would keep this going.
        """
        try:
            state = yield from self._control.stream_state(self._range.stream)
        except StreamNotFoundError:
            return True
        if state.is_replicated:
            yield from self._check_list(position)
        self._is_listed = True
        rest = dataclasses.replace(self._range, start=position, stop=max(state.next, position))
        self._way = ConsumerWay(self._host, self._options, rest)
        return state.next <= position

    def _check_list(self, position: int) -> Operation[None]:
        """Make sure that the list covered everything that there was at planning.

        Raises:
            ReplicaLagsError: the replica that made it did not have all of that yet. What was handed
            over may be old, so the whole read has to start again.
        """
        stream = self._range.stream
        for subject in self._options.subjects or (">",):
            stored = yield from self._control.next_sequence(stream, position, subject)
            if stored is not None and stored < self._range.stop:
                raise ReplicaLagsError(
                    f"the keys of stream '{stream}' were listed by a replica that did not have "
                    f"sequence {stored} yet.",
                    "Spark runs the task again; look into the state of the cluster if this recurs.",
                )

    def abandon(self) -> None:
        """Drop what is open."""
        self._way.abandon()

    def finish(self) -> Operation[None]:
        """Tidy up."""
        yield from self._way.finish()


def unbounded(sequences: SequenceRange) -> SequenceRange:
    """The range without its end: the end of a list is where nothing is pending."""
    return dataclasses.replace(sequences, stop=_FAR)


class LatestRows:
    """Turns what a `LatestWay` brings into rows: each key once.

    Args:
        stream: the bucket's stream.
        tail: the sequence that the next message would have had at planning.
        schema: the columns wanted.
        rows_of: makes rows of a block, with `key`, `operation` and `revision` among the columns.
    """

    def __init__(
        self,
        stream: str,
        tail: int,
        schema: pa.Schema,
        rows_of: Callable[[MessageBlock, str, pa.Schema], pa.RecordBatch] = bucket_batch,
    ) -> None:
        missing = (pa.field(*one) for one in _NEEDED.items() if one[0] not in schema.names)
        self._needed = pa.schema([*schema, *missing])
        self._schema = schema
        self._rows_of = rows_of
        self._stream = stream
        self._tail = tail
        self._handed_over: list[pa.Array] = []  # keys
        self._later: list[pa.RecordBatch] = []  # what was written after planning

    def take(self, block: MessageBlock) -> pa.RecordBatch:
        """The rows of a block that can be handed over at once."""
        rows = self._rows_of(block, self._stream, self._needed)
        is_later = pc.greater_equal(rows.column("revision"), self._tail)
        is_value = pc.equal(rows.column("operation"), PUT)
        is_current = pc.and_(is_value, pc.invert(is_later))
        # Nearly always all of them; then nothing has to be copied.
        values = rows if pc.all(is_current).as_py() else rows.filter(is_current)
        if pc.any(is_later).as_py():
            self._later.append(rows.filter(is_later))
        self._handed_over.append(values.column("key"))
        return self._as_asked_for(values)

    def rest(self) -> list[pa.RecordBatch]:
        """What had to wait for the end: keys that had no value at planning."""
        updates = pa.Table.from_batches(self._later, self._needed).combine_chunks()
        if not updates.num_rows:
            return []
        handed_over = pa.chunked_array(self._handed_over, pa.string())
        last = updates.group_by("key").aggregate([("revision", "max")]).column("revision_max")
        is_wanted = pc.and_(
            pc.is_in(updates.column("revision"), last),
            pc.and_(
                pc.equal(updates.column("operation"), PUT),
                pc.invert(pc.is_in(updates.column("key"), handed_over)),
            ),
        )
        return [self._as_asked_for(rows) for rows in updates.filter(is_wanted).to_batches()]

    def _as_asked_for(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        columns = [rows.column(name) for name in self._schema.names]
        return batch_of(columns, self._schema, rows.num_rows)
