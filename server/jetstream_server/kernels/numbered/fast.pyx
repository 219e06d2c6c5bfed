# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The compiled twin of `pure.py`: same classes, same answers; the reasons are given there.

Both classes keep pairs in pages that rise: each begins above the last pair of the one before it. A
page that is full is cut in two, unless what comes is above all there is; neighbours that have
little left are put together.
"""

from cpython cimport array
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from libc.string cimport memcpy, memmove, memset

import array

from jetstream_server.kernels.digits cimport u64

cdef enum:
    PAGE_MAX = 1024
    ROOM_MIN = 8  # pairs

cdef array.array _NONE = array.array("Q")
cdef object _U64_MAX = (1 << 64) - 1

cdef struct Pair:
    u64 key
    u64 value

cdef struct Page:
    Pair* pairs
    Py_ssize_t count
    Py_ssize_t room


cdef struct Thinning:
    Py_ssize_t page  # from which pairs are being taken, -1 for none
    Py_ssize_t count, first  # of those that are gone
    unsigned char gone[PAGE_MAX]


cdef inline bint _is_below(const Pair* pair, u64 key, u64 value) noexcept:
    return pair.key < key or (pair.key == key and pair.value < value)


cdef inline const u64* _words(array.array given) except? NULL:
    if given.ob_descr.typecode != c"Q":  # what has fewer bytes would be read beyond its end
        raise TypeError(f"an array of {chr(given.ob_descr.typecode)!r}, not of 'Q'")
    return <const u64*>given.data.as_ulonglongs


cdef class Pages:
    """Rising pairs. Where they are ranked several may have one key, and they rise by their values
    as well; otherwise whoever looks for a key gives 0 for its value."""

    cdef Page* pages  # none is empty
    cdef Py_ssize_t page_count, page_room, page_max, count
    # Where the last one was found: what is asked for together mostly lies together.
    cdef Py_ssize_t page_at, at
    cdef bint are_ranked

    def __cinit__(self, Py_ssize_t page_max, bint are_ranked):
        if not 2 <= page_max <= PAGE_MAX:
            raise ValueError(f"a page of {page_max}")
        self.page_max = page_max
        self.are_ranked = are_ranked

    def __dealloc__(self):
        self.clear()

    cdef void clear(self) noexcept:
        cdef Py_ssize_t at
        for at in range(self.page_count):
            PyMem_Free(self.pages[at].pairs)
        PyMem_Free(self.pages)
        self.pages = NULL
        self.page_count = self.page_room = self.count = self.page_at = self.at = 0

    cdef Py_ssize_t taken_bytes(self) noexcept:
        cdef Py_ssize_t at, taken = sizeof(Pages) + self.page_room * sizeof(Page)
        for at in range(self.page_count):
            taken += self.pages[at].room * sizeof(Pair)
        return taken

    cdef bint go_to(self, u64 key, u64 value) noexcept:
        """Go to the first pair that is not below this one, in the page in which it would be; tell
        whether it has the same key. Something must be there."""
        cdef Py_ssize_t low, high, middle
        cdef Page* page = self.pages + self.page_at
        if (self.page_at and not self._begins_up_to(self.page_at, key, value)) or (
            self.page_at + 1 < self.page_count and self._begins_up_to(self.page_at + 1, key, value)
        ):
            low, high = 0, self.page_count
            while low < high:
                middle = (low + high) // 2
                if self._begins_up_to(middle, key, value):
                    low = middle + 1
                else:
                    high = middle
            self.page_at = low - 1 if low else 0
            self.at = 0
            page = self.pages + self.page_at
        low, high = 0, page.count
        if self.at < high:
            if _is_below(page.pairs + self.at, key, value):
                low = self.at + 1
                if low < high and not _is_below(page.pairs + low, key, value):
                    high = low
            else:
                high = self.at
                if high and _is_below(page.pairs + high - 1, key, value):
                    low = high
        while low < high:
            middle = (low + high) // 2
            if _is_below(page.pairs + middle, key, value):
                low = middle + 1
            else:
                high = middle
        self.at = low
        return low < page.count and page.pairs[low].key == key

    cdef inline bint _begins_up_to(self, Py_ssize_t place, u64 key, u64 value) noexcept:
        cdef const Pair* first = self.pages[place].pairs
        return first.key < key or (
            first.key == key and (first.value <= value or not self.are_ranked)
        )

    cdef int insert(self, u64 key, u64 value) except -1:
        """Put a pair there where `go_to` has gone, which did not find it."""
        cdef Page* page
        cdef Pair* pairs
        cdef Py_ssize_t half
        if not self.page_count:
            self._add_page(0)
        page = self.pages + self.page_at
        if page.count >= self.page_max:
            half = page.count // 2
            if self.at == page.count and self.page_at + 1 == self.page_count:
                half = page.count
            self._add_page(self.page_at + 1)
            page = self.pages + self.page_at
            if half < page.count:
                self._widen(page + 1, page.count - half)
                page[1].count = page.count - half
                memcpy(page[1].pairs, page.pairs + half, page[1].count * sizeof(Pair))
                page.count = half
            if self.at > half or half == self.page_max:
                self.page_at += 1
                self.at -= half
                page += 1
        if page.count == page.room:
            self._widen(page, min(max(2 * page.room, ROOM_MIN), self.page_max))
        pairs = page.pairs + self.at
        memmove(pairs + 1, pairs, (page.count - self.at) * sizeof(Pair))
        pairs.key = key
        pairs.value = value
        page.count += 1
        self.count += 1
        return 0

    cdef int thin_out(self, Thinning* thinning) except -1:
        """Take out of a page what is marked as gone."""
        cdef Py_ssize_t place = thinning.page
        cdef Page* page = self.pages + place
        cdef Py_ssize_t at, kept = thinning.first, few = self.page_max // 4
        cdef Pair* pairs = page.pairs + kept
        if thinning.count == 1:
            memmove(pairs, pairs + 1, (page.count - kept - 1) * sizeof(Pair))
            kept = page.count - 1
        else:
            for at in range(kept, page.count):
                if not thinning.gone[at]:
                    page.pairs[kept] = page.pairs[at]
                    kept += 1
        self.count -= page.count - kept
        page.count = kept
        self.page_at = self.at = 0
        if not kept:
            self.remove_pages(place, place + 1)
        elif kept <= few:
            if place + 1 < self.page_count and page[1].count <= few:
                self._join(place)
            elif place and (page - 1).count <= few:
                self._join(place - 1)
            elif page.room > 4 * max(kept, ROOM_MIN):
                pairs = <Pair*>PyMem_Realloc(page.pairs, 2 * kept * sizeof(Pair))
                if pairs != NULL:
                    page.pairs = pairs
                    page.room = 2 * kept
        return 0

    cdef void remove_pages(self, Py_ssize_t place, Py_ssize_t stop) noexcept:
        cdef Py_ssize_t at
        for at in range(place, stop):
            PyMem_Free(self.pages[at].pairs)
        memmove(self.pages + place, self.pages + stop, (self.page_count - stop) * sizeof(Page))
        self.page_count -= stop - place

    cdef int copy_to(self, Pages other) except -1:
        cdef Py_ssize_t at
        cdef Page* page
        cdef Pair* pairs
        other._make_room(self.page_count)
        for at in range(self.page_count):
            page = self.pages + at
            pairs = <Pair*>PyMem_Malloc(page.count * sizeof(Pair))
            if pairs == NULL:
                raise MemoryError
            memcpy(pairs, page.pairs, page.count * sizeof(Pair))
            other.pages[at] = Page(pairs, page.count, page.count)
            other.page_count += 1
            other.count += page.count
        return 0

    cdef int _make_room(self, Py_ssize_t count) except -1:
        """See to room for so many pages."""
        cdef Page* pages
        if count > self.page_room:
            count = max(count, 2 * self.page_room)
            pages = <Page*>PyMem_Realloc(self.pages, count * sizeof(Page))
            if pages == NULL:
                raise MemoryError
            self.pages = pages
            self.page_room = count
        return 0

    cdef int _add_page(self, Py_ssize_t place) except -1:
        """Put a page there that has nothing yet, and room for something."""
        cdef Page added = Page(NULL, 0, 0)
        self._make_room(self.page_count + 1)
        self._widen(&added, ROOM_MIN)
        memmove(
            self.pages + place + 1, self.pages + place, (self.page_count - place) * sizeof(Page)
        )
        self.pages[place] = added
        self.page_count += 1
        return 0

    cdef int _widen(self, Page* page, Py_ssize_t room) except -1:
        """Give a page room for so many."""
        cdef Pair* pairs
        if room > page.room:
            pairs = <Pair*>PyMem_Realloc(page.pairs, room * sizeof(Pair))
            if pairs == NULL:
                raise MemoryError
            page.pairs = pairs
            page.room = room
        return 0

    cdef int _join(self, Py_ssize_t place) except -1:
        """Put a page and the next one together."""
        cdef Page* page = self.pages + place
        self._widen(page, page.count + page[1].count)
        memcpy(page.pairs + page.count, page[1].pairs, page[1].count * sizeof(Pair))
        page.count += page[1].count
        self.remove_pages(place + 1, place + 2)
        return 0


cdef class NumberedSequences:
    """Numbers by sequence."""

    cdef Pages _pages

    def __cinit__(self, Py_ssize_t page_max=PAGE_MAX):
        self._pages = Pages(page_max, False)

    def __len__(self):
        return self._pages.count

    def __sizeof__(self):
        return sizeof(NumberedSequences) + self._pages.taken_bytes()

    def __iter__(self):
        """Iterate over the sequences as they are now, rising."""
        return iter(self.columns()[0])

    def __contains__(self, sequence):
        return self.get(sequence) != 0

    cpdef u64 get(self, sequence) except? 0:
        """Return the number of a sequence, 0 if it has none."""
        cdef u64 key
        try:
            key = sequence
        except OverflowError:
            return 0
        return self._number(key)

    def numbers(self, array.array sequences not None):
        """Return the numbers of sequences, 0 for one that has none."""
        cdef Py_ssize_t at, count = len(sequences)
        cdef const u64* given = _words(sequences)
        cdef array.array numbers = array.clone(_NONE, count, False)
        cdef u64* found = <u64*>numbers.data.as_ulonglongs
        for at in range(count):
            found[at] = self._number(given[at])
        return numbers

    def without(self, array.array sequences not None):
        """Return those of some sequences that have no number."""
        return self._having(sequences, 0)

    def numbered(self, array.array sequences not None, u64 number):
        """Return those of some sequences that have a certain number."""
        return self._having(sequences, number)

    def follow(self, array.array sequences not None, u64 first):
        """Return for each of some sequences 1 if its number is `first`, `first + 1` and so on, and
        otherwise 0."""
        cdef Py_ssize_t at, count = len(sequences)
        cdef const u64* given = _words(sequences)
        cdef bytes flags = PyBytes_FromStringAndSize(NULL, count)
        cdef char* flag = PyBytes_AS_STRING(flags)
        for at in range(count):
            flag[at] = self._number(given[at]) == first + <u64>at
        return flags

    def following(self, array.array sequences not None, u64 first):
        """Return those of some sequences whose number is `first`, `first + 1` and so on."""
        cdef Py_ssize_t at, found = 0, count = len(sequences)
        cdef const u64* given = _words(sequences)
        cdef array.array following = array.clone(_NONE, count, False)
        cdef u64* kept = <u64*>following.data.as_ulonglongs
        for at in range(count):
            if self._number(given[at]) == first + <u64>at:
                kept[found] = given[at]
                found += 1
        array.resize(following, found)
        return following

    def columns(self):
        """Return all sequences, rising, and their numbers."""
        return self._stretch(0, 0, self._pages.page_count, 0)

    def within(self, start, stop):
        """Return the sequences with start <= sequence < stop, rising, and their numbers."""
        cdef Pages pages = self._pages
        cdef Py_ssize_t first, at
        if stop <= start or not pages.count or start > _U64_MAX:
            return array.clone(_NONE, 0, False), array.clone(_NONE, 0, False)
        pages.go_to(start, 0)
        first, at = pages.page_at, pages.at
        if stop > _U64_MAX:
            return self._stretch(first, at, pages.page_count, 0)
        pages.go_to(stop, 0)
        return self._stretch(first, at, pages.page_at, pages.at)

    def number_all(self, array.array sequences not None, u64 number):
        """Give one number to each."""
        cdef const u64* given = _words(sequences)
        cdef Py_ssize_t at
        for at in range(len(sequences)):
            self._set(given[at], number)

    def number_on(self, array.array sequences not None, u64 first):
        """Give them the numbers from `first` on."""
        cdef const u64* given = _words(sequences)
        cdef Py_ssize_t at
        for at in range(len(sequences)):
            self._set(given[at], first + <u64>at)

    def assign(self, array.array sequences not None, array.array numbers not None):
        """Give each sequence its number; one whose number is 0 keeps what it has."""
        cdef const u64* given = _words(sequences)
        cdef const u64* values = _words(numbers)
        cdef Py_ssize_t at, count = len(sequences)
        if count != len(numbers):
            raise ValueError("there are not as many numbers as sequences")
        for at in range(count):
            if values[at]:
                self._set(given[at], values[at])

    def drop_all(self, array.array sequences not None):
        """Take out those of some sequences that have a number."""
        cdef Pages pages = self._pages
        cdef Py_ssize_t at
        cdef const u64* given = _words(sequences)
        cdef Thinning thinning
        thinning.page = -1
        for at in range(len(sequences) if pages.count else 0):
            if pages.go_to(given[at], 0):
                _mark(pages, &thinning, given[at], 0)
        _finish(pages, &thinning)

    def pop_all(self, array.array sequences not None):
        """Take out those of some sequences that have a number; return them and their numbers."""
        cdef Pages pages = self._pages
        cdef Py_ssize_t count = min(len(sequences), pages.count)
        cdef array.array found = array.clone(_NONE, count, False)
        cdef array.array numbers = array.clone(_NONE, count, False)
        cdef Thinning thinning
        cdef const u64* given = _words(sequences)
        cdef u64* one = <u64*>found.data.as_ulonglongs
        cdef u64* other = <u64*>numbers.data.as_ulonglongs
        cdef Py_ssize_t at, taken = 0
        thinning.page = -1
        for at in range(len(sequences) if count else 0):
            if pages.go_to(given[at], 0) and _mark(pages, &thinning, given[at], 0):
                one[taken] = given[at]
                other[taken] = pages.pages[pages.page_at].pairs[pages.at].value
                taken += 1
        _finish(pages, &thinning)
        array.resize(found, taken)
        array.resize(numbers, taken)
        return found, numbers

    def copied(self):
        """Return a copy, which does not change with this."""
        cdef NumberedSequences copy = NumberedSequences(self._pages.page_max)
        self._pages.copy_to(copy._pages)
        return copy

    def clear(self):
        """Forget all."""
        self._pages.clear()

    cdef inline u64 _number(self, u64 sequence) noexcept:
        cdef Pages pages = self._pages
        if pages.count and pages.go_to(sequence, 0):
            return pages.pages[pages.page_at].pairs[pages.at].value
        return 0

    cdef inline int _set(self, u64 sequence, u64 number) except -1:
        cdef Pages pages = self._pages
        if pages.count and pages.go_to(sequence, 0):
            pages.pages[pages.page_at].pairs[pages.at].value = number
            return 0
        return pages.insert(sequence, number)

    cdef array.array _having(self, array.array sequences, u64 number):
        cdef Py_ssize_t at, found = 0, count = len(sequences)
        cdef const u64* given = _words(sequences)
        cdef array.array having = array.clone(_NONE, count, False)
        cdef u64* kept = <u64*>having.data.as_ulonglongs
        for at in range(count):
            if self._number(given[at]) == number:
                kept[found] = given[at]
                found += 1
        array.resize(having, found)
        return having

    cdef tuple _stretch(self, Py_ssize_t page, Py_ssize_t at, Py_ssize_t last, Py_ssize_t stop):
        """Return what is from a place to before another one, as two arrays."""
        cdef const Page* pages = self._pages.pages
        cdef Py_ssize_t place, end, count = stop - at
        for place in range(page, last):
            count += pages[place].count
        cdef array.array sequences = array.clone(_NONE, count, False)
        cdef array.array numbers = array.clone(_NONE, count, False)
        cdef u64* one = <u64*>sequences.data.as_ulonglongs
        cdef u64* other = <u64*>numbers.data.as_ulonglongs
        while page < last or at < stop:
            end = pages[page].count if page < last else stop
            for place in range(at, end):
                one[0] = pages[page].pairs[place].key
                other[0] = pages[page].pairs[place].value
                one += 1
                other += 1
            if page == last:
                break
            page += 1
            at = 0
        return sequences, numbers


cdef class RankedSequences:
    """Sequences by a number each of them has."""

    cdef Pages _pages  # numbers as keys

    def __cinit__(self, Py_ssize_t page_max=PAGE_MAX):
        self._pages = Pages(page_max, True)

    def __len__(self):
        return self._pages.count

    def __sizeof__(self):
        return sizeof(RankedSequences) + self._pages.taken_bytes()

    def first_number(self):
        """Return the lowest number, None if there is no sequence."""
        return self._pages.pages[0].pairs[0].key if self._pages.count else None

    def add_all(self, array.array sequences not None, u64 number):
        """Add sequences that have one number."""
        cdef const u64* given = _words(sequences)
        cdef Py_ssize_t at
        for at in range(len(sequences)):
            self._add(given[at], number)

    def add_each(self, array.array sequences not None, array.array numbers not None):
        """Add sequences, each with its number."""
        cdef const u64* given = _words(sequences)
        cdef const u64* keys = _words(numbers)
        cdef Py_ssize_t at, count = len(sequences)
        if count != len(numbers):
            raise ValueError("there are not as many numbers as sequences")
        for at in range(count):
            self._add(given[at], keys[at])

    def discard_all(self, array.array sequences not None, array.array numbers not None):
        """Drop each sequence with its number, if it is there."""
        cdef Pages pages = self._pages
        cdef Py_ssize_t at, count = len(sequences)
        cdef const u64* given = _words(sequences)
        cdef const u64* keys = _words(numbers)
        cdef Thinning thinning
        if count != len(numbers):
            raise ValueError("there are not as many numbers as sequences")
        thinning.page = -1
        for at in range(count if pages.count else 0):
            if pages.go_to(keys[at], given[at]) and _is_at(pages, given[at]):
                _mark(pages, &thinning, keys[at], given[at])
        _finish(pages, &thinning)

    def pop_through(self, number, Py_ssize_t count_max):
        """Take out the sequences with a number up to one, so many at most; return them in their
        order."""
        cdef Pages pages = self._pages
        cdef u64 highest = min(number, _U64_MAX)
        cdef Py_ssize_t count = 0, page = 0, at = 0, place
        while page < pages.page_count and count < count_max:
            if at == pages.pages[page].count:
                page += 1
                at = 0
            elif pages.pages[page].pairs[at].key <= highest:
                at += 1
                count += 1
            else:
                break
        cdef array.array popped = array.clone(_NONE, count, False)
        cdef u64* out = <u64*>popped.data.as_ulonglongs
        cdef Page* rest
        if not count:
            return popped
        if page < pages.page_count and at == pages.pages[page].count:
            page += 1
            at = 0
        for place in range(page):
            _put_values(pages.pages + place, pages.pages[place].count, &out)
        if at:
            rest = pages.pages + page
            _put_values(rest, at, &out)
            rest.count -= at
            memmove(rest.pairs, rest.pairs + at, rest.count * sizeof(Pair))
        pages.remove_pages(0, page)
        pages.count -= count
        pages.page_at = pages.at = 0
        return popped

    def clear(self):
        """Forget all."""
        self._pages.clear()

    cdef inline int _add(self, u64 sequence, u64 number) except -1:
        cdef Pages pages = self._pages
        if pages.count and pages.go_to(number, sequence) and _is_at(pages, sequence):
            return 0
        return pages.insert(number, sequence)


cdef inline bint _is_at(Pages pages, u64 value) noexcept:
    """Tell whether the pair to which `go_to` has gone has a value."""
    return pages.pages[pages.page_at].pairs[pages.at].value == value


cdef bint _mark(Pages pages, Thinning* thinning, u64 key, u64 value) except -1:
    """Mark the pair as gone to which `go_to` has gone; tell whether it was there until then."""
    if thinning.page != pages.page_at:
        if thinning.page >= 0:
            _finish(pages, thinning)
            pages.go_to(key, value)  # pages may have moved
        thinning.page, thinning.first, thinning.count = pages.page_at, pages.at, 0
        memset(thinning.gone, 0, PAGE_MAX)
    elif thinning.gone[pages.at]:
        return False
    thinning.gone[pages.at] = 1
    thinning.first = min(thinning.first, pages.at)
    thinning.count += 1
    return True


cdef int _finish(Pages pages, Thinning* thinning) except -1:
    """Take out what is marked."""
    if thinning.page >= 0:
        pages.thin_out(thinning)
        thinning.page = -1
    return 0


cdef inline void _put_values(const Page* page, Py_ssize_t count, u64** out) noexcept:
    cdef Py_ssize_t at
    for at in range(count):
        out[0][at] = page.pairs[at].value
    out[0] += count
