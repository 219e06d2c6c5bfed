"""What is remembered of a block, and for how long."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from jetstream_server.store.blocks import block_counts
from jetstream_server.store.blocks.block_counts import BlockCounts


@dataclass
class Block:
    number: int = 1
    version: int = 0
    count: int = 5
    live: int = 5


@pytest.mark.parametrize(
    "changed", [Block(version=1), Block(count=6, live=6), Block(live=4), Block(number=2)]
)
def test_a_count_holds_until_the_block_changes(changed: Block) -> None:
    counts = BlockCounts()
    assert counts.of(Block()) is None
    counts.note(Block(), 3)
    assert counts.of(Block()) == 3
    assert counts.of(changed) is None
    counts.note(changed, 0)
    assert counts.of(changed) == 0


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_counts, "_BLOCKS_MAX", 3)
    counts = BlockCounts()
    for number in range(4):
        counts.note(Block(number), number)
    assert [counts.of(Block(number)) for number in range(4)] == [None, None, None, 3]
