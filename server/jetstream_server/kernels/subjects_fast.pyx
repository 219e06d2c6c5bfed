# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The compiled twin of `subjects_pure`: same functions, same answers; the reasons are told there.

Loops that only look at bytes run without the GIL.
"""

from cpython cimport array
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memcmp

cdef enum:
    WIDTH = 7  # the STRIDE of `protocol/ops.py`
    PREFIXES_MAX = 16
    ACK_TOKENS = 9
    ACK_TAIL_TOKENS = 5

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
