"""Index files: there and back, and never from damaged bytes."""

from __future__ import annotations

from array import array

import pytest
from jetstream_server.store.blocks import index
from jetstream_server.store.blocks.index import Entries, Summary


def make(*, sparse):
    entries = Entries(
        array("I", [40, 90]), array("I", [0, 1]), array("I", [0, 7] if sparse else [])
    )
    summary = Summary(
        first_seq=5,
        last_seq=12 if sparse else 6,
        entries=2,
        accounted=70,
        recorded=100,
        block_bytes=140,
        block_crc=1,
        first_ts=-1,
        last_ts=2**62,
        sparse=sparse,
        counts=array("I", [1, 1]),
        firsts=array("I", [0, 1]),
        lasts=array("I", [0, 1]),
        names=b"ab.c",
        lengths=array("H", [1, 3]),
        tombstones=b"stones",
    )
    return summary, entries


@pytest.mark.parametrize("sparse", [False, True])
def test_there_and_back(sparse):
    summary, entries = make(sparse=sparse)
    content = b"".join(index.encode(summary, entries))
    found = index.decode(content)
    assert found == summary
    again = index.decode_entries(content, found)
    assert list(again.positions) == [40, 90]
    assert list(again.subject_ids) == [0, 1]
    assert list(again.offsets) == ([0, 7] if sparse else [])


@pytest.mark.parametrize("sparse", [False, True])
def test_the_index_of_a_compressed_block_says_how_large_its_file_is(sparse):
    summary, entries = make(sparse=sparse)
    plain = b"".join(index.encode(summary, entries))
    assert index.decode(plain).file_bytes == 140
    content = plain + index.end(77)
    found = index.decode(content)
    assert (found.file_bytes, found.block_bytes) == (77, 140)
    assert list(index.decode_entries(content, found).positions) == [40, 90]
    for cut in range(len(plain) + 1, len(content)):
        assert index.decode(content[:cut]) is None


def test_damage_is_seen():
    summary, entries = make(sparse=True)
    content = b"".join(index.encode(summary, entries))
    for cut in range(len(content)):
        assert index.decode(content[:cut]) is None
    for at in range(len(content)):
        broken = bytearray(content)
        broken[at] ^= 1
        found = index.decode(bytes(broken))
        if summary.entries_at - 4 < at < summary.entries_at and found is not None:
            continue  # padding
        assert found is None or index.decode_entries(bytes(broken), found) is None


def test_long_subjects_are_not_copied():
    """An index may be as long as its block: to join its parts took 10 ms for 8 MB."""
    summary, entries = make(sparse=False)
    summary.names = b"a" * 60_000
    summary.lengths = array("H", [20_000, 40_000])
    parts = index.encode(summary, entries)
    assert [part.obj is summary.names for part in parts if len(part) == 60_000] == [True]
    assert index.decode(b"".join(parts)) == summary


def test_entries_may_grow_while_an_index_waits_to_be_written():
    summary, entries = make(sparse=False)
    parts = index.encode(summary, entries)
    entries.positions.append(7)
    assert list(index.decode_entries(b"".join(parts), summary).positions) == [40, 90]
