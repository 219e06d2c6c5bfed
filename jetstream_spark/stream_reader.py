"""Streaming reads: `spark.readStream.format("jetstream")`.

One object lives in a process of its own on the driver and answers Spark's calls one after another;
a second one is pickled to the executors, so nothing that the first learns may be needed by `read`
(`spark.md` 1.1). All state that must survive is in Spark's checkpoint, as offsets.

No task acknowledges anything. With `commitMode=purge` the messages of a batch are purged from the
stream after Spark has committed it, with `ack` a consumer lets go of them (`anchor.py`):
`commit(end)` comes one batch late and never for the last one, so `latestOffset(start)` does the
same, because `start` is by contract the end of the last finished batch (`spark.md` 4.3).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from jetstream_spark.bucket_options import CHANGES
from jetstream_spark.client import pool
from jetstream_spark.client.control import StreamState
from jetstream_spark.data_loss import find_loss
from jetstream_spark.errors import DataLossError, OffsetsError, OptionsError
from jetstream_spark.offsets import Offsets, StreamOffset
from jetstream_spark.options import EARLIEST, LATEST, SourceOptions
from jetstream_spark.partition import RangePartition, columns_of, read_partition
from jetstream_spark.planner import Limits, Tail, available, plan_end, plan_ranges
from jetstream_spark.rows import arrow_schema
from jetstream_spark.stream_watch import StreamWatch
from jetstream_spark.termination import stop_on_sigterm

_log = logging.getLogger("jetstream_spark")


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The streaming source of one query."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        if options.ending is not None or options.ending_timestamp_ns is not None:
            raise OptionsError(
                ["options 'endingOffsets' and 'endingTimestamp' are for batch reads only"]
            )
        if options.kv_mode not in (None, CHANGES):
            raise OptionsError(
                [
                    f"option 'kvMode' = '{options.kv_mode}' is for batch reads only; a streaming "
                    "query reads changes"
                ]
            )
        stop_on_sigterm()
        self.options = options
        self.schema = arrow_schema(schema, columns_of(options))
        self._watch = StreamWatch(options)
        self._initial: Offsets | None = None
        self._last_end: Offsets | None = None
        self._committed: Offsets | None = None
        self._frozen: dict[str, Tail | None] | None = None
        self._last_batch_at = time.monotonic()
        self._warned: set[str] = set()
        self._is_checked = False

    # --- offsets ------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Where a query without checkpoint begins; asked twice, answered the same."""
        if self._initial is None:
            self._initial = self._watch.starting_offsets(LATEST)
            if self.options.commit_mode == "ack":
                self._initial = self._hold(self._initial)
            elif self.options.commit_mode == "purge":
                self._watch.check_unread(self._initial)
            self._is_checked = True
        return self._initial.to_json()

    def latestOffset(  # noqa: N802
        self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        """Where the next batch ends.

        Raises:
            DataLossError: messages after `start` are gone, and `failOnDataLoss` is true.
        """
        at = self._start(start)
        if not self._is_checked:
            self._check_again(at)
        if self.options.eager_commit:
            self._commit(at)
        tails = self._frozen if self._frozen is not None else self._watch.tails()
        self._check_loss(at, tails)
        present = {name: tail for name, tail in tails.items() if tail is not None}
        end = plan_end(at, present, self._limits(limit))
        if end.sequences_to(at) or at.sequences_to(end):
            self._last_batch_at = time.monotonic()
        self._last_end = end
        return end.to_json()

    def _start(self, start: dict[str, Any] | None) -> Offsets:
        if start is None:
            at = self._last_end or self._initial or self._watch.starting_offsets(LATEST)
        else:
            at = Offsets.from_json(start)
        if set(at.streams) != set(self.options.streams):
            raise OffsetsError(
                f"the checkpoint is of the streams {', '.join(sorted(at.streams))}; the option "
                f"'stream' names {', '.join(sorted(self.options.streams))}.",
                "Restore the option, or start with a new checkpointLocation.",
            )
        return at

    def _hold(self, at: Offsets) -> Offsets:
        """Make the anchors of a new query; return where it begins.

        What others acknowledged before the anchor was there is gone, so `earliest` is looked up
        again under its protection.
        """
        for name, position in at.streams.items():
            self._watch.anchor(name).hold(position)
        again = self._watch.starting_offsets(LATEST)
        return again if self.options.starting == EARLIEST else at

    def _check_again(self, at: Offsets) -> None:
        """The checks of a new query for one that goes on; a deleted stream is data loss here."""
        states = self._watch.states(is_fresh=True)
        if all(state is not None for state in states.values()):
            self._watch.check()
            if self.options.commit_mode == "ack":
                self._check_anchors(at, states)
        self._is_checked = True

    def _check_anchors(self, at: Offsets, states: Mapping[str, StreamState | None]) -> None:
        for name, position in at.streams.items():
            state = states[name]
            if state is None or state.created != position.created:
                continue  # another loss, which is about to be found
            anchor = self._watch.anchor(name)
            if (loss := anchor.find(position)) is not None:
                self._accept_loss(loss)
                anchor.hold_again(position)

    def _check_loss(self, at: Offsets, tails: dict[str, Tail | None]) -> None:
        for name, tail in tails.items():
            loss = find_loss(name, at.streams[name], tail, self.options.expects_removals)
            if loss is not None:
                self._accept_loss(loss)

    def _accept_loss(self, loss: DataLossError) -> None:
        if self.options.fail_on_data_loss:
            raise loss
        if str(loss) not in self._warned:
            self._warned.add(str(loss))
            _log.warning("reading on after data loss (failOnDataLoss=false): %s", loss)

    def _limits(self, limit: ReadLimit | None) -> Limits:
        options = self.options
        if isinstance(limit, ReadAllAvailable) and self._has_limits():
            return Limits()  # The engine asks for everything, whatever the options say.
        waited_s = time.monotonic() - self._last_batch_at
        may_wait = self._frozen is None and waited_s < options.max_trigger_delay_s
        return Limits(
            options.max_offsets_per_trigger,
            options.max_bytes_per_trigger,
            options.min_offsets_per_trigger if may_wait else None,
        )

    def _has_limits(self) -> bool:
        options = self.options
        return any(
            limit is not None
            for limit in (
                options.max_offsets_per_trigger,
                options.max_bytes_per_trigger,
                options.min_offsets_per_trigger,
            )
        )

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Tell Spark that there is a limit; which ones apply is decided in `latestOffset`."""
        options = self.options
        if options.max_offsets_per_trigger is not None:
            return ReadMaxRows(options.max_offsets_per_trigger)
        if options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(options.max_bytes_per_trigger)
        if options.min_offsets_per_trigger is not None:
            return ReadMinRows(options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Freeze the tail: this run ends exactly there."""
        self._frozen = self._watch.tails(is_fresh=True)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """The tail and the lag, for the query's progress; Spark only prints it."""
        if self._last_end is None:
            return None
        streams: dict[str, Any] = {}
        tails = {name: tail for name, tail in self._watch.tails().items() if tail is not None}
        lags = available(self._last_end, tails)
        for name in sorted(tails):
            tail = tails[name]
            streams[name] = {
                "created": tail.created,
                "next": tail.next,
                "first": tail.first,
                "bytes": tail.bytes,
                "lag": lags[name],
            }
        return {"v": 1, "streams": streams, "lag": sum(lags.values())}

    # --- batches ------------------------------------------------------------------------------

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Cut a batch into tasks: a pure function of its arguments and the options."""
        ranges = plan_ranges(
            Offsets.from_json(start),
            Offsets.from_json(end),
            self.options.max_offsets_per_partition,
            self.options.min_partitions,
            self.options.max_partitions,
        )
        return [RangePartition(sequences) for sequences in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one range on an executor."""
        return read_partition(self.options, self.schema, partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Spark will not ask for anything before `end` again."""
        self._commit(Offsets.from_json(end))

    def _commit(self, end: Offsets) -> None:
        """Give up what is committed, if that is the mode; cumulative, so repeating is harmless."""
        mode = self.options.commit_mode
        if mode not in ("ack", "purge"):
            return
        before = self._committed.streams if self._committed else {}
        news = {n: at for n, at in end.streams.items() if at.next > 1 and before.get(n) != at}
        states = self._watch.states(is_fresh=True) if news else {}
        for name, at in news.items():
            state = states.get(name)
            if state is None or state.created != at.created:
                # A stream that is gone or another one; `latestOffset` says what that means. Its
                # sequences are not ours to give up.
                continue
            if mode == "ack":
                self._acknowledge(name, at)
            else:
                for subject in self.options.subjects or ("",):
                    self._watch.control.purge(name, at.next, subject)
        self._committed = end

    def _acknowledge(self, stream: str, at: StreamOffset) -> None:
        anchor = self._watch.anchor(stream)
        try:
            anchor.acknowledge(at)
        except DataLossError as loss:
            self._accept_loss(loss)
            anchor.hold_again(at)

    def stop(self) -> None:
        """Close the driver's connections; `stop_on_sigterm` sees to it that this is called."""
        pool.close_all()
