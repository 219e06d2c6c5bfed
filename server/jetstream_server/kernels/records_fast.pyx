# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The compiled twin of `records_pure`: same functions, same answers; the reasons are told there.

It differs in one thing: a record that reaches beyond its block raises ValueError, because reading
on would not be safe.
"""

import sys

from cpython cimport array
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from array import array as make_array

from jetstream_server.kernels.checksum cimport (
    crc_by_instruction, crc_by_tables, crc_has_instruction, crc_prepare
)

if sys.byteorder != "little":
    raise ImportError("the compiled kernel writes little-endian records; the pure one runs anywhere")

crc_prepare()
cdef bint HAS_INSTRUCTION = crc_has_instruction()

cdef enum:
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
    # As in the pure twin: what the genuine server accounts for a record.
    UNACCOUNTED_BYTES = 2
    HEADER_ACCOUNTED_BYTES = 4
    # Subjects met in one call, found again without making an object of them.
    KNOWN_SLOTS = 1024


cdef struct Known:
    const char* subject
    Py_ssize_t size
    uint32_t number


cdef inline uint32_t checksum_of(const char* at, size_t size) noexcept nogil:
    if HAS_INSTRUCTION:
        return crc_by_instruction(<const unsigned char*>at, size)
    return crc_by_tables(<const unsigned char*>at, size)


def crc32c(bytes data, bint by_tables=False):
    """Return the CRC-32C of some bytes; for tests of both ways to make it."""
    cdef const unsigned char[:] view = data
    cdef const unsigned char* at = &view[0] if len(view) else NULL
    if by_tables:
        return crc_by_tables(at, len(view))
    return checksum_of(<const char*>at, len(view))


cdef inline uint32_t slot_of(const char* subject, Py_ssize_t size) noexcept nogil:
    # The end of a subject tells subjects apart better than its beginning.
    cdef uint64_t word = 0
    cdef Py_ssize_t tail = size if size < 8 else 8
    memcpy(&word, subject + size - tail, tail)
    return <uint32_t>(((word ^ <uint64_t>size) * <uint64_t>0x9E3779B97F4A7C15) >> 54)


cdef inline uint32_t number_of(
    const char* subject, Py_ssize_t size, dict interned, Known* known
) except? 0xFFFFFFFF:
    cdef Known* slot = &known[slot_of(subject, size)]
    cdef bytes key
    if slot.subject != NULL and slot.size == size and memcmp(slot.subject, subject, size) == 0:
        return slot.number
    key = PyBytes_FromStringAndSize(subject, size)
    number = interned.get(key)
    if number is None:
        number = interned[key] = len(interned)
    slot.subject, slot.size, slot.number = subject, size, number
    return slot.number


cdef Py_ssize_t write_records(
    const char* chunk, const int* fields, Py_ssize_t start, Py_ssize_t stop,
    uint64_t sequence, int64_t timestamp, char* block, Py_ssize_t used, unsigned int* positions
) noexcept nogil:
    cdef Py_ssize_t index
    cdef const int* at
    cdef char* record
    cdef uint32_t size, headers, checksum
    cdef uint16_t subject_bytes
    cdef uint16_t kind = 0
    for index in range(start, stop):
        at = fields + index * STRIDE
        subject_bytes = <uint16_t>(at[1] - at[0])
        headers = <uint32_t>(at[5] - at[4])
        size = <uint32_t>(PREFIX_BYTES + subject_bytes + at[6] - at[4])
        record = block + used
        memcpy(record, &size, 4)
        memcpy(record + SEQUENCE_AT, &sequence, 8)
        memcpy(record + TIMESTAMP_AT, &timestamp, 8)
        memcpy(record + HEADER_BYTES_AT, &headers, 4)
        memcpy(record + SUBJECT_BYTES_AT, &subject_bytes, 2)
        memcpy(record + KIND_AT, &kind, 2)
        memcpy(record + PREFIX_BYTES, chunk + at[0], subject_bytes)
        memcpy(record + PREFIX_BYTES + subject_bytes, chunk + at[4], at[6] - at[4])
        checksum = checksum_of(record + CHECKED_FROM, size - CHECKED_FROM)
        memcpy(record + CHECKSUM_AT, &checksum, 4)
        positions[index - start] = <unsigned int>used
        sequence += 1
        used += size
    return used


def encode_run(
    bytes chunk, array.array fields, Py_ssize_t start, Py_ssize_t stop, uint64_t first_seq,
    int64_t timestamp, bytearray buffer, Py_ssize_t used, array.array positions,
    array.array subject_ids, dict interned,
):
    """Append messages `start` up to `stop` of a run as records, as far as the room goes."""
    cdef const char* text = chunk
    cdef const int* field = fields.data.as_ints
    cdef Py_ssize_t room = PyByteArray_GET_SIZE(buffer)
    cdef Py_ssize_t count = len(positions), index, size, need = used
    cdef Known known[KNOWN_SLOTS]
    cdef const int* at
    if start >= stop:
        return stop, used
    for index in range(KNOWN_SLOTS):
        known[index].subject = NULL
        if stop - start < 4:
            # For a batch of a few, look-ups cost less than preparing the slots.
            break
    cdef bint few = stop - start < 4
    array.resize_smart(positions, count + stop - start)
    array.resize_smart(subject_ids, count + stop - start)
    for index in range(start, stop):
        at = field + index * STRIDE
        size = PREFIX_BYTES + at[1] - at[0] + at[6] - at[4]
        if need + size > room:
            stop = index
            break
        if few:
            known[slot_of(text + at[0], at[1] - at[0])].subject = NULL
        subject_ids.data.as_uints[count + index - start] = number_of(
            text + at[0], at[1] - at[0], interned, known
        )
        need += size
    cdef char* block = PyByteArray_AS_STRING(buffer)
    cdef unsigned int* place = positions.data.as_uints + count
    if need - used > 65536:
        with nogil:
            used = write_records(
                text, field, start, stop, first_seq, timestamp, block, used, place
            )
    else:
        used = write_records(text, field, start, stop, first_seq, timestamp, block, used, place)
    array.resize_smart(positions, count + stop - start)
    array.resize_smart(subject_ids, count + stop - start)
    return stop, used


def scan_records(
    buffer, Py_ssize_t start, Py_ssize_t stop, array.array positions, array.array subject_ids,
    array.array sequences, dict interned,
):
    """Read records of messages from `start` on, checking each one."""
    cdef const unsigned char[:] view = buffer
    if start + PREFIX_BYTES > stop:
        return start
    if stop > view.shape[0]:
        raise ValueError(f"a block of {view.shape[0]} bytes does not reach to {stop}")
    cdef const char* block = <const char*>&view[0]
    cdef Py_ssize_t at = start, count = len(positions)
    cdef uint32_t size, checksum, headers
    cdef uint16_t subject_bytes, kind
    cdef uint64_t sequence
    cdef Known known[KNOWN_SLOTS]
    cdef Py_ssize_t index
    for index in range(KNOWN_SLOTS):
        known[index].subject = NULL
    while at + PREFIX_BYTES <= stop:
        memcpy(&size, block + at, 4)
        memcpy(&checksum, block + at + CHECKSUM_AT, 4)
        memcpy(&sequence, block + at + SEQUENCE_AT, 8)
        memcpy(&headers, block + at + HEADER_BYTES_AT, 4)
        memcpy(&subject_bytes, block + at + SUBJECT_BYTES_AT, 2)
        memcpy(&kind, block + at + KIND_AT, 2)
        if (
            kind != 0
            or size < <uint64_t>PREFIX_BYTES + subject_bytes + headers
            or at + <Py_ssize_t>size > stop
            or checksum_of(block + at + CHECKED_FROM, size - CHECKED_FROM) != checksum
        ):
            break
        array.resize_smart(positions, count + 1)
        array.resize_smart(subject_ids, count + 1)
        array.resize_smart(sequences, count + 1)
        positions.data.as_uints[count] = <unsigned int>at
        subject_ids.data.as_uints[count] = number_of(
            block + at + PREFIX_BYTES, subject_bytes, interned, known
        )
        sequences.data.as_ulonglongs[count] = sequence
        count += 1
        at += size
    return at


def tally(
    const unsigned int[:] subject_ids, Py_ssize_t start, Py_ssize_t stop, uint64_t first_seq,
    const unsigned int[:] offsets, array.array counts, array.array firsts, array.array lasts,
):
    """Add entries to the counters of their subjects."""
    cdef Py_ssize_t appeared = 0, index
    cdef bint sparse = offsets.shape[0] > 0
    cdef unsigned int number
    cdef uint64_t sequence
    for index in range(start, stop):
        number = subject_ids[index]
        sequence = first_seq + (offsets[index] if sparse else <uint64_t>index)
        if not counts.data.as_ulonglongs[number]:
            appeared += 1
            firsts.data.as_ulonglongs[number] = sequence
        counts.data.as_ulonglongs[number] += 1
        lasts.data.as_ulonglongs[number] = sequence
    return appeared


def withdraw(
    const unsigned int[:] subject_ids, const unsigned char[:] alive, Py_ssize_t start,
    Py_ssize_t stop, const unsigned int[:] table_ids, array.array counts,
):
    """Take live entries off the counters of their subjects."""
    cdef Py_ssize_t emptied = 0, index
    cdef bint holes = alive.shape[0] > 0, mapped = table_ids.shape[0] > 0
    cdef unsigned int number
    for index in range(start, stop):
        if holes and not alive[index]:
            continue
        number = subject_ids[index]
        if mapped:
            number = table_ids[number]
        counts.data.as_ulonglongs[number] -= 1
        emptied += counts.data.as_ulonglongs[number] == 0
    return emptied


def measure(
    buffer, const unsigned int[:] positions, const unsigned char[:] alive, Py_ssize_t start,
    Py_ssize_t stop, int64_t messages_max, int64_t bytes_max, int64_t expired_at,
):
    """Weigh live entries from `start` on, until none of the three conditions holds."""
    cdef const unsigned char[:] view = buffer
    cdef int64_t messages = 0, accounted = 0, recorded = 0, timestamp
    cdef bint holes = alive.shape[0] > 0
    cdef uint32_t size, headers
    cdef Py_ssize_t index, position
    for index in range(start, stop):
        if holes and not alive[index]:
            continue
        position = positions[index]
        if position + PREFIX_BYTES > view.shape[0]:
            raise ValueError(f"a record at {position} is beyond the block")
        memcpy(&size, &view[position], 4)
        memcpy(&timestamp, &view[position + TIMESTAMP_AT], 8)
        memcpy(&headers, &view[position + HEADER_BYTES_AT], 4)
        if messages >= messages_max and accounted >= bytes_max and timestamp > expired_at:
            return index, messages, accounted, recorded
        messages += 1
        accounted += <int64_t>size - UNACCOUNTED_BYTES + (HEADER_ACCOUNTED_BYTES if headers else 0)
        recorded += size
    return stop, messages, accounted, recorded


def select(
    buffer, const unsigned int[:] positions, const unsigned int[:] subject_ids,
    const unsigned char[:] flags, const unsigned char[:] alive, Py_ssize_t start, Py_ssize_t stop,
    uint64_t first_seq, const unsigned int[:] offsets, Py_ssize_t count_max, int64_t bytes_max,
    array.array out_positions, array.array out_sequences, array.array out_sizes,
):
    """Append wanted live entries; the first one whatever its size."""
    if count_max <= 0:
        return start
    cdef const unsigned char[:] view = buffer
    cdef bint holes = alive.shape[0] > 0, chosen = flags.shape[0] > 0
    cdef bint sparse = offsets.shape[0] > 0
    cdef Py_ssize_t base = len(out_positions), count = 0, index, position, end = stop
    cdef Py_ssize_t room = min(count_max, max(stop - start, 0))
    cdef int64_t total = 0, size
    cdef uint32_t length
    array.resize_smart(out_positions, base + room)
    array.resize_smart(out_sequences, base + room)
    array.resize_smart(out_sizes, base + room)
    try:
        for index in range(start, stop):
            if (holes and not alive[index]) or (chosen and not flags[subject_ids[index]]):
                continue
            position = positions[index]
            if position + PREFIX_BYTES > view.shape[0]:
                raise ValueError(f"a record at {position} is beyond the block")
            memcpy(&length, &view[position], 4)
            size = <int64_t>length - PREFIX_BYTES
            if count and total + size > bytes_max:
                end = index
                break
            out_positions.data.as_ulonglongs[base + count] = position
            out_sequences.data.as_ulonglongs[base + count] = first_seq + (
                offsets[index] if sparse else <uint64_t>index
            )
            out_sizes.data.as_ulonglongs[base + count] = <uint64_t>size
            count += 1
            total += size
            if count == count_max:
                end = index + 1
                break
    finally:
        array.resize_smart(out_positions, base + count)
        array.resize_smart(out_sequences, base + count)
        array.resize_smart(out_sizes, base + count)
    return end


def count(
    const unsigned int[:] subject_ids, const unsigned char[:] flags, const unsigned char[:] alive,
    Py_ssize_t start, Py_ssize_t stop,
):
    """Return the number of wanted live entries."""
    cdef bint holes = alive.shape[0] > 0, chosen = flags.shape[0] > 0
    cdef Py_ssize_t index, total = 0
    if not chosen and not holes:
        return max(stop - start, 0)
    for index in range(start, stop):
        if (not holes or alive[index]) and (not chosen or flags[subject_ids[index]]):
            total += 1
    return total


def find(
    const unsigned int[:] subject_ids, const unsigned char[:] alive, Py_ssize_t start,
    Py_ssize_t stop, unsigned int wanted,
):
    """Return the first live entry of a subject in [start, stop), `stop` when there is none."""
    cdef bint holes = alive.shape[0] > 0
    cdef Py_ssize_t index
    for index in range(start, stop):
        if subject_ids[index] == wanted and (not holes or alive[index]):
            return index
    return stop


def find_last(
    const unsigned int[:] subject_ids, const unsigned char[:] alive, Py_ssize_t start,
    Py_ssize_t stop, unsigned int wanted,
):
    """Return the last live entry of a subject in [start, stop), -1 when there is none."""
    cdef bint holes = alive.shape[0] > 0
    cdef Py_ssize_t index = stop - 1
    while index >= start:
        if subject_ids[index] == wanted and (not holes or alive[index]):
            return index
        index -= 1
    return -1


def localize(const unsigned int[:] subject_ids, Py_ssize_t stop, array.array local_ids):
    """Number the subjects of a block by first appearance, appending them to `local_ids`."""
    cdef dict known = {}
    cdef Py_ssize_t base = len(local_ids), index
    cdef unsigned int number, last = 0, last_local = 0
    cdef bint has_last = False
    array.resize_smart(local_ids, base + stop)
    for index in range(stop):
        number = subject_ids[index]
        if not has_last or number != last:
            last_local = known.setdefault(number, len(known))
            last, has_last = number, True
        local_ids.data.as_uints[base + index] = last_local
    return make_array("I", known)
