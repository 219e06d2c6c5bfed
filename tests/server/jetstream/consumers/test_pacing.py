"""Rate limit and recorded pace."""

from __future__ import annotations

from jetstream_server.base.clock import MILLISECOND, SECOND
from jetstream_server.jetstream.consumers.pacing import OriginalPace, RateLimit
from jetstream_server.store.memory import MemoryStore


def test_the_bucket_empties_and_fills():
    rate = RateLimit(8000, 1000)
    assert rate.allowed([600, 600], 0) == (1, rate.allowed([600, 600], 0)[1])
    rate.spend(600)
    count, again_at = rate.allowed([600], 1)
    assert count == 0
    assert 199 * MILLISECOND < again_at < 202 * MILLISECOND
    assert rate.allowed([600], again_at + 1)[0] == 1


def test_a_message_larger_than_the_bucket_goes_when_it_is_full():
    rate = RateLimit(8000, 1000)
    assert rate.allowed([5000], 0)[0] == 1
    rate.spend(5000)
    assert rate.allowed([5000], 1)[0] == 0
    assert rate.allowed([5000], 2 * SECOND)[0] == 1


def test_small_steps_of_time_are_not_lost():
    rate = RateLimit(8000, 1000)
    rate.allowed([1], 1)
    rate.spend(1000)
    now = 1
    for _ in range(1000):
        now += MILLISECOND // 2
        rate.allowed([10_000], now)
    assert rate.allowed([499], now)[0] == 1
    assert rate.allowed([505], now)[0] == 0


def test_gaps_are_kept_and_bursts_go_together():
    store = MemoryStore()
    for timestamp in (0, 0, 100, SECOND, SECOND + MILLISECOND):
        store.append(b"a", b"", b"", timestamp)
    pace = OriginalPace(store.last_seq)
    window = store.window(None, 1, 10, 1 << 20)
    assert pace.allowed(window, 50) == (3, 50)
    pace.sent(window, 3, 50)
    window = store.window(None, 4, 10, 1 << 20)
    assert pace.allowed(window, 60)[0] == 0
    assert pace.allowed(window, 50 + SECOND)[0] == 2


def test_what_was_stored_later_goes_at_once():
    store = MemoryStore()
    store.append(b"a", b"", b"", 0)
    pace = OriginalPace(store.last_seq)
    pace.sent(store.window(None, 1, 1, 1 << 20), 1, 0)
    store.append(b"a", b"", b"", 9 * SECOND)
    assert pace.allowed(store.window(None, 2, 9, 1 << 20), 1)[0] == 1
