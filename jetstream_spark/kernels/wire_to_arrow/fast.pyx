# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The compiled twin of `pure.py`: same functions, same answers; reasons are given there.

Frames are found one after the other, and each value is copied once, from the chunk to its place in
an Arrow buffer. Loops that only look at bytes run without the GIL.
"""

import pyarrow as pa

from cpython cimport array
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.string cimport memchr, memcmp, memcpy

from jetstream_spark.kernels.decimal cimport read_number, u64
from jetstream_spark.kernels.header_block cimport (
    Headers,
    free_headers,
    is_ascii,
    start_headers,
    take_block,
)

cdef enum:
    WIDTH = 5  # the STRIDE of `fields`
    NUMBER_WIDTH = 4  # the NUMBERS of `numbers`
    RUN = 4096  # messages between two looks at the GIL
    SIZE_DIGITS_MAX = 9
    DOTS_MAX = 11  # further dots are inside the last token
    SHORT_HEAD_DOTS = 4  # $JS.ACK.<stream>.<consumer>.
    LONG_HEAD_DOTS = 6  # $JS.ACK.<domain>.<account>.<stream>.<consumer>.

ctypedef long long i64

# What all ack replies of one consumer begin with; found once, then only compared.
cdef struct ReplyHead:
    const char* start
    Py_ssize_t length


cdef inline const char* _number(const char* at, const char* stop, i64* number) noexcept nogil:
    """Read the digits at `at`; NULL when there are none, or more than fit."""
    cdef u64 value = 0
    at = read_number(at, stop, &value)
    if <i64>value < 0:
        return NULL
    number[0] = <i64>value
    return at


cdef inline const char* _reply_numbers(
    const char* at, const char* stop, char ending, i64* numbers
) noexcept nogil:
    """Read `<sequence>.<delivered>.<time>.<pending>` up to `ending`; NULL when it is not that."""
    cdef int column
    for column in range(NUMBER_WIDTH):
        at = _number(at, stop, numbers + column)
        if at == NULL or at == stop or at[0] != (c"." if column < NUMBER_WIDTH - 1 else ending):
            return NULL
        at += 1
    return at - 1


cdef const char* _known_reply(
    const char* reply, const char* stop, const ReplyHead* head, i64* numbers
) noexcept nogil:
    """Read a reply that begins like the one before; NULL when it has to be read from its start."""
    cdef const char* at = reply + head.length
    cdef i64 deliveries
    if head.length == 0 or stop - reply <= head.length:
        return NULL
    if memcmp(reply, head.start, head.length) != 0:
        return NULL
    at = _number(at, stop, &deliveries)
    if at == NULL or at == stop or at[0] != c".":
        return NULL
    return _reply_numbers(at + 1, stop, c" ", numbers)


cdef const char* _any_reply(
    const char* reply, const char* stop, ReplyHead* head, i64* numbers
) noexcept nogil:
    """Read the ack reply at `reply`; return the blank after it, NULL when it is no ack reply."""
    cdef const char* dots[DOTS_MAX]
    cdef const char* end = <const char*>memchr(reply, c" ", stop - reply)
    cdef const char* at = reply
    cdef int count = 0, head_dots
    if end == NULL or end - reply <= 8 or memcmp(reply, b"$JS.ACK.", 8) != 0:
        return NULL
    while count < DOTS_MAX:
        at = <const char*>memchr(at, c".", end - at)
        if at == NULL:
            break
        dots[count] = at
        count += 1
        at += 1
    if count == 8:
        head_dots = SHORT_HEAD_DOTS
    elif count >= 10:
        head_dots = LONG_HEAD_DOTS
    else:
        return NULL
    at = dots[head_dots] + 1
    if _reply_numbers(at, stop, c"." if count == DOTS_MAX else c" ", numbers) == NULL:
        return NULL
    head.start = reply
    head.length = dots[head_dots - 1] + 1 - reply
    return end


cdef Py_ssize_t _take(
    const char* chunk,
    Py_ssize_t start,
    Py_ssize_t stop,
    const char* sid,
    Py_ssize_t sid_bytes,
    ReplyHead* head,
    int* found,
    i64* numbers,
) noexcept nogil:
    """Note the message at `start`; return where the next frame starts, -1 when there is none."""
    cdef const char* line = chunk + start
    cdef const char* line_stop = <const char*>memchr(line, c"\n", stop - start)
    cdef const char* subject
    cdef const char* at
    cdef const char* known
    cdef const char* size
    cdef i64 header_bytes = 0, total_bytes
    cdef Py_ssize_t payload_start, payload_stop
    cdef bint has_headers
    if line_stop == NULL or line_stop - line < 6 or (line_stop - 1)[0] != c"\r":
        return -1
    line_stop -= 1
    has_headers = line[0] == c"H"
    subject = line + (5 if has_headers else 4)
    if memcmp(line + has_headers, b"MSG ", 4) != 0:
        return -1
    at = <const char*>memchr(subject, c" ", line_stop - subject)
    if at == NULL or at == subject:
        return -1
    found[0] = <int>(subject - chunk)
    found[1] = <int>(at - chunk)
    at += 1
    if line_stop - at <= sid_bytes or at[sid_bytes] != c" " or memcmp(at, sid, sid_bytes) != 0:
        return -1
    at += sid_bytes + 1
    known = _known_reply(at, line_stop, head, numbers)
    at = known if known != NULL else _any_reply(at, line_stop, head, numbers)
    if at == NULL:
        return -1
    if has_headers:
        at = _number(at + 1, line_stop, &header_bytes)
        if at == NULL or at == line_stop or at[0] != c" ":
            return -1
    size = at + 1
    at = _number(size, line_stop, &total_bytes)
    if at != line_stop or at - size > SIZE_DIGITS_MAX or header_bytes > total_bytes:
        return -1
    payload_start = line_stop + 2 - chunk
    payload_stop = payload_start + total_bytes
    if payload_stop + 2 > stop or memcmp(chunk + payload_stop, b"\r\n", 2) != 0:
        return -1
    found[2] = <int>payload_start
    found[3] = <int>(payload_start + header_bytes)
    found[4] = <int>payload_stop
    return payload_stop + 2


def scan_deliveries(
    chunk,
    Py_ssize_t start,
    Py_ssize_t stop,
    bytes sid,
    array.array fields,
    array.array numbers,
):
    """Append every complete message delivered to `sid`; return where the first other byte is.

    See `pure.scan_deliveries`.
    """
    cdef const char* sid_text = PyBytes_AS_STRING(sid)
    cdef Py_ssize_t sid_bytes = PyBytes_GET_SIZE(sid)
    cdef Py_ssize_t known = len(numbers) // NUMBER_WIDTH
    cdef Py_ssize_t count = 0, at = start, after = start
    cdef ReplyHead head
    cdef int* found
    cdef i64* read
    cdef Py_buffer view
    head.start = NULL
    head.length = 0
    PyObject_GetBuffer(chunk, &view, PyBUF_SIMPLE)
    try:
        # Positions are kept as int.
        stop = min(stop, view.len, 0x7FFFFFFF)
        if not 0 <= start <= stop:
            return start
        while after >= 0:
            array.resize_smart(fields, (known + RUN) * WIDTH)
            array.resize_smart(numbers, (known + RUN) * NUMBER_WIDTH)
            found = fields.data.as_ints + known * WIDTH
            read = <i64*>numbers.data.as_longlongs + known * NUMBER_WIDTH
            with nogil:
                count = 0
                while count < RUN:
                    after = _take(
                        <const char*>view.buf, at, stop, sid_text, sid_bytes, &head, found, read
                    )
                    if after < 0:
                        break
                    at = after
                    found += WIDTH
                    read += NUMBER_WIDTH
                    count += 1
            known += count
    finally:
        array.resize_smart(fields, known * WIDTH)
        array.resize_smart(numbers, known * NUMBER_WIDTH)
        PyBuffer_Release(&view)
    return at


cdef inline char* _address(buffer) except? NULL:
    return <char*><size_t>buffer.address


def binary_column(
    chunk, array.array fields, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t first, Py_ssize_t final
):
    """Return one column of bytes from the messages [start, stop), copied out of the chunk.

    See `pure.binary_column`.
    """
    buffers, count = _copied(chunk, fields, start, stop, first, final)
    return pa.Array.from_buffers(pa.binary(), count, buffers)


def ascii_column(
    chunk, array.array fields, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t first, Py_ssize_t final
):
    """Return the same as text; None where not every byte is ASCII.

    See `pure.ascii_column`.
    """
    buffers, count = _copied(chunk, fields, start, stop, first, final)
    if not is_ascii(_address(buffers[2]), buffers[2].size):
        return None
    return pa.Array.from_buffers(pa.string(), count, buffers)


cdef _copied(
    chunk, array.array fields, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t first, Py_ssize_t final
):
    """Return the buffers of a column without nulls, and how many values it has."""
    cdef const int* message
    cdef const char* raw
    cdef char* data
    cdef int* offsets
    cdef Py_ssize_t index, count, size, total = 0
    cdef Py_buffer view
    stop = min(stop, len(fields) // WIDTH)
    count = max(0, stop - start)
    message = fields.data.as_ints + start * WIDTH
    with nogil:
        for index in range(count):
            total += message[final] - message[first]
            message += WIDTH
    offset_buffer = pa.allocate_buffer((count + 1) * sizeof(int))
    data_buffer = pa.allocate_buffer(total)
    offsets = <int*>_address(offset_buffer)
    data = _address(data_buffer)
    message = fields.data.as_ints + start * WIDTH
    PyObject_GetBuffer(chunk, &view, PyBUF_SIMPLE)
    raw = <const char*>view.buf
    with nogil:
        # Disjoint ranges of a chunk whose positions are int: the sum is one too.
        total = 0
        for index in range(count):
            offsets[index] = <int>total
            size = message[final] - message[first]
            memcpy(data + total, raw + message[first], size)
            total += size
            message += WIDTH
        offsets[count] = <int>total
    PyBuffer_Release(&view)
    return [None, offset_buffer, data_buffer], count


def rising_by_one(array.array numbers, Py_ssize_t start, Py_ssize_t column, i64 before):
    """Return how many messages from `start` on have in a column one more than the one before.

    See `pure.rising_by_one`.
    """
    cdef const i64* found = <const i64*>numbers.data.as_longlongs + column
    cdef Py_ssize_t stop = len(numbers) // NUMBER_WIDTH
    cdef Py_ssize_t index = start
    with nogil:
        # Unsigned, because a difference of any two numbers is defined there.
        while index < stop and <u64>found[index * NUMBER_WIDTH] - <u64>before == 1:
            before = found[index * NUMBER_WIDTH]
            index += 1
    return max(0, index - start)


def header_column(chunk, array.array fields, Py_ssize_t start, Py_ssize_t stop):
    """Return the headers of the messages [start, stop) as map<string, list<string>>.

    See `pure.header_column`.
    """
    cdef const int* message
    cdef const char* raw
    cdef Py_ssize_t index = start
    cdef bint has_memory = True
    cdef bytes repaired
    cdef Headers headers
    cdef Py_buffer view
    stop = min(stop, len(fields) // WIDTH)
    PyObject_GetBuffer(chunk, &view, PyBUF_SIMPLE)
    raw = <const char*>view.buf
    try:
        has_memory = start_headers(&headers)
        while has_memory and index < stop:
            with nogil:
                message = fields.data.as_ints + index * WIDTH
                while has_memory and index < stop:
                    if not is_ascii(raw + message[2], message[3] - message[2]):
                        break
                    has_memory = take_block(&headers, raw + message[2], message[3] - message[2])
                    message += WIDTH
                    index += 1
            if has_memory and index < stop:
                repaired = raw[message[2] : message[3]].decode("utf-8", "replace").encode()
                has_memory = take_block(
                    &headers, PyBytes_AS_STRING(repaired), PyBytes_GET_SIZE(repaired)
                )
                index += 1
        if not has_memory:
            raise MemoryError
        return _map_array(&headers)
    finally:
        free_headers(&headers)
        PyBuffer_Release(&view)


cdef _map_array(Headers* headers):
    names = _strings(
        headers.name_offsets.data[: headers.name_offsets.size],
        headers.names.data[: headers.names.size],
    )
    values = _strings(
        headers.value_offsets.data[: headers.value_offsets.size],
        headers.values.data[: headers.values.size],
    )
    list_offsets = _offsets(headers.list_offsets.data[: headers.list_offsets.size])
    map_offsets = _offsets(headers.map_offsets.data[: headers.map_offsets.size])
    kind = pa.list_(pa.field("element", pa.string()))
    lists = pa.ListArray.from_arrays(list_offsets, values, type=kind)
    return pa.MapArray.from_arrays(map_offsets, names, lists)


cdef _strings(bytes offsets, bytes data):
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.string(), len(offsets) // sizeof(int) - 1, buffers)


cdef _offsets(bytes offsets):
    return pa.Array.from_buffers(
        pa.int32(), len(offsets) // sizeof(int), [None, pa.py_buffer(offsets)]
    )
