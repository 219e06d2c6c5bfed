"""The numbers of a store, whatever comes and goes."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from jetstream_server.store.blocks.block import Block
from jetstream_server.store.blocks.block_contents import BlockContents
from jetstream_server.store.blocks.block_list import BlockList
from jetstream_server.store.blocks.content_cache import ContentCache
from jetstream_server.store.blocks.health import Health
from jetstream_server.store.blocks.subjects import SubjectTable
from jetstream_server.store.disk.commit import GroupCommit
from jetstream_server.store.file import FileStore

FOLDER = Path("/s")


@pytest.fixture
def make(sim_disk_module):
    def make(first_seq=0):
        commit = GroupCommit(sim_disk_module.SimDisk(Random(1)))
        health = Health(FOLDER, commit, FileStore(FOLDER, commit, is_fresh=True))
        contents = BlockContents(ContentCache(commit.disk), SubjectTable(), health, 100)
        return BlockList(contents, first_seq)

    return make


def block(number, first_seq, last_seq):
    made = Block(number, FOLDER / f"{number}.blk", first_seq, last_seq)
    made.count = made.live = last_seq - first_seq + 1
    made.accounted, made.recorded = 40 * made.live, 50 * made.live
    return made


def test_a_list_that_was_never_used_begins_with_nothing(make):
    assert make().oldest() == (0, 0)
    state = make().state(0)
    assert (state.first_seq, state.last_seq, state.num_deleted) == (0, 0, 0)


def test_a_first_sequence_that_was_asked_for_is_shown(make):
    assert make(1).oldest() == (1, 0)
    state = make(50).state(0)
    assert (state.first_seq, state.last_seq, state.num_deleted) == (50, 49, 0)


def test_blocks_are_found_by_sequence(make):
    numbers = make()
    blocks = [block(1, 1, 10), block(2, 21, 30)]
    for each in blocks:
        numbers.adopt(each)
    found = [numbers.at(sequence) for sequence in (0, 1, 10, 11, 20, 21, 30, 31)]
    assert found == [None, blocks[0], blocks[0], None, None, blocks[1], blocks[1], None]
    assert [numbers.index_of(sequence) for sequence in (0, 1, 10, 11, 30, 31)] == [0, 0, 0, 1, 1, 2]


def test_what_comes_and_goes_is_counted(make):
    numbers = make()
    first = block(1, 1, 10)
    numbers.adopt(first)
    numbers.adopt(block(2, 11, 20))
    numbers.end_with(20, 7)
    assert (numbers.messages, numbers.holding.bytes) == (20, 800)
    numbers.discount(first, 4, 160, 200)
    assert (first.live, first.accounted, first.recorded) == (6, 240, 300)
    assert (numbers.messages, numbers.holding.bytes) == (16, 640)
    numbers.appended(3, 120, 23, 9)
    assert (numbers.messages, numbers.holding.bytes) == (19, 760)
    assert (numbers.last_seq, numbers.last_ts) == (23, 9)
    numbers.remove_front(1)
    assert [each.number for each in numbers.blocks] == [2]


def test_used_up_sequences_do_not_come_again(make):
    numbers = make()
    numbers.end_with(20, 7)
    numbers.use_up(12)
    assert (numbers.last_seq, numbers.last_ts) == (20, 7)
    numbers.use_up(30)
    assert (numbers.last_seq, numbers.last_ts) == (30, 7)
    assert numbers.oldest() == (31, 0)
    state = numbers.state(0)
    assert (state.first_seq, state.num_deleted) == (31, 0)
