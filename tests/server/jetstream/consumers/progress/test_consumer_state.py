"""State to bytes and back; damage is noticed."""

from __future__ import annotations

from array import array

import pytest
from jetstream_server.base.errors import StoreError
from jetstream_server.jetstream.consumers.progress import consumer_state
from jetstream_server.jetstream.consumers.progress.consumer_state import encode_state, restore_state
from jetstream_server.jetstream.consumers.progress.cursor import Cursor
from jetstream_server.jetstream.consumers.progress.progress import AckRules, Progress
from jetstream_server.store.memory import MemoryStore

RULES = AckRules(True, False, 1000, (), -1, -1)


@pytest.fixture
def fresh():
    store = MemoryStore()
    for number in range(100):
        store.append(b"b" if number % 3 else b"a", b"", b"", number)

    def fresh(patterns=(), snapshot=()):
        return Progress(Cursor(store, patterns, 1, snapshot), RULES)

    return fresh


def deliver(progress, count, now):
    window = progress.cursor.window(count, 1 << 20)
    progress.deliver(window, len(window), now)


def described(progress):
    cursor = progress.cursor
    return (
        progress.consumer_seq,
        progress.stream_seq,
        progress.floor_consumer_seq,
        progress.floor_stream_seq,
        cursor.next_seq,
        list(cursor.snapshot),
        cursor.num_pending(),
        list(progress.pending),
        *progress.redelivery.counts.columns(),
        *progress.redelivery.deadlines.columns(),
        list(progress.redelivery.queued_sequences()),
        progress.next_deadline(),
    )


@pytest.mark.parametrize("patterns", [(), (b"a",)])
def test_everything_survives(fresh, patterns):
    progress = fresh(patterns)
    deliver(progress, 20, 1)
    deliver(progress, 5, 2)
    progress.redeliver(progress.pending.sequences()[:1], 3)
    progress.ack(array("Q", [4, 7, 10]))
    restored = fresh(patterns)
    restore_state(restored, b"".join(encode_state(progress)))
    assert described(restored) == described(progress)


def test_times_and_the_queue_survive(fresh):
    progress = fresh()
    deliver(progress, 6, 1)
    progress.expire(10_000_000)
    deliver(progress, 6, 10_000_000)
    progress.refuse(9)
    progress.postpone(8, 77_000_000)
    progress.redeliver(array("Q", [2]), 10_000_000)
    restored = fresh()
    restore_state(restored, b"".join(encode_state(progress)))
    assert described(restored) == described(progress)
    assert list(restored.redelivery.queued_sequences()) == [1, 3, 4, 5, 6, 9]
    assert restored.expire(99_000_000) == progress.expire(99_000_000) == [2, 7, 8, 10, 11, 12]


def test_a_snapshot_survives(fresh):
    progress = fresh(snapshot=[10, 20, 30])
    deliver(progress, 1, 1)
    restored = fresh()
    restore_state(restored, b"".join(encode_state(progress)))
    assert described(restored) == described(progress)


def test_a_compacted_run_survives(fresh):
    progress = fresh()
    deliver(progress, 100, 1)
    progress.ack(array("Q", [seq for seq in range(1, 101) if seq % 20]))
    restored = fresh()
    restore_state(restored, b"".join(encode_state(progress)))
    assert described(restored) == described(progress)


def test_a_hundred_thousand_pending_messages_are_small():
    store = MemoryStore()
    progress = Progress(Cursor(store, (), 1), RULES)
    progress.pending.add_run(array("Q", range(1, 100_001)), 1, 7)
    assert len(b"".join(encode_state(progress))) < 200
    progress.pending.take_range(50_000, 50_001)
    assert len(b"".join(encode_state(progress))) < 101_000


def test_what_is_long_is_not_copied_and_does_not_change(fresh, monkeypatch):
    monkeypatch.setattr(consumer_state, "_JOINED_BYTES_MAX", 100)
    progress = fresh()
    deliver(progress, 20, 1)
    redelivery = progress.redelivery
    progress.redeliver(array("Q", range(1, 15)), 3)
    redelivery.queue(range(5, 9))
    expected = described(progress)
    parts = encode_state(progress)
    redelivery.counts.number_all(array("Q", range(1, 15)), 9)
    redelivery.queue(range(9, 15))
    redelivery.forget(range(1, 5))
    assert len(parts) > 5
    restored = fresh()
    restore_state(restored, b"".join(parts))
    assert described(restored) == expected


def test_any_cut_or_other_magic_is_refused(fresh):
    progress = fresh((b"a",))
    deliver(progress, 20, 1)
    progress.ack(array("Q", [4]))
    data = b"".join(encode_state(progress))
    for stop in range(len(data)):
        with pytest.raises(StoreError):
            restore_state(fresh(), data[:stop])
    with pytest.raises(StoreError):
        restore_state(fresh(), b"XXXX" + data[4:])
