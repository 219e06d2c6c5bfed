# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The compiled twin of `pure.py`: same function, same answers; the reasons are given there.

It differs in one thing: a record that reaches beyond the block raises ValueError, because reading
on would not be safe.
"""

from cpython cimport array
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t

from jetstream_server.kernels.digits cimport (
    digit_count,
    put_bytes,
    put_number,
    put_signed,
    signed_digit_count,
    u64,
)
from jetstream_server.kernels.frame_parts cimport (
    put_kept,
    put_payload,
    put_sizes,
    put_stored_lines,
    stored_lines_bytes,
)
from jetstream_server.kernels.moments cimport Moment
from jetstream_server.kernels.record_layout cimport (
    Block,
    Record,
    fill_block,
    kept_bytes,
    read_numbered,
)

cdef enum:
    OTHER_LINES_BYTES = 46  # of the lines after those without their values, and of the empty one


cdef struct Batch:
    Block block
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


cdef inline Py_ssize_t _block_bytes(
    const Batch* batch, const Record* record, Py_ssize_t index
) noexcept nogil:
    """Return the bytes of the header block as it is sent."""
    cdef int64_t pending = batch.pending - index - 1
    cdef Py_ssize_t size = kept_bytes(record) + OTHER_LINES_BYTES
    size += stored_lines_bytes(batch.stream_bytes, record, batch.sequences[index])
    size += signed_digit_count(pending)
    return size + digit_count(batch.sequences[index - 1] if index else batch.last)


cdef Py_ssize_t _measure(Batch* batch) noexcept nogil:
    """Set how many records go; return the bytes of their frames, -1 when one is not inside."""
    cdef Record record
    cdef Py_ssize_t index, block_bytes, room = 0
    for index in range(batch.count):
        if not read_numbered(&batch.block, index, &record):
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
    at = put_kept(at, record)
    at = put_stored_lines(
        at, batch.stream, batch.stream_bytes, record, batch.sequences[index], &batch.moment
    )
    at = put_bytes(at, b"\r\nNats-Num-Pending: ", 20)
    at = put_signed(at, pending)
    at = put_bytes(at, b"\r\nNats-Last-Sequence: ", 22)
    at = put_number(at, batch.sequences[index - 1] if index else batch.last)
    return put_bytes(at, b"\r\n\r\n", 4)


cdef void _write(Batch* batch, char* at) noexcept nogil:
    """Write the frames that were measured."""
    cdef Record record
    cdef Py_ssize_t index, block_bytes
    for index in range(batch.count):
        if not read_numbered(&batch.block, index, &record):
            return  # it was measured, so it is there
        block_bytes = _block_bytes(batch, &record, index) if batch.stream_bytes else 0
        at = put_bytes(at, b"HMSG ", 5) if block_bytes else put_bytes(at, b"MSG ", 4)
        at = put_bytes(at, batch.head, batch.head_bytes)
        at = put_sizes(at, block_bytes, record.payload_bytes)
        if block_bytes:
            at = _put_block(at, batch, &record, index)
        at = put_payload(at, &record, record.payload_bytes)


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
        fill_block(&batch.block, &view, positions)
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
