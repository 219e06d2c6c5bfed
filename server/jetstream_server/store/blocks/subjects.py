"""The subjects of one file store: numbers for names, and how many messages each has.

A subject id is the index of a subject in the order in which it was met; the compiled kernels count
by these numbers. `firsts` and `lasts` are bounds: the first message of a subject is at or after
`firsts[id]`, the last at or before `lasts[id]`; deleting the first or last message leaves them as
they are, and the store tightens them when they are asked for.

Cost: a name, a dictionary entry and 24 bytes of counters per subject. Subjects without messages are
kept until `renumber`. As they may be very many, the names are in parts, and are forgotten while
others come.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol
from weakref import WeakValueDictionary

from jetstream_server.core.pattern_tree import PatternTree
from jetstream_server.kernels import columns, filters
from jetstream_server.kernels.interned import Interned
from jetstream_server.store.blocks.block_counts import BlockCounts
from jetstream_server.store.blocks.renumbering import Renumbering
from jetstream_server.store.ports import Leftover

_ANY_COUNT = 1 << 62
_ANY_SEQ = (1 << 64) - 1
_BOUNDS_MAX = 20_000  # subjects looked at for the next message
_SETS_KEPT = 4  # sets that nobody holds: requests often ask by the same wildcard again
_COMPARED_MAX = 64  # patterns with wildcards; of more, a tree is made
_PATTERNS_LOOKED_FOR = 8  # among the names of a block
_LITERALS_LOOKED_FOR = 1000  # among the names of the table; if there are more, all are walked
_BLOCKS_REMEMBERED = 4  # for one set; several consumers may read with it
# Subjects that a renumbering goes through for each that comes: it keeps up with those, and takes no
# longer than they do.
_PASSED_FOR_NEW = 4
_PASSED_AT_ONCE_MAX = 20_000  # some ten milliseconds
_NOBODY = b""  # no message has this subject
RECENT_MAX = 20_000  # numbers noted; if there are half as many, whoever asks looks at all


class OwnSubjects(Protocol):
    """The subjects of a block, which have numbers of their own."""

    @property
    def is_numbered(self) -> bool:
        """Tell whether `table_ids` is there."""
        ...

    @property
    def table_ids(self) -> array[int]:
        """Their numbers in the table."""
        ...

    def marked(self, patterns: tuple[bytes, ...]) -> bytes:
        """Return which of them patterns match, a byte for each."""
        ...


class SubjectTable:
    """Numbers and counters of subjects.

    Attributes:
        ids: name to number; the kernels add to it, and `grow` then catches up.
        names: number to name; those of `ids`.
        counts, firsts, lasts: `array('Q')` by number.
        loose_until: bounds up to here may be messages of another subject; any other bound is, or
            was, one of its own.
        present: how many have messages.
        generation: rises when numbers change their meaning.
        recent: subjects appended to since `take_recent`, or more than `RECENT_MAX` of these; None
            while nobody asks for them.
    """

    def __init__(self) -> None:
        self.ids = Interned()
        self.names = self.ids.names
        self.counts = array("Q")
        self.firsts = array("Q")
        self.lasts = array("Q")
        self.loose_until = 0
        self.present = 0
        self.generation = 0
        self.recent: dict[int, None] | None = None
        # What is yet to be freed, some at a time: half a million names take a tenth of a second.
        self._forgotten: list[Interned] = []
        self._renumbering: Renumbering | None = None  # that has begun
        # Compiled patterns that somebody holds, and the latest of them, which stay for a while.
        self._sets: WeakValueDictionary[tuple[bytes, ...], SubjectSet] = WeakValueDictionary()
        self._kept: deque[SubjectSet] = deque(maxlen=_SETS_KEPT)

    def choose(self, patterns: Sequence[bytes]) -> SubjectSet:
        """Return the set of some patterns, the same one for all who hold it."""
        key = tuple(dict.fromkeys(patterns))
        found = self._sets.get(key)
        if found is None:
            found = self._sets[key] = SubjectSet(key, self)
        if found.has_wildcards and found not in self._kept:
            self._kept.append(found)
        return found

    def grow(self) -> None:
        """Make room for names that a kernel added to `ids`."""
        missing = len(self.names) - len(self.counts)
        if missing:
            if self._renumbering is not None:  # before those come of which no message is counted
                self.go_on_renumbering(min(_PASSED_FOR_NEW * missing, _PASSED_AT_ONCE_MAX))
            zeros = bytes(8 * missing)
            self.counts.frombytes(zeros)
            self.firsts.frombytes(zeros)
            self.lasts.frombytes(zeros)
            self.ids.spread()

    def add(self, names: Iterable[bytes]) -> array[int]:
        """Return the numbers of names, new ones included."""
        numbers = array("I", map(self.ids.number, names))
        self.grow()
        return numbers

    def add_stored(self, names: bytes, lengths: array[int]) -> array[int]:
        """Return the numbers of names that stand one after the other, new ones included."""
        numbers = columns.number_names(names, lengths, self.ids)
        self.grow()
        return numbers

    def count_of(self, name: bytes) -> int:
        """Return how many messages a subject has."""
        number = self.ids.get(name)
        return self.counts[number] if number >= 0 else 0

    def take_recent(self) -> dict[int, None]:
        """Return the numbers appended to since the last call, and note more from now on.

        After `renumber` nothing is noted until the next call.
        """
        recent, self.recent = self.recent, {}
        return recent or {}

    @property
    def absent(self) -> int:
        """Return how many known subjects have no message."""
        return len(self.names) - self.present

    @property
    def is_renumbering(self) -> bool:
        """Tell whether it is prepared that subjects without messages are forgotten."""
        return self._renumbering is not None

    def go_on_renumbering(self, names_max: int) -> None:
        """If it is prepared that subjects are forgotten, go through some more of all."""
        if self._renumbering is not None:
            self._renumbering.go_on(self.names, self.counts, names_max)

    def prepare_to_renumber(self, names_max: int) -> bool:
        """Begin to forget subjects without messages, or go on with up to `names_max` of all; tell
        whether they may be renumbered now, before there are others."""
        renumbering = self._renumbering
        if renumbering is None:
            renumbering = self._renumbering = Renumbering(self.present)
        if not renumbering.go_on(self.names, self.counts, names_max):
            return False
        returned = self._returned(renumbering)
        renumbering.keep(self.names, returned[:names_max])
        return len(returned) <= names_max

    def renumber(self) -> array[int]:
        """Forget subjects without messages; nobody may hold numbers across this, but for those who
        have them changed by what this returns (`columns.carry`). It is prepared."""
        renumbering, self._renumbering = self._renumbering, None
        assert renumbering is not None and len(renumbering.moved) == len(self.names)
        self._forgotten.append(self.ids)
        self.ids, moved = renumbering.ids, renumbering.moved
        self.names = self.ids.names
        for values in (self.counts, self.firsts, self.lasts):
            columns.carry_values(values, moved, len(self.names))
        self.generation += 1
        self.recent = None
        return moved

    def end(self, let_go: Callable[[Leftover], None]) -> None:
        """Know no subject any more. Their names are let go by somebody else: to free a million
        takes a tenth of a second."""
        gone, self._forgotten = [*self._forgotten, self.ids], []
        if self._renumbering is not None:
            gone.append(self._renumbering.ids)
            self._renumbering = None
        self.ids = Interned()
        self.names = self.ids.names
        self.counts, self.firsts, self.lasts = array("Q"), array("Q"), array("Q")
        self.present = 0
        self.generation += 1
        self.recent = None
        self._sets.clear()
        self._kept.clear()  # they know this table
        for ids in gone:
            let_go(ids.names)
            let_go(ids.parts)

    def nobody(self) -> int:
        """Return the number of a subject that never has messages."""
        number = self.ids.number(_NOBODY)
        self.grow()
        return number

    def _returned(self, renumbering: Renumbering) -> array[int]:
        """Return the numbers of those that have been left out and have messages again."""
        return filters.present(renumbering.left_out, self.counts, self.lasts, 0, _ANY_SEQ)

    def let_go(self, names_max: int) -> bool:
        """Free some names of subjects that were forgotten; tell whether there were any."""
        if not self._forgotten:
            return False
        names, parts = self._forgotten[-1].names, self._forgotten[-1].parts
        del names[-names_max:]
        left = names_max
        while parts and left > 0:
            some = min(left, len(parts[-1]))
            for _ in range(some):
                parts[-1].popitem()
            left -= some
            if not parts[-1]:
                parts.pop()
        if not names and not parts:
            self._forgotten.pop()
        return True


class SubjectSet:
    """A compiled set of patterns over one table: one flag per subject id, extended as ids come.

    Args:
        patterns: without repetitions.
        table: the subjects they are about.

    Attributes:
        in_blocks: how many of its messages each block has, as far as that is known.
    """

    def __init__(self, patterns: tuple[bytes, ...], table: SubjectTable) -> None:
        self.patterns = patterns
        self._table = table
        together = b"".join(patterns)  # thousands of literals are told apart at a glance
        self._wild: tuple[bytes, ...] = ()
        self._literals = patterns
        if b"*" in together or b">" in together:
            # Those that hold one of these as a part of a token cost a little more.
            self._wild = tuple([each for each in patterns if b"*" in each or b">" in each])
            wild = {*self._wild}
            self._literals = tuple([each for each in patterns if each not in wild])
        self._among = frozenset[bytes]()  # the literals, if they are many
        if len(self._literals) > _LITERALS_LOOKED_FOR:
            self._among = frozenset(self._literals)
        self._tree = PatternTree()  # of those with wildcards, if there are many
        self._planted = 0  # how many of them are in it
        self._flags = bytearray()  # by subject id, 1 if wanted; the ids beyond are undecided
        self._generation = table.generation  # for which the flags hold
        self._local: dict[tuple[int, int], bytes] = {}  # flags by a block's own subjects
        self.in_blocks = BlockCounts()

    @property
    def has_wildcards(self) -> bool:
        """Tell whether any of the patterns has a wildcard."""
        return bool(self._wild)

    @property
    def _is_looked_for(self) -> bool:
        """Whether its subjects are looked up one by one: few literals among any number of names,
        or those on which nobody has decided."""
        return not self._wild and not (
            self._among
            and self._generation == self._table.generation
            and len(self._flags) == len(self._table.names)
        )

    def flags(self) -> bytearray:
        """Return one byte per subject id."""
        self.decide(_ANY_COUNT)
        return self._flags

    def decide(self, names_max: int) -> bool:
        """Look at up to `names_max` more subjects, or fewer if there are many wildcards; tell
        whether all have been looked at."""
        table, flags = self._table, self._flags
        if self._generation != table.generation:
            self._generation = table.generation
            flags.clear()
            self._local.clear()
        known, stop = len(flags), len(table.names)
        if known == stop:
            return True
        if self._wild:
            if len(self._wild) > _COMPARED_MAX:
                steps = max(names_max // _COMPARED_MAX, 1)
                if not self._plant(steps):
                    return False
                stop = min(stop, known + steps)
                flags.extend(bytes(stop - known))
                self._mark_by_tree(known, stop)
            else:
                if names_max < (stop - known) * len(self._wild):
                    stop = known + max(names_max // len(self._wild), 1)
                flags.extend(bytes(stop - known))
                filters.mark(table.names, known, stop, self._wild, flags)
        elif self._among:
            stop = min(stop, known + names_max)
            flags.extend(map(self._among.__contains__, table.names[known:stop]))
            return stop == len(table.names)
        else:
            flags.extend(bytes(stop - known))
        if self._among:
            for number in range(known, stop):
                flags[number] |= table.names[number] in self._among
            return stop == len(table.names)
        for literal in self._literals:
            number = table.ids.get(literal)
            if known <= number < stop:
                flags[number] = 1
        return stop == len(table.names)

    def _plant(self, count: int) -> bool:
        """Put some of the patterns into the tree; tell whether all are there."""
        start, stop = self._planted, min(self._planted + count, len(self._wild))
        for place in range(start, stop):
            self._tree.add(self._wild[place])
        self._planted = stop
        return stop == len(self._wild)

    def _mark_by_tree(self, start: int, stop: int) -> None:
        names, flags, covers = self._table.names, self._flags, self._tree.covers
        for number in range(start, stop):
            is_wanted = covers(names[number])
            if is_wanted is None:
                filters.mark(names, number, number + 1, self._wild, flags)
            elif is_wanted:
                flags[number] = 1

    def local_flags(self, block: tuple[int, int], own: OwnSubjects) -> bytes:
        """Return one byte per subject of a block; the answers for the last few blocks are
        remembered."""
        found = self._local.get(block)
        if found is None:
            # Numbering all subjects of a block takes longer than matching their names against a few
            # patterns. If the numbers are there already, or the patterns are many, the table is
            # asked.
            if own.is_numbered or len(self.patterns) > _PATTERNS_LOOKED_FOR:
                numbers = own.table_ids  # which may add names that are gone to the table
                found = filters.spread(self.flags(), numbers)
            else:
                found = own.marked(self.patterns)
            while len(self._local) >= _BLOCKS_REMEMBERED:
                del self._local[next(iter(self._local))]
            self._local[block] = found
        return found

    def total(self) -> int:
        """Return how many messages the matching subjects have."""
        table = self._table
        if not self._wild:
            return sum(map(table.count_of, self._literals))
        return filters.total(self.flags(), table.counts)

    def matching(self, low: int = 0, high: int = _ANY_SEQ) -> array[int]:
        """Return the ids, `array('I')`, of the matching subjects that have messages and low <=
        `lasts` <= high."""
        table, lasts = self._table, self._table.lasts
        if self._is_looked_for:
            numbers = (table.ids[name] for name in self._literals if table.count_of(name))
            return array("I", [number for number in numbers if low <= lasts[number] <= high])
        return filters.present(self.flags(), table.counts, lasts, low, high)

    def begun(self, high: int) -> array[int]:
        """Return the ids, `array('I')`, of the matching subjects that have messages, and perhaps
        some up to `high`: `firsts` <= high."""
        table, firsts = self._table, self._table.firsts
        if self._is_looked_for:
            return array("I", [number for number in self.matching() if firsts[number] <= high])
        return filters.present(self.flags(), table.counts, firsts, 0, high)

    def next_bound(self, start: int) -> int:
        """Return a sequence, from `start` on, before which there is no matching message; 0 when
        none follows. With very many subjects it is not looked for."""
        table = self._table
        if not self._wild:
            numbers = self.matching(start)
            return min((max(table.firsts[number], start) for number in numbers), default=0)
        if len(table.names) > _BOUNDS_MAX:
            return start
        return filters.next_bound(self.flags(), table.counts, table.firsts, table.lasts, start)

    def newest(self) -> int:
        """Return the id of the matching subject with messages whose `lasts` is the highest, -1 when
        there is none."""
        table = self._table
        if not self._wild:
            return max(self.matching(), key=table.lasts.__getitem__, default=-1)
        return filters.newest(self.flags(), table.counts, table.lasts)
