# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The compiled twin of `pure.py`: same function, same answers; the reasons are given there.

The scan runs without the GIL.
"""

import numpy as np

from cpython cimport array
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.string cimport memchr, memcmp

from array import array as new_array

cdef enum:
    ROW_WIDTH = 10  # ROW_DIGITS of `arrow_to_wire`
    SEQUENCE_WIDTH = 18  # SEQUENCE_DIGITS of `pure`
    RUN = 1024  # acks between two looks at the GIL


cdef struct Expected:
    const char* prefix
    Py_ssize_t prefix_bytes
    const char* head
    Py_ssize_t head_bytes


cdef const char* _take(
    const char* at, const char* stop, const Expected* expected, long long* row, long long* sequence
) noexcept nogil:
    """Read the plain ack at `at`; return where it ends, NULL when there is none."""
    cdef const char* line_end = <const char*>memchr(at, c"\n", stop - at)
    cdef const char* end
    cdef const char* first
    cdef long long number = 0, stored = 0
    cdef int digit, place
    if line_end == NULL or line_end - at < 4 + expected.prefix_bytes + ROW_WIDTH:
        return NULL
    if memcmp(at, b"MSG ", 4) != 0:
        return NULL
    at += 4
    if memcmp(at, expected.prefix, expected.prefix_bytes) != 0:
        return NULL
    at += expected.prefix_bytes
    for place in range(ROW_WIDTH):
        digit = at[place] - c"0"
        if digit < 0 or digit > 9:
            return NULL
        number = number * 10 + digit
    at = line_end + 1
    end = <const char*>memchr(at, c"\n", stop - at)
    if end == NULL or end - at <= expected.head_bytes + 2:
        return NULL
    if memcmp(at, expected.head, expected.head_bytes) != 0:
        return NULL
    at += expected.head_bytes
    first = at
    while c"0" <= at[0] <= c"9" and at - first < SEQUENCE_WIDTH:
        stored = stored * 10 + (at[0] - c"0")
        at += 1
    if at == first or at + 2 != end or at[0] != c"}" or at[1] != c"\r":
        return NULL
    row[0] = number
    sequence[0] = stored
    return end + 1


def take_pub_acks(data, Py_ssize_t start, Py_ssize_t stop, bytes reply_prefix, bytes ack_head):
    """Return the rows and the sequences of the plain acks from `start` on, and the position after
    the last of them.

    See `pure.take_pub_acks`.
    """
    cdef Expected expected
    cdef array.array rows = new_array("q")
    cdef array.array sequences = new_array("q")
    cdef Py_ssize_t known = 0, count = RUN
    cdef const char* at
    cdef const char* after
    cdef const char* end
    cdef long long* found
    cdef long long* stored
    cdef Py_buffer view
    expected.prefix = PyBytes_AS_STRING(reply_prefix)
    expected.prefix_bytes = PyBytes_GET_SIZE(reply_prefix)
    expected.head = PyBytes_AS_STRING(ack_head)
    expected.head_bytes = PyBytes_GET_SIZE(ack_head)
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        stop = min(stop, view.len)
        if not 0 <= start <= stop:
            return _numbers(rows), _numbers(sequences), start
        at = <const char*>view.buf + start
        end = <const char*>view.buf + stop
        while count == RUN:
            array.resize_smart(rows, known + RUN)
            array.resize_smart(sequences, known + RUN)
            found = rows.data.as_longlongs + known
            stored = sequences.data.as_longlongs + known
            with nogil:
                count = 0
                while count < RUN:
                    after = _take(at, end, &expected, found + count, stored + count)
                    if after == NULL:
                        break
                    at = after
                    count += 1
            known += count
        start = at - <const char*>view.buf
    finally:
        PyBuffer_Release(&view)
    array.resize_smart(rows, known)
    array.resize_smart(sequences, known)
    return _numbers(rows), _numbers(sequences), start


cdef _numbers(array.array found):
    return np.frombuffer(found, dtype=np.int64)
