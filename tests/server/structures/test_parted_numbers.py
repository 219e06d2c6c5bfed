"""Numbers of names, which grow without a pause."""

from __future__ import annotations

from jetstream_server.structures.parted_numbers import PartedNumbers


def test_a_name_keeps_its_first_number() -> None:
    numbers = PartedNumbers()
    assert numbers.get(b"a") is None
    assert [numbers.note(b"a", 3), numbers.note(b"b", 0), numbers.note(b"a", 5)] == [3, 0, 3]
    assert (numbers.get(b"a"), numbers.get(b"b"), numbers.get(b"c")) == (3, 0, None)


def test_no_part_has_much_more_than_another() -> None:
    """What grows is copied, so none may be large while the others are small."""
    numbers = PartedNumbers()
    for number in range(50_000):
        assert numbers.note(b"s.%d.x" % number, number) == number
    sizes = [len(part) for part in numbers.parts]
    assert sum(sizes) == 50_000
    assert max(sizes) < 2 * 50_000 / len(sizes)
