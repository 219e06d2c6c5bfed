"""What a task of an observed query has read, counted batch by batch."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing

import numpy as np
import pyarrow as pa

from jetstream_spark.fetch.rows import MessageBlock
from jetstream_spark.kernels import wire_to_arrow as kernel
from jetstream_spark.task_report import READ_BYTES, READ_ROWS, report


class ReadCount:
    """Rows, and bytes of the data that came with them, whether or not it was asked for.

    Attributes:
        data_bytes: of payloads; of objects, their contents as far as these were read.
    """

    def __init__(self) -> None:
        self.rows = 0
        self.data_bytes = 0

    def note_block(self, block: MessageBlock) -> None:
        """Messages that are about to be handed over."""
        table = np.frombuffer(block.fields, dtype=np.intc).reshape(-1, kernel.STRIDE)[: block.count]
        sizes = table[:, kernel.PAYLOAD_STOP] - table[:, kernel.PAYLOAD_START]
        self.data_bytes += int(sizes.sum())

    def noted_objects(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Objects that are about to be handed over: the same ones."""
        if "bytes" in batch.schema.names:
            contents = (one.as_buffer() for one in batch.column("bytes") if one.is_valid)
            self.data_bytes += sum(len(one) for one in contents)
        return batch

    def reported(
        self, batches: Generator[pa.RecordBatch, None, None]
    ) -> Generator[pa.RecordBatch, None, None]:
        """The batches of a task, which reports when all of them are used."""
        with closing(batches):
            for batch in batches:
                self.rows += batch.num_rows
                yield batch
        report({READ_ROWS: self.rows, READ_BYTES: self.data_bytes})
