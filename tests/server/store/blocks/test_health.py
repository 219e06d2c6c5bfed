"""Why a store serves no more, and what is left on the disk about it."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from jetstream_server.base.errors import StoreError
from jetstream_server.store.blocks.health import DAMAGED_NAME, REMEDY, Health
from jetstream_server.store.disk.commit import GroupCommit
from jetstream_server.store.file import FileStore

FOLDER = Path("/s/msgs")


@pytest.fixture
def commit(sim_disk_module):
    return GroupCommit(sim_disk_module.SimDisk(Random(1)))


@pytest.fixture
def health(commit):
    return Health(FOLDER, commit, FileStore(FOLDER, commit, is_fresh=True))


def test_it_is_well_until_something_is_wrong(health):
    health.check()
    health.take_offline(StoreError("sync failed", "/s/msgs/1.blk"))
    with pytest.raises(StoreError, match=r"^sync failed \(/s/msgs/1.blk\)$"):
        health.check()


def test_the_first_reason_is_told(health, commit):
    health.take_offline(StoreError("the store is closed"))
    health.take_offline(StoreError("a stored record is damaged", "/s/msgs/1.blk", 7))
    assert health.offline == "the store is closed"
    assert (health.notes, commit.has_fresh) == ([], False)


def test_damage_is_noted_on_the_disk_and_for_the_operator(health, commit):
    health.take_offline(StoreError("sync failed", "/s/msgs/1.blk", 0))
    assert health.notes == [REMEDY]
    assert commit.drain() == []
    assert commit.disk.read(FOLDER / DAMAGED_NAME) == b"sync failed (/s/msgs/1.blk at byte 0)\n"


def test_what_is_no_damage_leaves_no_file(health, commit):
    health.take_offline(StoreError("sync failed", "/s/msgs/1.blk"))
    assert (health.notes, commit.has_fresh) == ([], False)
