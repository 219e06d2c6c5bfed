"""Which of many sequences are stored, over blocks with and without gaps."""

from __future__ import annotations

from array import array
from pathlib import Path
from random import Random
from typing import Any

import pytest
from jetstream_server.store.blocks.held import sort_out
from jetstream_server.store.disk.commit import GroupCommit
from jetstream_server.store.file import FileStore


@pytest.mark.parametrize("seed", range(20))
def test_each_sequence_is_held_or_gone(sim_disk_module: Any, seed: int) -> None:
    random = Random(seed)
    commit = GroupCommit(sim_disk_module.SimDisk(random))
    store = FileStore(Path("/s"), commit, block_bytes=1000)
    live: set[int] = set()
    for number in range(200):
        gap = random.choice([0, 0, 0, 5])
        live.add(store.append(b"s.%d" % number, b"", b"x" * 20, 5, store.last_seq + 1 + gap))
    gone = random.sample(sorted(live), 90)
    store.delete(gone)
    live -= set(gone)
    commit.drain()
    asked = array("Q", sorted(random.choices(range(store.last_seq + 20), k=300)))
    start, stop = sorted(random.randrange(301) for _ in range(2))
    held, others = sort_out(store._list, store._reading._contents, asked, start, stop)
    assert list(held) == [each for each in asked[start:stop] if each in live]
    assert list(others) == [at for at in range(start, stop) if asked[at] not in live]
    assert store.held(asked) == array("Q", [each for each in asked if each in live])


def test_blocks_without_gaps_are_not_read(
    sim_disk_module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To read what six blocks of 300,000 messages hold took 17 ms."""
    commit = GroupCommit(sim_disk_module.SimDisk(Random(1)))
    store = FileStore(Path("/s"), commit, block_bytes=1000)
    for number in range(200):
        store.append(b"s.%d" % number, b"", b"x" * 20, 5)
    store.delete([1, 2, 50, 51, 120])
    commit.drain()
    contents = store._reading._contents
    monkeypatch.setattr(type(contents), "of", lambda *_: pytest.fail("it was read"))
    asked = array("Q", range(1, 201))
    held, others = sort_out(store._list, contents, asked, 0, 200)
    assert list(others) == [0, 1, 49, 50, 119]
    assert len(held) == 195
