"""Reading stored messages through the store's windows."""

from __future__ import annotations

import pytest
from jetstream_server.jetstream.streams.messages import scan
from jetstream_server.store.memory import MemoryStore


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore()
    for n in range(1, 11):
        store.append(b"s.%d" % (n % 2), b"NATS/1.0\r\n\r\n" if n % 3 else b"", b"x" * n, n)
    store.delete([4, 10])
    return store


def test_stored(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "WINDOW_MESSAGES", 3)
    loaded = [store.load(n) for n in range(2, 11)]
    assert list(scan.stored(store, 2)) == [
        (m.sequence, m.timestamp, m.subject, m.headers) for m in loaded if m
    ]
    assert list(scan.stored(MemoryStore(), 0)) == []


def test_windows_without_the_bytes_are_passed_over(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "WINDOW_MESSAGES", 2)
    assert list(scan.stored(store, 1, b"Nats-TTL")) == []
    store.append(b"s.0", b"NATS/1.0\r\nNats-TTL: 1\r\n\r\n", b"", 11)
    found = [sequence for sequence, *_ in scan.stored(store, 1, b"Nats-TTL")]
    assert 11 in found
    assert len(found) <= 2
    window = store.window(None, 1, 5, 1000)
    window.buffer = memoryview(bytes(window.buffer))
    assert scan.occurs(b"NATS/1.0", window)
    assert not scan.occurs(b"NATS/2.0", window)


def test_messages(store: MemoryStore) -> None:
    wanted = store.filter([b"s.0"])
    for bytes_max in (1, 1000):
        found = list(scan.messages(store, wanted, 1, 3, bytes_max))
        assert found == [store.load(n) for n in (2, 6, 8)]
    assert list(scan.messages(store, None, 9, 100, 100)) == [store.load(9)]
