# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The compiled twin of `pure.py`: same functions, same answers; the reasons are given there.

It differs in one thing: positions or subject ids that reach beyond what they point into raise
ValueError or IndexError, because reading on would not be safe.
"""

from cpython cimport array
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItem
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from jetstream_server.kernels.entries cimport check_optional, check_reach
from jetstream_server.kernels.record_layout cimport (
    HEADER_ACCOUNTED_BYTES, HEADER_BYTES_AT, PREFIX_BYTES, SUBJECT_BYTES_AT, UNACCOUNTED_BYTES
)

import array

cdef uint32_t GONE = 0xFFFFFFFF
NOWHERE = GONE


cdef bint _has_dead(Py_ssize_t stop, Py_ssize_t entries, Py_ssize_t marks) except -1:
    """Tell whether dead entries are marked; there are marks for all entries, or none."""
    check_reach(stop, entries)
    check_optional(stop, marks, 0)
    return marks > 0


def add_to_counters(
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
    check_reach(stop, subject_ids.shape[0])
    if sparse:
        check_reach(stop, offsets.shape[0])
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


def summary_of(const unsigned int[::1] local_ids, Py_ssize_t stop, Py_ssize_t subjects):
    cdef Py_ssize_t index
    cdef unsigned int number
    check_reach(stop, local_ids.shape[0])
    cdef bytes zeros = bytes(4 * subjects)
    cdef array.array counts = array.array("I", zeros)
    cdef array.array firsts = array.array("I", zeros)
    cdef array.array lasts = array.array("I", zeros)
    for index in range(stop):
        number = local_ids[index]
        if <Py_ssize_t>number >= subjects:
            raise IndexError("a subject id beyond the subjects")
        if not counts.data.as_uints[number]:
            firsts.data.as_uints[number] = <unsigned int>index
        counts.data.as_uints[number] += 1
        lasts.data.as_uints[number] = <unsigned int>index
    return counts, firsts, lasts


def names_of(
    const uint8_t[::1] buffer,
    const unsigned int[::1] positions,
    const unsigned int[::1] local_ids,
    Py_ssize_t stop,
):
    cdef Py_ssize_t index, known = 0, total = 0, at = 0, start, size = buffer.shape[0]
    cdef uint16_t length
    cdef array.array lengths = array.array("H")
    cdef bytes names
    cdef char* text
    check_reach(stop, positions.shape[0])
    check_reach(stop, local_ids.shape[0])
    for index in range(stop):
        if <Py_ssize_t>local_ids[index] != known:
            continue
        start = <Py_ssize_t>positions[index] + PREFIX_BYTES
        if start > size:
            raise ValueError("a record reaches beyond its block")
        memcpy(&length, &buffer[positions[index]] + SUBJECT_BYTES_AT, 2)
        if start + length > size:
            raise ValueError("a subject reaches beyond its block")
        known += 1
        total += length
        array.resize_smart(lengths, known)
        lengths.data.as_ushorts[known - 1] = length
    names = PyBytes_FromStringAndSize(NULL, total)
    text = PyBytes_AS_STRING(names)
    known = 0
    for index in range(stop):
        if <Py_ssize_t>local_ids[index] == known:
            length = lengths.data.as_ushorts[known]
            if length:
                memcpy(text + at, &buffer[positions[index]] + PREFIX_BYTES, length)
            at += length
            known += 1
    return names, lengths


def number_names(bytes names not None, array.array lengths not None, interned not None):
    cdef list known = interned.names, parts = interned.parts
    cdef array.array numbers = array.array("I", bytes(4 * len(lengths)))
    cdef Py_ssize_t index, at = 0, size = PyBytes_GET_SIZE(names), last_part = len(parts) - 1
    cdef Py_ssize_t length
    cdef PyObject *found
    cdef bytes name
    cdef dict part
    if lengths.typecode != "H":
        raise ValueError("lengths of subjects are of type H")
    for index in range(len(lengths)):
        length = lengths.data.as_ushorts[index]
        if at + length > size:
            raise IndexError("a subject beyond the names")
        name = PyBytes_FromStringAndSize(PyBytes_AS_STRING(names) + at, length)
        at += length
        part = parts[hash(name) & last_part]
        found = PyDict_GetItem(part, name)
        if found is NULL:
            numbers.data.as_uints[index] = <unsigned int>len(known)
            known.append(name)
            part[name] = len(known) - 1
        else:
            numbers.data.as_uints[index] = <object>found
    return numbers


def carry(array.array numbers not None, array.array moved not None, unsigned int other):
    cdef Py_ssize_t index, known = len(moved), count = len(numbers)
    cdef array.array carried = array.array("I")
    cdef unsigned int number
    if numbers.typecode != "I" or moved.typecode != "I":
        raise ValueError("numbers are of type I")
    array.resize(carried, count)
    for index in range(count):
        number = numbers.data.as_uints[index]
        if <Py_ssize_t>number >= known:
            raise IndexError("a number beyond those that have moved")
        number = moved.data.as_uints[number]
        carried.data.as_uints[index] = other if number == GONE else number
    return carried


def carry_values(array.array values not None, array.array moved not None, Py_ssize_t count):
    cdef Py_ssize_t index, known = len(moved), late = 0
    cdef array.array numbers = array.array("I"), others = array.array("Q")
    cdef unsigned int number
    if values.typecode != "Q" or moved.typecode != "I":
        raise ValueError("values are of type Q, and numbers of type I")
    if len(values) != known or count > known:
        raise ValueError("as many values as numbers")
    for index in range(known):
        number = moved.data.as_uints[index]
        if number != GONE and <Py_ssize_t>number >= count:
            raise IndexError("a number beyond the values")
    for index in range(known):
        number = moved.data.as_uints[index]
        if number == GONE:
            continue
        if <Py_ssize_t>number <= index:
            values.data.as_ulonglongs[number] = values.data.as_ulonglongs[index]
        else:
            late += 1
            array.resize_smart(numbers, late)
            array.resize_smart(others, late)
            numbers.data.as_uints[late - 1] = number
            others.data.as_ulonglongs[late - 1] = values.data.as_ulonglongs[index]
    for index in range(late):
        values.data.as_ulonglongs[numbers.data.as_uints[index]] = others.data.as_ulonglongs[index]
    del values[count:]


def merge(
    const unsigned int[::1] subject_ids,
    const unsigned int[::1] entries,
    const unsigned int[::1] first_entries,
    const unsigned int[::1] last_entries,
    uint64_t first_seq,
    uint64_t last_seq,
    *,
    bint sparse,
    array.array counts not None,
    array.array firsts not None,
    array.array lasts not None,
):
    cdef Py_ssize_t index, appeared = 0, known = len(counts), stop = subject_ids.shape[0]
    cdef uint64_t span = last_seq - first_seq, last
    cdef unsigned int number
    check_reach(stop, entries.shape[0])
    check_reach(stop, first_entries.shape[0])
    check_reach(stop, last_entries.shape[0])
    if len(firsts) < known or len(lasts) < known:
        raise IndexError("counters of different lengths")
    for index in range(stop):
        number = subject_ids[index]
        if <Py_ssize_t>number >= known:
            raise IndexError("subject id beyond the counters")
        if not counts.data.as_ulonglongs[number]:
            appeared += 1
            firsts.data.as_ulonglongs[number] = first_seq + first_entries[index]
        counts.data.as_ulonglongs[number] += entries[index]
        last = last_entries[index]
        lasts.data.as_ulonglongs[number] = last_seq if sparse else first_seq + min(last, span)
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
    cdef bint some = _has_dead(stop, subject_ids.shape[0], alive.shape[0])
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
    check_reach(stop, positions.shape[0])
    check_reach(stop, subject_ids.shape[0])
    check_optional(stop, alive.shape[0], offsets.shape[0])
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
    cdef bint chosen = flags.shape[0] > 0
    cdef bint some = _has_dead(stop, subject_ids.shape[0], alive.shape[0])
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
    *,
    bint is_last=False,
):
    cdef Py_ssize_t left, index = stop - 1 if is_last else start, step = -1 if is_last else 1
    cdef bint some = _has_dead(stop, subject_ids.shape[0], alive.shape[0])
    for left in range(stop - start, 0, -1):
        if subject_ids[index] == wanted and (not some or alive[index]):
            return index
        index += step
    return -1


def living(
    const unsigned long long[::1] sequences,
    Py_ssize_t start,
    Py_ssize_t stop,
    uint64_t first_seq,
    Py_ssize_t head,
    Py_ssize_t count,
    const uint8_t[::1] alive,
    const unsigned int[::1] offsets,
    array.array held not None,
    array.array gone not None,
):
    cdef Py_ssize_t index, entry = 0, holds = len(held), lacks = len(gone)
    cdef uint64_t offset
    cdef bint some = alive.shape[0] > 0, sparse = offsets.shape[0] > 0, is_held
    check_reach(stop, sequences.shape[0])
    check_optional(count, alive.shape[0], offsets.shape[0])
    if stop <= start:
        return
    array.resize_smart(held, holds + stop - start)
    array.resize_smart(gone, lacks + stop - start)
    for index in range(start, stop):
        offset = sequences[index] - first_seq
        if sparse:
            while entry < count and offsets[entry] < offset:
                entry += 1
            is_held = entry < count and offsets[entry] == offset
        else:
            is_held = offset < <uint64_t>count
            entry = <Py_ssize_t>offset
        if is_held and entry >= head and (not some or alive[entry]):
            held.data.as_ulonglongs[holds] = sequences[index]
            holds += 1
        else:
            gone.data.as_uints[lacks] = <unsigned int>index
            lacks += 1
    array.resize_smart(held, holds)
    array.resize_smart(gone, lacks)


def last_of_each(
    const unsigned int[::1] subject_ids,
    const uint8_t[::1] alive,
    Py_ssize_t start,
    Py_ssize_t stop,
    const unsigned int[::1] table_ids,
    bytearray pending not None,
    uint64_t first_seq,
    const unsigned int[::1] offsets,
    int64_t count_max,
    array.array found not None,
):
    cdef Py_ssize_t index, size = len(found), local = table_ids.shape[0]
    cdef size_t number, known = PyByteArray_GET_SIZE(pending)
    cdef char* wanted = PyByteArray_AS_STRING(pending)
    cdef bint some = alive.shape[0] > 0, sparse = offsets.shape[0] > 0
    check_reach(stop, subject_ids.shape[0])
    check_optional(stop, alive.shape[0], offsets.shape[0])
    for index in range(stop - 1, start - 1, -1):
        if count_max <= 0:
            return
        if some and not alive[index]:
            continue
        number = subject_ids[index]
        if local:
            if number >= <size_t>local:
                raise IndexError("subject id beyond the table")
            number = table_ids[number]
        if number >= known:
            raise IndexError("subject id beyond those looked for")
        if wanted[number]:
            wanted[number] = 0
            array.resize_smart(found, size + 1)
            found.data.as_ulonglongs[size] = first_seq + (
                offsets[index] if sparse else <uint64_t>index
            )
            size += 1
            count_max -= 1


def localize(const unsigned int[::1] subject_ids, Py_ssize_t stop, array.array local_ids not None):
    cdef Py_ssize_t index, largest = 0, known = 0, first = len(local_ids)
    cdef uint32_t* numbers
    cdef array.array found = array.array("I")
    check_reach(stop, subject_ids.shape[0])
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
    check_reach(stop, positions.shape[0])
    check_reach(stop, subject_ids.shape[0])
    check_reach(stop, PyByteArray_GET_SIZE(alive))
    if sparse:
        check_reach(stop, offsets.shape[0])
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
