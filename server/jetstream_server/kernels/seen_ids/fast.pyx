# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The compiled twin of `pure.py`: same class, same answers; the reasons are given there.

Entries are numbered in the order in which they came and lie in segments of `SEGMENT`, each with the
texts of its ids; whole segments are given back when their ids are forgotten. A table with open
addressing finds them: a place holds the number of an entry and half of its hash, so that a place
that belongs to another id is passed by without a look at the entry. What is forgotten stays in the
table as a number that no entry has, until the table is full and made anew. So an id
costs its text, or what stands for it, and about 40 bytes, and a run of new ids one cache miss an id,
several of which wait for memory together.

To make a table of a million ids anew takes 20 ms. So there are many tables, by the hash, once the
ids are more than some thousand; each is made anew when it is full, in less than a millisecond.

Numbers begin again with 0 after the last there is; they are only compared with the oldest.
"""

from cpython cimport array
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint32_t, uint64_t
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
    IDS_MAX = 1 << 29
    TABLES = 64  # a power of two
    ALONE_MAX = 16384  # ids in one table
    NONE = -1
    DROPPED = 1  # in a place; no half of a hash is 0
    SHARED_TEXT_MAX = 0xFFFFFFFF  # bytes


cdef struct Entry:
    uint64_t sequence
    uint32_t text_start
    uint32_t text_stop


cdef struct Segment:
    Entry* entries
    char* texts
    uint32_t room  # of entries
    uint32_t text_room


cdef struct Table:
    uint64_t* places  # half of the hash, never 0, then the number of the entry; 0 is free
    uint64_t mask  # the number of places less one
    uint64_t used  # places that are not free


cdef struct Key:
    uint64_t table  # by which one is chosen
    uint64_t half
    const char* text
    Py_ssize_t size
    char[DIGEST_BYTES] digest


cdef inline void put(Table* table, uint64_t place) noexcept nogil:
    cdef uint64_t at = place >> 33 & table.mask
    while table.places[at]:
        at = (at + 1) & table.mask
    table.places[at] = place
    table.used += 1


cdef void free_tables(Table* tables, uint64_t count) noexcept nogil:
    cdef uint64_t index
    if tables != NULL:
        for index in range(count):
            free(tables[index].places)
        free(tables)


cdef inline void make_key(Key* key, const char* text, Py_ssize_t size) noexcept nogil:
    """Make what is kept for an id: its text, or a digest within the key."""
    key.text, key.size = text, size
    if size >= DIGEST_BYTES:
        blake2b_512(text, size, key.digest)
        key.text, key.size = key.digest, DIGEST_BYTES
    take_hash(key)


cdef inline void take_hash(Key* key) noexcept nogil:
    cdef uint64_t hash = siphash13(KEY_0, KEY_1, key.text, key.size)
    key.table, key.half = hash & (TABLES - 1), hash >> 32 | 1


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
    cdef Table* _tables
    cdef uint64_t _last_table  # their number less one
    cdef uint32_t _base  # the number of the first entry of the first segment
    cdef uint32_t _first  # those of entries: the oldest, the one after the last that was kept,
    cdef uint32_t _kept  # and the next
    cdef uint32_t _next

    def __cinit__(self):
        self._segments = NULL
        self._tables = NULL
        self._segment_count = self._segment_room = 0
        self._last_table = 0
        self._base = self._first = self._kept = self._next = 0

    def __dealloc__(self):
        self._clear()

    def __len__(self):
        return <uint32_t>(self._kept - self._first)

    def find(self, bytes message_id not None):
        """Return the sequence of an id, None when it is not known."""
        cdef Key key
        cdef int64_t number
        if self._tables == NULL:
            return None
        make_key(&key, PyBytes_AS_STRING(message_id), PyBytes_GET_SIZE(message_id))
        number = self._find(&key)
        return None if number == NONE else self._entry(<uint32_t>number).sequence

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
            self._withdraw()
            raise MemoryError
        return index

    def keep(self, uint64_t first_seq):
        """Remember what was taken, stored with consecutive sequences."""
        while self._kept != self._next:
            self._entry(self._kept).sequence = first_seq
            self._kept += 1
            first_seq += 1

    def drop(self):
        """Give up what was taken: it was not stored."""
        self._withdraw()

    def restore(
        self, bytes chunk not None, array.array spans not None, array.array sequences not None
    ):
        """Remember ids, each with its sequence (an `array('Q')`); those known keep theirs."""
        cdef const uint64_t* sequence = <const uint64_t*>sequences.data.as_ulonglongs
        cdef Py_ssize_t start = 0, stop = len(spans) // 2
        assert len(sequences) == stop, "a sequence for each id"
        while start < stop:
            start = self.take(chunk, spans, start)
            while self._kept != self._next:
                self._entry(self._kept).sequence = sequence[start - <uint32_t>(self._next - self._kept)]
                self._kept += 1
            start += 1  # that one is known

    def sequences(self, bytes chunk not None, array.array spans not None, Py_ssize_t start):
        """Return the sequences of the known ids from number `start` on, up to the first new one.

        See `pure.SeenIds.sequences`.
        """
        cdef const char* raw = PyBytes_AS_STRING(chunk)
        cdef const int* span = spans.data.as_ints
        cdef Py_ssize_t index = start, stop = len(spans) // 2
        cdef Key key
        cdef int64_t number
        cdef array.array found = array.array("Q")
        if self._tables == NULL or stop <= start:
            return found
        array.resize(found, stop - start)
        with nogil:
            while index < stop:
                make_key(&key, raw + span[2 * index], span[2 * index + 1] - span[2 * index])
                number = self._find(&key)
                if number == NONE:
                    break
                found.data.as_ulonglongs[index - start] = self._entry(<uint32_t>number).sequence
                index += 1
        array.resize(found, index - start)
        return found

    def forget(self, Py_ssize_t count):
        """Forget the `count` ids that were kept first."""
        cdef Py_ssize_t index, before = self._segment_of(self._first)
        assert self._kept == self._next, "what was taken is kept or dropped first"
        if count >= <Py_ssize_t><uint32_t>(self._kept - self._first):
            self._clear()
            return
        self._first += <uint32_t>count
        for index in range(before, self._segment_of(self._first)):
            free(self._segments[index].entries)
            free(self._segments[index].texts)
            memset(&self._segments[index], 0, sizeof(Segment))

    cdef void _clear(self) noexcept:
        cdef Py_ssize_t index
        for index in range(self._segment_count):
            free(self._segments[index].entries)
            free(self._segments[index].texts)
        free(self._segments)
        self._segments = NULL
        self._segment_count = self._segment_room = 0
        free_tables(self._tables, self._last_table + 1)
        self._tables = NULL
        self._last_table = 0
        self._base = self._first = self._kept = self._next = 0

    cdef inline Py_ssize_t _segment_of(self, uint32_t number) noexcept nogil:
        return <uint32_t>(number - self._base) // SEGMENT

    cdef inline Entry* _entry(self, uint32_t number) noexcept nogil:
        return self._segments[self._segment_of(number)].entries + number % SEGMENT

    cdef inline bint _is_there(self, uint32_t number) noexcept nogil:
        return <uint32_t>(number - self._first) < <uint32_t>(self._next - self._first)

    cdef inline Table* _table(self, const Key* key) noexcept nogil:
        return self._tables + (key.table & self._last_table)

    cdef inline int64_t _find(self, const Key* key) noexcept nogil:
        """Return the number of the entry with this id, NONE when there is none."""
        cdef const Table* table = self._table(key)
        cdef uint64_t at = key.half >> 1 & table.mask, place
        cdef uint32_t number
        cdef const Entry* entry
        while True:
            place = table.places[at]
            if not place:
                return NONE
            if place >> 32 == key.half:
                number = <uint32_t>place
                if self._is_there(number):
                    entry = self._entry(number)
                    if entry.text_stop - entry.text_start == <uint32_t>key.size and memcmp(
                        self._segments[self._segment_of(number)].texts + entry.text_start,
                        key.text,
                        key.size,
                    ) == 0:
                        return number
            at = (at + 1) & table.mask

    cdef inline bint _place(self, const Key* key, uint32_t number) noexcept nogil:
        """Give an entry a place; False when there is no memory."""
        cdef Table* table = self._table(key)
        if 4 * (table.used + 1) > 3 * (table.mask + 1) and not self._make_anew(table):
            return False
        put(table, key.half << 32 | number)
        return True

    cdef Py_ssize_t _take(
        self, const char* raw, const int* span, Py_ssize_t start, Py_ssize_t stop, bint* has_memory
    ) noexcept nogil:
        cdef Key[AHEAD] keys
        cdef Py_ssize_t index = start, ahead, batch
        cdef const int* at
        cdef const Table* table
        while index < stop:
            batch = min(<Py_ssize_t>AHEAD, stop - index)
            for ahead in range(batch):
                at = span + 2 * (index + ahead)
                make_key(&keys[ahead], raw + at[0], at[1] - at[0])
                table = self._table(&keys[ahead])
                fetch_ahead(table.places + (keys[ahead].half >> 1 & table.mask))
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
        cdef Segment* segment = self._segments + self._segment_of(number)
        cdef uint32_t index = number % SEGMENT
        cdef uint32_t start = segment.entries[index - 1].text_stop if index else 0
        cdef Entry* entry
        if index >= segment.room or start + key.size > segment.text_room:
            if not self._enlarge(segment, index, start + key.size):
                return False
        if not self._place(key, number):
            return False
        entry = segment.entries + index
        entry.sequence = 0
        entry.text_start, entry.text_stop = start, start + <uint32_t>key.size
        memcpy(segment.texts + start, key.text, key.size)
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
        if text_room > SHARED_TEXT_MAX:
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
        """Have tables, and segments for `more` entries; False when there is no memory."""
        cdef uint64_t live = <uint32_t>(self._next - self._first), segments
        cdef Py_ssize_t gone
        cdef void* larger
        if live + more > IDS_MAX:
            return False
        if self._tables == NULL and not self._make_tables(1):
            return False
        if live > ALONE_MAX and not self._last_table and not self._spread():
            return False
        segments = (<uint32_t>(self._next - self._base) + more) // SEGMENT + 1
        if segments > <uint64_t>self._segment_room:
            gone = self._segment_of(self._first)
            if gone:
                memmove(
                    self._segments,
                    self._segments + gone,
                    (self._segment_count - gone) * sizeof(Segment),
                )
                self._segment_count -= gone
                self._base += <uint32_t>gone * SEGMENT
                segments -= gone
        if segments > <uint64_t>self._segment_room:
            larger = realloc(self._segments, (segments + segments // 2) * sizeof(Segment))
            if larger == NULL:
                return False
            self._segments = <Segment*>larger
            self._segment_room = <Py_ssize_t>(segments + segments // 2)
        if segments > <uint64_t>self._segment_count:
            memset(
                self._segments + self._segment_count,
                0,
                (segments - self._segment_count) * sizeof(Segment),
            )
            self._segment_count = <Py_ssize_t>segments
        return True

    cdef bint _make_tables(self, uint64_t count) noexcept nogil:
        """Have so many tables, which are empty; False when there is no memory."""
        cdef uint64_t index
        cdef bint has_memory = True
        cdef Table* tables = <Table*>calloc(count, sizeof(Table))
        if tables == NULL:
            return False
        for index in range(count):
            tables[index].mask = PLACES_MIN - 1
            tables[index].places = <uint64_t*>calloc(PLACES_MIN, sizeof(uint64_t))
            has_memory = has_memory and tables[index].places != NULL
        if has_memory:
            self._tables, tables = tables, self._tables
            self._last_table, count = count - 1, self._last_table + 1
        free_tables(tables, count)
        return has_memory

    cdef bint _spread(self) noexcept nogil:
        """Spread all ids over many tables; False when there is no memory."""
        cdef uint32_t number = self._first
        cdef const Segment* segment
        cdef const Entry* entry
        cdef Key key
        if not self._make_tables(TABLES):
            return False
        while number != self._next:
            segment = self._segments + self._segment_of(number)
            entry = segment.entries + number % SEGMENT
            key.text, key.size = segment.texts + entry.text_start, entry.text_stop - entry.text_start
            take_hash(&key)
            if not self._place(&key, number):
                return False
            number += 1
        return True

    cdef void _withdraw(self) noexcept nogil:
        """Take out again what was taken: others will have these numbers."""
        cdef const Segment* segment
        cdef const Entry* entry
        cdef Table* table
        cdef uint64_t at
        cdef Key key
        while self._next != self._kept:
            self._next -= 1
            segment = self._segments + self._segment_of(self._next)
            entry = segment.entries + self._next % SEGMENT
            key.text, key.size = segment.texts + entry.text_start, entry.text_stop - entry.text_start
            take_hash(&key)
            table = self._table(&key)
            at = key.half >> 1 & table.mask
            while table.places[at] != (key.half << 32 | self._next):
                at = (at + 1) & table.mask
            table.places[at] = DROPPED

    cdef inline bint _is_in_use(self, uint64_t place) noexcept nogil:
        return place >> 32 and self._is_there(<uint32_t>place)

    cdef bint _make_anew(self, Table* table) noexcept nogil:
        """Make a table anew, with room for more; False when there is no memory."""
        cdef Table fresh
        cdef uint64_t at, live = 0
        for at in range(table.mask + 1):
            live += self._is_in_use(table.places[at])
        fresh.mask, fresh.used = PLACES_MIN - 1, 0
        while fresh.mask + 1 < 2 * (live + 1):
            fresh.mask = 2 * fresh.mask + 1
        fresh.places = <uint64_t*>calloc(fresh.mask + 1, sizeof(uint64_t))
        if fresh.places == NULL:
            return False
        for at in range(table.mask + 1):
            if self._is_in_use(table.places[at]):
                put(&fresh, table.places[at])
        free(table.places)
        table[0] = fresh
        return True

