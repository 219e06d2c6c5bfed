"""The subjects of one file store: numbers for names, and how many messages each has.

A subject id is the index of a subject in the order in which it was met; the compiled kernels count
by these numbers. `firsts` and `lasts` are bounds: the first message of a subject is at or after
`firsts[id]`, the last at or before `lasts[id]`; deleting at the edge leaves them where they are,
and the store tightens them when somebody asks.

Cost: a name, a dictionary entry and 24 bytes of counters a subject. Subjects without messages are
kept until `renumber`.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Sequence
from itertools import islice

from jetstream_server.core.subject import is_literal
from jetstream_server.kernels import columns


class SubjectTable:
    """Numbers and counters of subjects.

    Attributes:
        ids: name to number; the kernels add to it, `grow` then catches up.
        names: number to name.
        counts, firsts, lasts: `array('Q')` by number.
        present: how many have messages.
        generation: rises when numbers change their meaning.
    """

    def __init__(self) -> None:
        self.ids: dict[bytes, int] = {}
        self.names: list[bytes] = []
        self.counts = array("Q")
        self.firsts = array("Q")
        self.lasts = array("Q")
        self.present = 0
        self.generation = 0

    def grow(self) -> None:
        """Make room for names that a kernel added to `ids`."""
        missing = len(self.ids) - len(self.names)
        if missing:
            self.names.extend(reversed(list(islice(reversed(self.ids), missing))))
            zeros = bytes(8 * missing)
            self.counts.frombytes(zeros)
            self.firsts.frombytes(zeros)
            self.lasts.frombytes(zeros)

    def add(self, names: Iterable[bytes]) -> array[int]:
        """Return the numbers of names, new ones included."""
        ids = self.ids
        numbers = array("I", [ids.setdefault(name, len(ids)) for name in names])
        self.grow()
        return numbers

    def add_stored(self, names: bytes, lengths: array[int]) -> array[int]:
        """Return the numbers of names that stand one behind the other, new ones included."""
        numbers = columns.number_names(names, lengths, self.ids)
        self.grow()
        return numbers

    def count_of(self, name: bytes) -> int:
        """Return how many messages a subject has."""
        number = self.ids.get(name, -1)
        return self.counts[number] if number >= 0 else 0

    @property
    def absent(self) -> int:
        """Return how many known subjects have no message."""
        return len(self.names) - self.present

    def renumber(self) -> None:
        """Forget subjects without messages; nobody may hold numbers across this."""
        kept = [number for number, count in enumerate(self.counts) if count]
        self.names = [self.names[number] for number in kept]
        self.ids = {name: number for number, name in enumerate(self.names)}
        self.counts = array("Q", [self.counts[number] for number in kept])
        self.firsts = array("Q", [self.firsts[number] for number in kept])
        self.lasts = array("Q", [self.lasts[number] for number in kept])
        self.generation += 1


class SubjectSet:
    """A compiled set of patterns over one table: one flag per subject id, extended as ids come."""

    def __init__(self, patterns: Sequence[bytes], table: SubjectTable) -> None:
        self.patterns = tuple(dict.fromkeys(patterns))
        self._table = table
        self._literals = [pattern for pattern in self.patterns if is_literal(pattern)]
        wild = [pattern for pattern in self.patterns if not is_literal(pattern)]
        self._expression = _expression(wild) if wild else None
        self._flags = bytearray()
        self._generation = table.generation
        self._local: dict[tuple[int, int], bytes] = {}

    def flags(self) -> bytearray:
        """Return one byte per subject id."""
        table, flags = self._table, self._flags
        if self._generation != table.generation:
            self._generation = table.generation
            flags.clear()
        known = len(flags)
        if known < len(table.names):
            wanted = self._expression.fullmatch if self._expression else None
            if wanted:
                flags.extend(wanted(name) is not None for name in islice(table.names, known, None))
            else:
                flags.extend(bytes(len(table.names) - known))
            for literal in self._literals:
                number = table.ids.get(literal, -1)
                if number >= known:
                    flags[number] = 1
        return flags

    def local_flags(self, block: tuple[int, int], table_ids: array[int]) -> bytes:
        """Return one byte per subject of a block, remembering those of the last block asked for."""
        found = self._local.get(block)
        if found is None:
            flags = self.flags()
            found = bytes([flags[number] for number in table_ids])
            self._local = {block: found}
        return found

    def matching(self) -> list[int]:
        """Return the ids of matching subjects that have messages."""
        counts, ids = self._table.counts, self._table.ids
        if self._expression is None:
            numbers = [ids[literal] for literal in self._literals if literal in ids]
        else:
            numbers = [number for number, wanted in enumerate(self.flags()) if wanted]
        return [number for number in numbers if counts[number]]


def _expression(patterns: Iterable[bytes]) -> re.Pattern[bytes]:
    return re.compile(b"|".join(map(_translate, patterns)))


def _translate(pattern: bytes) -> bytes:
    parts = []
    for token in pattern.split(b"."):
        if token == b">":
            parts.append(rb"[^.]+(?:\.[^.]+)*")
        else:
            parts.append(rb"[^.]+" if token == b"*" else re.escape(token))
    return rb"\.".join(parts)
