"""Where a query writes to: what must hold there at every moment, and what must have come of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from jetstream_spark.client.operation import Operation
from jetstream_spark.options.format_options import SinkOptions
from jetstream_spark.sink.sink import Sink
from tests.connector_sim.process import Process
from tests.connector_sim.scenes import Keeper
from tests.connector_sim.server import Server

PREFIX = b"out-"
# A row as it was read: its sequence, and its payload, None where that had gone.
Row = tuple[int, bytes | None]
# The number of a batch, and that of a partition of it.
Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Written:
    """What a query was to write.

    Attributes:
        partitions: the rows of each partition of the committed batches.
        is_exact: each row is there once, not only at least once.
        is_lost: the query has ended with a loss; of a batch that was not committed anything may be
            there.
        varies: an attempt may have read other rows than the one that counted.
        span_s: how long the longest batch was written, from its first run on.
        before: batches that were begun before files of the server were put back from an older
            copy: of their rows only those must be there that the copy had.
    """

    partitions: dict[Place, list[Row]]
    is_exact: bool
    is_lost: bool
    varies: bool
    span_s: float
    before: frozenset[int] = frozenset()


class Target(Protocol):
    """One kind of place to write to.

    Attributes:
        options: of the write.
        stream: the stream behind it.
    """

    options: SinkOptions
    stream: str

    def make(self, keeper: Keeper) -> Operation[None]:
        """Make what is written to."""

    def outgoing(self, place: Place, rows: list[Row]) -> list[pa.RecordBatch]:
        """The rows of a partition as a task writes them."""

    def sink(self, process: Process) -> Sink:
        """The write, as a process sees it."""

    def note_read(self, place: Place, rows: list[Row], *, is_whole: bool) -> None:
        """An attempt is about to write these rows.

        Args:
            is_whole: it has read its partition to the end.
        """

    def note_written(self, server: Server, rows: list[Row], since: float) -> None:
        """A task was told that these rows are written; complain of those that are not there.

        Args:
            since: when their batch was begun, in seconds.
        """

    def look(self, server: Server) -> None:
        """Complain of what may not be there even for a moment; the stream has changed."""

    def check(self, server: Server, written: Written) -> None:
        """Complain of what is missing at the end, and of what is there too often."""


def payload_of(row: Row) -> bytes:
    """What is written of a row."""
    sequence, data = row
    return PREFIX + (data if data is not None else b"gone-%d" % sequence)
