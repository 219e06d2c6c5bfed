# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The compiled twin of `pure.py`: same class, same answers; the reasons are given there.

Entries are numbered in the order in which they came and lie in segments of `SEGMENT`, each with the
texts of its ids; whole segments are given back when their ids are forgotten. A table with open
addressing finds them: a place holds the number of an entry and half of its hash, so that a place
that belongs to another id is passed by without a look at the entry. What is forgotten or dropped
stays in the table as a number that no entry has, until the table is full and filled again from the
entries; that also starts to count again. So an id costs its text, or what stands for it, and about
45 bytes, and a run of new ids one cache miss an id, several of which wait for memory together.
"""

from cpython cimport array
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcmp, memcpy, memmove, memset

import array

from jetstream_server.kernels.blake2b cimport blake2b_512
from jetstream_server.kernels.siphash cimport fetch_ahead, siphash13

# Python's own hash has a random key, new in each process.
cdef uint64_t KEY_0 = <uint64_t>(<Py_ssize_t>hash(b"the first half of the key"))
cdef uint64_t KEY_1 = <uint64_t>(<Py_ssize_t>hash(b"the second half of the key"))

cdef enum:
    SEGMENT = 4096  # entries
    ROOM_MIN = 16
    PLACES_MIN = 64
    WITHOUT_GIL_IDS = 1000
    AHEAD = 16  # how many ids are looked for at once
    DIGEST_BYTES = 64
    IDS_MAX = 1 << 29  # so that numbers never run over before the table is filled again
    NONE = 0xFFFFFFFF


cdef struct Entry:
    uint64_t hash
    uint64_t sequence
    uint32_t text_start
    uint32_t text_stop


cdef struct Segment:
    Entry* entries
    char* texts
    uint32_t room  # of entries
    uint32_t text_room


cdef struct Key:
    uint64_t hash
    const char* text
    Py_ssize_t size
    char[DIGEST_BYTES] digest


cdef inline void make_key(Key* key, const char* text, Py_ssize_t size) noexcept nogil:
    """Make what is kept for an id: its text, or a digest within the key."""
    key.text, key.size = text, size
    if size >= DIGEST_BYTES:
        blake2b_512(text, size, key.digest)
        key.text, key.size = key.digest, DIGEST_BYTES
    key.hash = siphash13(KEY_0, KEY_1, key.text, key.size)


def key_of(bytes message_id not None):
    """Return what is kept for an id: the id itself, or its digest."""
    cdef Key key
    make_key(&key, PyBytes_AS_STRING(message_id), PyBytes_GET_SIZE(message_id))
    return key.text[: key.size]


cdef class SeenIds:
    """Ids and the sequences of their messages."""

    cdef Segment* _segments
    cdef Py_ssize_t _segment_count
    cdef Py_ssize_t _segment_room
    cdef uint64_t* _places  # half of the hash, then the number of the entry plus one; 0 is free
    cdef uint64_t _mask
    cdef uint64_t _used  # places that are not free
    cdef uint32_t _first  # numbers of entries: the oldest, the one after the last that was kept,
    cdef uint32_t _kept  # and the next; 0 is the first entry of the first segment
    cdef uint32_t _next

    def __cinit__(self):
        self._segments = NULL
        self._places = NULL
        self._segment_count = self._segment_room = 0
        self._mask = self._used = 0
        self._first = self._kept = self._next = 0

    def __dealloc__(self):
        self._clear()

    def __len__(self):
        return self._kept - self._first

    def find(self, bytes message_id not None):
        """Return the sequence of an id, None when it is not known."""
        cdef Key key
        cdef uint32_t number
        if self._places == NULL:
            return None
        make_key(&key, PyBytes_AS_STRING(message_id), PyBytes_GET_SIZE(message_id))
        number = self._find(&key)
        return None if number == NONE else self._entry(number).sequence

    def take(self, bytes chunk not None, array.array spans not None, Py_ssize_t start):
        """Take new ids from number `start` on, up to the first that is known or taken already.

        See `pure.SeenIds.take`.
        """
        cdef const char* raw = PyBytes_AS_STRING(chunk)
        cdef const int* span = spans.data.as_ints
        cdef Py_ssize_t index = start, stop = len(spans) // 2
        cdef bint has_memory
        assert self._kept == self._next, "what was taken is kept or dropped first"
        if stop <= start:
            return start
        if stop - start < WITHOUT_GIL_IDS:  # giving it up costs more, whoever takes it meanwhile
            has_memory = self._reserve(stop - start)
            if has_memory:
                index = self._take(raw, span, start, stop, &has_memory)
        else:
            with nogil:
                has_memory = self._reserve(stop - start)
                if has_memory:
                    index = self._take(raw, span, start, stop, &has_memory)
        if not has_memory:
            self._next = self._kept
            raise MemoryError
        return index

    def keep(self, uint64_t first_seq):
        """Remember what was taken, stored with consecutive sequences."""
        while self._kept < self._next:
            self._entry(self._kept).sequence = first_seq
            self._kept += 1
            first_seq += 1

    def drop(self):
        """Give up what was taken: it was not stored."""
        self._next = self._kept

    def restore(
        self, bytes chunk not None, array.array spans not None, array.array sequences not None
    ):
        """Remember ids, each with its sequence (an `array('Q')`); those known keep theirs."""
        cdef const uint64_t* sequence = <const uint64_t*>sequences.data.as_ulonglongs
        cdef Py_ssize_t start = 0, stop = len(spans) // 2
        cdef uint32_t number
        assert len(sequences) == stop, "a sequence for each id"
        while start < stop:
            start = self.take(chunk, spans, start)
            for number in range(self._kept, self._next):
                self._entry(number).sequence = sequence[start - (self._next - number)]
            self._kept = self._next
            start += 1  # that one is known

    def sequences(self, bytes chunk not None, array.array spans not None, Py_ssize_t start):
        """Return the sequences of the known ids from number `start` on, up to the first new one.

        See `pure.SeenIds.sequences`.
        """
        cdef const char* raw = PyBytes_AS_STRING(chunk)
        cdef const int* span = spans.data.as_ints
        cdef Py_ssize_t index = start, stop = len(spans) // 2
        cdef Key key
        cdef uint32_t number
        cdef array.array found = array.array("Q")
        if self._places == NULL or stop <= start:
            return found
        array.resize(found, stop - start)
        with nogil:
            while index < stop:
                make_key(&key, raw + span[2 * index], span[2 * index + 1] - span[2 * index])
                number = self._find(&key)
                if number == NONE:
                    break
                found.data.as_ulonglongs[index - start] = self._entry(number).sequence
                index += 1
        array.resize(found, index - start)
        return found

    def forget(self, Py_ssize_t count):
        """Forget the `count` ids that were kept first."""
        cdef Py_ssize_t index, before = self._first // SEGMENT
        assert self._kept == self._next, "what was taken is kept or dropped first"
        if count >= <Py_ssize_t>(self._kept - self._first):
            self._clear()
            return
        self._first += <uint32_t>count
        for index in range(before, self._first // SEGMENT):
            free(self._segments[index].entries)
            free(self._segments[index].texts)
            memset(&self._segments[index], 0, sizeof(Segment))

    cdef void _clear(self) noexcept:
        cdef Py_ssize_t index
        for index in range(self._segment_count):
            free(self._segments[index].entries)
            free(self._segments[index].texts)
        free(self._segments)
        free(self._places)
        self._segments = NULL
        self._places = NULL
        self._segment_count = self._segment_room = 0
        self._mask = self._used = 0
        self._first = self._kept = self._next = 0

    cdef inline Entry* _entry(self, uint32_t number) noexcept nogil:
        return self._segments[number // SEGMENT].entries + number % SEGMENT

    cdef inline uint32_t _find(self, const Key* key) noexcept nogil:
        """Return the number of the entry with this id, NONE when there is none."""
        cdef uint64_t at = key.hash & self._mask, place
        cdef uint32_t number
        cdef const Entry* entry
        while True:
            place = self._places[at]
            if not place:
                return NONE
            if place >> 32 == key.hash >> 32:
                number = <uint32_t>place - 1
                if self._first <= number < self._next:
                    entry = self._entry(number)
                    if entry.text_stop - entry.text_start == <uint32_t>key.size and memcmp(
                        self._segments[number // SEGMENT].texts + entry.text_start, key.text, key.size
                    ) == 0:
                        return number
            at = (at + 1) & self._mask

    cdef inline void _place(self, uint64_t hash, uint32_t number) noexcept nogil:
        cdef uint64_t at = hash & self._mask
        while self._places[at]:
            at = (at + 1) & self._mask
        self._places[at] = (hash >> 32 << 32) | (<uint64_t>number + 1)
        self._used += 1

    cdef Py_ssize_t _take(
        self, const char* raw, const int* span, Py_ssize_t start, Py_ssize_t stop, bint* has_memory
    ) noexcept nogil:
        cdef Key[AHEAD] keys
        cdef Py_ssize_t index = start, ahead, batch
        cdef const int* at
        while index < stop:
            batch = min(<Py_ssize_t>AHEAD, stop - index)
            for ahead in range(batch):
                at = span + 2 * (index + ahead)
                make_key(&keys[ahead], raw + at[0], at[1] - at[0])
                fetch_ahead(self._places + (keys[ahead].hash & self._mask))
            for ahead in range(batch):
                if self._find(&keys[ahead]) != NONE:
                    return index
                if not self._add(&keys[ahead]):
                    has_memory[0] = False
                    return index
                index += 1
        return index

    cdef inline bint _add(self, const Key* key) noexcept nogil:
        """Append an entry; False when there is no memory."""
        cdef uint32_t number = self._next
        cdef Segment* segment = self._segments + number // SEGMENT
        cdef uint32_t index = number % SEGMENT
        cdef uint32_t start = segment.entries[index - 1].text_stop if index else 0
        cdef Entry* entry
        if index >= segment.room or start + key.size > segment.text_room:
            if not self._enlarge(segment, index, start + key.size):
                return False
        entry = segment.entries + index
        entry.hash, entry.sequence = key.hash, 0
        entry.text_start, entry.text_stop = start, start + <uint32_t>key.size
        memcpy(segment.texts + start, key.text, key.size)
        self._place(key.hash, number)
        self._next += 1
        return True

    cdef bint _enlarge(self, Segment* segment, uint32_t index, uint64_t text_bytes) noexcept nogil:
        """Make room in a segment for entry `index` and for so much text."""
        cdef uint64_t room = max(segment.room, <uint32_t>ROOM_MIN)
        cdef uint64_t text_room = max(segment.text_room, <uint32_t>(32 * ROOM_MIN))
        cdef void* larger
        while room <= index:
            room *= 2
        while text_room < text_bytes:
            text_room += text_room // 2
        if text_room > NONE:
            return False
        if room != segment.room:
            larger = realloc(segment.entries, room * sizeof(Entry))
            if larger == NULL:
                return False
            segment.entries, segment.room = <Entry*>larger, <uint32_t>room
        if text_room != segment.text_room:
            larger = realloc(segment.texts, text_room)
            if larger == NULL:
                return False
            segment.texts, segment.text_room = <char*>larger, <uint32_t>text_room
        return True

    cdef bint _reserve(self, uint64_t more) noexcept nogil:
        """Have places and segments for `more` entries; False when there is no memory."""
        cdef uint64_t live = self._next - self._first, places = self._mask + 1
        cdef uint64_t segments
        cdef void* larger
        if self._places == NULL or 4 * (self._used + more) > 3 * places:
            places = PLACES_MIN
            while places < 2 * (live + more) and places < <uint64_t>4 * IDS_MAX:
                places *= 2
            if live + more > IDS_MAX or not self._fill(places):
                return False
        segments = (self._next + more) // SEGMENT + 1
        if segments > <uint64_t>self._segment_room:
            segments += segments // 2
            larger = realloc(self._segments, segments * sizeof(Segment))
            if larger == NULL:
                return False
            self._segments, self._segment_room = <Segment*>larger, <Py_ssize_t>segments
        segments = (self._next + more) // SEGMENT + 1
        if segments > <uint64_t>self._segment_count:
            memset(
                self._segments + self._segment_count,
                0,
                (segments - self._segment_count) * sizeof(Segment),
            )
            self._segment_count = <Py_ssize_t>segments
        return True

    cdef bint _fill(self, uint64_t places) noexcept nogil:
        """Make the table again with so many places, and count from the first segment in use."""
        cdef uint32_t number, gone = self._first // SEGMENT
        cdef void* fresh
        if self._places != NULL and places == self._mask + 1:
            memset(self._places, 0, places * sizeof(uint64_t))
        else:
            fresh = calloc(places, sizeof(uint64_t))
            if fresh == NULL:
                return False
            free(self._places)
            self._places, self._mask = <uint64_t*>fresh, places - 1
        if gone:
            memmove(
                self._segments, self._segments + gone, (self._segment_count - gone) * sizeof(Segment)
            )
            self._segment_count -= gone
            self._first -= gone * SEGMENT
            self._kept -= gone * SEGMENT
            self._next -= gone * SEGMENT
        self._used = 0
        for number in range(self._first, self._next):
            if number + AHEAD < self._next:
                fetch_ahead(self._places + (self._entry(number + AHEAD).hash & self._mask))
            self._place(self._entry(number).hash, number)
        return True
