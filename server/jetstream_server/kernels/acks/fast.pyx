# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The compiled twin of `pure.py`: same functions, same answers; the reasons are given there.

What looks at the messages of one chunk keeps the GIL, as it takes less time than another thread
needs to wake up for it.
"""

from cpython cimport array
from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memchr, memcmp

from jetstream_server.kernels.digits cimport digit_count, put_bytes, put_number, u64

cdef enum:
    WIDTH = 7  # the STRIDE of `protocol/ops.py`
    ACK_TOKENS = 9
    SEQUENCE_TOKEN = 5
    SEQUENCE_DIGITS_MAX = 19


def reply_run(bytes chunk, array.array fields, Py_ssize_t start, Py_ssize_t stop):
    """Return (cut, reply, exact) for the stretch of messages from `start` answered alike.

    See `pure.reply_run`.
    """
    cdef const char* raw = PyBytes_AS_STRING(chunk)
    cdef const int* m = fields.data.as_ints + start * WIDTH
    cdef const char* reply = raw + m[2]
    cdef Py_ssize_t length = m[3] - m[2]
    cdef Py_ssize_t cut = start + 1
    cdef Py_ssize_t head = length  # bytes up to and with the last dot
    cdef Py_ssize_t held
    cdef bint exact = True
    m += WIDTH
    while cut < stop and m[3] - m[2] == length and memcmp(raw + m[2], reply, length) == 0:
        cut += 1
        m += WIDTH
    while head > 0 and reply[head - 1] != c".":
        head -= 1
    if cut == start + 1 and head > 1 and head < length:
        while cut < stop:
            held = m[3] - m[2]
            if (
                held <= head
                or memcmp(raw + m[2], reply, head) != 0
                or memchr(raw + m[2] + head, c".", held - head) != NULL
            ):
                break
            exact = False
            cut += 1
            m += WIDTH
    return cut, PyBytes_FromStringAndSize(reply, length if exact else head - 1), exact


def encode_pub_acks(
    bytes chunk,
    array.array fields,
    Py_ssize_t start,
    Py_ssize_t stop,
    bytes sid,
    bytes head,
    u64 first_seq,
):
    """Return one `MSG <reply> <sid> <n>` frame a message with `<head><sequence>}` as its payload,
    and how many bytes the payloads have.

    See `pure.encode_pub_acks`.
    """
    cdef const char* raw = PyBytes_AS_STRING(chunk)
    cdef const int* columns = fields.data.as_ints
    cdef const int* m
    cdef const char* sid_text = PyBytes_AS_STRING(sid)
    cdef const char* head_text = PyBytes_AS_STRING(head)
    cdef Py_ssize_t sid_bytes = PyBytes_GET_SIZE(sid)
    cdef Py_ssize_t head_bytes = PyBytes_GET_SIZE(head)
    cdef Py_ssize_t index, content, total = 0, room = 0
    cdef u64 sequence = first_seq
    cdef char* at
    for index in range(start, stop):
        m = columns + index * WIDTH
        content = head_bytes + digit_count(sequence) + 1
        room += 4 + (m[3] - m[2]) + 1 + sid_bytes + 1 + digit_count(content) + 2 + content + 2
        total += content
        sequence += 1
    cdef bytes frames = PyBytes_FromStringAndSize(NULL, room)
    at = PyBytes_AS_STRING(frames)
    sequence = first_seq
    for index in range(start, stop):
        m = columns + index * WIDTH
        at = put_bytes(at, b"MSG ", 4)
        at = put_bytes(at, raw + m[2], m[3] - m[2])
        at = put_bytes(at, b" ", 1)
        at = put_bytes(at, sid_text, sid_bytes)
        at = put_bytes(at, b" ", 1)
        at = put_number(at, head_bytes + digit_count(sequence) + 1)
        at = put_bytes(at, b"\r\n", 2)
        at = put_bytes(at, head_text, head_bytes)
        at = put_number(at, sequence)
        at = put_bytes(at, b"}\r\n", 3)
        sequence += 1
    return frames, total


cdef u64 _sequence(const char* subject, Py_ssize_t length) noexcept nogil:
    """Return the stream sequence of an ack subject of nine tokens, 0 when it is not one."""
    cdef const char* end = subject + length
    cdef const char* dot
    cdef const char* at
    cdef int token = 2
    cdef u64 sequence = 0
    if length < 8 or memcmp(subject, b"$JS.ACK.", 8) != 0:
        return 0
    subject += 8
    while True:
        dot = <const char*>memchr(subject, c".", end - subject) if subject < end else NULL
        at = subject
        subject = dot if dot != NULL else end
        if subject == at:
            return 0
        if token == SEQUENCE_TOKEN:
            if subject - at > SEQUENCE_DIGITS_MAX:
                return 0
            while at < subject:
                if not c"0" <= at[0] <= c"9":
                    return 0
                sequence = sequence * 10 + <u64>(at[0] - c"0")
                at += 1
        token += 1
        if dot == NULL:
            return sequence if token == ACK_TOKENS else 0
        subject += 1


cdef inline bint _is_plain(const char* body, Py_ssize_t length) noexcept nogil:
    if length == 0:
        return True
    if length == 4:
        return memcmp(body, b"+ACK", 4) == 0
    return length == 3 and memcmp(body, b"+OK", 3) == 0


def take_plain_acks(
    bytes chunk, array.array fields, Py_ssize_t start, Py_ssize_t stop, array.array sequences
):
    """Append the stream sequences of plain acks; return the first message that is anything else.

    See `pure.take_plain_acks`.
    """
    cdef const char* raw = PyBytes_AS_STRING(chunk)
    cdef const int* columns = fields.data.as_ints
    cdef const int* m
    cdef Py_ssize_t before = len(sequences)
    cdef Py_ssize_t index = start
    cdef u64 sequence
    cdef u64* found
    if stop <= start:
        return start
    array.resize_smart(sequences, before + stop - start)
    found = <u64*>sequences.data.as_ulonglongs + before
    with nogil:
        while index < stop:
            m = columns + index * WIDTH
            if m[2] != m[3] or not _is_plain(raw + m[5], m[6] - m[5]):
                break
            sequence = _sequence(raw + m[0], m[1] - m[0])
            if sequence == 0:
                break
            found[index - start] = sequence
            index += 1
    array.resize_smart(sequences, before + index - start)
    return index


def settle(
    array.array sequences, bytearray live, array.array given, Py_ssize_t start, array.array taken
):
    """Clear the flags of given sequences in a run of pending ones; return where it ends.

    See `pure.settle`. Where the run has no gaps, the place is computed, else searched.
    """
    cdef const u64* run = <const u64*>sequences.data.as_ulonglongs
    cdef const u64* wanted = <const u64*>given.data.as_ulonglongs
    cdef char* flags = PyByteArray_AS_STRING(live)
    cdef Py_ssize_t length = len(sequences), stop = len(given), index = start
    cdef Py_ssize_t place = 0, high, middle, found = 0
    cdef u64 first = run[0], last = run[length - 1], sequence
    cdef bint has_gaps = last - first + 1 != <u64>length
    cdef array.array hits
    if start >= stop:
        return start
    hits = array.clone(taken, stop - start, False)
    cdef u64* out = <u64*>hits.data.as_ulonglongs
    with nogil:
        while index < stop:
            sequence = wanted[index]
            if sequence > last:
                break
            index += 1
            if sequence < first:
                continue
            if has_gaps:
                high = length
                while place < high:
                    middle = (place + high) // 2
                    if run[middle] < sequence:
                        place = middle + 1
                    else:
                        high = middle
                if run[place] != sequence:
                    continue
            else:
                place = <Py_ssize_t>(sequence - first)
            if flags[place]:
                flags[place] = 0
                out[found] = sequence
                found += 1
    array.resize(hits, found)
    array.extend(taken, hits)
    return index


def flagged(array.array words, bytearray flags, Py_ssize_t start, Py_ssize_t stop):
    """Return those of a stretch whose flags are set.

    See `pure.flagged`.
    """
    cdef const u64* word = <const u64*>words.data.as_ulonglongs
    cdef const char* flag = PyByteArray_AS_STRING(flags)
    cdef Py_ssize_t index, count = 0
    if words.ob_descr.typecode != c"Q":  # what has fewer bytes would be read beyond its end
        raise TypeError(f"an array of {chr(words.ob_descr.typecode)!r}, not of 'Q'")
    stop = min(stop, len(words), len(flags))
    cdef array.array found = array.clone(words, max(stop - start, 0), False)
    cdef u64* out = <u64*>found.data.as_ulonglongs
    with nogil:
        for index in range(start, stop):
            # Written in any case, as whether a flag is set cannot be foreseen.
            out[count] = word[index]
            count += flag[index] != 0
    array.resize(found, count)
    return found
