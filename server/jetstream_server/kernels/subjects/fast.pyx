# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The compiled twin of `pure.py`: same functions, same answers; the reasons are given there.

What looks at the messages of one chunk keeps the GIL, as it takes less time than another thread
needs to wake up for it.
"""

from cpython cimport array
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memcmp, memset

from jetstream_server.kernels.traces cimport asks_for_trace

cdef enum:
    WIDTH = 7  # the STRIDE of `protocol/ops.py`
    PREFIXES_MAX = 16
    MANY = 4
    ACK_TOKENS = 9
    TAIL_TOKENS = 5

TAIL_TOKENS_MAX = TAIL_TOKENS

cdef struct Beginning:
    char first[256]
    char second[256]

cdef struct Text:
    const char* start
    Py_ssize_t length


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


cdef int _families(const char* subject, Py_ssize_t length, Py_ssize_t* lengths, int* tail) noexcept nogil:
    """Return how many families a subject may be of, the narrowest first.

    `lengths` get the lengths of their prefixes, dots included, `tail` the number of tokens behind
    the first one; behind each of the others there is one more.
    """
    cdef Py_ssize_t at = length, stop
    cdef int count = 0, dots = 0
    tail[0] = 1
    if length > 8 and memcmp(subject, b"$JS.ACK.", 8) == 0:
        for at in range(length):
            if subject[at] == c".":
                dots += 1
                if dots == ACK_TOKENS - TAIL_TOKENS:
                    break
        lengths[0] = at + 1
        tail[0] = TAIL_TOKENS
        return 1 if _tokens(subject + at + 1, length - at - 1) == TAIL_TOKENS else 0
    while count < TAIL_TOKENS - 1:
        stop = at
        while at > 0 and subject[at - 1] != c".":
            at -= 1
        if at == stop or at <= 1:
            break
        lengths[count] = at
        count += 1
        at -= 1
    return count


def prefixes(bytes subject):
    """Return the families that a subject may be of.

    See `pure.prefixes`.
    """
    cdef Py_ssize_t lengths[TAIL_TOKENS]
    cdef int tail = 0, number
    cdef int count = _families(
        PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject), lengths, &tail
    )
    return [(subject[: lengths[number] - 1], tail + number) for number in range(count)]


cdef object _find(
    const char* text, Py_ssize_t size, dict routes, list families, Py_ssize_t* shared, int* tail
):
    """Return what a subject maps to, and in `shared` and `tail` its family if that is why."""
    cdef Py_ssize_t lengths[TAIL_TOKENS]
    cdef int number
    cdef int count = _families(text, size, lengths, tail)
    cdef dict known
    cdef object found
    for number in range(count):
        if number == 1:
            found = routes.get(PyBytes_FromStringAndSize(text, size))
            if found is not None:
                shared[0] = 0
                return found
        known = families[tail[0] + number]
        if known:
            found = known.get(PyBytes_FromStringAndSize(text, lengths[number] - 1))
            if found is not None:
                shared[0] = lengths[number]
                tail[0] += number
                return found
    shared[0] = 0
    return routes.get(PyBytes_FromStringAndSize(text, size)) if count < 2 else None


def segment(
    bytes chunk, array.array fields, Py_ssize_t start, Py_ssize_t stop, dict routes, list families
):
    """Return (cut, target): the subjects of messages `start` up to `cut` all map to `target`.

    See `pure.segment`. A subject that equals the one before it, or is of the same family,
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
    if len(families) <= TAIL_TOKENS:
        raise ValueError("families are by number of tokens")
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
        found = _find(text, size, routes, families, &shared, &tail)
        if found is not target:
            if index > start:
                return index, target
            target = found
        if found is None:
            return start, None
    return max(start, stop), target


cdef inline void _note_beginning(Beginning* beginning, const Text* prefix) noexcept nogil:
    beginning.first[<unsigned char>prefix.start[0]] = True
    if prefix.length > 1:
        beginning.second[<unsigned char>prefix.start[1]] = True
    else:
        memset(beginning.second, True, sizeof(beginning.second))


cdef inline bint _may_begin(const char* text, const Beginning* beginning) noexcept nogil:
    """Tell whether a text, which is part of a chunk, begins as one of the prefixes may do."""
    return (
        beginning.first[<unsigned char>text[0]] and beginning.second[<unsigned char>text[1]]
    )


cdef inline bint _begins(
    const char* text, Py_ssize_t length, const Text* prefixes, Py_ssize_t count
) noexcept nogil:
    """Tell whether a text is longer than one of the prefixes and begins with it."""
    cdef Py_ssize_t at
    for at in range(count):
        if (
            length > prefixes[at].length
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

    See `pure.first_reserved`.
    """
    return _first_reserved(
        PyBytes_AS_STRING(chunk), fields.data.as_ints, start, stop, subjects, replies
    )


def admitted(bytes chunk, array.array fields, tuple subjects, tuple replies):
    """Return how many bytes headers and payloads of all messages have, and how many messages from
    the first on are neither of a reserved kind nor ask for a trace.

    See `pure.admitted`.
    """
    cdef const char* raw = PyBytes_AS_STRING(chunk)
    cdef const int* message = fields.data.as_ints
    cdef Py_ssize_t index, count = len(fields) // WIDTH, untraced = count
    cdef long long total = 0
    for index in range(count):
        total += message[6] - message[4]
        if (
            untraced == count
            and message[4] != message[5]
            and asks_for_trace(raw + message[4], raw + message[5])
        ):
            untraced = index
        message += WIDTH
    return total, _first_reserved(raw, fields.data.as_ints, 0, untraced, subjects, replies)


cdef Py_ssize_t _first_reserved(
    const char* raw,
    const int* fields,
    Py_ssize_t start,
    Py_ssize_t stop,
    tuple subjects,
    tuple replies,
) except -1:
    cdef const int* message = fields + start * WIDTH
    cdef Py_ssize_t index = start, at, subject_count = len(subjects), reply_count = len(replies)
    cdef Text prefixes[PREFIXES_MAX]
    # What the first two characters of a prefix may be; those of other texts hardly ever are. For a
    # few messages it costs less to compare them whole.
    cdef Beginning subject_begins, reply_begins
    cdef bint are_few = stop - start < MANY
    memset(&subject_begins, are_few, sizeof(Beginning))
    memset(&reply_begins, are_few, sizeof(Beginning))
    if subject_count + reply_count > PREFIXES_MAX:
        raise ValueError(f"more than {PREFIXES_MAX} reserved prefixes")
    for at in range(subject_count + reply_count):
        prefix = subjects[at] if at < subject_count else replies[at - subject_count]
        if type(prefix) is not bytes or not prefix:
            raise ValueError("a reserved prefix is bytes and not empty")
        prefixes[at].start = PyBytes_AS_STRING(prefix)
        prefixes[at].length = PyBytes_GET_SIZE(prefix)
        if not are_few:
            _note_beginning(
                &subject_begins if at < subject_count else &reply_begins, &prefixes[at]
            )
    while index < stop:
        if _may_begin(raw + message[0], &subject_begins) and _begins(
            raw + message[0], message[1] - message[0], prefixes, subject_count
        ):
            break
        if (
            message[2] != message[3]
            and _may_begin(raw + message[2], &reply_begins)
            and _begins(
                raw + message[2],
                message[3] - message[2],
                prefixes + subject_count,
                reply_count,
            )
        ):
            break
        index += 1
        message += WIDTH
    return index
