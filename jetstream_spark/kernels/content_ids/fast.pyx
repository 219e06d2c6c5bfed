# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The compiled twin of `pure.py`: same functions, same answers; reasons are given there.

Digests are made and counted without a Python object a row, and without the GIL.
"""

import pyarrow as pa

from cpython cimport array
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy

from array import array as new_array

from jetstream_spark.kernels.binary_column cimport (
    Values, address, allocated, size_at, value_at, values_of
)
from jetstream_spark.kernels.blake2b cimport (
    BLAKE2B_SHORT,
    blake2b,
    blake2b_add,
    blake2b_finish,
    blake2b_has_lanes,
    blake2b_short,
    blake2b_start,
)
from jetstream_spark.kernels.decimal cimport digit_count, put_number, u64

cdef enum:
    DIGEST = 15  # DIGEST_BYTES of the pure twin
    DIGEST_TEXT = 20
    SALT = 16
    SLOTS_MIN = 1024
    AHEAD = 12  # rows between asking for memory and looking at it

cdef extern from *:
    """
    #if defined(__GNUC__)
    #define content_ids_fetch_ahead(at) __builtin_prefetch(at, 1)
    #else
    #define content_ids_fetch_ahead(at) ((void)(at))
    #endif
    """
    void fetch_ahead "content_ids_fetch_ahead"(const void* at) noexcept nogil

cdef const char* _DIGITS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


cdef inline void _put_length(uint8_t* at, Py_ssize_t length) noexcept nogil:
    cdef int place
    for place in range(4):
        at[place] = <uint8_t>(length >> 8 * place)


# What the digests of a batch are made of.
cdef struct Contents:
    Values subjects
    Values lines
    Values payloads


cdef inline void _add_head(blake2b* hash, const Contents* contents, Py_ssize_t row) noexcept nogil:
    """Add all that stands before the payload."""
    cdef uint8_t[8] lengths
    _put_length(lengths, size_at(&contents.subjects, row))
    _put_length(lengths + 4, size_at(&contents.lines, row))
    blake2b_add(hash, lengths, 8)
    blake2b_add(hash, value_at(&contents.subjects, row), size_at(&contents.subjects, row))
    blake2b_add(hash, value_at(&contents.lines, row), size_at(&contents.lines, row))


cdef inline void _digest_one(
    const blake2b* start, const Contents* contents, Py_ssize_t row, char* digest
) noexcept nogil:
    cdef blake2b hash
    cdef uint8_t[64] state
    memcpy(&hash, start, sizeof(blake2b))
    _add_head(&hash, contents, row)
    blake2b_add(&hash, value_at(&contents.payloads, row), size_at(&contents.payloads, row))
    blake2b_finish(&hash, state)
    memcpy(digest, state, DIGEST)


cdef inline bint _digest_four(
    const blake2b* start, const Contents* contents, Py_ssize_t row, char* digests
) noexcept nogil:
    """Make the digests of four rows at once; False when one of them is too long for that."""
    cdef uint8_t[4][1024] text  # 1024 is BLAKE2B_SHORT
    cdef size_t[4] sizes
    cdef uint8_t[4][16] states
    cdef Py_ssize_t subject_bytes, line_bytes, payload_bytes
    cdef int lane
    for lane in range(4):
        subject_bytes = size_at(&contents.subjects, row + lane)
        line_bytes = size_at(&contents.lines, row + lane)
        payload_bytes = size_at(&contents.payloads, row + lane)
        sizes[lane] = 8 + subject_bytes + line_bytes + payload_bytes
        if sizes[lane] > BLAKE2B_SHORT:
            return False
        _put_length(text[lane], subject_bytes)
        _put_length(text[lane] + 4, line_bytes)
        memcpy(text[lane] + 8, value_at(&contents.subjects, row + lane), subject_bytes)
        memcpy(text[lane] + 8 + subject_bytes, value_at(&contents.lines, row + lane), line_bytes)
        memcpy(
            text[lane] + sizes[lane] - payload_bytes,
            value_at(&contents.payloads, row + lane),
            payload_bytes,
        )
    blake2b_short(start, text, sizes, states)
    for lane in range(4):
        memcpy(digests + lane * DIGEST, states[lane], DIGEST)
    return True


def content_digests(bytes salt, subjects, lines, payloads):
    """Return the digest of each row, back to back.

    See `pure.content_digests`.
    """
    cdef Contents contents
    cdef Py_ssize_t row = 0, rows = len(payloads), stop
    cdef uint8_t[SALT] salt_bytes
    cdef blake2b start
    cdef bint has_lanes = blake2b_has_lanes()
    contents.subjects = values_of(subjects)
    contents.lines = values_of(lines)
    contents.payloads = values_of(payloads)
    if len(salt) > SALT:
        raise ValueError(f"a salt has at most {SALT} bytes")
    memcpy(salt_bytes, PyBytes_AS_STRING(salt.ljust(SALT, b"\0")), SALT)
    cdef bytes digests = PyBytes_FromStringAndSize(NULL, rows * DIGEST)
    cdef char* at = PyBytes_AS_STRING(digests)
    with nogil:
        blake2b_start(&start, DIGEST, salt_bytes)
        while row < rows:
            stop = min(row + 4, rows)
            if has_lanes and stop - row == 4:
                if _digest_four(&start, &contents, row, at + row * DIGEST):
                    row = stop
                    continue
            while row < stop:
                _digest_one(&start, &contents, row, at + row * DIGEST)
                row += 1
    return digests


cdef inline char* _put_digest(char* at, const uint8_t* digest) noexcept nogil:
    """Write a digest in base64url."""
    cdef int third
    cdef unsigned int bits
    for third in range(DIGEST // 3):
        bits = <unsigned int>digest[0] << 16 | <unsigned int>digest[1] << 8 | digest[2]
        at[0] = _DIGITS[bits >> 18]
        at[1] = _DIGITS[bits >> 12 & 63]
        at[2] = _DIGITS[bits >> 6 & 63]
        at[3] = _DIGITS[bits & 63]
        digest += 3
        at += 4
    return at


def id_column(bytes tag, bytes digests, array.array earlier):
    """Return the ids `<tag><digest>`, with `.<k>` for a row with k equal ones before it.

    See `pure.id_column`.
    """
    cdef const char* tag_text = PyBytes_AS_STRING(tag)
    cdef Py_ssize_t tag_bytes = PyBytes_GET_SIZE(tag)
    cdef const uint8_t* digest = <const uint8_t*>PyBytes_AS_STRING(digests)
    cdef const unsigned int* counts = earlier.data.as_uints
    cdef Py_ssize_t row, rows = len(earlier), total
    cdef int* offsets
    cdef char* start
    cdef char* at
    if len(digests) != rows * DIGEST:
        raise ValueError(f"{rows} rows need {rows * DIGEST} bytes of digests")
    total = rows * (tag_bytes + DIGEST_TEXT)
    with nogil:
        for row in range(rows):
            if counts[row]:
                total += 1 + digit_count(counts[row])
    offset_buffer, data_buffer = allocated(rows, total, "ids")
    offsets = <int*>address(offset_buffer)
    start = at = address(data_buffer)
    with nogil:
        for row in range(rows):
            offsets[row] = <int>(at - start)
            memcpy(at, tag_text, tag_bytes)
            at = _put_digest(at + tag_bytes, digest)
            digest += DIGEST
            if counts[row]:
                at[0] = c"."
                at = put_number(at + 1, counts[row])
        offsets[rows] = <int>(at - start)
    return pa.Array.from_buffers(pa.binary(), rows, [None, offset_buffer, data_buffer])


# A place of the table: a digest, and how often it was seen; 0 is a free place.
cdef struct Slot:
    char[DIGEST] digest
    unsigned int seen


cdef class Occurrences:
    """Counts digests: how often each was there before, batch after batch.

    A table with open addressing, at most two thirds full, about 40 bytes a digest. A digest is its
    own hash: nobody can choose it without knowing the salt.
    """

    cdef Slot* _slots
    cdef u64 _mask
    cdef u64 _used

    def __cinit__(self):
        self._slots = <Slot*>calloc(SLOTS_MIN, sizeof(Slot))
        if self._slots == NULL:
            raise MemoryError
        self._mask = SLOTS_MIN - 1
        self._used = 0

    def __dealloc__(self):
        free(self._slots)

    def count(self, bytes digests):
        """Return, for each of the digests, how many equal ones came before it (array('I')).

        See `pure.Occurrences.count`.
        """
        cdef Py_ssize_t row, rows = len(digests) // DIGEST
        cdef const char* digest = PyBytes_AS_STRING(digests)
        cdef array.array earlier = array.clone(new_array("I"), rows, False)
        cdef unsigned int* counts = earlier.data.as_uints
        cdef bint has_memory
        with nogil:
            has_memory = self._reserve(rows)
            if has_memory:
                for row in range(rows):
                    if row + AHEAD < rows:
                        self._fetch(digest + (row + AHEAD) * DIGEST)
                    counts[row] = self._count_one(digest + row * DIGEST)
        if not has_memory:
            raise MemoryError
        return earlier

    cdef Slot* _place(self, const char* digest) noexcept nogil:
        """Return where a digest is, or belongs."""
        cdef u64 at
        memcpy(&at, digest, 8)
        at &= self._mask
        while self._slots[at].seen and memcmp(self._slots[at].digest, digest, DIGEST) != 0:
            at = (at + 1) & self._mask
        return self._slots + at

    cdef void _fetch(self, const char* digest) noexcept nogil:
        """Have the place of a digest in the cache by the time it is asked for.

        The table is larger than the cache and digests are random, so without this each would wait
        for memory.
        """
        cdef u64 at
        memcpy(&at, digest, 8)
        fetch_ahead(self._slots + (at & self._mask))

    cdef unsigned int _count_one(self, const char* digest) noexcept nogil:
        cdef Slot* slot = self._place(digest)
        if slot.seen == 0:
            memcpy(slot.digest, digest, DIGEST)
            self._used += 1
        slot.seen += 1
        return slot.seen - 1

    cdef bint _reserve(self, u64 more) noexcept nogil:
        """Have room for so many new digests; False when there is no memory."""
        cdef u64 index, before = self._mask + 1, slots = before
        cdef Slot* old = self._slots
        while 2 * slots < 3 * (self._used + more):
            slots *= 2
        if slots == before:
            return True
        self._slots = <Slot*>calloc(slots, sizeof(Slot))
        if self._slots == NULL:
            self._slots = old
            return False
        self._mask = slots - 1
        for index in range(before):
            if old[index].seen:
                memcpy(self._place(old[index].digest), &old[index], sizeof(Slot))
        free(old)
        return True
