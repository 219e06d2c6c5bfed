"""The lock and the format of a whole store directory."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from jetstream_server.base.errors import StoreError
from jetstream_server.store.disk.disk import OsDisk
from jetstream_server.store.disk.store_folder import encode_format, open_folder

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


FORMAT = STORE / "jetstream" / "format.json"


def test_newer_format(disk):
    disk.put(FORMAT, encode_format(3))
    with pytest.raises(StoreError, match="format 3, made by a newer version"):
        open_folder(STORE, disk)


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"1", b'{"format": "x"}', b'{"format": 3}'])
def test_a_damaged_format_is_written_anew(disk, content):
    disk.put(FORMAT, content)
    assert open_folder(STORE, disk).note == f"{FORMAT} was damaged and is written anew"
    assert disk.read(FORMAT) == encode_format(2)


def test_no_flipped_bit_of_the_format_keeps_a_server_from_starting(disk):
    sound = encode_format(2)
    for bit in range(8 * len(sound)):
        content = bytearray(sound)
        content[bit // 8] ^= 1 << bit % 8
        disk.put(FORMAT, bytes(content))
        open_folder(STORE, disk).release()
        assert disk.read(FORMAT) == sound


def test_the_format_of_the_first_version_gets_a_checksum(disk):
    disk.put(FORMAT, b'{"format":1,"by":"jetstream-spark"}\n')
    assert open_folder(STORE, disk).note == ""
    assert disk.read(FORMAT) == encode_format(2)


def test_its_own_name_is_durable_once_it_is_open(disk):
    disk.add_folder(STORE / "jetstream")  # the process ended before the name was synced
    sync_folder, synced = disk.sync_folder, []
    disk.sync_folder = lambda path: (synced.append(path), sync_folder(path))[1]
    open_folder(STORE, disk).release()
    assert STORE in synced


def test_a_genuine_servers_folder(disk):
    disk.put(STORE / "jetstream" / "$G" / "streams" / "S" / "meta.inf", b"{}")
    with pytest.raises(StoreError, match="written by nats-server"):
        open_folder(STORE, disk)


def test_read_only(disk):
    disk.is_read_only = True
    with pytest.raises(StoreError, match="cannot be used: Read-only file system"):
        open_folder(STORE, disk)
