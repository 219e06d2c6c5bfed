"""Direct gets looked for in slices, compared with a plain look at all messages."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from jetstream_server.core.workload import Workload
from jetstream_server.jetstream.streams.reads import direct_search
from jetstream_server.jetstream.streams.reads.direct_search import DirectSearch, Steps
from jetstream_server.jetstream.streams.reads.direct_selection import Selection
from jetstream_server.store import memory
from jetstream_server.store.memory import MemoryStore


class Replies:
    """Takes answers, for a reply that may lead anywhere."""

    target = None
    has_headers = False

    def __init__(self) -> None:
        self.added: list[tuple[bytes, bytes]] = []

    def add(self, reply: bytes, headers: bytes, payload: bytes) -> None:
        self.added.append((headers, payload))


def finished(steps: Steps) -> tuple[int, bytes]:
    """Return how many slices it took, and the refusal."""
    count = 1
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return count, end.value
        count += 1


@pytest.mark.parametrize("seed", range(20))
def test_a_batch_is_what_a_plain_look_finds(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(seed)
    monkeypatch.setattr(direct_search, "_SLICE_MESSAGES", random.choice((1, 3, 64)))
    monkeypatch.setattr(direct_search, "_SLICE_WINDOWS", random.choice((1, 4)))
    store = MemoryStore()
    for number in range(40):
        store.append(b"s.%d" % random.randrange(4), b"", b"%d" % number, 5)
    store.delete(random.sample(range(1, 41), 10))
    search = DirectSearch(b"S", store, Workload())
    for _ in range(20):
        seq, limit = random.randrange(1, 45), random.randrange(1, 12)
        subject = random.choice(["", "s.1", "s.*", "s.none"])
        wanted = Selection(seq=seq, batch=limit, next_by_subj=subject)
        replies: Any = Replies()
        _, refusal = finished(search.batch(replies, b"r", wanted))
        matching: Any = store.filter([subject.encode()]) if subject else None
        expected = [
            found.payload
            for each in range(seq, 41)
            if (found := store.load(each)) and (matching is None or matching.wants(found.subject))
        ]
        if not expected:
            assert refusal == direct_search.NOT_FOUND
            assert not replies.added
            continue
        assert refusal == b""
        assert [payload for _, payload in replies.added[:-1]] == expected[:limit]
        pending = b"Nats-Num-Pending: %d\r\n" % (len(expected) - len(expected[:limit]))
        assert pending in replies.added[-1][0]


def test_a_little_takes_one_slice() -> None:
    store = MemoryStore()
    for number in range(3):
        store.append(b"s.%d" % number, b"", b"", 5)
    search, replies = DirectSearch(b"S", store, Workload()), Replies()
    for steps in (
        search.following(replies, b"r", Selection(seq=2, next_by_subj="s.*")),  # type: ignore[arg-type]
        search.batch(replies, b"r", Selection(seq=1, batch=3)),  # type: ignore[arg-type]
        search.multi_last(replies, b"r", Selection(multi_last=["s.>"])),  # type: ignore[arg-type]
    ):
        assert finished(steps) == (1, b"")


def test_a_slice_passes_over_so_many_messages_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four blocks with 130,000 messages each were read in one slice, in 30 ms."""
    monkeypatch.setattr(memory, "_LOOKED_AT_ONCE", 10)
    monkeypatch.setattr(direct_search, "_SLICE_WINDOWS", 1000)
    monkeypatch.setattr(direct_search, "_SLICE_PASSED", 20)
    store = MemoryStore()
    for number in range(200):
        store.append(b"s.%d" % (number // 150), b"", b"", 5)
    search = DirectSearch(b"S", store, Workload())
    replies: Any = Replies()
    for subject, slices in (("s.1", 8), ("s.2", 10), ("s.0", 1)):
        steps = search.following(replies, b"r", Selection(seq=1, next_by_subj=subject))
        assert finished(steps)[0] == slices
