# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The compiled twin of `pure.py`: same functions, same answers; the reasons are given there.

Ids beyond the flags, and counters shorter than these, raise IndexError.
"""

from cpython cimport array
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from libc.stdint cimport uint8_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp, memset

import array

cdef struct Text:
    const char* start
    Py_ssize_t length


cdef int _look_into(tuple patterns, Text* texts) except -1:
    """Say where the patterns are; that is true as long as the tuple lives."""
    cdef Py_ssize_t at
    for at in range(len(patterns)):
        if type(patterns[at]) is not bytes:
            raise TypeError("a pattern is bytes")
        texts[at].start = PyBytes_AS_STRING(patterns[at])
        texts[at].length = PyBytes_GET_SIZE(patterns[at])
    return 0


cdef bint _has_empty_token(const char* text, Py_ssize_t length) noexcept nogil:
    cdef Py_ssize_t at, first = 0
    for at in range(length):
        if text[at] == c".":
            if at == first:
                return True
            first = at + 1
    return first == length


cdef bint _matches(
    const char* pattern, Py_ssize_t wanted, const char* subject, Py_ssize_t length
) noexcept nogil:
    """Tell whether a pattern without empty tokens matches a subject; see `core/subject.py`."""
    cdef Py_ssize_t at = 0, reached = 0
    while at < wanted:
        # At the beginning of a token of both.
        if pattern[at] == c"*" and (at + 1 == wanted or pattern[at + 1] == c"."):
            if reached == length or subject[reached] == c".":
                return False
            while reached < length and subject[reached] != c".":
                reached += 1
            at += 1
        elif pattern[at] == c">" and (at + 1 == wanted or pattern[at + 1] == c"."):
            return reached < length and not _has_empty_token(subject, length)
        else:
            while at < wanted and pattern[at] != c".":
                if reached == length or subject[reached] != pattern[at]:
                    return False
                at += 1
                reached += 1
        if at == wanted:
            break
        if reached == length or subject[reached] != c".":
            return False
        at += 1
        reached += 1
    return reached == length and not _has_empty_token(subject, length)


def mark(
    list names not None,
    Py_ssize_t start,
    Py_ssize_t stop,
    tuple patterns not None,
    bytearray flags not None,
):
    cdef Py_ssize_t index, at, count = len(patterns), length
    cdef const char* text
    cdef char* marks = PyByteArray_AS_STRING(flags)
    cdef Text* wanted
    cdef object name
    stop = min(stop, PyList_GET_SIZE(names))
    if start < 0 or stop > PyByteArray_GET_SIZE(flags):
        raise IndexError("a name beyond the flags")
    wanted = <Text*>malloc(max(count, 1) * sizeof(Text))
    if wanted == NULL:
        raise MemoryError
    try:
        _look_into(patterns, wanted)
        for index in range(start, stop):
            name = <object>PyList_GET_ITEM(names, index)
            if type(name) is not bytes:
                raise TypeError("a name is bytes")
            text = PyBytes_AS_STRING(name)
            length = PyBytes_GET_SIZE(name)
            for at in range(count):
                if _matches(wanted[at].start, wanted[at].length, text, length):
                    marks[index] = 1
                    break
    finally:
        free(wanted)


cdef bint _is_literal(const char* pattern, Py_ssize_t length) noexcept nogil:
    cdef Py_ssize_t at
    for at in range(length):
        if (
            (pattern[at] == c"*" or pattern[at] == c">")
            and (at == 0 or pattern[at - 1] == c".")
            and (at + 1 == length or pattern[at + 1] == c".")
        ):
            return False
    return not _has_empty_token(pattern, length)


def mark_stored(
    const uint8_t[::1] names, const unsigned short[::1] lengths, tuple patterns not None
):
    cdef Py_ssize_t index, at, start = 0, length, count = len(patterns), size = lengths.shape[0]
    cdef bytes found = PyBytes_FromStringAndSize(NULL, size)
    cdef char* marks = PyBytes_AS_STRING(found)
    cdef const char* text
    cdef const char* first = NULL
    cdef Text* wanted
    cdef bint* literal
    if names.shape[0] > 0:
        first = <const char*>&names[0]
    memset(marks, 0, size)
    wanted = <Text*>malloc(max(count, 1) * sizeof(Text))
    literal = <bint*>malloc(max(count, 1) * sizeof(bint))
    if wanted == NULL or literal == NULL:
        free(wanted)
        free(literal)
        raise MemoryError
    try:
        _look_into(patterns, wanted)
        for at in range(count):
            literal[at] = _is_literal(wanted[at].start, wanted[at].length)
        for index in range(size):
            length = lengths[index]
            if start + length > names.shape[0]:
                raise IndexError("a subject beyond the names")
            text = first + start
            start += length
            for at in range(count):
                if literal[at]:
                    if length != wanted[at].length or memcmp(text, wanted[at].start, length):
                        continue
                elif not _matches(wanted[at].start, wanted[at].length, text, length):
                    continue
                marks[index] = 1
                break
    finally:
        free(wanted)
        free(literal)
    return found


cdef int _check(Py_ssize_t known, array.array counts) except -1:
    if len(counts) < known:
        raise IndexError("counters shorter than the flags")
    if counts.typecode != "Q":
        raise ValueError("counters are of type Q")
    return 0


def total(const uint8_t[::1] flags, array.array counts not None):
    cdef Py_ssize_t index
    cdef uint64_t found = 0
    _check(flags.shape[0], counts)
    for index in range(flags.shape[0]):
        if flags[index]:
            found += counts.data.as_ulonglongs[index]
    return found


def present(
    const uint8_t[::1] flags,
    array.array counts not None,
    array.array lasts not None,
    uint64_t low,
    uint64_t high,
):
    cdef Py_ssize_t index, size = 0
    cdef uint64_t last
    cdef array.array numbers = array.array("I")
    _check(flags.shape[0], counts)
    _check(flags.shape[0], lasts)
    for index in range(flags.shape[0]):
        last = lasts.data.as_ulonglongs[index]
        if flags[index] and counts.data.as_ulonglongs[index] and low <= last <= high:
            array.resize_smart(numbers, size + 1)
            numbers.data.as_uints[size] = <unsigned int>index
            size += 1
    return numbers


cdef array.array _NUMBERS = array.array("I"), _KEYS = array.array("Q")


cdef tuple _order_together(
    const unsigned int[::1] numbers, array.array keys, uint64_t differing
):
    """Sort keys that differ in their lower halves only, each with its number beside it: to look up
    a key by its number in each round takes several times as long, if they are in any order.
    """
    cdef Py_ssize_t index, size = numbers.shape[0], at, counted
    cdef array.array ordered = array.clone(_NUMBERS, size, False)
    cdef array.array first = array.clone(_KEYS, size, False)
    cdef array.array second = array.clone(_KEYS, size, False)
    cdef uint64_t* known = keys.data.as_ulonglongs
    cdef uint64_t* source = first.data.as_ulonglongs
    cdef uint64_t* target = second.data.as_ulonglongs
    cdef uint64_t* swapped
    cdef Py_ssize_t starts[2048]
    cdef uint64_t shared = known[numbers[0]] >> 32 << 32
    cdef int shift
    for index in range(size):
        source[index] = known[numbers[index]] << 32 | numbers[index]
    for shift in range(0, 32, 11):
        if not (differing >> shift) & 2047:
            continue
        memset(starts, 0, sizeof(starts))
        for index in range(size):
            starts[(source[index] >> (32 + shift)) & 2047] += 1
        at = 0
        for index in range(2048):
            counted = starts[index]
            starts[index] = at
            at += counted
        for index in range(size):
            at = (source[index] >> (32 + shift)) & 2047
            target[starts[at]] = source[index]
            starts[at] += 1
        swapped = source
        source = target
        target = swapped
    for index in range(size):
        ordered.data.as_uints[index] = <unsigned int>source[index]
        source[index] = source[index] >> 32 | shared
    return ordered, (first if source == first.data.as_ulonglongs else second)


def order(const unsigned int[::1] numbers, array.array keys not None):
    """Sort by a byte of the keys at a time, the lowest first; bytes that all share are left out."""
    cdef Py_ssize_t index, size = numbers.shape[0], known = len(keys), at, counted
    cdef array.array first, second, ordered
    cdef unsigned int* source
    cdef unsigned int* target
    cdef unsigned int* swapped
    cdef Py_ssize_t starts[256]
    cdef uint64_t same_ones = <uint64_t>-1, some_ones = 0, key, before = 0
    cdef bint is_rising = True  # as when each subject has one message
    cdef int shift
    if keys.typecode != "Q":
        raise ValueError("keys are of type Q")
    for index in range(size):
        if <Py_ssize_t>numbers[index] >= known:
            raise IndexError("subject id beyond the keys")
        key = keys.data.as_ulonglongs[numbers[index]]
        same_ones &= key
        some_ones |= key
        is_rising = is_rising and key >= before
        before = key
    if not is_rising and not (same_ones ^ some_ones) >> 32:
        return _order_together(numbers, keys, same_ones ^ some_ones)
    first, second = array.clone(_NUMBERS, size, False), array.clone(_NUMBERS, size, False)
    ordered = array.clone(_KEYS, size, False)
    source, target = first.data.as_uints, second.data.as_uints
    for index in range(size):
        source[index] = numbers[index]
    for shift in range(0, 64, 8):
        if is_rising or not ((same_ones ^ some_ones) >> shift) & 255:
            continue
        memset(starts, 0, sizeof(starts))
        for index in range(size):
            starts[(keys.data.as_ulonglongs[source[index]] >> shift) & 255] += 1
        at = 0
        for index in range(256):
            counted = starts[index]
            starts[index] = at
            at += counted
        for index in range(size):
            key = (keys.data.as_ulonglongs[source[index]] >> shift) & 255
            target[starts[key]] = source[index]
            starts[key] += 1
        swapped = source
        source = target
        target = swapped
    for index in range(size):
        ordered.data.as_ulonglongs[index] = keys.data.as_ulonglongs[source[index]]
    return (first if source == first.data.as_uints else second), ordered


# A bit for each number that could be a key takes a fifth of the time of sorting, as long as they are
# no more than so many for each key.
cdef uint64_t _BITS_OF_KEY = 64


def room(Py_ssize_t count):
    """Memory that nobody has written to yet costs nothing until somebody does."""
    return array.clone(_KEYS, count, False)


cdef inline uint64_t _lowest_bit(uint64_t word) noexcept nogil:
    """Return the place of the lowest bit that is set; there has to be one."""
    cdef uint64_t place = 0
    while not word & 255:
        word >>= 8
        place += 8
    while not word & 1:
        word >>= 1
        place += 1
    return place


cdef bint _sort(array.array keys, Py_ssize_t size, uint64_t lowest, uint64_t highest) except -1:
    """Bring keys that are close to each other and all different, as the last sequences of subjects
    are, into their order: each is marked by a bit. Return False, and change nothing, if they are
    not so."""
    cdef Py_ssize_t index, found = 0
    cdef uint64_t at, word, base, span = highest - lowest
    cdef uint64_t* bits
    cdef bint is_alike = False
    if span // _BITS_OF_KEY >= <uint64_t>size:
        return False
    bits = <uint64_t*>calloc(span // 64 + 1, sizeof(uint64_t))
    if bits == NULL:
        raise MemoryError()
    for index in range(size):
        at = keys.data.as_ulonglongs[index] - lowest
        word = <uint64_t>1 << (at & 63)
        if bits[at >> 6] & word:
            is_alike = True
            break
        bits[at >> 6] |= word
    if not is_alike:
        for at in range(span // 64 + 1):
            word, base = bits[at], lowest + (at << 6)
            while word:
                keys.data.as_ulonglongs[found] = base + _lowest_bit(word)
                found += 1
                word &= word - 1
    free(bits)
    return not is_alike


def rising(const unsigned int[::1] numbers, array.array keys not None):
    cdef Py_ssize_t index, size = numbers.shape[0], known = len(keys)
    cdef uint64_t lowest = <uint64_t>-1, highest = 0, key, before = 0
    cdef bint is_rising = True
    cdef array.array ordered
    if keys.typecode != "Q":
        raise ValueError("keys are of type Q")
    ordered = array.clone(_KEYS, size, False)
    for index in range(size):
        if <Py_ssize_t>numbers[index] >= known:
            raise IndexError("subject id beyond the keys")
        key = keys.data.as_ulonglongs[numbers[index]]
        lowest = min(lowest, key)
        highest = max(highest, key)
        is_rising = is_rising and key >= before
        before = key
        ordered.data.as_ulonglongs[index] = key
    if is_rising or _sort(ordered, size, lowest, highest):
        return ordered
    return order(numbers, keys)[1]


def lasts_of(const uint8_t[::1] flags, array.array counts not None, array.array lasts not None):
    cdef Py_ssize_t index, size = 0, found = 0
    cdef uint64_t lowest = <uint64_t>-1, highest = 0, key, before = 0
    cdef bint is_rising = True
    cdef array.array ordered
    _check(flags.shape[0], counts)
    _check(flags.shape[0], lasts)
    for index in range(flags.shape[0]):
        if flags[index] and counts.data.as_ulonglongs[index]:
            size += 1
    ordered = array.clone(_KEYS, size, False)
    for index in range(flags.shape[0]):
        if flags[index] and counts.data.as_ulonglongs[index]:
            key = lasts.data.as_ulonglongs[index]
            lowest = min(lowest, key)
            highest = max(highest, key)
            is_rising = is_rising and key >= before
            before = key
            ordered.data.as_ulonglongs[found] = key
            found += 1
    if is_rising or _sort(ordered, size, lowest, highest):
        return ordered
    return order(present(flags, counts, lasts, 0, <uint64_t>-1), lasts)[1]


def among(const unsigned int[::1] numbers, Py_ssize_t known):
    cdef bytearray flags = bytearray(known)
    cdef char* marks = PyByteArray_AS_STRING(flags)
    cdef Py_ssize_t index
    for index in range(numbers.shape[0]):
        if <Py_ssize_t>numbers[index] >= known:
            raise IndexError("subject id beyond the flags")
        marks[numbers[index]] = 1
    return flags


def spread(const uint8_t[::1] flags, const unsigned int[::1] numbers):
    cdef Py_ssize_t index, known = flags.shape[0], size = numbers.shape[0]
    cdef bytes found = PyBytes_FromStringAndSize(NULL, size)
    cdef char* marks = PyBytes_AS_STRING(found)
    for index in range(size):
        if <Py_ssize_t>numbers[index] >= known:
            raise IndexError("subject id beyond the flags")
        marks[index] = flags[numbers[index]]
    return found


def newest(const uint8_t[::1] flags, array.array counts not None, array.array lasts not None):
    cdef Py_ssize_t index, best = -1
    cdef uint64_t found = 0
    _check(flags.shape[0], counts)
    _check(flags.shape[0], lasts)
    for index in range(flags.shape[0]):
        if flags[index] and counts.data.as_ulonglongs[index]:
            if best < 0 or lasts.data.as_ulonglongs[index] > found:
                best = index
                found = lasts.data.as_ulonglongs[index]
    return best


def next_bound(
    const uint8_t[::1] flags,
    array.array counts not None,
    array.array firsts not None,
    array.array lasts not None,
    uint64_t start,
):
    cdef Py_ssize_t index
    cdef uint64_t found = 0, bound
    _check(flags.shape[0], counts)
    _check(flags.shape[0], firsts)
    _check(flags.shape[0], lasts)
    for index in range(flags.shape[0]):
        if (
            flags[index]
            and counts.data.as_ulonglongs[index]
            and lasts.data.as_ulonglongs[index] >= start
        ):
            bound = firsts.data.as_ulonglongs[index]
            if bound < start:
                bound = start
            if not found or bound < found:
                found = bound
    return found
