"""What may be a million, let go of one by one."""

from __future__ import annotations

import weakref
from collections.abc import Iterator

import pytest
from jetstream_server.core.letting_go import let_go
from jetstream_server.kernels.parts import PartedOrder

from tests.traced_lines import lines_of


class One:
    """Something that is known."""


def parted(values: list[One], part_max: int = 4) -> PartedOrder[int, One]:
    those: PartedOrder[int, One] = PartedOrder(part_max=part_max)
    for number, value in enumerate(values):
        those.add(number, value)
    return those


@pytest.mark.parametrize("count", [0, 1, 4, 5, 13])
def test_they_come_in_their_order(count: int) -> None:
    made = [One() for _ in range(count)]
    assert list(let_go(parted(made))) == made


def test_the_last_part_may_be_empty() -> None:
    made = [One() for _ in range(5)]
    those = parted(made)
    those.discard(4)
    assert list(let_go(those)) == made[:4]


def test_each_is_let_go_of_as_it_is_taken() -> None:
    made = [One() for _ in range(9)]
    known = [weakref.ref(each) for each in made]
    taken: Iterator[One] = let_go(parted(made))
    del made
    for number, _ in enumerate(taken):
        left = [each() is not None for each in known]
        assert left == [False] * number + [True] * (9 - number)
    assert number == 8


def test_nothing_is_done_for_all_of_them() -> None:
    lines = []
    for count in (1100, 2000):
        those = parted([One() for _ in range(count)], part_max=1000)
        lines.append(lines_of(lambda those=those: next(let_go(those))))  # type: ignore[misc]
    assert lines[0] == lines[1]
