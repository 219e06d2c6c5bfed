"""Live sequences among dead ones: found in their order, and swept some at a time."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from jetstream_server.kernels.parts import PartedSequences
from jetstream_server.store import sequence_order
from jetstream_server.store.ports import StoredMessage
from jetstream_server.store.sequence_order import DEAD_MIN, SequenceOrder
from jetstream_server.structures.parted_numbers import PART

from tests.traced_lines import lines_of


def rest_of(order: SequenceOrder, place: int) -> list[int]:
    return order.sequences.between(place, len(order))


class Kept:
    """Messages, and their order."""

    def __init__(self) -> None:
        self.live: PartedSequences[StoredMessage] = PartedSequences(64)
        self.handed: list[Any] = []
        self.order = SequenceOrder(self.live, self.handed.append)

    def add(self, sequence: int, timestamp: int = 0) -> None:
        self.live[sequence] = StoredMessage(sequence, timestamp, b"s", b"", b"")
        self.order.sequences.append(sequence)

    def leave(self, sequence: int) -> None:
        del self.live[sequence]
        self.order.sweep()

    def swept(self) -> list[int]:
        """Return the live ones by the order."""
        return [each for each in rest_of(self.order, self.order.head) if each in self.live]


def filled(count: int) -> Kept:
    kept = Kept()
    for sequence in range(1, count + 1):
        kept.add(sequence, sequence * 10)
    return kept


@pytest.mark.parametrize("seed", range(40))
def test_whatever_comes_and_goes_is_in_its_order(seed, monkeypatch):
    random = Random(seed)
    monkeypatch.setattr(sequence_order, "DEAD_MIN", random.choice([0, 3, 20]))
    monkeypatch.setattr(sequence_order, "_SWEPT_FOR_ONE", random.choice([1, 2, 16]))
    monkeypatch.setattr(sequence_order, "_PASSED_AT_ONCE", random.choice([1, 4]))
    monkeypatch.setattr(sequence_order, "_PASSED_FIRST", random.choice([1, 3]))
    kept, now = Kept(), 0
    order, live = kept.order, kept.live
    for sequence in range(1, 600):
        now += random.choice([0, 0, 3])
        kept.add(sequence, now)
        match random.randrange(6):
            case 0:
                for each in random.sample(list(live), random.randint(0, min(len(live), 9))):
                    kept.leave(each)
            case 1 if live:
                kept.leave(next(iter(live)))
            case 2 if live:  # very many at once
                doomed = [each for each in list(live) if random.random() < 0.7]
                for each in doomed:
                    del live[each]
                order.sweep(len(doomed))
            case 3 if live:
                kept.leave(list(live)[-1])
        assert kept.swept() == list(live)
        if live:
            assert order.first() == next(iter(live))
            assert order.newest() == list(live)[-1]
            assert kept.swept() == list(live)
        wanted = random.randint(0, sequence + 1)
        late = [each for each in live if each >= wanted]
        found = [each for each in rest_of(order, order.find(wanted)) if each in live]
        assert found == late
        start, stop = sorted((order.find(wanted), order.find(random.randint(0, sequence + 1))))
        between = order.sequences.between(start, stop)
        assert order.live_between(start, stop) == sum(each in live for each in between)
        moment = random.randint(0, now + 1)
        then = (message.sequence for message in live.values() if message.timestamp >= moment)
        assert order.first_at(moment) == next(then, None)


def test_those_in_front_go_at_once_and_by_somebody_else():
    kept = filled(20_000)
    before = kept.order.sequences.parts
    for sequence in range(1, 15_001):
        kept.leave(sequence)
    assert kept.handed == [before] and kept.handed[0] is before
    assert len(kept.order) <= 2 * len(kept.live) + DEAD_MIN
    assert kept.swept() == list(kept.live)


def test_those_in_between_go_some_at_a_time():
    """With half a million messages one of them took 45 ms to leave."""
    kept = filled(20_000)
    doomed = list(range(1, 20_001))
    Random(1).shuffle(doomed)
    before = kept.order.sequences.parts
    looked_at = 0
    for sequence in doomed[:15_000]:
        contained = kept.order._swept_to if kept.order._swept is not None else None
        kept.leave(sequence)
        if contained is not None and kept.order._swept is not None:
            looked_at += 1
            assert kept.order._swept_to - contained == 16
    assert looked_at > 1000
    assert kept.handed[0] is before
    assert len(kept.order) <= 2.2 * len(kept.live) + DEAD_MIN
    assert kept.swept() == list(kept.live)


def test_few_that_are_left_are_listed_anew():
    kept = filled(20_000)
    for sequence in range(1, 20_000, 2):
        del kept.live[sequence]
    for sequence in range(2, 19_990, 2):
        del kept.live[sequence]
    kept.order.sweep(19_000)
    assert list(kept.order.sequences) == list(kept.live)


def test_a_moment_is_found_without_passing_over_each_dead_one():
    kept = filled(8000)
    for sequence in range(2001, 6001):
        del kept.live[sequence]
    found: list[int | None] = []
    assert lines_of(lambda: found.append(kept.order.first_at(40_000))) < 400
    assert found == [6001]


def test_what_comes_in_the_place_of_dead_ones_at_the_end_is_swept_as_well(monkeypatch):
    monkeypatch.setattr(sequence_order, "DEAD_MIN", 0)
    kept = filled(100)
    for sequence in range(10, 62):
        kept.leave(sequence)
        if kept.order._swept is not None:  # there are so many dead ones that it has begun
            break
    while kept.order._swept_to < 95:
        kept.order.sweep()
    for sequence in range(90, 101):
        del kept.live[sequence]
    assert kept.order.newest() == 89
    for sequence in range(101, 112):
        kept.add(sequence)
    while kept.order._swept is not None:
        kept.order.sweep()
    assert kept.swept() == list(kept.live)


@pytest.mark.parametrize("count", [0, 1, 5, 50])
def test_the_oldest_are_live_ones_in_their_order(count, monkeypatch):
    monkeypatch.setattr(sequence_order, "_PASSED_AT_ONCE", 4)
    kept = filled(40)
    for sequence in (1, 2, *range(5, 25), 40):
        kept.leave(sequence)
    assert kept.order.oldest(count) == [3, 4, *range(25, 40)][:count]


def test_dead_ones_in_between_are_left_out_before_they_are_many():
    """When the one in front of 500,000 dead ones left it took 33 ms to pass over them."""
    kept = filled(20_000)
    for sequence in range(15_000, 1, -1):
        kept.leave(sequence)
        dead = len(kept.order) - len(kept.live)
        assert dead <= 20_000 // 3 + DEAD_MIN
    assert kept.swept() == [1, *range(15_001, 20_001)]


@pytest.mark.parametrize("together", [False, True])
def test_very_many_in_front_are_left_out_without_a_copy_of_the_others(together):
    kept = filled(3 * PART + 10)
    parts = list(kept.order.sequences.parts)
    if together:
        for sequence in range(1, PART + 11):
            del kept.live[sequence]
        kept.order.sweep(PART + 10)
    else:
        for sequence in range(1, PART + 11):
            kept.leave(sequence)
    assert [len(each) for each in kept.handed] == [1] and kept.handed[0][0] is parts[0]
    assert [
        each is known for each, known in zip(kept.order.sequences.parts, parts[1:], strict=True)
    ]
    assert kept.order.head == 10 and kept.order.first() == PART + 11
    assert kept.swept() == list(kept.live)


def test_those_in_front_are_left_out_while_others_are_swept(monkeypatch):
    monkeypatch.setattr(sequence_order, "_SWEPT_FOR_ONE", 1)
    kept = filled(3 * PART)
    for sequence in range(PART // 2, 3 * PART // 2 + DEAD_MIN):
        kept.leave(sequence)
    assert kept.order._swept is not None
    before = kept.order._swept_to
    for sequence in range(1, PART // 2):
        kept.leave(sequence)
    assert kept.order.head < PART and kept.order._swept_to < before
    assert kept.swept() == list(kept.live)
    while kept.order._swept is not None:
        kept.order.sweep()
    assert kept.swept() == list(kept.live)
