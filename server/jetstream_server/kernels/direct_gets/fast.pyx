# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The compiled twin of `pure.py`: same function, same answers; the reasons are given there.

It differs in one thing: a record that reaches beyond the block raises ValueError, because reading
on would not be safe.
"""

from cpython cimport array
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t

from jetstream_server.kernels.digits cimport digit_count, put_bytes, put_number, u64
from jetstream_server.kernels.moments cimport SECOND_BYTES, Moment, fraction_bytes, put_time
from jetstream_server.kernels.record_layout cimport (
    VERSION_LINE_BYTES,
    Record,
    kept_bytes,
    read_record,
)

cdef enum:
    LINES_BYTES = 111  # of the header lines without their values, and of the empty one


cdef struct Batch:
    const char* block
    Py_ssize_t block_bytes
    const u64* wide_positions  # NULL when they are narrow
    const unsigned int* narrow_positions
    const u64* sequences
    Py_ssize_t count
    const char* head
    Py_ssize_t head_bytes
    const char* stream
    Py_ssize_t stream_bytes
    int64_t pending
    u64 last
    Py_ssize_t bytes_max
    Py_ssize_t counted
    Moment moment


cdef inline bint _read(const Batch* batch, Py_ssize_t index, Record* record) noexcept nogil:
    """Fill `record`; False when it is not wholly inside the block."""
    cdef u64 position
    if batch.wide_positions != NULL:
        position = batch.wide_positions[index]
    else:
        position = batch.narrow_positions[index]
    return read_record(batch.block, batch.block_bytes, position, record)


cdef inline Py_ssize_t _block_bytes(
    const Batch* batch, const Record* record, Py_ssize_t index
) noexcept nogil:
    """Return the bytes of the header block as it is sent."""
    cdef int64_t pending = batch.pending - index - 1
    cdef Py_ssize_t size = LINES_BYTES + kept_bytes(record) + batch.stream_bytes
    size += record.subject_bytes + digit_count(batch.sequences[index])
    size += SECOND_BYTES + fraction_bytes(record.timestamp) + 1
    size += digit_count(<u64>pending) if pending >= 0 else 1 + digit_count(-<u64>pending)
    return size + digit_count(batch.sequences[index - 1] if index else batch.last)


cdef Py_ssize_t _measure(Batch* batch) noexcept nogil:
    """Set how many records go; return the bytes of their frames, -1 when one is not inside."""
    cdef Record record
    cdef Py_ssize_t index, block_bytes, room = 0
    for index in range(batch.count):
        if not _read(batch, index, &record):
            return -1
        room += 4 + batch.head_bytes + 1 + 2 + record.payload_bytes + 2
        block_bytes = 0
        if batch.stream_bytes:
            block_bytes = _block_bytes(batch, &record, index)
            room += 1 + digit_count(block_bytes) + 1 + block_bytes
        room += digit_count(block_bytes + record.payload_bytes)
        batch.counted += record.subject_bytes + record.header_bytes + record.payload_bytes
        if batch.counted >= batch.bytes_max:
            batch.count = index + 1
            break
    return room


cdef char* _put_block(
    char* at, Batch* batch, const Record* record, Py_ssize_t index
) noexcept nogil:
    """Write the header block of a record with the lines that tell of it."""
    cdef int64_t pending = batch.pending - index - 1
    if record.header_bytes:
        at = put_bytes(at, record.subject + record.subject_bytes, kept_bytes(record))
    else:
        at = put_bytes(at, b"NATS/1.0\r\n", VERSION_LINE_BYTES)
    at = put_bytes(at, b"Nats-Stream: ", 13)
    at = put_bytes(at, batch.stream, batch.stream_bytes)
    at = put_bytes(at, b"\r\nNats-Subject: ", 16)
    at = put_bytes(at, record.subject, record.subject_bytes)
    at = put_bytes(at, b"\r\nNats-Sequence: ", 17)
    at = put_number(at, batch.sequences[index])
    at = put_bytes(at, b"\r\nNats-Time-Stamp: ", 19)
    at = put_time(at, &batch.moment, record.timestamp)
    at = put_bytes(at, b"\r\nNats-Num-Pending: ", 20)
    if pending < 0:
        at[0] = c"-"
        at = put_number(at + 1, -<u64>pending)
    else:
        at = put_number(at, pending)
    at = put_bytes(at, b"\r\nNats-Last-Sequence: ", 22)
    at = put_number(at, batch.sequences[index - 1] if index else batch.last)
    return put_bytes(at, b"\r\n\r\n", 4)


cdef void _write(Batch* batch, char* at) noexcept nogil:
    """Write the frames that were measured."""
    cdef Record record
    cdef Py_ssize_t index, block_bytes
    for index in range(batch.count):
        if not _read(batch, index, &record):
            return  # it was measured, so it is there
        block_bytes = _block_bytes(batch, &record, index) if batch.stream_bytes else 0
        at = put_bytes(at, b"HMSG ", 5) if block_bytes else put_bytes(at, b"MSG ", 4)
        at = put_bytes(at, batch.head, batch.head_bytes)
        at = put_bytes(at, b" ", 1)
        if block_bytes:
            at = put_number(at, block_bytes)
            at = put_bytes(at, b" ", 1)
        at = put_number(at, block_bytes + record.payload_bytes)
        at = put_bytes(at, b"\r\n", 2)
        if block_bytes:
            at = _put_block(at, batch, &record, index)
        at = put_bytes(
            at, record.subject + record.subject_bytes + record.header_bytes, record.payload_bytes
        )
        at = put_bytes(at, b"\r\n", 2)


def encode_answers(
    buffer,
    array.array positions,
    array.array sequences,
    Py_ssize_t count,
    bytes head,
    bytes stream,
    int64_t pending,
    u64 last,
    Py_ssize_t bytes_max,
):
    """Return frames with the first records, how many there are, and their bytes.

    See `pure.encode_answers`.
    """
    cdef Py_buffer view
    cdef Batch batch
    cdef Py_ssize_t room
    cdef bytes frames
    cdef char* at
    if sequences.itemsize != sizeof(u64):
        raise TypeError("sequences are an array of 'Q'")
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        batch.block, batch.block_bytes = <const char*>view.buf, view.len
        batch.wide_positions = NULL
        if positions.itemsize == sizeof(u64):
            batch.wide_positions = <const u64*>positions.data.as_ulonglongs
        batch.narrow_positions = positions.data.as_uints
        batch.sequences = <const u64*>sequences.data.as_ulonglongs
        batch.count = min(count, len(positions), len(sequences))
        batch.head, batch.head_bytes = PyBytes_AS_STRING(head), PyBytes_GET_SIZE(head)
        batch.stream, batch.stream_bytes = PyBytes_AS_STRING(stream), PyBytes_GET_SIZE(stream)
        batch.pending, batch.last = pending, last
        batch.bytes_max, batch.counted = bytes_max, 0
        batch.moment.is_known = False
        with nogil:
            room = _measure(&batch)
        if room < 0:
            raise ValueError("a record reaches beyond its block")
        frames = PyBytes_FromStringAndSize(NULL, room)
        at = PyBytes_AS_STRING(frames)
        with nogil:
            _write(&batch, at)
        return frames, batch.count, batch.counted
    finally:
        PyBuffer_Release(&view)
