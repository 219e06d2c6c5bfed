"""Sequences that leave together, however they are given and asked for."""

from __future__ import annotations

from array import array
from random import Random

from jetstream_server.structures.sequence_set import SequenceSet


def test_none() -> None:
    for none in (SequenceSet(array("Q")), SequenceSet.of(()), SequenceSet.joined(())):
        assert not none
        assert none.count == 0
        assert list(none.sequences) == []
        assert list(none.long_ranges or ()) == []


def test_few_long_ranges_are_asked_for_as_ranges() -> None:
    given = SequenceSet(array("Q", (5, 1005, 2000, 3000)))
    assert (given.first, given.stop, given.count) == (5, 3000, 2000)
    assert list(given.long_ranges or ()) == [(5, 1005), (2000, 3000)]
    assert list(SequenceSet.of(range(7, 107)).long_ranges or ()) == [(7, 107)]


def test_many_short_ranges_are_asked_for_as_sequences() -> None:
    given = SequenceSet.joined([(9, 10), (1, 2), (3, 5)])
    assert given.long_ranges is None
    assert list(given.sequences) == [1, 3, 4, 9]
    singles = SequenceSet.of(array("Q", range(1, 200, 2)))
    assert singles.long_ranges is None
    assert list(singles.sequences) == list(range(1, 200, 2))


def test_all_ways_lead_to_the_same() -> None:
    random = Random(7)
    for _ in range(500):
        chosen = sorted(random.sample(range(1, 200), random.randint(1, 150)))
        ranges = [(each, each + 1) for each in chosen] + [(chosen[0], chosen[0] + 1)]
        random.shuffle(ranges)
        joined, direct = SequenceSet.joined(ranges), SequenceSet.of(chosen)
        for each in (joined, direct):
            assert list(each.sequences) == chosen
            assert (each.count, each.first, each.stop) == (
                len(chosen),
                chosen[0],
                chosen[-1] + 1,
            )
        for each in (SequenceSet.joined(ranges), SequenceSet.of(chosen)):
            long = each.long_ranges
            assert long is None or [one for pair in long for one in range(*pair)] == chosen
        overlapping = SequenceSet.joined([(each, each + 3) for each in chosen])
        assert list(overlapping.sequences) == sorted(
            {one for each in chosen for one in range(each, each + 3)}
        )
