"""The subjects of a sealed block get their numbers in the store's table, some at a time.

A look-up takes a third of a microsecond, and a block may have two hundred thousand subjects.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable

from jetstream_server.store.blocks.subjects import SubjectTable

Names = tuple[memoryview, memoryview]


class Numbering:
    """Numbers the subjects of one block.

    Args:
        names: gives the subjects, one behind the other, and the length of each.
        table: where they have numbers, or get them.

    Attributes:
        names: as given.
        numbers: `array('I')`, those of the first subjects; of all when it is done.
    """

    def __init__(self, names: Callable[[], Names], table: SubjectTable) -> None:
        self.names = names
        self.numbers = array("I")
        self._table = table
        self._at = 0  # where the name of the next one begins

    def again(self) -> Numbering:
        """Return one of the same subjects that has yet to begin."""
        return Numbering(self.names, self._table)

    def go_on(self, names_max: int) -> bool:
        """Number up to `names_max` more subjects; tell whether all are numbered."""
        names, lengths = self.names()
        start = len(self.numbers)
        chosen = array("H", lengths[start : start + names_max])
        stop = self._at + sum(chosen)
        self.numbers += self._table.add_stored(bytes(names[self._at : stop]), chosen)
        self._at = stop
        return len(self.numbers) == len(lengths)
