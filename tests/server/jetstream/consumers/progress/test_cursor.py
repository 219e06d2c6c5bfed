"""The position in a stream and the exact count of what is left."""

from __future__ import annotations

from array import array

import pytest
from jetstream_server.core import subject_matcher
from jetstream_server.jetstream.consumers.progress import cursor as cursor_module
from jetstream_server.jetstream.consumers.progress.cursor import WINDOWS_AT_ONCE, Cursor
from jetstream_server.store.memory import MemoryStore
from jetstream_server.store.ports import Window
from jetstream_server.structures.sequence_set import SequenceSet

from tests.traced_lines import lines_of

MANY = 1 << 20


@pytest.fixture
def store():
    """Ten messages, every third on `b`, the others on `a`."""
    store = MemoryStore()
    for number in range(1, 11):
        store.append(b"b" if number % 3 == 0 else b"a", b"", b"", number)
    return store


def take(cursor, count):
    taken = []
    while count and (window := cursor.window(count, MANY)) is not None:
        taken += window.sequences
        count -= len(window)
        cursor.take(window, len(window))
    return taken


def test_it_walks_what_the_filter_matches(store):
    cursor = Cursor(store, [b"b"], 1)
    assert cursor.num_pending() == 3
    assert take(cursor, 2) == [3, 6]
    assert (cursor.num_pending(), cursor.next_seq) == (1, 7)
    assert take(cursor, 9) == [9]
    assert cursor.num_pending() == 0
    assert cursor.next_seq == 11


def test_part_of_a_window_can_be_taken(store):
    cursor = Cursor(store, [], 1)
    window = cursor.window(5, MANY)
    cursor.take(window, 2)
    assert (cursor.next_seq, cursor.num_pending()) == (3, 8)
    assert take(cursor, 1) == [3]


def test_thousands_of_filters_are_not_compared_with_each_subject(store, monkeypatch):
    """An interest stream asks that of each message."""
    monkeypatch.setattr(subject_matcher, "matches", lambda *given: pytest.fail("one by one"))
    cursor = Cursor(store, [b"c.%d.*" % number for number in range(5000)], 1)
    assert cursor.wants(b"c.4999.x") and not cursor.wants(b"c.5000.x")
    cursor.refilter([b"c.%d.*" % number for number in range(5000, 9000)])
    assert cursor.wants(b"c.5000.x") and not cursor.wants(b"c.4999.x")


def test_new_messages_count_once_and_only_if_wanted(store):
    cursor = Cursor(store, [b"b"], 1)
    take(cursor, 9)
    store.append(b"a", b"", b"", 11)
    assert cursor.num_pending() == 0
    store.append(b"b", b"", b"", 12)
    assert cursor.num_pending() == 1
    assert take(cursor, 9) == [12]


def test_an_empty_store_counts_from_the_first_message():
    store = MemoryStore()
    cursor = Cursor(store, [], 1)
    assert cursor.num_pending() == 0
    store.append(b"a", b"", b"", 1)
    assert cursor.num_pending() == 1


def test_a_start_beyond_the_end_does_not_count_what_is_before_it(store):
    cursor = Cursor(store, [], 20)
    for number in range(11, 22):
        store.append(b"a", b"", b"", number)
    assert cursor.num_pending() == 2
    assert take(cursor, 9) == [20, 21]


def test_removals_ahead_are_counted_anew_and_behind_are_not(store):
    cursor = Cursor(store, [], 1)
    take(cursor, 2)
    store.delete([1, 5])
    cursor.removed(SequenceSet.of((1, 5)))
    assert cursor.num_pending() == 7
    assert take(cursor, 3) == [3, 4, 6]


def test_a_purge_moves_the_position_forward_only(store):
    cursor = Cursor(store, [], 1)
    store.truncate_front(8)
    cursor.purged(8)
    assert (cursor.next_seq, cursor.num_pending()) == (8, 3)
    cursor.purged(2)
    assert cursor.next_seq == 8


def test_a_snapshot_is_walked_before_what_came_later(store):
    cursor = Cursor(store, [], 9, [9, 10])
    assert cursor.num_pending() == 2
    store.append(b"a", b"", b"", 11)
    assert cursor.num_pending() == 3
    assert not cursor.has_passed(9)
    assert take(cursor, 1) == [9]
    assert cursor.has_passed(9)
    assert not cursor.has_passed(10)
    assert cursor.num_pending() == 2
    assert take(cursor, 9) == [10, 11]
    assert cursor.num_pending() == 0


def test_snapshot_entries_that_are_gone_are_passed_over(store):
    cursor = Cursor(store, [], 3, [3, 6, 10])
    store.delete([6])
    cursor.removed(SequenceSet.of((6,)))
    assert take(cursor, 9) == [3, 10]
    assert cursor.num_pending() == 0


@pytest.mark.parametrize("cut_out_max", [0, 3, 16])
def test_a_snapshot_loses_only_what_is_gone(store, monkeypatch, cut_out_max):
    """What lay between two messages that limits took in one turn was never delivered."""
    monkeypatch.setattr(cursor_module, "_CUT_OUT_MAX", cut_out_max)
    for gone, left in (((3, 10), [6, 9]), ((1, 6, 11), [3, 9, 10]), ((3, 6, 9), [10])):
        cursor = Cursor(store, [], 3, [3, 6, 9, 10])
        cursor.removed(SequenceSet.of(gone))
        assert list(cursor.snapshot) == left
        assert cursor.num_pending() == len(left)
    cursor = Cursor(store, [], 1, range(1, 11))
    take(cursor, 2)
    cursor.removed(SequenceSet(array("Q", (1, 5))))
    cursor.removed(SequenceSet.of((6, 8)))
    assert list(cursor.snapshot) == [5, 7, 9, 10]
    assert take(cursor, 9) == [5, 7, 9, 10]


def test_few_that_are_gone_are_cut_out_of_a_long_snapshot():
    """A list of 150 consumers went through 150,000 messages of each, for 0.2 s."""
    cursor = Cursor(MemoryStore(), [], 1, range(1, 10_001))
    assert cursor.unsettled == 0
    cursor.removed(SequenceSet.of((70, 71, 9000)))
    assert cursor.unsettled == 10_000 * 3 // 30  # as what follows each is moved
    assert lines_of(lambda: cursor.snapshot) < 60
    assert cursor.unsettled == 0
    assert list(cursor.snapshot) == [*range(1, 70), *range(72, 9000), *range(9001, 10_001)]
    cursor.removed(SequenceSet.of(range(1, 40, 2)))
    assert cursor.unsettled == 9997
    assert len(cursor.snapshot) == 9977 and cursor.unsettled == 0
    restored = Cursor(MemoryStore(), [], 1)
    restored.restore(1, 2001, array("Q", range(1, 2001)))
    assert restored.unsettled == 2000
    assert list(restored.snapshot) == [] and restored.unsettled == 0


def test_much_that_is_gone_is_taken_from_a_snapshot_that_nobody_reads():
    store = MemoryStore(1)
    for number in range(1, 5001):
        store.append(b"a", b"", b"", number)
    cursor = Cursor(store, [], 1, range(1, 5001))
    for sequence in range(1, 5000, 2):
        store.delete([sequence])
        cursor.removed(SequenceSet.of((sequence,)))
    assert len(cursor._gone) <= 1001
    assert list(cursor.snapshot) == [*range(2, 5000, 2), 5000]


def test_snapshot_entries_that_are_gone_are_not_counted(store):
    cursor = Cursor(store, [], 3, [3, 6, 10])
    store.delete([6])
    cursor.removed(SequenceSet.of((6,)))
    assert cursor.num_pending() == 2
    store.delete([3, 10])
    cursor.removed(SequenceSet.of((3, 10)))
    assert cursor.num_pending() == 0
    assert cursor.next_seq == 11


def test_many_purges_look_through_the_snapshot_once(store, monkeypatch):
    """A thousand messages of one write may each purge a subject, and a snapshot may be long."""
    held, looks = store.held, []

    def counted(sequences):
        looks.append(len(sequences))
        return held(sequences)

    monkeypatch.setattr(store, "held", counted)
    cursor = Cursor(store, [], 3, [3, 6, 10])
    for sequence in (3, 6):
        store.delete([sequence])
        cursor.removed(SequenceSet.of((sequence,)))
    assert looks == []
    assert cursor.num_pending() == 1 and cursor.has_passed(6) and not cursor.has_passed(10)
    assert list(cursor.snapshot) == [10]
    assert take(cursor, 9) == [10]
    assert looks == []


def test_what_a_purge_took_is_not_delivered_although_nobody_has_looked(store):
    cursor = Cursor(store, [], 3, [3, 6, 10])
    store.delete([3])
    cursor.removed(SequenceSet.of((3,)))
    assert take(cursor, 1) == [6]
    store.delete([10])
    cursor.removed(SequenceSet.of((10,)))
    assert take(cursor, 1) == [] and cursor.num_pending() == 0
    assert cursor.next_seq == 11


def test_a_saved_snapshot_is_brought_in_line_with_the_store(store):
    store.delete([6])
    restored = Cursor(store, [], 1)
    restored.restore(3, 11, array("Q", [3, 6, 10]))
    assert restored.num_pending() == 2
    assert take(restored, 9) == [3, 10]


def test_a_snapshot_survives_saving(store):
    cursor = Cursor(store, [], 3, [3, 6, 10])
    take(cursor, 1)
    restored = Cursor(store, [], 1)
    restored.restore(cursor.next_seq, cursor.live_seq, cursor.snapshot)
    assert restored.num_pending() == 2
    assert take(restored, 9) == [6, 10]


def test_the_filter_can_change(store):
    cursor = Cursor(store, [b"b"], 1)
    take(cursor, 1)
    cursor.refilter([b"a"])
    assert cursor.wants(b"a")
    assert not cursor.wants(b"b")
    assert cursor.num_pending() == 5
    assert take(cursor, 1) == [4]


class Blocks(MemoryStore):
    """A store that looks at ten messages at a time, as one of blocks does."""

    looked = 0

    def window(self, wanted, sequence, count_max, bytes_max):
        self.looked += 1
        stop = min(sequence // 10 * 10 + 10, self.last_seq + 1)
        found = super().window(wanted, sequence, count_max, bytes_max)
        if found.sequences and found.sequences[0] < stop:
            return found
        return Window(b"", array("Q"), array("Q"), array("Q"), stop)


def test_a_rare_message_is_looked_for_in_slices():
    store = Blocks()
    for number in range(1, 1001):
        store.append(b"rare" if number == 995 else b"a", b"", b"", number)
    cursor = Cursor(store, [b"rare"], 1)
    calls = 0
    while (window := cursor.window(5, MANY)) is None:
        calls += 1
        assert cursor.is_searching
        assert store.looked == calls * WINDOWS_AT_ONCE
    assert not cursor.is_searching
    assert window.sequences.tolist() == [995]
    assert calls == 99 // WINDOWS_AT_ONCE
    cursor.take(window, 1)
    assert cursor.window(5, MANY) is None
    assert not cursor.is_searching  # it is at the end
