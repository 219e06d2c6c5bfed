# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The compiled twin of `pure.py`: same functions, same answers; reasons are given there.

Each value is copied once, from its column into the frames. Two passes, one to measure and one to
write, are cheaper than a buffer that grows. Both run without the GIL.
"""

import numpy as np
import pyarrow as pa

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.string cimport memcmp, memcpy

from jetstream_spark.kernels.binary_column cimport (
    Values, address, allocated, entries_of, size_at, value_at, values_of
)
from jetstream_spark.kernels.decimal cimport digit_count, put_number

cdef enum:
    ROW_WIDTH = 10  # ROW_DIGITS of the pure twin

cdef const char* _VERSION_LINE = b"NATS/1.0\r\n"
cdef const char* _ID_NAME = b"Nats-Msg-Id: "
cdef enum:
    VERSION_BYTES = 10
    ID_NAME_BYTES = 13

# What a frame is made of.
cdef struct Pieces:
    Values subjects
    Values reply_prefix
    Values reply_suffix
    Values fixed_lines
    Values ids
    Values lines
    Values payloads
    bint has_headers
    bint has_ids


cdef inline char* _put(char* at, const char* source, Py_ssize_t size) noexcept nogil:
    memcpy(at, source, size)
    return at + size


cdef inline char* _put_value(char* at, const Values* values, Py_ssize_t row) noexcept nogil:
    cdef Py_ssize_t size = size_at(values, row)
    memcpy(at, value_at(values, row), size)
    return at + size


cdef inline Py_ssize_t _header_bytes(const Pieces* pieces, Py_ssize_t row) noexcept nogil:
    cdef Py_ssize_t size = VERSION_BYTES + pieces.fixed_lines.size + size_at(&pieces.lines, row) + 2
    if pieces.has_ids:
        size += ID_NAME_BYTES + size_at(&pieces.ids, row) + 2
    return size


cdef inline Py_ssize_t _frame_bytes(const Pieces* pieces, Py_ssize_t row) noexcept nogil:
    cdef Py_ssize_t header_bytes, total = size_at(&pieces.payloads, row)
    # verb, subject and reply with a blank behind each, two line ends
    cdef Py_ssize_t size = 4 + size_at(&pieces.subjects, row) + 1
    size += pieces.reply_prefix.size + ROW_WIDTH + pieces.reply_suffix.size + 1 + 4
    if pieces.has_headers:
        header_bytes = _header_bytes(pieces, row)
        total += header_bytes
        size += 1 + digit_count(header_bytes) + 1
    return size + digit_count(total) + total


cdef inline char* _put_row(char* at, unsigned long long number) noexcept nogil:
    cdef int place
    for place in range(ROW_WIDTH - 1, -1, -1):
        at[place] = <char>(48 + number % 10)
        number //= 10
    return at + ROW_WIDTH


cdef char* _put_frame(
    char* at, const Pieces* pieces, Py_ssize_t row, Py_ssize_t number
) noexcept nogil:
    cdef Py_ssize_t header_bytes = 0
    at = _put(at, b"HPUB ", 5) if pieces.has_headers else _put(at, b"PUB ", 4)
    at = _put_value(at, &pieces.subjects, row)
    at = _put(at, b" ", 1)
    at = _put_value(at, &pieces.reply_prefix, row)
    at = _put_row(at, number)
    at = _put_value(at, &pieces.reply_suffix, row)
    at = _put(at, b" ", 1)
    if pieces.has_headers:
        header_bytes = _header_bytes(pieces, row)
        at = put_number(at, header_bytes)
        at = _put(at, b" ", 1)
    at = put_number(at, header_bytes + size_at(&pieces.payloads, row))
    at = _put(at, b"\r\n", 2)
    if pieces.has_headers:
        at = _put(at, _VERSION_LINE, VERSION_BYTES)
        at = _put_value(at, &pieces.fixed_lines, row)
        if pieces.has_ids:
            at = _put(at, _ID_NAME, ID_NAME_BYTES)
            at = _put_value(at, &pieces.ids, row)
            at = _put(at, b"\r\n", 2)
        at = _put_value(at, &pieces.lines, row)
        at = _put(at, b"\r\n", 2)
    at = _put_value(at, &pieces.payloads, row)
    return _put(at, b"\r\n", 2)


def encode_publishes(
    subjects, bytes reply_prefix, Py_ssize_t first_row, bytes fixed_lines, ids, lines, payloads,
    bytes reply_suffix=b""
):
    """Return PUB or HPUB frames back to back, and where each starts (with a last entry: the end).

    See `pure.encode_publishes`.
    """
    cdef Pieces pieces
    cdef Py_ssize_t row, rows = len(payloads), total = 0
    cdef int* offsets
    cdef char* start
    cdef char* at
    pieces.subjects = values_of(subjects)
    pieces.reply_prefix = values_of(reply_prefix)
    pieces.reply_suffix = values_of(reply_suffix)
    pieces.fixed_lines = values_of(fixed_lines)
    pieces.ids = values_of(b"" if ids is None else ids)
    pieces.lines = values_of(lines)
    pieces.payloads = values_of(payloads)
    pieces.has_ids = ids is not None
    pieces.has_headers = bool(fixed_lines) or ids is not None or lines != b""
    with nogil:
        for row in range(rows):
            total += _frame_bytes(&pieces, row)
    offset_buffer, frames = allocated(rows, total, "frames")
    offsets = <int*>address(offset_buffer)
    start = at = address(frames)
    with nogil:
        for row in range(rows):
            offsets[row] = <int>(at - start)
            at = _put_frame(at, &pieces, row, first_row + row)
        offsets[rows] = <int>(at - start)
    return frames, np.frombuffer(offset_buffer, dtype=np.int32)


# --- header lines ------------------------------------------------------------------------------

# The levels of a map<string, list<string>>; bitmaps are NULL where nothing is null.
cdef struct HeaderMap:
    const unsigned char* rows_valid
    Py_ssize_t row_shift
    const int* row_offsets
    Values names
    const unsigned char* lists_valid
    Py_ssize_t list_shift
    const int* list_offsets
    const unsigned char* values_valid
    Py_ssize_t value_shift
    Values values


cdef inline bint _is_valid(const unsigned char* bitmap, Py_ssize_t at) noexcept nogil:
    return bitmap == NULL or (bitmap[at >> 3] >> (at & 7)) & 1


cdef char* _put_lines(
    char* at, const HeaderMap* headers, Py_ssize_t row, const char* is_dropped, Py_ssize_t* size
) noexcept nogil:
    """Write the lines of a row, or only count their bytes when `at` is NULL."""
    cdef Py_ssize_t entry, value
    if not _is_valid(headers.rows_valid, headers.row_shift + row):
        return at
    for entry in range(headers.row_offsets[row], headers.row_offsets[row + 1]):
        if is_dropped[entry] or not _is_valid(headers.lists_valid, headers.list_shift + entry):
            continue
        for value in range(headers.list_offsets[entry], headers.list_offsets[entry + 1]):
            if not _is_valid(headers.values_valid, headers.value_shift + value):
                continue
            if at == NULL:
                size[0] += size_at(&headers.names, entry) + size_at(&headers.values, value) + 4
                continue
            at = _put_value(at, &headers.names, entry)
            at = _put(at, b": ", 2)
            at = _put_value(at, &headers.values, value)
            at = _put(at, b"\r\n", 2)
    return at


cdef Values _text(column) except *:
    """Look into a string column, whatever is null in it."""
    if str(column.type) != "string":
        raise TypeError(f"header names and values are strings, not {column.type}")
    return entries_of(column)


cdef bytes _dropped(const Values* names, Py_ssize_t count, dropped):
    """Return a byte an entry: whether its name is one of those left out."""
    cdef bytearray flags = bytearray(count + 1)
    cdef char* flag = flags
    cdef bytes name
    cdef const char* text
    cdef Py_ssize_t entry, size
    for name in dropped:
        text = PyBytes_AS_STRING(name)
        size = PyBytes_GET_SIZE(name)
        with nogil:
            for entry in range(count):
                if size_at(names, entry) == size and memcmp(value_at(names, entry), text, size) == 0:
                    flag[entry] = 1
    return bytes(flags)


def header_lines(headers, dropped=()):
    """Return each row's header lines, one `Name: value CRLF` a value.

    See `pure.header_lines`.
    """
    cdef HeaderMap levels
    cdef Py_ssize_t row, rows = len(headers), total = 0
    cdef int* offsets
    cdef char* start
    cdef char* at
    if rows == 0:
        return pa.array([], pa.binary())
    names, lists = headers.keys, headers.items
    values = lists.values
    levels.rows_valid = <const unsigned char*>address(headers.buffers()[0])
    levels.row_shift = headers.offset
    levels.row_offsets = <const int*>address(headers.buffers()[1]) + levels.row_shift
    levels.lists_valid = <const unsigned char*>address(lists.buffers()[0])
    levels.list_shift = lists.offset
    levels.list_offsets = <const int*>address(lists.buffers()[1]) + levels.list_shift
    levels.values_valid = <const unsigned char*>address(values.buffers()[0])
    levels.value_shift = values.offset
    levels.names = _text(names)
    levels.values = _text(values)
    cdef bytes is_dropped = _dropped(&levels.names, len(names), dropped)
    cdef const char* drops = PyBytes_AS_STRING(is_dropped)
    with nogil:
        for row in range(rows):
            _put_lines(NULL, &levels, row, drops, &total)
    offset_buffer, data_buffer = allocated(rows, total, "headers")
    offsets = <int*>address(offset_buffer)
    start = at = address(data_buffer)
    with nogil:
        for row in range(rows):
            offsets[row] = <int>(at - start)
            if at != NULL:
                at = _put_lines(at, &levels, row, drops, &total)
        offsets[rows] = <int>(at - start)
    return pa.Array.from_buffers(pa.binary(), rows, [None, offset_buffer, data_buffer])
