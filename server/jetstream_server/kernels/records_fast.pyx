# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The compiled twin of `records_pure`: same functions, same answers; the reasons are told there.

It differs in one thing: positions or subject ids that reach beyond what they point into raise
ValueError or IndexError, because reading on would not be safe.
"""

import sys

from cpython cimport array
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy, memset

import array

if sys.byteorder != "little":
    raise ImportError("the compiled kernel writes little-endian records; the pure one writes any")

from jetstream_server.kernels.checksum cimport (
    crc32c_by_cpu, crc32c_by_table, crc32c_has_cpu, crc32c_prepare
)

ctypedef uint32_t (*Checksum)(const uint8_t* at, size_t size) noexcept nogil

crc32c_prepare()
cdef Checksum crc32c = <Checksum>(crc32c_by_cpu if crc32c_has_cpu() else crc32c_by_table)

cdef enum:
    # Columns of PubRun.fields.
    STRIDE = 7
    # Offsets in `record_format.PREFIX`.
    CHECKSUM_AT = 4
    CHECKED_FROM = 8
    SEQUENCE_AT = 8
    TIMESTAMP_AT = 16
    HEADER_BYTES_AT = 24
    SUBJECT_BYTES_AT = 28
    KIND_AT = 30
    PREFIX_BYTES = 32
    # Accounting, see `records_pure`.
    UNACCOUNTED_BYTES = 2
    HEADER_ACCOUNTED_BYTES = 4
    # Subjects remembered within one call: looking one up costs a bytes object and a hash.
    RECENT = 64


cdef struct Recent:
    const char* subject
    Py_ssize_t size
    uint32_t number


cdef class _Interner:
    """Numbers of subjects, asking the dictionary only for those not met a moment ago."""

    cdef dict interned
    cdef Recent recent[RECENT]

    def __cinit__(self, dict interned):
        self.interned = interned
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
        key = PyBytes_FromStringAndSize(subject, size)
        found = self.interned.get(key)
        if found is None:
            found = len(self.interned)
            self.interned[key] = found
        slot.subject, slot.size, slot.number = subject, size, found
        return slot.number


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
    dict interned not None,
):
    cdef const char* source = PyBytes_AS_STRING(chunk)
    cdef char* base = PyByteArray_AS_STRING(buffer)
    cdef Py_ssize_t room = PyByteArray_GET_SIZE(buffer)
    cdef const int32_t* field
    cdef Py_ssize_t index = start, entries = len(positions), size, subject_bytes, body_bytes
    cdef uint32_t wide
    cdef uint16_t narrow
    cdef char* at
    cdef _Interner interner = _Interner(interned)
    if stop <= start:
        return start, used
    if stop * STRIDE > len(fields) or len(subject_ids) != entries:
        raise IndexError("fields or subject ids do not fit")
    array.resize_smart(positions, entries + stop - start)
    array.resize_smart(subject_ids, entries + stop - start)
    while index < stop:
        field = <const int32_t*>fields.data.as_ints + index * STRIDE
        subject_bytes = field[1] - field[0]
        body_bytes = field[6] - field[4]
        size = PREFIX_BYTES + subject_bytes + body_bytes
        if used + size > room:
            break
        at = base + used
        positions.data.as_uints[entries] = <unsigned int>used
        subject_ids.data.as_uints[entries] = interner.number(source + field[0], subject_bytes)
        entries += 1
        wide = <uint32_t>size
        memcpy(at, &wide, 4)
        memcpy(at + SEQUENCE_AT, &first_seq, 8)
        memcpy(at + TIMESTAMP_AT, &timestamp, 8)
        wide = <uint32_t>(field[5] - field[4])
        memcpy(at + HEADER_BYTES_AT, &wide, 4)
        narrow = <uint16_t>subject_bytes
        memcpy(at + SUBJECT_BYTES_AT, &narrow, 2)
        memset(at + KIND_AT, 0, 2)
        memcpy(at + PREFIX_BYTES, source + field[0], subject_bytes)
        memcpy(at + PREFIX_BYTES + subject_bytes, source + field[4], body_bytes)
        wide = crc32c(<const uint8_t*>at + CHECKED_FROM, size - CHECKED_FROM)
        memcpy(at + CHECKSUM_AT, &wide, 4)
        first_seq += 1
        used += size
        index += 1
    array.resize_smart(positions, entries)
    array.resize_smart(subject_ids, entries)
    return index, used


def scan_records(
    const uint8_t[::1] buffer,
    Py_ssize_t start,
    Py_ssize_t stop,
    array.array positions not None,
    array.array subject_ids not None,
    array.array sequences not None,
    dict interned not None,
):
    cdef Py_ssize_t position = start
    cdef uint32_t size, checksum, header_bytes, number
    cdef uint16_t subject_bytes, kind
    cdef uint64_t sequence
    cdef const uint8_t* at
    cdef _Interner interner = _Interner(interned)
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
            or crc32c(at + CHECKED_FROM, size - CHECKED_FROM) != checksum
        ):
            break
        number = interner.number(<const char*>at + PREFIX_BYTES, subject_bytes)
        array.resize_smart(positions, len(positions) + 1)
        positions.data.as_uints[len(positions) - 1] = <unsigned int>position
        array.resize_smart(subject_ids, len(subject_ids) + 1)
        subject_ids.data.as_uints[len(subject_ids) - 1] = number
        array.resize_smart(sequences, len(sequences) + 1)
        sequences.data.as_ulonglongs[len(sequences) - 1] = sequence
        position += size
    return position


cdef int _check(Py_ssize_t stop, Py_ssize_t entries) except -1:
    if stop > entries:
        raise IndexError("more entries wanted than there are")
    return 0


def tally(
    const unsigned int[::1] subject_ids,
    Py_ssize_t start,
    Py_ssize_t stop,
    uint64_t first_seq,
    const unsigned int[::1] offsets,
    array.array counts not None,
    array.array firsts not None,
    array.array lasts not None,
):
    cdef Py_ssize_t index, appeared = 0, known = len(counts)
    cdef uint64_t sequence
    cdef unsigned int number
    cdef bint sparse = offsets.shape[0] > 0
    _check(stop, subject_ids.shape[0])
    if sparse:
        _check(stop, offsets.shape[0])
    if len(firsts) < known or len(lasts) < known:
        raise IndexError("counters of different lengths")
    for index in range(start, stop):
        number = subject_ids[index]
        if <Py_ssize_t>number >= known:
            raise IndexError("subject id beyond the counters")
        sequence = first_seq + (offsets[index] if sparse else <uint64_t>index)
        if not counts.data.as_ulonglongs[number]:
            appeared += 1
            firsts.data.as_ulonglongs[number] = sequence
        counts.data.as_ulonglongs[number] += 1
        lasts.data.as_ulonglongs[number] = sequence
    return appeared


def withdraw(
    const unsigned int[::1] subject_ids,
    const uint8_t[::1] alive,
    Py_ssize_t start,
    Py_ssize_t stop,
    const unsigned int[::1] table_ids,
    array.array counts not None,
):
    cdef Py_ssize_t index, emptied = 0, known = len(counts), local = table_ids.shape[0]
    cdef unsigned int number
    cdef bint some = alive.shape[0] > 0
    _check(stop, subject_ids.shape[0])
    if some:
        _check(stop, alive.shape[0])
    for index in range(start, stop):
        if some and not alive[index]:
            continue
        number = subject_ids[index]
        if local:
            if <Py_ssize_t>number >= local:
                raise IndexError("subject id beyond the table")
            number = table_ids[number]
        if <Py_ssize_t>number >= known:
            raise IndexError("subject id beyond the counters")
        counts.data.as_ulonglongs[number] -= 1
        emptied += counts.data.as_ulonglongs[number] == 0
    return emptied


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
    _check(stop, positions.shape[0])
    if some:
        _check(stop, alive.shape[0])
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


def select(
    const uint8_t[::1] buffer,
    const unsigned int[::1] positions,
    const unsigned int[::1] subject_ids,
    const uint8_t[::1] flags,
    const uint8_t[::1] alive,
    Py_ssize_t start,
    Py_ssize_t stop,
    uint64_t first_seq,
    const unsigned int[::1] offsets,
    int64_t count_max,
    int64_t bytes_max,
    array.array out_positions not None,
    array.array out_sequences not None,
    array.array out_sizes not None,
):
    cdef Py_ssize_t index, found = len(out_positions), first = len(out_positions)
    cdef Py_ssize_t room = buffer.shape[0] - PREFIX_BYTES, space, wanted
    cdef int64_t total = 0, size
    cdef uint32_t length
    cdef bint some = alive.shape[0] > 0, chosen = flags.shape[0] > 0
    cdef bint sparse = offsets.shape[0] > 0
    if count_max <= 0 or stop <= start:
        return start if count_max <= 0 else stop
    _check(stop, positions.shape[0])
    _check(stop, subject_ids.shape[0])
    if some:
        _check(stop, alive.shape[0])
    if sparse:
        _check(stop, offsets.shape[0])
    space = min(count_max, <int64_t>(stop - start))
    array.resize(out_positions, first + space)
    array.resize(out_sequences, first + space)
    array.resize(out_sizes, first + space)
    wanted = stop
    for index in range(start, stop):
        if some and not alive[index]:
            continue
        if chosen:
            if subject_ids[index] >= <size_t>flags.shape[0]:
                raise IndexError("subject id beyond the flags")
            if not flags[subject_ids[index]]:
                continue
        if <int64_t>positions[index] > room:
            raise ValueError("a record reaches beyond its block")
        memcpy(&length, &buffer[positions[index]], 4)
        size = <int64_t>length - PREFIX_BYTES
        if found > first and total + size > bytes_max:
            wanted = index
            break
        out_positions.data.as_ulonglongs[found] = positions[index]
        out_sequences.data.as_ulonglongs[found] = first_seq + (
            offsets[index] if sparse else <uint64_t>index
        )
        out_sizes.data.as_ulonglongs[found] = <uint64_t>size
        found += 1
        total += size
        if found - first == count_max:
            wanted = index + 1
            break
    array.resize(out_positions, found)
    array.resize(out_sequences, found)
    array.resize(out_sizes, found)
    return wanted


def count(
    const unsigned int[::1] subject_ids,
    const uint8_t[::1] flags,
    const uint8_t[::1] alive,
    Py_ssize_t start,
    Py_ssize_t stop,
):
    cdef Py_ssize_t index, total = 0
    cdef bint some = alive.shape[0] > 0, chosen = flags.shape[0] > 0
    _check(stop, subject_ids.shape[0])
    if some:
        _check(stop, alive.shape[0])
    if not chosen and not some:
        return max(stop - start, 0)
    for index in range(start, stop):
        if some and not alive[index]:
            continue
        if chosen:
            if subject_ids[index] >= <size_t>flags.shape[0]:
                raise IndexError("subject id beyond the flags")
            total += flags[subject_ids[index]] != 0
        else:
            total += 1
    return total


def find(
    const unsigned int[::1] subject_ids,
    const uint8_t[::1] alive,
    Py_ssize_t start,
    Py_ssize_t stop,
    unsigned int wanted,
):
    cdef Py_ssize_t index
    cdef bint some = alive.shape[0] > 0
    _check(stop, subject_ids.shape[0])
    if some:
        _check(stop, alive.shape[0])
    for index in range(start, stop):
        if subject_ids[index] == wanted and (not some or alive[index]):
            return index
    return stop


def find_last(
    const unsigned int[::1] subject_ids,
    const uint8_t[::1] alive,
    Py_ssize_t start,
    Py_ssize_t stop,
    unsigned int wanted,
):
    cdef Py_ssize_t index
    cdef bint some = alive.shape[0] > 0
    _check(stop, subject_ids.shape[0])
    if some:
        _check(stop, alive.shape[0])
    for index in range(stop - 1, start - 1, -1):
        if subject_ids[index] == wanted and (not some or alive[index]):
            return index
    return -1


def localize(const unsigned int[::1] subject_ids, Py_ssize_t stop, array.array local_ids not None):
    cdef Py_ssize_t index, largest = 0, known = 0, first = len(local_ids)
    cdef uint32_t* numbers
    cdef array.array found = array.array("I")
    _check(stop, subject_ids.shape[0])
    if stop <= 0:
        return found
    for index in range(stop):
        if <Py_ssize_t>subject_ids[index] > largest:
            largest = subject_ids[index]
    numbers = <uint32_t*>malloc((largest + 1) * sizeof(uint32_t))
    if numbers == NULL:
        raise MemoryError
    try:
        memset(numbers, 0xFF, (largest + 1) * sizeof(uint32_t))
        array.resize(local_ids, first + stop)
        for index in range(stop):
            if numbers[subject_ids[index]] == <uint32_t>0xFFFFFFFF:
                numbers[subject_ids[index]] = <uint32_t>known
                known += 1
                array.resize_smart(found, known)
                found.data.as_uints[known - 1] = subject_ids[index]
            local_ids.data.as_uints[first + index] = numbers[subject_ids[index]]
    finally:
        free(numbers)
    return found


def checksum(const uint8_t[::1] data):
    """Return the CRC-32C by both ways, so that a test can hold them against the library's."""
    if not data.shape[0]:
        return crc32c_by_cpu(NULL, 0), crc32c_by_table(NULL, 0)
    return (
        crc32c_by_cpu(&data[0], data.shape[0]) if crc32c_has_cpu() else crc32c_by_table(
            &data[0], data.shape[0]
        ),
        crc32c_by_table(&data[0], data.shape[0]),
    )


def bury(
    const uint8_t[::1] buffer,
    const unsigned int[::1] positions,
    const unsigned int[::1] subject_ids,
    const uint8_t[::1] flags,
    bytearray alive not None,
    Py_ssize_t start,
    Py_ssize_t stop,
    int64_t messages_max,
    uint64_t first_seq,
    const unsigned int[::1] offsets,
    const unsigned int[::1] table_ids,
    array.array counts not None,
    array.array ranges not None,
):
    cdef Py_ssize_t index, room = buffer.shape[0] - PREFIX_BYTES, known = len(counts)
    cdef Py_ssize_t local = table_ids.shape[0], at = len(ranges), end = len(ranges), emptied = 0
    cdef int64_t messages = 0, accounted = 0, recorded = 0
    cdef uint32_t size, header_bytes
    cdef uint64_t sequence
    cdef size_t number
    cdef const uint8_t* record
    cdef char* living = PyByteArray_AS_STRING(alive)
    cdef bint chosen = flags.shape[0] > 0, sparse = offsets.shape[0] > 0
    _check(stop, positions.shape[0])
    _check(stop, subject_ids.shape[0])
    _check(stop, PyByteArray_GET_SIZE(alive))
    if sparse:
        _check(stop, offsets.shape[0])
    if stop > start:
        array.resize_smart(ranges, end + 2 * min(<int64_t>(stop - start), messages_max))
    try:
        for index in range(start, stop):
            if not living[index]:
                continue
            number = subject_ids[index]
            if chosen:
                if number >= <size_t>flags.shape[0]:
                    raise IndexError("subject id beyond the flags")
                if not flags[number]:
                    continue
            if messages >= messages_max:
                return index, messages, accounted, recorded, emptied
            if <int64_t>positions[index] > room:
                raise ValueError("a record reaches beyond its block")
            if local:
                if number >= <size_t>local:
                    raise IndexError("subject id beyond the table")
                number = table_ids[number]
            if number >= <size_t>known:
                raise IndexError("subject id beyond the counters")
            record = &buffer[positions[index]]
            memcpy(&size, record, 4)
            memcpy(&header_bytes, record + HEADER_BYTES_AT, 4)
            living[index] = 0
            counts.data.as_ulonglongs[number] -= 1
            emptied += counts.data.as_ulonglongs[number] == 0
            messages += 1
            accounted += <int64_t>size - UNACCOUNTED_BYTES
            if header_bytes:
                accounted += HEADER_ACCOUNTED_BYTES
            recorded += size
            sequence = first_seq + (offsets[index] if sparse else <uint64_t>index)
            if end > at and ranges.data.as_ulonglongs[end - 1] == sequence:
                ranges.data.as_ulonglongs[end - 1] = sequence + 1
            else:
                ranges.data.as_ulonglongs[end] = sequence
                ranges.data.as_ulonglongs[end + 1] = sequence + 1
                end += 2
        return max(start, stop), messages, accounted, recorded, emptied
    finally:
        array.resize(ranges, end)


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
    _check(stop, positions.shape[0])
    _check(stop, subject_ids.shape[0])
    if some:
        _check(stop, alive.shape[0])
    if sparse:
        _check(stop, offsets.shape[0])
    if len(out_ids) != entry or len(out_sequences) != entry:
        raise IndexError("columns of different lengths")
    if stop > start:
        array.resize_smart(out_positions, entry + stop - start)
        array.resize_smart(out_ids, entry + stop - start)
        array.resize_smart(out_sequences, entry + stop - start)
    try:
        for index in range(start, stop):
            if some and not alive[index]:
                continue
            position = positions[index]
            if <int64_t>position > end - PREFIX_BYTES:
                raise ValueError("a record reaches beyond its block")
            memcpy(&size, &buffer[position], 4)
            if <int64_t>(position + size) > end:
                raise ValueError("a record reaches beyond its block")
            if used + <Py_ssize_t>size > space:
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
