"""The sequence set, case by case; its model is `tests/models/test_sequence_set_model.py`."""

from random import Random

from jetstream_server.structures.sequence_set import CHUNK_RUNS_MAX, SequenceSet


def test_neighbours_join_into_one_run() -> None:
    held = SequenceSet([1, 2, 5])
    assert list(held.ranges()) == [(1, 3), (5, 6)]
    assert held.add(4)
    assert held.add(3)
    assert not held.add(3)
    assert list(held.ranges()) == [(1, 6)]
    assert (held.first, held.last, len(held)) == (1, 5, 5)


def test_taking_out_of_the_middle_splits_a_run() -> None:
    held = SequenceSet.of_ranges([(1, 10)])
    assert held.discard(5)
    assert not held.discard(5)
    assert list(held.ranges()) == [(1, 5), (6, 10)]
    assert held.discard(1)
    assert held.discard(9)
    assert list(held.ranges()) == [(2, 5), (6, 9)]
    assert 5 not in held
    assert 6 in held


def test_empty() -> None:
    held = SequenceSet()
    assert (held.first, held.last, len(held), list(held)) == (None, None, 0, [])
    assert not held
    assert 1 not in held
    assert not held.discard(1)
    assert held.discard_range(0, 100) == 0
    assert held.count(0, 100) == 0
    assert held.add_range(5, 5) == 0


def test_ranges_cover_runs() -> None:
    held = SequenceSet([2, 4, 6, 20])
    assert held.add_range(3, 8) == 3
    assert list(held.ranges()) == [(2, 8), (20, 21)]
    assert held.discard_range(4, 30) == 5
    assert list(held.ranges()) == [(2, 4)]
    assert repr(held) == "SequenceSet.of_ranges([(2, 4)])"
    held.clear()
    assert not held


def test_a_range_is_taken_out_of_several_runs() -> None:
    held = SequenceSet.of_ranges([(1, 5), (8, 12), (20, 22)])
    assert held.discard_range(0, 10) == 6
    assert list(held.ranges()) == [(10, 12), (20, 22)]


def test_wide_ranges_cost_one_run() -> None:
    held = SequenceSet()
    assert held.add_range(0, 2**63) == 2**63
    assert held.discard(2**62)
    assert held.count(0, 2**63) == 2**63 - 1
    assert len(list(held.ranges())) == 2


def test_many_holes_are_kept_in_chunks() -> None:
    sequences = list(range(0, 20 * CHUNK_RUNS_MAX, 2))
    Random(1).shuffle(sequences)
    held = SequenceSet(sequences)
    assert len(held) == len(sequences)
    assert max(len(chunk.starts) for chunk in held._chunks) <= CHUNK_RUNS_MAX
    assert list(held) == sorted(sequences)
    assert held.count(1000, 3000) == 1000
    assert held.discard_range(1000, 15_000) == 7000
    assert 15_000 in held
    assert held.count(1000, 15_000) == 0
    assert held.add_range(0, 30_000) > 0
    assert next(held.ranges()) == (0, 30_000)
    Random(2).shuffle(sequences)
    for sequence in sequences:
        held.discard(sequence)
    assert held.discard_range(0, 2**40) == 30_000 - len(sequences)
    assert held._firsts == []
