# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The compiled twin of `pure.py`: same functions, same answers; the reasons are given there.

It differs in one thing: positions that reach beyond the block raise ValueError or IndexError,
because reading on would not be safe. Long stretches of bytes are copied and summed without the GIL.
"""

from cpython cimport array
from cpython.bytearray cimport (
    PyByteArray_AS_STRING, PyByteArray_FromStringAndSize, PyByteArray_GET_SIZE
)
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.dict cimport PyDict_GetItemWithError
from cpython.object cimport PyObject
from libc.stdint cimport UINT16_MAX, UINT32_MAX, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from jetstream_server.kernels.checksum cimport (
    crc32c_by_cpu, crc32c_by_table, crc32c_has_cpu, crc32c_prepare
)
from jetstream_server.kernels.entries cimport check_optional, check_reach
from jetstream_server.kernels.record_layout cimport (
    CHECKED_FROM, CHECKSUM_AT, HEADER_ACCOUNTED_BYTES, HEADER_BYTES_AT, KIND_AT, PREFIX_BYTES,
    SEQUENCE_AT, SUBJECT_BYTES_AT, TIMESTAMP_AT, UNACCOUNTED_BYTES
)

ctypedef uint32_t (*Checksum)(const uint8_t* at, size_t size, uint32_t before) noexcept nogil

crc32c_prepare()
cdef Checksum crc32c = <Checksum>(crc32c_by_cpu if crc32c_has_cpu() else crc32c_by_table)

cdef enum:
    STRIDE = 7  # of `PubRun.fields`
    # Subjects remembered within one call: looking one up costs a bytes object and a hash.
    RECENT = 64
    # Less is encoded and summed with the GIL: to take it back can mean to wait for another thread.
    WITHOUT_GIL_BYTES = 65536


cdef struct Recent:
    const char* subject
    Py_ssize_t size
    uint32_t number


cdef class _Interner:
    """Numbers of subjects, asking the dictionaries only for those not met a moment ago."""

    cdef list names
    cdef list parts
    cdef Py_ssize_t last_part
    cdef Recent recent[RECENT]

    def __cinit__(self, interned):
        self.names = interned.names
        self.parts = interned.parts
        self.last_part = len(self.parts) - 1
        memset(self.recent, 0, sizeof(self.recent))

    cdef uint32_t number(self, const char* subject, Py_ssize_t size) except? 0xFFFFFFFF:
        cdef uint32_t spread = <uint32_t>size * 31
        if size:
            spread += <uint8_t>subject[size - 1] + 7 * <uint8_t>subject[size // 2]
            if size > 2:
                spread += 17 * <uint8_t>subject[size - 2] + 3 * <uint8_t>subject[size - 3]
        cdef Recent* slot = &self.recent[spread % RECENT]
        if slot.subject != NULL and slot.size == size and memcmp(slot.subject, subject, size) == 0:
            return slot.number
        cdef bytes name = PyBytes_FromStringAndSize(subject, size)
        cdef dict part = self.parts[hash(name) & self.last_part if self.last_part else 0]
        cdef PyObject* found = PyDict_GetItemWithError(part, name)
        slot.subject = NULL
        if found is NULL:
            slot.number = <uint32_t>len(self.names)
            self.names.append(name)
            part[name] = slot.number
        else:
            slot.number = <object>found
        slot.subject, slot.size = subject, size
        return slot.number


def unwritten(Py_ssize_t size):
    """Return a `bytearray` of any content; memory comes from the system as it is written to."""
    if size < 0:
        raise ValueError("a negative size")
    return PyByteArray_FromStringAndSize(NULL, size)


cdef void _encode(
    const char* source,
    const int32_t* field,
    Py_ssize_t count,
    uint64_t sequence,
    int64_t timestamp,
    char* base,
    const unsigned int* positions,
) noexcept nogil:
    """Write `count` records, each at its position."""
    cdef Py_ssize_t index, subject_bytes, body_bytes
    cdef uint32_t size, wide
    cdef uint16_t narrow
    cdef char* at
    for index in range(count):
        subject_bytes = field[1] - field[0]
        body_bytes = field[6] - field[4]
        size = <uint32_t>(PREFIX_BYTES + subject_bytes + body_bytes)
        at = base + positions[index]
        memcpy(at, &size, 4)
        memcpy(at + SEQUENCE_AT, &sequence, 8)
        memcpy(at + TIMESTAMP_AT, &timestamp, 8)
        wide = <uint32_t>(field[5] - field[4])
        memcpy(at + HEADER_BYTES_AT, &wide, 4)
        narrow = <uint16_t>subject_bytes
        memcpy(at + SUBJECT_BYTES_AT, &narrow, 2)
        memset(at + KIND_AT, 0, 2)
        memcpy(at + PREFIX_BYTES, source + field[0], subject_bytes)
        memcpy(at + PREFIX_BYTES + subject_bytes, source + field[4], body_bytes)
        wide = crc32c(<const uint8_t*>at + CHECKED_FROM, size - CHECKED_FROM, 0)
        memcpy(at + CHECKSUM_AT, &wide, 4)
        sequence += 1
        field += STRIDE


def encode_run(
    bytes chunk not None,
    array.array fields not None,
    Py_ssize_t start,
    Py_ssize_t stop,
    uint64_t first_seq,
    int64_t timestamp,
    bytearray buffer not None,
    Py_ssize_t used,
    array.array positions not None,
    array.array subject_ids not None,
    interned not None,
):
    cdef const char* source = PyBytes_AS_STRING(chunk)
    cdef char* base = PyByteArray_AS_STRING(buffer)
    cdef Py_ssize_t room = PyByteArray_GET_SIZE(buffer)
    cdef const int32_t* first
    cdef const int32_t* field
    cdef const unsigned int* placed
    cdef Py_ssize_t index = start, entries = len(positions), before = used, size
    cdef _Interner interner = _Interner(interned)
    if stop <= start:
        return start, used
    if stop * STRIDE > len(fields) or len(subject_ids) != entries:
        raise IndexError("fields or subject ids do not fit")
    field = first = <const int32_t*>fields.data.as_ints + start * STRIDE
    for index in range(start, stop):
        if field[1] - field[0] > UINT16_MAX:
            raise ValueError("a subject is too long for a record")
        field += STRIDE
    index, field = start, first
    array.resize_smart(positions, entries + stop - start)
    array.resize_smart(subject_ids, entries + stop - start)
    while index < stop:
        size = PREFIX_BYTES + (field[1] - field[0]) + (field[6] - field[4])
        if used + size > room:
            break
        positions.data.as_uints[entries] = <unsigned int>used
        subject_ids.data.as_uints[entries] = interner.number(
            source + field[0], field[1] - field[0]
        )
        entries += 1
        used += size
        index += 1
        field += STRIDE
    array.resize_smart(positions, entries)
    array.resize_smart(subject_ids, entries)
    placed = positions.data.as_uints + entries - (index - start)
    if used - before < WITHOUT_GIL_BYTES:
        _encode(source, first, index - start, first_seq, timestamp, base, placed)
    else:
        with nogil:
            _encode(source, first, index - start, first_seq, timestamp, base, placed)
    return index, used


def count_headed(array.array fields not None, Py_ssize_t start, Py_ssize_t stop):
    """Return how many messages have headers; see `pure.count_headed`."""
    cdef Py_ssize_t index, headed = 0
    cdef const int32_t* field
    if start < 0:
        raise IndexError("messages are counted from 0")
    check_reach(stop * STRIDE, len(fields))
    field = <const int32_t*>fields.data.as_ints + start * STRIDE
    for index in range(start, stop):
        headed += field[4] != field[5]
        field += STRIDE
    return headed


def scan_records(
    const uint8_t[::1] buffer,
    Py_ssize_t start,
    Py_ssize_t stop,
    array.array positions not None,
    array.array subject_ids not None,
    array.array sequences not None,
    interned not None,
):
    cdef Py_ssize_t position = start
    cdef uint32_t size, checksum, header_bytes, number
    cdef uint16_t subject_bytes, kind
    cdef uint64_t sequence, first = 0, last = 0
    cdef bint follows = len(sequences) > 0
    cdef const uint8_t* at
    cdef _Interner interner = _Interner(interned)
    if follows:
        first, last = sequences[0], sequences[len(sequences) - 1]
    stop = min(stop, buffer.shape[0])
    while position + PREFIX_BYTES <= stop:
        at = &buffer[position]
        memcpy(&size, at, 4)
        memcpy(&checksum, at + CHECKSUM_AT, 4)
        memcpy(&sequence, at + SEQUENCE_AT, 8)
        memcpy(&header_bytes, at + HEADER_BYTES_AT, 4)
        memcpy(&subject_bytes, at + SUBJECT_BYTES_AT, 2)
        memcpy(&kind, at + KIND_AT, 2)
        if (
            kind != 0
            or <uint64_t>size < <uint64_t>PREFIX_BYTES + subject_bytes + header_bytes
            or <uint64_t>position + size > <uint64_t>stop
            or crc32c(at + CHECKED_FROM, size - CHECKED_FROM, 0) != checksum
            or (follows and (sequence <= last or sequence - first > UINT32_MAX))
        ):
            break
        if not follows:
            first, follows = sequence, True
        last = sequence
        number = interner.number(<const char*>at + PREFIX_BYTES, subject_bytes)
        array.resize_smart(positions, len(positions) + 1)
        positions.data.as_uints[len(positions) - 1] = <unsigned int>position
        array.resize_smart(subject_ids, len(subject_ids) + 1)
        subject_ids.data.as_uints[len(subject_ids) - 1] = number
        array.resize_smart(sequences, len(sequences) + 1)
        sequences.data.as_ulonglongs[len(sequences) - 1] = sequence
        position += size
    return position


def measure(
    const uint8_t[::1] buffer,
    const unsigned int[::1] positions,
    const uint8_t[::1] alive,
    Py_ssize_t start,
    Py_ssize_t stop,
    int64_t messages_max,
    int64_t bytes_max,
    int64_t expired_at,
):
    cdef Py_ssize_t index, room = buffer.shape[0] - PREFIX_BYTES
    cdef int64_t messages = 0, accounted = 0, recorded = 0, timestamp
    cdef uint32_t size, header_bytes
    cdef const uint8_t* at
    cdef bint some = alive.shape[0] > 0
    check_reach(stop, positions.shape[0])
    if some:
        check_reach(stop, alive.shape[0])
    for index in range(start, stop):
        if some and not alive[index]:
            continue
        if <int64_t>positions[index] > room:
            raise ValueError("a record reaches beyond its block")
        at = &buffer[positions[index]]
        memcpy(&size, at, 4)
        memcpy(&timestamp, at + TIMESTAMP_AT, 8)
        memcpy(&header_bytes, at + HEADER_BYTES_AT, 4)
        if messages >= messages_max and accounted >= bytes_max and timestamp > expired_at:
            return index, messages, accounted, recorded
        messages += 1
        accounted += <int64_t>size - UNACCOUNTED_BYTES
        if header_bytes:
            accounted += HEADER_ACCOUNTED_BYTES
        recorded += size
    return stop, messages, accounted, recorded


def gather(
    const uint8_t[::1] buffer,
    const unsigned int[::1] positions,
    const unsigned int[::1] subject_ids,
    const uint8_t[::1] alive,
    Py_ssize_t start,
    Py_ssize_t stop,
    uint64_t first_seq,
    const unsigned int[::1] offsets,
    bytearray target not None,
    Py_ssize_t used,
    array.array out_positions not None,
    array.array out_ids not None,
    array.array out_sequences not None,
):
    cdef Py_ssize_t index, end = buffer.shape[0], space = PyByteArray_GET_SIZE(target)
    cdef Py_ssize_t entry = len(out_positions)
    cdef uint32_t size
    cdef uint64_t position
    cdef char* base = PyByteArray_AS_STRING(target)
    cdef bint some = alive.shape[0] > 0, sparse = offsets.shape[0] > 0
    check_reach(stop, positions.shape[0])
    check_reach(stop, subject_ids.shape[0])
    check_optional(stop, alive.shape[0], offsets.shape[0])
    if len(out_ids) != entry or len(out_sequences) != entry:
        raise IndexError("columns of different lengths")
    if stop > start:
        array.resize_smart(out_positions, entry + stop - start)
        array.resize_smart(out_ids, entry + stop - start)
        array.resize_smart(out_sequences, entry + stop - start)
    try:
        with nogil:
            for index in range(start, stop):
                if some and not alive[index]:
                    continue
                position = positions[index]
                if <int64_t>position > end - PREFIX_BYTES:
                    with gil:
                        raise ValueError("a record reaches beyond its block")
                memcpy(&size, &buffer[position], 4)
                if <int64_t>(position + size) > end:
                    with gil:
                        raise ValueError("a record reaches beyond its block")
                if used + <Py_ssize_t>size > space:
                    with gil:
                        raise IndexError("no room for the living")
                memcpy(base + used, &buffer[position], size)
                out_positions.data.as_uints[entry] = <unsigned int>used
                out_ids.data.as_uints[entry] = subject_ids[index]
                out_sequences.data.as_ulonglongs[entry] = first_seq + (
                    offsets[index] if sparse else <uint64_t>index
                )
                entry += 1
                used += size
        return used
    finally:
        array.resize(out_positions, entry)
        array.resize(out_ids, entry)
        array.resize(out_sequences, entry)


def checksum(const uint8_t[::1] data, uint32_t before=0, *, bint by_table=False):
    """Return the CRC-32C; `by_table` is for the test, which holds both ways against each other."""
    cdef Py_ssize_t size = data.shape[0]
    cdef const uint8_t* at = &data[0] if size else NULL
    cdef uint32_t sum
    if by_table:
        return crc32c_by_table(at, size, before)
    if size < WITHOUT_GIL_BYTES:
        return crc32c(at, size, before)
    with nogil:
        sum = crc32c(at, size, before)
    return sum
