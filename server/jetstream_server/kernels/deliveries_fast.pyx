# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The compiled twin of `deliveries_pure`: same function, same answers; the reasons are told there.

It differs in one thing: a record that reaches beyond the block raises ValueError, because reading
on would not be safe.
"""

import sys

from cpython cimport array
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint16_t, uint32_t
from libc.string cimport memcpy

from jetstream_server.kernels.digits cimport digit_count, put_bytes, put_number, u64
from jetstream_server.kernels.record_layout cimport (
    HEADER_BYTES_AT, PREFIX_BYTES, SUBJECT_BYTES_AT, TIMESTAMP_AT
)

if sys.byteorder != "little":
    raise ImportError("the compiled kernel reads little-endian records; the pure one reads any")

cdef struct Record:
    const char* subject
    Py_ssize_t subject_bytes
    Py_ssize_t header_bytes
    Py_ssize_t payload_bytes
    int64_t timestamp


cdef struct Batch:
    const char* block
    Py_ssize_t block_bytes
    const u64* wide_positions  # NULL when they are narrow
    const unsigned int* narrow_positions
    const u64* sequences
    Py_ssize_t start
    Py_ssize_t stop
    const char* middle  # what every frame has between its subject and the numbers of its ack
    Py_ssize_t middle_bytes
    u64 consumer_seq
    u64 pending
    bint headers


cdef inline bint _read(const Batch* batch, Py_ssize_t index, Record* record) noexcept nogil:
    """Fill `record`; False when it is not wholly inside the block."""
    cdef uint32_t length, header_bytes
    cdef uint16_t subject_bytes
    cdef u64 position
    cdef const char* at
    if batch.wide_positions != NULL:
        position = batch.wide_positions[index]
    else:
        position = batch.narrow_positions[index]
    if batch.block_bytes < PREFIX_BYTES or position > <u64>(batch.block_bytes - PREFIX_BYTES):
        return False
    at = batch.block + position
    memcpy(&length, at, 4)
    memcpy(&record.timestamp, at + TIMESTAMP_AT, 8)
    memcpy(&header_bytes, at + HEADER_BYTES_AT, 4)
    memcpy(&subject_bytes, at + SUBJECT_BYTES_AT, 2)
    record.subject = at + PREFIX_BYTES
    record.subject_bytes = subject_bytes
    record.header_bytes = header_bytes
    record.payload_bytes = <Py_ssize_t>length - PREFIX_BYTES - subject_bytes - header_bytes
    return record.payload_bytes >= 0 and position + length <= <u64>batch.block_bytes


cdef inline int _signed_digits(int64_t number) noexcept nogil:
    return digit_count(number) if number >= 0 else 1 + digit_count(-<u64>number)


cdef inline char* _put_signed(char* at, int64_t number) noexcept nogil:
    if number >= 0:
        return put_number(at, number)
    at[0] = c"-"
    return put_number(at + 1, -<u64>number)


cdef Py_ssize_t _measure(const Batch* batch) noexcept nogil:
    """Return the bytes of all frames, -1 when a record is not inside the block."""
    cdef Record record
    cdef Py_ssize_t index, body_bytes, room = 0
    cdef u64 consumer_seq = batch.consumer_seq, pending = batch.pending
    for index in range(batch.start, batch.stop):
        if not _read(batch, index, &record):
            return -1
        room += 4 + record.subject_bytes + batch.middle_bytes
        room += digit_count(batch.sequences[index]) + 1 + digit_count(consumer_seq) + 1
        room += _signed_digits(record.timestamp) + 1 + digit_count(pending) + 1
        body_bytes = record.payload_bytes
        if batch.headers and record.header_bytes:
            body_bytes += record.header_bytes
            room += 1 + digit_count(record.header_bytes) + 1
        room += digit_count(body_bytes) + 2 + body_bytes + 2
        consumer_seq += 1
        if pending:
            pending -= 1
    return room


cdef void _write(const Batch* batch, char* at) noexcept nogil:
    """Write the frames that were measured."""
    cdef Record record
    cdef Py_ssize_t index, body_bytes
    cdef u64 consumer_seq = batch.consumer_seq, pending = batch.pending
    cdef bint with_block
    for index in range(batch.start, batch.stop):
        _read(batch, index, &record)
        with_block = batch.headers and record.header_bytes
        at = put_bytes(at, b"HMSG ", 5) if with_block else put_bytes(at, b"MSG ", 4)
        at = put_bytes(at, record.subject, record.subject_bytes)
        at = put_bytes(at, batch.middle, batch.middle_bytes)
        at = put_number(at, batch.sequences[index])
        at = put_bytes(at, b".", 1)
        at = put_number(at, consumer_seq)
        at = put_bytes(at, b".", 1)
        at = _put_signed(at, record.timestamp)
        at = put_bytes(at, b".", 1)
        at = put_number(at, pending)
        at = put_bytes(at, b" ", 1)
        body_bytes = record.payload_bytes
        if with_block:
            body_bytes += record.header_bytes
            at = put_number(at, record.header_bytes)
            at = put_bytes(at, b" ", 1)
            record.header_bytes = 0  # part of the body now
        at = put_number(at, body_bytes)
        at = put_bytes(at, b"\r\n", 2)
        at = put_bytes(
            at, record.subject + record.subject_bytes + record.header_bytes, body_bytes
        )
        at = put_bytes(at, b"\r\n", 2)
        consumer_seq += 1
        if pending:
            pending -= 1


def encode_deliveries(
    buffer,
    array.array positions,
    array.array sequences,
    Py_ssize_t start,
    Py_ssize_t stop,
    bytes sid,
    bytes ack_head,
    u64 delivered,
    u64 first_consumer_seq,
    u64 pending,
    bint headers,
):
    """Return the frames that deliver records `start` up to `stop` to one subscriber.

    See `deliveries_pure.encode_deliveries`.
    """
    cdef bytes middle = b" %b %b%d." % (sid, ack_head, delivered)
    cdef Py_buffer view
    cdef Batch batch
    cdef Py_ssize_t room
    cdef bytes frames
    cdef char* at
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        batch = Batch(
            block=<const char*>view.buf,
            block_bytes=view.len,
            wide_positions=<const u64*>positions.data.as_ulonglongs,
            narrow_positions=positions.data.as_uints,
            sequences=<const u64*>sequences.data.as_ulonglongs,
            start=start,
            stop=stop,
            middle=PyBytes_AS_STRING(middle),
            middle_bytes=PyBytes_GET_SIZE(middle),
            consumer_seq=first_consumer_seq,
            pending=pending,
            headers=headers,
        )
        if positions.itemsize != sizeof(u64):
            batch.wide_positions = NULL
        with nogil:
            room = _measure(&batch)
        if room < 0:
            raise ValueError("a record reaches beyond its block")
        frames = PyBytes_FromStringAndSize(NULL, room)
        at = PyBytes_AS_STRING(frames)
        with nogil:
            _write(&batch, at)
        return frames
    finally:
        PyBuffer_Release(&view)
