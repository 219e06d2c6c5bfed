# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The compiled twin of `pure.py`: same function, same answers; the reasons are given there.

It differs in one thing: a record that reaches beyond the block raises ValueError, because reading
on would not be safe.
"""

from cpython cimport array
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE

from jetstream_server.kernels.digits cimport (
    digit_count,
    put_bytes,
    put_number,
    put_signed,
    signed_digit_count,
    u64,
)
from jetstream_server.kernels.frame_parts cimport put_payload, put_sizes
from jetstream_server.kernels.record_layout cimport (
    VERSION_LINE_BYTES,
    Block,
    Record,
    fill_block,
    read_numbered,
)

cdef enum:
    SIZE_LINE_BYTES = 15  # up to its number
    WITHOUT_GIL_BYTES = 65536
    WITHOUT_GIL_MESSAGES = 1000

cdef struct Batch:
    Block block
    const u64* sequences
    Py_ssize_t records  # how many there are in both
    Py_ssize_t start
    const u64* picks  # NULL for all from `start` on
    Py_ssize_t count
    const char* middle  # what every frame has between its subject and the numbers of its ack
    Py_ssize_t middle_bytes
    u64 consumer_seq  # of the record at `start`
    u64 pending  # likewise
    bint is_falling
    bint headers
    bint headers_only
    const char* extra
    Py_ssize_t extra_bytes


cdef inline Py_ssize_t _index(const Batch* batch, Py_ssize_t ordinal) noexcept nogil:
    """Return which record is the next one to go, -1 when there is no such record."""
    cdef Py_ssize_t index
    if batch.picks == NULL:
        index = batch.start + ordinal
    elif batch.picks[ordinal] >= <u64>batch.records:
        return -1
    else:
        index = <Py_ssize_t>batch.picks[ordinal]
    return index if batch.start <= index < batch.records else -1


cdef inline u64 _left(const Batch* batch, Py_ssize_t index) noexcept nogil:
    """Return how many are pending after a record."""
    cdef u64 ahead = <u64>(index - batch.start)
    if not batch.is_falling:
        return batch.pending
    return batch.pending - ahead if batch.pending > ahead else 0


cdef inline Py_ssize_t _lines_bytes(const Batch* batch, const Record* record) noexcept nogil:
    """Return the bytes of the header lines added to a record, 0 for none."""
    if not batch.headers:
        return 0
    if batch.headers_only:
        return batch.extra_bytes + SIZE_LINE_BYTES + digit_count(record.payload_bytes) + 2
    return batch.extra_bytes


cdef inline Py_ssize_t _block_bytes(const Batch* batch, const Record* record) noexcept nogil:
    """Return the bytes of the header block as it is sent."""
    cdef Py_ssize_t lines_bytes
    if not batch.headers:
        return 0
    lines_bytes = _lines_bytes(batch, record)
    if not lines_bytes:
        return record.header_bytes
    if record.header_bytes >= 2:
        return record.header_bytes + lines_bytes
    return VERSION_LINE_BYTES + lines_bytes + 2


cdef Py_ssize_t _measure(const Batch* batch, u64* content_bytes) noexcept nogil:
    """Return the bytes of all frames, -1 when a record is not inside the block; and count those of
    their headers and payloads."""
    cdef Record record
    cdef Py_ssize_t ordinal, index, body_bytes, block_bytes, room = 0
    for ordinal in range(batch.count):
        index = _index(batch, ordinal)
        if index < 0 or not read_numbered(&batch.block, index, &record):
            return -1
        room += 4 + record.subject_bytes + batch.middle_bytes
        room += digit_count(batch.sequences[index]) + 1
        room += digit_count(batch.consumer_seq + <u64>(index - batch.start)) + 1
        room += signed_digit_count(record.timestamp) + 1 + digit_count(_left(batch, index)) + 1
        body_bytes = 0 if batch.headers_only else record.payload_bytes
        block_bytes = _block_bytes(batch, &record)
        if block_bytes:
            body_bytes += block_bytes
            room += 1 + digit_count(block_bytes) + 1
        room += digit_count(body_bytes) + 2 + body_bytes + 2
        content_bytes[0] += <u64>body_bytes
    return room


cdef inline char* _put_block(char* at, const Batch* batch, const Record* record) noexcept nogil:
    """Write the header block of a record with the lines added to it."""
    cdef const char* stored = record.subject + record.subject_bytes
    if not _lines_bytes(batch, record):
        return put_bytes(at, stored, record.header_bytes)
    if record.header_bytes >= 2:
        at = put_bytes(at, stored, record.header_bytes - 2)
    else:
        at = put_bytes(at, b"NATS/1.0\r\n", VERSION_LINE_BYTES)
    at = put_bytes(at, batch.extra, batch.extra_bytes)
    if batch.headers_only:
        at = put_bytes(at, b"Nats-Msg-Size: ", SIZE_LINE_BYTES)
        at = put_number(at, record.payload_bytes)
        at = put_bytes(at, b"\r\n", 2)
    return put_bytes(at, b"\r\n", 2)


cdef void _write(const Batch* batch, char* at) noexcept nogil:
    """Write the frames that were measured."""
    cdef Record record
    cdef Py_ssize_t ordinal, index, payload_bytes, block_bytes
    for ordinal in range(batch.count):
        index = _index(batch, ordinal)
        if not read_numbered(&batch.block, index, &record):
            return  # it cannot be: this one was measured
        block_bytes = _block_bytes(batch, &record)
        payload_bytes = 0 if batch.headers_only else record.payload_bytes
        at = put_bytes(at, b"HMSG ", 5) if block_bytes else put_bytes(at, b"MSG ", 4)
        at = put_bytes(at, record.subject, record.subject_bytes)
        at = put_bytes(at, batch.middle, batch.middle_bytes)
        at = put_number(at, batch.sequences[index])
        at = put_bytes(at, b".", 1)
        at = put_number(at, batch.consumer_seq + <u64>(index - batch.start))
        at = put_bytes(at, b".", 1)
        at = put_signed(at, record.timestamp)
        at = put_bytes(at, b".", 1)
        at = put_number(at, _left(batch, index))
        at = put_sizes(at, block_bytes, payload_bytes)
        if block_bytes:
            at = _put_block(at, batch, &record)
        at = put_payload(at, &record, payload_bytes)


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
    array.array picks=None,
    bint is_falling=True,
    bytes extra=b"",
    bint headers_only=False,
):
    """Return the frames that deliver records `start` up to `stop` to one subscriber, and how many
    bytes their headers and payloads have.

    See `pure.encode_deliveries`.
    """
    cdef bytes middle = b" %b %b%d." % (sid, ack_head, delivered)
    cdef Py_buffer view
    cdef Batch batch
    cdef Py_ssize_t room
    cdef u64 content_bytes = 0
    cdef bytes frames
    cdef char* at
    if sequences.itemsize != sizeof(u64) or (picks is not None and picks.itemsize != sizeof(u64)):
        raise TypeError("sequences and picks are arrays of 'Q'")
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        batch = Batch(
            sequences=<const u64*>sequences.data.as_ulonglongs,
            records=min(len(positions), len(sequences)),
            start=start,
            picks=NULL,
            count=stop - start,
            middle=PyBytes_AS_STRING(middle),
            middle_bytes=PyBytes_GET_SIZE(middle),
            consumer_seq=first_consumer_seq,
            pending=pending,
            is_falling=is_falling,
            headers=headers,
            headers_only=headers_only,
            extra=PyBytes_AS_STRING(extra),
            extra_bytes=PyBytes_GET_SIZE(extra),
        )
        fill_block(&batch.block, &view, positions)
        if picks is not None:
            batch.picks = <const u64*>picks.data.as_ulonglongs
            batch.count = len(picks)
        if batch.count < WITHOUT_GIL_MESSAGES:
            room = _measure(&batch, &content_bytes)
        else:
            with nogil:
                room = _measure(&batch, &content_bytes)
        if room < 0:
            raise ValueError("a record reaches beyond its block")
        frames = PyBytes_FromStringAndSize(NULL, room)
        at = PyBytes_AS_STRING(frames)
        if room < WITHOUT_GIL_BYTES:
            _write(&batch, at)
        else:
            with nogil:
                _write(&batch, at)
        return frames, content_bytes
    finally:
        PyBuffer_Release(&view)
