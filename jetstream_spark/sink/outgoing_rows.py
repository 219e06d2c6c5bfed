"""Rows that are ready to be sent: columns without nulls, and the frames made from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from jetstream_spark.errors import RowRefusedError
from jetstream_spark.kernels.arrow_to_wire import BytesColumn, encode_publishes


@dataclass(slots=True)
class OutgoingRows:
    """Columns of some rows of a partition.

    Attributes:
        subjects, lines: a binary column, or one value for all rows.
        payloads: a binary column.
        ids: how the server and a later attempt recognise the rows; None when they have none.
        fixed_lines: header lines that every row carries.
    """

    subjects: BytesColumn
    lines: BytesColumn
    payloads: pa.BinaryArray
    ids: pa.BinaryArray | None
    fixed_lines: bytes = b""

    def __len__(self) -> int:
        return len(self.payloads)

    @property
    def nbytes(self) -> int:
        """What the columns take in memory."""
        columns = (self.subjects, self.lines, self.payloads, self.ids)
        return sum(one.nbytes for one in columns if isinstance(one, pa.Array))

    def data_bytes(self, wanted: npt.NDArray[np.bool_] | None = None) -> int:
        """Return how long the payloads are, of all rows or of those that are wanted."""
        lengths = pc.binary_length(self.payloads)
        if wanted is not None:
            lengths = lengths.filter(pa.array(wanted))
        return pc.sum(lengths).as_py() or 0

    def at(self, places: npt.NDArray[np.int64]) -> OutgoingRows:
        """Return the rows at these places."""
        taken = pa.array(places)
        return replace(
            self,
            subjects=_taken(self.subjects, taken),
            lines=_taken(self.lines, taken),
            payloads=self.payloads.take(taken),
            ids=None if self.ids is None else self.ids.take(taken),
        )

    def part(self, start: int, count: int) -> OutgoingRows:
        """Return up to `count` rows from `start` on, without copying."""
        return replace(
            self,
            subjects=_sliced(self.subjects, start, count),
            lines=_sliced(self.lines, start, count),
            payloads=self.payloads.slice(start, count),
            ids=None if self.ids is None else self.ids.slice(start, count),
        )

    def with_lines(self, fixed: bytes, lines: pa.BinaryArray) -> OutgoingRows:
        """Return the same rows with further header lines: some for all rows, some for each."""
        joined = pc.binary_join_element_wise(self.lines, lines, b"")
        return replace(self, fixed_lines=self.fixed_lines + fixed, lines=joined)

    def subject_column(self) -> pa.BinaryArray:
        """The subject of each row."""
        if isinstance(self.subjects, bytes):
            return pa.array([self.subjects] * len(self), pa.binary())
        return self.subjects

    def frames(
        self, reply_prefix: bytes, first_row: int, reply_suffix: bytes = b""
    ) -> tuple[pa.Buffer, npt.NDArray[np.int32]]:
        """Return the frames back to back, and where each starts; see `encode_publishes`."""
        return encode_publishes(
            self.subjects,
            reply_prefix,
            first_row,
            self.fixed_lines,
            self.ids,
            self.lines,
            self.payloads,
            reply_suffix,
        )


def joined_rows(parts: Sequence[OutgoingRows]) -> OutgoingRows:
    """All rows of some parts of one write, one after the other."""
    first = parts[0]
    ids = None if first.ids is None else pa.concat_arrays([part.ids for part in parts])
    return replace(
        first,
        subjects=_concatenated([part.subjects for part in parts]),
        lines=_concatenated([part.lines for part in parts]),
        payloads=pa.concat_arrays([part.payloads for part in parts]),
        ids=ids,
    )


def published(frame: bytes) -> tuple[bytes, list[bytes], bytes]:
    """Return the subject, the header lines and the payload of a PUB or HPUB frame with a reply."""
    line, _, body = frame.partition(b"\r\n")
    words = line.split(b" ")
    header_bytes = int(words[3]) if words[0] == b"HPUB" else 0
    return words[1], body[:header_bytes].split(b"\r\n")[1:-2], body[header_bytes:-2]


def check_payloads(
    frames: memoryview, offsets: npt.NDArray[np.int32], first_row: int, largest: int
) -> None:
    """Refuse a message that the server would close the connection for.

    Raises:
        RowRefusedError: a row is larger than `largest` bytes with its headers; the first is named.
    """
    for row in np.flatnonzero(np.diff(offsets) > largest).tolist():
        line = bytes(frames[offsets[row] : offsets[row] + 5000]).partition(b"\r\n")[0]
        size = int(line.rpartition(b" ")[2])
        if size > largest:
            raise RowRefusedError(
                first_row + row,
                line.split(b" ", 2)[1].decode("utf-8", "replace"),
                f"headers and data are {size} bytes, and the server takes {largest}",
                "Raise max_payload of the server, or write smaller messages.",
            )


def _taken(column: BytesColumn, places: pa.Array) -> BytesColumn:
    return column if isinstance(column, bytes) else column.take(places)


def _sliced(column: BytesColumn, start: int, count: int) -> BytesColumn:
    return column if isinstance(column, bytes) else column.slice(start, count)


def _concatenated(columns: list[BytesColumn]) -> BytesColumn:
    return columns[0] if isinstance(columns[0], bytes) else pa.concat_arrays(columns)
