# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The compiled twin of `pure.py`: same functions, same answers; the reasons are given there.

What looks at the messages of one chunk keeps the GIL, as it takes less time than another thread
needs to wake up for it.
"""

from cpython cimport array
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy

import array

from jetstream_server.kernels.record_layout cimport (
    HEADER_BYTES_AT, PREFIX_BYTES, SEQUENCE_AT, SUBJECT_BYTES_AT, TIMESTAMP_AT
)

cdef enum:
    WIDTH = 7  # the STRIDE of `protocol/ops.py`

cdef struct Text:
    const char* start
    Py_ssize_t length


cdef inline const char* _find_line(
    const char* at, const char* end, const char* head, Py_ssize_t length
) noexcept nogil:
    """Return where CR LF and `head` (both are `length` bytes together) begin, NULL if nowhere."""
    while end - at >= length:
        at = <const char*>memchr(at, c"\r", end - at - length + 1)
        if at == NULL or memcmp(at, head, length) == 0:
            return at
        at += 1
    return NULL


cdef inline const char* _past_spaces(const char* at, const char* end) noexcept nogil:
    while at < end and at[0] == c" ":
        at += 1
    return at


cdef bint _is_plain(
    const char* block, Py_ssize_t length, const char* stream, Py_ssize_t stream_bytes, Text* id
) noexcept nogil:
    """Tell whether a block asks for nothing but to be stored in `stream` under an id.

    `id` gets the id, of no length when there is none.
    """
    cdef const char* end = block + length
    cdef const char* line
    cdef const char* stop
    cdef const char* value
    cdef bint has_id = False, has_stream = False
    id.start = NULL
    id.length = 0
    if length < 10 or memcmp(block, b"NATS/1.0\r\n", 10) != 0:
        return False
    line = _find_line(block, end, b"\r\nNats-", 7)
    while line != NULL:
        stop = _find_line(line + 2, end, b"\r\n", 2)
        if stop == NULL:
            stop = end
        line += 2
        if stop - line >= 12 and memcmp(line, b"Nats-Msg-Id:", 12) == 0:
            if not has_id:
                has_id = True
                value = _past_spaces(line + 12, stop)
                id.start = value
                id.length = stop - value
        elif stop - line >= 21 and memcmp(line, b"Nats-Expected-Stream:", 21) == 0:
            if not has_stream:
                has_stream = True
                value = _past_spaces(line + 21, stop)
                if value < stop and (
                    stop - value != stream_bytes or memcmp(value, stream, stream_bytes) != 0
                ):
                    return False
        else:
            return False
        line = _find_line(stop, end, b"\r\nNats-", 7)
    return True


def first_special(
    bytes chunk, array.array fields, Py_ssize_t start, Py_ssize_t stop, bytes stream=b""
):
    """Return the first message in [start, stop) that needs a look at its headers, else `stop`.

    See `pure.first_special`.
    """
    cdef const char* raw = PyBytes_AS_STRING(chunk)
    cdef const char* name = PyBytes_AS_STRING(stream)
    cdef Py_ssize_t name_bytes = PyBytes_GET_SIZE(stream)
    cdef const int* message = fields.data.as_ints + start * WIDTH
    cdef Py_ssize_t index = start
    cdef Text id
    while index < stop:
        if message[4] != message[5] and (
            not _is_plain(raw + message[4], message[5] - message[4], name, name_bytes, &id)
            or id.length
        ):
            break
        index += 1
        message += WIDTH
    return min(index, stop)


def id_spans(bytes chunk, array.array fields, Py_ssize_t start, Py_ssize_t stop, bytes stream):
    """Return where the ids are in the longest stretch from `start` of messages that ask for nothing
    but their id.

    See `pure.id_spans`.
    """
    cdef const char* raw = PyBytes_AS_STRING(chunk)
    cdef const char* name = PyBytes_AS_STRING(stream)
    cdef Py_ssize_t name_bytes = PyBytes_GET_SIZE(stream)
    cdef const int* message = fields.data.as_ints + start * WIDTH
    cdef Py_ssize_t found = 0, count = max(stop - start, 0)
    cdef array.array spans = array.clone(fields, 2 * count, False)
    cdef int* span = spans.data.as_ints
    cdef Text id
    while found < count:
        if (
            not _is_plain(raw + message[4], message[5] - message[4], name, name_bytes, &id)
            or not id.length
        ):
            break
        span[0] = <int>(id.start - raw)
        span[1] = span[0] + <int>id.length
        span += 2
        found += 1
        message += WIDTH
    array.resize(spans, 2 * found)
    return spans


cdef void _find_recorded_id(const char* block, Py_ssize_t length, Text* id) noexcept nogil:
    """Find the id in any block of headers; of no length when there is none."""
    cdef const char* end = block + length
    cdef const char* stop
    id.start = _find_line(block, end, b"\r\nNats-Msg-Id:", 14)
    id.length = 0
    if id.start == NULL:
        return
    id.start += 14
    stop = _find_line(id.start, end, b"\r\n", 2)
    if stop == NULL:
        stop = end
    while id.start < stop and id.start[0] == c" ":
        id.start += 1
    id.length = stop - id.start


cdef struct Recorded:
    int* spans
    uint64_t* sequences
    Py_ssize_t found
    Py_ssize_t text_bytes
    Py_ssize_t next
    int64_t newest
    bint is_cut  # a record reaches beyond the block


cdef void _read_ids(
    const char* block, Py_ssize_t block_bytes, const uint64_t* positions, Py_ssize_t stop,
    int64_t before, Recorded* out
) noexcept nogil:
    """Find ids from record `out.next` on; spans are positions in the block for now."""
    cdef uint32_t header_bytes
    cdef uint16_t subject_bytes
    cdef int64_t timestamp
    cdef const char* record
    cdef Text id
    while out.next < stop:
        if positions[out.next] + PREFIX_BYTES > <uint64_t>block_bytes:
            out.is_cut = True
            return
        record = block + positions[out.next]
        memcpy(&header_bytes, record + HEADER_BYTES_AT, 4)
        memcpy(&subject_bytes, record + SUBJECT_BYTES_AT, 2)
        memcpy(&timestamp, record + TIMESTAMP_AT, 8)
        if timestamp >= before:
            return
        if positions[out.next] + PREFIX_BYTES + subject_bytes + header_bytes > <uint64_t>block_bytes:
            out.is_cut = True
            return
        if header_bytes:
            _find_recorded_id(record + PREFIX_BYTES + subject_bytes, header_bytes, &id)
            if id.length:
                out.spans[2 * out.found] = <int>(id.start - block)
                out.spans[2 * out.found + 1] = <int>(id.start - block + id.length)
                memcpy(&out.sequences[out.found], record + SEQUENCE_AT, 8)
                out.newest = max(out.newest, timestamp)
                out.text_bytes += id.length
                out.found += 1
        out.next += 1


def recorded_ids(buffer, array.array positions not None, Py_ssize_t start, int64_t before):
    """Return the ids of stored messages, from record `start` up to one stored at or after `before`.

    See `pure.recorded_ids`; a record that reaches beyond the block raises ValueError.
    """
    cdef Py_ssize_t count = max(len(positions) - start, 0), index, at = 0, length
    cdef array.array spans = array.clone(array.array("i"), 2 * count, False)
    cdef array.array sequences = array.clone(array.array("Q"), count, False)
    cdef Recorded found
    cdef Py_buffer view
    cdef const char* block
    cdef char* text
    found.spans, found.sequences = spans.data.as_ints, <uint64_t*>sequences.data.as_ulonglongs
    found.found = found.text_bytes = 0
    found.next, found.newest, found.is_cut = start, 0, False
    if positions.typecode != "Q":
        raise TypeError("positions of records are an array('Q')")
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        block = <const char*>view.buf
        with nogil:
            _read_ids(
                block, view.len, <const uint64_t*>positions.data.as_ulonglongs, start + count, before,
                &found,
            )
        if found.is_cut:
            raise ValueError("a record reaches beyond its block")
        texts = PyBytes_FromStringAndSize(NULL, found.text_bytes)
        text = PyBytes_AS_STRING(texts)
        for index in range(found.found):
            length = found.spans[2 * index + 1] - found.spans[2 * index]
            memcpy(text + at, block + found.spans[2 * index], length)
            found.spans[2 * index] = <int>at
            found.spans[2 * index + 1] = <int>(at + length)
            at += length
    finally:
        PyBuffer_Release(&view)
    array.resize(spans, 2 * found.found)
    array.resize(sequences, found.found)
    return texts, spans, sequences, found.next, found.newest
