"""The lock and the format of a whole store directory."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from jetstream_server.base.errors import StoreError
from jetstream_server.store.disk import OsDisk
from jetstream_server.store.store_folder import open_folder

STORE = Path("/store")


@pytest.fixture
def disk(sim_disk_module):
    return sim_disk_module.SimDisk(Random(1))


def test_second_server_is_refused_until_the_first_is_gone(tmp_path):
    folder = open_folder(tmp_path, OsDisk(), note="pid 17")
    with pytest.raises(StoreError, match=r"another server \(pid 17\) is using this store"):
        open_folder(tmp_path, OsDisk())
    folder.release()
    open_folder(tmp_path, OsDisk()).release()


def test_finds_accounts(disk):
    folder = open_folder(STORE, disk)
    assert folder.accounts() == []
    disk.put(folder.path / "A%2fB" / "streams" / "S" / "meta.json", b"")
    assert folder.accounts() == ["A/B"]


def test_newer_format(disk):
    disk.put(STORE / "jetstream" / "format.json", b'{"format": 2}')
    with pytest.raises(StoreError, match="format 2, made by a newer version"):
        open_folder(STORE, disk)


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b'{"format": "x"}'])
def test_damaged_format(disk, content):
    disk.put(STORE / "jetstream" / "format.json", content)
    with pytest.raises(StoreError, match="format file is damaged"):
        open_folder(STORE, disk)
    disk.put(STORE / "jetstream" / "format.json", b'{"format": 1}')
    open_folder(STORE, disk)


def test_a_genuine_servers_folder(disk):
    disk.put(STORE / "jetstream" / "$G" / "streams" / "S" / "meta.inf", b"{}")
    with pytest.raises(StoreError, match="written by nats-server"):
        open_folder(STORE, disk)


def test_read_only(disk):
    disk.is_read_only = True
    with pytest.raises(StoreError, match="cannot be used: Read-only file system"):
        open_folder(STORE, disk)
