# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The compiled twin of `pure.py`: same functions, same answers; the reasons are given there.

It differs in one thing: a record that reaches beyond its buffer raises ValueError, because reading
on would not be safe.
"""

from cpython cimport array
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdlib cimport free, malloc
from libc.string cimport memchr, memcmp

from jetstream_server.kernels.digits cimport digit_count, put_bytes, u64
from jetstream_server.kernels.frame_parts cimport (
    put_kept,
    put_payload,
    put_sizes,
    put_stored_lines,
    stored_lines_bytes,
)
from jetstream_server.kernels.moments cimport Moment
from jetstream_server.kernels.record_layout cimport Record, kept_bytes, read_record

cdef enum:
    STRIDE = 7
    DIGITS_MAX = 18

cdef array.array _SEQUENCES = array.array("Q")


cdef struct Answer:
    Record record
    const char* reply
    Py_ssize_t reply_bytes
    Py_ssize_t block_bytes
    u64 sequence


cdef inline const char* _past_space(const char* at, const char* end) noexcept nogil:
    while at < end and (at[0] == c" " or at[0] == c"\t" or at[0] == c"\r" or at[0] == c"\n"):
        at += 1
    return at


cdef u64 _sequence(const char* at, const char* end) noexcept nogil:
    """Return N of `{"seq":N}`, 0 when it is something else."""
    cdef u64 number = 0
    cdef int digits = 0
    at = _past_space(at, end)
    if at == end or at[0] != c"{":
        return 0
    at = _past_space(at + 1, end)
    if end - at < 5 or memcmp(at, b'"seq"', 5) != 0:
        return 0
    at = _past_space(at + 5, end)
    if at == end or at[0] != c":":
        return 0
    at = _past_space(at + 1, end)
    if at == end or at[0] == c"0":
        return 0
    while at < end and c"0" <= at[0] <= c"9":
        number = number * 10 + <u64>(at[0] - 48)
        digits += 1
        if digits > DIGITS_MAX:
            return 0
        at += 1
    at = _past_space(at, end)
    if at == end or at[0] != c"}" or _past_space(at + 1, end) != end:
        return 0
    return number


cdef inline const int* _fields(array.array fields, Py_ssize_t start, Py_ssize_t stop) except? NULL:
    """Return the fields of message `start`, when all up to `stop` are there."""
    if fields.itemsize != sizeof(int):
        raise TypeError("fields are an array of 'i'")
    if start < 0 or stop * STRIDE > len(fields):
        raise ValueError("more messages than the run has")
    return fields.data.as_ints + start * STRIDE


cdef inline bint _is_inside(const int* field, Py_ssize_t chunk_bytes) noexcept nogil:
    """Tell whether a message's positions rise and stay in the chunk."""
    cdef int at
    for at in range(STRIDE - 1):
        if field[at] > field[at + 1]:
            return False
    return field[0] >= 0 and field[STRIDE - 1] <= chunk_bytes


def sequences_asked(
    bytes chunk, array.array fields, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t address_bytes
):
    """Return the sequences that the first requests ask for.

    See `pure.sequences_asked`.
    """
    cdef const char* base = PyBytes_AS_STRING(chunk)
    cdef const int* field = _fields(fields, start, stop)
    cdef array.array asked = array.clone(_SEQUENCES, max(stop - start, 0), zero=False)
    cdef Py_ssize_t count = 0
    cdef u64 sequence
    while count < stop - start:
        if not _is_inside(field, PyBytes_GET_SIZE(chunk)):
            raise ValueError("a message reaches beyond its chunk")
        if field[4] != field[5] or field[1] - field[0] != address_bytes:
            break
        sequence = _sequence(base + field[5], base + field[6])
        if not sequence:
            break
        asked.data.as_ulonglongs[count] = sequence
        count += 1
        field += STRIDE
    array.resize(asked, count)
    return asked


def subjects_asked(
    bytes chunk, array.array fields, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t address_bytes
):
    """Return the subjects that the first requests carry.

    See `pure.subjects_asked`.
    """
    cdef const char* base = PyBytes_AS_STRING(chunk)
    cdef const int* field = _fields(fields, start, stop)
    cdef const char* subject
    cdef Py_ssize_t number, size
    cdef list asked = []
    for number in range(stop - start):
        if not _is_inside(field, PyBytes_GET_SIZE(chunk)):
            raise ValueError("a message reaches beyond its chunk")
        size = field[1] - field[0] - address_bytes - 1
        if field[4] != field[6] or size < 1:
            break
        subject = base + field[0] + address_bytes + 1
        if memchr(subject, c"*", size) != NULL or memchr(subject, c">", size) != NULL:
            break
        asked.append(PyBytes_FromStringAndSize(subject, size))
        field += STRIDE
    return asked


cdef inline Py_ssize_t _block_bytes(const Answer* answer, Py_ssize_t stream_bytes) noexcept nogil:
    """Return the bytes of the header block as it is sent."""
    cdef const Record* record = &answer.record
    return kept_bytes(record) + stored_lines_bytes(stream_bytes, record, answer.sequence) + 4


cdef Py_ssize_t _frame_bytes(const Answer* answer, Py_ssize_t sid_bytes) noexcept nogil:
    cdef Py_ssize_t size = answer.block_bytes + answer.record.payload_bytes
    return (
        5 + answer.reply_bytes + 1 + sid_bytes + 1 + digit_count(answer.block_bytes) + 1
        + digit_count(size) + 2 + size + 2
    )


cdef char* _put_frame(
    char* at,
    const Answer* answer,
    const char* sid,
    Py_ssize_t sid_bytes,
    const char* stream,
    Py_ssize_t stream_bytes,
    Moment* moment,
) noexcept nogil:
    cdef const Record* record = &answer.record
    at = put_bytes(at, b"HMSG ", 5)
    at = put_bytes(at, answer.reply, answer.reply_bytes)
    at = put_bytes(at, b" ", 1)
    at = put_bytes(at, sid, sid_bytes)
    at = put_sizes(at, answer.block_bytes, record.payload_bytes)
    at = put_kept(at, record)
    at = put_stored_lines(at, stream, stream_bytes, record, answer.sequence, moment)
    at = put_bytes(at, b"\r\n\r\n", 4)
    return put_payload(at, record, record.payload_bytes)


def encode_found(
    list buffers,
    array.array positions,
    array.array sequences,
    Py_ssize_t first,
    bytes chunk,
    array.array fields,
    Py_ssize_t start,
    bytes sid,
    bytes stream,
):
    """Return frames that answer with records, and how many.

    See `pure.encode_found`.
    """
    cdef Py_ssize_t count = len(sequences) - first
    cdef Py_ssize_t taken = 0, held = 0, room = 0, number
    cdef Py_ssize_t sid_bytes = PyBytes_GET_SIZE(sid), stream_bytes = PyBytes_GET_SIZE(stream)
    cdef const int* field = _fields(fields, start, start + count)
    cdef Py_buffer* views
    cdef Answer* answers
    cdef Answer* answer
    cdef Moment moment
    cdef bytes frames
    cdef char* at
    cdef object buffer, before = None
    if sequences.itemsize != sizeof(u64) or positions.itemsize != sizeof(u64):
        raise TypeError("sequences and positions are arrays of 'Q'")
    if not 0 <= first <= len(sequences) or len(buffers) != len(sequences) or len(positions) != len(sequences):
        raise ValueError("as many buffers and positions as sequences")
    views = <Py_buffer*>malloc(count * sizeof(Py_buffer) + 1)
    answers = <Answer*>malloc(count * sizeof(Answer) + 1)
    try:
        if views == NULL or answers == NULL:
            raise MemoryError
        while taken < count:
            number = first + taken
            buffer = buffers[number]
            if buffer is None:
                break
            if buffer is not before:  # neighbours mostly share their block
                PyObject_GetBuffer(buffer, &views[held], PyBUF_SIMPLE)
                held, before = held + 1, buffer
            answer = &answers[taken]
            if not read_record(
                <const char*>views[held - 1].buf,
                views[held - 1].len,
                positions.data.as_ulonglongs[number],
                &answer.record,
            ):
                raise ValueError("a record reaches beyond its block")
            if not _is_inside(field, PyBytes_GET_SIZE(chunk)):
                raise ValueError("a message reaches beyond its chunk")
            answer.reply = PyBytes_AS_STRING(chunk) + field[2]
            answer.reply_bytes = field[3] - field[2]
            answer.sequence = sequences.data.as_ulonglongs[number]
            answer.block_bytes = _block_bytes(answer, stream_bytes)
            room += _frame_bytes(answer, sid_bytes)
            taken += 1
            field += STRIDE
        frames = PyBytes_FromStringAndSize(NULL, room)
        at = PyBytes_AS_STRING(frames)
        moment.is_known = False
        for number in range(taken):
            at = _put_frame(
                at,
                &answers[number],
                PyBytes_AS_STRING(sid),
                sid_bytes,
                PyBytes_AS_STRING(stream),
                stream_bytes,
                &moment,
            )
        return frames, taken
    finally:
        for number in range(held):
            PyBuffer_Release(&views[number])
        free(views)
        free(answers)
