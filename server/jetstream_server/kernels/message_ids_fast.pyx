# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The compiled twin of `message_ids_pure`: same functions, same answers; the reasons are told there.

Loops that only look at bytes run without the GIL.
"""

from cpython cimport array
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.string cimport memchr, memcmp

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
                value = line + 12
                while value < stop and value[0] == c" ":
                    value += 1
                id.start = value
                id.length = stop - value
        elif stop - line >= 21 and memcmp(line, b"Nats-Expected-Stream:", 21) == 0:
            if not has_stream:
                has_stream = True
                value = line + 21
                while value < stop and value[0] == c" ":
                    value += 1
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

    See `frames_pure.first_special`.
    """
    cdef const char* raw = PyBytes_AS_STRING(chunk)
    cdef const char* name = PyBytes_AS_STRING(stream)
    cdef Py_ssize_t name_bytes = PyBytes_GET_SIZE(stream)
    cdef const int* message = fields.data.as_ints + start * WIDTH
    cdef Py_ssize_t index = start
    cdef Text id
    with nogil:
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
    """Return where the ids are of the longest stretch from `start` of messages with one and no
    other wish.

    See `message_ids_pure.id_spans`.
    """
    cdef const char* raw = PyBytes_AS_STRING(chunk)
    cdef const char* name = PyBytes_AS_STRING(stream)
    cdef Py_ssize_t name_bytes = PyBytes_GET_SIZE(stream)
    cdef const int* message = fields.data.as_ints + start * WIDTH
    cdef Py_ssize_t found = 0, count = max(stop - start, 0)
    cdef array.array spans = array.clone(fields, 2 * count, False)
    cdef int* span = spans.data.as_ints
    cdef Text id
    with nogil:
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
