"""The reference encoder: every step is one Arrow call over a whole column.

A frame is the row's pieces joined with nothing in between, so the value buffer of the joined
column *is* the bytes for the socket and its offsets are where each frame starts; about 0.2 us for a
row of 128 bytes.

Not here: validation. Callers hand over columns without nulls, subjects that can be published to,
and headers whose names and values fit on a line (`sink_columns`).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

ROW_DIGITS = 10  # fixed width, so that the row number is at a known place in the line of an ack

_VERSION_LINE = b"NATS/1.0\r\n"
_ID_NAME = b"Nats-Msg-Id: "
_CRLF = b"\r\n"

# The unit of these functions: a column of bytes, or one value that every row shares.
BytesColumn = Any


def header_lines(headers: pa.MapArray, dropped: Collection[bytes] = ()) -> pa.BinaryArray:
    """Return each row's header lines, one `Name: value CRLF` per value.

    Args:
        headers: map<string, list<string>>; a null row, list or value counts as absent.
        dropped: names left out, case-sensitive as NATS compares them.
    """
    names, value_lists = headers.keys, headers.items
    counts = pc.fill_null(pc.list_value_length(value_lists), 0).to_numpy(zero_copy_only=False)
    line_names = names.take(pa.array(np.repeat(np.arange(len(names)), counts)))
    lines = pc.binary_join_element_wise(
        line_names.cast(pa.binary()), b": ", value_lists.flatten().cast(pa.binary()), _CRLF, b""
    )
    absent = pc.is_null(lines)
    if dropped:
        absent = pc.or_(absent, pc.is_in(line_names.cast(pa.binary()), pa.array(list(dropped))))
    lines = pc.if_else(absent, pa.scalar(b"", pa.binary()), lines)
    line_of_entry = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    row_starts = line_of_entry[headers.offsets.to_numpy(zero_copy_only=False)]
    rows = pa.ListArray.from_arrays(pa.array(row_starts), lines, mask=headers.is_null())
    return pc.fill_null(pc.binary_join(rows, pa.scalar(b"", pa.binary())), b"")


def encode_publishes(
    subjects: BytesColumn,
    reply_prefix: bytes,
    first_row: int,
    fixed_lines: bytes,
    ids: pa.BinaryArray | None,
    lines: BytesColumn,
    payloads: pa.BinaryArray,
    reply_suffix: bytes = b"",
) -> tuple[pa.Buffer, npt.NDArray[np.int32]]:
    """Return PUB or HPUB frames back to back, and where each starts (with a last entry: the end).

    Args:
        subjects: a column, or one value for all rows.
        reply_prefix, reply_suffix: the reply of row n is n in `ROW_DIGITS` digits between these.
        first_row: number of the first row.
        fixed_lines: header lines that every row carries.
        ids: values of `Nats-Msg-Id`, None for none.
        lines: further header lines, a column or one value for all rows.
        payloads: a binary column.

    Raises:
        pa.ArrowCapacityError: the frames do not fit in 2 GiB.
    """
    rows = len(payloads)
    replies = _row_numbers(first_row, rows)
    payload_sizes = pc.binary_length(payloads)
    if not fixed_lines and ids is None and isinstance(lines, bytes) and not lines:
        frames = pc.binary_join_element_wise(
            b"PUB ", subjects, b" " + reply_prefix, replies, reply_suffix + b" ",
            _decimal(payload_sizes), _CRLF, payloads, _CRLF, b"",
        )  # fmt: skip
    else:
        fixed = len(_VERSION_LINE) + len(fixed_lines) + len(_CRLF)
        sizes = pc.add(pa.repeat(pa.scalar(fixed, pa.int32()), rows), _sizes(lines))
        id_parts: tuple[Any, ...] = ()
        if ids is not None:
            sizes = pc.add(sizes, pc.add(pc.binary_length(ids), len(_ID_NAME) + len(_CRLF)))
            id_parts = (_ID_NAME, ids, _CRLF)
        frames = pc.binary_join_element_wise(
            b"HPUB ", subjects, b" " + reply_prefix, replies, reply_suffix + b" ",
            _decimal(sizes), b" ", _decimal(pc.add(sizes, payload_sizes)),
            _CRLF + _VERSION_LINE + fixed_lines, *id_parts, lines, _CRLF, payloads, _CRLF, b"",
        )  # fmt: skip
    offsets = np.frombuffer(frames.buffers()[1], dtype=np.int32)[: rows + 1]
    return frames.buffers()[2], offsets


def _row_numbers(first_row: int, rows: int) -> pa.BinaryArray:
    numbers = np.arange(first_row, first_row + rows, dtype=np.int64)
    digits = np.empty((rows, ROW_DIGITS), dtype=np.uint8)
    for place in range(ROW_DIGITS - 1, -1, -1):
        digits[:, place] = numbers % 10 + 48
        numbers //= 10
    fixed = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(ROW_DIGITS), rows, [None, pa.py_buffer(digits)]
    )
    return fixed.cast(pa.binary())


def _decimal(numbers: pa.Array) -> pa.BinaryArray:
    return numbers.cast(pa.string()).cast(pa.binary())


def _sizes(column: BytesColumn) -> Any:
    return len(column) if isinstance(column, bytes) else pc.binary_length(column)
