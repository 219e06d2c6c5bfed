# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The compiled twin of `pure.py`: same functions, same answers; the reasons are given there.

What looks at the messages of one chunk keeps the GIL, as it takes less time than another thread
needs to wake up for it; only long ones are scanned and copied without.
"""

from cpython cimport array
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdlib cimport free, realloc
from libc.string cimport memchr, memcmp

from jetstream_server.kernels.digits cimport digit_count, put_bytes, put_number
from jetstream_server.kernels.traces cimport asks_for_trace

cdef enum:
    WIDTH = 7  # the STRIDE of `protocol/ops.py`
    TOKENS_MAX = 4
    SIZE_DIGITS_MAX = 9
    WITHOUT_GIL_BYTES = 65536

cdef struct Line:
    Py_ssize_t starts[TOKENS_MAX]
    Py_ssize_t stops[TOKENS_MAX]
    int tokens
    Py_ssize_t stop  # of the line, after its LF


cdef inline bint _split(
    const char* chunk, Py_ssize_t at, Py_ssize_t stop, Py_ssize_t arguments_max, Line* line
) noexcept nogil:
    """Split the arguments at `at`; False unless they are 1 to 4 tokens, one space apart, CR LF."""
    # Of the C library, which looks at 32 bytes at once.
    cdef const char* first = chunk + at
    cdef const char* last
    cdef const char* blank
    cdef Py_ssize_t room = stop - at
    if room > arguments_max + 2:
        room = arguments_max + 2
    last = <const char*>memchr(first, c"\n", room)
    if last == NULL or last == first:
        return False
    line.stop = last - chunk + 1
    last -= 1
    if (
        last[0] != c"\r"
        or memchr(first, c"\r", last - first) != NULL
        or memchr(first, c"\t", last - first) != NULL
    ):
        return False
    line.tokens = 0
    while line.tokens < TOKENS_MAX:
        blank = <const char*>memchr(first, c" ", last - first)
        if blank == NULL:
            blank = last
        if blank == first:
            return False
        line.starts[line.tokens] = first - chunk
        line.stops[line.tokens] = blank - chunk
        line.tokens += 1
        if blank == last:
            return True
        first = blank + 1
    return False


cdef inline Py_ssize_t _size(const char* chunk, Py_ssize_t at, Py_ssize_t stop) noexcept nogil:
    """Return the number written there, -1 when it is none or has too many digits."""
    cdef Py_ssize_t number = 0
    if stop - at > SIZE_DIGITS_MAX:
        return -1
    while at < stop:
        if not c"0" <= chunk[at] <= c"9":
            return -1
        number = number * 10 + (chunk[at] - c"0")
        at += 1
    return number


cdef Py_ssize_t _take(
    const char* chunk,
    Py_ssize_t at,
    Py_ssize_t stop,
    Py_ssize_t control_line_max,
    Py_ssize_t payload_max,
    bint headers,
    int* found,
) noexcept nogil:
    """Fill `found` with the publish at `at`; return where the next frame starts, -1 if none."""
    cdef Line line
    cdef Py_ssize_t header_bytes = 0
    cdef Py_ssize_t total_bytes, payload_stop
    cdef int names
    if stop - at > 4 and memcmp(chunk + at, b"PUB ", 4) == 0:
        if not _split(chunk, at + 4, stop, control_line_max, &line):
            return -1
        names = line.tokens - 1
    elif headers and stop - at > 5 and memcmp(chunk + at, b"HPUB ", 5) == 0:
        if not _split(chunk, at + 5, stop, control_line_max, &line):
            return -1
        names = line.tokens - 2
        header_bytes = _size(chunk, line.starts[names], line.stops[names]) if names > 0 else -1
    else:
        return -1
    if names < 1 or names > 2 or header_bytes < 0:
        return -1
    total_bytes = _size(chunk, line.starts[line.tokens - 1], line.stops[line.tokens - 1])
    if total_bytes < header_bytes or total_bytes > payload_max:
        return -1
    payload_stop = line.stop + total_bytes
    if payload_stop + 2 > stop or chunk[payload_stop] != c"\r" or chunk[payload_stop + 1] != c"\n":
        return -1
    found[0] = <int>line.starts[0]
    found[1] = <int>line.stops[0]
    found[2] = <int>(line.starts[1] if names == 2 else line.stops[0])
    found[3] = <int>(line.stops[1] if names == 2 else line.stops[0])
    found[4] = <int>line.stop
    found[5] = <int>(line.stop + header_bytes)
    found[6] = <int>payload_stop
    return payload_stop + 2


cdef Py_ssize_t _scan(
    const char* raw,
    Py_ssize_t at,
    Py_ssize_t stop,
    Py_ssize_t control_line_max,
    Py_ssize_t payload_max,
    bint headers,
    int** found,
    Py_ssize_t* count,
) noexcept nogil:
    """Find publishes from `at` on; return where the first byte is that was not taken, -1 when there
    was no memory."""
    cdef Py_ssize_t after, room = 0
    cdef int* grown
    while True:
        if count[0] == room:
            room = room * 2 if room else 32
            grown = <int*>realloc(found[0], room * WIDTH * sizeof(int))
            if grown == NULL:
                return -1
            found[0] = grown
        after = _take(
            raw, at, stop, control_line_max, payload_max, headers, found[0] + count[0] * WIDTH
        )
        if after < 0:
            return at
        at = after
        count[0] += 1


def scan_publishes(
    bytes chunk,
    Py_ssize_t start,
    array.array fields,
    Py_ssize_t control_line_max,
    Py_ssize_t payload_max,
    bint headers,
):
    """Append every publish frame from `start` on; return the position of the first byte not taken.

    See `pure.scan_publishes`.
    """
    cdef const char* raw = PyBytes_AS_STRING(chunk)
    cdef Py_ssize_t stop = PyBytes_GET_SIZE(chunk)
    cdef Py_ssize_t at = start, count = 0
    cdef int* found = NULL
    if stop > 0x7FFFFFFF:
        raise OverflowError("a chunk of 2 GiB or more does not fit the fields of a PubRun")
    try:
        if stop - start < WITHOUT_GIL_BYTES:
            at = _scan(raw, at, stop, control_line_max, payload_max, headers, &found, &count)
        else:
            with nogil:
                at = _scan(raw, at, stop, control_line_max, payload_max, headers, &found, &count)
        if at < 0:
            raise MemoryError
        if count:
            array.extend_buffer(fields, <char*>found, count * WIDTH)
    finally:
        free(found)
    return at


cdef char* _encode(
    char* at,
    const char* raw,
    const int* m,
    Py_ssize_t count,
    const char* sid,
    Py_ssize_t sid_bytes,
    bint headers,
) noexcept nogil:
    """Write the frames of messages from `m` on; return where the next ones go."""
    cdef Py_ssize_t index
    cdef bint with_block
    for index in range(count):
        with_block = headers and m[4] != m[5]
        at = put_bytes(at, b"HMSG ", 5) if with_block else put_bytes(at, b"MSG ", 4)
        at = put_bytes(at, raw + m[0], m[1] - m[0])
        at = put_bytes(at, b" ", 1)
        at = put_bytes(at, sid, sid_bytes)
        at = put_bytes(at, b" ", 1)
        if m[2] != m[3]:
            at = put_bytes(at, raw + m[2], m[3] - m[2])
            at = put_bytes(at, b" ", 1)
        if with_block:
            at = put_number(at, m[5] - m[4])
            at = put_bytes(at, b" ", 1)
            at = put_number(at, m[6] - m[4])
            at = put_bytes(at, b"\r\n", 2)
            at = put_bytes(at, raw + m[4], m[6] - m[4])
        else:
            at = put_number(at, m[6] - m[5])
            at = put_bytes(at, b"\r\n", 2)
            at = put_bytes(at, raw + m[5], m[6] - m[5])
        at = put_bytes(at, b"\r\n", 2)
        m += WIDTH
    return at


cdef Py_ssize_t _measure(
    const int* m, Py_ssize_t count, bint headers, long long* contents
) noexcept nogil:
    """Return how many bytes the frames of messages from `m` on have but for their sids, and count
    those of their headers and payloads."""
    cdef Py_ssize_t index, content, room = 0
    cdef bint with_block
    for index in range(count):
        with_block = headers and m[4] != m[5]
        # verb, subject, blank, blank, reply with a blank after it, sizes, and two line ends
        room += 4 + (m[1] - m[0]) + 1 + 1 + 4
        if m[2] != m[3]:
            room += m[3] - m[2] + 1
        content = m[6] - (m[4] if with_block else m[5])
        room += digit_count(content) + content
        contents[0] += content
        if with_block:
            room += 1 + digit_count(m[5] - m[4]) + 1
        m += WIDTH
    return room


def encode_messages(
    bytes chunk, array.array fields, Py_ssize_t start, Py_ssize_t stop, bytes sid, bint headers
):
    """Return the MSG and HMSG frames that bring messages `start` up to `stop` to one subscriber,
    and how many bytes of headers and payloads they hold.

    See `pure.encode_messages`.
    """
    cdef const char* raw = PyBytes_AS_STRING(chunk)
    cdef const int* m = fields.data.as_ints + start * WIDTH
    cdef const char* sid_text = PyBytes_AS_STRING(sid)
    cdef Py_ssize_t sid_bytes = PyBytes_GET_SIZE(sid)
    cdef long long contents = 0
    cdef Py_ssize_t room = _measure(m, stop - start, headers, &contents)
    room += sid_bytes * (stop - start)
    cdef bytes frames = PyBytes_FromStringAndSize(NULL, room)
    cdef char* at = PyBytes_AS_STRING(frames)
    if room < WITHOUT_GIL_BYTES:
        _encode(at, raw, m, stop - start, sid_text, sid_bytes, headers)
    else:
        with nogil:
            _encode(at, raw, m, stop - start, sid_text, sid_bytes, headers)
    return frames, contents


def encode_for_each(
    bytes chunk, array.array fields, Py_ssize_t start, Py_ssize_t stop, list sids, bint headers
):
    """Return the frames that carry messages `start` up to `stop` to several subscriptions, one
    after the other, and how many bytes of headers and payloads they hold together.

    See `pure.encode_for_each`.
    """
    cdef const char* raw = PyBytes_AS_STRING(chunk)
    cdef const int* m = fields.data.as_ints + start * WIDTH
    cdef Py_ssize_t count = stop - start
    cdef long long contents = 0
    cdef Py_ssize_t room = _measure(m, count, headers, &contents) * len(sids)
    cdef bytes sid
    for sid in sids:
        room += PyBytes_GET_SIZE(sid) * count
    cdef bytes frames = PyBytes_FromStringAndSize(NULL, room)
    cdef char* at = PyBytes_AS_STRING(frames)
    for sid in sids:
        at = _encode(at, raw, m, count, PyBytes_AS_STRING(sid), PyBytes_GET_SIZE(sid), headers)
    return frames, contents * len(sids)


def published_bytes(array.array fields):
    """Return how many bytes headers and payloads of all messages have.

    See `pure.published_bytes`.
    """
    cdef const int* message = fields.data.as_ints
    cdef Py_ssize_t index, count = len(fields) // WIDTH
    cdef long long total = 0
    for index in range(count):
        total += message[6] - message[4]
        message += WIDTH
    return total


def first_traced(bytes chunk, array.array fields, Py_ssize_t start, Py_ssize_t stop):
    """Return the first message in [start, stop) whose headers ask for a trace, `stop` for none.

    See `pure.first_traced`.
    """
    cdef const char* raw = PyBytes_AS_STRING(chunk)
    cdef const int* message = fields.data.as_ints + start * WIDTH
    cdef Py_ssize_t index = start
    while index < stop:
        if message[4] != message[5] and asks_for_trace(raw + message[4], raw + message[5]):
            break
        index += 1
        message += WIDTH
    return index


def delivered_bytes(bytes frames):
    """Return how many bytes headers and payloads have in whole MSG and HMSG frames.

    See `pure.delivered_bytes`.
    """
    cdef const char* at = PyBytes_AS_STRING(frames)
    cdef const char* stop = at + PyBytes_GET_SIZE(frames)
    cdef const char* line_feed
    cdef const char* digit
    cdef Py_ssize_t size, scale
    cdef long long total = 0
    with nogil:
        while at < stop:
            line_feed = <const char*>memchr(at, c"\n", stop - at)
            if line_feed == NULL:
                break
            size = 0
            scale = 1
            digit = line_feed - 2  # before the CR
            while digit > at and c"0" <= digit[0] <= c"9":
                size += (digit[0] - c"0") * scale
                scale *= 10
                digit -= 1
            total += size
            if size > stop - line_feed:
                break
            at = line_feed + 1 + size + 2
    return total
