"""Numbers of names, which grow without a pause."""

from __future__ import annotations

from jetstream_server.structures.parted_numbers import PartedNumbers


def test_a_name_keeps_its_first_number() -> None:
    numbers = PartedNumbers()
    assert numbers.get(b"a") is None
    assert numbers.note_all([b"a"], 3) == numbers.note_all([b"b"], 0) == []
    assert numbers.note_all([b"c", b"a", b"d", b"d"], 5) == [6, 8]
    names = (b"a", b"b", b"c", b"d", b"e")
    assert [numbers.get(name) for name in names] == [3, 0, 5, 7, None]


def test_no_part_has_much_more_than_another() -> None:
    """What grows is copied, so none may be large while the others are small."""
    numbers = PartedNumbers()
    assert not numbers.note_all([b"s.%d.x" % number for number in range(50_000)], 0)
    sizes = [len(part) for part in numbers.parts]
    assert sum(sizes) == 50_000
    assert max(sizes) < 2 * 50_000 / len(sizes)
