# cython: language_level=3, boundscheck=False, wraparound=False
"""The compiled twin of `pure.py`: same classes, same answers; the reasons are given there."""

from cpython cimport array
from cpython.dict cimport PyDict_GetItemWithError
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from cpython.object cimport PyObject_Hash
from cpython.ref cimport PyObject

import array
from itertools import chain

cdef enum:
    ALONE_MAX = 10000
    PARTS = 256
    PART_MAX = 4096
    ORDERED_PART_MAX = 87381


cdef class PartedNames:
    """Values by name."""

    cdef readonly list parts
    cdef Py_ssize_t _mask, _count, _alone_max

    def __init__(self, Py_ssize_t alone_max=ALONE_MAX):
        self.parts = [{}]
        self._mask = 0
        self._count = 0
        self._alone_max = alone_max

    cdef inline dict _part(self, bytes name):
        return <dict>self.parts[<Py_ssize_t>PyObject_Hash(name) & self._mask]

    def __len__(self):
        return self._count

    def __iter__(self):
        return chain.from_iterable(self.parts)

    def __contains__(self, bytes name not None):
        return name in self._part(name)

    def __getitem__(self, bytes name not None):
        return self._part(name)[name]

    def __setitem__(self, bytes name not None, value):
        cdef dict part
        cdef Py_ssize_t before
        if not self._mask and self._count >= self._alone_max:
            self._spread()
        part = self._part(name)
        before = len(part)
        part[name] = value
        self._count += len(part) - before

    def __delitem__(self, bytes name not None):
        del self._part(name)[name]
        self._count -= 1

    def get(self, bytes name not None):
        """Return the value of a name, None if it has none."""
        return self._part(name).get(name)

    def values(self):
        """Iterate over the values."""
        return chain.from_iterable([(<dict>part).values() for part in self.parts])

    def items(self):
        """Iterate over names and their values."""
        return chain.from_iterable([(<dict>part).items() for part in self.parts])

    def number_all(self, names, Py_ssize_t first):
        """Give names the numbers from `first` on, but for those that have another one; return the
        numbers that these were to have."""
        cdef list taken = []
        cdef bytes name
        cdef Py_ssize_t number = first
        for name in names:
            held = self._part(name).get(name)
            if held is None:
                self[name] = number
            elif held != number:
                taken.append(number)
            number += 1
        return taken

    cdef _spread(self):
        cdef dict alone = self.parts[0]
        self._mask = PARTS - 1
        self.parts = [{} for _ in range(PARTS)]
        for name, value in alone.items():
            self._part(name)[name] = value


cdef class PartedSequences:
    """Values by sequence."""

    cdef readonly list parts
    cdef dict _last
    cdef array.array _firsts
    cdef Py_ssize_t _others, _part_max, _few

    def __init__(self, Py_ssize_t part_max=PART_MAX):
        self._last = {}
        self.parts = [self._last]
        self._firsts = array.array("Q", [0])
        self._others = 0
        self._part_max, self._few = part_max, part_max // 4

    cdef Py_ssize_t _place(self, object sequence) except -1:
        """Return the place of the part that alone may hold a sequence."""
        cdef Py_ssize_t low = 0, high = len(self.parts), middle
        cdef unsigned long long number
        cdef unsigned long long* firsts = self._firsts.data.as_ulonglongs
        if high == 1:
            return 0
        try:
            number = sequence
        except OverflowError:  # no part may
            return high - 1
        while low < high:
            middle = (low + high) // 2
            if firsts[middle] <= number:
                low = middle + 1
            else:
                high = middle
        return low - 1  # as the first one begins with 0

    cdef inline dict _part(self, object sequence):
        return <dict>self.parts[self._place(sequence)]

    def __len__(self):
        return self._others + len(self._last)

    def __iter__(self):
        return chain.from_iterable(self.parts)

    def __reversed__(self):
        return chain.from_iterable(map(reversed, reversed(self.parts)))

    def __contains__(self, sequence):
        return sequence in self._part(sequence)

    def __getitem__(self, sequence):
        return self._part(sequence)[sequence]

    def __setitem__(self, sequence, value):
        if len(self._last) >= self._part_max:
            self._firsts.append(sequence)
            self._others += len(self._last)
            self._last = {}
            self.parts.append(self._last)
        self._last[sequence] = value

    def extend(self, sequences, value):
        """Give a value to each of rising sequences."""
        for sequence in sequences:
            self[sequence] = value

    def __delitem__(self, sequence):
        cdef Py_ssize_t place = self._place(sequence)
        cdef dict part = <dict>self.parts[place]
        del part[sequence]
        if part is not self._last:
            self._settle(place, len(part) + 1)

    def get(self, sequence):
        """Return the value of a sequence, None if it has none."""
        return self._part(sequence).get(sequence)

    def pop(self, sequence):
        """Take out a value and return it, None if there is none."""
        cdef Py_ssize_t place = self._place(sequence)
        cdef dict part = <dict>self.parts[place]
        value = part.pop(sequence, None)
        if value is not None and part is not self._last:
            self._settle(place, len(part) + 1)
        return value

    def pop_all(self, sequences):
        """Take out the values of those of some sequences that have one, and return these."""
        cdef list values = []
        for sequence in sequences:
            value = self.pop(sequence)
            if value is not None:
                values.append(value)
        return values

    def values(self):
        """Iterate over the values, by rising sequences."""
        return chain.from_iterable([(<dict>part).values() for part in self.parts])

    def held(self, sequences):
        """Return those of rising sequences that have a value."""
        return self._among(sequences, False)

    def values_of(self, sequences):
        """Return the values of those of rising sequences that have one."""
        return self._among(sequences, True)

    cdef list _among(self, object sequences, bint of_values):
        cdef list found = []
        cdef dict part = None
        cdef unsigned long long number, stop = 0
        cdef Py_ssize_t place, count = len(self.parts)
        for sequence in sequences:
            number = sequence
            if part is None or (number >= stop and part is not self._last):
                place = self._place(sequence)
                part = <dict>self.parts[place]
                stop = self._firsts.data.as_ulonglongs[place + 1] if place + 1 < count else 0
            value = part.get(sequence, self)
            if value is not self:
                found.append(value if of_values else sequence)
        return found

    cdef _settle(self, Py_ssize_t place, Py_ssize_t before):
        """A part that is not the last held so many sequences, and holds one fewer."""
        cdef list parts = self.parts
        cdef dict part = <dict>parts[place]
        cdef Py_ssize_t count = len(part)
        self._others -= before - count
        if not count:
            self._remove(place)
        elif count == self._few:
            if place and len(<dict>parts[place - 1]) <= self._few:
                parts[place - 1] = <dict>parts[place - 1] | part
                self._remove(place)
            elif parts[place + 1] is not self._last and len(<dict>parts[place + 1]) <= self._few:
                parts[place] = part | <dict>parts[place + 1]
                self._remove(place + 1)
            else:
                parts[place] = dict(part)

    cdef _remove(self, Py_ssize_t place):
        del self.parts[place]
        del self._firsts[place]
        self._firsts[0] = 0


cdef class PartedOrder:
    """Values by key in the order in which they came."""

    cdef readonly list parts
    cdef dict _last
    cdef Py_ssize_t _others, _part_max, _few

    def __init__(self, dict entries=None, *, Py_ssize_t part_max=ORDERED_PART_MAX):
        self._last = {} if entries is None else entries
        self.parts = [self._last]
        self._others = 0
        self._part_max, self._few = part_max, part_max // 3

    cdef inline Py_ssize_t _place(self, object key) except -2:
        """Return the place of the part that holds a key, -1 if none does."""
        cdef Py_ssize_t place
        for place in range(PyList_GET_SIZE(self.parts)):
            if key in <dict>PyList_GET_ITEM(self.parts, place):
                return place
        return -1

    def __len__(self):
        return self._others + len(self._last)

    def __iter__(self):
        if len(self.parts) == 1:
            return iter(self._last)
        return chain.from_iterable(self.parts)

    def __contains__(self, key):
        return self._place(key) >= 0

    def __getitem__(self, key):
        cdef Py_ssize_t place = self._place(key)
        if place < 0:
            raise KeyError(key)
        return (<dict>self.parts[place])[key]

    def __setitem__(self, key, value):
        cdef Py_ssize_t place = self._place(key)
        if place < 0:
            self._append(key, value)
        else:
            (<dict>self.parts[place])[key] = value

    def __delitem__(self, key):
        if not self.discard(key):
            raise KeyError(key)

    def get(self, key):
        """Return the value of a key, None if it has none."""
        cdef Py_ssize_t place
        cdef PyObject* value
        for place in range(PyList_GET_SIZE(self.parts)):
            value = PyDict_GetItemWithError(<dict>PyList_GET_ITEM(self.parts, place), key)
            if value != NULL:
                return <object>value
        return None

    def add(self, key, value):
        """Give a value to a key that has none."""
        self._append(key, value)

    def discard(self, key):
        """Take a key out; tell whether it was there."""
        cdef Py_ssize_t place = self._place(key)
        cdef dict part
        if place < 0:
            return False
        part = <dict>self.parts[place]
        del part[key]
        if part is not self._last:
            self._settle(place)
        return True

    def values(self):
        """Iterate over the values."""
        return chain.from_iterable([(<dict>part).values() for part in self.parts])

    def items(self):
        """Iterate over keys and their values."""
        return chain.from_iterable([(<dict>part).items() for part in self.parts])

    cdef int _append(self, key, value) except -1:
        if len(self._last) >= self._part_max:
            self._others += len(self._last)
            self._last = {}
            self.parts.append(self._last)
        self._last[key] = value
        return 0

    cdef int _settle(self, Py_ssize_t place) except -1:
        """A part that is not the last has one key fewer."""
        cdef list parts = self.parts
        cdef dict part = <dict>parts[place]
        cdef Py_ssize_t count = len(part)
        self._others -= 1
        if not count:
            del parts[place]
        elif count == self._few:
            if place and len(<dict>parts[place - 1]) <= self._few:
                parts[place - 1 : place + 1] = [<dict>parts[place - 1] | part]
            elif parts[place + 1] is not self._last and len(<dict>parts[place + 1]) <= self._few:
                parts[place : place + 2] = [part | <dict>parts[place + 1]]
        return 0
