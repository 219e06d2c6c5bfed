"""Tombstone records: there and back, and never from damaged bytes."""

from __future__ import annotations

import pytest
from jetstream_server.store.blocks import tombstone
from jetstream_server.store.blocks.tombstone import Tombstone

STONES = [
    tombstone.started(7, 99, 3),
    tombstone.deleted([(1, 4), (9, 10)]),
    Tombstone(tombstone.FLOOR, 12),
    Tombstone(tombstone.SKIPPED, 5, 77),
]


@pytest.mark.parametrize("stone", STONES)
def test_there_and_back(stone):
    record = stone.encode()
    assert tombstone.decode(b"pad" + record, 3, 3 + len(record)) == (stone, 3 + len(record))
    for cut in range(len(record)):
        assert tombstone.decode(record, 0, cut) is None
    for at in range(len(record)):
        broken = bytearray(record)
        broken[at] ^= 1
        assert tombstone.decode(broken, 0, len(broken)) is None


def test_payloads():
    assert tombstone.started(7, 99, 3).floor() == 3
    assert list(tombstone.deleted([(1, 4), (9, 10)]).ranges()) == [(1, 4), (9, 10)]


def test_sequences_become_ranges():
    assert tombstone.as_ranges([]) == []
    assert tombstone.as_ranges([0, 1, 2, 5, 7, 8]) == [(0, 3), (5, 6), (7, 9)]
