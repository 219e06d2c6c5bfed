"""State to bytes and back; damage is noticed."""

from __future__ import annotations

from array import array
from random import Random

import pytest
from jetstream_server.base.errors import StoreError
from jetstream_server.jetstream.consumers.progress import consumer_state
from jetstream_server.jetstream.consumers.progress.consumer_state import encode_state, restore_state
from jetstream_server.jetstream.consumers.progress.cursor import Cursor
from jetstream_server.jetstream.consumers.progress.progress import AckRules, Progress
from jetstream_server.store.memory import MemoryStore
from jetstream_server.structures.sequence_set import SequenceSet

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


def redelivered(progress, now):
    """Send the next message again; how many there are at a time does not survive."""
    run = progress.redelivery.next_run(1)
    if run and progress.is_exhausted(run[0]):
        return run, progress.exhaust(run[0])
    return run, progress.redeliver(run, now) if run else 0


def stepped(progress, random, now):
    """Let something happen; return what is answered."""
    pending = progress.pending.sequences().tolist()
    some = sorted(random.sample(pending, min(len(pending), random.choice([1, 3, 20]))))
    match random.randrange(9):
        case 0 | 1:
            window = progress.cursor.window(random.choice([1, 7, 40]), 1 << 20)
            if window is not None and len(window):
                progress.deliver(window, len(window), now)
            return window and window.sequences
        case 2:
            return progress.ack(array("Q", [*some, random.randrange(1, 400)]))
        case 3:
            return [progress.refuse(each) for each in some[::2]]
        case 4:
            return [progress.postpone(each, now + random.randrange(5000)) for each in some]
        case 5:
            return progress.expire(now, 1000)
        case 6 | 7:
            return [redelivered(progress, now) for _ in range(random.choice([1, 5, 20]))]
        case _:
            start = random.randrange(1, 300)
            return progress.removed(SequenceSet.between(start, start + random.randrange(9)))


@pytest.mark.parametrize("seed", range(12))
def test_what_is_saved_and_restored_goes_on_as_if_nothing_had_happened(monkeypatch, seed):
    store = MemoryStore()
    for number in range(400):
        store.append(b"b" if number % 3 else b"a", b"", b"", number)
    random, patterns = Random(seed), ((), (b"b",))[seed % 2]
    rules = AckRules(True, False, 1000, ((), (900, 2000))[seed % 2], (-1, 3)[seed % 2], -1)
    one, other = (Progress(Cursor(store, patterns, 1), rules) for _ in range(2))
    now = 10**9
    for _ in range(80):
        now += random.choice([0, 1, 500, 2_000_000])
        at = random.getstate()
        answers = []
        for progress in (one, other):
            random.setstate(at)
            answers.append(stepped(progress, random, now))
        assert answers[0] == answers[1]
        assert described(one) == described(other)
        assert list(one.redelivery.given_up) == list(other.redelivery.given_up)
        if random.random() < 0.3:
            monkeypatch.setattr(consumer_state, "_JOINED_BYTES_MAX", random.choice([0, 1 << 20]))
            data = b"".join(encode_state(other))
            other = Progress(Cursor(store, patterns, 1), rules)
            restore_state(other, data)
            assert described(one) == described(other)


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


HEADER_BYTES = consumer_state._HEADER.size
RUN_AT = {"consumer_seq": 0, "sequence": 8, "sent_at": 16, "count": 24}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("count", b"\xff" * 4),  # would take 32 GB
        ("count", b"\x00\x00\x00\x01"),
        ("sequence", b"\xff" * 8),
        ("sequence", b"\xf8" + b"\xff" * 7),
    ],
)
def test_a_run_beyond_what_was_delivered_is_refused(fresh, field, value):
    progress = fresh()
    deliver(progress, 20, 1)
    data = bytearray(b"".join(encode_state(progress)))
    at = HEADER_BYTES + RUN_AT[field]
    data[at : at + len(value)] = value
    with pytest.raises(StoreError, match="damaged"):
        restore_state(fresh(), bytes(data))


def test_a_run_beyond_64_bits_is_refused(fresh):
    progress = fresh()
    deliver(progress, 20, 1)
    progress.stream_seq = 2**64 - 1
    data = bytearray(b"".join(encode_state(progress)))
    at = HEADER_BYTES + RUN_AT["sequence"]
    data[at : at + 8] = b"\xff" * 8
    with pytest.raises(StoreError, match="damaged"):
        restore_state(fresh(), bytes(data))


def test_a_run_that_does_not_rise_or_has_other_flags_is_refused(fresh):
    progress = fresh((b"b",))
    deliver(progress, 20, 1)
    progress.ack(array("Q", [5]))
    data = b"".join(encode_state(progress))
    first = HEADER_BYTES + consumer_state._RUN.size
    words, flags = data[first : first + 160], data[first + 160 :]
    assert len(flags) == 20 and set(flags) == {0, 1}
    for damaged in (
        words[8:16] + words[:8] + words[16:] + flags,
        words[:8] + words[:8] + words[16:] + flags,
        words + flags.replace(b"\1", b"\2", 1),
    ):
        with pytest.raises(StoreError, match="damaged"):
            restore_state(fresh((b"b",)), data[:first] + damaged)
