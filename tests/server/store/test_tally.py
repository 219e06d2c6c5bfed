"""Bytes that stores hold together."""

from __future__ import annotations

from jetstream_server.store.memory import MemoryStore
from jetstream_server.store.tally import Holding, Tally


def test_a_tally_follows_its_stores() -> None:
    tally, one, two = Tally(), Holding(), Holding()
    one.add(5)
    one.count_in(tally)
    two.count_in(tally)
    two.add(7)
    one.add(-2)
    assert (tally.bytes, one.bytes, two.bytes) == (10, 3, 7)
    one.count_in(tally)
    assert tally.bytes == 10, "it counts once"
    other = Tally()
    one.count_in(other)
    assert (tally.bytes, other.bytes) == (7, 3)
    two.count_in(None)
    two.add(100)
    assert tally.bytes == 0


def test_a_memory_store_counts() -> None:
    tally, store = Tally(), MemoryStore()
    store.append(b"a", b"", b"xxx", 1)
    store.count_in(tally)
    store.append(b"b", b"", b"yy", 2)
    assert tally.bytes == store.state().bytes > 0
    store.purge(None, 0, 0)
    assert tally.bytes == 0
    store.append(b"b", b"", b"yy", 2)
    store.destroy()
    assert tally.bytes == 0
