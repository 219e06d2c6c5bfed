# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The compiled twin of `frames_pure`: same functions, same answers; the reasons are told there.

Loops that only look at bytes run without the GIL.
"""

from cpython cimport array
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdlib cimport free, realloc
from libc.string cimport memchr, memcmp

from jetstream_server.kernels.digits cimport digit_count, put_bytes, put_number

cdef enum:
    WIDTH = 7  # the STRIDE of `protocol/ops.py`
    TOKENS_MAX = 4
    SIZE_DIGITS_MAX = 9
    PREFIXES_MAX = 16
    ACK_TOKENS = 9
    ACK_TAIL_TOKENS = 5

cdef struct Line:
    Py_ssize_t starts[TOKENS_MAX]
    Py_ssize_t stops[TOKENS_MAX]
    int tokens
    Py_ssize_t stop  # of the line, after its LF


cdef inline bint _split(
    const char* chunk, Py_ssize_t at, Py_ssize_t stop, Py_ssize_t arguments_max, Line* line
) noexcept nogil:
    """Split the arguments at `at`; False unless they are 1 to 4 tokens, one space apart, CR LF."""
    cdef Py_ssize_t limit = at + arguments_max  # the last place for the CR
    cdef Py_ssize_t first
    cdef char byte
    line.tokens = 0
    while line.tokens < TOKENS_MAX:
        first = at
        while True:
            if at >= stop or at > limit:
                return False
            byte = chunk[at]
            if byte == c" " or byte == c"\r" or byte == c"\n" or byte == c"\t":
                break
            at += 1
        if at == first:
            return False
        line.starts[line.tokens] = first
        line.stops[line.tokens] = at
        line.tokens += 1
        at += 1
        if byte == c" ":
            continue
        if byte != c"\r" or at >= stop or chunk[at] != c"\n":
            return False
        line.stop = at + 1
        return True
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


def scan_publishes(
    bytes chunk,
    Py_ssize_t start,
    array.array fields,
    Py_ssize_t control_line_max,
    Py_ssize_t payload_max,
    bint headers,
):
    """Append every publish frame from `start` on; return the position of the first byte not taken.

    See `frames_pure.scan_publishes`.
    """
    cdef const char* raw = PyBytes_AS_STRING(chunk)
    cdef Py_ssize_t stop = PyBytes_GET_SIZE(chunk)
    cdef Py_ssize_t at = start, after
    cdef Py_ssize_t count = 0, room = 0
    cdef int* found = NULL
    cdef int* grown
    cdef bint out_of_memory = False
    if stop > 0x7FFFFFFF:
        raise OverflowError("a chunk of 2 GiB or more does not fit the fields of a PubRun")
    with nogil:
        while True:
            if count == room:
                room = room * 2 if room else 32
                grown = <int*>realloc(found, room * WIDTH * sizeof(int))
                if grown == NULL:
                    out_of_memory = True
                    break
                found = grown
            after = _take(
                raw, at, stop, control_line_max, payload_max, headers, found + count * WIDTH
            )
            if after < 0:
                break
            at = after
            count += 1
    try:
        if out_of_memory:
            raise MemoryError
        if count:
            array.extend_buffer(fields, <char*>found, count * WIDTH)
    finally:
        free(found)
    return at


cdef inline Py_ssize_t _family(const char* subject, Py_ssize_t length, int* tail) noexcept nogil:
    """Return the length of the prefix of a subject's family, its dot included, 0 when it has none.

    `tail` gets the number of tokens behind it.
    """
    cdef Py_ssize_t at = length
    cdef int dots
    if length > 8 and memcmp(subject, b"$JS.ACK.", 8) == 0:
        dots = 0
        for at in range(length):
            if subject[at] == c".":
                dots += 1
                if dots == ACK_TOKENS - ACK_TAIL_TOKENS:
                    break
        at += 1
        tail[0] = ACK_TAIL_TOKENS
        return at if _tokens(subject + at, length - at) == ACK_TAIL_TOKENS else 0
    while at > 0 and subject[at - 1] != c".":
        at -= 1
    tail[0] = 1
    return at if 1 < at < length else 0


cdef inline int _tokens(const char* text, Py_ssize_t length) noexcept nogil:
    """Return how many tokens a text has, 0 when one of them is empty."""
    cdef Py_ssize_t at, first = 0
    cdef int tokens = 1
    for at in range(length):
        if text[at] == c".":
            if at == first:
                return 0
            first = at + 1
            tokens += 1
    return tokens if first < length else 0


def family(bytes subject):
    """Return the prefix that a subject shares with its kind, and how many tokens are behind it.

    See `frames_pure.family`.
    """
    cdef int tail = 0
    cdef Py_ssize_t length = _family(PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject), &tail)
    return (subject[: length - 1], tail) if length else (b"", 0)


def segment(
    bytes chunk, array.array fields, Py_ssize_t start, Py_ssize_t stop, dict routes, dict families
):
    """Return (cut, target): the subjects of messages `start` up to `cut` all map to `target`.

    See `frames_pure.segment`. A subject that equals the one before it, or is of the same family,
    is not looked up again.
    """
    cdef const char* raw = PyBytes_AS_STRING(chunk)
    cdef const int* columns = fields.data.as_ints
    cdef const int* message
    cdef const char* text
    cdef const char* subject = NULL
    cdef Py_ssize_t index, size, length = -1, shared = 0
    cdef int tail = 0
    cdef object target = None, found
    for index in range(start, stop):
        message = columns + index * WIDTH
        text = raw + message[0]
        size = message[1] - message[0]
        if size == length and memcmp(text, subject, length) == 0:
            continue
        if (
            shared
            and size > shared
            and memcmp(text, subject, shared) == 0
            and _tokens(text + shared, size - shared) == tail
        ):
            continue
        subject = text
        length = size
        shared = _family(text, size, &tail)
        found = None
        if shared:
            found = families.get(PyBytes_FromStringAndSize(text, shared - 1))
        if found is None:
            shared = 0
            found = routes.get(PyBytes_FromStringAndSize(text, size))
        if found is not target:
            if index > start:
                return index, target
            target = found
        if found is None:
            return start, None
    return max(start, stop), target


cdef struct Text:
    const char* start
    Py_ssize_t length


cdef inline bint _begins(
    const char* text, Py_ssize_t length, const Text* prefixes, Py_ssize_t count
) noexcept nogil:
    """Tell whether a text is longer than one of the prefixes and begins with it."""
    cdef Py_ssize_t at
    for at in range(count):
        if (
            length > prefixes[at].length
            and text[0] == prefixes[at].start[0]
            and memcmp(text, prefixes[at].start, prefixes[at].length) == 0
        ):
            return True
    return False


def first_reserved(
    bytes chunk,
    array.array fields,
    Py_ssize_t start,
    Py_ssize_t stop,
    tuple subjects,
    tuple replies,
):
    """Return the first message in [start, stop) with a subject or reply of a reserved kind.

    See `frames_pure.first_reserved`.
    """
    cdef const char* raw = PyBytes_AS_STRING(chunk)
    cdef const int* message = fields.data.as_ints + start * WIDTH
    cdef Py_ssize_t index = start, at, subject_count = len(subjects), reply_count = len(replies)
    cdef Text prefixes[PREFIXES_MAX]
    if subject_count + reply_count > PREFIXES_MAX:
        raise ValueError(f"more than {PREFIXES_MAX} reserved prefixes")
    for at in range(subject_count + reply_count):
        prefix = subjects[at] if at < subject_count else replies[at - subject_count]
        if type(prefix) is not bytes or not prefix:
            raise ValueError("a reserved prefix is bytes and not empty")
        prefixes[at].start = PyBytes_AS_STRING(prefix)
        prefixes[at].length = PyBytes_GET_SIZE(prefix)
    with nogil:
        while index < stop:
            if _begins(raw + message[0], message[1] - message[0], prefixes, subject_count):
                break
            if message[2] != message[3] and _begins(
                raw + message[2],
                message[3] - message[2],
                prefixes + subject_count,
                reply_count,
            ):
                break
            index += 1
            message += WIDTH
    return index


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


def message_ids(
    bytes chunk, array.array fields, Py_ssize_t start, Py_ssize_t stop, bytes stream
):
    """Return the ids of the longest stretch from `start` of messages with one and no other wish.

    See `frames_pure.message_ids`.
    """
    cdef const char* raw = PyBytes_AS_STRING(chunk)
    cdef const char* name = PyBytes_AS_STRING(stream)
    cdef Py_ssize_t name_bytes = PyBytes_GET_SIZE(stream)
    cdef const int* columns = fields.data.as_ints
    cdef const int* message
    cdef Py_ssize_t index
    cdef Text id
    cdef list ids = []
    for index in range(start, stop):
        message = columns + index * WIDTH
        if (
            not _is_plain(raw + message[4], message[5] - message[4], name, name_bytes, &id)
            or not id.length
        ):
            break
        ids.append(PyBytes_FromStringAndSize(id.start, id.length))
    return ids


def encode_messages(
    bytes chunk, array.array fields, Py_ssize_t start, Py_ssize_t stop, bytes sid, bint headers
):
    """Return the MSG and HMSG frames that bring messages `start` up to `stop` to one subscriber.

    See `frames_pure.encode_messages`.
    """
    cdef const char* raw = PyBytes_AS_STRING(chunk)
    cdef const int* columns = fields.data.as_ints
    cdef const int* m
    cdef const char* sid_text = PyBytes_AS_STRING(sid)
    cdef Py_ssize_t sid_bytes = PyBytes_GET_SIZE(sid)
    cdef Py_ssize_t index, room = 0
    cdef bint with_block
    cdef char* at
    with nogil:
        for index in range(start, stop):
            m = columns + index * WIDTH
            with_block = headers and m[4] != m[5]
            # verb, subject, sid, reply with a blank after it, sizes, and two line ends
            room += 4 + (m[1] - m[0]) + 1 + sid_bytes + 1 + 4
            if m[2] != m[3]:
                room += m[3] - m[2] + 1
            if with_block:
                room += 1 + digit_count(m[5] - m[4]) + 1 + digit_count(m[6] - m[4]) + m[6] - m[4]
            else:
                room += digit_count(m[6] - m[5]) + m[6] - m[5]
    cdef bytes frames = PyBytes_FromStringAndSize(NULL, room)
    at = PyBytes_AS_STRING(frames)
    with nogil:
        for index in range(start, stop):
            m = columns + index * WIDTH
            with_block = headers and m[4] != m[5]
            at = put_bytes(at, b"HMSG ", 5) if with_block else put_bytes(at, b"MSG ", 4)
            at = put_bytes(at, raw + m[0], m[1] - m[0])
            at = put_bytes(at, b" ", 1)
            at = put_bytes(at, sid_text, sid_bytes)
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
    return frames
