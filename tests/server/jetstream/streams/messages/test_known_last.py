"""What was the last sequence once, brought up to date, is what a look at everything finds."""

from __future__ import annotations

from random import Random

import pytest
from jetstream_server.jetstream.streams.messages.known_last import (
    KnownLast,
    RecentSubjects,
    is_little,
)
from jetstream_server.store.memory import MemoryStore

PATTERNS = (b"a.*", b"*.1", b">", b"none.*", b"a.>")


def found(store: MemoryStore, pattern: bytes) -> int:
    newest = store.load_last(store.filter([pattern]))
    return newest.sequence if newest else 0


@pytest.mark.parametrize("seed", range(20))
def test_it_is_what_a_look_finds(seed: int) -> None:
    random, store = Random(seed), MemoryStore()
    known: list[KnownLast] = []
    for number in range(60):
        act = random.randrange(8)
        if act < 5:
            store.append(random.choice((b"a.1", b"a.2", b"b.1", b"b.2")), b"", b"", number)
        elif act == 5 and store.last_seq:
            store.delete([random.randrange(store.last_seq) + 1])
        elif act == 6 and random.random() < 0.3:
            store.purge(None, 0, 0)
        else:
            known.append(KnownLast(random.choice(PATTERNS), store))
        recent = RecentSubjects()
        for each in known:
            assert each.now(store, recent) == found(store, each.pattern), each.pattern


def test_what_is_little() -> None:
    store = MemoryStore()
    store.append(b"a.1", b"", b"", 1)
    known = [KnownLast(pattern, store) for pattern in PATTERNS]
    assert is_little(known, store, 0)
    for _ in range(3):
        store.append(b"a.2", b"", b"", 1)
    assert is_little(known, store, 3 * len(PATTERNS))
    assert not is_little(known, store, 3 * len(PATTERNS) - 1)
    store.delete([1])
    assert not is_little(known, store, 1000), "what was last is gone"
    assert is_little(known[3:4], store, 1000)
