"""Missing sequences of a store in files: as of one moment, whatever happens before and after."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from random import Random
from typing import Any

import pytest
from jetstream_server.store import gaps
from jetstream_server.store.blocks import block_gaps
from jetstream_server.store.disk.commit import GroupCommit
from jetstream_server.store.file import FileStore


def missing(store: FileStore) -> list[int]:
    state = store.state()
    return [n for n in range(max(state.first_seq, 1), state.last_seq + 1) if store.load(n) is None]


@pytest.mark.parametrize("seed", range(8))
def test_it_shows_one_moment(
    sim_disk_module: Any, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    for module in (gaps, block_gaps):
        monkeypatch.setattr(module, "LOOKED_AT_ONCE", 7)
    random = Random(seed)
    commit = GroupCommit(sim_disk_module.SimDisk(Random(1)))
    store = FileStore(Path("/s"), commit, block_bytes=2000)

    def change() -> None:
        """Let messages come, go and be skipped; blocks that are mostly dead are rewritten."""
        for _ in range(random.randrange(40)):
            store.append(b"s", b"", b"x" * 40, 5)
        if random.random() < 0.2:
            store.skip(random.randrange(20), 6)
        if store.last_seq:
            store.delete(random.sample(range(1, store.last_seq + 1), store.last_seq // 8))
        if random.random() < 0.2:
            store.truncate_front(store.first_seq + random.randrange(30))
        commit.drain()
        store.rest()

    prepared = []
    for _ in range(12):
        change()
        found, steps = store.gaps(), 0
        while not found.prepare():
            steps += 1
            if random.random() < 0.1:
                change()
        prepared.append(steps)
        expected = missing(store)
        assert store.deleted() == expected
        parts = []
        for part in found.parts():
            parts.append(part)
            if random.random() < 0.1:
                change()
        assert list(chain.from_iterable(parts)) == expected
        assert max(map(len, parts), default=0) < 60
    assert max(prepared) > 3, "blocks with gaps are looked up one by one"
