"""A table of subjects is made anew without those that have no messages, some at a time.

A million subjects take a third of a second. So they are gone through as others come, while the
table goes on as it is; what is left for the moment in which the numbers change is little.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence

from jetstream_server.kernels.columns import NOWHERE
from jetstream_server.kernels.interned import Interned


class Renumbering:
    """New numbers for the subjects of a table.

    Args:
        count: how many there will be, about.

    Attributes:
        ids: the subjects that are kept.
        moved: `array('I')`, their new numbers by the old ones, `NOWHERE` for the others.
        left_out: a byte for each old number, 1 for the others.
    """

    def __init__(self, count: int) -> None:
        self.ids = Interned(count=count)
        self.moved = array("I")
        self.left_out = bytearray()

    def go_on(self, names: Sequence[bytes], counts: Sequence[int], names_max: int) -> bool:
        """Go through up to `names_max` more subjects; tell whether that was all of them.

        Args:
            names: of the table.
            counts: of the table; those that are not counted yet are left for later.
        """
        ids, moved, left_out = self.ids, self.moved, self.left_out
        start = len(moved)
        stop = min(start + names_max, len(counts))
        for number in range(start, stop):
            is_kept = counts[number] > 0
            left_out.append(not is_kept)
            moved.append(ids.number(names[number]) if is_kept else NOWHERE)
        ids.spread()
        return stop == len(counts)

    def keep(self, names: Sequence[bytes], numbers: Iterable[int]) -> None:
        """Keep some that were left out, as messages have come to them since."""
        for number in numbers:
            self.left_out[number] = 0
            self.moved[number] = self.ids.number(names[number])
        self.ids.spread()
